"""Clients that send requests: players come and go and get all kinds of requests. One client also records what the node
has acknowledged.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, Final

import aiohttp

from tools.soak.listeners import listen_badly
from tools.soak.sources import Sources

_GONE: Final = (aiohttp.ClientError, OSError, TimeoutError)
_FILTERS: Final[tuple[dict[str, Any], ...]] = (
    {"volume": 0.3},
    {"eq": [{"band": 2, "gain_db": 9}, {"band": 10, "gain_db": -6}]},
    {"timescale": {"speed": 1.4, "pitch": 0.8}},
    {"echo": {}, "compressor": {}, "normalization": {}},
    {"karaoke": {}, "lowPass": {"smoothing": 20}, "rotation": {"rotationHz": 0.5}},
    {"tremolo": {}, "vibrato": {}, "distortion": {"scale": 2}},
    {"reset": True},
)


class Client:
    """Asks the node that is at `address()` now; a node that is away is waited for."""

    def __init__(self, http: aiohttp.ClientSession, address: Callable[[], str]) -> None:
        self.http = http
        self.address = address
        self.statuses: dict[int, int] = {}
        self.failures: list[str] = []

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any, bool]:
        """Status, JSON, and whether the change is kept. Status 0: no answer came."""
        try:
            async with self.http.request(
                method, f"{self.address()}{path}", json=body, timeout=aiohttp.ClientTimeout(total=30)
            ) as answer:
                value = await answer.json() if answer.content_type == "application/json" else None
                self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
                if answer.status >= 500 and answer.status != 503:
                    self.failures.append(f"{method} {path}: {answer.status} {value}")
                return answer.status, value, "Tonearm-Unsaved" not in answer.headers
        except _GONE:
            await asyncio.sleep(0.2)
            return 0, None, False


async def churn(client: Client, sources: Sources, name: str, seed: int) -> None:
    """One player after the other, for ever: each is created, plagued for some seconds, and deleted."""
    dice, life = random.Random(seed), 0
    while True:
        life += 1
        player = f"/v0/players/churn-{name}-{life}"
        body = {"id": player.rpartition("/")[2], "uri": sources.any()}
        if (await client.ask("POST", "/v0/players", body))[0] != 201:
            await asyncio.sleep(0.5)
            continue
        visits = [
            asyncio.create_task(listen_badly(client.http, client.address() + player, dice))
            for _ in range(dice.randrange(4))
        ]
        try:
            for _ in range(dice.randrange(3, 15)):
                await _plague(client, player, sources, dice)
                await asyncio.sleep(dice.choice((0.0, 0.1, 0.5, 1.5)))
            await client.ask("DELETE", player)
        finally:
            for visit in visits:
                visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)


async def _plague(client: Client, player: str, sources: Sources, dice: random.Random) -> None:
    uri = sources.any()
    orders: tuple[tuple[str, str, Any], ...] = (
        ("POST", "/queue", {"uri": uri}),
        ("POST", "/queue", {"uri": uri, "index": 0}),
        ("POST", "/queue", {"tracks": [{"uri": sources.any()} for _ in range(5)]}),
        ("PUT", "/track", {"uri": uri}),
        ("POST", "/skip", None),
        ("POST", "/previous", None),
        ("POST", "/pause", None),
        ("POST", "/play", None),
        ("PATCH", "/position", {"position": dice.randrange(40_000)}),
        ("PATCH", "/loop", {"mode": dice.choice(("none", "track", "queue"))}),
        ("PATCH", "/filters", dice.choice(_FILTERS)),
        ("PATCH", "/crossfade", {"durationMs": dice.choice((0, 500, 3000)), "onSkip": True}),
        ("PATCH", "/metadata", {"value": {"step": dice.random()}}),
        ("POST", "/overlays", {"uri": dice.choice(sources.good)}),
        ("POST", "/queue/shuffle", None),
        ("DELETE", "/queue", None),
        ("GET", "/state", None),
        ("GET", "/artwork", None),
    )
    method, path, body = dice.choice(orders)
    await client.ask(method, player + path, body)


class Remembered:
    """A paused player whose queue grows, and each track in it that the node has acknowledged."""

    PLAYER: Final = "/v0/players/remembered"
    _LONGEST: Final = 500

    def __init__(self, client: Client, uri: str) -> None:
        self._client = client
        self._uri = uri
        self.acknowledged: list[str] = []
        self.changes = self.unsaved = 0
        self.lost: list[str] = []

    async def grow(self) -> None:
        await self._client.ask("POST", "/v0/players", {"id": "remembered", "uri": self._uri, "paused": True})
        while True:
            status, value, is_kept = await self._client.ask("POST", f"{self.PLAYER}/queue", {"uri": self._uri})
            if status == 201:
                self.changes += 1
                self.unsaved += not is_kept
                if is_kept:
                    self.acknowledged.append(value["trackId"])
            if len(self.acknowledged) > self._LONGEST:
                self.acknowledged.clear()
                await self._client.ask("DELETE", f"{self.PLAYER}/queue")
            await asyncio.sleep(0.02)

    async def compare(self) -> None:
        """To be called after a restart, while nothing grows."""
        status, value, _ = await self._client.ask("GET", f"{self.PLAYER}/state")
        there = set(value["queue"]) if status == 200 else set()
        self.lost += [track_id for track_id in self.acknowledged if track_id not in there]
        self.acknowledged = list(value["queue"]) if status == 200 else []


async def end_everything(client: Client) -> None:
    """Deletes all players but the steady ones."""
    with contextlib.suppress(KeyError, TypeError):
        _, players, _ = await client.ask("GET", "/v0/players")
        for player in players:
            if not player["id"].startswith("steady"):
                await client.ask("DELETE", f"/v0/players/{player['id']}")

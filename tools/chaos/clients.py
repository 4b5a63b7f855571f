"""Clients that change players at all nodes, and record what was acknowledged."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import aiohttp

from tools.chaos.listening import GONE
from tools.chaos.world import World

_ANSWER_WITHIN_S: Final = 60.0  # a node that stands still answers when it goes on
_MOST_WAITING: Final = 40
_MOST_GUESTS: Final = 5
_PAUSE_S: Final = 0.3


class Player:
    """A player and what it must be. `may_be`: of each setting what was acknowledged, and what may be set since."""

    def __init__(self, player_id: str) -> None:
        self.id, self.path = player_id, f"/v0/players/{player_id}"
        self.changing = asyncio.Lock()
        self.waiting: list[str] = []  # tracks that were acknowledged, in their order
        self.taken_out: set[str] = set()
        self.may_be: dict[str, list[Any]] = {"metadata": [None], "volume": [1.0], "paused": [False]}

    def difference(self, state: Any) -> str:
        """What the player has not, that was acknowledged; empty when it is as it must be."""
        found = {"metadata": state["metadata"], "volume": state["filters"]["volume"], "paused": state["paused"]}
        wrong = [f"{name} is {value}" for name, value in found.items() if value not in self.may_be[name]]
        there = [one for one in state["queue"] if one in self.waiting]
        if there != self.waiting:
            wrong.append(f"of its queue {set(self.waiting) - set(there) or 'the order'} is lost")
        if back := self.taken_out & set(state["queue"]):
            wrong.append(f"{back} are in its queue again")
        return f"{', '.join(wrong)}; it may be {self.may_be}" if wrong else ""


class Clients:
    """`guests` come and go: True for those that must be there, False for those that must not, None for others."""

    def __init__(self, world: World, http: aiohttp.ClientSession, song: str, seed: int) -> None:
        self._world, self._http, self._song, self._dice = world, http, song, random.Random(seed)
        self.players = [Player(name) for name in ("s0", "s1", "s2", "m0")]  # only the last one is paused
        self.guests: dict[str, bool | None] = {}
        self.answers = Counter[int]()
        self._number, self.is_over = 0, False

    async def ask(self, method: str, path: str, body: Any = None, allowed: int = 503) -> tuple[int, Any, bool]:
        """Status, JSON, and whether the change is acknowledged for good, by any node. Status 0: no answer came."""
        node = self._dice.choice([*self._world.nodes.values()])
        limit = aiohttp.ClientTimeout(total=_ANSWER_WITHIN_S)
        try:
            async with self._http.request(method, node.url + path, json=body, timeout=limit) as answer:
                value = await answer.json() if answer.content_type == "application/json" else None
                is_kept = answer.status < 300 and "Tonearm-Unsaved" not in answer.headers
                found = answer.status, value, is_kept
                if answer.status not in (200, 201, 204, 503, allowed):
                    self._world.blame(f"{method} {path} was answered with {answer.status} {value}")
        except GONE:
            await asyncio.sleep(0.5)  # what is on its way to another node is done by then
            found = 0, None, False
        self.answers[found[0]] += 1
        return found

    async def change(self, player: Player) -> None:
        kinds = ["add", "add", "take out", "metadata", "volume", "seek", *["paused"] * 3 * (player.id == "m0")]
        while not self.is_over:
            async with player.changing:
                await self._change(player, self._dice.choice(kinds))
            await asyncio.sleep(self._dice.uniform(0, 2 * _PAUSE_S))

    async def _change(self, player: Player, kind: str) -> None:
        if kind == "add" and len(player.waiting) < _MOST_WAITING:
            _, value, is_kept = await self.ask("POST", f"{player.path}/queue", {"uri": self._song})
            player.waiting += [value["trackId"]] if is_kept else []
        elif kind == "take out" and player.waiting:
            track_id = player.waiting.pop(self._dice.randrange(len(player.waiting)))
            if (await self.ask("DELETE", f"{player.path}/queue/{track_id}"))[2]:
                player.taken_out.add(track_id)
        elif kind == "seek":
            await self.ask("PATCH", f"{player.path}/position", {"position": self._dice.randrange(9000)})
        else:
            await self.adjust(player, kind if kind in player.may_be else "metadata")

    async def adjust(self, player: Player, name: str, paused: bool | None = None) -> tuple[int, Any, bool]:
        self._number += 1
        value: Any = {"n": self._number}
        if name == "paused":
            value = self._dice.random() < 0.5 if paused is None else paused
            answer = await self.ask("POST", f"{player.path}/{'pause' if value else 'play'}")
        elif name == "volume":
            value = self._number / 10_000
            answer = await self.ask("PATCH", f"{player.path}/filters", {"volume": value})
        else:
            answer = await self.ask("PATCH", f"{player.path}/metadata", {"value": value})
        player.may_be[name] = [value] if answer[2] else [*player.may_be[name], value]
        return answer

    async def visit(self) -> None:
        """Players come and go."""
        while not self.is_over:
            there = [one for one, is_there in self.guests.items() if is_there]
            if len(there) >= _MOST_GUESTS or (there and self._dice.random() < 0.4):
                await self._send_away(self._dice.choice(there))
            else:
                guest = f"g{len(self.guests)}"
                is_kept = (await self.ask("POST", "/v0/players", {"id": guest, "uri": self._song}))[2]
                self.guests[guest] = is_kept or None
            await asyncio.sleep(self._dice.uniform(0, 4 * _PAUSE_S))

    async def _send_away(self, guest: str) -> None:
        was, self.guests[guest] = self.guests[guest], None
        status, _, is_kept = await self.ask("DELETE", f"/v0/players/{guest}", allowed=503 if was else 404)
        if is_kept or (status == 404 and was is None):
            self.guests[guest] = False

    async def compare(self, within_s: float) -> None:
        """Each player takes a change that is kept, plays, and is as it must be, whoever is asked."""
        await asyncio.gather(*(self._compare(player, self._world.limit(within_s)) for player in self.players))

    async def _compare(self, player: Player, is_late: Callable[[], bool]) -> None:
        async with player.changing:
            for name in ("metadata", "volume", "paused"):
                while not (answer := await self.adjust(player, name, paused=False))[2]:
                    if is_late():
                        self._world.blame(f"{player.id} takes no change that is kept: {answer}")
                        return
                    await asyncio.sleep(0.1)
            for name, node in self._world.nodes.items():
                state = await node.request("GET", f"{player.path}/state")
                if different := player.difference(state.json()) if state.status == 200 else state.body.decode():
                    self._world.blame(f"{player.id}, asked for at {name}: {different}")

    async def end(self) -> set[str]:
        """Deletes the guests of whom nobody knows, and returns all players that there must be."""
        is_late = self._world.limit(_ANSWER_WITHIN_S)
        while unknown := [one for one, is_there in self.guests.items() if is_there is None]:
            assert not is_late(), f"{unknown} cannot be deleted"
            await asyncio.gather(*map(self._send_away, unknown))
        return {player.id for player in self.players} | {one for one, is_there in self.guests.items() if is_there}

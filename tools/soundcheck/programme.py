"""The programme of a sound check: the requests to the player, part by part, with the time of each."""

import asyncio
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from tools.soundcheck.recording import HeardEvent, until


@dataclass(frozen=True, slots=True)
class Mark:
    """Something done: its name, when it was answered (seconds, monotonic), how long the answer took, its status."""

    name: str
    at_s: float
    took_ms: float
    status: int


@dataclass(slots=True)
class Player:
    """A player of the node under test, as a client sees it."""

    http: aiohttp.ClientSession
    base: str
    events: list[HeardEvent] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    async def call(
        self, method: str, path: str, body: Any = None, wanted: int | tuple[int, ...] = (200, 201, 204)
    ) -> Any:
        begun_s = time.monotonic()
        async with self.http.request(method, self.base + path, json=body) as reply:
            answer = await reply.json(content_type=None) if reply.status != 204 else None
        now_s = time.monotonic()
        self.marks.append(Mark(f"{method} {path} {body or ''}".strip(), now_s, (now_s - begun_s) * 1000, reply.status))
        if reply.status not in ((wanted,) if isinstance(wanted, int) else wanted):
            self.wrong.append(f"{method} {path} {body}: {reply.status} {answer}")
        return answer

    async def state(self) -> dict[str, Any]:
        state: dict[str, Any] = await self.call("GET", "")
        return state

    def seen(self, kind: str) -> list[dict[str, Any]]:
        return [event.fields for event in self.events if event.fields["op"] == kind]

    async def wait_for(self, kind: str, count: int, timeout_s: float = 15.0) -> None:
        if not await until(lambda: len(self.seen(kind)) >= count, timeout_s):
            self.wrong.append(f"{kind} number {count} did not come within {timeout_s:g} s")

    async def next_after(self, kind: str, action: Any, timeout_s: float = 15.0) -> None:
        count = len(self.seen(kind))
        await action
        await self.wait_for(kind, count + 1, timeout_s)


EFFECTS: list[dict[str, Any]] = [
    {"volume": 0.5},
    {"volume": 1.0, "eq": [{"band": 2, "gain_db": 6}, {"band": 8, "gain_db": -6}, {"band": 12, "gain_db": 3}]},
    {"eq": []},
    {"karaoke": {}},
    {"karaoke": None, "timescale": {"speed": 1.5}},
    {"timescale": {"pitch": 1.3}},
    {"timescale": {"rate": 0.8}},
    {"timescale": None, "tremolo": {"frequency": 5, "depth": 0.6}},
    {"tremolo": None, "vibrato": {"frequency": 4, "depth": 0.4}},
    {"vibrato": None, "rotation": {"rotationHz": 0.3}},
    {"rotation": None, "distortion": {"sinScale": 0.5, "offset": 0.1}},
    {
        "distortion": None,
        "channelMix": {"leftToLeft": 0.5, "leftToRight": 0.5, "rightToLeft": 0.5, "rightToRight": 0.5},
    },
    {"channelMix": None, "lowPass": {"smoothing": 20}},
    {"lowPass": {"frequencyHz": 1000}},
    {"lowPass": None, "highPass": {"frequencyHz": 400}},
    {"highPass": None, "echo": {"delayMs": 200, "decay": 0.5}},
    {"echo": None, "compressor": {"thresholdDb": -30, "makeupDb": 6}},
    {"compressor": None, "normalization": {"targetLufs": -18}},
    {"reset": True},
]


async def effects(player: Player, clips: list[str]) -> None:
    for filters in EFFECTS:
        await player.call("PATCH", "/filters", filters)
        await asyncio.sleep(0.7)


async def seeks(player: Player, clips: list[str]) -> None:
    for body in ({"position": 10_000}, {"offset": -4_000}, {"position": 0}, {"offset": 2_500}):
        await player.next_after("Seek", player.call("PATCH", "/position", body))
        await asyncio.sleep(0.5)
    for step in range(20):
        await player.call("PATCH", "/position", {"position": 1000 * (20 - step)})
    await asyncio.sleep(0.5)
    state = await player.state()
    if not 1000 <= state["position"] <= 2500:
        player.wrong.append(f"after twenty seeks the player is at {state['position']} ms, not soon after 1000")
    await player.call("POST", "/pause")
    await player.call("PATCH", "/position", {"position": 5_000})
    await asyncio.sleep(0.3)
    await player.call("POST", "/play")
    await asyncio.sleep(0.5)


async def queue(player: Player, clips: list[str]) -> None:
    answer = await player.call("POST", "/queue", {"tracks": [{"uri": clip, "endMs": 900} for clip in (clips * 5)[:5]]})
    ids = answer["trackIds"]
    await player.call("PATCH", f"/queue/{ids[4]}", {"index": 0})
    await player.call("DELETE", f"/queue/{ids[3]}")
    waiting = [item["id"] for item in await player.call("GET", "/queue")]
    if waiting != [ids[4], ids[0], ids[1], ids[2]]:
        player.wrong.append("the queue's order is not that of its edits")
    await player.next_after("TrackStart", player.call("POST", "/skip", {"to": ids[0]}))
    if (await player.state())["trackId"] != ids[0]:
        player.wrong.append("a skip to a track plays another")
    starts = len(player.seen("TrackStart"))
    await player.wait_for("TrackStart", starts + 2)
    await player.next_after("TrackStart", player.call("POST", "/previous"))
    await asyncio.sleep(0.3)
    await player.next_after("TrackStart", player.call("PUT", "/track", {"uri": clips[0]}))
    await asyncio.sleep(0.3)
    await player.next_after("TrackEnd", player.call("DELETE", "/track"))
    await asyncio.sleep(0.3)
    await player.call("POST", "/queue/shuffle")
    await player.call("DELETE", "/queue")
    await player.next_after("TrackStart", player.call("POST", "/play"))
    await asyncio.sleep(0.5)


async def cut_tracks(player: Player, clips: list[str]) -> None:
    """One clip cut into four that join without a gap."""
    cuts = [{"uri": clips[0], "startMs": start, "endMs": start + 600} for start in range(3000, 5400, 600)]
    starts = len(player.seen("TrackStart"))
    await player.call("PUT", "/track", cuts[0])
    await player.call("POST", "/queue", {"tracks": [*cuts[1:], {"uri": clips[0]}]})
    await player.wait_for("TrackStart", starts + 5)
    await asyncio.sleep(0.3)


async def crossfade(player: Player, clips: list[str]) -> None:
    await player.call("PATCH", "/crossfade", {"durationMs": 1000, "onSkip": True})
    await player.call("POST", "/queue", {"tracks": [{"uri": clip} for clip in clips[:4]]})
    await asyncio.sleep(0.6)
    await player.next_after("TrackStart", player.call("POST", "/skip"))
    await asyncio.sleep(0.3)
    await player.call("PATCH", "/filters", {"volume": 0.6})
    await asyncio.sleep(0.3)
    await player.next_after("TrackStart", player.call("POST", "/skip"))
    await asyncio.sleep(0.2)
    await player.next_after("TrackStart", player.call("POST", "/skip"))
    await asyncio.sleep(0.3)
    await player.call("POST", "/pause")
    await asyncio.sleep(0.3)
    await player.call("POST", "/play")
    await asyncio.sleep(1.2)
    await player.call("PATCH", "/filters", {"volume": 1.0})
    await player.call("PATCH", "/crossfade", {"durationMs": 0})


async def overlays(player: Player, clips: list[str]) -> None:
    bell = clips[-1]

    async def over(seconds: float, **fields: Any) -> None:
        await player.next_after("OverlayStart", player.call("POST", "/overlays", {"uri": bell, **fields}))
        await asyncio.sleep(seconds)

    await over(1.0)
    await player.call("POST", "/pause")
    await over(1.0)
    await player.call("POST", "/play")
    for _ in range(8):
        await player.call("POST", "/overlays", {"uri": bell, "duckDb": -6})
    await player.call("POST", "/overlays", {"uri": bell}, wanted=429)
    await player.call("PATCH", "/position", {"position": 2000})
    await player.call("POST", "/queue", {"uri": clips[0]})
    await player.next_after("TrackStart", player.call("POST", "/skip"))
    await asyncio.sleep(1.5)
    await player.call("DELETE", "/track")
    await over(1.0)
    await player.next_after("TrackStart", player.call("POST", "/play"))


async def killed_decoder(player: Player, clips: list[str]) -> None:
    for _ in range(3):
        process = (await player.state())["quality"]["decoderProcess"]
        os.kill(process, signal.SIGKILL)
        await asyncio.sleep(1.5)


async def bad_tracks(player: Player, clips: list[str]) -> None:
    """Tracks that cannot play end with an event that explains, and the next one plays."""
    missing = str(Path(clips[0]).with_name("not-there.flac"))
    await player.call("DELETE", "/queue")
    await player.call("POST", "/queue", {"tracks": [{"uri": missing}, {"uri": clips[1]}]})
    failures = len(player.seen("TrackException"))
    await player.next_after("TrackStart", player.call("POST", "/skip"))
    if len(player.seen("TrackException")) != failures + 1:
        player.wrong.append("a missing file was not told")
    await asyncio.sleep(0.5)


async def broken_source(player: Player, clips: list[str]) -> None:
    """A server that stops in the middle of a track: it ends with an event that explains, and the next one plays."""
    whole = Path(clips[0]).read_bytes()

    async def half(request: web.BaseRequest) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"Content-Length": str(len(whole))})
        await reply.prepare(request)
        await reply.write(whole[: len(whole) // 10])
        await asyncio.sleep(1.0)
        server.close()
        assert request.transport is not None
        request.transport.abort()
        return reply

    server = await asyncio.get_running_loop().create_server(web.Server(half), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    failures = len(player.seen("TrackException"))
    await player.call("PUT", "/track", {"uri": f"http://127.0.0.1:{port}/{Path(clips[0]).name}"})
    await player.call("POST", "/queue", {"uri": clips[1]})
    await player.wait_for("TrackException", failures + 1, 60.0)
    if (told := player.seen("TrackException")[failures:]) and told[0]["error"]["code"] not in SOURCE_IS_GONE:
        player.wrong.append(f"a server that stopped was told as {told[0]['error']}")
    starts = len(player.seen("TrackStart"))
    await until(lambda: len(player.seen("TrackStart")) > starts, 2.0)
    await asyncio.sleep(0.5)
    if (await player.state())["track"]["info"]["uri"] != clips[1]:
        player.wrong.append("the track after a broken one does not play")


SOURCE_IS_GONE = ("connect_failed", "connection_lost")

PARTS = [effects, seeks, queue, cut_tracks, crossfade, overlays, killed_decoder, bad_tracks, broken_source]

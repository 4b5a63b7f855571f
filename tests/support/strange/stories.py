"""What happens to a player with strange files: a story for each seed, told to a running node.

At the end the player has to play an ordinary file.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import aiohttp
import numpy as np

from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media
from tests.support.running_node import RunningNode
from tests.support.strange.ears import SocketEar, StreamEar, socket_ear, stream_ear
from tests.support.strange.files import Dice, StrangeFile, ending_of, strange_file

GOOD_FILE: Final = "good.wav"
GOOD_HZ: Final = 1000
_GOOD_FRAMES: Final = 10
_BIN: Final = GOOD_HZ // 50  # of a frame's spectrum
_FORMS: Final = ("format=opus", "format=opus&bitrate=96000", "mp3", "ogg", "format=opus&bitrate=24000")
_CROSSFADES: Final = [{"durationMs": ms, "onSkip": skips} for ms in (0, 20, 500, 12_000) for skips in (True, False)]
_DUCKINGS: Final = [{"duckDb": gain_db, "fadeMs": ms} for gain_db in (0, -12, -60) for ms in (0, 150)]
_POSITIONS: Final = (0, 1, 20, 500, 1234, 1900, 10_000, 3_600_000)
_FILTERS: Final[tuple[dict[str, Any], ...]] = (
    {"volume": 0.0},
    {"volume": 5.0},
    {"eq": [{"band": band, "gain_db": 24} for band in range(15)]},
    {"eq": []},
    {"timescale": {"speed": 4}},
    {"timescale": {"speed": 0.25, "pitch": 2}},
    {"timescale": {"rate": 1.5}},
    {"karaoke": {}, "tremolo": {}, "vibrato": {}},
    {"echo": {"delayMs": 2000, "decay": 0.9}, "rotation": {"rotationHz": 2}},
    {"compressor": {}, "limiter": {"enabled": True}},
    {"normalization": {"targetLufs": -5}},
    {"distortion": {"scale": 100, "tanScale": 100}, "lowPass": {"smoothing": 1000}, "highPass": {}},
    {"reset": True},
    {"reset": True},
)

# How a server gives a file. A station, which begins it anew when it is over, is live.
_WAYS: Final[dict[str, dict[str, Any]]] = {
    "whole": {},
    "in-order": {"ranges": False},
    "chunked": {"ranges": False, "chunked": True},
    "station": {"ranges": False, "chunked": True, "headers": "icy-name: strange\r\n"},
}

PassTime = Callable[[int], Awaitable[object]]


class Story:
    """One player's. `pass_time(frames)` waits for that many frames of another player."""

    def __init__(
        self, node: RunningNode, server: MediaServer, session: aiohttp.ClientSession, seed: int, pass_time: PassTime
    ) -> None:
        self.seed = seed
        self.files: list[StrangeFile] = []
        self.done: list[str] = []
        self.frames = self.passed_frames = 0
        self._node = node
        self._server = server
        self._session = session
        self._pass_time = pass_time
        self._dice = Dice(seed)
        # Packets are passed through only to who asks for nothing else, and where nothing changes the sound.
        self._is_about_opus = bool(self._dice.randrange(3))
        self._player = f"strange-{seed}"

    def __str__(self) -> str:
        files = "\n".join(f"  {file}" for file in self.files)
        done = "\n".join(f"  {line}" for line in self.done)
        return f"{self._player}, with\n{files}\nwas told\n{done}"

    async def play(self) -> None:
        """Raises AssertionError for whatever is not as it should be."""
        dice = self._dice
        await self._order("POST", "", {"id": self._player, "uri": self._file(), "loop": dice.choice(("none", "track"))})
        path = f"/{self._player}"
        async with AsyncExitStack() as listeners:
            pcm = await listeners.enter_async_context(socket_ear(self._session, self._node, self._player))
            ears: list[SocketEar | StreamEar] = [pcm]
            forms = _FORMS[:1] if self._is_about_opus and dice.one_in(2) else dice.sample(_FORMS, dice.randint(1, 3))
            ears += [await listeners.enter_async_context(self._ear(form)) for form in forms]
            for _ in range(dice.randint(2, 7)):
                await self._pass_time(dice.choice((0, 1, 5, 20, 40, 60)))
                act = dice.choice(_ACTS)
                method, below, body = act(self, dice)
                await self._order(method, path + below, body)
            await self._pass_time(20)
            await self._plays_the_good_file(path, pcm)
        await self._order("DELETE", path)
        for ear in ears:
            if isinstance(ear, SocketEar):
                ear.hears_overlays = any("/overlays {" in line for line in self.done)
            await asyncio.to_thread(ear.check)
            if isinstance(ear, SocketEar):
                self.frames += ear.checked_frames
                self.passed_frames += ear.passed_frames

    def _ear(self, form: str) -> Any:
        listen: Any = socket_ear if "=" in form else stream_ear
        return listen(self._session, self._node, self._player, form)

    def _file(self) -> str:
        """The URI of a new strange file, or of one that was played before: on disk, or where servers are."""
        if self.files and self._dice.one_in(4):
            file = self._dice.choice(self.files)
        else:
            seed = self._dice.randrange(10**8)
            while self._is_about_opus and ending_of(seed) not in ("ogg", "webm", "mp4"):
                seed += 1
            file = strange_file(seed)
            self.files.append(file)
        name = f"{file.seed}.{file.ending}"
        if self._dice.one_in(5):
            way, settings = self._dice.choice(list(_WAYS.items()))
            return self._server.serve(f"/{way}/{name}", media(file.data, **settings))
        (self._node.folder / name).write_bytes(file.data)
        return name

    def track(self) -> dict[str, Any]:
        """Whole, or a part."""
        track: dict[str, Any] = {"uri": self._file()}
        if self._dice.one_in(3):
            track["startMs"] = self._dice.choice((1, 20, 333, 1000, 1999, 3_600_000))
        if self._dice.one_in(4):
            track["endMs"] = track.get("startMs", 0) + self._dice.choice((1, 20, 500, 1000, 3_600_000))
        return track

    def is_filtered(self) -> bool:
        return not self._is_about_opus or self._dice.one_in(5)

    async def _plays_the_good_file(self, path: str, pcm: SocketEar) -> None:
        await self._order("DELETE", f"{path}/queue")
        await self._order("PATCH", f"{path}/loop", {"mode": "none"})
        await self._order("PATCH", f"{path}/crossfade", {"durationMs": 0})
        await self._order("PATCH", f"{path}/filters", {"reset": True})
        for overlay in (await self._order("GET", f"{path}/overlays")).json():
            await self._order("DELETE", f"{path}/overlays/{overlay['overlayId']}")
        before = len(pcm.frames)
        await self._order("PUT", f"{path}/track", {"uri": GOOD_FILE})
        await self._order("POST", f"{path}/play")

        def heard() -> bool:
            return sum(_is_good(frame.payload) for frame in pcm.frames[before:]) >= _GOOD_FRAMES

        await eventually(heard, lambda: f"the tone of {GOOD_FILE}, after {len(pcm.frames) - before} frames")

    async def _order(self, method: str, path: str, body: object = None) -> Any:
        answer = await self._node.request(method, f"/v0/players{path}", body)
        said = "" if body is None else f" {json.dumps(body)}"
        self.done.append(f"{method} {path or '/'}{said} -> {answer.status}")
        assert answer.status in (200, 201, 204, 404, 409, 429), answer.body
        return answer


# Some are more often than others.
_ACTS: Final[tuple[Callable[[Story, Dice], tuple[str, str, object]], ...]] = (
    *(lambda _, dice: ("PATCH", "/position", {"position": dice.choice(_POSITIONS)}),) * 2,
    lambda _, dice: ("PATCH", "/position", {"offset": dice.choice((-500, -20, 1, 333, 700, 10**7))}),
    *(lambda story, _: ("PUT", "/track", story.track()),) * 2,
    *(lambda story, dice: ("POST", "/queue", {"tracks": [story.track() for _ in range(dice.randint(1, 3))]}),) * 3,
    lambda story, _: ("POST", "/skip", None),
    lambda _, dice: ("PATCH", "/loop", {"mode": dice.choice(("none", "track", "queue"))}),
    *(lambda story, dice: ("PATCH", "/filters", dice.choice(_FILTERS) if story.is_filtered() else {}),) * 2,
    lambda _, dice: ("PATCH", "/crossfade", dice.choice(_CROSSFADES)),
    lambda story, dice: ("POST", "/overlays", story.track() | dice.choice(_DUCKINGS)),
    lambda _, dice: ("POST", f"/{dice.choice(('pause', 'play', 'previous'))}", None),
    lambda _, dice: ("POST", "/play", None),
)


def _is_good(pcm: bytes) -> bool:
    """Whether a frame is nothing but the good file's tone."""
    samples = np.frombuffer(pcm, np.int16)[::2].astype(np.float64)
    power = np.abs(np.fft.rfft(samples)) ** 2
    return bool(power[_BIN] > 0.99 * power.sum() > 0)

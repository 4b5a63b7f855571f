"""Stories of strange files, several at once, on one node beside two players whose listeners must notice nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import numpy as np

from tests.support.audio_files import opus, pcm_of, tone, wav
from tests.support.e2e_players import create, patch, state
from tests.support.e2e_sockets import EventFields, Tape, following_all
from tests.support.media_server import MediaServer
from tests.support.node_in_process import BUFFER_S
from tests.support.opus_listening import decoded
from tests.support.processes import WaitForCpu
from tests.support.running_node import RunningNode, running_node
from tests.support.strange.ears import SocketEar, socket_ear
from tests.support.strange.stories import GOOD_FILE, GOOD_HZ, Story
from tonearm.core.frame import FRAME_BYTES

_AT_ONCE: Final = 4
_CONFIG: Final = "[decoder]\nprocesses = 2\n"
_STEADY_S: Final = 4
_QUIETEST: Final = 3000.0  # of a frame of the steady tone, root of the mean square in 16-bit units


class Fuzzing:
    """A node with two steady players. `stories` are those that were told, `waited_s` is for how long the machine let
    the node and its decoders wait."""

    def __init__(
        self,
        node: RunningNode,
        server: MediaServer,
        session: aiohttp.ClientSession,
        steady: tuple[SocketEar, SocketEar],
        tape: Tape,
    ) -> None:
        self.stories: list[Story] = []
        self.steady_frames = 0
        self.underruns = 0
        self._node = node
        self._server = server
        self._session = session
        self._pcm, self._opus = steady
        self._tape = tape
        self._processes = node.decoder_pids()
        self._wait = WaitForCpu(node.pid, *self._processes)
        self._log_lines = 0
        self._events = 0
        self._checking = asyncio.Lock()
        self._sounding: dict[str, str] = {}  # by player: the track that has begun and not ended

    async def tell(self, seeds: Iterator[int]) -> list[str]:
        """Tells the stories of these seeds, until one fails. Returns what is to be said of those."""
        failures: list[str] = []

        async def one_after_the_other() -> None:
            for seed in seeds:
                story = Story(self._node, self._server, self._session, seed, self._pcm.more_frames)
                self.stories.append(story)
                try:
                    await story.play()
                    await self.check()
                except (AssertionError, aiohttp.ClientError, OSError) as error:
                    failures.append(f"seed {seed}: {error}\n{story}")
                if failures:
                    return

        await asyncio.gather(*(one_after_the_other() for _ in range(_AT_ONCE)))
        return failures

    async def check(self) -> None:
        """Nobody but who plays strange files may have noticed anything."""
        fresh = "".join(self._node.log[self._log_lines :])
        self._log_lines = len(self._node.log)
        assert "Traceback" not in fresh, fresh
        assert self._processes <= self._node.decoder_pids(), f"a decoder process has ended:\n{fresh}"
        events, self._events = self._tape.events[self._events :], len(self._tape.events)
        for event in events:
            self._check_event(event)
        async with self._checking:
            await asyncio.to_thread(self._check_steady)

    async def check_quality(self) -> None:
        """The steady players never ran dry, but for what the machine made them wait."""
        for player in ("steady-pcm", "steady-opus"):
            quality = (await state(self._node, player))["quality"]
            self.underruns += quality["timesRunDry"]
            assert not quality["framesLostByListeners"], quality
        assert self.underruns <= self.waited_s / BUFFER_S, f"{self.underruns} underruns, waited {self.waited_s:.1f} s"

    def _check_event(self, event: EventFields) -> None:
        """No error is the node's own, and each track that starts ends before another one starts."""
        player = event["id"]
        assert event.get("error", {}).get("code") != "internal", event
        if event["op"] == "TrackStart":
            assert player not in self._sounding, f"{event} begins before {self._sounding[player]} has ended"
            self._sounding[player] = event["trackId"]
        elif event["op"] == "TrackEnd" and player in self._sounding:
            assert event["trackId"] == self._sounding.pop(player), event

    @property
    def waited_s(self) -> float:
        return self._wait.seconds(self._node.pid, *self._processes)

    def _check_steady(self) -> None:
        whole = _steady_pcm()
        for frame in (frames := self._pcm.check()):
            at = frame.position_us * 48 // 1000 * 4 % len(whole)
            expected = (whole + whole)[at : at + FRAME_BYTES]
            assert frame.payload == expected, f"the steady PCM is not what it should be at {frame.position_us} µs"
        self.steady_frames += len(frames)
        packets = [frame.payload for frame in self._opus.check()]
        self.steady_frames += len(packets)
        if len(packets) > 2:
            loudness = np.sqrt(np.mean(decoded(packets).reshape(-1, 960 * 2) ** 2, axis=1))[2:]
            assert loudness.min() > _QUIETEST, f"the steady Opus has a hole: {loudness.round()}"


def _steady_pcm() -> bytes:
    return pcm_of(tone(500, _STEADY_S))


@asynccontextmanager
async def fuzzing(folder: Path) -> AsyncIterator[Fuzzing]:
    """A node of its own. When it ends, nothing may be left to complain about."""
    (folder / GOOD_FILE).write_bytes(wav(tone(GOOD_HZ, 2.0)))
    (folder / "steady.wav").write_bytes(wav(tone(500, _STEADY_S)))
    (folder / "steady.opus").write_bytes(opus(tone(500, _STEADY_S)))
    async with (
        MediaServer() as server,
        running_node(folder, _CONFIG) as node,
        aiohttp.ClientSession() as session,
        following_all(node) as tape,
    ):
        await node.decoders_ready(2)
        for kind, uri in (("pcm", "steady.wav"), ("opus", "steady.opus")):
            await create(node, f"steady-{kind}", uri)
            await patch(node, f"steady-{kind}", "loop", {"mode": "track"})
        async with (
            socket_ear(session, node, "steady-pcm") as pcm,
            socket_ear(session, node, "steady-opus", "format=opus") as packets,
        ):
            await asyncio.gather(pcm.more_frames(25), packets.more_frames(25))
            told = Fuzzing(node, server, session, (pcm, packets), tape)
            yield told


def seeds_until(first: int, count: int | None, seconds: float) -> Iterator[int]:
    """`count` seeds, or as many as are begun within so many seconds."""
    end_s = time.monotonic() + seconds
    seed = first
    while (time.monotonic() < end_s) if count is None else (seed < first + count):
        yield seed
        seed += 1

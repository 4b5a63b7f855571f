"""A player's sound as the audio source of a voice client, which takes a frame each 20 ms in a thread of its own.

Between them is a jitter buffer, because the node that sends frames and the program that takes them have two clocks. Its
rules and figures are those of docs/interface/audio.md, "Frame numbers and clocks".
"""

import asyncio
import contextlib
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from tonearm.client import AudioStream, Player, TonearmError
from tonearm.client.audio import AudioFormat

PREFILL_FRAMES: Final = 5
HIGH_S: Final = 2.0  # after so long with more than twice the prefill one frame is dropped
MOST_WAITING_FRAMES: Final = 25  # with more, all but the prefill are dropped
_MEASURED_READS: Final = 3000  # one minute; before that one frame of jitter would be taken for drift


@dataclass(slots=True)
class SourceStats:
    """Counts of frames of 20 ms: `received` from the node, `played`, `silence` played for lack of frames, `dropped`
    because there were too many, `lost` on the way. `drift_ppm`: by how much the node's clock is faster."""

    received: int = 0
    played: int = 0
    silence: int = 0
    dropped: int = 0
    lost: int = 0
    drift_ppm: float = 0.0


class JitterBuffer:
    """The event loop calls `push`, and one other thread `pop`. Neither waits: the two ends of a deque need no lock.

    `now_s` gives a monotonic time.
    """

    def __init__(
        self, now_s: Callable[[], float], *, prefill: int = PREFILL_FRAMES, capacity: int = 50, blends: bool = False
    ) -> None:
        """`prefill`: so many frames are collected before playing begins. `blends`: frames are PCM, so that a dropped
        one can be blended into the next."""
        self._now_s = now_s
        self._prefill = prefill
        self._frames: deque[bytes] = deque(maxlen=capacity)
        self._blends = blends
        self._is_filling = True
        self._not_high_s = now_s()  # when there were no more than twice the prefill
        self._run_reads = 0
        self._run_received = 0
        self.stats = SourceStats()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def is_ready(self) -> bool:
        return len(self._frames) >= self._prefill

    def push(self, payload: bytes, lost: int) -> None:
        """Adds the next frame, before which `lost` frames never came."""
        if len(self._frames) == self._frames.maxlen:
            self.stats.dropped += 1  # append drops the oldest frame
        self._frames.append(payload)
        self.stats.received += 1
        self.stats.lost += lost
        self._run_received += 1 + lost

    def pop(self) -> bytes | None:
        """The frame to play now; None for silence."""
        now_s = self._now_s()
        if len(self._frames) <= 2 * self._prefill:
            self._not_high_s = now_s
        blended = None
        if len(self._frames) > MOST_WAITING_FRAMES:  # the program was frozen, and old frames came all at once
            self._drop(len(self._frames) - self._prefill)
        elif now_s - self._not_high_s > HIGH_S:
            self._not_high_s = now_s
            blended = self._drop(1)
        if self._is_filling and not self.is_ready:
            self.stats.silence += 1
            return None
        try:
            frame = self._frames.popleft()
        except IndexError:
            self._is_filling = True
            self.stats.silence += 1
            return None
        if self._is_filling:
            self._is_filling = False
            self._run_reads = self._run_received = 0
        self._measure()
        self.stats.played += 1
        return blend(blended, frame) if blended is not None and self._blends else frame

    def _drop(self, count: int) -> bytes | None:
        """Drops the oldest frames. Returns the last dropped one."""
        last = None
        for _ in range(count):
            last = self._frames.popleft()
        self.stats.dropped += count
        return last

    def _measure(self) -> None:
        self._run_reads += 1
        if self._run_reads >= _MEASURED_READS:
            self.stats.drift_ppm = round((self._run_received / self._run_reads - 1) * 1e6, 1)


def blend(old: bytes, new: bytes) -> bytes:
    """One frame of PCM that begins as `old` and ends as `new`, so that a frame is left out without a click."""
    before, after = array("h", old), array("h", new)
    count = len(after) // 2
    mixed = array("h", bytes(len(new)))
    for index, (b, a) in enumerate(zip(before, after, strict=True)):
        at = index // 2  # both channels alike
        mixed[index] = (b * (count - at) + a * at) // count
    return mixed.tobytes()


DISCORD_SILENT_PACKET: Final = b"\xf8\xff\xfe"  # what Discord's own clients send for 20 ms of silence
SILENT_FRAME: Final = bytes(3840)
_WAITS_S: Final = 30.0  # waits so long for the player to be created again when its node came back without it


class FrameSource:
    """`Source` of `tonearm.discord` without the base class of a library.

    It is made in the event loop, where it receives frames; `read`, `is_opus` and `cleanup` may be called in any thread.
    `read` never waits and never raises. Without frames it returns silence. It returns `b""` only when the player was
    deleted, after `close`, or when the node refuses the program; the refusal is then the error of `after`.
    """

    def __init__(
        self,
        player: Player,
        *,
        audio_format: AudioFormat = "opus",
        prefill: int = 5,
        capacity: int = 50,
    ) -> None:
        self._is_opus = audio_format == "opus"
        self._buffer = JitterBuffer(time.monotonic, prefill=prefill, capacity=capacity, blends=not self._is_opus)
        self._silence = DISCORD_SILENT_PACKET if self._is_opus else SILENT_FRAME
        self._has_ended = False
        self._filled = asyncio.Event()
        self._current_error: Exception | None = None  # discord.py gives it to `after`
        self._loop = asyncio.get_running_loop()
        audio = player.audio(audio_format, waits_s=_WAITS_S)
        self._receiving = self._loop.create_task(self._receive(audio), name=f"sound of {player.id}")

    @property
    def stats(self) -> SourceStats:
        return self._buffer.stats

    async def ready(self, timeout_s: float = 5.0) -> Self:
        """Waits until enough frames have come for playing to begin at once, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._filled.wait()
        return self

    def read(self) -> bytes:
        """The frame to play now: one Opus packet, or 20 ms of PCM; `b""` at the end."""
        frame = None if self._has_ended and not len(self._buffer) else self._buffer.pop()
        if frame is None and self._has_ended:
            return b""
        return self._silence if frame is None else frame

    def is_opus(self) -> bool:
        return self._is_opus

    def close(self) -> None:
        """Stops receiving; frames that have come are still played. Any thread may call it, and more than once."""
        self._has_ended = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._receiving.cancel)

    def when_over(self, call: Callable[[bool], None]) -> None:
        """Calls `call` in the event loop when no more frames come: with True if the node gives none any more, with
        False after `close` or `cleanup`."""
        self._receiving.add_done_callback(lambda receiving: call(not receiving.cancelled()))

    def cleanup(self) -> None:
        """The voice client calls it at the end, and again when the object is collected, even if `__init__` failed."""
        if "_receiving" in self.__dict__:
            self.close()

    async def _receive(self, audio: AudioStream) -> None:
        try:
            async with audio:
                async for frame in audio:
                    self._buffer.push(frame.payload, frame.lost)
                    if self._buffer.is_ready:
                        self._filled.set()
        except TonearmError as error:
            self._current_error = error
        finally:
            self._has_ended = True
            self._filled.set()

"""A player's sound as the audio source of a voice client, which takes a frame each 20 ms in a thread of its own."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final, Self

from tonearm.client import AudioStream, Player, TonearmError
from tonearm.client.audio import AudioFormat
from tonearm.voice.jitter import JitterBuffer, SourceStats

SILENT_PACKET: Final = b"\xf8\xff\xfe"  # what Discord's own clients send for 20 ms of silence
SILENT_FRAME: Final = bytes(3840)
_WAITS_S: Final = 30.0  # for the player to be created again, when its node came back without it


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
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_opus = audio_format == "opus"
        self._buffer = JitterBuffer(now_s, prefill=prefill, capacity=capacity, blends=not self._is_opus)
        self._silence = SILENT_PACKET if self._is_opus else SILENT_FRAME
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

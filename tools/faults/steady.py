"""The listeners that must not lose a frame, and what each of them received since it was last asked."""

import asyncio
import contextlib
import time
from collections import deque
from typing import Final

import aiohttp
import numpy as np

from tonearm.core.frame import FRAME_MS
from tonearm.protocol.framing import HEADER, FrameFlag
from tools.soak.listeners import CLICK

FRAME_US: Final = FRAME_MS * 1000
_GONE: Final = (aiohttp.ClientError, OSError)


class Steady:
    """One listener. `length_us` is that of its track, which is played again and again; None for a station."""

    def __init__(self, player: str, form: str, length_us: int | None) -> None:
        self.player = player
        self.form = form
        self._length_us = length_us
        self._number: int | None = None
        self._last_sample: int | None = None
        self.position_us = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets what was counted, not where it is."""
        self.frames = self.missing = self.clicks = self.wrong_positions = self.cut_off = 0
        self.most_in_a_second = 0
        self.longest_silence_s = 0.0
        self._arrivals_s = deque[float]()
        self._last_s: float | None = None

    async def listen(self, http: aiohttp.ClientSession, url: str) -> None:
        """For ever; when it is cut off it connects again."""
        while True:
            self._number = self._last_sample = None
            with contextlib.suppress(*_GONE):
                async with http.ws_connect(f"{url}/v0/players/{self.player}/ws?header=1&format={self.form}") as socket:
                    async for message in socket:
                        self._take(message.data)
            self.cut_off += 1
            await asyncio.sleep(0.1)

    def _take(self, data: bytes) -> None:
        _, flags, _, number, position_us = HEADER.unpack_from(data)
        self.frames += 1
        self._time(time.monotonic())
        is_next = self._number is not None and number == self._number + 1
        if self._number is not None:
            self.missing += max(0, number - self._number - 1)
        if is_next and self._length_us is not None:
            # Where a track begins again, the frame is the end of one turn and the beginning of the next.
            step_us = (position_us - self.position_us) % self._length_us
            self.wrong_positions += abs(step_us - FRAME_US) > FRAME_US / 2
        self._number, self.position_us = number, position_us
        if self.form == "pcm" and self._length_us is not None:
            self._examine(data[HEADER.size :], bool(flags & FrameFlag.DISCONTINUITY))

    def _time(self, now_s: float) -> None:
        if self._last_s is not None:
            self.longest_silence_s = max(self.longest_silence_s, now_s - self._last_s)
        self._last_s = now_s
        self._arrivals_s.append(now_s)
        while self._arrivals_s[0] <= now_s - 1.0:
            self._arrivals_s.popleft()
        self.most_in_a_second = max(self.most_in_a_second, len(self._arrivals_s))

    def _examine(self, pcm: bytes, is_cut: bool) -> None:
        left = np.frombuffer(pcm, np.int16)[::2].astype(np.int32)
        joined = left if self._last_sample is None or is_cut else np.concatenate(((self._last_sample,), left))
        self.clicks += bool(np.abs(np.diff(joined)).max() > CLICK)
        self._last_sample = int(left[-1])

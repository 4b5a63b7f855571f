"""A source as it sounds at one timescale: its samples are numbered in time heard, not in time of the file."""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from tonearm.core.effects import Timescale
from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES, samples_of_ms
from tonearm.decoding.worker.filters.blocks import Planes
from tonearm.decoding.worker.filters.chain import as_pcm
from tonearm.decoding.worker.mixing.timescale import Stretcher
from tonearm.decoding.worker.sources.pcm_store import PcmStore

# The stretcher reads up to so much of the file before the place where it stands.
MARGIN_SAMPLES: Final = samples_of_ms(100)
_PCM: Final = np.dtype("<i2")


class StretchedSource:
    """Begins with sample `first` of the file, which has the same number here, and is made as far as it is read.

    What was made stays in `store` as long as it may be rendered again, so going back in it costs nothing. Where another
    source joins (`following`), its beginning is read behind the end, and `begin_next` goes on with the same pieces: in
    both the sound is up to 8 ms off its place, so that one which begins anew would click where the files join.
    """

    def __init__(self, source: int, file: PcmStore, setting: Timescale, first: int) -> None:
        self.source = source
        self.setting = setting
        self.store = PcmStore(first)
        self._file = file
        self._stretcher = Stretcher(setting)
        self._state = self._stretcher.begin(first)
        self._before: PcmStore | None = None
        self._rest = b""  # what the last frame has behind the end: the beginning of `following`
        self.following: PcmStore | None = None

    def begin_next(self, source: int, file: PcmStore) -> "StretchedSource | None":
        """The source that joins at the end, from its start on. None when its samples were not there in time."""
        if self.following is not file or not self.store.is_finished:
            return None
        joined = StretchedSource(source, file, self.setting, file.start)
        moved = file.start - self._file.end
        state = self._state
        joined._state = replace(state, position=state.position + moved, piece_at=state.piece_at + moved)
        joined._before = self._file
        if self._rest:
            joined.store.append(self._rest)
        return joined

    def file_sample(self, sample: int) -> float:
        """Where in the file a sample of this source lies."""
        return self.store.start + (sample - self.store.start) * self.setting.position_rate

    def heard_sample(self, file_sample: int) -> int:
        """The first sample of this source that does not lie before one of the file."""
        return self.store.start + math.ceil((file_sample - self.store.start) / self.setting.position_rate)

    def make(self, up_to: int) -> None:
        """Fills `store` up to a sample, as far as the file is decoded."""
        store, file = self.store, self._file
        while store.end < up_to and not store.is_finished:
            # Asked for first: what the decoding thread adds before the end is there when the end is known.
            is_whole = file.is_finished
            if is_whole:
                missing = self.heard_sample(file.end) - store.end
            elif self._stretcher.source_end(self._state) <= file.end:
                missing = FRAME_SAMPLES
            else:
                return
            if missing > 0:
                planes, self._state = self._stretcher.frame(self._state, self._read)
                pcm = as_pcm(planes.copy())
                store.append(pcm[: missing * SAMPLE_BLOCK_BYTES])
                self._rest = pcm[missing * SAMPLE_BLOCK_BYTES :]
            if is_whole and missing <= FRAME_SAMPLES:
                store.finish(is_interrupted=file.is_interrupted)

    def _read(self, start: int, count: int) -> Planes:
        planes = np.zeros((CHANNELS, count), dtype=np.float32)
        _fill(planes, start, self._file, 0)
        if self._before is not None:
            if self._state.piece_at > self._file.start + MARGIN_SAMPLES:
                self._before = None  # nothing is read before the start any more
            elif start < self._file.start:
                _fill(planes, start, self._before, self._file.start - self._before.end)
        if self.following is not None and self._file.is_finished and start + count > self._file.end:
            _fill(planes, start, self.following, self._file.end - self.following.start)
        return planes


def _fill(planes: Planes, start: int, store: PcmStore, moved: int) -> None:
    """Puts what `store` has into `planes`, which begin with `start`. Its samples are `moved` by so many."""
    first, last = max(start, store.oldest + moved), min(start + planes.shape[1], store.end + moved)
    if last > first:
        pcm = np.frombuffer(store.read(first - moved, last - first), dtype=_PCM).reshape(-1, CHANNELS)
        planes[:, first - start : last - start] = pcm.T

"""Speed, pitch and rate: gives a source fewer or more samples than its file has, before the filters.

A tempo other than 1 joins pieces of about 60 ms whose distance in the source differs from that in the result. Each
piece is moved by a few milliseconds to the best fit with the piece before (waveform similarity overlap-add, WSOLA:
Verhelst and Roelands, ICASSP 1993). A resampler then changes pitch and rate. The result is cut into frames. The state
after each frame is a value, so rendering can restart from it.

Tempo and step are those of SoundTouch (`SoundTouch::calcEffectiveRateAndTempo`), which lavadsp calls with `setTempo`,
`setPitch` and `setRate`. SoundTouch's pieces are 40 to 90 ms long, depending on the tempo. They overlap by 8 ms and are
moved within 15 to 20 ms. Here the values are 60, 10 and 16 ms. lavadsp uses one SoundTouch for each channel, so left
and right are moved independently; here they are moved together.

    source ──tempo = speed / pitch──► joined ──step = pitch · rate──► frame
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tonearm.core.filters import Timescale
from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES, samples_of_ms
from tonearm.worker.filters.blocks import PCM_DTYPE, Planes, half_cosine
from tonearm.worker.filters.chain import as_pcm
from tonearm.worker.sources.pcm_store import PcmStore

# Reads samples [start, start + count) of the source as planes, with silence outside of the source.
ReadSource: TypeAlias = Callable[[int, int], Planes]

# The stretcher reads up to this much of the file before its position.
MARGIN_SAMPLES: Final = samples_of_ms(100)

_PIECE: Final = samples_of_ms(60)
_OVERLAP: Final = samples_of_ms(10)
_SEARCH: Final = samples_of_ms(16)  # a piece may begin up to half of this before or after its nominal position
_COARSE: Final = 4  # the search looks at every fourth sample first
_TAPS: Final = 32
_HALF: Final = _TAPS // 2
_POLYPHASES: Final = 512  # positions between two samples for which the resampler has taps
_CACHED_TABLES: Final = 8

_FADE_IN: Final = half_cosine(_OVERLAP).astype(np.float32)
_FADE_OUT: Final = np.float32(1.0) - _FADE_IN


@dataclass(frozen=True, slots=True, eq=False)
class StretchState:
    """The state of a stretcher before its next frame.

    `piece_at`: the nominal start of the next piece in the source. `overlap`: the end of the last piece, under which the
    next piece fades in, 2 by _OVERLAP; None before the first piece. `joined`: joined samples that are not used up, 2 by
    n; the first _HALF of them are before the next frame. `step_fraction`: the next frame's offset after a sample, 0 to
    1.
    """

    piece_at: float
    overlap: Planes | None
    joined: Planes
    step_fraction: float


class Stretcher:
    """Makes frames of a source at one setting."""

    def __init__(self, setting: Timescale) -> None:
        self.setting = setting
        self._tempo = setting.speed / setting.pitch
        self._centring = _centring(self._tempo)
        self._step = setting.pitch * setting.rate

    def begin(self, sample: int) -> StretchState:
        """The state before a frame that begins with `sample` of the source."""
        return StretchState(float(sample), None, np.zeros((CHANNELS, _HALF), np.float32), 0.0)

    def source_end(self, state: StretchState) -> int:
        """The end (exclusive) of the source's samples that the next frame may read; 0 when it reads none."""
        missing = self._joined_samples_needed(state) - int(state.joined.shape[1])
        if missing <= 0:
            return 0
        if self._tempo == 1.0:
            return int(state.piece_at) + missing
        pieces = -(-missing // (_PIECE - _OVERLAP))
        last_at = state.piece_at + (pieces - 1) * self._tempo * (_PIECE - _OVERLAP) + max(self._centring, 0.0)
        return int(last_at) + _SEARCH // 2 + _PIECE + 1

    def frame(self, state: StretchState, read: ReadSource) -> tuple[Planes, StretchState]:
        """The next frame, 2 by FRAME_SAMPLES, and the state after it."""
        needed = self._joined_samples_needed(state)
        joined, piece_at, overlap = state.joined, state.piece_at, state.overlap
        if self._tempo == 1.0:
            missing = needed - joined.shape[1]
            if missing > 0:
                joined = np.concatenate((joined, read(int(piece_at), missing)), axis=1)
                piece_at += missing
        else:
            parts = [joined]
            length = joined.shape[1]
            while length < needed:
                at = piece_at if overlap is None else piece_at + self._centring
                part, overlap = _next_piece(read, int(at), overlap)
                parts.append(part)
                length += part.shape[1]
                piece_at += self._tempo * part.shape[1]
            joined = np.concatenate(parts, axis=1)
        frame, used, fraction = self._resampled(joined, state.step_fraction)
        return frame, StretchState(piece_at, overlap, joined[:, used:].copy(), fraction)

    def _joined_samples_needed(self, state: StretchState) -> int:
        used: float = state.step_fraction + FRAME_SAMPLES * self._step
        return int(used) + _TAPS + 1

    def _resampled(self, joined: Planes, fraction: float) -> tuple[Planes, int, float]:
        """A frame, the number of samples that are not needed any more, and the next frame's offset after the next
        sample."""
        end = fraction + FRAME_SAMPLES * self._step
        used = int(end)
        if self._step == 1.0 and fraction == 0.0:
            return joined[:, _HALF : _HALF + FRAME_SAMPLES], used, 0.0
        places = fraction + self._step * np.arange(FRAME_SAMPLES)
        before = places.astype(np.intp)
        phase = ((places - before) * _POLYPHASES).astype(np.intp)
        windows = np.lib.stride_tricks.sliding_window_view(joined, _TAPS, axis=1)[:, before + 1]
        taps = _interpolation(min(1.0, 1.0 / self._step))
        frame: Planes = np.einsum("cnt,nt->cn", windows, taps[phase])
        return frame, used, end - used


def reads_ahead(setting: Timescale) -> int:
    """The most samples of the file after the start of a frame that this frame and the next one need. The limiter looks
    ahead into the next frame."""
    tempo = setting.speed / setting.pitch
    centring = max(_centring(tempo), 0.0)
    piece = _SEARCH // 2 + _PIECE + 1
    return math.ceil(2 * FRAME_SAMPLES * setting.position_rate + tempo * (_HALF + 2) + centring) + piece


def _centring(tempo: float) -> float:
    """The delay of a piece's start that brings its middle to the right position: within a piece the source passes at
    its own pace."""
    return (tempo - 1.0) * (_PIECE - _OVERLAP) / 2.0


def _next_piece(read: ReadSource, at: int, overlap: Planes | None) -> tuple[Planes, Planes]:
    """The piece that begins near `at`, without its last _OVERLAP samples; and these samples."""
    if overlap is None:
        piece = read(at, _PIECE)
        return piece[:, :-_OVERLAP], piece[:, -_OVERLAP:]
    around = read(at - _SEARCH // 2, _SEARCH + _PIECE)
    best = _best_fit(around[:, : _SEARCH + _OVERLAP].sum(axis=0), overlap.sum(axis=0))
    piece = around[:, best : best + _PIECE]
    faded = overlap * _FADE_OUT + piece[:, :_OVERLAP] * _FADE_IN
    return np.concatenate((faded, piece[:, _OVERLAP:-_OVERLAP]), axis=1), piece[:, -_OVERLAP:].copy()


def _best_fit(around: NDArray[np.float32], wanted: NDArray[np.float32]) -> int:
    """The offset in `around` where the sound is most similar to `wanted`. The search is coarse first, in steps of four
    samples, then fine near the best step."""
    coarse = _likeness(_thinned(around), _thinned(wanted))
    middle = int(np.argmax(coarse)) * _COARSE
    first = max(0, middle - _COARSE)
    last = min(len(around) - len(wanted), middle + _COARSE)
    return first + int(np.argmax(_likeness(around[first : last + len(wanted)], wanted)))


def _thinned(mono: NDArray[np.float32]) -> NDArray[np.float32]:
    whole = len(mono) // _COARSE * _COARSE
    thinned: NDArray[np.float32] = mono[:whole].reshape(-1, _COARSE).mean(axis=1)
    return thinned


def _likeness(around: NDArray[np.float32], wanted: NDArray[np.float32]) -> NDArray[np.float64]:
    """The normalized correlation of `wanted` with each run of its length in `around`."""
    products = np.correlate(around, wanted, "valid").astype(np.float64)
    energies = np.cumsum(np.concatenate(([0.0], np.square(around, dtype=np.float64))))
    energy = energies[len(wanted) :] - energies[: -len(wanted)]
    return np.asarray(products / np.sqrt(np.maximum(energy, 1.0)))


@lru_cache(maxsize=_CACHED_TABLES)
def _interpolation(cutoff: float) -> NDArray[np.float32]:
    """_POLYPHASES by _TAPS: a windowed sinc (Kaiser, beta 8) for each position between two samples.

    `cutoff` is the highest frequency that passes, as a share of half the sample rate.
    """
    places = np.arange(_POLYPHASES)[:, np.newaxis] / _POLYPHASES
    distance = np.arange(-_HALF + 1, _HALF + 1) - places
    window = np.i0(8.0 * np.sqrt(np.maximum(0.0, 1.0 - (distance / _HALF) ** 2))) / np.i0(8.0)
    taps = cutoff * np.sinc(cutoff * distance) * window
    return np.asarray(taps / taps.sum(axis=1, keepdims=True), dtype=np.float32)


class StretchedSource:
    """A source at one timescale: its samples are numbered in heard time, not in the file's time.

    It begins with sample `first` of the file, which has the same number here, and is made as far as it is read.

    Samples stay in `store` as long as they may be rendered again, so going back costs nothing. Where another source
    joins (`following`), the end reads on into that source's beginning, and `begin_next` continues with the same pieces.
    Pieces are up to 8 ms off their nominal positions, so a fresh start would click where the files join.
    """

    def __init__(self, source: int, file: PcmStore, setting: Timescale, first: int) -> None:
        self.source = source
        self.setting = setting
        self.store = PcmStore(first)
        self._file = file
        self._stretcher = Stretcher(setting)
        self._state = self._stretcher.begin(first)
        self._before: PcmStore | None = None
        self._left_over = b""  # PCM of the last frame past the end: the beginning of `following`
        self.following: PcmStore | None = None
        self.joins = 0  # the number of the source at whose end this source begins

    def begin_next(self, source: int, file: PcmStore) -> "StretchedSource | None":
        """The source that joins at the end, from its start on. None when its samples were too late."""
        if self.following is not file or not self.store.is_finished:
            return None
        joined = StretchedSource(source, file, self.setting, file.start)
        moved = file.start - self._file.end
        joined._state = replace(self._state, piece_at=self._state.piece_at + moved)
        joined._before = self._file
        if self._left_over:
            joined.store.append(self._left_over)
        return joined

    def file_sample(self, sample: int) -> float:
        """The position in the file of a sample of this source."""
        return self.store.start + (sample - self.store.start) * self.setting.position_rate

    def heard_sample(self, file_sample: int) -> int:
        """The first sample of this source at or after a sample of the file."""
        return self.store.start + math.ceil((file_sample - self.store.start) / self.setting.position_rate)

    def make(self, up_to: int) -> None:
        """Fills `store` up to a sample, as far as the file is decoded."""
        store, file = self.store, self._file
        while store.end < up_to and not store.is_finished:
            # Read first: when the file is finished, all samples that the decoding thread added before are in the store.
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
                self._left_over = pcm[missing * SAMPLE_BLOCK_BYTES :]
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
    """Copies the available samples of `store` into `planes`, which begin at `start`. The store's samples are shifted by
    `moved`."""
    first, last = max(start, store.oldest + moved), min(start + planes.shape[1], store.end + moved)
    if last > first:
        pcm = np.frombuffer(store.read(first - moved, last - first), dtype=PCM_DTYPE).reshape(-1, CHANNELS)
        planes[:, first - start : last - start] = pcm.T

"""The decoded, unfiltered PCM of one source, and segments of it."""

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from tonearm.core.frame import SAMPLE_BLOCK_BYTES

_start_of = itemgetter(0)  # of a chunk


def _samples(pcm: bytes) -> int:
    return len(pcm) // SAMPLE_BLOCK_BYTES


def chunk_end(chunk: tuple[int, bytes]) -> int:
    start, pcm = chunk
    return start + _samples(pcm)


class PcmStore:
    """PCM of one source, from the oldest sample that may be rendered again to the newest. Samples are numbered from the
    start of the source.

    A decoding thread appends; the rendering thread reads and finishes. Apart from `begin_at`, the appending thread sets
    only `end` of the public attributes, once the samples can be read.
    """

    def __init__(self, start_sample: int) -> None:
        self._lock = threading.Lock()
        self._chunks: deque[tuple[int, bytes]] = deque()
        self.start = start_sample
        self.oldest = start_sample  # earlier samples were released
        self.end = start_sample
        self.is_finished = False  # nothing comes after `end`
        self.is_interrupted = False  # finished because the source failed after it had given audio

    def append(self, pcm: bytes) -> None:
        """Adds whole pairs of samples, s16le stereo at 48 kHz."""
        with self._lock:
            self._chunks.append((self.end, pcm))
            self.end += _samples(pcm)

    def begin_at(self, sample: int) -> None:
        """Numbers the samples from `sample` on. Call it only before the first append."""
        with self._lock:
            self.start = self.oldest = self.end = sample

    def fresh(self, start_sample: int) -> "PcmStore":
        """An empty store of the same kind, for another part of the source."""
        return PcmStore(start_sample)

    def continued_from(self, sample: int) -> "PcmStore | None":
        """A store that begins with the samples of this store from `sample` on; the caller appends further samples to
        the new store. None when this store does not have `sample`."""
        with self._lock:
            if not self.oldest <= sample <= self.end:
                return None
            continued = PcmStore(sample)
            continued._chunks.extend(chunk for chunk in self._chunks if chunk_end(chunk) > sample)
            continued.end = self.end
            return continued

    def pieces(self) -> list[tuple[int, bytes]]:
        """All PCM in the pieces that were appended, each with the number of its first sample."""
        with self._lock:
            return list(self._chunks)

    def finish(self, *, is_interrupted: bool) -> None:
        """Marks the end. For the rendering thread, once the decoding thread has reported its end."""
        self.is_interrupted = is_interrupted
        self.is_finished = True

    def read(self, start: int, count: int) -> bytes:
        """`count` samples from `start`. Raises `LookupError` when the store does not have all of them."""
        at, end = start, start + count
        pieces = []
        with self._lock:
            chunks = self._chunks
            index = self._index_of(start)
            while at < end and 0 <= index < len(chunks):
                chunk_start, chunk = chunks[index]
                piece = chunk[(at - chunk_start) * SAMPLE_BLOCK_BYTES : (end - chunk_start) * SAMPLE_BLOCK_BYTES]
                if not piece:
                    break
                pieces.append(piece)
                at += _samples(piece)
                index += 1
        if at != end:
            raise LookupError(f"samples {start} to {end} of a store of {self.oldest} to {self.end}")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def view(self, start: int, count: int) -> bytes | memoryview:
        """As `read`, but without a copy when one chunk has all the samples."""
        with self._lock:
            index = self._index_of(start)
            if index >= 0:
                chunk_start, chunk = self._chunks[index]
                first_byte = (start - chunk_start) * SAMPLE_BLOCK_BYTES
                end_byte = first_byte + count * SAMPLE_BLOCK_BYTES
                if end_byte <= len(chunk):
                    return memoryview(chunk)[first_byte:end_byte]
        return self.read(start, count)

    def release_before(self, sample: int) -> None:
        """Frees the chunks that are wholly before `sample`."""
        with self._lock:
            while self._chunks and chunk_end(self._chunks[0]) <= sample:
                self.oldest = chunk_end(self._chunks.popleft())

    def _index_of(self, sample: int) -> int:
        """The index of the chunk with a sample, or of the last chunk before it. -1 when there is no such chunk."""
        return bisect_right(self._chunks, sample, key=_start_of) - 1


class Segment(NamedTuple):
    """`length` samples of one source, from `sample` on, at `offset` samples after the start of a block."""

    offset: int
    source: int
    sample: int
    length: int


def segments_between(segments: Sequence[Segment], first: int, end: int) -> tuple[Segment, ...]:
    """The segments from sample `first` of a block to before sample `end`, with offsets from `first`."""
    parts = []
    for offset, source, sample, length in segments:
        left_out = max(first - offset, 0)
        kept = min(length, end - offset) - left_out
        if kept > 0:
            parts.append(Segment(offset + left_out - first, source, sample + left_out, kept))
    return tuple(parts)

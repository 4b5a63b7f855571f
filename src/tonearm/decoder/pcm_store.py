"""Decoded, unfiltered PCM of one source, kept from the oldest sample that may be rendered again to the newest."""

import threading
from collections import deque

from tonearm.core.frame import SAMPLE_BLOCK_BYTES


class PcmStore:
    """Filled by the source's thread, read and ended by the rendering one. Samples count from the source's start.

    Of the public values only `end` is set by the thread that fills, after the samples are there to be read.
    """

    def __init__(self, start_sample: int) -> None:
        self._lock = threading.Lock()
        self._chunks: deque[tuple[int, bytes]] = deque()
        self.start = start_sample
        self.oldest = start_sample  # what lies before was forgotten
        self.end = start_sample
        self.is_finished = False  # nothing comes after `end`
        self.is_broken = False  # finished because the source broke off

    def append(self, pcm: bytes) -> None:
        """Adds whole sample blocks, s16le stereo at 48 kHz."""
        with self._lock:
            self._chunks.append((self.end, pcm))
            self.end += len(pcm) // SAMPLE_BLOCK_BYTES

    def finish(self, *, is_broken: bool) -> None:
        """Nothing will be appended any more. For the rendering thread, after the filling one has said so."""
        self.is_broken = is_broken
        self.is_finished = True

    def read(self, start: int, count: int) -> bytes:
        """`count` samples from `start`. Raises `LookupError` when they are not all here."""
        wanted_from, wanted_to = start, start + count
        pieces = []
        with self._lock:
            for chunk_start, chunk in self._chunks:
                chunk_end = chunk_start + len(chunk) // SAMPLE_BLOCK_BYTES
                if chunk_end <= start:
                    continue
                if chunk_start > start or start == wanted_to:
                    break
                taken_to = min(wanted_to, chunk_end)
                first_byte = (start - chunk_start) * SAMPLE_BLOCK_BYTES
                pieces.append(chunk[first_byte : (taken_to - chunk_start) * SAMPLE_BLOCK_BYTES])
                start = taken_to
        if start != wanted_to:
            raise LookupError(f"samples {wanted_from} to {wanted_to} of a store of {self.oldest} to {self.end}")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release_before(self, sample: int) -> None:
        """Forgets the chunks that lie wholly before `sample`."""
        with self._lock:
            chunks = self._chunks
            while chunks:
                chunk_start, chunk = chunks[0]
                chunk_end = chunk_start + len(chunk) // SAMPLE_BLOCK_BYTES
                if chunk_end > sample:
                    break
                self.oldest = chunk_end
                chunks.popleft()

"""Decoded, unfiltered PCM of one source, kept from the oldest sample that may be rendered again to the newest."""

import threading
from collections import deque

from tonearm.core.frame import SAMPLE_BLOCK_BYTES


class PcmStore:
    """Written by the source's thread, read by the rendering one. Samples are numbered from the source's start."""

    def __init__(self, start_sample: int) -> None:
        self._lock = threading.Lock()
        self._chunks: deque[tuple[int, bytes]] = deque()
        self.start = start_sample
        self.end = start_sample
        self.is_finished = False  # nothing comes after `end`
        self.is_broken = False  # finished because the source broke off

    def restart_at(self, sample: int) -> None:
        """Moves the start of a store that is still empty, for a live source that joins where it is."""
        self.start = self.end = sample

    def append(self, pcm: bytes) -> None:
        with self._lock:
            self._chunks.append((self.end, pcm))
            self.end += len(pcm) // SAMPLE_BLOCK_BYTES

    def finish(self, is_broken: bool) -> None:
        with self._lock:
            self.is_broken = is_broken
            self.is_finished = True

    def read(self, start: int, count: int) -> bytes:
        """`count` samples from `start`, all of which must be here."""
        pieces = []
        with self._lock:
            for chunk_start, chunk in self._chunks:
                chunk_end = chunk_start + len(chunk) // SAMPLE_BLOCK_BYTES
                if chunk_end <= start:
                    continue
                first = start - chunk_start
                taken = min(count, chunk_end - start)
                pieces.append(chunk[first * SAMPLE_BLOCK_BYTES : (first + taken) * SAMPLE_BLOCK_BYTES])
                start += taken
                count -= taken
                if not count:
                    break
        assert count == 0, "samples that are not in the store"
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release_before(self, sample: int) -> None:
        """Forgets what lies wholly before `sample`."""
        with self._lock:
            chunks = self._chunks
            while chunks and chunks[0][0] + len(chunks[0][1]) // SAMPLE_BLOCK_BYTES <= sample:
                chunks.popleft()

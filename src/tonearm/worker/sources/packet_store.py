"""The packets of one Opus source, whose PCM is decoded only when it is read."""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Final, TypeAlias

from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ
from tonearm.decoder.messages import GRANT_FRAMES
from tonearm.worker.media.opus_decoding import PacketDecoding
from tonearm.worker.media.opus_format import can_pass_through
from tonearm.worker.media.opus_packets import PREROLL_SAMPLES, SourcePacket
from tonearm.worker.memory import freed_memory
from tonearm.worker.sources.pcm_store import PcmStore, chunk_end

# The packets decoded at once, which takes less time for each packet.
_BATCH_PACKETS: Final = 10
_RELEASE_PACKETS: Final = 25  # at once
_FORGET_LINKS_SAMPLES: Final = SAMPLE_RATE_HZ  # before the oldest sample: no join uses it any more
# The first frames are rendered before the listeners' formats are known, so reading their PCM does not count as reading.
_PREPARED_SAMPLES: Final = GRANT_FRAMES * FRAME_SAMPLES
_audible_from = attrgetter("audible_from")

Working: TypeAlias = Callable[[], AbstractContextManager[None]]


class PacketStore(PcmStore):
    """As a `PcmStore`, but packets are appended. `end` counts their samples, decoded or not.

    Packets are stored as long as decoding may restart from them: PREROLL_SAMPLES before the PCM. `working` surrounds
    decoding in the thread that reads, so that a crash in it has a suspect.

    The stored PCM has no gaps: it is the decoder's output from some packet on, or empty.
    """

    def __init__(self, start_sample: int, decoding: PacketDecoding, working: Working = nullcontext) -> None:
        super().__init__(start_sample)
        self._decoding = decoding
        self._working = working
        self._decode_lock = threading.Lock()
        self._packets: list[SourcePacket] = []
        self._first_number = 0  # of the first stored packet
        self._links: list[int] = []  # the samples from which on packets have another grid than before
        self._next_number = -1  # of the decoder's next packet; -1: decoding restarts
        self._decoded_to = start_sample
        self._plain: PcmStore | None = None  # PCM that follows the packets and is not Opus
        self.is_read = False  # whether the PCM is read

    # By the thread that decodes

    def append_packets(self, packets: Sequence[SourcePacket]) -> None:
        """Adds packets that follow each other. Their sound before `start` is for the decoder only."""
        with self._lock:
            before = self._packets[-1] if self._packets else None
            for packet in packets:
                if before is not None and packet.start != before.audible_to:
                    self._links.append(packet.audible_from)
                before = packet
            self._packets.extend(packets)
            if packets:
                self.end = max(self.end, packets[-1].audible_to)

    def append(self, pcm: bytes) -> None:
        if self._plain is None:
            self._plain = PcmStore(self.end)
        self._plain.append(pcm)
        self.end = self._plain.end

    def begin_at(self, sample: int) -> None:
        super().begin_at(sample)
        self._decoded_to = sample

    def decode_ahead(self, up_to: int) -> None:
        """While the PCM is read, decodes the packets up to a sample, in pieces, so that a reader waits for at most one
        piece."""
        while self.is_read and self._next_number >= 0 and self._decoded_to < up_to:
            with self._decode_lock:
                if not self._decode_next():
                    return

    # By any thread

    def fresh(self, start_sample: int) -> "PacketStore":
        # With a separate decoder: this store's decoder may still be needed at its position.
        return PacketStore(start_sample, PacketDecoding(self._decoding.channels), self._working)

    def continued_from(self, sample: int) -> "PacketStore | None":
        with self._lock:
            if not self.oldest <= sample <= self.end:
                return None
            continued = self.fresh(sample)
            continued._packets = self._packets[self._index_before(sample) :]
            continued._links = [link for link in self._links if link >= sample]
            if self._chunks and self._chunks[0][0] <= sample <= self._decoded_to:
                continued._chunks.extend(chunk for chunk in self._chunks if chunk_end(chunk) > sample)
                continued._decoded_to = self._decoded_to
            if self._plain is not None:
                continued._plain = self._plain.continued_from(max(sample, self._plain.start))
            continued.end = self.end
            return continued

    def pieces(self) -> list[tuple[int, bytes]]:
        """The PCM that follows the packets and is not Opus."""
        return [] if self._plain is None else self._plain.pieces()

    def packets_from(self, sample: int) -> tuple[int, list[SourcePacket]]:
        """The first audible start of a packet at or after `sample`, and the packets from there on, after those that a
        decoder needs before them."""
        with self._lock:
            index = bisect_left(self._packets, sample, key=_audible_from)
            first = self._packets[index].audible_from if index < len(self._packets) else self.end
            return first, self._packets[self._index_before(first) :]

    def packet_with(self, sample: int) -> SourcePacket | None:
        """The packet whose audible sound has this sample."""
        with self._lock:
            index = bisect_right(self._packets, sample, key=_audible_from) - 1
            packet = self._packets[index] if index >= 0 else None
        return packet if packet is not None and sample < packet.audible_to else None

    def link_with(self, sample: int) -> int | None:
        """The start of the last part, at or before a sample, with its own beginning within the source, as in a chained
        stream."""
        with self._lock:
            index = bisect_right(self._links, sample) - 1
            return self._links[index] if index >= 0 else None

    def run_from(self, start: int, most: int) -> list[bytes]:
        """The packets from the one whose sound begins at `start` on, as far as they follow each other, up to `most`.
        Each is a frame long, fully audible and can be passed through."""
        run: list[bytes] = []
        with self._lock:
            index = bisect_right(self._packets, start, key=_audible_from) - 1
            packets = self._packets[index : index + most] if index >= 0 else []
        for packet in packets:
            whole = packet.start == start == packet.audible_from and packet.audible_to == start + FRAME_SAMPLES
            if not whole or not can_pass_through(packet.data):
                break
            run.append(packet.data)
            start += FRAME_SAMPLES
        return run

    def read(self, start: int, count: int) -> bytes:
        if not count:
            return b""
        end, plain = start + count, self._plain
        if end - self.start > _PREPARED_SAMPLES:
            self.is_read = True
        if plain is not None and end > plain.start:
            before = self.read(start, plain.start - start) if start < plain.start else b""
            start = max(start, plain.start)
            return before + plain.read(start, end - start)
        if not self.oldest <= start <= end <= self.end:
            raise LookupError(f"samples {start} to {end} of a store of {self.oldest} to {self.end}")
        with self._decode_lock:
            if not (self._chunks and self._chunks[0][0] <= start and end <= self._decoded_to):
                with self._working():
                    self._decode(start, end)
            return super().read(start, count)

    def view(self, start: int, count: int) -> bytes | memoryview:
        return self.read(start, count)  # `read` decodes them

    def release_before(self, sample: int) -> None:
        with self._lock:
            chunks = self._chunks
            while chunks and chunk_end(chunks[0]) <= sample:
                chunks.popleft()
            self.oldest = max(self.oldest, min(sample, self.end))
            index = self._index_before(sample)
            if index >= _RELEASE_PACKETS:
                del self._packets[:index]
                self._first_number += index
                while self._links and self._links[0] < self.oldest - _FORGET_LINKS_SAMPLES:
                    del self._links[0]
        if self._plain is not None:
            self._plain.release_before(sample)

    def stop_reading(self) -> None:
        """Frees the decoder, because the PCM is not read for now."""
        self.is_read = False
        if not self._chunks:
            with self._decode_lock:
                self._next_number = -1
                if self._decoding.free():
                    freed_memory.note()

    # With the lock for decoding

    def _decode(self, start: int, end: int) -> None:
        begun_at = self._chunks[0][0] if self._chunks else self._decoded_to
        if not (self._next_number >= self._first_number and begun_at <= start <= self._decoded_to + PREROLL_SAMPLES):
            self._begin_before(start)
        while self._decoded_to < end and self._decode_next():
            pass

    def _begin_before(self, sample: int) -> None:
        """Restarts decoding far enough before `sample` that the decoder's output is right there."""
        self._decoding.restart()
        with self._lock:
            self._chunks.clear()
            index = self._index_before(sample)
            first = bisect_right(self._packets, sample, key=_audible_from) - 1
            preroll = self._packets[index : max(first, index)]
            self._next_number = self._first_number + index + len(preroll)
            self._decoded_to = self._packets[max(first, index)].audible_from
        if preroll:
            self._decoding.decode(preroll)

    def _decode_next(self) -> bool:
        with self._lock:
            first = self._next_number - self._first_number
            packets = self._packets[first : first + _BATCH_PACKETS] if first >= 0 else []
        if not packets:
            return False
        pcm = self._decoding.decode(packets)
        self._next_number += len(packets)
        with self._lock:
            if pcm:  # an empty chunk would look like the end
                self._chunks.append((self._decoded_to, pcm))
            self._decoded_to += len(pcm) // SAMPLE_BLOCK_BYTES
        return True

    def _index_before(self, sample: int) -> int:
        """The index of the first packet that decoding from `sample` on needs."""
        return max(bisect_right(self._packets, sample - PREROLL_SAMPLES, key=_audible_from) - 1, 0)

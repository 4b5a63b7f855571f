"""An Opus file as a source of a session: its packets are there, and nothing is decoded before it is read."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.support.media_files import open_bytes
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.media.opus_decoding import PacketDecoding
from tonearm.worker.media.opus_packets import OpusPackets, SourcePacket
from tonearm.worker.sources.packet_store import PacketStore


class CountingDecoding(PacketDecoding):
    """Counts what it decodes."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.decoded_packets = 0

    def decode(self, packets: Sequence[SourcePacket]) -> bytes:
        self.decoded_packets += len(packets)
        return super().decode(packets)


class PacketSource:
    """The file from `start_sample` on, read to its end."""

    has_failed = False

    def __init__(self, file: bytes, start_sample: int = 0) -> None:
        media = open_bytes(file)
        packets = media.take_opus_packets()
        assert packets is not None, "its packets cannot be passed through"
        self.decoding = CountingDecoding(packets.channels)
        self.store = PacketStore(start_sample, self.decoding)
        self.loudness = SourceLoudness()
        if start_sample:
            self.store.append_packets(media.seek_packets(start_sample))
        for some in taken(packets):
            self.store.append_packets(some)
        self.store.finish(is_interrupted=False)
        media.close()


def taken(source: bytes | OpusPackets) -> list[list[SourcePacket]]:
    """All that are left, or those of a file, half a second at a time."""
    packets = open_bytes(source).take_opus_packets() if isinstance(source, bytes) else source
    assert packets is not None, "its packets cannot be passed through"
    parts = []
    while part := packets.take(24_000):
        parts.append(part)
    return parts


def packets_in(file: bytes) -> list[bytes]:
    """The packets of an Opus file."""
    return [packet.data for part in taken(file) for packet in part]


def pcm_in(file: bytes) -> NDArray[np.float64]:
    """What is heard of an Opus file: n by 2 in 16-bit units."""
    store = PacketSource(file).store
    return np.frombuffer(store.read(0, store.end), "<i2").reshape(-1, 2).astype(np.float64)

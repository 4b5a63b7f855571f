"""Opus packets of sources: the fields of their header and first bytes, and the decoder for them.

Sources: RFC 6716, section 3, for the first bytes of a packet; RFC 7845, section 5.1, for the header.
"""

import struct
from dataclasses import dataclass
from typing import Final

import av
from av.audio.codeccontext import AudioCodecContext

from tonearm.core.frame import CHANNELS, MOST_OPUS_PACKET_BYTES, SAMPLE_RATE_HZ

# Configurations of CELT with 20 ms a frame: narrowband, wideband, super-wideband, fullband.
_CELT_20_MS: Final = frozenset({19, 23, 27, 31})
# The first bytes of packets with one frame in such a configuration, mono or stereo.
_CAN_PASS: Final = frozenset(config << 3 | stereo << 2 for config in _CELT_20_MS for stereo in (0, 1))


def can_pass_through(packet: bytes | memoryview) -> bool:
    """Whether a packet of a source can be sent unchanged: one CELT frame of 20 ms, which joins packets that the node
    encodes."""
    return 0 < len(packet) <= MOST_OPUS_PACKET_BYTES and packet[0] in _CAN_PASS


def can_follow_ours(packet: bytes | memoryview) -> bool:
    """Whether a decoder that received a packet of this node's encoder instead of `packet` decodes the next packet
    correctly.

    It does not while CELT's post-filter is on, since our packet does not set the filter's state (RFC 6716, 4.3.7.1).
    """
    return len(packet) < 2 or not packet[1] & 0x80


def packet_samples(packet: bytes | memoryview) -> int:
    """The number of samples at 48 kHz in a packet (RFC 6716, 3.1 and 3.2). 0 for an invalid packet."""
    if not packet:
        return 0
    config, code = packet[0] >> 3, packet[0] & 3
    if config < 12:  # SILK
        samples = (480, 960, 1920, 2880)[config & 3]
    elif config < 16:  # hybrid
        samples = (480, 960)[config & 1]
    else:  # CELT
        samples = 120 << (config & 3)
    if code == 3:
        return samples * (packet[1] & 0x3F) if len(packet) > 1 else 0
    return samples * (1 if code == 0 else 2)


@dataclass(frozen=True, slots=True)
class OpusHead:
    """The identification header (RFC 7845, 5.1). `gain` is in 1/256 dB; `family` is the mapping of the channels."""

    channels: int
    pre_skip_samples: int
    gain: int
    family: int

    @classmethod
    def of(cls, codec: AudioCodecContext) -> "OpusHead | None":
        """The header of a stream; None for a stream without a header, or of another codec."""
        header = codec.extradata if codec.name == "opus" else None
        if header is None or len(header) < 19 or not header.startswith(b"OpusHead"):
            return None
        pre_skip_samples, gain = struct.unpack_from("<H4xh", header, 10)
        return cls(header[9], pre_skip_samples, gain, header[18])

    @property
    def is_plain(self) -> bool:
        """Whether its packets are one mono or stereo stream without a gain."""
        return self.family == 0 and 1 <= self.channels <= CHANNELS and self.gain == 0


def opus_codec(channels: int) -> AudioCodecContext:
    """FFmpeg's own decoder of mono or stereo packets, which is faster than libopus. It trims nothing by itself."""
    codec = av.CodecContext.create("opus", "r")
    assert isinstance(codec, AudioCodecContext)
    codec.extradata = b"OpusHead\x01%c\0\0\x80\xbb\0\0\0\0\0" % channels
    codec.sample_rate = SAMPLE_RATE_HZ
    codec.layout = "mono" if channels == 1 else "stereo"
    codec.thread_count = 1
    return codec

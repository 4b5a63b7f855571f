"""Whether decoders take what listeners get."""

import av
from av.audio.codeccontext import AudioCodecContext

from tonearm.core.frame import FRAME_SAMPLES

_MOST_BYTES = 1276  # of a packet with one frame: RFC 6716, 3.4


def opus_decoder() -> AudioCodecContext:
    """libopus, for packets of a player."""
    decoder = _decoder("libopus")
    decoder.sample_rate = 48_000
    decoder.layout = "stereo"
    return decoder


def mp3_decoder() -> AudioCodecContext:
    return _decoder("mp3float")


def check_opus_packet(decoder: AudioCodecContext, packet: bytes) -> None:
    """Raises AssertionError for a packet that it refuses, or of which it makes anything but a frame."""
    assert 1 <= len(packet) <= _MOST_BYTES, f"a packet of {len(packet)} bytes"
    try:
        samples = sum(frame.samples for frame in decoder.decode(av.Packet(packet)))
    except av.FFmpegError as error:
        raise AssertionError(f"a decoder refuses {len(packet)} bytes, {packet[:8].hex()} …: {error}") from error
    assert samples == FRAME_SAMPLES, f"a decoder makes {samples} samples of {len(packet)} bytes, {packet[:8].hex()} …"


def _decoder(name: str) -> AudioCodecContext:
    decoder = av.CodecContext.create(name, "r")
    assert isinstance(decoder, AudioCodecContext)
    return decoder

"""Decodes the packets of an Opus source to PCM."""

from collections.abc import Sequence
from typing import Any, Final

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame

from tonearm.core.frame import CHANNELS
from tonearm.worker.filters.blocks import FULL_SCALE, Planes
from tonearm.worker.filters.chain import as_pcm
from tonearm.worker.media.opus_format import opus_codec
from tonearm.worker.media.opus_packets import SourcePacket

_FULL_SCALE: Final = np.float32(FULL_SCALE)


class PacketDecoding:
    """Decodes packets to PCM. For one thread at a time.

    A decoder takes 180 kB, and a source whose packets are all passed through needs none. So the decoder is made for the
    first packet to decode, and freed when it is not needed for now. `codec` is an existing decoder.
    """

    def __init__(self, channels: int, codec: AudioCodecContext | None = None) -> None:
        self.channels = channels
        self._codec = codec

    def restart(self) -> None:
        """Forgets all earlier packets."""
        if self._codec is not None:
            self._codec.flush_buffers()

    def free(self) -> bool:
        """Frees the decoder. Returns whether there was one."""
        had_codec, self._codec = self._codec is not None, None
        return had_codec

    def decode(self, packets: Sequence[SourcePacket]) -> bytes:
        """The audible part of the packets, s16le stereo. A broken packet is silent."""
        if self._codec is None:
            self._codec = opus_codec(self.channels)
        decode = self._codec.decode
        samples = sum(packet.samples for packet in packets)
        sound: Planes = np.empty((CHANNELS, samples), np.float32)
        at = 0  # decoded, and audible
        for packet in packets:
            end = at + packet.samples
            filled = at
            try:
                for frame in decode(av.Packet(packet.data)):
                    filled += _put(frame, sound[:, filled:end])
            except av.FFmpegError:
                pass
            if filled != end:
                sound[:, filled:end] = 0.0
            if packet.is_whole:
                at = end
            else:
                first, length = packet.audible_from - packet.start, packet.audible_to - packet.audible_from
                sound[:, at : at + length] = sound[:, at + first : at + first + length].copy()
                at += length
        return as_pcm(sound[:, :at])


def _put(frame: AudioFrame, sound: Planes) -> int:
    """Copies a frame to the start of `sound` in 16-bit units, mono to both sides. Returns the number of samples."""
    planes: Any = frame.planes
    samples: int = min(frame.samples, sound.shape[1])
    left, right = planes[0], planes[-1]
    np.multiply(np.frombuffer(left, np.float32, samples), _FULL_SCALE, out=sound[0, :samples])
    np.multiply(np.frombuffer(right, np.float32, samples), _FULL_SCALE, out=sound[1, :samples])
    return samples

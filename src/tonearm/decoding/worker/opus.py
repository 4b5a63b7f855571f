"""Opus packets: made by the libopus that comes with the `av` wheel, and read as far as passing them on needs it.

The library is called directly, because then the interpreter lock is released while it encodes and the encoder's state
can be copied: one flat block of memory, so that encoding can begin again from any frame and gives the same packets.
Sources: opus_defines.h and opus_encoder.h of libopus 1.6; RFC 6716, section 3.1, for the first byte of a packet.
"""

import ctypes
import ctypes.util
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import av
from av.audio.codeccontext import AudioCodecContext

from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.core.outputs import Output

MOST_PACKET_BYTES: Final = 1275 * 3

_OK: Final = 0
_APPLICATION_AUDIO: Final = 2049
_SET_BITRATE: Final = 4002
_SET_VBR: Final = 4006
_SET_COMPLEXITY: Final = 4010
_SET_INBAND_FEC: Final = 4012
_SET_PACKET_LOSS_PERCENT: Final = 4014
_SET_VBR_CONSTRAINT: Final = 4020
_SET_SIGNAL: Final = 4024
_SET_PREDICTION_DISABLED: Final = 4042
_SIGNALS: Final = {"auto": -1000, "voice": 3001, "music": 3002}
_FEC_LOSS_PERCENT: Final = 10  # FEC is only written when losses are expected

# Configurations of CELT with 20 ms a frame: narrowband, wideband, super-wideband, fullband.
_CELT_20_MS: Final = frozenset({19, 23, 27, 31})
# The first bytes of packets with one frame in such a configuration, mono or stereo.
_CAN_PASS: Final = frozenset(config << 3 | stereo << 2 for config in _CELT_20_MS for stereo in (0, 1))


class OpusMissing(Exception):
    """libopus was not found, so nothing can be encoded."""


@dataclass(frozen=True, slots=True)
class EncoderState:
    """A copy of what an encoder remembers. Another encoder of the same library goes on from it."""

    memory: bytes


class OpusEncoder:
    """Encodes frames one after the other. For one thread at a time. Raises OpusMissing when there is no libopus."""

    def __init__(self, settings: Output) -> None:
        self._library = _libopus()
        self._size_bytes: int = self._library.opus_encoder_get_size(CHANNELS)
        self._memory = ctypes.create_string_buffer(self._size_bytes)
        self._packet = ctypes.create_string_buffer(MOST_PACKET_BYTES)
        self._addresses = ctypes.addressof(self._memory), ctypes.addressof(self._packet)
        self.settings = settings
        self.reset()

    def reset(self) -> None:
        """Forgets all sound."""
        code = self._library.opus_encoder_init(self._memory, SAMPLE_RATE_HZ, CHANNELS, _APPLICATION_AUDIO)
        if code != _OK:
            raise OpusMissing(f"libopus refuses to make an encoder: error {code}")
        settings = self.settings
        self._set(_SET_BITRATE, settings.bitrate_bps)
        self._set(_SET_COMPLEXITY, settings.complexity)
        self._set(_SET_SIGNAL, _SIGNALS[settings.signal])
        self._set(_SET_VBR, int(settings.is_variable))
        self._set(_SET_VBR_CONSTRAINT, int(settings.is_variable))
        self._set(_SET_INBAND_FEC, int(settings.has_fec))
        self._set(_SET_PACKET_LOSS_PERCENT, _FEC_LOSS_PERCENT if settings.has_fec else 0)

    def encode(self, pcm: bytes | memoryview, *, without_prediction: bool = False) -> bytes:
        """The packet of one frame, s16le stereo of FRAME_BYTES bytes.

        `without_prediction`: the packet builds on nothing before it, for a decoder that heard something else there.
        Raises ValueError for any other number of bytes.
        """
        if len(pcm) != FRAME_BYTES:
            raise ValueError(f"a packet is made of {FRAME_BYTES} bytes, not {len(pcm)}")
        if without_prediction:
            self._set(_SET_PREDICTION_DISABLED, 1)
        memory, packet = self._addresses
        length = self._library.opus_encode(memory, bytes(pcm), FRAME_SAMPLES, packet, MOST_PACKET_BYTES)
        if without_prediction:
            self._set(_SET_PREDICTION_DISABLED, 0)
        if length < 0:
            raise RuntimeError(f"libopus could not encode a frame: error {length}")
        return ctypes.string_at(packet, length)

    def save(self) -> EncoderState:
        return EncoderState(self._memory.raw)

    def restore(self, state: EncoderState) -> None:
        """Goes on from where the state was saved, with the settings of then."""
        ctypes.memmove(self._memory, state.memory, self._size_bytes)

    def _set(self, request: int, value: int) -> None:
        code = self._library.opus_encoder_ctl(self._memory, request, ctypes.c_int(value))
        if code != _OK:
            raise ValueError(f"libopus refuses {value} for setting {request}: error {code}")


def can_pass_on(packet: bytes | memoryview) -> bool:
    """Whether a packet of a source can be sent as it is: one frame of 20 ms, CELT, so that it joins others of ours."""
    return len(packet) > 0 and packet[0] in _CAN_PASS


def can_follow_ours(packet: bytes | memoryview) -> bool:
    """Whether the packet after this one, of the same source, is heard right by a decoder that got a packet of ours
    instead of this one: not while CELT's post-filter is on, whose state we cannot give it (RFC 6716, 4.3.7.1)."""
    return len(packet) < 2 or not packet[1] & 0x80


def packet_samples(packet: bytes | memoryview) -> int:
    """How many samples at 48 kHz a packet holds (RFC 6716, 3.1 and 3.2). 0 for one that is not valid."""
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
    """What the identification header says (RFC 7845, 5.1): `gain` in 1/256 dB, `family` how channels are mapped."""

    channels: int
    pre_skip_samples: int
    gain: int
    family: int

    @classmethod
    def read(cls, header: bytes | None) -> "OpusHead | None":
        """None for anything else."""
        if header is None or len(header) < 19 or not header.startswith(b"OpusHead"):
            return None
        pre_skip_samples, gain = struct.unpack_from("<H4xh", header, 10)
        return cls(header[9], pre_skip_samples, gain, header[18])

    @property
    def is_plain(self) -> bool:
        """Whether its packets are one mono or stereo stream that is heard as it is."""
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


def library_path() -> Path | None:
    """Where the libopus of the `av` wheel is, or None."""
    folder = Path(av.__file__).resolve().parent.parent / "av.libs"
    return next(iter(sorted(folder.glob("libopus-*.so*"))), None)


@cache
def _libopus() -> Any:
    path = library_path()
    name = str(path) if path is not None else ctypes.util.find_library("opus")
    if name is None:
        raise OpusMissing("libopus was found neither in the av package nor on this system")
    library = ctypes.CDLL(name)
    library.opus_encoder_get_size.argtypes = [ctypes.c_int]
    library.opus_encoder_get_size.restype = ctypes.c_int
    library.opus_encoder_init.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int, ctypes.c_int]
    library.opus_encode.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_int32,
    ]
    library.opus_encode.restype = ctypes.c_int32
    # A variadic C function: only the fixed arguments are declared, the value is given as c_int.
    library.opus_encoder_ctl.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return library

"""Encoders of Opus: the libopus that comes with the `av` wheel, called directly, and PyAV where that cannot be done.

Called directly, the library releases the interpreter lock while it encodes, and the encoder's state can be copied: one
flat block of memory, so that encoding can begin again from any frame and gives the same packets. See opus_defines.h and
opus_encoder.h of libopus 1.6.
"""

import ctypes
import ctypes.util
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame

from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.core.outputs import MOST_OPUS_PACKET_BYTES, Output

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

_KEPT_FRAMES: Final = 3  # instead of a state that PyAV cannot save


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
        self._packet = ctypes.create_string_buffer(MOST_OPUS_PACKET_BYTES)
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
        length = self._library.opus_encode(memory, bytes(pcm), FRAME_SAMPLES, packet, MOST_OPUS_PACKET_BYTES)
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


class PyavOpusEncoder:
    """As `OpusEncoder`, but by PyAV, which takes half as long again. Without prediction it cannot encode. Raises
    `av.FFmpegError` when FFmpeg has no libopus.

    It has no state to save. Instead the last frames are kept: a new encoder that has heard these goes on nearly as the
    old one would.
    """

    def __init__(self, settings: Output) -> None:
        self.settings = settings
        self._last: deque[bytes] = deque(maxlen=_KEPT_FRAMES)
        self._codec = self._opened()

    def reset(self) -> None:
        self._last.clear()
        self._codec = self._opened()

    def encode(self, pcm: bytes | memoryview, *, without_prediction: bool = False) -> bytes:
        if len(pcm) != FRAME_BYTES:
            raise ValueError(f"a packet is made of {FRAME_BYTES} bytes, not {len(pcm)}")
        self._last.append(bytes(pcm))
        frame = AudioFrame.from_ndarray(np.frombuffer(pcm, "<i2").reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = SAMPLE_RATE_HZ
        frame.pts = self._pts
        self._pts += FRAME_SAMPLES
        return b"".join(bytes(packet) for packet in self._codec.encode(frame))

    def save(self) -> EncoderState:
        return EncoderState(b"".join(self._last))

    def restore(self, state: EncoderState) -> None:
        self.reset()
        for start in range(0, len(state.memory), FRAME_BYTES):
            self.encode(state.memory[start : start + FRAME_BYTES])

    def _opened(self) -> AudioCodecContext:
        codec = av.CodecContext.create("libopus", "w")
        assert isinstance(codec, AudioCodecContext)
        settings = self.settings
        codec.sample_rate = SAMPLE_RATE_HZ
        codec.layout = "stereo"
        codec.format = "s16"
        codec.bit_rate = settings.bitrate_bps
        codec.options = {
            "compression_level": str(settings.complexity),
            "vbr": "constrained" if settings.is_variable else "off",
            "fec": str(int(settings.has_fec)),
            "frame_duration": "20",
        }
        codec.open()
        self._pts = 0
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

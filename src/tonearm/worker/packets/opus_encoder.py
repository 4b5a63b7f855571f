"""The encoder of Opus: the libopus that comes with the `av` wheel, or the system's, called directly.

So the library releases the interpreter lock while it encodes, and the encoder's state can be copied: one flat block of
memory, so that encoding can begin again from any frame and gives the same packets. See opus_defines.h and
opus_encoder.h of libopus 1.6.
"""

import ctypes
import ctypes.util
from functools import cache
from pathlib import Path
from typing import Any, Final

import av

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


class OpusMissing(Exception):
    """libopus was not found or cannot be called, so nothing can be encoded."""


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

    def save(self) -> bytes:
        """A copy of the state, from which another encoder of the same library can go on."""
        return self._memory.raw

    def restore(self, state: bytes) -> None:
        """Goes on from where the state was saved, with the settings of then."""
        ctypes.memmove(self._memory, state, self._size_bytes)

    def _set(self, request: int, value: int) -> None:
        code = self._library.opus_encoder_ctl(self._memory, request, ctypes.c_int(value))
        if code != _OK:
            raise ValueError(f"libopus refuses {value} for setting {request}: error {code}")


@cache
def opus_problem() -> str:
    """Why nothing can be encoded to Opus; empty where it can. The first call opens files."""
    try:
        OpusEncoder(Output("opus"))
    except OpusMissing as error:
        return str(error)
    return ""


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
    try:
        return _declared(ctypes.CDLL(name))
    except (OSError, AttributeError) as error:
        raise OpusMissing(f"libopus cannot be loaded: {error}") from error


def _declared(library: Any) -> Any:
    library.opus_encoder_get_size.argtypes = [ctypes.c_int]
    library.opus_encoder_get_size.restype = ctypes.c_int
    library.opus_encoder_init.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int, ctypes.c_int]
    library.opus_encode.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int32]
    library.opus_encode.restype = ctypes.c_int32
    # A variadic C function: only the fixed arguments are declared, the value is given as c_int.
    library.opus_encoder_ctl.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return library

"""The Opus encoder: calls the libopus of the `av` wheel, or the system's, directly.

Direct calls release the interpreter lock while the library encodes, and the encoder's state, a flat block of memory,
can be copied. So encoding can restart from any frame that was not sent, and gives the same packets. A state is saved
only at the start of each block of frames; in between it follows from the PCM since then. See opus_defines.h and
opus_encoder.h of libopus 1.6.
"""

import ctypes
import ctypes.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import av

from tonearm.core.frame import (
    CHANNELS,
    FRAME_BYTES,
    FRAME_SAMPLES,
    MOST_OPUS_PACKET_BYTES,
    SAMPLE_RATE_HZ,
    Output,
    Outputs,
)

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
    """Encodes frames one after the other. For one thread at a time. Raises OpusMissing when there is no libopus in
    `library`; with None, when neither our libopus nor the system's exists."""

    def __init__(self, settings: Output, library: Path | None = None) -> None:
        self._library = _libopus(library)
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

        `without_prediction`: the packet does not depend on earlier packets, for a decoder that received others. Raises
        ValueError for any other number of bytes.
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
        """A copy of the state, from which another encoder of the same library can continue."""
        return self._memory.raw

    def restore(self, state: bytes) -> None:
        """Continues from a saved state, with the settings at that time."""
        ctypes.memmove(self._memory, state, self._size_bytes)

    def _set(self, request: int, value: int) -> None:
        code = self._library.opus_encoder_ctl(self._memory, request, ctypes.c_int(value))
        if code != _OK:
            raise ValueError(f"libopus refuses {value} for setting {request}: error {code}")


@cache
def opus_problem(library: Path | None) -> str:
    """The reason why encoding to Opus with `library` (see `OpusEncoder`) is impossible; empty when it is possible. The
    first call opens files."""
    try:
        OpusEncoder(Output("opus"), library)
    except OpusMissing as error:
        return str(error)
    return ""


def library_path() -> Path | None:
    """The path of the `av` wheel's libopus, or None."""
    folder = Path(av.__file__).resolve().parent.parent / "av.libs"
    return next(iter(sorted(folder.glob("libopus-*.so*"))), None)


@cache
def _libopus(library: Path | None) -> Any:
    path = library or library_path()
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
    # A variadic C function: only the fixed arguments are declared; the value is passed as c_int.
    library.opus_encoder_ctl.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return library


@dataclass(frozen=True, slots=True, eq=False)
class EncoderPoint:
    """A point in an encoding: a saved state, and the frames that were encoded since. `is_fresh`: the encoder begins in
    mid-stream, so its first packet must not depend on earlier packets."""

    state: bytes
    pcm_since: bytes = b""
    is_fresh: bool = False

    def after(self, pcm: bytes) -> "EncoderPoint":
        return replace(self, pcm_since=self.pcm_since + pcm)


EncoderPoints: TypeAlias = tuple[tuple[Output, EncoderPoint], ...]
NO_POINTS: Final[EncoderPoints] = ()


@dataclass(frozen=True, slots=True, eq=False)
class EncodedBlock:
    """The packets of each output, and the points of its encoding before and after the block."""

    packets: tuple[tuple[Output, tuple[bytes, ...]], ...]
    before: EncoderPoints
    after: EncoderPoints


NOTHING_ENCODED: Final = EncodedBlock((), NO_POINTS, NO_POINTS)


class PacketEncoders:
    """The encoders of one session. For one thread only."""

    def __init__(self) -> None:
        self._encoders: dict[Output, OpusEncoder] = {}
        self._at: dict[Output, EncoderPoint] = {}  # the point at which each encoder is now

    def encode(
        self,
        pcm: bytes,
        outputs: Outputs,
        points: EncoderPoints,
        before: Callable[[], bytes | None],
        *,
        opens: bool = False,
    ) -> EncodedBlock:
        """Encodes whole frames, continuing from `points`. `opens`: a packet of another encoder follows them.

        `before` is for an output without a point: it returns the last PRIMING_FRAMES frames before these, or fewer, or
        None when these are the first frames of all.
        """
        packets: list[tuple[Output, tuple[bytes, ...]]] = []
        points_before: list[tuple[Output, EncoderPoint]] = []
        points_after: list[tuple[Output, EncoderPoint]] = []
        point_of = dict(points)
        for output in sorted(output for output in outputs if output.format == "opus"):
            encoder = self._encoders.get(output)
            if encoder is None:
                encoder = self._encoders[output] = OpusEncoder(output)
            point = point_of.get(output)
            if point is None:
                point = self._begin(encoder, before())
            elif point is not self._at.get(output):
                encoder.restore(point.state)
                for _ in _packets(encoder, point.pcm_since, is_fresh=point.is_fresh):
                    pass
            is_fresh = point.is_fresh and not point.pcm_since
            packets.append((output, tuple(_packets(encoder, pcm, is_fresh=is_fresh, opens=opens))))
            points_before.append((output, point))
            self._at[output] = EncoderPoint(encoder.save())
            points_after.append((output, self._at[output]))
        return EncodedBlock(tuple(packets), tuple(points_before), tuple(points_after))

    def forget(self, output: Output) -> None:
        """Frees an encoder that is not needed for now."""
        self._encoders.pop(output, None)
        self._at.pop(output, None)

    def forget_all_but(self, outputs: Outputs) -> None:
        for output in self._encoders.keys() - outputs:
            self.forget(output)

    def _begin(self, encoder: OpusEncoder, before: bytes | None) -> EncoderPoint:
        encoder.reset()
        for _ in _packets(encoder, before or b""):
            pass
        return EncoderPoint(encoder.save(), is_fresh=before is not None)


def encoded_alone(output: Output, pcm: bytes) -> list[bytes]:
    """The packets of whole frames, encoded independently of the frames before and after them."""
    return list(_packets(OpusEncoder(output), pcm, is_fresh=True))


def _packets(encoder: OpusEncoder, pcm: bytes, *, is_fresh: bool = False, opens: bool = False) -> Iterator[bytes]:
    last = len(pcm) - FRAME_BYTES
    for start in range(0, len(pcm), FRAME_BYTES):
        alone = (is_fresh and not start) or (opens and start == last)
        yield encoder.encode(pcm[start : start + FRAME_BYTES], without_prediction=alone)

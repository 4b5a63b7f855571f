"""The wire format between node and decoder process. Received messages are checked: the other end may have a fault.

A message is a header (`<IBI`: bytes of the body, kind, session) and a body. Frequent messages (audio, grants, read
requests, data) are packed as binary, the others are JSON.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from operator import attrgetter
from types import MappingProxyType, UnionType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast, get_args, get_origin

from tonearm.core.effects import EFFECT_KINDS, Effects
from tonearm.core.errors import BadRequest
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES
from tonearm.core.outputs import OpusSignal, Output, OutputFormat, Outputs
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.decoding.messages import (
    BODY_LIMIT_BYTES,
    Audio,
    CloseSession,
    Crossfade,
    Data,
    DataFailed,
    Decoded,
    DropSource,
    Encoded,
    Failed,
    FirstAudio,
    Flush,
    FoundPicture,
    FromDecoder,
    FromNode,
    Grant,
    Mark,
    MarkKind,
    Measured,
    Opened,
    OpenSession,
    OpenSource,
    Overlay,
    OverlayPosition,
    Ping,
    Plan,
    Pong,
    ReadRequest,
    Ready,
    SeekFailed,
    SeekSource,
    TitleAt,
    Titled,
)
from tonearm.sandbox.report import SandboxReport

Message: TypeAlias = FromNode | FromDecoder

_HEADER: Final = struct.Struct("<IBI")
_GRANT: Final = struct.Struct("<IQQQ")
_AUDIO: Final = struct.Struct("<IQIQdHHB?B?H")
_ENCODED: Final = struct.Struct("<QQH")
_OUTPUT: Final = struct.Struct("<BBBIB")
_MARK: Final = struct.Struct("<BQIH")
_OVERLAY: Final = struct.Struct("<IQ??")
_DATA: Final = struct.Struct("<IQ")
_SOURCE: Final = struct.Struct("<I")

_T = TypeVar("_T")


class BrokenMessage(Exception):
    """The received bytes are not a valid message."""


class _Kind(IntEnum):
    OPEN_SESSION = 1
    CLOSE_SESSION = 2
    OPEN_SOURCE = 3
    DROP_SOURCE = 4
    DATA = 5
    DATA_FAILED = 6
    PLAN = 7
    GRANT = 8
    FLUSH = 9
    PING = 10
    TITLE_AT = 11
    SEEK_SOURCE = 12
    READY = 32
    READ_REQUEST = 33
    OPENED = 34
    FAILED = 35
    DECODED = 36
    AUDIO = 37
    PONG = 38
    TITLED = 39
    SEEK_FAILED = 40
    MEASURED = 41
    ENCODED = 42
    FIRST_AUDIO = 43
    FOUND_PICTURE = 44


class _Coding(NamedTuple):
    """How one class of messages is written and read."""

    kind: _Kind
    message: type[Message]
    pack: Callable[[Any], bytes]
    read: Callable[[int, memoryview], Message]


def pack(message: Message) -> bytes:
    """The bytes of `message` for the socket."""
    return _BY_MESSAGE[type(message)].pack(message)


def parts_of(message: Message) -> Sequence[bytes | memoryview]:
    """As `pack`, in parts: the PCM is not copied."""
    return _audio_parts(message) if isinstance(message, Audio) else (pack(message),)


class MessageSplitter:
    """Cuts the bytes received from a socket into messages."""

    def __init__(self) -> None:
        self._begun = bytearray()  # the first bytes of an incomplete message

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Message]:
        """The messages that `data` completes. Raises `BrokenMessage`.

        The PCM of an `Audio` is not copied. It is a view into `data`, valid until `data` is overwritten.
        """
        view = memoryview(data)
        while self._begun and view:
            missing = _end_of_message(self._begun, 0) - len(self._begun)
            self._begun += view[:missing]
            view = view[missing:]
            if len(self._begun) == _end_of_message(self._begun, 0):
                complete, self._begun = self._begun, bytearray()
                _, kind, session = _HEADER.unpack_from(complete)
                yield _read(kind, session, memoryview(complete)[_HEADER.size :])
        start, size = 0, len(view)
        while start + _HEADER.size <= size:
            length, kind, session = _HEADER.unpack_from(view, start)
            body_start = start + _HEADER.size
            end = body_start + _checked_length(length)
            if end > size:
                break
            yield _read(kind, session, view[body_start:end])
            start = end
        self._begun += view[start:]


def _end_of_message(data: bytearray | memoryview, start: int) -> int:
    """Where the message that begins at `start` ends; where its header ends as long as that is incomplete."""
    body_start = start + _HEADER.size
    if body_start > len(data):
        return body_start
    return body_start + _checked_length(_HEADER.unpack_from(data, start)[0])


def _checked_length(length: int) -> int:
    if length > BODY_LIMIT_BYTES:
        raise BrokenMessage(f"a message of {length} bytes; at most {BODY_LIMIT_BYTES} are taken")
    return length


def _read(kind: int, session: int, body: memoryview) -> Message:
    coding = _BY_KIND.get(kind)
    if coding is None:
        raise BrokenMessage(f"a message of the unknown kind {kind}")
    try:
        return coding.read(session, body)
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, struct.error) as error:
        raise BrokenMessage(f"a broken {coding.message.__name__}: {error}") from error


def _parts(kind: _Kind, session: int, *body: bytes | memoryview) -> tuple[bytes | memoryview, ...]:
    """A message whose body is given in parts, in parts."""
    return _HEADER.pack(sum(map(len, body)), kind, session), *body


def _joined(kind: _Kind, session: int, *body: bytes | memoryview) -> bytes:
    """The same as one piece, so that data is copied only once."""
    return b"".join(_parts(kind, session, *body))


def _flat(kind: _Kind, message: type[Message], layout: str = "") -> _Coding:
    """For messages of numbers only. `layout` is the `struct` format of the fields in their order, without session."""
    numbers = struct.Struct("<" + layout)
    whole = struct.Struct(_HEADER.format + layout)
    names = [field.name for field in fields(cast(Any, message))]
    has_session = names[:1] == ["session"]
    values_of = _values_of(names)
    build: Callable[..., Message] = message

    def pack_flat(value: Message) -> bytes:
        if has_session:
            return whole.pack(numbers.size, kind, *values_of(value))
        return whole.pack(numbers.size, kind, 0, *values_of(value))

    def read(session: int, body: memoryview) -> Message:
        own = numbers.unpack(body)
        return build(session, *own) if has_session else build(*own)

    return _Coding(kind, message, pack_flat, read)


def _values_of(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _as_json(kind: _Kind, message: type[Message]) -> _Coding:
    """For messages with text or nested values."""

    has_session = any(field.name == "session" for field in fields(cast(Any, message)))

    def pack_json(value: Any) -> bytes:
        # Text from hostile files may hold lone surrogates. JSON can carry those as ASCII escapes.
        body = json.dumps(_plain(value), default=_plain).encode("ascii")
        return _joined(kind, value.session if has_session else 0, body)

    def read(session: int, body: memoryview) -> Message:
        return _built(message, {**json.loads(bytes(body)), "session": session})

    return _Coding(kind, message, pack_json, read)


def _plain(value: Any) -> object:
    """What JSON has no word for: dataclasses, of which `asdict` would make copies to the last field, and sets."""
    names = _field_names(value.__class__)
    return list(value) if names is None else {name: getattr(value, name) for name in names}


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def _audio_parts(audio: Audio) -> Sequence[bytes | memoryview]:
    head = _AUDIO.pack(
        audio.epoch,
        audio.first_frame,
        audio.source,
        audio.position_samples,
        audio.position_rate,
        len(audio.marks),
        audio.frames,
        len(audio.packets),
        bool(audio.pcm),
        len(audio.overlays),
        audio.is_passed,
        audio.lag_samples,
    )
    return _parts(
        _Kind.AUDIO,
        audio.session,
        head,
        *[_OVERLAY.pack(at.source, at.sample, at.moves, at.ends) for at in audio.overlays],
        *[_MARK.pack(mark.kind, mark.frame, mark.source, mark.offset_samples) for mark in audio.marks],
        *[_packed_packets(output, packets) for output, packets in audio.packets],
        audio.pcm,
    )


def _pack_audio(audio: Audio) -> bytes:
    return b"".join(_audio_parts(audio))


def _read_audio(session: int, body: memoryview) -> Audio:
    numbers = _AUDIO.unpack_from(body)
    epoch, first_frame, source, position, rate, mark_count, frames, forms, has_pcm, overlay_count, is_passed, lag = (
        numbers
    )
    start = _AUDIO.size
    marks: tuple[Mark, ...] = ()
    overlays: tuple[OverlayPosition, ...] = ()
    packets: tuple[tuple[Output, tuple[bytes, ...]], ...] = ()
    if mark_count or overlay_count:
        marks_start = start + overlay_count * _OVERLAY.size
        start = marks_start + mark_count * _MARK.size
        if start > len(body):
            raise ValueError(f"{len(body)} bytes with {mark_count} marks and {overlay_count} overlays")
        overlays, marks = _read_overlays(body[_AUDIO.size : marks_start]), _read_marks(body[marks_start:start])
    for _ in range(forms):
        output = _read_output(bytes(body[start : start + _OUTPUT.size]))
        of_output, start = _read_packets(body, start + _OUTPUT.size, frames)
        packets = (*packets, (output, of_output))
    if len(body) - start != (frames * FRAME_BYTES if has_pcm else 0):
        raise ValueError(f"{len(body) - start} bytes of PCM with {frames} frames")
    pcm = body[start:]
    of_frames = frames, source, position, marks, pcm, rate, packets, overlays, is_passed, lag
    return Audio(session, epoch, first_frame, *of_frames)


def _packed_packets(output: Output, packets: tuple[bytes, ...]) -> bytes:
    return b"".join((_packed_output(output), struct.pack(f"<{len(packets)}H", *map(len, packets)), *packets))


def _read_packets(body: memoryview, start: int, count: int) -> tuple[tuple[bytes, ...], int]:
    """The packets that begin with their sizes at `start`, and where they end."""
    places = list(accumulate(struct.unpack_from(f"<{count}H", body, start), initial=0))
    start += 2 * count
    end = start + places[-1]
    if end > len(body):
        raise ValueError(f"packets up to {end} in {len(body)} bytes")
    whole = bytes(body[start:end])
    return tuple([whole[begin:stop] for begin, stop in pairwise(places)]), end


def _pack_encoded(encoded: Encoded) -> bytes:
    head = _ENCODED.pack(encoded.first_frame, encoded.end_frame, len(encoded.mp3_frames))
    return _joined(_Kind.ENCODED, encoded.session, head, _packed_packets(encoded.output, encoded.mp3_frames))


def _read_encoded(session: int, body: memoryview) -> Encoded:
    first_frame, end_frame, count = _ENCODED.unpack_from(body)
    start = _ENCODED.size + _OUTPUT.size
    mp3_frames, _ = _read_packets(body, start, count)
    return Encoded(session, first_frame, end_frame, _read_output(bytes(body[_ENCODED.size : start])), mp3_frames)


_FORMATS: Final[tuple[OutputFormat, ...]] = ("pcm", "opus", "mp3")
_SIGNALS: Final[tuple[OpusSignal, ...]] = ("auto", "music", "voice")
_HAS_FEC, _IS_VARIABLE, _PASSES_THROUGH = 1, 2, 4


@lru_cache(maxsize=64)
def _packed_output(output: Output) -> bytes:
    return _OUTPUT.pack(
        _FORMATS.index(output.format),
        output.complexity,
        _SIGNALS.index(output.signal),
        output.bitrate_bps,
        output.has_fec * _HAS_FEC + output.is_variable * _IS_VARIABLE + output.passes_through * _PASSES_THROUGH,
    )


@lru_cache(maxsize=64)
def _read_output(packed: bytes) -> Output:
    number, complexity, signal, bitrate_bps, flags = _OUTPUT.unpack(packed)
    return Output(
        _FORMATS[number],
        bitrate_bps,
        complexity,
        bool(flags & _HAS_FEC),
        _SIGNALS[signal],
        bool(flags & _IS_VARIABLE),
        bool(flags & _PASSES_THROUGH),
    )


@lru_cache(maxsize=64)
def _packed_outputs(outputs: Outputs) -> bytes:
    return b"".join(map(_packed_output, sorted(outputs)))


@lru_cache(maxsize=64)
def _read_outputs(packed: bytes) -> Outputs:
    starts = range(0, len(packed), _OUTPUT.size)
    return frozenset(_read_output(packed[start : start + _OUTPUT.size]) for start in starts)


def _pack_grant(grant: Grant) -> bytes:
    numbers = _GRANT.pack(grant.epoch, grant.sent, grant.granted, grant.due_before)
    return _joined(_Kind.GRANT, grant.session, numbers, _packed_outputs(grant.outputs))


def _read_grant(session: int, body: memoryview) -> Grant:
    epoch, sent, granted, due_before = _GRANT.unpack_from(body)
    return Grant(session, epoch, sent, granted, _read_outputs(bytes(body[_GRANT.size :])), due_before)


def _read_marks(packed: memoryview) -> tuple[Mark, ...]:
    return tuple(
        Mark(MarkKind(kind), frame, source, offset_samples)
        for kind, frame, source, offset_samples in _MARK.iter_unpack(packed)
    )


def _read_overlays(packed: memoryview) -> tuple[OverlayPosition, ...]:
    return tuple(OverlayPosition(*position) for position in _OVERLAY.iter_unpack(packed))


def _pack_data(data: Data) -> bytes:
    return _joined(_Kind.DATA, data.session, _DATA.pack(data.source, data.offset), data.data)


def _read_data(session: int, body: memoryview) -> Data:
    source, offset = _DATA.unpack_from(body)
    return Data(session, source, offset, bytes(body[_DATA.size :]))


def _pack_picture(found: FoundPicture) -> bytes:
    return _joined(_Kind.FOUND_PICTURE, found.session, _SOURCE.pack(found.source), found.data)


def _read_picture(session: int, body: memoryview) -> FoundPicture:
    (source,) = _SOURCE.unpack_from(body)
    return FoundPicture(session, source, bytes(body[_SOURCE.size :]))


def _built(wanted: type[_T], values: object) -> _T:
    """Builds the dataclass from parsed JSON. Raises `ValueError`, `TypeError` or `KeyError` for a wrong field."""
    if not isinstance(values, dict):
        raise TypeError(f"{wanted.__name__} is not an object")
    built: dict[str, object] = {}
    for field in fields(cast(Any, wanted)):
        value = _NESTED.get(field.type, _unchanged)(values[field.name])
        if not _is_a(value, field.type):
            raise TypeError(f"{field.name} is {value!r:.100}")
        built[field.name] = value
    return wanted(**built)


def _is_a(value: object, wanted: Any) -> bool:
    if isinstance(wanted, UnionType):
        return any(_is_a(value, one) for one in get_args(wanted))
    return isinstance(value, get_origin(wanted) or wanted)


def _unchanged(value: object) -> object:
    return value


def _filters(value: Any) -> Filters:
    effects = {name: _effect(name, setting) for name, setting in value["effects"].items()}
    return Filters(float(value["volume"]), tuple(map(float, value["gains_db"])), Effects(**effects))


def _effect(name: str, setting: Any) -> Any:
    try:
        return None if setting is None else EFFECT_KINDS[name](**setting).checked()
    except BadRequest as error:
        raise ValueError(str(error)) from error


def _outputs(value: Any) -> Outputs | None:
    return None if value is None else frozenset(Output(*output) for output in value)


def _facts(value: object) -> SourceFacts:
    return _built(SourceFacts, value)


def _sandbox(value: object) -> SandboxReport:
    return _built(SandboxReport, value)


def _measured(value: object) -> MeasuredLoudness | None:
    return None if value is None else _built(MeasuredLoudness, value)


def _failure(value: object) -> PlayFailure:
    return _built(PlayFailure, value)


def _crossfade(value: object) -> Crossfade | None:
    return None if value is None else _built(Crossfade, value)


def _overlays(values: list[object]) -> tuple[Overlay, ...]:
    return tuple(_built(Overlay, value) for value in values)


_NESTED: Final[Mapping[object, Callable[[Any], object]]] = MappingProxyType(
    {
        Outputs | None: _outputs,
        Filters: _filters,
        SourceFacts: _facts,
        SandboxReport: _sandbox,
        MeasuredLoudness | None: _measured,
        PlayFailure: _failure,
        FailureCode: FailureCode,
        Stage: Stage,
        Crossfade | None: _crossfade,
        tuple[Overlay, ...]: _overlays,
    }
)

_CODINGS: Final = (
    _Coding(_Kind.AUDIO, Audio, _pack_audio, _read_audio),
    _Coding(_Kind.ENCODED, Encoded, _pack_encoded, _read_encoded),
    _Coding(_Kind.GRANT, Grant, _pack_grant, _read_grant),
    _Coding(_Kind.DATA, Data, _pack_data, _read_data),
    _Coding(_Kind.FOUND_PICTURE, FoundPicture, _pack_picture, _read_picture),
    _flat(_Kind.CLOSE_SESSION, CloseSession),
    _flat(_Kind.DROP_SOURCE, DropSource, "I"),
    _flat(_Kind.SEEK_SOURCE, SeekSource, "IIQ"),
    _flat(_Kind.FLUSH, Flush),
    _flat(_Kind.PING, Ping, "Q"),
    _flat(_Kind.READ_REQUEST, ReadRequest, "IQI"),
    _flat(_Kind.DECODED, Decoded, "I"),
    _flat(_Kind.FIRST_AUDIO, FirstAudio, "I"),
    _flat(_Kind.MEASURED, Measured, "IdQ"),
    _flat(_Kind.PONG, Pong, "Qd"),
    _as_json(_Kind.OPEN_SESSION, OpenSession),
    _as_json(_Kind.OPEN_SOURCE, OpenSource),
    _as_json(_Kind.DATA_FAILED, DataFailed),
    _as_json(_Kind.PLAN, Plan),
    _as_json(_Kind.READY, Ready),
    _as_json(_Kind.OPENED, Opened),
    _as_json(_Kind.FAILED, Failed),
    _as_json(_Kind.SEEK_FAILED, SeekFailed),
    _as_json(_Kind.TITLE_AT, TitleAt),
    _as_json(_Kind.TITLED, Titled),
)
_BY_MESSAGE: Final[Mapping[type, _Coding]] = MappingProxyType({coding.message: coding for coding in _CODINGS})
_BY_KIND: Final[Mapping[int, _Coding]] = MappingProxyType({int(coding.kind): coding for coding in _CODINGS})

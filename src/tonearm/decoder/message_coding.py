"""The wire format between the node and a decoder process. Received messages are checked against the declarations in
`messages`, because the other end may be faulty or controlled by an attacker.

A message has a header (`<BII`: kind, bytes of the body, bytes of the bulk), a body and a bulk. The body has the fields
as a MessagePack array (https://github.com/msgpack/msgpack/blob/master/spec.md). The bulk is PCM or the bytes of a
source or a picture, which are not copied into the body. Both ends have the same version, so a kind is simply an index
in the list of messages.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import force_setattr

from tonearm.core.errors import BadRequest
from tonearm.core.file_formats import MAX_PICTURE_BYTES
from tonearm.core.filters import BAND_COUNT, Effect, FilterChange, Filters
from tonearm.core.frame import (
    FRAME_BYTES,
    HIGHEST_COMPLEXITY,
    HIGHEST_OPUS_BPS,
    MOST_ENCODERS,
    MOST_OPUS_PACKET_BYTES,
    Outputs,
)
from tonearm.core.printable import one_line
from tonearm.core.track_info import MAX_LENGTH_MS, SourceFacts
from tonearm.decoder.messages import (
    DATA_CHUNK_BYTES,
    MAX_COUNT,
    MAX_TEXT_CHARACTERS,
    PASSED_GRANT_FRAMES,
    Audio,
    Data,
    Encoded,
    FoundPicture,
    FromDecoder,
    FromNode,
    Grant,
    Measured,
    Ping,
    Pong,
    ReadRequest,
)

Message: TypeAlias = FromNode | FromDecoder

_HEADER: Final = struct.Struct("<BII")
_BODY_BYTES: Final = 64 * 1024
# The longest body with packets: for the most frames, in the most forms, each packet with three bytes of length.
_PACKETS_BYTES: Final = _BODY_BYTES + MOST_ENCODERS * PASSED_GRANT_FRAMES * (MOST_OPUS_PACKET_BYTES + 3)

# By message, the field that is its bulk, and the bulk's most bytes.
_BULKS: Final[Mapping[type, tuple[str, int]]] = {
    Audio: ("pcm", PASSED_GRANT_FRAMES * FRAME_BYTES),
    Data: ("data", DATA_CHUNK_BYTES),
    FoundPicture: ("data", MAX_PICTURE_BYTES),
}
_encode: Final = msgspec.msgpack.Encoder().encode


class BrokenMessage(Exception):
    """A received message breaks a rule. `session` is the message's session, 0 if it is unknown."""

    def __init__(self, told: str, session: int = 0) -> None:
        super().__init__(told)
        self.session = session


class _Coding(NamedTuple):
    """How one class of messages is written and read."""

    kind: int
    message: type
    decode: Callable[[memoryview], Any]
    check: Callable[[Any], None] | None
    most_body_bytes: int
    bulk: str  # the field
    most_bulk_bytes: int


def pack(message: Message) -> bytes:
    return b"".join(parts_of(message))


def parts_of(message: Message) -> Sequence[bytes | memoryview]:
    """As `pack`, in parts, so that bulk is not copied. Texts that are too long are cut, and made valid UTF-8."""
    coding = _BY_MESSAGE[type(message)]
    if not coding.bulk:
        body = _encode(_fitting(msgspec.to_builtins(message)) if coding.check is _check_all else message)
        return (_HEADER.pack(coding.kind, len(body), 0) + body,)
    bulk = getattr(message, coding.bulk)
    body = _encode(msgspec.structs.replace(message, **{coding.bulk: b""}) if bulk else message)
    return (_HEADER.pack(coding.kind, len(body), len(bulk)) + body, bulk)


def _fitting(value: Any) -> Any:
    """The value with texts that may be sent. The texts of hostile files may contain lone surrogates."""
    if isinstance(value, str):
        return value[:MAX_TEXT_CHARACTERS].encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_fitting(item) for item in value]
    return {name: _fitting(item) for name, item in value.items()} if isinstance(value, dict) else value


class MessageSplitter:
    """Splits the bytes received from a socket. `messages`: the union of the messages that the other end may send."""

    def __init__(self, messages: Any = Message) -> None:
        self._codings = {coding.kind: coding for coding in _BY_MESSAGE.values() if coding.message in get_args(messages)}
        self._begun = bytearray()  # the first bytes of an incomplete message

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Message]:
        """Yields the messages that `data` completes. Raises `BrokenMessage`.

        The PCM of an `Audio` is not copied. It is a view into `data`, valid until `data` is overwritten.
        """
        view = memoryview(data)
        while self._begun and view:
            missing = _HEADER.size - len(self._begun)
            if missing <= 0:
                missing = self._ends(self._begun, 0)[2] - len(self._begun)
            self._begun += view[:missing]
            view = view[missing:]
            if len(self._begun) >= _HEADER.size and len(self._begun) == self._ends(self._begun, 0)[2]:
                complete, self._begun = self._begun, bytearray()
                yield from self.feed(complete)
        start, size = 0, len(view)
        while start + _HEADER.size <= size:
            coding, body_end, end = self._ends(view, start)
            if end > size:
                break
            yield _read(coding, view[start + _HEADER.size : body_end], view[body_end:end])
            start = end
        self._begun += view[start:]

    def _ends(self, data: bytearray | memoryview, start: int) -> tuple[_Coding, int, int]:
        """The coding of the message whose header is at `start`, and where its body and its bulk end."""
        kind, body_bytes, bulk_bytes = _HEADER.unpack_from(data, start)
        coding = self._codings.get(kind)
        if coding is None:
            raise BrokenMessage(f"a message of the unknown kind {kind}")
        if body_bytes > coding.most_body_bytes or bulk_bytes > coding.most_bulk_bytes:
            raise BrokenMessage(
                f"a {coding.message.__name__} of {body_bytes} + {bulk_bytes} bytes; "
                f"at most {coding.most_body_bytes} + {coding.most_bulk_bytes} are taken"
            )
        body_end = start + _HEADER.size + body_bytes
        return coding, body_end, body_end + bulk_bytes


def _read(coding: _Coding, body: memoryview, bulk: memoryview) -> Message:
    try:
        message: Message = coding.decode(body)
        if coding.bulk:
            force_setattr(message, coding.bulk, bulk if coding.message is Audio else bytes(bulk))
        if coding.check is not None:
            coding.check(message)
    except (msgspec.DecodeError, ValueError, RecursionError, BadRequest) as error:
        told = one_line(str(error))[:200]  # it may quote the message
        raise BrokenMessage(f"a broken {coding.message.__name__}: {told}", _session_of(body)) from error
    return message


def _session_of(body: memoryview) -> int:
    """The session of a broken message, 0 when it cannot be read."""
    try:
        first = msgspec.msgpack.decode(body, type=list[Any])[0]
    except (msgspec.DecodeError, ValueError, RecursionError, LookupError):
        return 0
    return first if isinstance(first, int) else 0


def _check_audio(audio: Audio) -> None:
    frames = audio.frames
    if audio.pcm and len(audio.pcm) != frames * FRAME_BYTES:
        raise ValueError(f"{len(audio.pcm)} bytes of PCM with {frames} frames")
    for _, packets in audio.packets:
        if len(packets) != frames:
            raise ValueError(f"{len(packets)} packets with {frames} frames")


def _check_grant(grant: Grant) -> None:
    """Makes equal outputs the same object, so that the renderer compares them by identity."""
    force_setattr(grant, "outputs", _checked_outputs(grant.outputs))


@lru_cache(maxsize=64)
def _checked_outputs(outputs: Outputs) -> Outputs:
    for output in outputs:
        if not (0 <= output.bitrate_bps <= HIGHEST_OPUS_BPS and 0 <= output.complexity <= HIGHEST_COMPLEXITY):
            raise ValueError(f"the output {output}")
    return outputs


def _check_all(value: Any) -> None:
    """Checks values of `core`, which declares no bounds for messages. Raises `ValueError` or `BadRequest`."""
    if isinstance(value, str):
        if len(value) > MAX_TEXT_CHARACTERS:
            raise ValueError(f"a text of {len(value)} characters; at most {MAX_TEXT_CHARACTERS} are taken")
    elif isinstance(value, int | float):
        if not (0 <= value <= MAX_COUNT if isinstance(value, int) else isfinite(value)):
            raise ValueError(f"the number {value}")
    elif isinstance(value, tuple | frozenset):
        for item in value:
            _check_all(item)
    elif value is not None:
        if isinstance(value, Effect):
            value.checked()
        elif isinstance(value, Filters):
            _check_filters(value)
        elif isinstance(value, SourceFacts) and value.length_ms > MAX_LENGTH_MS:
            raise ValueError(f"the length {value.length_ms}")
        names = getattr(value, "__struct_fields__", None) or [field.name for field in fields(value)]
        for name in names:
            _check_all(getattr(value, name))


def _check_filters(filters: Filters) -> None:
    if len(filters.gains_db) != BAND_COUNT:
        raise ValueError(f"{len(filters.gains_db)} gains")
    FilterChange(filters.volume, tuple(enumerate(filters.gains_db))).applied_to(filters)


def _coding(kind: int, message: type) -> _Coding:
    bulk, most_bulk_bytes = _BULKS.get(message, ("", 0))
    decode: Callable[[memoryview], Any] = msgspec.msgpack.Decoder(message).decode
    check: Callable[[Any], None] | None = _check_all
    if message in _DECLARED:
        check = _check_audio if message is Audio else _check_grant if message is Grant else None
    most_body_bytes = _PACKETS_BYTES if message in (Audio, Encoded) else _BODY_BYTES
    return _Coding(kind, message, decode, check, most_body_bytes, bulk, most_bulk_bytes)


# Messages that need no `_check_all`: their declarations bound all values but those of an `Output`. `_check_grant`
# checks the outputs of the node, `SessionRules` those of a process.
_DECLARED: Final = frozenset({Audio, Grant, Encoded, ReadRequest, Data, FoundPicture, Measured, Ping, Pong})
_BY_MESSAGE: Final[Mapping[type, _Coding]] = {
    message: _coding(kind, message) for kind, message in enumerate(get_args(Message))
}

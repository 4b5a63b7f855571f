"""What the node and a decoder process say to each other.

Both ends speak over one stream socket. A message is a header (`<IBI`: bytes of the body, kind, session) and a body.
What is said often (audio, grants, wants, data) is packed by hand; what is said seldom is JSON. A descriptor travels
beside the first byte of its `OpenSource` message.

Frames are numbered for the life of a session. An epoch is one plan of what they hold: a new plan begins at a frame
that was not sent yet, and frames of older epochs from there on are void.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.filters import Filters
from tonearm.core.track_info import SourceFacts

DATA_CHUNK_BYTES: Final = 64 * 1024
GRANT_FRAMES: Final = 10  # how far the decoder may render ahead of what was sent
BODY_LIMIT_BYTES: Final = 16 * 1024 * 1024

_HEADER: Final = struct.Struct("<IBI")
_GRANT: Final = struct.Struct("<IQQ")
_AUDIO: Final = struct.Struct("<IQIQHH")
_MARK: Final = struct.Struct("<BQI")
_SOURCE: Final = struct.Struct("<I")
_DATA: Final = struct.Struct("<IQ")
_WANT: Final = struct.Struct("<IQI")
_PING: Final = struct.Struct("<Q")
_PONG: Final = struct.Struct("<Qd")


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
    READY = 32
    WANT = 33
    OPENED = 34
    FAILED = 35
    DECODED = 36
    AUDIO = 37
    PONG = 38


class MarkKind(IntEnum):
    """What happens to a source at a frame. Marks of one frame are told in the order given."""

    BEGIN = 0  # its first sample is in this frame
    END = 1  # its last sample was before this frame, or is in it when another source begins there
    BROKE = 2  # as END, but because it broke off; the reason came before in a `Failed`


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Node: a player's session begins, its next frame being `first_frame` of `epoch`."""

    session: int
    epoch: int
    first_frame: int
    filters: Filters


@dataclass(frozen=True, slots=True)
class CloseSession:
    session: int


@dataclass(frozen=True, slots=True)
class OpenSource:
    """Node: open this source and decode ahead, from `start_sample` (48 kHz) on.

    With `has_descriptor` the file's descriptor comes with the message; without, the bytes are asked for by `Want`.
    """

    session: int
    source: int
    name: str
    size_bytes: int | None
    is_seekable: bool
    is_live: bool
    content_type: str | None
    start_sample: int
    has_descriptor: bool


@dataclass(frozen=True, slots=True)
class DropSource:
    session: int
    source: int


@dataclass(frozen=True, slots=True)
class Data:
    """Node: bytes from `offset`, the answer to a `Want`; none at the end of the source."""

    session: int
    source: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DataFailed:
    """Node: the bytes asked for cannot be had."""

    session: int
    source: int
    failure: PlayFailure


@dataclass(frozen=True, slots=True)
class Plan:
    """Node: what the frames from `at_frame` on hold, as `epoch`.

    Up to `at_frame` the frames of `base_epoch` were or will be sent. `switch_to` cuts to a source (`None`: what
    sounds at `at_frame` goes on; 0: nothing sounds); `following` joins `after` when that one ends.
    """

    session: int
    epoch: int
    base_epoch: int
    at_frame: int
    switch_to: int | None
    after: int
    following: int | None
    filters: Filters


@dataclass(frozen=True, slots=True)
class Grant:
    """Node: frames before `sent` are gone, frames before `granted` may be rendered, both of `epoch`."""

    session: int
    epoch: int
    sent: int
    granted: int


@dataclass(frozen=True, slots=True)
class Flush:
    """Node: do not wait for the following source any more; fill the last frame with silence."""

    session: int


@dataclass(frozen=True, slots=True)
class Ping:
    number: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Decoder: started and listening."""


@dataclass(frozen=True, slots=True)
class Want:
    """Decoder: send up to `length` bytes from `offset`."""

    session: int
    source: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Opened:
    session: int
    source: int
    facts: SourceFacts


@dataclass(frozen=True, slots=True)
class Failed:
    """Decoder: a source cannot be opened, or breaks off after what was decoded (`gave_audio`)."""

    session: int
    source: int
    failure: PlayFailure
    gave_audio: bool


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoder: a source is decoded to its end; its last samples wait to be rendered."""

    session: int
    source: int


@dataclass(frozen=True, slots=True)
class Mark:
    kind: MarkKind
    frame: int
    source: int


@dataclass(frozen=True, slots=True)
class Audio:
    """Decoder: rendered frames, in order. `source` and `position_samples` tell where the first one stands."""

    session: int
    epoch: int
    first_frame: int
    frames: int
    source: int
    position_samples: int
    marks: tuple[Mark, ...]
    pcm: bytes


@dataclass(frozen=True, slots=True)
class Pong:
    """Decoder: alive. `busy_s` is how long the oldest piece of work has been at it without a pause."""

    number: int
    busy_s: float


FromNode: TypeAlias = (
    OpenSession | CloseSession | OpenSource | DropSource | Data | DataFailed | Plan | Grant | Flush | Ping
)
FromDecoder: TypeAlias = Ready | Want | Opened | Failed | Decoded | Audio | Pong
Message: TypeAlias = FromNode | FromDecoder


class BrokenMessage(Exception):
    """The other end said something that is no message."""


def pack(message: Message) -> bytes:
    """The message as bytes for the socket."""
    match message:
        case Audio():
            head = _AUDIO.pack(
                message.epoch,
                message.first_frame,
                message.source,
                message.position_samples,
                len(message.marks),
                message.frames,
            )
            marks = b"".join(_MARK.pack(mark.kind, mark.frame, mark.source) for mark in message.marks)
            return _framed(_Kind.AUDIO, message.session, head, marks, message.pcm)
        case Grant():
            return _framed(
                _Kind.GRANT, message.session, _GRANT.pack(message.epoch, message.sent, message.granted)
            )
        case Want():
            body = _WANT.pack(message.source, message.offset, message.length)
            return _framed(_Kind.WANT, message.session, body)
        case Data():
            return _framed(_Kind.DATA, message.session, _DATA.pack(message.source, message.offset), message.data)
        case Plan():
            return _framed_json(_Kind.PLAN, message)
        case OpenSession():
            return _framed_json(_Kind.OPEN_SESSION, message)
        case OpenSource():
            return _framed_json(_Kind.OPEN_SOURCE, message)
        case Opened():
            return _framed_json(_Kind.OPENED, message)
        case Failed():
            return _framed_json(_Kind.FAILED, message)
        case DataFailed():
            return _framed_json(_Kind.DATA_FAILED, message)
        case CloseSession():
            return _framed(_Kind.CLOSE_SESSION, message.session)
        case Flush():
            return _framed(_Kind.FLUSH, message.session)
        case DropSource():
            return _framed(_Kind.DROP_SOURCE, message.session, _SOURCE.pack(message.source))
        case Decoded():
            return _framed(_Kind.DECODED, message.session, _SOURCE.pack(message.source))
        case Ping():
            return _framed(_Kind.PING, 0, _PING.pack(message.number))
        case Pong():
            return _framed(_Kind.PONG, 0, _PONG.pack(message.number, message.busy_s))
        case Ready():
            return _framed(_Kind.READY, 0)


class MessageSplitter:
    """Cuts the bytes that come from a socket into messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Message]:
        """The messages that are complete with `data`. Raises `BrokenMessage`."""
        pending = self._pending
        pending += data
        start = 0
        try:
            while len(pending) - start >= _HEADER.size:
                length, kind, session = _HEADER.unpack_from(pending, start)
                if length > BODY_LIMIT_BYTES:
                    raise BrokenMessage(f"a message of {length} bytes")
                body_start = start + _HEADER.size
                if len(pending) < body_start + length:
                    break
                start = body_start + length
                with memoryview(pending) as view, view[body_start:start] as body:
                    message = _unpack(kind, session, body)
                yield message
        finally:
            del pending[:start]


def _framed(kind: _Kind, session: int, *parts: bytes) -> bytes:
    return b"".join((_HEADER.pack(sum(map(len, parts)), kind, session), *parts))


def _framed_json(kind: _Kind, message: OpenSession | OpenSource | Plan | Opened | Failed | DataFailed) -> bytes:
    # Texts from hostile files may hold lone surrogates: ensure_ascii keeps them inside ASCII escapes.
    return _framed(kind, message.session, json.dumps(asdict(message)).encode("ascii"))


def _unpack(kind: int, session: int, body: memoryview) -> Message:
    try:
        return _unpack_known(_Kind(kind), session, body)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise BrokenMessage(f"kind {kind}: {error}") from error


def _unpack_known(kind: _Kind, session: int, body: memoryview) -> Message:
    match kind:
        case _Kind.AUDIO:
            return _unpack_audio(session, body)
        case _Kind.GRANT:
            epoch, sent, granted = _GRANT.unpack(body)
            return Grant(session, epoch, sent, granted)
        case _Kind.WANT:
            return Want(session, *_WANT.unpack(body))
        case _Kind.DATA:
            source, offset = _DATA.unpack_from(body)
            return Data(session, source, offset, bytes(body[_DATA.size :]))
        case _Kind.CLOSE_SESSION:
            return CloseSession(session)
        case _Kind.FLUSH:
            return Flush(session)
        case _Kind.DROP_SOURCE:
            return DropSource(session, *_SOURCE.unpack(body))
        case _Kind.DECODED:
            return Decoded(session, *_SOURCE.unpack(body))
        case _Kind.PING:
            return Ping(*_PING.unpack(body))
        case _Kind.PONG:
            return Pong(*_PONG.unpack(body))
        case _Kind.READY:
            return Ready()
    fields = json.loads(bytes(body))
    match kind:
        case _Kind.OPEN_SESSION:
            return OpenSession(**{**fields, "filters": _filters(fields["filters"])})
        case _Kind.PLAN:
            return Plan(**{**fields, "filters": _filters(fields["filters"])})
        case _Kind.OPEN_SOURCE:
            return OpenSource(**fields)
        case _Kind.OPENED:
            return Opened(**{**fields, "facts": SourceFacts(**fields["facts"])})
        case _Kind.FAILED:
            return Failed(**{**fields, "failure": _failure(fields["failure"])})
        case _Kind.DATA_FAILED:
            return DataFailed(**{**fields, "failure": _failure(fields["failure"])})


def _unpack_audio(session: int, body: memoryview) -> Audio:
    epoch, first_frame, source, position, mark_count, frames = _AUDIO.unpack_from(body)
    at = _AUDIO.size
    marks = []
    for _ in range(mark_count):
        kind, frame, mark_source = _MARK.unpack_from(body, at)
        marks.append(Mark(MarkKind(kind), frame, mark_source))
        at += _MARK.size
    return Audio(session, epoch, first_frame, frames, source, position, tuple(marks), bytes(body[at:]))


def _filters(fields: dict[str, object]) -> Filters:
    volume, gains_db = fields["volume"], fields["gains_db"]
    if not isinstance(volume, (int, float)) or not isinstance(gains_db, list):
        raise ValueError("filters")
    return Filters(float(volume), tuple(float(gain_db) for gain_db in gains_db))


def _failure(fields: dict[str, object]) -> PlayFailure:
    status = fields["http_status"]
    return PlayFailure(
        FailureCode(str(fields["code"])),
        Stage(str(fields["stage"])),
        str(fields["message"]),
        str(fields["hint"]),
        status if isinstance(status, int) else None,
    )

"""How a frame's payload is wrapped for a kind of connection, the same for all listeners of that kind.

Frames wait as WebSocket messages, since nearly all listeners get those: they are copied out of what was received with
the head before them. A second copy when they are due would cost over 1 µs a frame.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, IntFlag
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.frame import FRAME_BYTES
from tonearm.core.outputs import MOST_OPUS_PACKET_BYTES

_FINAL_BINARY: Final = 0x82  # RFC 6455, 5.2: FIN and opcode 2
_SHORT_LENGTH: Final = 125
_LENGTH_IN_16_BITS: Final = 126

HEADER: Final = struct.Struct(">BBHIQ")
"""Version, flags, payload bytes, number of the frame, position in the track in µs."""
_HEADER_VERSION: Final = 1
HEADER_BYTES: Final = HEADER.size


class Framing(Enum):
    WEBSOCKET = "websocket"  # one unmasked binary server message
    WEBSOCKET_WITH_HEADER = "websocket_with_header"  # the same, with a `Stamp` before the payload
    CHUNKED = "chunked"  # one chunk of an HTTP/1.1 chunked body
    RAW = "raw"  # the payload itself


class FrameFlag(IntFlag):
    """What a listener has to know of a frame."""

    TRACK_STARTS = 1
    DISCONTINUITY = 2  # it does not continue the frame before it
    SILENCE = 4  # it is no frame of the player's: its number and position are those of the one after it
    PASSED = 8  # the packet of the source itself, untouched


class Stamp(NamedTuple):
    """`number` counts the frames that the player's clock emitted, from 1; `position_us` is where the frame begins in
    its track."""

    number: int
    position_us: int
    flags: int = 0


def as_message(payload: bytes) -> bytes:
    """As a frame waits. Payloads are below 64 KiB."""
    return _message_head(len(payload)) + payload


def pcm_as_messages(pcm: bytes | memoryview) -> list[bytes]:
    """Frames of PCM, one behind the other, as a message each."""
    view = memoryview(pcm)
    return [_FRAME_HEAD + view[start : start + FRAME_BYTES] for start in range(0, len(view), FRAME_BYTES)]


def packets_as_messages(packets: Iterable[bytes]) -> list[bytes]:
    """Packets of Opus as a message each."""
    return [_PACKET_HEADS[len(packet)] + packet for packet in packets]


def payload_of(message: bytes) -> bytes:
    return message[_payload_start(message) :]


def framed(message: bytes, framing: Framing, stamp: Stamp) -> bytes:
    """The bytes to be written for a frame that waits as `message`."""
    return FRAMERS[framing](message, stamp)


def _as_it_is(message: bytes, _stamp: Stamp) -> bytes:
    return message


def _with_header(message: bytes, stamp: Stamp) -> bytes:
    number, position_us, flags = stamp
    payload = payload_of(message)
    header = HEADER.pack(_HEADER_VERSION, flags, len(payload), number & 0xFFFF_FFFF, position_us)
    return b"".join((_message_head(HEADER_BYTES + len(payload)), header, payload))


def _in_chunk(message: bytes, _stamp: Stamp) -> bytes:
    payload = payload_of(message)
    return b"%X\r\n%b\r\n" % (len(payload), payload)  # RFC 9112, 7.1


def _raw(message: bytes, _stamp: Stamp) -> bytes:
    return payload_of(message)


Framer: TypeAlias = Callable[[bytes, Stamp], bytes]
FRAMERS: Final[Mapping[Framing, Framer]] = MappingProxyType(
    {
        Framing.WEBSOCKET: _as_it_is,
        Framing.WEBSOCKET_WITH_HEADER: _with_header,
        Framing.CHUNKED: _in_chunk,
        Framing.RAW: _raw,
    }
)
"""`framed` for one framing: looking up an enum's member takes as long as a call."""


def with_discontinuity(message: bytes) -> bytes:
    """A message in `WEBSOCKET_WITH_HEADER` framing, with the flag that says that frames before it are missing."""
    at = _payload_start(message) + 1
    return b"".join((message[:at], bytes((message[at] | FrameFlag.DISCONTINUITY,)), message[at + 1 :]))


def _payload_start(message: bytes) -> int:
    return 4 if message[1] == _LENGTH_IN_16_BITS else 2


def _message_head(size: int) -> bytes:
    if size > _SHORT_LENGTH:
        return _LONG_HEAD.pack(_FINAL_BINARY, _LENGTH_IN_16_BITS, size)
    return bytes((_FINAL_BINARY, size))


_LONG_HEAD: Final = struct.Struct(">BBH")
_FRAME_HEAD: Final = _message_head(FRAME_BYTES)
_PACKET_HEADS: Final = tuple(map(_message_head, range(MOST_OPUS_PACKET_BYTES + 1)))

"""The bytes that a listener gets for a frame: a WebSocket message, a chunk or the payload; and the close codes.

A frame is stored as a WebSocket message, because nearly all listeners get that. It gets the head of the message when it
is copied out of the received bytes, so that nothing is copied when it is sent.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import ClassVar, Final, NamedTuple

from tonearm.core.frame import FRAME_BYTES, MOST_OPUS_PACKET_BYTES

_FINAL_BINARY: Final = 0x82  # RFC 6455, 5.2: FIN and opcode 2
_SHORT_LENGTH: Final = 125
_LENGTH_IN_16_BITS: Final = 126

HEADER: Final = struct.Struct(">BBHIQ")
"""Version, flags, size of the payload in bytes, number of the frame, position in the track in µs."""
_HEADER_VERSION: Final = 1
HEADER_BYTES: Final = HEADER.size


class CloseCode(IntEnum):
    """The codes with which the node closes a WebSocket (RFC 6455, 7.4.1, and IANA's registry)."""

    DELETED = 1000  # normal closure: the player is gone
    GOING_AWAY = 1001  # the node is shutting down
    MOVED = 1012  # service restart: the player goes on, here or elsewhere
    TOO_SLOW = 1013  # try again later: the client did not read fast enough


class FrameFlag(IntFlag):
    """The flags in a frame's stamp."""

    TRACK_STARTS = 1
    DISCONTINUITY = 2  # the frame does not continue the one before it
    SILENCE = 4  # an extra frame of silence, with the number and position of the next frame
    PASSED = 8  # an unchanged packet of the source


class Stamp(NamedTuple):
    """The number, position and flags of a frame. `number` counts the frames that the player's clock sent, from 1.
    `position_us` is the position in the track where the frame begins. `flags` are `FrameFlag`s."""

    number: int
    position_us: int
    flags: int = 0


def as_message(payload: bytes) -> bytes:
    """A payload as a WebSocket message. The payload must be shorter than 64 KiB."""
    return _message_head(len(payload)) + payload


def pcm_as_messages(pcm: bytes | memoryview) -> list[bytes]:
    """The frames of PCM in `pcm`, in order, each as a WebSocket message."""
    view = memoryview(pcm)
    return [_FRAME_HEAD + view[start : start + FRAME_BYTES] for start in range(0, len(view), FRAME_BYTES)]


def packets_as_messages(packets: Iterable[bytes]) -> list[bytes]:
    """The packets of Opus, in order, each as a WebSocket message."""
    return [_PACKET_HEADS[len(packet)] + packet for packet in packets]


def payload_of(message: bytes) -> bytes:
    """The payload of a message that this module made."""
    return message[_payload_start(message) :]


@dataclass(frozen=True, slots=True, eq=False)
class Framing:
    """How an output writes its frames. An output that is not a socket has a framing of its own.

    `make` turns a payload and its stamp into the bytes to write, once for all listeners with this framing. None: a
    WebSocket message without the stamp. `is_stamped`: `make` reads the stamp; otherwise no stamp is made. `after_loss`
    changes the bytes of a frame that follows lost frames.
    """

    make: Callable[[bytes, Stamp], bytes] | None
    is_stamped: bool = False
    after_loss: Callable[[bytes], bytes] | None = None

    WEBSOCKET: ClassVar["Framing"]  # one unmasked binary server message
    WEBSOCKET_WITH_HEADER: ClassVar["Framing"]  # such a message, with the stamp before the payload
    CHUNKED: ClassVar["Framing"]  # one chunk of an HTTP/1.1 chunked body
    RAW: ClassVar["Framing"]  # the payload itself

    def of(self, message: bytes, stamp: Stamp) -> bytes:
        """The bytes to write for a frame that is stored as `message`."""
        return message if self.make is None else self.make(payload_of(message), stamp)


def _with_header(payload: bytes, stamp: Stamp) -> bytes:
    number, position_us, flags = stamp
    header = HEADER.pack(_HEADER_VERSION, flags, len(payload), number & 0xFFFF_FFFF, position_us)
    return b"".join((_message_head(HEADER_BYTES + len(payload)), header, payload))


def _discontinued(message: bytes) -> bytes:
    at = _payload_start(message) + 1
    return b"".join((message[:at], bytes((message[at] | FrameFlag.DISCONTINUITY,)), message[at + 1 :]))


def _in_chunk(payload: bytes, _stamp: Stamp) -> bytes:
    return b"%X\r\n%b\r\n" % (len(payload), payload)  # RFC 9112, 7.1


def _raw(payload: bytes, _stamp: Stamp) -> bytes:
    return payload


Framing.WEBSOCKET = Framing(None)
Framing.WEBSOCKET_WITH_HEADER = Framing(_with_header, is_stamped=True, after_loss=_discontinued)
Framing.CHUNKED = Framing(_in_chunk)
Framing.RAW = Framing(_raw)


def _payload_start(message: bytes) -> int:
    return 4 if message[1] == _LENGTH_IN_16_BITS else 2


def _message_head(size: int) -> bytes:
    if size > _SHORT_LENGTH:
        return _LONG_HEAD.pack(_FINAL_BINARY, _LENGTH_IN_16_BITS, size)
    return bytes((_FINAL_BINARY, size))


_LONG_HEAD: Final = struct.Struct(">BBH")
_FRAME_HEAD: Final = _message_head(FRAME_BYTES)
_PACKET_HEADS: Final = tuple(map(_message_head, range(MOST_OPUS_PACKET_BYTES + 1)))

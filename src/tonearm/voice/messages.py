"""The messages between the node and a voice process: one message in each packet of their socket.

Frames have a form of their own, because each connection has fifty a second: a zero byte, then for each frame the
connection, the length, and the Opus packet. All other messages are MessagePack objects, which never begin with zero.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from tonearm.core.voice import DaveStatus

DAVE_VERSION: Final = 1  # of the end-to-end encryption; 0 is none
FRAMES: Final = b"\0"
FRAME_HEAD: Final = struct.Struct("<IH")  # connection, bytes
MOST_MESSAGE_BYTES: Final = 150_000  # the kernel takes somewhat more at once
MOST_FRAMES_BEHIND: Final = 10  # of one connection, after the node or the process stood still; older frames are dropped
OPS_SAID: Final = frozenset((23, 26, 28, 31))  # the opcodes that a process may send to a voice server


class BrokenVoiceMessage(Exception):
    """The other side sent a message that it may not send."""


class MediaSetting(msgspec.Struct, frozen=True):
    """The session description. `is_large` is true for a large call, whose key agreement would delay the packets of
    other calls. Such a call gets its own process."""

    mode: str
    key: bytes
    ssrc: int
    user_id: int
    channel_id: int
    dave_version: int
    is_large: bool = False

    def __repr__(self) -> str:
        return f"MediaSetting({self.mode!r}, …)"  # keeps the key out of logs


class Open(msgspec.Struct, tag=True, frozen=True):
    """A new connection; its connected UDP socket comes with the message."""

    connection: int
    setting: MediaSetting


class Gateway(msgspec.Struct, tag=True, frozen=True):
    """A message of the voice server about members and the end-to-end encryption: an object, or a binary payload."""

    connection: int
    op: int
    data: dict[str, Any] | bytes


class Finish(msgspec.Struct, tag=True, frozen=True):
    """Ends a connection after five frames of silence. The answer is `Finished`."""

    connection: int


class Close(msgspec.Struct, tag=True, frozen=True):
    """Ends a connection at once."""

    connection: int


class Started(msgspec.Struct, tag=True, frozen=True):
    """The process takes connections. `sandbox` is the level of its sandbox, `problem` why the level is not higher."""

    sandbox: str
    problem: str
    is_confined: bool


class Say(msgspec.Struct, tag=True, frozen=True):
    """A message for the voice server: an object, or the payload of a binary message."""

    connection: int
    op: int
    data: dict[str, int] | bytes


class Silent(msgspec.Struct, tag=True, frozen=True):
    """Five frames of silence were sent. `frames`: how many frames of this connection came before them."""

    connection: int
    frames: int


class DaveChanged(msgspec.Struct, tag=True, frozen=True):
    connection: int
    status: DaveStatus


class Finished(msgspec.Struct, tag=True, frozen=True):
    connection: int


class Counts(msgspec.Struct, tag=True, frozen=True):
    """Counts since the start. `connections`: those that have sent something since the last `Counts`, each with its
    number, packets, frames of silence and dropped frames. `late`: packets later than each of `core.voice.LATE_MS`."""

    connections: list[tuple[int, int, int, int]]
    late: tuple[int, int, int]
    longest_mls_ms: float


FromNode: TypeAlias = Open | Gateway | Finish | Close
FromProcess: TypeAlias = Started | Say | Silent | DaveChanged | Finished | Counts


class Coder:
    """Packs messages of one side, and reads those of the other."""

    def __init__(self, read: Any) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(read)

    def pack(self, message: FromNode | FromProcess) -> bytes:
        return self._encoder.encode(message)

    def read(self, packet: bytes | memoryview) -> Any:
        """Raises `BrokenVoiceMessage`, whose text contains nothing of the message."""
        try:
            return self._decoder.decode(packet)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BrokenVoiceMessage(type(error).__name__) from None


def pack_frames(frames: Iterable[tuple[int, bytes]]) -> Iterator[tuple[bytes, int]]:
    """Packs frames, each a connection and its packet, in this order. Yields each message and how many frames it has."""
    head, parts, size = FRAME_HEAD.pack, [FRAMES], 1
    for connection, packet in frames:
        if size > MOST_MESSAGE_BYTES // 2:
            yield b"".join(parts), len(parts) // 2
            parts, size = [FRAMES], 1
        parts += (head(connection, len(packet)), packet)
        size += FRAME_HEAD.size + len(packet)
    if size > 1:
        yield b"".join(parts), len(parts) // 2


def read_frames(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The frames of a message that `pack_frames` made."""
    at, end, unpack, head = 1, len(message), FRAME_HEAD.unpack_from, FRAME_HEAD.size
    while at < end:
        connection, size = unpack(message, at)
        at += head
        yield connection, message[at : at + size]
        at += size

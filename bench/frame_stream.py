"""Reads the bytes of a WebSocket connection, from server to client, as frames of sound. Frames are counted and not
kept.
"""

from typing import Final

HEAD: Final = b"\x82\x7e\x0f\x00"  # a whole binary message, unmasked, of 3840 bytes
MESSAGE_BYTES: Final = len(HEAD) + 3840
MOST_PACKET_BYTES: Final = 1276  # of 20 ms of Opus: a byte of TOC, and 1275 (RFC 6716, 3.4)
_WHOLE_BINARY: Final = 0x82
_PACKET_HEAD: Final = bytes([_WHOLE_BINARY, 126])


class FrameStream:
    """Counts whole frames as their bytes come. What is not a frame is noticed: pings to answer, a close, strays."""

    def __init__(self) -> None:
        self.pings: list[bytes] = []
        self.is_closed = False
        self.strays = 0  # messages that have no business here: text, another size, fragments
        self._missing_bytes = 0  # of a frame of which the beginning has come
        self._begun = b""  # of anything else: it is kept until it is whole

    def feed(self, data: bytes) -> int:
        """Takes the next bytes and returns how many frames became whole with them."""
        # Nearly always a read is one frame: then this is all that a frame costs.
        if not self._missing_bytes and len(data) == MESSAGE_BYTES and not self._begun and data.startswith(HEAD):
            return 1
        return self._take_apart(data)

    def _take_apart(self, data: bytes) -> int:
        frames = at = 0
        if self._missing_bytes:
            if len(data) < self._missing_bytes:
                self._missing_bytes -= len(data)
                return 0
            frames, at, self._missing_bytes = 1, self._missing_bytes, 0
        elif self._begun:
            data, self._begun = self._begun + data, b""
        while at < len(data):
            if data.startswith(HEAD, at):
                at += MESSAGE_BYTES
                if at > len(data):
                    self._missing_bytes = at - len(data)
                else:
                    frames += 1
                continue
            end = self._notice(data, at)
            if end is None:
                self._begun = data[at:]
                break
            at = end
        return frames

    def _notice(self, data: bytes, at: int) -> int | None:
        """Where the message at `at` ends, which is no frame; None when it has not come whole."""
        if len(data) < at + 2:
            return None
        length, begin = data[at + 1] & 0x7F, at + 2
        if length >= 126:
            begin += 2 if length == 126 else 8
            length = int.from_bytes(data[at + 2 : begin], "big")
        if len(data) < begin + length:
            return None
        match data[at] & 0x0F:
            case 9:
                self.pings.append(data[begin : begin + length])
            case 8:
                self.is_closed = True
            case 10:
                pass
            case _:
                self._take_other(data[at], data[begin : begin + length])
        return begin + length

    def _take_other(self, first_byte: int, payload: bytes) -> None:
        self.strays += 1


class PacketStream(FrameStream):
    """The same where each frame is an Opus packet: a whole binary message of any length up to `MOST_PACKET_BYTES`."""

    def __init__(self) -> None:
        super().__init__()
        self._packets = 0

    def feed(self, data: bytes) -> int:
        # Nearly always a read is one packet, of 126 bytes or more.
        if len(data) > 4 and data[:2] == _PACKET_HEAD and not self._begun:
            length = data[2] << 8 | data[3]
            if length + 4 == len(data) and length <= MOST_PACKET_BYTES:
                return 1
        data, self._begun, self._packets, at = self._begun + data, b"", 0, 0
        while at < len(data):
            end = self._notice(data, at)
            if end is None:
                self._begun = data[at:]
                break
            at = end
        return self._packets

    def _take_other(self, first_byte: int, payload: bytes) -> None:
        if first_byte == _WHOLE_BINARY and 0 < len(payload) <= MOST_PACKET_BYTES:
            self._packets += 1
        else:
            self.strays += 1

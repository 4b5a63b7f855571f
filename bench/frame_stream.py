"""The bytes of a WebSocket connection, from server to client, as frames of sound: counted, not kept."""

from typing import Final

HEAD: Final = b"\x82\x7e\x0f\x00"  # a whole binary message, unmasked, of 3840 bytes
MESSAGE_BYTES: Final = len(HEAD) + 3840


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
                self.strays += 1
        return begin + length

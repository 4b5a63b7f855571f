"""Hides large pictures in files from libav, which would read them whole into memory before it plays anything.

Pictures are hidden in place, so that no offset changes. A block of FLAC (RFC 9639, 8) becomes padding, a frame of ID3v2
gets an unknown name, and an item of MP4's tags becomes free space. libav skips all of these.
"""

from collections.abc import Callable
from typing import Final

from tonearm.core.file_formats import MAX_PICTURE_BYTES, id3_tag_bytes
from tonearm.worker.reading.reader import MediaReader

# For all pictures in a file together. A picture above MAX_PICTURE_BYTES is not shown; its size identifies it.
MOST_PICTURE_BYTES: Final = 2 * MAX_PICTURE_BYTES
MOST_HIDDEN_BYTES: Final = 256 * 1024 * 1024

_HEAD_BYTES: Final = 96  # the bytes of a part that are examined
_MOST_STEPS: Final = 10_000
_MOST_HIDDEN: Final = 64
_LONGEST_BLOCK: Final = 0xFFFFFF
_PICTURE, _PADDING, _LAST = 6, 1, 0x80  # of FLAC's blocks
_BOXES: Final = (b"moov", b"udta", b"meta", b"ilst")


class PictureHider:
    """Passes on the bytes of a `MediaReader`, and follows the headers of a file's parts as they pass."""

    def __init__(self, reader: MediaReader) -> None:
        # Called with the number of hidden bytes that still have to be read, because the reader cannot skip them.
        self.on_hidden: Callable[[int], object] = lambda _: None
        self._reader = reader
        self._position = 0
        self._ahead = b""  # read, and not passed on yet
        self._step: Callable[[bytes], int | None] | None = self._begin
        self._next = 0  # the offset of the next header
        self._steps_left = _MOST_STEPS
        self._tag_end = 0
        self._tag_version = 0
        self._kept_bytes = self._hidden_bytes = 0
        self._changes: dict[int, bytes] = {}

    def read(self, n: int) -> bytes:
        data, self._ahead = self._ahead, b""
        if not data:
            data = self._reader.read(n)
        while self._step is not None and self._position <= self._next < self._position + len(data):
            before = self._next - self._position
            if len(data) - before < _HEAD_BYTES:
                if before:
                    data, self._ahead = data[:before], data[before:]
                    break
                while len(data) < _HEAD_BYTES and (more := self._reader.read(_HEAD_BYTES - len(data))):
                    data += more
            self._follow(self._step, data[before : before + _HEAD_BYTES])
        if len(data) > n:
            data, self._ahead = data[:n], data[n:] + self._ahead
        start, self._position = self._position, self._position + len(data)
        return self._changed(start, data) if self._changes else data

    def seek(self, offset: int) -> int:
        self._ahead = b""
        self._position = self._reader.seek(offset)
        return self._position

    def seekable(self) -> bool:
        return self._reader.seekable()

    def _follow(self, step: Callable[[bytes], int | None], head: bytes) -> None:
        self._steps_left -= 1
        following = step(head)
        if following is None or self._steps_left <= 0 or len(self._changes) >= _MOST_HIDDEN:
            self._step = None
        else:
            self._next = following

    def _changed(self, start: int, data: bytes) -> bytes:
        for at, change in self._changes.items():
            if start - len(change) < at < start + len(data):
                first = max(at, start)
                change = change[first - at :][: start + len(data) - first]
                data = data[: first - start] + change + data[first - start + len(change) :]
        return data

    def _begin(self, head: bytes) -> int | None:
        """Detects the kind of file. Each step returns the offset of the next header; None when no further header
        matters."""
        if tag_bytes := id3_tag_bytes(head):
            self._tag_version, self._tag_end = head[3], self._next + tag_bytes
            self._step = self._id3_frame
            # Otherwise names and sizes are encoded, or an extended header comes first.
            is_plain = self._tag_version in (2, 3, 4) and not head[5] & 0xC0
            return self._next + 10 if is_plain else self._tag_end
        if head.startswith(b"fLaC"):
            self._step = self._flac_block
            return self._next + 4
        if head[4:8] == b"ftyp":
            self._step = self._box
            return self._next
        return None

    def _flac_block(self, head: bytes) -> int | None:
        if len(head) < 4:
            return None
        size = int.from_bytes(head[1:4], "big")
        if head[0] & ~_LAST == _PICTURE:
            # Three bytes cannot express a larger size; then libav, too, takes the picture's own size.
            whole = _flac_picture_bytes(head[4:])
            if whole > size == whole & _LONGEST_BLOCK:
                size = whole
            if self._hides(size):
                self._change_to_padding(size, is_last=bool(head[0] & _LAST))
        return None if head[0] & _LAST else self._next + 4 + size

    def _change_to_padding(self, size: int, *, is_last: bool) -> None:
        at = self._next
        while True:
            part = min(size, _LONGEST_BLOCK)
            if 0 < size - part < 4:  # no room for another header
                part -= 4
            flag = _LAST if is_last and part == size else 0
            self._changes[at] = bytes([flag | _PADDING]) + part.to_bytes(3, "big")
            if part == size:
                return
            at, size = at + 4 + part, size - part - 4

    def _id3_frame(self, head: bytes) -> int | None:
        if self._next >= self._tag_end:
            return self._begin(head)
        name_bytes, head_bytes = (3, 6) if self._tag_version == 2 else (4, 10)
        name, raw_size = head[:name_bytes], head[name_bytes : 2 * name_bytes]
        if len(head) < head_bytes or not name.isalnum():  # padding
            return self._tag_end
        size = int.from_bytes(raw_size, "big")
        if self._tag_version == 4 and max(raw_size) < 0x80:  # some programs write the size as in version 3
            size = sum(bits << 7 * place for place, bits in enumerate(reversed(raw_size)))
        if name in (b"PIC", b"APIC") and self._hides(size):
            self._changes[self._next] = b"X" * name_bytes
        return min(self._next + head_bytes + size, self._tag_end)

    def _box(self, head: bytes) -> int | None:
        """ISO 14496-12, 4.2."""
        size, kind, head_bytes = int.from_bytes(head[:4], "big"), head[4:8], 8
        if size == 1:
            size, head_bytes = int.from_bytes(head[8:16], "big"), 16
        if len(head) < head_bytes or size < head_bytes:
            return None
        if kind in _BOXES:
            has_version = kind == b"meta" and head[head_bytes + 4 : head_bytes + 8] != b"hdlr"
            return self._next + head_bytes + 4 * has_version
        if kind == b"covr" and self._hides(size):
            self._changes[self._next + 4] = b"free"
        return self._next + size

    def _hides(self, size: int) -> bool:
        """Whether a picture of this size is hidden."""
        if self._kept_bytes + size <= MOST_PICTURE_BYTES:
            self._kept_bytes += size
            return False
        self._hidden_bytes += size
        if not self.seekable() and self._hidden_bytes <= MOST_HIDDEN_BYTES:
            self.on_hidden(size)
        return True


def _flac_picture_bytes(head: bytes) -> int:
    """The size of a picture's block by its own fields (RFC 9639, 8.8); 0 when `head` ends before them."""
    at = 4
    for _ in ("media type", "description"):
        at += 4 + int.from_bytes(head[at : at + 4], "big")
    at += 16
    return at + 4 + int.from_bytes(head[at : at + 4], "big") if at + 4 <= len(head) else 0

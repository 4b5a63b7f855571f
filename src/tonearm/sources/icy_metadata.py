"""Titles inside the bytes of internet radio, as SHOUTcast began it and Icecast does it too.

A server that was asked for it (`Icy-MetaData: 1`) names an interval (`icy-metaint`). After that many bytes of sound
stands one byte, then 16 times as many bytes of text, mostly none, such as `StreamTitle='Artist - Title';StreamUrl='';`,
filled up with zeros.
"""

import re
from typing import Final

from tonearm.core.byte_source import StreamTitle

# 16 kB is common. Farther apart titles would be useless, and a longer number is no interval.
MAX_INTERVAL_BYTES: Final = 1024 * 1024
MAX_TITLE_CHARACTERS: Final = 1000

_BLOCK_UNIT_BYTES: Final = 16
_INTERVAL: Final = re.compile(r"[0-9]{1,7}")
_TITLE: Final = b"StreamTitle='"
# A quote inside of a title is not escaped. The end is a quote before the next field, or the last one.
_NEXT_FIELD: Final = re.compile(rb"';\s*Stream[A-Za-z0-9]{1,20}=")
_FIELD: Final = re.compile(rb"\s*[A-Za-z][A-Za-z0-9_-]{0,40}=")


def metadata_interval(header: str | None) -> int | None:
    """The bytes between two blocks, from an `icy-metaint` header; None when nothing is mixed into the sound."""
    text = (header or "").strip()
    if _INTERVAL.fullmatch(text) is None or not 0 < int(text) <= MAX_INTERVAL_BYTES:
        return None
    return int(text)


class IcySplitter:
    """Takes a response apart. `interval` is that of the response, `offset` what its first byte of sound has.

    A server that announces titles and sends none is found out by the first block that is no text; from there on all
    bytes are sound.
    """

    def __init__(self, interval: int | None, offset: int = 0) -> None:
        self._interval = interval
        self._until_block_bytes = interval or 0
        self._block = bytearray()  # with the byte that tells its length
        self._offset = offset

    def feed(self, data: bytes) -> tuple[bytes, list[StreamTitle]]:
        """The sound in `data`, and the titles that begin in it or right after it. Offsets count sound only."""
        sound: list[bytes] = []
        titles: list[StreamTitle] = []
        position = 0
        while position < len(data):
            if self._interval is None:
                position += self._pass_on(sound, data[position:])
            elif self._until_block_bytes:
                part = data[position : position + self._until_block_bytes]
                self._until_block_bytes -= len(part)
                position += self._pass_on(sound, part)
            else:
                missing = 1 + _BLOCK_UNIT_BYTES * self._block[0] - len(self._block) if self._block else 1
                part = data[position : position + missing]
                self._block += part
                position += len(part)
                if len(self._block) == 1 + _BLOCK_UNIT_BYTES * self._block[0]:
                    self._end_block(sound, titles)
        return b"".join(sound), titles

    def _end_block(self, sound: list[bytes], titles: list[StreamTitle]) -> None:
        block = bytes(self._block)
        self._block.clear()
        text = block[1:].rstrip(b"\0")
        if text and _FIELD.match(text) is None:
            self._interval = None
            self._pass_on(sound, block)
            return
        self._until_block_bytes = self._interval or 0
        title = stream_title(text)
        if title:
            titles.append(StreamTitle(self._offset, title))

    def _pass_on(self, sound: list[bytes], part: bytes) -> int:
        sound.append(part)
        self._offset += len(part)
        return len(part)


def stream_title(text: bytes) -> str | None:
    """The title in the text of a block; None without one, "" for an empty one. Other fields are ignored."""
    start = text.find(_TITLE)
    if start < 0:
        return None
    value = text[start + len(_TITLE) :]
    next_field = _NEXT_FIELD.search(value)
    end = next_field.start() if next_field is not None else value.rfind(b"'")
    return radio_text(value[:end] if end >= 0 else value)


def radio_text(raw: bytes) -> str:
    """What a radio server sent as a text: UTF-8, or else Windows-1252, which is Latin-1 with quotes and dashes.

    Without control characters and outer blanks.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    visible = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(visible.split())[:MAX_TITLE_CHARACTERS]

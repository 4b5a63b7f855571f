"""Opus in Ogg (RFC 3533, RFC 7845): the pages of one endless logical stream, and of chained ones.

Timestamps are samples at 48 kHz that a decoder puts out, the pre-skip included.
"""

import struct
from collections.abc import Sequence
from typing import Final

from tonearm.core.file_formats import OGG_CHECKSUM_AT, ogg_checksum
from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_RATE_HZ

_CONTINUES: Final = 0x01  # the page begins in the middle of a packet
_FIRST: Final = 0x02  # the page begins a logical stream
_LAST: Final = 0x04  # the page ends one
_NO_GRANULE: Final = -1  # no packet ends on the page
_SEGMENT_BYTES: Final = 255
_MOST_SEGMENTS: Final = 255
_PAGE: Final = struct.Struct("<4sBBqIIIB")


class OggOpusStream:
    """Makes the pages of one logical stream, which begins with `head()`.

    `serial` tells it from others of the same connection; `pre_skip_samples` is the encoder's delay.
    """

    def __init__(self, serial: int, pre_skip_samples: int) -> None:
        self._serial = serial
        self._pre_skip_samples = pre_skip_samples
        self._sequence = 0
        self._granule = 0

    def head(self, vendor: str, tags: Sequence[tuple[str, str]] = ()) -> bytes:
        """The pages before the sound: OpusHead, and OpusTags with `tags` such as ("TITLE", "Sunrise")."""
        head = struct.pack("<8sBBHIhB", b"OpusHead", 1, CHANNELS, self._pre_skip_samples, SAMPLE_RATE_HZ, 0, 0)
        comments = [f"{name}={value}".encode("utf-8", "replace") for name, value in tags]
        parts = [b"OpusTags", _counted(vendor.encode("utf-8", "replace")), struct.pack("<I", len(comments))]
        parts.extend(map(_counted, comments))
        return self._pages([head], 0, _FIRST) + self._pages([b"".join(parts)], 0)

    def page(self, packets: Sequence[bytes], *, is_last: bool = False) -> bytes:
        """A page with these packets of 20 ms, one or more; several where they do not fit (255 segments). The last one
        ends the stream."""
        return self._pages(packets, FRAME_SAMPLES, _LAST if is_last else 0)

    def end(self) -> bytes:
        """An empty page that ends the stream, for one whose last packets were sent already."""
        return self._pages([], 0, _LAST)

    def _pages(self, packets: Sequence[bytes], samples_each: int, flags: int = 0) -> bytes:
        """As many pages as it takes (RFC 3533, section 6). `flags` without `_LAST` are of a single page."""
        lacing = bytearray()
        for packet in packets:
            whole, rest = divmod(len(packet), _SEGMENT_BYTES)
            lacing += b"\xff" * whole + bytes((rest,))
        if len(lacing) <= _MOST_SEGMENTS:
            self._granule += len(packets) * samples_each
            return self._page(lacing, b"".join(packets), self._granule, flags)
        content = memoryview(b"".join(packets))
        pages = []
        for first in range(0, len(lacing), _MOST_SEGMENTS):
            some = lacing[first : first + _MOST_SEGMENTS]
            ended = sum(size < _SEGMENT_BYTES for size in some)  # packets
            self._granule += ended * samples_each
            page_flags = _CONTINUES if first and lacing[first - 1] == _SEGMENT_BYTES else 0
            if first + _MOST_SEGMENTS >= len(lacing):
                page_flags |= flags
            size_bytes = sum(some)
            pages.append(self._page(some, content[:size_bytes], self._granule if ended else _NO_GRANULE, page_flags))
            content = content[size_bytes:]
        return b"".join(pages)

    def _page(self, lacing: bytearray, content: bytes | memoryview, granule: int, flags: int) -> bytes:
        header = _PAGE.pack(b"OggS", 0, flags, granule, self._serial, self._sequence, 0, len(lacing))
        self._sequence += 1
        page = bytearray(b"".join((header, lacing, content)))
        page[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = ogg_checksum(page)
        return bytes(page)


def _counted(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text

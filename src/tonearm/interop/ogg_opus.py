"""Writes Opus in Ogg (RFC 3533, RFC 7845).

Granule positions count samples at 48 kHz that a decoder puts out, with the pre-skip.
"""

import struct
from collections.abc import Sequence
from typing import Final

from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.core.ogg_page import (
    MOST_SEGMENTS,
    OGG_CONTINUED,
    OGG_FIRST,
    OGG_LAST,
    WHOLE_SEGMENT,
    PageHead,
    ogg_page,
)

_NO_GRANULE: Final = -1  # no packet ends on the page


class OggOpusStream:
    """Makes the pages of one logical stream, which begins with `head()`.

    `serial` distinguishes it from chained streams of the same connection; `pre_skip_samples` is the encoder's delay.
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
        return self._pages([head], 0, OGG_FIRST) + self._pages([b"".join(parts)], 0)

    def page(self, packets: Sequence[bytes], *, is_last: bool = False) -> bytes:
        """A page with these packets of 20 ms, at least one; several pages when they take more than 255 segments.

        With `is_last` the last page ends the stream.
        """
        return self._pages(packets, FRAME_SAMPLES, OGG_LAST if is_last else 0)

    def end(self) -> bytes:
        """An empty page that ends a stream whose last packets were sent already."""
        return self._pages([], 0, OGG_LAST)

    def _pages(self, packets: Sequence[bytes], samples_each: int, flags: int = 0) -> bytes:
        """The packets in as many pages as they take (RFC 3533, section 6). `OGG_LAST` in `flags` goes to the last page;
        other flags only come with packets that fit into one."""
        lacing = bytearray()
        for packet in packets:
            whole, rest = divmod(len(packet), WHOLE_SEGMENT)
            lacing += b"\xff" * whole + bytes((rest,))
        if len(lacing) <= MOST_SEGMENTS:
            self._granule += len(packets) * samples_each
            return self._page(lacing, b"".join(packets), self._granule, flags)
        content = memoryview(b"".join(packets))
        pages = []
        for first in range(0, len(lacing), MOST_SEGMENTS):
            some = lacing[first : first + MOST_SEGMENTS]
            ended = sum(size < WHOLE_SEGMENT for size in some)  # packets
            self._granule += ended * samples_each
            page_flags = OGG_CONTINUED if first and lacing[first - 1] == WHOLE_SEGMENT else 0
            if first + MOST_SEGMENTS >= len(lacing):
                page_flags |= flags
            size_bytes = sum(some)
            pages.append(self._page(some, content[:size_bytes], self._granule if ended else _NO_GRANULE, page_flags))
            content = content[size_bytes:]
        return b"".join(pages)

    def _page(self, lacing: bytearray, content: bytes | memoryview, granule: int, flags: int) -> bytes:
        head = PageHead(flags, granule, self._serial, self._sequence, bytes(lacing))
        self._sequence += 1
        return ogg_page(head, content)


def _counted(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text

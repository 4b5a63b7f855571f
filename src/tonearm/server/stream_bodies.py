"""The bodies of endless HTTP streams: how payloads become a WAV, an Ogg or an MP3 stream, with titles in between."""

import itertools
import secrets
import struct
from collections.abc import Callable, Sequence
from typing import Final

from tonearm import VERSION
from tonearm.core.file_formats import (
    MOST_SEGMENTS,
    OGG_CONTINUED,
    OGG_FIRST,
    OGG_LAST,
    WHOLE_SEGMENT,
    PageHead,
    ogg_page,
)
from tonearm.core.frame import (
    CHANNELS,
    FRAME_SAMPLES,
    OPUS_LOOKAHEAD_SAMPLES,
    SAMPLE_BLOCK_BYTES,
    SAMPLE_BYTES,
    SAMPLE_RATE_HZ,
)
from tonearm.core.track_info import MAX_TITLE_CHARACTERS

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


_WAV_PCM: Final = 1
_UNKNOWN_SIZE: Final = 0xFFFFFFFF  # what streaming encoders write when a length cannot be known

# RIFF header, "fmt " chunk of 16 bytes, and the head of the "data" chunk.
WAV_HEADER: Final = struct.pack(
    "<4sI4s4sIHHIIHH4sI",
    b"RIFF",
    _UNKNOWN_SIZE,
    b"WAVE",
    b"fmt ",
    16,
    _WAV_PCM,
    CHANNELS,
    SAMPLE_RATE_HZ,
    SAMPLE_RATE_HZ * SAMPLE_BLOCK_BYTES,
    SAMPLE_BLOCK_BYTES,
    SAMPLE_BYTES * 8,
    b"data",
    _UNKNOWN_SIZE,
)


class OggBody:
    """Opus packets in Ogg pages, after `head`. With `is_chained` each new title begins a new logical stream. Otherwise
    the connection has a single logical stream, since most players stop at a second one.

    `title` gives artist and title of the current track. A page has `packets_a_page` packets, of 20 ms each.
    """

    def __init__(self, title: Callable[[], tuple[str, str]], *, is_chained: bool, packets_a_page: int) -> None:
        self._title = title
        self._is_chained = is_chained
        self._packets_a_page = packets_a_page
        self._packets: list[bytes] = []
        self._serials = itertools.count(secrets.randbits(31))
        self._sent_title = title()
        self._stream, self.head = self._begin()

    def add(self, packet: bytes) -> bytes:
        """Adds a packet, and returns the bytes to send; empty while the page is not full."""
        started = b""
        if self._is_chained:
            title = self._title()
            if title != self._sent_title:
                self._sent_title = title
                ended = self._stream.page(self._packets, is_last=True) if self._packets else self._stream.end()
                self._packets = []
                self._stream, head = self._begin()
                started = ended + head
        self._packets.append(packet)
        if len(self._packets) < self._packets_a_page:
            return started
        packets, self._packets = self._packets, []
        return started + self._stream.page(packets)

    def _begin(self) -> tuple[OggOpusStream, bytes]:
        tags: list[tuple[str, str]] = []  # mpv would show a title among them instead of those between the bytes
        if self._is_chained:
            artist, title = (text[:MAX_TITLE_CHARACTERS] for text in self._sent_title)
            tags = [("TITLE", title), *([("ARTIST", artist)] if artist else [])]
        stream = OggOpusStream(next(self._serials) & 0xFFFF_FFFF, OPUS_LOOKAHEAD_SAMPLES)
        return stream, stream.head(f"tonearm {VERSION}", tags)


ICY_INTERVAL_BYTES: Final = 16_000
_ICY_UNIT_BYTES: Final = 16
_ICY_MOST_UNITS: Final = 255


class IcyTitles:
    """Puts titles between the bytes of a stream, as SHOUTcast does: after each ICY_INTERVAL_BYTES a length byte, and
    the title when it has changed."""

    def __init__(self, title: Callable[[], tuple[str, str]], sent_bytes: int) -> None:
        """`sent_bytes` of the stream were sent already, fewer than ICY_INTERVAL_BYTES."""
        self._title = title
        self._until_title = ICY_INTERVAL_BYTES - sent_bytes
        self._sent_title: tuple[str, str] | None = None

    def add(self, data: bytes) -> bytes:
        if len(data) < self._until_title:
            self._until_title -= len(data)
            return data
        pieces = []
        while len(data) >= self._until_title:
            pieces += [data[: self._until_title], self._block()]
            data = data[self._until_title :]
            self._until_title = ICY_INTERVAL_BYTES
        pieces.append(data)
        self._until_title -= len(data)
        return b"".join(pieces)

    def _block(self) -> bytes:
        title = self._title()
        if title == self._sent_title:
            return b"\0"
        self._sent_title = title
        return icy_block(" - ".join(filter(None, title)))


def icy_block(title: str) -> bytes:
    """A length byte, in units of 16 bytes, and the title. `';` ends a title, so it is replaced in the text; the block
    is cut at 4 KB."""
    head, tail = b"StreamTitle='", b"';"
    most_bytes = _ICY_MOST_UNITS * _ICY_UNIT_BYTES - len(head) - len(tail)
    text = title.replace("';", "\u2019;").encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")
    content = head + text.encode("utf-8") + tail
    units = -(-len(content) // _ICY_UNIT_BYTES)
    return bytes((units,)) + content.ljust(units * _ICY_UNIT_BYTES, b"\0")

"""Ogg files (RFC 3533, RFC 7845) of Opus, Vorbis and FLAC, with strange pages."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.support.strange import sounds
from tests.support.strange.dice import Dice
from tests.support.strange.sounds import Sound
from tonearm.core.file_formats import OGG_CHECKSUM_AT, ogg_checksum

_HOUR: Final = 3600 * 48_000
_CONTINUED, _FIRST, _LAST = 1, 2, 4
_NO_GRANULE: Final = -1
_MOST_SEGMENTS: Final = 255

_ODDITIES: Final = (
    *sounds.OPUS_ODDITIES, "granules jump", "granules stand", "granules go back", "granules begin late",
    "granules without sense", "the end before the start", "the end cut short", "pre-skip", "gain", "channels",
    "version", "tags", "pages of all sizes", "pages lost", "page numbers", "pages again", "packets over pages",
    "two streams", "a chain", "no last page", "the last page early", "empty pages", "between pages",
)  # fmt: skip


class Page(NamedTuple):
    """`segments` as the header has them; `granule` -1 where no packet ends."""

    serial: int
    number: int
    granule: int
    flags: int
    segments: bytes
    body: bytes

    def to_bytes(self) -> bytes:
        head = struct.pack(
            "<4sBBqIIIB", b"OggS", 0, self.flags, self.granule, self.serial, self.number, 0, len(self.segments)
        )
        page = bytearray(head + self.segments + self.body)
        page[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = ogg_checksum(page)
        return bytes(page)


def ogg_file(dice: Dice) -> bytes:
    dice.draw_oddities(_ODDITIES)
    parts = [_stream(dice, serial) for serial in range(1, 1 + (dice.randint(2, 4) if dice.has("a chain") else 1))]
    pages = [page for part in parts for page in part]
    if dice.has("two streams"):
        pages = _interleaved(dice, pages, _stream(dice, dice.choice((1, 77))))
    between = dice.odd("between pages", (b"OggS", b"\0" * 500, b"ID3\x03\0\0\0\0\0\x05hello", b"OggS\0" * 30), b"")
    if not between:
        return b"".join(page.to_bytes() for page in pages)
    return b"".join(page.to_bytes() + (between if dice.one_in(4) else b"") for page in pages)


def _stream(dice: Dice, serial: int) -> list[Page]:
    codec = dice.choice(("opus", "opus", "opus", "opus", "vorbis", "flac"))
    if codec == "opus":
        sound = sounds.strange_opus(dice)
        headers = [_opus_head(dice, sound.channels), _opus_tags(dice)]
    elif codec == "vorbis":
        sound = sounds.vorbis(dice)
        headers = list(_xiph_laced(sound.header))
    else:
        sound = sounds.flac(dice)
        headers = [
            b"\x7fFLAC\x01\x00\x00\x01fLaC" + b"\x00\x00\x00\x22" + sound.header[-34:],
            b"\x84\x00\x00\x28" + _comments(b"", []),
        ]
    pages = [Page(serial, 0, 0, _FIRST, *_laced(headers[:1])), Page(serial, 1, 0, 0, *_laced(headers[1:]))]
    pages += _with_strange_granules(dice, list(_sound_pages(dice, serial, sound)))
    return _with_strange_pages(dice, pages)


def _opus_head(dice: Dice, channels: int) -> bytes:
    family = dice.odd("channels", (0, 1, 2, 255), 0)
    return sounds.opus_head(
        dice.odd("channels", (0, 1, 2, 3, 6, 8, 255), channels),
        dice.odd("pre-skip", sounds.PRE_SKIPS, 312),
        dice.odd("gain", sounds.GAINS, 0),
        family,
        version=dice.odd("version", (0, 2, 15, 16, 255), 1),
    )


def _opus_tags(dice: Dice) -> bytes:
    comments = dice.odd(
        "tags",
        (
            [b"R128_TRACK_GAIN=-32768", b"R128_ALBUM_GAIN=32767"],
            [b"R128_TRACK_GAIN=1e999"],
            [b"REPLAYGAIN_TRACK_GAIN=nan dB", b"REPLAYGAIN_TRACK_PEAK=inf"],
            [b"TITLE=" + b"x" * 70_000],
            [b"=", b"", b"TITLE", b"TITLE=\xff\xfe\0"],
            [b"METADATA_BLOCK_PICTURE=AAAA", b"METADATA_BLOCK_PICTURE=" + b"A" * 5000],
        ),
        [],
    )
    return b"OpusTags" + _comments(b"strange", comments)


def _comments(vendor: bytes, comments: list[bytes]) -> bytes:
    listed = b"".join(struct.pack("<I", len(comment)) + comment for comment in comments)
    return struct.pack("<I", len(vendor)) + vendor + struct.pack("<I", len(comments)) + listed


def _sound_pages(dice: Dice, serial: int, sound: Sound) -> Iterator[Page]:
    """The packets on pages of the ordinary numbers and places."""
    most = dice.odd("pages of all sizes", (1, 2, 200), dice.choice((5, 25, 50)))
    granule, number, waiting = 0, 2, list(sound.packets)
    while waiting:
        taken = waiting[: dice.randint(1, most) if dice.has("pages of all sizes") else most]
        while len(taken) > 1 and sum(len(packet.data) // 255 + 1 for packet in taken) > _MOST_SEGMENTS:
            taken.pop()
        del waiting[: len(taken)]
        granule += sum(packet.samples for packet in taken)
        segments, body = _laced([packet.data for packet in taken])
        for page in _split(dice, Page(serial, number, granule, 0 if waiting else _LAST, segments, body)):
            yield page
            number = page.number + 1


def _split(dice: Dice, page: Page) -> Iterator[Page]:
    """One page, or two and more where its packets are too long for one or are to go on on the next one."""
    segments, body, number, flags = page.segments, page.body, page.number, 0
    while len(segments) > _MOST_SEGMENTS or (dice.has("packets over pages") and len(segments) > 1 and dice.one_in(3)):
        at = min(dice.randint(1, len(segments) - 1), _MOST_SEGMENTS)
        size = sum(segments[:at])
        ends = any(segment < 255 for segment in segments[:at])
        yield Page(page.serial, number, page.granule if ends else _NO_GRANULE, flags, segments[:at], body[:size])
        flags = _CONTINUED if segments[at - 1] == 255 else 0
        segments, body, number = segments[at:], body[size:], number + 1
    yield Page(page.serial, number, page.granule, flags | page.flags, segments, body)


def _with_strange_granules(dice: Dice, pages: list[Page]) -> list[Page]:
    granules = [page.granule for page in pages]
    for at in range(dice.randrange(len(pages)), len(pages)):
        offset = 0
        if dice.has("granules jump"):
            offset += dice.choice((1, 960, 4_800, 48_000, _HOUR, 2**31, 2**40)) if dice.one_in(3) else 0
        if dice.has("granules go back"):
            offset -= dice.choice((1, 960, 4_800, 48_000, 2**20)) if dice.one_in(3) else 0
        granules[at:] = [granule + offset for granule in granules[at:]]
        if dice.has("granules stand") and at and dice.one_in(2):
            granules[at] = granules[at - 1]
        if dice.has("granules without sense") and dice.one_in(3):
            granules[at] = dice.choice((0, -1, -2, -(2**63), 2**63 - 1, 2**62, 1))
    late = dice.odd("granules begin late", (1, 961, 48_000, _HOUR, 2**40, 2**62), 0)
    granules = [granule + late for granule in granules]
    if dice.has("the end before the start"):
        granules[-1] = dice.choice((0, 1, 311, 312, -5, granules[0] - 1))
    if dice.has("the end cut short"):
        granules[-1] -= dice.choice((1, 100, 960, 961, 5_000, 40_000))
    return [
        page._replace(granule=min(max(granule, -(2**63)), 2**63 - 1))
        for page, granule in zip(pages, granules, strict=True)
    ]


def _with_strange_pages(dice: Dice, pages: list[Page]) -> list[Page]:
    if dice.has("pages lost"):
        for _ in range(dice.randint(1, 3)):
            if len(pages) > 3:
                del pages[dice.randrange(2, len(pages))]
    if dice.has("pages again"):
        at = dice.randrange(len(pages))
        pages[at:at] = pages[at : at + dice.randint(1, 3)]
    if dice.has("empty pages"):
        for _ in range(dice.randint(1, 5)):
            at = dice.randint(1, len(pages))
            before = pages[at - 1]
            pages.insert(at, Page(before.serial, before.number + 1, dice.choice((-1, before.granule, 0)), 0, b"", b""))
    if dice.has("page numbers"):
        at, step = dice.randrange(len(pages)), dice.choice((1, 1000, -1, 2**32 - 3))
        pages[at:] = [page._replace(number=(page.number + step) % 2**32) for page in pages[at:]]
    if dice.has("no last page"):
        pages[-1] = pages[-1]._replace(flags=pages[-1].flags & ~_LAST)
    if dice.has("the last page early"):
        at = dice.randrange(len(pages))
        pages[at] = pages[at]._replace(flags=pages[at].flags | _LAST)
    return pages


def _interleaved(dice: Dice, one: list[Page], other: list[Page]) -> list[Page]:
    """The pages of two streams in any order, the first ones of both at the start or not."""
    begun = [one[0], other[0]] if dice.randrange(4) else []
    left = [one[1:], other[1:]] if begun else [one, other]
    while left[0] and left[1]:
        begun.append(dice.choice(left).pop(0))
    return begun + left[0] + left[1]


def _laced(packets: list[bytes]) -> tuple[bytes, bytes]:
    segments = b"".join(b"\xff" * (len(packet) // 255) + bytes((len(packet) % 255,)) for packet in packets)
    if len(segments) > _MOST_SEGMENTS and len(packets) == 1 and packets[0].startswith(b"OpusTags"):
        return _laced([packets[0][:60_000]])
    return segments, b"".join(packets)


def _xiph_laced(header: bytes) -> Iterator[bytes]:
    """The three headers of Vorbis, as libav and Matroska keep them."""
    sizes, at = [], 1
    for _ in range(header[0]):
        size = 0
        while header[at] == 255:
            size, at = size + 255, at + 1
        sizes.append(size + header[at])
        at += 1
    for size in sizes:
        yield header[at : at + size]
        at += size
    yield header[at:]

"""Files taken apart into their pieces, which can be changed, and put together again with the right sizes."""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias

from tonearm.core.file_formats import OGG_CHECKSUM_AT, OGG_PATTERN, ogg_checksum

_WITH_BOXES: Final = frozenset(b"moov trak mdia minf stbl edts mvex moof traf".split())


class Piece:
    """`kind` tells which others are like it. It has a body, or others inside; `write` makes bytes of it."""

    def __init__(
        self, kind: bytes, body: bytes, write: Callable[[bytes], bytes] = bytes, inside: "list[Piece] | None" = None
    ) -> None:
        self.kind = kind
        self.body = bytearray(body)
        self.inside = inside or []
        self._write = write

    def to_bytes(self) -> bytes:
        return self._write(joined(self.inside) if self.inside else bytes(self.body))


Place: TypeAlias = tuple[list[Piece], int]


def joined(pieces: list[Piece]) -> bytes:
    return b"".join(piece.to_bytes() for piece in pieces)


def places(pieces: list[Piece]) -> Iterator[Place]:
    """All of them, also those inside others, as the list that each is in and its index there."""
    for at, piece in enumerate(pieces):
        yield pieces, at
        yield from places(piece.inside)


def ogg_pages(file: bytes) -> list[Piece]:
    """They get the right checksums. The two with headers are of kinds of their own."""
    pages = [OGG_PATTERN + rest for rest in file.split(OGG_PATTERN)[1:]]
    return [Piece(b"page %d" % min(number, 2), page, _checked_page) for number, page in enumerate(pages)]


def _checked_page(page: bytes) -> bytes:
    checked = bytearray(page)
    checked[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = bytes(4)
    checked[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = ogg_checksum(checked)
    return bytes(checked)


def box(kind: bytes, *parts: bytes) -> bytes:
    """A box of MP4 (ISO 14496-12, 4.2)."""
    return struct.pack(">I4s", 8 + sum(map(len, parts)), kind) + b"".join(parts)


def boxes(data: bytes) -> Iterator[Piece]:
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + size]
        yield Piece(kind, body, partial(box, kind), list(boxes(body)) if kind in _WITH_BOXES else [])
        at += size


class Mp4:
    """A file whose boxes are had by their kinds."""

    def __init__(self, file: bytes) -> None:
        self._boxes = list(boxes(file))
        self._by_kind = {parts[at].kind: parts[at] for parts, at in places(self._boxes)}

    def __getitem__(self, kind: bytes) -> Piece:
        return self._by_kind[kind]

    def with_tags(self, *items: bytes) -> bytes:
        """The file with iTunes' tags at the end of its index. Where that is behind the data no offset changes."""
        handler = box(b"hdlr", bytes(8), b"mdirappl", bytes(9))
        tags = box(b"meta", bytes(4), handler, box(b"ilst", *items))
        self[b"moov"].inside.append(Piece(b"udta", tags, partial(box, b"udta")))
        return joined(self._boxes)

"""A long JSON object read in pieces: the values of its fields, and of fields that hold arrays the items, one by one.

A parser keeps the interpreter lock until it has finished, in any thread, so it gets small pieces. The end of a value is
found without building the value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

MAX_PIECE_BYTES: Final = 1024 * 1024
_MOST_PIECES_BYTES: Final = 64 * 1024  # as long as nearly all of them are: a value is first looked for in so much

_decode: Final = Decoder(Raw).decode
# The decoder's message when bytes follow a value. It counts bytes from 1.
_FOLLOWED: Final = re.compile(r"trailing characters \(byte ([0-9]+)\)")
_SPACE: Final = re.compile(rb"[ \t\n\r]*")


class PieceTooLong(Exception):
    """A value has more than `MAX_PIECE_BYTES`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The value of the field `name`, as JSON. An array gives a piece `[]` without index, then a piece with `index` for
    each item."""

    name: bytes
    value: bytes
    index: int | None = None


def is_object(raw: bytes | bytearray) -> bool:
    """Whether `raw` is an object, provided that `raw` is JSON."""
    return _Text(raw).following == b"{"


def pieces_of(raw: bytes | bytearray) -> Iterator[Piece]:
    """The pieces of the object `raw`, in order. Names and values are JSON, not yet checked for their meaning. Raises
    `ValueError` and `RecursionError` for invalid JSON, and `PieceTooLong`."""
    text = _Text(raw)
    for _ in text.parts(b"{}"):
        name = text.value()
        if not name.startswith(b'"'):
            raise ValueError("a field has no name")
        text.take(b":")
        if text.following == b"[":
            yield Piece(name, b"[]")
            for index, _ in enumerate(text.parts(b"[]")):
                yield Piece(name, text.value(), index)
        else:
            yield Piece(name, text.value())
    if text.following:
        raise ValueError("something follows its end")


class _Text:
    def __init__(self, raw: bytes | bytearray) -> None:
        self._raw = raw
        self._view = memoryview(raw)
        self._at = 0

    def _skip_space(self) -> None:
        found = _SPACE.match(self._raw, self._at)
        assert found is not None, "no space at all is a match"
        self._at = found.end()

    @property
    def following(self) -> bytes:
        """The next character that is no space; empty at the end."""
        self._skip_space()
        return bytes(self._view[self._at : self._at + 1])

    def take(self, expected: bytes) -> bytes:
        """Moves past the next character, which must be one of `expected`. Raises ValueError."""
        found = self.following
        if not found or found not in expected:
            raise ValueError(f"it has {found.decode(errors='replace')!r} in place of {expected.decode()!r}")
        self._at += 1
        return found

    def parts(self, brackets: bytes) -> Iterator[None]:
        """Yields before each part inside the brackets; the caller reads the part. The position is after the brackets at
        the end."""
        begin, end = brackets[:1], brackets[1:]
        self.take(begin)
        if self.following == end:
            self.take(end)
            return
        yield
        while self.take(b"," + end) != end:
            yield

    def value(self) -> bytes:
        """Returns the next value, and moves past it."""
        self._skip_space()
        begin = self._at
        for most_bytes in (_MOST_PIECES_BYTES, MAX_PIECE_BYTES + 1):
            self._at = min(begin + most_bytes, len(self._raw))
            is_cut = self._at < len(self._raw)
            try:
                _decode(self._view[begin : self._at])
            except DecodeError as error:
                followed = _FOLLOWED.search(str(error))
                if followed is not None:
                    self._at = begin + int(followed[1]) - 1
                    break
                if not is_cut:
                    raise  # a ValueError
            else:
                if not is_cut:
                    break
        else:
            raise PieceTooLong
        return bytes(self._view[begin : self._at])

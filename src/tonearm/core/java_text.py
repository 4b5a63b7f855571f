"""Strings as Java's `DataOutput.writeUTF` writes them: "modified UTF-8".

It differs from UTF-8 in two ways (java.io.DataInput, "Modified UTF-8"): NUL is the two bytes C0 80, and a character
above U+FFFF is its surrogate pair, three bytes for each half.
"""

from collections.abc import Iterator
from typing import Final

MAX_JAVA_TEXT_BYTES: Final = 0xFFFF  # the length before a string is a uint16

# Surrogates take 0.1 ms for each 1000 bytes, during which no other thread gets the interpreter.
_PIECE_BYTES: Final = 6 * 1024

_NUL: Final = b"\xc0\x80"
_LAST_BASIC_CHARACTER: Final = "\uffff"
_FIRST_FOUR_BYTE_LEAD: Final = 0xF0


def encode_java_text(text: str) -> bytes:
    """`text` in modified UTF-8, without the length. Raises ValueError for a lone surrogate."""
    try:
        plain = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The text {text!r} holds half of a surrogate pair at {error.start} and is no valid Unicode."
        ) from error
    if max(text, default="") > _LAST_BASIC_CHARACTER:
        plain = "".join(map(_as_surrogates, text)).encode("utf-8", "surrogatepass")
    return plain.replace(b"\x00", _NUL)


def decode_java_text(encoded: bytes) -> str:
    """The text in `encoded`. Raises ValueError for anything that is not modified UTF-8, and for lone surrogates."""
    if max(encoded, default=0) >= _FIRST_FOUR_BYTE_LEAD:
        raise ValueError("A character is encoded in four bytes.")
    # C0 is never a following byte, so this finds nothing but encoded NULs.
    plain = encoded.replace(_NUL, b"\x00")
    try:
        return plain.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(map(_decode_surrogates, _pieces(plain)))


def cut_java_text(encoded: bytes) -> bytes:
    """`encoded`, cut at a character's boundary when it is longer than a string of the format can be."""
    if len(encoded) <= MAX_JAVA_TEXT_BYTES:
        return encoded
    end = MAX_JAVA_TEXT_BYTES
    while _is_following_byte(encoded[end]):
        end -= 1
    if _is_low_surrogate(encoded[end : end + 3]):
        end -= 3
    return encoded[:end]


def _decode_surrogates(piece: bytes) -> str:
    return piece.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _pieces(encoded: bytes) -> Iterator[bytes]:
    """`encoded`, cut at characters' boundaries."""
    start = 0
    while start < len(encoded):
        end = min(start + _PIECE_BYTES, len(encoded))
        while start < end < len(encoded) and _is_inside_character(encoded[end : end + 2]):
            end -= 1
        if end == start:
            raise ValueError("There are following bytes without a character that they follow.")
        yield encoded[start:end]
        start = end


def _as_surrogates(character: str) -> str:
    if character <= _LAST_BASIC_CHARACTER:
        return character
    offset = ord(character) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def _is_following_byte(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _is_low_surrogate(encoded: bytes) -> bool:
    """True for ED B0..BF xx, U+DC00 to U+DFFF."""
    return encoded[0] == 0xED and encoded[1:2] >= b"\xb0"


def _is_inside_character(encoded: bytes) -> bool:
    return _is_following_byte(encoded[0]) or _is_low_surrogate(encoded)

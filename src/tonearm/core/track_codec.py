"""Encoded track identifiers: Lavalink's binary track format in base64.

Layout (lavaplayer, `MessageOutput` and `DefaultAudioPlayerManager.encodeTrack`), big-endian: int32 header with the
size of the rest in its low 30 bits and bit 30 set when a version byte follows; uint8 version; title; author; int64
length in ms; identifier; bool is a stream; from version 2 nullable uri; from version 3 nullable artwork link and
ISRC; source name; fields of the source (`http` and `local`: the container's name); int64 position in ms.

Strings are those of Java's `DataOutput.writeUTF`: a uint16 length, then "modified UTF-8", which differs from UTF-8 in
two ways (java.io.DataInput): NUL is the two bytes C0 80, and a character above U+FFFF is its surrogate pair, three
bytes for each half.
"""

import base64
import binascii
import struct
from collections.abc import Iterator
from typing import Final

from tonearm.core.errors import BadRequest, InvalidIdentifier
from tonearm.core.source_uri import direct_track_info
from tonearm.core.track_info import MAX_LENGTH_MS, TrackInfo

MAX_ENCODED_CHARACTERS: Final = 1 << 20  # the most that a request body can hold

_LEAST_ENCODED_CHARACTERS: Final = 12
_VERSION: Final = 3
_VERSIONED: Final = 0x40000000
_SIZE_MASK: Final = 0x3FFFFFFF
_STREAM_LENGTH_MS: Final = (1 << 63) - 1
_POSITION_BYTES: Final = 8
_MAX_PADDING: Final = 2
_ACCEPTED: Final = str.maketrans("-_ ", "+/+")

_FILE_SOURCE: Final = "file"
_FILE_SOURCE_IN_FORMAT: Final = "local"
_SOURCES_WITH_PROBE_NAME: Final = frozenset({"http", _FILE_SOURCE_IN_FORMAT})


def encode_track(info: TrackInfo) -> str:
    """`info` as a version 3 identifier in standard base64 with padding.

    Title and author are cut, URI, artwork link and ISRC left out when they are longer than the format can hold.
    Raises ValueError when a text is no valid Unicode, or identifier or source name are too long.
    """
    source_name = _FILE_SOURCE_IN_FORMAT if info.source_name == _FILE_SOURCE else info.source_name
    fields = [
        bytes([_VERSION]),
        _with_length(cut_java_text(encode_java_text(info.title))),
        _with_length(cut_java_text(encode_java_text(info.author))),
        struct.pack(">q", _STREAM_LENGTH_MS if info.is_stream else info.shown_length_ms),
        _required_text(info.identifier, "identifier"),
        struct.pack(">?", info.is_stream),
        _nullable_text(info.uri),
        _nullable_text(info.artwork_url),
        _nullable_text(info.isrc),
        _required_text(source_name, "source name"),
    ]
    if source_name in _SOURCES_WITH_PROBE_NAME:
        fields.append(_required_text(info.probe_name, "probe name"))
    fields.append(bytes(_POSITION_BYTES))
    body = b"".join(fields)
    return base64.b64encode(struct.pack(">I", _VERSIONED | len(body)) + body).decode("ascii")


def decode_track(encoded: str) -> TrackInfo:
    """The track in an identifier of versions 1 to 3, or in base64 of a plain absolute URI or path.

    Missing padding, `-_` for `+/` and a space for `+` are accepted. Raises InvalidIdentifier for anything else.
    """
    message = _decode_base64(encoded)
    header = int.from_bytes(message[:4], "big")
    if len(message) > 4 and header & _SIZE_MASK == len(message) - 4 and header <= _VERSIONED | _SIZE_MASK:
        return _decode_message(_MessageReader(message, 4), is_versioned=bool(header & _VERSIONED))
    return _decode_plain(message)


def is_encoded_track(text: str) -> bool:
    """Whether `text` is an encoded track, and not a URI. A relative path is hardly ever one by chance, but some short
    words are: `Lyla` and `L7` are paths in base64."""
    if len(text) < _LEAST_ENCODED_CHARACTERS:
        return False
    try:
        decode_track(text)
    except InvalidIdentifier:
        return False
    return True


class _MessageReader:
    """Reads the fields of a message one after the other; every method raises InvalidIdentifier past the end."""

    def __init__(self, message: bytes, offset: int) -> None:
        self._message = message
        self._offset = offset

    def remaining(self) -> int:
        return len(self._message) - self._offset

    def take(self, size: int) -> bytes:
        if size > self.remaining():
            raise InvalidIdentifier("The encoded track ends in the middle of a field; it was cut off.")
        taken = self._message[self._offset : self._offset + size]
        self._offset += size
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def flag(self) -> bool:
        value = self.byte()
        if value > 1:
            raise InvalidIdentifier(f"The encoded track holds {value} where only yes or no can be.")
        return value == 1

    def milliseconds(self) -> int:
        value = int.from_bytes(self.take(8), "big", signed=True)
        if value < 0:
            raise InvalidIdentifier(f"The encoded track has a negative time of {value} ms.")
        return value

    def text(self) -> str:
        size = int.from_bytes(self.take(2), "big")
        try:
            return decode_java_text(self.take(size))
        except ValueError as error:
            raise InvalidIdentifier("The encoded track holds a text that is not modified UTF-8.") from error

    def nullable_text(self) -> str | None:
        return self.text() if self.flag() else None


def _decode_message(reader: _MessageReader, *, is_versioned: bool) -> TrackInfo:
    version = reader.byte() if is_versioned else 1
    if not 1 <= version <= _VERSION:
        raise InvalidIdentifier(f"The encoded track has version {version}; versions 1 to {_VERSION} can be decoded.")
    title, author = reader.text(), reader.text()
    length_ms = reader.milliseconds()  # 2^63 - 1 when unknown, also in tracks that are no streams
    identifier = reader.text()
    is_stream = reader.flag()
    uri = reader.nullable_text() if version >= 2 else None
    artwork_url = reader.nullable_text() if version >= 3 else None
    isrc = reader.nullable_text() if version >= 3 else None
    source_name = reader.text()
    probe_name = _decode_source_extras(reader, source_name)
    reader.milliseconds()  # the position in the player that encoded it
    return TrackInfo(
        identifier=identifier,
        uri=identifier if uri is None else uri,
        title=title,
        author=author,
        length_ms=0 if is_stream or length_ms > MAX_LENGTH_MS else length_ms,
        is_seekable=not is_stream,
        is_stream=is_stream,
        artwork_url=artwork_url,
        isrc=isrc,
        source_name=_FILE_SOURCE if source_name == _FILE_SOURCE_IN_FORMAT else source_name,
        probe_name=probe_name,
    )


def _decode_source_extras(reader: _MessageReader, source_name: str) -> str:
    """Skips the fields of the source, and returns the container's name if they contain one."""
    extras_size = reader.remaining() - _POSITION_BYTES
    if extras_size < 0:
        raise InvalidIdentifier("The encoded track ends before its position; it was cut off.")
    if extras_size == 0 or source_name not in _SOURCES_WITH_PROBE_NAME:
        reader.take(extras_size)
        return ""
    probe_name = reader.text()
    if reader.remaining() != _POSITION_BYTES:
        raise InvalidIdentifier(f"The encoded track holds more than a source of the kind {source_name} writes.")
    return probe_name


def _decode_plain(message: bytes) -> TrackInfo:
    try:
        return direct_track_info(message.decode("utf-8"))
    except (UnicodeDecodeError, BadRequest) as error:
        raise InvalidIdentifier(
            "The text is neither an encoded track of the versions 1 to 3 nor base64 of an absolute URI or path."
        ) from error


def _decode_base64(encoded: str) -> bytes:
    if len(encoded) > MAX_ENCODED_CHARACTERS:
        raise InvalidIdentifier(f"An encoded track has at most {MAX_ENCODED_CHARACTERS} characters.")
    digits = encoded.translate(_ACCEPTED)
    bare = digits.rstrip("=")
    padding = len(digits) - len(bare)
    if padding > _MAX_PADDING or (padding and len(digits) % 4):
        raise InvalidIdentifier("The encoded track is not base64: its padding is wrong.")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: characters outside ASCII
        raise InvalidIdentifier("The encoded track is not base64.") from error


def _with_length(encoded: bytes) -> bytes:
    return struct.pack(">H", len(encoded)) + encoded


def _required_text(text: str, field: str) -> bytes:
    encoded = encode_java_text(text)
    if len(encoded) > MAX_JAVA_TEXT_BYTES:
        raise ValueError(f"The {field} of a track has {len(encoded)} bytes; at most {MAX_JAVA_TEXT_BYTES} fit.")
    return _with_length(encoded)


def _nullable_text(text: str | None) -> bytes:
    encoded = None if text is None else encode_java_text(text)
    if encoded is None or len(encoded) > MAX_JAVA_TEXT_BYTES:
        return b"\x00"
    return b"\x01" + _with_length(encoded)


# Java's strings

MAX_JAVA_TEXT_BYTES: Final = 0xFFFF  # the length before a string is a uint16

# Text is decoded in pieces, because decoding surrogates holds the interpreter lock.
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
    # C0 is never a following byte, so this finds only encoded NULs.
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

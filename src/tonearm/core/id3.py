"""The size of an ID3v2 tag, which may stand before any audio (ID3v2.4 structure, 3.1)."""

from typing import Final

ID3_HEADER_BYTES: Final = 10


def id3_tag_bytes(first: bytes) -> int:
    """How many bytes the tag at the start has, with its header; 0 without one, or where the header is not whole."""
    if len(first) < ID3_HEADER_BYTES or not first.startswith(b"ID3"):
        return 0
    size = 0
    for seven_bits in first[6:ID3_HEADER_BYTES]:
        size = size << 7 | seven_bits & 0x7F
    return ID3_HEADER_BYTES + size

"""The checksum of an Ogg page (RFC 3533, section 6)."""

import zlib
from typing import Final

CHECKSUM_AT: Final = 22  # in the page, 4 bytes

_BITS_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def ogg_checksum(page: bytes | bytearray) -> bytes:
    """CRC-32 with Ogg's polynomial, as it stands in the page, in whose place four zeros are now.

    Ogg's begins with 0 and takes the highest bit of each byte first; zlib's inverts before and after, and takes the
    lowest first. With all bits reversed one is the other, at zlib's speed.
    """
    reversed_bits = zlib.crc32(page.translate(_BITS_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return reversed_bits.to_bytes(4, "big").translate(_BITS_REVERSED)

"""RIFF WAVE files, RF64 too, whose format does not fit their data."""

import struct
from typing import Final

from tests.support.audio_files import music, s16
from tests.support.strange.dice import Dice

_MOST: Final = 2**32 - 1
_ODDITIES: Final = (
    "channels", "rate", "bits", "block size", "coding", "size of the data", "odd size", "chunks before",
    "chunks behind", "two formats", "two data chunks", "extensible", "64 bits", "no data",
)  # fmt: skip
_GUID_TAIL: Final = bytes.fromhex("000010800000aa00389b71")
_PCM, _EXTENSIBLE = 1, 0xFFFE


def wav_file(dice: Dice) -> bytes:
    dice.draw_oddities(_ODDITIES)
    data = s16(music(2.0, 48_000, channels=2, seed=3)).tobytes()
    data = data[: dice.randint(1, len(data) // 4) * 4]
    if dice.has("no data"):
        data = data[: dice.choice((0, 1, 3, 4))]
    if dice.has("odd size"):
        data += b"\x01"
    size = dice.odd("size of the data", (0, 1, len(data) // 2, len(data) + 1000, _MOST, _MOST - 1, 2**31), len(data))
    chunks = [_chunk(b"fmt ", _format(dice))]
    if dice.has("chunks before"):
        chunks.insert(dice.randrange(2), dice.choice(_OTHER_CHUNKS))
    if dice.has("two formats"):
        chunks.append(_chunk(b"fmt ", _format(dice)))
    chunks.append(b"data" + struct.pack("<I", size) + data)
    if dice.has("two data chunks"):
        chunks.append(_chunk(b"data", data[: len(data) // 2]))
    if dice.has("chunks behind"):
        chunks.append(dice.choice(_OTHER_CHUNKS))
    if dice.has("64 bits"):
        sizes = struct.pack("<QQQI", dice.choice((0, 2**40)), dice.choice((0, len(data), 2**62)), 0, 0)
        chunks.insert(0, _chunk(b"ds64", sizes))
    body = b"".join(chunks)
    name = b"RF64" if dice.has("64 bits") else b"RIFF"
    whole = dice.choice((0, _MOST)) if dice.has("size of the data") else min(len(body) + 4, _MOST)
    return name + struct.pack("<I", whole) + b"WAVE" + body


def _format(dice: Dice) -> bytes:
    coding = dice.odd("coding", (0, 2, 3, 6, 7, 0x11, 0x31, 0x55, 0x161, 0xFFFF), _PCM)
    channels = dice.odd("channels", (0, 1, 3, 6, 8, 9, 255, 65_535), 2)
    rate_hz = dice.odd("rate", (0, 1, 3_999, 4_000, 8_000, 44_100, 96_000, 384_000, 384_001, _MOST), 48_000)
    bits = dice.odd("bits", (0, 1, 4, 8, 12, 20, 24, 32, 64, 65_535), 16)
    block = dice.odd("block size", (0, 1, 3, 7, 4096, 65_535), max(channels * bits // 8, 1) & 0xFFFF)
    fields = struct.pack("<HIIHH", channels, rate_hz, rate_hz * block & _MOST, block, bits)
    if dice.has("extensible"):
        more = struct.pack("<HHI", 22, dice.choice((0, 1, 16, 100)), dice.choice((0, 3, 0x3F, _MOST)))
        return struct.pack("<H", _EXTENSIBLE) + fields + more + struct.pack("<H", coding) + b"\0\0\0" + _GUID_TAIL
    return struct.pack("<H", coding) + fields


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


_OTHER_CHUNKS: Final = (
    _chunk(b"LIST", b"INFOINAM\x04\0\0\0abc\0"),
    _chunk(b"fact", b"\xff" * 4),
    _chunk(b"JUNK", bytes(5000)),
    b"LIST" + struct.pack("<I", _MOST) + b"INFO",
    _chunk(b"cue ", b"\xff" * 28),
    _chunk(b"bext", bytes(602)),
    _chunk(b"id3 ", b"ID3\x03\0\0\x7f\x7f\x7f\x7f"),
    _chunk(b"", b"")[4:],
)

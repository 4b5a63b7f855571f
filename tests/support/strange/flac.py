"""FLAC files (RFC 9639) whose header does not fit their frames, or whose frames do not fit each other."""

from typing import Final

from tests.support.strange import sounds
from tests.support.strange.dice import Dice
from tests.support.strange.sounds import Sound

_ODDITIES: Final = (
    "length", "block sizes", "rate", "channels", "other rates and channels", "frame numbers", "frames lost",
    "frames again", "index", "tags", "something in between", "the last frame cut",
)  # fmt: skip
_LAST_BLOCK: Final = 0x80


def flac_file(dice: Dice) -> bytes:
    dice.draw_oddities(_ODDITIES)
    sound = sounds.flac(dice)
    frames = [packet.data for packet in sound.packets]
    if dice.has("other rates and channels"):
        frames += [packet.data for packet in sounds.flac(dice).packets]
    if dice.has("frames lost"):
        frames = [frame for frame in frames if not dice.one_in(4)] or frames
    if dice.has("frames again"):
        at = dice.randrange(len(frames))
        frames[at:at] = frames[at : at + 1] * dice.choice((1, 20))
    if dice.has("frame numbers"):
        step = dice.choice((1, 1000, -3, 2**30))
        at = dice.randrange(len(frames))
        frames[at:] = [_numbered(frame, (number + step) % 2**31) for number, frame in enumerate(frames[at:], at)]
        if dice.one_in(2):
            frames = [_numbered(frame, dice.choice((0, 7, 2**31 - 1))) for frame in frames]
    if dice.has("the last frame cut"):
        frames[-1] = frames[-1][: dice.randint(1, len(frames[-1]))]
    blocks = [(0, _stream_info(dice, sound))]
    if dice.has("index"):
        point = (2**64 - 1, 0, 48_000, 2**40)
        entries = [(dice.choice(point), dice.choice((0, 10**6, 2**63)), dice.choice((0, 4608))) for _ in range(5)]
        blocks.append(
            (3, b"".join(a.to_bytes(8, "big") + b.to_bytes(8, "big") + c.to_bytes(2, "big") for a, b, c in entries))
        )
    if dice.has("tags"):
        blocks += dice.choice(
            ([(1, bytes(100_000))], [(4, b"\xff" * 20)], [(2, b"abc"), (126, b"x")], [(6, bytes(32))])
        )
    head = b"".join(
        bytes(((_LAST_BLOCK if at == len(blocks) - 1 else 0) | kind,)) + len(body).to_bytes(3, "big") + body
        for at, (kind, body) in enumerate(blocks)
    )
    between = dice.odd("something in between", (b"\xff\xf8", bytes(50), b"ID3\3\0\0\0\0\0\0", dice.randbytes(400)), b"")
    return b"fLaC" + head + b"".join(frame + (between if dice.one_in(4) else b"") for frame in frames)


def _stream_info(dice: Dice, sound: Sound) -> bytes:
    info = bytearray(sound.header[-34:])
    if dice.has("block sizes"):
        info[0:4] = dice.choice((b"\x00\x10\x00\x10", b"\xff\xff\xff\xff", b"\x00\x10\xff\xff", b"\x12\x00\x00\x10"))
        info[4:10] = dice.choice((bytes(6), b"\xff" * 6))
    fields = int.from_bytes(info[10:18], "big")
    rate_hz, channels, samples = fields >> 44, fields >> 41 & 7, fields & (1 << 36) - 1
    rate_hz = dice.odd("rate", (0, 1, 8_000, 44_101, 192_000, 655_350, 2**20 - 1), rate_hz)
    channels = dice.odd("channels", (0, 1, 2, 5, 7), channels)
    samples = dice.odd("length", (0, 1, samples // 2, samples + 1, samples * 1000, (1 << 36) - 1), samples)
    bits = fields >> 36 & 31
    info[10:18] = (rate_hz << 44 | channels << 41 | bits << 36 | samples).to_bytes(8, "big")
    return bytes(info)


def _numbered(frame: bytes, number: int) -> bytes:
    """The frame with another number, and the right checksums (RFC 9639, 9.1 and 9.3)."""
    length = _length_of_number(frame[4])
    more = {6: 1, 7: 2}.get(frame[2] >> 4, 0) + {12: 1, 13: 2, 14: 2}.get(frame[2] & 15, 0)
    end = 4 + length + more
    head = frame[:4] + _coded(number) + frame[4 + length : end]
    whole = head + bytes((_crc(head, 8, 0x07),)) + frame[end + 1 : -2]
    return whole + _crc(whole, 16, 0x8005).to_bytes(2, "big")


def _length_of_number(first: int) -> int:
    return 1 if first < 0x80 else 8 - (first ^ 0xFF).bit_length()


def _coded(number: int) -> bytes:
    """As in UTF-8, with up to 36 bits."""
    if number < 0x80:
        return bytes((number,))
    length = next(length for length in range(2, 8) if number < 1 << (5 * length + 1))
    first = 0xFF << (8 - length) & 0xFF | number >> 6 * (length - 1)
    return bytes((first, *(0x80 | number >> 6 * left & 0x3F for left in range(length - 2, -1, -1))))


def _crc(data: bytes, bits: int, polynomial: int) -> int:
    value, top, mask = 0, 1 << (bits - 1), (1 << bits) - 1
    for byte in data:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = (value << 1 & mask) ^ (polynomial if value & top else 0)
    return value

"""MP3 files of frames whose rates, channels and bitrates change, with strange tags in front, between and behind."""

import struct
from typing import Final

from tests.support.audio_files import id3, synchsafe
from tests.support.strange import sounds
from tests.support.strange.dice import Dice
from tests.support.strange.sounds import Sound

_ODDITIES: Final = (
    "other rates and channels", "frames lost", "frames again", "in the middle of the bits that frames borrow",
    "count of frames", "delay and padding", "table of places", "tag in front", "tags behind", "a tag in between",
    "something in between", "private bits", "the last frame cut",
)  # fmt: skip
_SIDE_BYTES: Final = {(True, True): 17, (True, False): 32, (False, True): 9, (False, False): 17}  # MPEG-1, mono


def mp3_file(dice: Dice) -> bytes:
    dice.draw_oddities(_ODDITIES)
    sound = sounds.mp3(dice)
    frames = [packet.data for packet in sound.packets]
    if dice.has("other rates and channels"):
        for _ in range(dice.randint(1, 3)):
            frames += [packet.data for packet in sounds.mp3(dice).packets]
    if dice.has("in the middle of the bits that frames borrow"):
        del frames[: dice.randrange(len(frames))]
    if dice.has("frames lost"):
        frames = [frame for frame in frames if not dice.one_in(5)] or frames
    if dice.has("frames again"):
        at = dice.randrange(len(frames))
        frames[at:at] = frames[at : at + 1] * dice.choice((1, 5, 50))
    if dice.has("private bits"):
        frames = [frame[:2] + bytes((frame[2] ^ 1, frame[3] ^ dice.choice((0, 4, 8)))) + frame[4:] for frame in frames]
    if dice.has("the last frame cut"):
        frames[-1] = frames[-1][: dice.randint(1, len(frames[-1]))]
    begin = _tag_in_front(dice) if dice.has("tag in front") else b""
    if dice.oddities & {"count of frames", "delay and padding", "table of places"} or dice.one_in(2):
        begin += _info_frame(dice, sound, frames)
    end = b""
    if dice.has("tags behind"):
        end = dice.choice((b"TAG" + bytes(125), _ape_tag(dice), b"LYRICSBEGIN" + bytes(50), b"TAG+" + bytes(223)))
    return begin + b"".join(frame + _between(dice) for frame in frames) + end


def _between(dice: Dice) -> bytes:
    if dice.has("a tag in between") and dice.one_in(6):
        return id3(texts={"TIT2": b"\x03another"})
    if dice.has("something in between") and dice.one_in(8):
        return dice.choice((b"\0", bytes(1000), b"\xff\xfb", b"\xff" * 40, dice.randbytes(300)))
    return b""


def _tag_in_front(dice: Dice) -> bytes:
    kind = dice.randrange(6)
    if kind == 0:  # larger than it says, or smaller
        tag = id3(texts={"TIT2": b"\x03strange"})
        return tag[:6] + synchsafe(dice.choice((0, 1, len(tag), 5000, 2**27))) + tag[10:]
    if kind == 1:
        return id3(texts={"TIT2": b"\x03one"}) + id3(texts={"TIT2": b"\x03two"})
    if kind == 2:
        return id3(texts={"TLEN": b"\x00-1", "TXXX": b"\x00replaygain_track_gain\x00nan dB", "TSRC": b"\x01\xff"})
    if kind == 3:
        return id3(texts={"TIT2": b"\x01" + b"\xff\xfe" * 3000}, picture=b"\x89PNG" + bytes(100))
    if kind == 4:
        return id3(texts={}) + bytes(dice.choice((1, 100, 5000)))
    return id3(texts={"TXXX": b"\x00REPLAYGAIN_TRACK_GAIN\x00+99999 dB"})


def _ape_tag(dice: Dice) -> bytes:
    size, items = dice.choice((32, 60, 2**31)), dice.choice((0, 1, 2**31))
    return b"APETAGEX" + struct.pack("<IIII8x", 2000, size, items, 0)


def _info_frame(dice: Dice, sound: Sound, frames: list[bytes]) -> bytes:
    """Xing's frame with LAME's fields, as large as another frame."""
    first = sound.packets[0].data
    is_new, is_mono = bool(first[1] & 8), first[3] >> 6 == 3
    at = 4 + _SIDE_BYTES[is_new, is_mono]
    count = dice.odd("count of frames", (0, 1, len(frames) // 2, len(frames) * 50, 2**31, 2**32 - 1), len(frames))
    size = dice.odd("count of frames", (0, 1, 10**6, 2**32 - 1), sum(map(len, frames)))
    places = (
        bytes(dice.randrange(256) for _ in range(100)) if dice.has("table of places") else bytes(range(0, 250, 5)) * 2
    )
    delay = dice.odd("delay and padding", (0, 1, 4095, 2000), 576)
    padding = dice.odd("delay and padding", (0, 1, 4095, 1152), 1000)
    fields = dice.choice((b"Info", b"Xing")) + struct.pack(">III", 7, count, size) + places + b"LAME3.100" + bytes(12)
    fields += (delay << 12 | padding).to_bytes(3, "big") + bytes(12)
    return (first[:4] + bytes(at - 4) + fields).ljust(len(first), b"\0")[: max(len(first), 24)]

"""The row of strange files: real ones, by FFmpeg, whose pieces are lost, moved, repeated, damaged, from other files or
say other numbers, with sizes and checksums that fit what came of it.

The pieces are pages of Ogg, elements of WebM, boxes of MP4, chunks of WAV, and the frames of others.
"""

import io
import random
import struct
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Final, Literal, NamedTuple, TypeAlias

import av

from tests.support.audio_files import encoded, music
from tests.support.pieces import Piece, Place, boxes, joined, ogg_pages, places

# Ogg and WebM are what is passed through, so most that can go wrong lies there.
_ENDINGS: Final = ("ogg", "webm", "mp4", "ogg", "webm", "mp3", "ogg", "mp4", "flac", "wav")
_ORDINARY: Final = 24  # files of each kind
_SECONDS: Final = 1.0
_TAGS: Final = {"title": "strange", "TSRC": "USXXX0700001", "R128_TRACK_GAIN": "-256", "replaygain_track_gain": "+9 dB"}


class Dice(random.Random):
    """Draws the same things for the same seed."""

    def one_in(self, number: int) -> bool:
        return self.randrange(number) == 0


class StrangeFile(NamedTuple):
    """`oddities` say what is strange about it."""

    seed: int
    ending: str
    oddities: tuple[str, ...]
    data: bytes

    def __str__(self) -> str:
        return f"strange {self.ending} {self.seed} ({', '.join(self.oddities) or 'ordinary'})"


def ending_of(seed: int) -> str:
    """That of file `seed`, which it tells without making it."""
    return _ENDINGS[seed % len(_ENDINGS)]


def strange_file(seed: int) -> StrangeFile:
    """File `seed` of an endless row."""
    dice, ending = Dice(seed), ending_of(seed)
    pieces = _pieces(ending, _ordinary_file(ending, dice.randrange(_ORDINARY)))
    done = dice.choices(_ODDITIES, k=dice.choice((0, 1, 1, 1, 2, 2, 3, 6)))
    for oddity in done:
        oddity(dice, ending, pieces)
    oddities = [oddity.__name__.strip("_") for oddity in done]
    data = bytearray(joined(pieces))
    if dice.one_in(3):
        oddities.append("damaged")
        _damage(dice, data)
    return StrangeFile(seed, ending, tuple(oddities), bytes(data))


# Ordinary ones

_Codec: TypeAlias = tuple[str, int, int | None, dict[str, str]]
_OPUS: Final[list[_Codec]] = [
    ("libopus", 48_000, bit_rate, {"application": application, "frame_duration": frame_ms})
    for application, frame_ms, bit_rate in (
        *(("audio", "20", 128_000), ("audio", "20", 64_000), ("lowdelay", "20", 160_000)) * 4,  # those that pass
        *(("audio", "10", 128_000), ("audio", "2.5", 128_000), ("audio", "60", 96_000)),
        *(("voip", "20", 12_000), ("voip", "60", 16_000), ("voip", "20", 32_000)),
    )
]
_FLAC: Final[list[_Codec]] = [("flac", rate_hz, None, {}) for rate_hz in (44_100, 48_000, 96_000, 8_000)]
_AAC: Final[list[_Codec]] = [("aac", rate_hz, 96_000, {}) for rate_hz in (44_100, 48_000, 22_050, 8_000)]
_MP3: Final[list[_Codec]] = [
    ("libmp3lame", *rates, {})
    for rates in ((44_100, 128_000), (44_100, 320_000), (48_000, 64_000), (32_000, 96_000), (22_050, 64_000))
]
_VORBIS: Final[list[_Codec]] = [
    ("vorbis", rate_hz, 128_000, {"strict": "experimental"}) for rate_hz in (44_100, 48_000, 22_050)
]
# By ending: libav's container, its options of which one is taken, and codecs with their rates and options.
_SORTS: Final[dict[str, tuple[str, tuple[dict[str, str], ...], list[_Codec]]]] = {
    "ogg": ("ogg", ({"page_duration": "20000"}, {"page_duration": "200000"}, {}), _OPUS + _VORBIS + _FLAC[:2]),
    "webm": ("matroska", ({"cluster_time_limit": "200"}, {}), _OPUS * 2 + _VORBIS + _FLAC + _AAC + _MP3),
    "mp4": (
        "mp4",
        ({"movflags": "frag_keyframe+empty_moov", "frag_duration": "60000"}, {"moov_size": "20000"}, {}),
        [*_OPUS, *_AAC, *_FLAC[:2], ("alac", 44_100, None, {})],
    ),
    "mp3": ("mp3", ({}, {"write_xing": "0"}), [*_MP3, ("libmp3lame", 44_100, None, {"flags": "+qscale"})]),
    "flac": ("flac", ({},), _FLAC),
    "wav": (
        "wav",
        ({}, {"rf64": "always"}),
        [(codec, 48_000, None, {}) for codec in ("pcm_s16le", "pcm_f32le", "pcm_mulaw", "adpcm_ms")],
    ),
}


@cache
def _ordinary_file(ending: str, number: int) -> bytes:
    """One of `_ORDINARY` of this kind."""
    dice = Dice(number)
    container, options, codecs = _SORTS[ending]
    codec, rate_hz, bit_rate, codec_options = dice.choice(codecs)
    channels = 2 if codec == "vorbis" else dice.choice((1, 2, 2, 2))
    signal = music(_SECONDS, rate_hz, channels=channels, seed=3)
    container_options = {"fflags": "+bitexact", **dice.choice(options)}  # without it there are random numbers in it
    if ending == "ogg":
        container_options["serial_offset"] = str(dice.randrange(3))
    encode = partial(encoded, bit_rate=bit_rate, tags=_TAGS, options=container_options, codec_options=codec_options)
    return encode(container, codec, signal, rate_hz)


# Their pieces


def _pieces(ending: str, file: bytes) -> list[Piece]:
    match ending:
        case "ogg":
            return ogg_pages(file)
        case "webm":
            return list(_elements(file))
        case "mp4":
            return list(boxes(file))
        case "wav":
            return [Piece(b"head", file[:12]), *_chunks(file[12:])]
        case _:
            with av.open(io.BytesIO(file), "r") as opened:
                frames = [bytes(packet) for packet in opened.demux(audio=0) if packet.size]
            return [Piece(b"head", file[: file.index(frames[0])]), *(Piece(b"frame", frame) for frame in frames)]


# Of WebM: the whole, its head, and what has elements in it.
_WITH_ELEMENTS: Final = frozenset(
    map(bytes.fromhex, ("18538067", "1a45dfa3", "1549a966", "1654ae6b", "ae", "e1", "1f43b675", "a0", "1c53bb6b", "bb"))
)


def _elements(data: bytes) -> Iterator[Piece]:
    at = 0
    while at < len(data):
        size_at = at + 9 - data[at].bit_length()
        width = 9 - data[size_at].bit_length()
        start = size_at + width
        size = int.from_bytes(data[size_at:start], "big") & (1 << 7 * width) - 1
        kind, body = data[at:size_at], data[start : start + size]
        inside = list(_elements(body)) if kind in _WITH_ELEMENTS else []
        yield Piece(kind, body, partial(_element, kind, width), inside)
        at = start + size


def _element(kind: bytes, width: int, body: bytes) -> bytes:
    width = width if len(body) < (1 << 7 * width) - 1 else 8
    return kind + (len(body) | 1 << 7 * width).to_bytes(width, "big") + body


def _chunks(data: bytes) -> Iterator[Piece]:
    at = 0
    while at < len(data):
        kind, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        yield Piece(kind, data[at + 8 : at + 8 + size], partial(_chunk, kind))
        at += 8 + size


def _chunk(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("<I", len(body)) + body


# Oddities

_HOUR: Final = 3600 * 48_000
# Where numbers are, and how long; those of a page's first packet begin at byte 28 (RFC 7845, 5.1).
_NUMBERS: Final = {
    "ogg": ((5, 1), *((6, 8),) * 6, (14, 4), (18, 4), (26, 1), (27, 1), (28, 1), (37, 1), (38, 2), (44, 2), (46, 1)),
    "webm": ((0, 1), *((1, 2),) * 3, (3, 1), (4, 1), (9, 1), (10, 2), (16, 2), (18, 1)),
    "mp4": (*((at, 4) for at in range(0, 64, 4)), (4, 8)),
    "wav": ((0, 2), (2, 2), (4, 4), (8, 4), (12, 2), (14, 2)),
}
_IN_BYTES: Final = tuple((at, 1) for at in range(48))


def _alike(dice: Dice, pieces: list[Piece]) -> list[Place]:
    """All pieces of one kind."""
    all_of_them = list(places(pieces))
    if dice.one_in(2):
        parts, at = dice.choice(all_of_them)
        kind = parts[at].kind
    else:
        kind = dice.choice(sorted({parts[at].kind for parts, at in all_of_them}))
    return [(parts, at) for parts, at in all_of_them if parts[at].kind == kind]


def _some(dice: Dice, alike: Sequence[Place]) -> Sequence[Place]:
    """One of them, the last one, a third of them, or all from one on."""
    first = dice.randrange(len(alike))
    some = [place for place in alike if dice.one_in(3)]
    return dice.choice((alike[first : first + 1], alike[-1:], some, alike[first:]))


def _lost(dice: Dice, ending: str, pieces: list[Piece]) -> None:
    for parts, at in reversed(_some(dice, _alike(dice, pieces))):
        if len(parts) > 1:
            del parts[at]


def _again(dice: Dice, ending: str, pieces: list[Piece]) -> None:
    parts, at = dice.choice(_alike(dice, pieces))
    parts[at:at] = parts[at : at + dice.randint(1, 3)] * dice.choice((1, 1, 5, 50))


def _moved(dice: Dice, ending: str, pieces: list[Piece]) -> None:
    alike = _alike(dice, pieces)
    for (parts, at), (others, there) in [dice.choices(alike, k=2) for _ in range(dice.choice((1, 1, 20)))]:
        parts[at], others[there] = others[there], parts[at]


def _empty(dice: Dice, ending: str, pieces: list[Piece]) -> None:
    for parts, at in _some(dice, _alike(dice, pieces))[:5]:
        parts[at].inside, parts[at].body = [], parts[at].body[: dice.choice((0, 1, 4, 5, 27, 29))]


def _number(dice: Dice, ending: str, pieces: list[Piece]) -> None:
    """Another one, or one that is more or less by the same in all that follow."""
    alike = _alike(dice, pieces)
    length = max(len(parts[at].body) for parts, at in alike)
    fields = [(0, length)] if length <= 8 else [field for field in _NUMBERS.get(ending, _IN_BYTES) if field[0] < length]
    start, width = dice.choice(fields)
    order: Literal["little", "big"] = "little" if ending in ("ogg", "wav") else "big"
    most = 1 << 8 * width
    other = dice.choice((0, 0, 1, most - 1, most - 2, most // 2, most // 2 - 1, most // 4, dice.randrange(most)))
    by = dice.choice((1, 312, 960, 1_000, 48_000, 30_000, _HOUR, _HOUR)) * dice.choice((1, 1, -1))
    is_sum = dice.one_in(2)
    for parts, at in _some(dice, alike):
        body = parts[at].body
        before = int.from_bytes(body[start : start + width], order)
        body[start : start + width] = ((before + by if is_sum else other) % most).to_bytes(width, order)


def _from_elsewhere(dice: Dice, ending: str, pieces: list[Piece]) -> None:
    """Pieces of another file, or all of it."""
    others = _pieces(ending, _ordinary_file(ending, dice.randrange(_ORDINARY)))
    if dice.one_in(4):
        pieces += others
        return
    parts, at = dice.choice(_alike(dice, pieces))
    alike = [those[there] for those, there in places(others) if those[there].kind == parts[at].kind]
    if ending == "ogg":
        for page in alike:
            page.body[14:18] = parts[at].body[14:18]  # of the same stream
    parts[at:at] = alike[: dice.choice((1, 2, 20))]


def _something_between(dice: Dice, ending: str, pieces: list[Piece]) -> None:
    junk = (b"OggS", b"\0" * 500, b"ID3\x03\0\0\0\0\0\x05hello", b"\xff\xfb", b"\xff\xf8", b"TAG" + bytes(125), b"free")
    for parts, at in reversed(_some(dice, _alike(dice, pieces))):
        parts.insert(at, Piece(b"junk", dice.choice((*junk, dice.randbytes(400)))))


def _changed(dice: Dice, ending: str, pieces: list[Piece]) -> None:
    """Bytes of some pieces, whose checksums are right."""
    for parts, at in _some(dice, _alike(dice, pieces)):
        _flip(dice, parts[at].body)


_ODDITIES: Final = (
    *(_number,) * 6,
    *(_lost, _again, _moved, _empty, _from_elsewhere, _from_elsewhere, _something_between, _changed),
)


def _flip(dice: Dice, data: bytearray, most: int = 5) -> None:
    for _ in range(dice.randint(1, most)) if data else ():
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _damage(dice: Dice, data: bytearray) -> None:
    """As by a disk or a line, where no size and no checksum fits any more."""
    at = dice.randrange(len(data) + 1)
    match dice.randrange(6):
        case 0:
            _flip(dice, data, 40)
        case 1:
            del data[at:]
        case 2:
            del data[at : at + dice.randint(1, 1 + len(data) // 4)]
        case 3:
            data[at:at] = data[at : at + dice.randint(1, 4096)] * dice.randint(1, 4)
        case _:
            for _ in range(dice.randint(1, 12)) if data else ():
                data[dice.randrange(min(len(data), 512))] = dice.choice((0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF))

"""MP4 files (ISO/IEC 14496-12) of AAC, Opus, FLAC and ALAC, whole and in fragments, with strange tables."""

import struct
from collections.abc import Sequence
from typing import Final

from tests.support.audio_files import box
from tests.support.strange import sounds
from tests.support.strange.dice import Dice
from tests.support.strange.sounds import Packet, Sound

_MOST: Final = 2**32 - 1
_MATRIX: Final = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_DATA_HEADER_BYTES: Final = 8

_ODDITIES: Final = (
    *sounds.OPUS_ODDITIES, "durations", "durations without sense", "timescale", "length", "edits", "empty samples",
    "places of chunks", "chunks of all sizes", "counts", "two tracks", "pre-skip", "gain", "channels", "rate",
    "fragments jump", "fragments go back", "fragments begin late", "composition times",
)  # fmt: skip


def mp4_file(dice: Dice) -> bytes:
    dice.draw_oddities(_ODDITIES)
    tracks = [_sound(dice) for _ in range(2 if dice.has("two tracks") else 1)]
    head = box(b"ftyp", b"isom\0\0\2\0isomiso2mp41")
    if any(oddity.startswith("fragments") for oddity in dice.oddities) or dice.one_in(4):
        return head + _fragmented(dice, tracks[0])
    data = b"".join(packet.data for sound in tracks for packet in sound.packets)
    index_first = dice.one_in(2)
    if not index_first:
        return head + box(b"mdat", data) + _index(dice, tracks, len(head) + _DATA_HEADER_BYTES)
    # The same draws for both, so that the first one tells how long the index is.
    state = dice.getstate()
    size = len(_index(dice, tracks, 0))
    dice.setstate(state)
    return head + _index(dice, tracks, len(head) + size + _DATA_HEADER_BYTES) + box(b"mdat", data)


def _sound(dice: Dice) -> Sound:
    draw = dice.choice((sounds.strange_opus,) * 3 + (sounds.aac,) * 3 + (sounds.flac, sounds.alac))
    sound = draw(dice)
    if dice.has("empty samples"):
        packets = list(sound.packets)
        for _ in range(dice.randint(1, 4)):
            packets.insert(dice.randint(0, len(packets)), Packet(b"", dice.choice((0, 960, 1024))))
        sound = sound._replace(packets=tuple(packets))
    return sound


def _index(dice: Dice, tracks: Sequence[Sound], data_at: int) -> bytes:
    boxes = []
    for number, sound in enumerate(tracks, 1):
        boxes.append(_track(dice, number, sound, _tables(dice, sound, data_at)))
        data_at += sum(len(packet.data) for packet in sound.packets)
    return box(b"moov", _movie_header(dice, tracks[0]), *boxes)


def _movie_header(dice: Dice, sound: Sound) -> bytes:
    length = dice.odd("length", (0, 1, _MOST, 2**31), sound.samples * 1000 // sound.rate_hz)
    times = struct.pack(">IIII", 0, 0, 1000, length)
    return _full_box(b"mvhd", times + struct.pack(">IH10x", 0x10000, 0x100) + _MATRIX + bytes(24) + b"\0\0\0\3")


def _track(dice: Dice, number: int, sound: Sound, tables: bytes) -> bytes:
    length = dice.odd("length", (0, 1, _MOST, sound.samples // 2, sound.samples * 100), sound.samples)
    timescale = dice.odd("timescale", (0, 1, 90_000, 1000, 10**9, _MOST), sound.rate_hz)
    track_head = struct.pack(">IIII4xI8xHHHH", 0, 0, number, 0, length & _MOST, 0, 1, 0x100, 0) + _MATRIX + bytes(8)
    media_head = struct.pack(">IIIIHH", 0, 0, timescale, length & _MOST, 0x55C4, 0)
    handler = bytes(4) + b"soun" + bytes(12) + b"sound\0"
    references = _full_box(b"dref", b"\0\0\0\1" + _full_box(b"url ", b"", flags=1))
    described = _full_box(b"stsd", b"\0\0\0\1" + _entry(dice, sound))
    media = box(b"minf", _full_box(b"smhd", bytes(4)), box(b"dinf", references), box(b"stbl", described, tables))
    return box(
        b"trak",
        _full_box(b"tkhd", track_head, flags=3),
        _edits(dice, sound),
        box(b"mdia", _full_box(b"mdhd", media_head), _full_box(b"hdlr", handler), media),
    )


def _edits(dice: Dice, sound: Sound) -> bytes:
    if not dice.has("edits"):
        return b""
    times = (-1, 0, 1, 312, 1024, sound.samples // 2, sound.samples, 2**31 - 1)
    lengths = (0, 1, 500, 1000, 3_600_000, _MOST)
    entries = [
        struct.pack(">IiI", dice.choice(lengths), dice.choice(times), dice.choice((0x10000, 0x10000, 0, 0x20000)))
        for _ in range(dice.choice((1, 1, 2, 3)))
    ]
    return box(b"edts", _full_box(b"elst", struct.pack(">I", len(entries)) + b"".join(entries)))


def _entry(dice: Dice, sound: Sound) -> bytes:
    channels = dice.odd("channels", (0, 1, 2, 3, 8, 65_535), sound.channels)
    rate_hz = dice.odd("rate", (0, 1, 8_000, 44_100, 48_000, 65_535), min(sound.rate_hz, 65_535))
    head = struct.pack(">6xH8xHH4xI", 1, channels, 16, rate_hz << 16)
    if sound.codec == "opus":
        gain, pre_skip = dice.odd("gain", sounds.GAINS, 0), dice.odd("pre-skip", sounds.PRE_SKIPS, 312) & 0xFFFF
        special = struct.pack(">BBHIhB", 0, channels & 0xFF, pre_skip, 48_000, gain, 0)
        return box(b"Opus", head + box(b"dOps", special))
    if sound.codec == "flac":
        return box(b"fLaC", head + _full_box(b"dfLa", b"\x80\x00\x00\x22" + sound.header[-34:]))
    if sound.codec == "alac":
        return box(b"alac", head + sound.header)
    config = b"\x05" + bytes((len(sound.header),)) + sound.header
    decoder = b"\x40\x15" + bytes(11) + config
    descriptor = b"\0\0\0\x04" + bytes((len(decoder),)) + decoder + b"\x06\x01\x02"
    stream = b"\x03" + bytes((len(descriptor) - 1,)) + descriptor[1:]
    return box(b"mp4a", head + _full_box(b"esds", stream))


def _tables(dice: Dice, sound: Sound, data_at: int) -> bytes:
    """When samples sound, how large they are, and where they lie."""
    packets = sound.packets
    durations = [_duration(dice, packet) for packet in packets]
    count = dice.odd("counts", (0, 1, len(packets) - 1, len(packets) + 1, len(packets) + 5000), len(packets))
    tables = _full_box(b"stts", _runs(durations))
    tables += _full_box(b"stsz", struct.pack(">II", 0, count) + b"".join(_u32(len(packet.data)) for packet in packets))
    if dice.has("composition times"):
        offsets = [dice.choice((0, 0, 1024, 2**31 - 1, 48_000)) for _ in packets]
        tables += _full_box(b"ctts", _runs(offsets))
    size = dice.odd("chunks of all sizes", (1, 3, 10_000), 20)
    places, at, runs = [], data_at, b""
    for first in range(0, len(packets), size):
        places.append(at)
        at += sum(len(packet.data) for packet in packets[first : first + size])
    runs = struct.pack(">III", 1, size, 1)
    if dice.has("chunks of all sizes") and dice.one_in(2):
        runs += struct.pack(">III", dice.choice((0, 1, 2, 1000)), dice.choice((0, 1, 7)), 1)
    if dice.has("places of chunks"):
        places = dice.choice((places[::-1], [data_at] * len(places), [*places[:-1], at + 10**6], [0, *places[1:]]))
    tables += _full_box(b"stsc", struct.pack(">I", len(runs) // 12) + runs)
    return tables + _full_box(b"stco", _u32(len(places)) + b"".join(map(_u32, places)))


def _duration(dice: Dice, packet: Packet) -> int:
    if dice.has("durations without sense") and dice.one_in(10):
        return dice.choice((0, 1, 2**31 - 1, 2**31, _MOST))
    if dice.has("durations") and dice.one_in(4):
        return dice.choice((0, 1, packet.samples * 2, packet.samples // 2, 48_000, 3600 * 48_000))
    return packet.samples


def _runs(values: Sequence[int]) -> bytes:
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and runs[-1][1] == value:
            runs[-1] = (runs[-1][0] + 1, value)
        else:
            runs.append((1, value))
    return _u32(len(runs)) + b"".join(struct.pack(">II", *run) for run in runs)


def _fragmented(dice: Dice, sound: Sound) -> bytes:
    empty = b"".join(
        _full_box(name, bytes(size)) for name, size in ((b"stts", 4), (b"stsc", 4), (b"stsz", 8), (b"stco", 4))
    )
    defaults = _full_box(b"trex", struct.pack(">IIIII", 1, 1, 0, 0, 0))
    made = box(b"moov", _movie_header(dice, sound), _track(dice, 1, sound, empty), box(b"mvex", defaults))
    time = dice.odd("fragments begin late", (1, 48_000, 3600 * 48_000, 2**40, 2**62), 0)
    left, number = list(sound.packets), 0
    while left:
        number += 1
        size = dice.choice((1, 10, 30))
        taken, left = left[:size], left[size:]
        if dice.has("fragments jump") and dice.one_in(2):
            time += dice.choice((1, 1024, 48_000, 3600 * 48_000))
        if dice.has("fragments go back") and dice.one_in(2):
            time = max(time - dice.choice((1, 1024, 48_000)), 0)
        made += _fragment(dice, number, time, taken)
        time += sum(packet.samples for packet in taken)
    return made


def _fragment(dice: Dice, number: int, time: int, packets: Sequence[Packet]) -> bytes:
    samples = b"".join(struct.pack(">II", _duration(dice, packet), len(packet.data)) for packet in packets)

    def header(data_at: int) -> bytes:
        run = _full_box(b"trun", struct.pack(">Ii", len(packets), data_at) + samples, flags=0x301)
        base = _full_box(b"tfhd", _u32(1), flags=0x20000)
        begun = _full_box(b"tfdt", struct.pack(">Q", time), version=1)
        return box(b"moof", _full_box(b"mfhd", _u32(number)), box(b"traf", base, begun, run))

    head = header(len(header(0)) + _DATA_HEADER_BYTES)
    return head + box(b"mdat", b"".join(packet.data for packet in packets))


def _full_box(kind: bytes, body: bytes, *, version: int = 0, flags: int = 0) -> bytes:
    return box(kind, _u32(version << 24 | flags), body)


def _u32(value: int) -> bytes:
    return struct.pack(">I", value & _MOST)

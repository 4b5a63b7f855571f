"""WebM and Matroska files (RFC 9559) of Opus and others, with strange clusters, blocks and timestamps."""

import struct
from typing import Final

from tests.support.strange import sounds
from tests.support.strange.dice import Dice
from tests.support.strange.sounds import Packet, Sound

_UNKNOWN_SIZE: Final = b"\x01" + b"\xff" * 7
_CODEC_IDS: Final = {
    "opus": "A_OPUS",
    "vorbis": "A_VORBIS",
    "flac": "A_FLAC",
    "aac": "A_AAC",
    "mp3": "A_MPEG/L3",
    "mp3float": "A_MPEG/L3",
    "alac": "A_ALAC",
}
_MS_AN_HOUR: Final = 3_600_000

_ODDITIES: Final = (
    *sounds.OPUS_ODDITIES, "timestamps jump", "timestamps stand", "timestamps go back", "timestamps begin late",
    "timestamps without sense", "timestamp scale", "duration", "codec delay", "discard padding", "pre-skip", "gain",
    "channels", "rate", "default duration", "lacing", "stripped headers", "clusters of all sizes", "empty clusters",
    "sizes unknown", "two tracks", "no index", "an index without sense", "block groups",
)  # fmt: skip


def webm_file(dice: Dice) -> bytes:
    dice.draw_oddities(_ODDITIES)
    sound = _sound(dice)
    others = [_sound(dice)] if dice.has("two tracks") else []
    scale_ns = dice.odd("timestamp scale", (1, 1_000, 20_833, 10_000_000, 1_000_000_000), 1_000_000)
    info = _element(0x2AD7B1, _number(scale_ns)) + _element(0x4D80, b"strange") + _element(0x5741, b"strange")
    duration = dice.odd("duration", (0.0, -1.0, 1.0, 1e12, float("nan"), float("inf")), sound.samples / 48)
    if duration or dice.one_in(2):
        info += _element(0x4489, struct.pack(">d", duration))
    tracks = b"".join(_track(dice, number, one) for number, one in enumerate([sound, *others], 1))
    clusters = _clusters(dice, [sound, *others], scale_ns)
    index = b"" if dice.has("no index") else _index(dice, clusters)
    body = b"".join(
        [_element(0x1549A966, info), _element(0x1654AE6B, tracks), *(cluster for _, cluster in clusters), index]
    )
    size = _UNKNOWN_SIZE if dice.has("sizes unknown") or dice.one_in(4) else _size(len(body))
    head = _element(0x4286, b"\x01") + _element(0x4282, dice.choice((b"webm", b"matroska"))) + _element(0x4287, b"\x04")
    return _element(0x1A45DFA3, head) + bytes.fromhex("18538067") + size + body


def _sound(dice: Dice) -> Sound:
    draw = dice.choice((sounds.strange_opus,) * 5 + (sounds.vorbis, sounds.flac, sounds.aac, sounds.mp3))
    return draw(dice)


def _track(dice: Dice, number: int, sound: Sound) -> bytes:
    header = sound.header
    if sound.codec == "opus":
        pre_skip, gain = dice.odd("pre-skip", sounds.PRE_SKIPS, 312), dice.odd("gain", sounds.GAINS, 0)
        header = sounds.opus_head(dice.odd("channels", (0, 1, 2, 3, 255), sound.channels), pre_skip, gain)
    if sound.codec == "flac":
        header = b"fLaC\x80\x00\x00\x22" + sound.header[-34:]
    audio = _element(0xB5, struct.pack(">d", dice.odd("rate", (0.0, 1.0, 8e3, 96e3, -1.0, 1e9), float(sound.rate_hz))))
    audio += _element(0x9F, _number(dice.odd("channels", (0, 1, 2, 3, 8, 255), sound.channels)))
    entry = _element(0xD7, _number(number)) + _element(0x73C5, _number(number)) + _element(0x83, b"\x02")
    entry += _element(0x86, _CODEC_IDS[sound.codec].encode()) + (_element(0x63A2, header) if header else b"")
    delay_ns = dice.odd("codec delay", (0, 1, 20_000_000, 1_000_000_000, _MS_AN_HOUR * 10**6), 6_500_000)
    if sound.codec == "opus":
        entry += _element(0x56AA, _number(delay_ns)) + _element(0x56BB, _number(80_000_000))
    if dice.has("default duration"):
        entry += _element(0x23E383, _number(dice.choice((1, 1_000_000, 20_000_000, 10**12))))
    if dice.has("stripped headers"):  # the first bytes of all packets are here, and right for most of them at most
        stripped = _element(0x4254, b"\x03") + _element(0x4255, sound.packets[0].data[: dice.choice((0, 1, 1, 3))])
        encoding = (
            _element(0x5031, b"\0") + _element(0x5032, dice.choice((b"\1", b"\2", b"\3"))) + _element(0x5034, stripped)
        )
        entry += _element(0x6D80, _element(0x6240, encoding))
    return _element(0xAE, entry + _element(0xE1, audio))


def _clusters(dice: Dice, tracks: list[Sound], scale_ns: int) -> list[tuple[int, bytes]]:
    """The clusters, each with its timestamp."""
    most = dice.odd("clusters of all sizes", (1, 2, 400), 50)
    clusters, samples = [], 0
    offset = dice.odd("timestamps begin late", (1, 20, 1000, _MS_AN_HOUR, 2**40), 0)
    left = [list(sound.packets) for sound in tracks]
    while any(left):
        if dice.has("timestamps jump") and dice.one_in(3):
            offset += dice.choice((1, 20, 100, 1000, 30_000, _MS_AN_HOUR))
        if dice.has("timestamps go back") and dice.one_in(3):
            offset -= dice.choice((1, 20, 100, 1000, 30_000))
        time_ms = max(samples * 1000 // tracks[0].rate_hz + offset, 0)
        if dice.has("timestamps without sense") and dice.one_in(3):
            time_ms = dice.choice((0, 2**31, 2**32, 2**63 // 10**6, 2**63 // 10**6 - 1, 2**56))
        timestamp = time_ms * 1_000_000 // scale_ns
        blocks, count = b"", dice.randint(1, most) if dice.has("clusters of all sizes") else most
        for number, packets in enumerate(left, 1):
            taken, packets[:count] = packets[:count], []
            blocks += _blocks(dice, number, tracks[number - 1].rate_hz, taken, scale_ns, is_end=not packets)
            if number == 1:
                samples += sum(packet.samples for packet in taken)
        clusters.append((timestamp, _cluster(dice, timestamp, blocks)))
        if dice.has("empty clusters") and dice.one_in(2):
            clusters.append((timestamp, _cluster(dice, timestamp, dice.choice((b"", _element(0xEC, bytes(30)))))))
    return clusters


def _cluster(dice: Dice, timestamp: int, blocks: bytes) -> bytes:
    body = _element(0xE7, _number(timestamp & (2**64 - 1))) + blocks
    if dice.has("sizes unknown") and dice.one_in(2):
        return bytes.fromhex("1f43b675") + _UNKNOWN_SIZE + body
    return _element(0x1F43B675, body)


def _blocks(dice: Dice, track: int, rate_hz: int, packets: list[Packet], scale_ns: int, *, is_end: bool) -> bytes:
    made, samples = b"", 0
    while packets:
        count = dice.choice((1, 2, 5)) if dice.has("lacing") else 1
        taken, packets = packets[:count], packets[count:]
        relative = round(samples * 1e9 / rate_hz / scale_ns)
        if dice.has("timestamps stand") and dice.one_in(2):
            relative = 0
        if dice.has("timestamps without sense") and dice.one_in(8):
            relative = dice.choice((-32_768, 32_767, -1))
        laced = _laced(dice, [packet.data for packet in taken])
        block = bytes((0x80 | track,)) + struct.pack(">h", min(max(relative, -32_768), 32_767)) + laced
        padding_ns = dice.odd("discard padding", (-(2**40), -20_000_000, 1, 6_500_000, 20_000_000, 2**40, 2**62), 0)
        if dice.has("block groups") or (padding_ns and (dice.one_in(5) or (is_end and not packets))):
            group = _element(0xA1, block[:3] + bytes((block[3] & 0x06,)) + block[4:])
            if padding_ns:
                group += _element(0x75A2, struct.pack(">q", padding_ns))
            if dice.has("block groups"):
                group += _element(0x9B, _number(dice.choice((0, 1, 20, 2**40))))
            made += _element(0xA0, group)
        else:
            made += _element(0xA3, block)
        samples += sum(packet.samples for packet in taken)
    return made


def _laced(dice: Dice, packets: list[bytes]) -> bytes:
    """The flags of a simple block, and its frames: RFC 9559, section 10.3."""
    if len(packets) == 1:
        return b"\x80" + packets[0]
    if dice.one_in(3) and len({len(packet) for packet in packets}) == 1:
        return bytes((0x84, len(packets) - 1)) + b"".join(packets)
    sizes = b"".join(b"\xff" * (len(packet) // 255) + bytes((len(packet) % 255,)) for packet in packets[:-1])
    return bytes((0x82, len(packets) - 1)) + sizes + b"".join(packets)


def _index(dice: Dice, clusters: list[tuple[int, bytes]]) -> bytes:
    points, at = b"", 0
    for timestamp, cluster in clusters:
        place, time = at, timestamp
        if dice.has("an index without sense"):
            place, time = dice.choice((0, place, 10**6, 2**40)), dice.choice((time, 0, 2**40))
        positions = _element(0xF7, b"\x01") + _element(0xF1, _number(place))
        points += _element(0xBB, _element(0xB3, _number(time & (2**64 - 1))) + _element(0xB7, positions))
        at += len(cluster)
    return _element(0x1C53BB6B, points)


def _element(identifier: int, body: bytes) -> bytes:
    return identifier.to_bytes((identifier.bit_length() + 7) // 8, "big") + _size(len(body)) + body


def _size(size: int) -> bytes:
    for length in range(1, 9):
        if size < (1 << 7 * length) - 1:
            return (size | 1 << 7 * length).to_bytes(length, "big")
    raise ValueError(size)


def _number(value: int) -> bytes:
    return value.to_bytes(max((value.bit_length() + 7) // 8, 1), "big")

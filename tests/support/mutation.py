"""Damaged media files: real ones with bytes changed, moved, lost or put in, the same ones for the same number."""

import random
from functools import cache

from tests.support.audio_files import flac, id3, m4a, mp3, music, opus, video_without_sound, vorbis, wav
from tonearm.core.frame import SAMPLE_RATE_HZ

_SECONDS = 0.8
_INTERESTING_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
_HEADER_BYTES = 512


def mutated_file(number: int) -> tuple[str, bytes]:
    """File `number` of an endless row: its kind, and its bytes."""
    generator = random.Random(number)
    kind, original = _originals()[number % len(_originals())]
    data = bytearray(original)
    for _ in range(generator.randint(1, 6)):
        generator.choice(_MUTATIONS)(data, generator)
    return kind, bytes(data)


@cache
def _originals() -> tuple[tuple[str, bytes], ...]:
    signal = music(_SECONDS)
    return (
        ("mp3", mp3(signal)),
        ("mp3 with tags", id3(texts={"TIT2": b"\x03title", "TSRC": b"\x03USXXX0700001"}) + mp3(signal)),
        ("flac", flac(signal, SAMPLE_RATE_HZ)),
        ("ogg vorbis", vorbis(signal)),
        ("ogg opus", opus(signal)),
        ("webm", opus(signal, container="webm")),
        ("m4a", m4a(signal)),
        ("m4a, index last", m4a(signal, index_first=False)),
        ("alac", m4a(signal, codec="alac")),
        ("wav", wav(signal)),
        ("wav float", wav(signal, coding="f32")),
        ("video without sound", video_without_sound(0.2)),
    )


def _flip_bits(data: bytearray, generator: random.Random) -> None:
    for _ in range(generator.randint(1, 40)):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)


def _hurt_the_header(data: bytearray, generator: random.Random) -> None:
    for _ in range(generator.randint(1, 12)):
        data[generator.randrange(min(len(data), _HEADER_BYTES))] = generator.choice(_INTERESTING_BYTES)


def _overwrite_a_number(data: bytearray, generator: random.Random) -> None:
    """Sizes and counts are four bytes in most containers."""
    at = generator.randrange(max(1, len(data) - 4))
    data[at : at + 4] = bytes(generator.choice(_INTERESTING_BYTES) for _ in range(4))


def _cut_out(data: bytearray, generator: random.Random) -> None:
    start = generator.randrange(len(data))
    if len(data) > 64:
        del data[start : start + generator.randint(1, len(data) // 4)]
    if not data:
        data.append(0)


def _repeat_a_part(data: bytearray, generator: random.Random) -> None:
    start = generator.randrange(len(data))
    part = data[start : start + generator.randint(1, 4096)]
    at = generator.randrange(len(data))
    data[at:at] = part * generator.randint(1, 4)


def _cut_the_end(data: bytearray, generator: random.Random) -> None:
    del data[generator.randint(1, len(data)) :]


_MUTATIONS = (
    _flip_bits,
    _hurt_the_header,
    _hurt_the_header,
    _overwrite_a_number,
    _cut_out,
    _repeat_a_part,
    _cut_the_end,
)

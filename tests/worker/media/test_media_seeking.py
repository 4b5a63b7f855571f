"""Seeks are exact: the audio after a seek is that of a continuous decode from there on."""

import struct
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.support.audio_files import Signal, encoded, flac, mp3, music, opus, variable_mp3, wav
from tests.support.media_files import (
    CountingReader,
    Samples,
    UnseekableReader,
    decode_bytes,
    decode_rest,
    open_bytes,
    samples_of,
)
from tests.support.vorbis_blocks import vorbis_with_short_blocks
from tests.worker.media.test_media_formats import AAC, LOSSLESS, LOSSY, ORIGINAL, OTHERS, at
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.frame import samples_of_ms
from tonearm.core.playback_state import MAX_POSITION_MS

SECOND = 48_000

# Sought one after the other, in samples at 48 kHz: back, forth, near both ends.
SEEKS = (72_001, 1, 120_111, 143_900, 999)


def adpcm(signal: Signal, rate_hz: int) -> bytes:
    """A WAV file with the bytes per second that its blocks have, 1024 for 1017 samples. libav writes others."""
    file = encoded("wav", "adpcm_ima_wav", signal, rate_hz)
    return file[:28] + struct.pack("<I", rate_hz * 1024 // 1017) + file[32:]


FILES: dict[str, Callable[[], bytes]] = {
    **{kind: make for kind, (_, make) in (LOSSLESS | LOSSY).items()},
    "wav": lambda: wav(ORIGINAL),
    "wav 24 bit mono 8 kHz": lambda: wav(at(8000, 1), 8000, coding="s24"),
    "wav 44.101 kHz": lambda: wav(at(44_101), 44_101),
    "mu-law": lambda: wav(at(8000), 8000, coding="mulaw"),
    "adpcm, whose packets have several frames": lambda: adpcm(at(40_680), 40_680),
    "mp3 without Xing": lambda: mp3(at(44_100), options={"write_xing": "0", "id3v2_version": "0"}),
    "mp3 VBR without Xing": lambda: variable_mp3(at(44_100), options={"write_xing": "0"}),
    "mp3 with few bits": lambda: mp3(at(22_050), 22_050, bit_rate=16_000),
    "opus for speech": lambda: opus(ORIGINAL, bit_rate=24_000, codec_options={"application": "voip"}),
    # libav's frames hold eight pointers to channels, behind which PyAV looked for a ninth one.
    "opus of eight channels": lambda: opus(at(48_000, 8)),
    "aac alone": lambda: encoded("adts", "aac", at(44_100), 44_100, codec_options=AAC),
    "aac in mpegts": lambda: encoded("mpegts", "aac", at(44_100), 44_100, codec_options=AAC),
    "vorbis": OTHERS["vorbis"][1],
    "vorbis with short blocks": lambda: vorbis_with_short_blocks(at(44_100)),
    "vorbis in webm": lambda: vorbis_with_short_blocks(at(44_100), "webm"),
}


@cache
def file_and_sound(kind: str) -> tuple[bytes, Samples]:
    """A file of this kind, and all of it decoded at once."""
    file = FILES[kind]()
    return file, decode_bytes(file)


# They have no packet before the first, and AAC overlaps it with whatever the decoder held: a few steps of 65536.
FIRST_PACKET_DIFFERS = ("aac alone", "aac in mpegts")


NOT_CONSTANT = ("mp3 VBR", "mp3 VBR without Xing", "mp3 with few bits")  # from a server their bit rate leads nowhere


@pytest.mark.parametrize("kind", FILES)
def test_a_seek_gives_the_audio_of_a_continuous_decode(kind: str) -> None:
    """Also in a source of its own, as after a decoder process died, or to join a live position."""
    file, whole = file_and_sound(kind)
    media = open_bytes(file, is_remote=kind in NOT_CONSTANT)
    assert media.facts.is_seekable
    for sample in SEEKS:
        media.seek(sample)
        got = decode_rest(media) if sample > SECOND else samples_of(media.decode(SECOND))
        assert_same(got, whole[sample:][: len(got)], steps=40 if kind in FIRST_PACKET_DIFFERS else 1)
        assert len(got) >= SECOND or sample + len(got) == len(whole)
    for sample in np.random.default_rng(3).integers(4800, len(whole) - 9600, 6).tolist():
        media = open_bytes(file)
        media.seek(sample)
        got = samples_of(media.decode(4800))
        media.close()
        assert_same(got, whole[sample : sample + len(got)])


def assert_same(got: Samples, wanted: Samples, steps: int = 1) -> None:
    assert len(got) == len(wanted)
    # A codec's transforms may round one step differently after another beginning.
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= steps


@pytest.mark.parametrize("has_count", [True, False])
@pytest.mark.parametrize(("rate_hz", "bit_rate"), [(44_100, 128_000), (48_000, 192_000), (22_050, 64_000)])
def test_a_seek_in_an_mp3_of_constant_bit_rate_from_a_server_reads_little(
    rate_hz: int, bit_rate: int, has_count: bool
) -> None:
    """All before the position would have to be fetched. It is as exact as in a file that is read."""
    options = {"write_xing": str(int(has_count))}
    file = mp3(music(20.0, rate_hz), rate_hz, bit_rate=bit_rate, options=options) + b"TAG" + bytes(125)
    whole = decode_bytes(file)
    media = open_bytes(file, reader=(reader := CountingReader(file)), is_remote=True)
    for sample in (800_017, 12_345, 480_000, 959_000, 999):
        read_bytes = reader.read_bytes
        media.seek(sample)
        got = samples_of(media.decode(4800))
        assert reader.read_bytes - read_bytes <= 64 * 1024
        assert_same(np.concatenate((got, decode_rest(media))), whole[sample:], steps=2)


def test_what_follows_behind_the_count_of_an_mp3_from_a_server_is_heard() -> None:
    """As where a jingle was added, and the header was left as it was."""
    jingle = {"write_xing": "0", "id3v2_version": "0"}
    file = mp3(music(10.0, 44_100)) + mp3(music(0.4, 44_100), options=jingle)
    whole = decode_bytes(file)
    assert len(whole) > 10.3 * SECOND
    media = open_bytes(file, is_remote=True)
    assert media.facts.is_length_exact
    assert_same(decode_rest(media), whole)
    media.seek(9 * SECOND)
    assert abs(len(decode_rest(media)) - (len(whole) - 9 * SECOND)) < 1152 * 2


@pytest.mark.parametrize("kind", ["wav", "aiff", "mp3", "aac alone"])
def test_a_seek_behind_the_end_gives_the_end_and_one_can_seek_back(kind: str) -> None:
    """Plain samples have no index in which libav would find the last ones: none of them is read."""
    file, whole = file_and_sound(kind)
    media = open_bytes(file, reader=(reader := CountingReader(file)))
    read_bytes = reader.read_bytes
    for sample in (60 * SECOND, samples_of_ms(MAX_POSITION_MS)):
        media.seek(sample)
        assert media.decode(4800) == b""
    assert reader.read_bytes == read_bytes or kind not in ("wav", "aiff")
    media.seek(5000)
    assert_same(decode_rest(media), whole[5000:], steps=40 if kind in FIRST_PACKET_DIFFERS else 1)


def test_a_seek_in_a_source_without_ranges_fails_with_the_reason() -> None:
    file = flac(music())
    media = open_bytes(file, reader=UnseekableReader(file))
    with pytest.raises(PlayError, match="range requests") as caught:
        media.seek(24_000)
    assert caught.value.failure.code is FailureCode.LIMIT_EXCEEDED
    assert len(decode_rest(media)) == 48_000

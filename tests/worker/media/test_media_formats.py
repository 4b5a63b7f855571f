"""Each format from file to PCM: the decoded audio is aligned with the signal, at the right pitch and length."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support import audio_files
from tests.support.audio_files import (
    encoded,
    id3,
    itunes_m4a,
    m4a,
    mp3,
    music,
    opus,
    pcm_of,
    tone,
    variable_mp3,
    vorbis,
    wav,
)
from tests.support.media_files import (
    CountingReader,
    UnseekableReader,
    decode_bytes,
    decode_rest,
    loudest_hz,
    open_bytes,
    snr_db,
)
from tonearm.core.track_info import SoundForm

SECONDS = 3.0
AAC = {"aac_pns": "0"}  # its noise differs with each run through the decoder

# The same music at 48 kHz and at other rates: what comes out is compared with the first.
ORIGINAL = music(SECONDS)


def at(rate_hz: int, channels: int = 2) -> audio_files.Signal:
    return music(SECONDS, rate_hz, channels=channels)


@pytest.mark.parametrize("frequency_hz", [10_000, 20_000])
def test_wav_is_wav_whatever_its_samples_look_like(frequency_hz: float) -> None:
    # Newer versions of libav take these bytes for an MPEG transport stream.
    media = open_bytes(wav(tone(frequency_hz, SECONDS, 96_000, level=0.9), 96_000, coding="f32"))
    got = decode_rest(media)
    assert media.facts.probe_name == "wav"
    assert loudest_hz(got) == pytest.approx(frequency_hz, abs=1)


@pytest.mark.parametrize("container", ["wav", "w64"])
def test_little_of_plain_samples_is_read_before_they_play(container: str) -> None:
    """libav looks for coded streams among them, again and again: for 256 KiB that takes 28 ms, and so long for each
    player of a process that died."""
    file = encoded(container, "pcm_s16le", music(5.0))
    reader = CountingReader(file)
    open_bytes(file, reader=reader)
    assert 0 < reader.read_bytes < 200 * 1024


def test_a_coded_stream_in_a_wav_is_found() -> None:
    coded = encoded("ac3", "ac3", tone(1000, SECONDS, 48_000, level=0.5), 48_000, bit_rate=448_000)
    coded_as_samples = np.frombuffer(coded[: len(coded) // 4 * 4], dtype="<i2").reshape(-1, 2) / 32768.0
    assert loudest_hz(decode_bytes(wav(coded_as_samples))) == pytest.approx(1000, abs=1)


def test_how_a_source_is_coded_is_told() -> None:
    wav_form, mp3_form, opus_form = (
        open_bytes(file).facts.form for file in (wav(at(44_100, 1), 44_100), mp3(at(44_100)), opus(ORIGINAL))
    )
    assert wav_form == SoundForm("pcm_s16le", 44_100, 1, 705_600)
    assert mp3_form == SoundForm("mp3", 44_100, 2, 192_000)
    assert opus_form == SoundForm("opus", 48_000, 2, opus_form.bitrate_bps)
    assert opus_form.bitrate_bps > 50_000


LOSSLESS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "flac": ("flac", lambda: audio_files.flac(ORIGINAL)),
    "flac 24 bit 96 kHz": ("flac", lambda: encoded("flac", "flac", at(96_000), 96_000, sample_format="s32")),
    "flac 44.1 kHz": ("flac", lambda: audio_files.flac(at(44_100), 44_100)),
    "flac in ogg": ("ogg", lambda: encoded("ogg", "flac", ORIGINAL)),
    "flac in matroska": ("matroska/webm", lambda: encoded("matroska", "flac", ORIGINAL)),
    "alac": ("mp4", lambda: m4a(at(44_100), codec="alac")),
    "aiff": ("aiff", lambda: encoded("aiff", "pcm_s16be", ORIGINAL)),
    "aiff 24 bit": ("aiff", lambda: encoded("aiff", "pcm_s24be", ORIGINAL)),
    "wav 44.1 kHz": ("wav", lambda: wav(at(44_100), 44_100)),
    "caf": ("caf", lambda: encoded("caf", "pcm_s16le", ORIGINAL)),
    "au": ("au", lambda: encoded("au", "pcm_s16be", ORIGINAL)),
    "w64": ("w64", lambda: encoded("w64", "pcm_s16le", ORIGINAL)),
    "rf64": ("wav", lambda: encoded("wav", "pcm_s16le", ORIGINAL, options={"rf64": "always"})),
}


LOSSY: dict[str, tuple[str, Callable[[], bytes]]] = {
    "mp3": ("mp3", lambda: mp3(at(44_100))),
    "mp3 48 kHz": ("mp3", lambda: mp3(ORIGINAL, 48_000)),
    "mp3 VBR": ("mp3", lambda: variable_mp3(at(44_100))),
    "opus": ("ogg", lambda: opus(ORIGINAL)),
    "opus 60 ms": ("ogg", lambda: opus(ORIGINAL, codec_options={"frame_duration": "60"})),
    "opus in webm": ("matroska/webm", lambda: opus(ORIGINAL, container="webm")),
    "aac in mp4": ("mp4", lambda: m4a(at(44_100), codec_options=AAC)),
    "aac in mp4, index last": ("mp4", lambda: m4a(at(44_100), index_first=False, codec_options=AAC)),
    "aac in mp4, as iTunes writes it": ("mp4", lambda: itunes_m4a(at(44_100), codec_options=AAC)),
    "sound of a film": ("mp4", lambda: m4a(at(44_100), with_video=True, codec_options=AAC)),
}


OTHERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "aac alone": ("aac", lambda: encoded("adts", "aac", tone(997, SECONDS, 44_100), 44_100)),
    "aac in mpegts": ("mpegts", lambda: encoded("mpegts", "aac", tone(997, SECONDS, 44_100), 44_100)),
    "vorbis": ("ogg", lambda: vorbis(tone(997, SECONDS, 44_100))),
    "sound of a film in mpegts": ("mpegts", lambda: encoded("mpegts", "mp2", tone(997, SECONDS), with_video=True)),
    "flv": ("flv", lambda: encoded("flv", "libmp3lame", tone(997, SECONDS, 44_100), 44_100)),
    "wavpack": ("wv", lambda: encoded("wv", "wavpack", tone(997, SECONDS))),
    "ac3": ("ac3", lambda: encoded("ac3", "ac3", tone(997, SECONDS), bit_rate=192_000)),
    "wma": ("asf", lambda: encoded("asf", "wmav2", tone(997, SECONDS, 44_100), 44_100, bit_rate=128_000)),
    "8 bits": ("wav", lambda: wav(tone(997, SECONDS), coding="u8")),
    "mu-law": ("wav", lambda: wav(tone(997, SECONDS), coding="mulaw")),
    "avi": ("avi", lambda: encoded("avi", "libmp3lame", tone(997, SECONDS), with_video=True)),
}


@pytest.mark.parametrize("kind", LOSSLESS | LOSSY | OTHERS)
def test_a_format_keeps_its_sound_in_its_place(kind: str) -> None:
    """Lossy ones lose the encoder's delay and filling. Others have pitch, loudness and about the length."""
    probe_name, make = (LOSSLESS | LOSSY | OTHERS)[kind]
    media = open_bytes(make())
    got = decode_rest(media)
    assert media.facts.probe_name == probe_name
    if kind in OTHERS:
        assert len(got) / 48_000 == pytest.approx(SECONDS, abs=0.08)
        assert loudest_hz(got[9600:-9600]) == pytest.approx(997, abs=2)
        assert np.abs(got[9600:-9600]).max() / 32768 == pytest.approx(0.5, abs=0.05)
        return
    is_lossy = kind in LOSSY
    assert len(got) == pytest.approx(len(ORIGINAL), abs=0 if is_lossy else 48)
    assert snr_db(got, ORIGINAL) > (15 if is_lossy else 60)
    assert media.facts.length_ms == pytest.approx(SECONDS * 1000, abs=2 if is_lossy else 1)
    assert (media.facts.is_length_exact, media.facts.is_seekable) == (True, True)


def test_48_khz_16_bit_comes_out_bit_for_bit_and_mono_on_both_sides() -> None:
    noise = np.random.default_rng(3).uniform(-1, 1, (48_000, 2))
    for file in (wav(noise), audio_files.flac(noise), encoded("aiff", "pcm_s16be", noise)):
        assert decode_bytes(file).tobytes() == pcm_of(noise)
    voice = music(channels=1)
    assert decode_bytes(wav(voice)).tobytes() == pcm_of(np.repeat(voice, 2, axis=1))


PIPED: dict[str, Callable[[], bytes]] = {
    "wav of no true size": lambda: wav(ORIGINAL, data_bytes=0xFFFFFFFF),
    **{kind: (LOSSLESS | LOSSY)[kind][1] for kind in ("opus", "flac 44.1 kHz", "aac in mp4", "opus in webm")},
}


@pytest.mark.parametrize("kind", PIPED)
def test_a_source_that_cannot_jump_sounds_the_same(kind: str) -> None:
    file = PIPED[kind]()
    media = open_bytes(file, reader=UnseekableReader(file))
    wanted = pcm_of(ORIGINAL) if kind.startswith("wav") else decode_bytes(file).tobytes()
    assert decode_rest(media).tobytes() == wanted
    assert not media.facts.is_seekable


def test_an_mp3_that_cannot_jump_keeps_only_the_filling_of_its_last_packet() -> None:
    file = id3(texts={"TIT2": b"\x00Song"}, picture=bytes(200_000)) + mp3(at(44_100))
    media = open_bytes(file, reader=UnseekableReader(file))
    got, wanted = decode_rest(media), decode_bytes(file)
    assert np.array_equal(got[: len(wanted) - 100], wanted[:-100])
    assert len(wanted) <= len(got) < len(wanted) + 1600
    assert media.facts.length_ms == pytest.approx(SECONDS * 1000, abs=80)
    assert (media.facts.is_length_exact, media.facts.is_seekable) == (False, False)


@pytest.mark.parametrize("movflags", ["frag_keyframe+empty_moov+default_base_moof", "cmaf+dash+delay_moov"])
@pytest.mark.parametrize("is_live", [False, True])
def test_mp4_in_fragments_is_read_in_order_to_its_end(movflags: str, is_live: bool) -> None:
    """libav takes the first fragment's length for that of the file if the reader is not seekable."""
    options = {"movflags": movflags, "frag_duration": "500000"}
    file = encoded("mp4", "aac", tone(440, 2.0), options=options)
    media = open_bytes(file, reader=UnseekableReader(file), is_live=is_live)
    assert media.facts.length_ms == 0
    assert len(decode_rest(media)) == pytest.approx(96_000, abs=2100)

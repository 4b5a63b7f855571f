"""Rates, channels and sample formats on their way to 48 kHz stereo."""

import io

import av
import numpy as np
import pytest

from tests.support.audio_files import encoded, mp3, s16, tone, wav
from tests.support.media_files import Samples, decode_bytes, loudest_hz
from tonearm.worker.media.resampling import Resampler, SourceFormat
from tonearm.worker.memory import private_memory_bytes


@pytest.mark.parametrize("rate_hz", [44_100, 96_000])
@pytest.mark.parametrize("frequency_hz", [1000, 10_000, 15_000, 19_000, 20_000])
def test_a_tone_has_no_alias_within_90_db(rate_hz: int, frequency_hz: int) -> None:
    got = decode_bytes(wav(tone(frequency_hz, 2.0, rate_hz, level=0.9), rate_hz, coding="f32"))
    assert noise_db(got, frequency_hz) < -90


def noise_db(got: Samples, frequency_hz: float) -> float:
    """All that is not the tone, below the tone."""
    sound = got[8000:-8000, 0].astype(float)
    turns = 2 * np.pi * frequency_hz * np.arange(len(sound)) / 48_000
    tones = np.stack((np.sin(turns), np.cos(turns)), axis=1)
    rest = sound - tones @ np.linalg.lstsq(tones, sound)[0]
    return float(20 * np.log10(np.std(rest) / np.std(sound)))


@pytest.mark.parametrize("rate_hz", [4000, 8000, 11_025, 12_000, 16_000, 24_000, 48_000, 88_200, 192_000, 384_000])
def test_every_rate_keeps_pitch_loudness_and_length(rate_hz: int) -> None:
    got = decode_bytes(wav(tone(997, 1.0, rate_hz), rate_hz))
    assert len(got) == pytest.approx(48_000, abs=2)
    assert loudest_hz(got) == pytest.approx(997, abs=1)
    assert np.abs(got[4800:-4800]).max() / 32768 == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("coding", ["s24", "s32", "f32", "f64"])
@pytest.mark.parametrize("channels", [1, 2])
def test_more_bits_are_rounded_not_cut(coding: str, channels: int) -> None:
    quiet = np.full((48_000, channels), 10.75 / 32768)
    assert (decode_bytes(wav(quiet, coding=coding)) == 11).all()


@pytest.mark.parametrize("coding", ["f32", "f64"])
@pytest.mark.parametrize("level", [1.5, 100.0, 1e7, 1e30])
def test_over_full_scale_is_clipped(coding: str, level: float) -> None:
    loud = tone(100, 0.5, level=level)
    assert np.array_equal(decode_bytes(wav(loud, coding=coding)), s16(loud))


@pytest.mark.parametrize("channels", range(3, 9))
def test_many_channels_at_full_scale_do_not_overflow(channels: int) -> None:
    got = decode_bytes(wav(np.repeat(tone(997, 1.0, channels=1, level=0.999), channels, axis=1)))
    assert noise_db(got, 997) < -80  # samples that were cut off would leave harmonics


def test_surround_is_mixed_by_the_itu_matrix() -> None:
    levels = []
    for channel in range(6):  # left, right, centre, low frequencies, left back, right back
        got = decode_bytes(encoded("flac", "flac", tone(997, 0.5, channels=6) * (np.arange(6) == channel)))
        levels.append(np.abs(got[4800:-4800].astype(int)).max(axis=0) / 16384)
    # Full scale in all of left (1), centre (0.707) and left back (0.707) just fits.
    front, side = 1 / (1 + 2 * 0.7071), 0.7071 / (1 + 2 * 0.7071)
    wanted = [(front, 0), (0, front), (side, side), (0, 0), (side, 0), (0, side)]
    np.testing.assert_allclose(levels, wanted, atol=0.002)


def test_a_layout_that_has_no_names_is_mixed_like_the_usual_one() -> None:
    sound, options = tone(997, 1.0, channels=4), {"mapping_family": "255"}
    file = io.BytesIO(encoded("ogg", "libopus", sound, layout="4 channels", codec_options=options))
    with av.open(file) as container:
        assert container.streams.audio[0].layout.name == "4 channels"
    assert loudest_hz(decode_bytes(file.getvalue())) == pytest.approx(997, abs=2)


def test_a_change_of_the_format_in_mid_stream_loses_nothing() -> None:
    links = [mp3(tone(500, 1.0, 44_100)), mp3(tone(800, 1.0, 32_000, channels=1), 32_000, bit_rate=64_000)]
    got = decode_bytes(b"".join(links))
    # The second file's delay and filling are not known to be such, and its first frame is its tag.
    assert len(got) / 48_000 == pytest.approx(2.0, abs=0.15)
    assert loudest_hz(got[4800:38_400]) == pytest.approx(500, abs=3)
    assert loudest_hz(got[-28_800:-9600]) == pytest.approx(800, abs=3)
    assert np.array_equal(got[-28_800:-9600, 0], got[-28_800:-9600, 1])


def test_a_resampler_of_short_frames_takes_little_memory() -> None:
    frame = av.AudioFrame.from_ndarray(np.zeros((2, 1152), np.float32), format="fltp", layout="stereo")
    frame.sample_rate = 44_100
    resamplers = [Resampler(SourceFormat.of_frame(frame)) for _ in range(100)]
    before = private_memory_bytes()
    for resampler in resamplers:
        for _ in range(40):
            resampler.push(frame)
            resampler.pull_blocks()
    assert (private_memory_bytes() - before) / len(resamplers) < 350_000

"""Packets of Opus sources that reach Opus listeners as they are, and the joints with what is encoded."""

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support import session_bench
from tests.support.audio_files import music, opus
from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.packet_source import PacketSource, packets_in, pcm_in
from tests.support.pcm import channels
from tests.support.session_bench import MemorySource, SessionBench
from tonearm.core.file_formats import OGG_CHECKSUM_AT, ogg_checksum
from tonearm.core.filters import BAND_COUNT, Compressor, Effects, Filters, Limiter, Normalization, Timescale
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, OPUS_LOOKAHEAD_SAMPLES, PCM, Output
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE, OverlayOrder
from tonearm.worker.filters.chain import ChainState
from tonearm.worker.filters.limiter import QUIET
from tonearm.worker.filters.normalization import Level, SourceLoudness
from tonearm.worker.media.opus_format import can_follow_ours
from tonearm.worker.mixing.voices import ONE_VOICE, Fade, Voices, falling, rising
from tonearm.worker.packets.opus_encoder import OpusEncoder
from tonearm.worker.packets.passthrough import WAIT_FRAMES, first_allowed

PASSING = Output("opus", passes_through=True)
NAMED = Output("opus", 64_000)
FLAT = Filters()
HALF = Filters(volume=0.5)
FAST = Filters(effects=Effects(timescale=Timescale(speed=1.5)))

playing = partial(session_bench.playing, outputs=(PASSING,))


def song(seconds: float, seed: int = 1, *, silent_ends: bool = False, channels: int = 2) -> bytes:
    """An Opus file; with `silent_ends` 50 ms at its start and 100 ms at its end are silent."""
    sound = music(seconds, channels=channels, seed=seed) * 0.8
    if silent_ends:
        sound = sound.copy()
        sound[:2400] = 0
        sound[-9600:-4800] *= np.linspace(1, 0, 4800)[:, np.newaxis]
        sound[-4800:] = 0
    return opus(sound, bit_rate=128_000)


def passed(bench: SessionBench) -> list[bool]:
    """For each frame whether it was passed through."""
    return [bench.passed[frame] for frame in sorted(bench.frames)]


def packets_of(bench: SessionBench, output: Output = PASSING) -> list[bytes]:
    packets = bench.packets[output]
    return [packets[frame] for frame in range(bench.end_frame)]


def heard(bench: SessionBench) -> NDArray[np.float64]:
    """What an Opus listener hears, from the first sample of the first frame on."""
    return decoded(packets_of(bench))[OPUS_LOOKAHEAD_SAMPLES:]


def noise_db(wanted: NDArray[np.float64], got: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each frame the noise, below full scale."""
    count = min(len(wanted), len(got)) // FRAME_SAMPLES
    noise = (wanted[: count * FRAME_SAMPLES] - got[: count * FRAME_SAMPLES]).reshape(count, -1)
    level_db: NDArray[np.float64] = 10 * np.log10(np.mean(noise**2, axis=1) / 32768.0**2 + 1e-12)
    return level_db


def require_no_click(wanted: NDArray[np.float64], bench: SessionBench) -> None:
    """Nowhere is the noise much above the worst of a plain encode of the same sound."""
    pcm = np.rint(wanted).astype("<i2").tobytes()
    encoder = OpusEncoder(PASSING)
    plain = [encoder.encode(pcm[at : at + FRAME_BYTES]) for at in range(0, len(pcm) - FRAME_BYTES + 1, FRAME_BYTES)]
    allowed = noise_db(wanted, decoded(plain)[OPUS_LOOKAHEAD_SAMPLES:]).max() + 9.0
    assert noise_db(wanted, heard(bench)).max() <= allowed


@pytest.mark.parametrize("channels", [1, 2])
def test_a_source_reaches_opus_listeners_as_its_very_packets_and_is_not_decoded(channels: int) -> None:
    file = song(3.217, channels=channels)
    source = PacketSource(file)
    bench = playing(source)
    bench.run()
    flags = passed(bench)
    assert flags[:-1] == [True] * (len(flags) - 1)
    assert packets_of(bench)[:-1] == packets_in(file)[: len(flags) - 1]
    assert bench.pcm == b""
    assert source.decoding.decoded_packets <= 40, "only for the last frame, which is filled up with silence"
    assert np.array_equal(heard(bench)[: 3 * 48_000], decoded(packets_in(file))[OPUS_LOOKAHEAD_SAMPLES:][: 3 * 48_000])


def test_who_joins_in_the_middle_gets_packets_at_once_beside_pcm_and_a_named_bitrate() -> None:
    file = song(2.0)
    bench = playing(PacketSource(file), outputs=(PCM, NAMED))
    bench.run(50)
    bench.listen(PCM, PASSING, NAMED)
    assert np.array_equal(channels(bench.run())[: 2 * 48_000], pcm_in(file))
    assert all(passed(bench)[50:-1])
    assert [bench.packets[PASSING][frame] for frame in range(50, 100)] == packets_in(file)[50:100]
    encoder = OpusEncoder(NAMED)
    frames = [bench.frames[frame] for frame in range(bench.end_frame)]
    assert packets_of(bench, NAMED) == [encoder.encode(frame) for frame in frames]


def test_filters_go_over_to_encoding_and_back_without_a_click() -> None:
    file = song(8.0)
    rendered = []
    for outputs in ((PASSING,), (PCM,)):
        bench = playing(PacketSource(file), outputs=outputs)
        bench.change((60, HALF), (83, FLAT), (200, Filters(1.0, (6.0,) + (0.0,) * (BAND_COUNT - 1))), (250, FLAT))
        bench.run()
        rendered.append(bench)
    encoded, plain = rendered
    flags = passed(encoded)
    assert all(flags[:60])
    assert not any(flags[60:83])
    assert all(flags[83 + WAIT_FRAMES + 12 : 200])
    assert not any(flags[200:250])
    assert all(flags[250 + WAIT_FRAMES + 12 : -1])
    wanted = channels(plain.pcm).astype(np.float64)
    require_no_click(wanted, encoded)
    assert segmental_snr_db(wanted, heard(encoded)) > 20


def steady_tone(seconds: float, frequency_hz: float) -> bytes:
    """An Opus file of a tone with harmonics: the encoder's post-filter is on in nearly all of its packets."""
    turns = frequency_hz * np.arange(int(seconds * 48_000)) / 48_000
    wave = sum(np.sin(2 * np.pi * k * turns + 0.3 * k * k) / k for k in range(1, 25))
    return opus(np.stack((0.2 * wave, 0.16 * wave), axis=1), bit_rate=96_000)


def test_the_way_back_with_a_post_filter_that_stays_on_is_as_good_as_the_encoder() -> None:
    file = steady_tone(4.0, 110.0)
    assert sum(not can_follow_ours(packet) for packet in packets_in(file)) > 190, "its post-filter is off"
    encoded, plain = playing(PacketSource(file)), playing(PacketSource(file), outputs=(PCM,))
    for bench in (encoded, plain):
        bench.change((40, HALF), (60, FLAT))
        bench.run()
    first = passed(encoded).index(True, 60)
    assert WAIT_FRAMES <= first - 60 <= WAIT_FRAMES + 15  # where a block begins no frame is counted
    wanted = channels(plain.pcm).astype(np.float64)
    noise = noise_db(wanted, heard(encoded))
    assert noise[first - 1 : first + 6].max() <= noise[first - 10 : first - 2].max() + 3.0


@pytest.mark.parametrize("chained", [False, True], ids=["tracks", "parts of a chained stream"])
@pytest.mark.parametrize(
    ("missing", "is_silent", "after"),  # of the last frame before the join; the first frame that passes after it
    [(0, False, (2, 2 + WAIT_FRAMES)), (100, False, None), (0, True, (1, 8)), (1, True, (1, 8)), (777, True, (1, 8))],
)
def test_what_joins_passes_when_it_fits_into_frames_or_the_join_is_silent(
    missing: int, is_silent: bool, after: tuple[int, int] | None, chained: bool
) -> None:
    files = song(3.0 - missing / 48_000, silent_ends=is_silent), song(3.0, 2, silent_ends=is_silent)
    bench = playing(PacketSource(b"".join(files))) if chained else playing(*map(PacketSource, files))
    bench.run()
    flags, lag = passed(bench), missing if is_silent else 0
    assert bench.audios[-2].lag_samples == lag
    assert all(flags[:148])
    if after is None:
        assert not any(flags[150:])
    else:
        first = flags.index(True, 150)
        assert after[0] <= first - 150 <= after[1]
        assert all(flags[first:-1])
        assert packets_of(bench)[first:298] == packets_in(files[1])[first - 150 : 148]
    require_no_click(np.concatenate([pcm_in(files[0]), np.zeros((lag, 2)), pcm_in(files[1])]), bench)


def test_a_lag_ends_at_a_cut() -> None:
    files = song(3.0 - 500 / 48_000, silent_ends=True), song(3.0, 2, silent_ends=True), song(3.0, 3)
    bench = playing(*map(PacketSource, files))
    bench.run(200)
    assert bench.audios[-1].lag_samples == 500
    bench.plan(bench.sent, switch_to=3)
    bench.run()
    assert bench.audios[-1].lag_samples == 0
    first = passed(bench).index(True, 200)
    assert packets_of(bench)[first : first + 20] == packets_in(files[2])[first - 200 : first - 180]
    after_cut = heard(bench)[201 * FRAME_SAMPLES :]
    assert segmental_snr_db(pcm_in(files[2])[FRAME_SAMPLES : 2 * 48_000], after_cut) > 20
    steps = np.abs(np.diff(heard(bench)[198 * FRAME_SAMPLES : 204 * FRAME_SAMPLES], axis=0)).max()
    assert steps <= 1.2 * np.abs(np.diff(heard(bench), axis=0)).max()


@pytest.mark.parametrize(("start", "passes"), [(48_000, True), (48_000 - 960, True), (48_100, False)])
def test_a_beginning_in_the_middle_passes_only_on_the_grid(start: int, passes: bool) -> None:
    file = song(3.0)
    bench = playing(PacketSource(song(1.0, 2)))
    bench.sources[2] = PacketSource(file, start)
    bench.run(20)
    bench.play(2)
    bench.run()
    flags = passed(bench)[20:]
    assert any(flags) is passes
    wanted = pcm_in(file)[start:]
    assert segmental_snr_db(wanted[4800:48_000], heard(bench)[20 * FRAME_SAMPLES + 4800 :]) > 20
    if passes:
        first = flags.index(True)
        assert packets_of(bench)[20 + first] == packets_in(file)[start // FRAME_SAMPLES + first]


def test_after_the_death_of_a_process_the_lag_goes_on() -> None:
    """A session that continues another one's frames, as `OpenSession` says."""
    file = song(3.0)
    start = 50 * FRAME_SAMPLES - 500  # frame 50 begins there, as the track began 500 samples after a frame
    bench = SessionBench({1: PacketSource(file, start)}, first_frame=50, lag_samples=460)
    bench.listen(PASSING)
    bench.plan(50, switch_to=1)
    bench.run()
    flags = passed(bench)
    first = flags.index(True)
    assert 2 <= first <= WAIT_FRAMES + 12
    assert {audio.lag_samples for audio in bench.audios} == {460}
    assert bench.packets[PASSING][50 + first] == packets_in(file)[49 + first]


def state_with(effects: Effects, *, gain_db: float = 0.0) -> ChainState:
    return ChainState.steady(Filters(effects=effects)).with_output(Level(1, gain_db), QUIET)


def tagged(lufs: float | None) -> SourceLoudness:
    loudness = SourceLoudness()
    loudness.tagged_lufs = lufs
    return loudness


@pytest.mark.parametrize(
    ("state", "voices", "lufs", "why"),
    [
        (ChainState.steady(FLAT), ONE_VOICE, None, None),
        (ChainState.steady(HALF), ONE_VOICE, None, "filters"),
        (ChainState.steady(FLAT).changed(HALF, b"").changed(FLAT, b""), ONE_VOICE, None, None),
        (ChainState.steady(HALF).changed(FLAT, b""), ONE_VOICE, None, "a change of them"),
        (ChainState.steady(FLAT), Voices((Fade(2, 0, falling(900)),)), None, "voice"),
        (ChainState.steady(FLAT), Voices((), (rising(900),)), None, "fade"),
        (ChainState.steady(FLAT), Voices((Fade(2, 0, falling(0)),)), None, None),
        (state_with(Effects(compressor=Compressor())), ONE_VOICE, None, "filters"),
        (state_with(Effects(limiter=Limiter(enabled=True))), ONE_VOICE, None, "limiter"),
        (state_with(Effects(limiter=None)), ONE_VOICE, None, None),
        (state_with(Effects(normalization=Normalization())), ONE_VOICE, None, "measuring"),
        (state_with(Effects(normalization=Normalization())), ONE_VOICE, -9.0, "normalization"),
        (state_with(Effects(normalization=Normalization())), ONE_VOICE, -14.0, None),
        (state_with(Effects(normalization=Normalization(mode="off"))), ONE_VOICE, None, None),
        (state_with(Effects(normalization=Normalization()), gain_db=-3.0), ONE_VOICE, -14.0, "normalization"),
    ],
)
def test_what_keeps_packets_from_passing(
    state: ChainState, voices: Voices, lufs: float | None, why: str | None
) -> None:
    first = first_allowed(state, voices, 960, [tagged(lufs)])
    assert first == 0 if why is None else first != 0
    for more in ({"is_stretched": True}, {"has_overlays": True}):
        assert first_allowed(state, voices, 960, [tagged(lufs)], **more) is None


def begun_later(file: bytes, samples: int) -> bytes:
    """The same file, of which so many more samples at the start are not heard: its packets fit with a lag only."""
    size = 27 + 1 + 19  # of the first page, which holds the head alone (RFC 7845, 5.1)
    page = bytearray(file[:size])
    assert page[28:36] == b"OpusHead"
    page[38:40] = (int.from_bytes(page[38:40], "little") + samples).to_bytes(2, "little")
    page[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = bytes(4)
    page[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = ogg_checksum(page)
    return bytes(page) + file[size:]


def test_a_source_that_fits_with_a_lag_only_passes_from_its_start_on() -> None:
    file = begun_later(song(2.0), 500)
    bench = playing(PacketSource(file))
    bench.run()
    assert {audio.lag_samples for audio in bench.audios[:-1]} == {500}
    assert passed(bench)[:-1] == [True] * (len(passed(bench)) - 1)
    assert packets_of(bench)[:80] == packets_in(file)[:80]


@cache
def songs() -> tuple[bytes, ...]:
    return (
        song(1.0, 11),
        song(0.7, 12, silent_ends=True),
        song(0.913, 13, silent_ends=True),
        begun_later(song(1.2, 14), 500),
    )


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ("cut", "seek", "half", "flat", "fast", "pcm", "opus", "both", "plain", "again", "overlay")
            ),
            st.integers(1, 35),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_is_planned_each_frame_has_a_packet_and_those_passed_are_the_sources(
    steps: list[tuple[str, int, int]],
) -> None:
    files = [songs()[0]]
    bench = playing(PacketSource(files[0]))
    current = 1
    for kind, frames, choice in steps:
        bench.run(bench.sent + frames)
        if kind in ("cut", "seek", "plain"):
            current += 1
            if kind == "plain":
                bench.sources[current] = MemorySource(current, 20_000, ends=True)
            else:
                files.append(songs()[choice])
                bench.sources[current] = PacketSource(files[-1], 0 if kind == "cut" else 960 * (frames // 3))
            bench.plan(bench.sent, switch_to=current)
        elif kind == "overlay":
            number = FIRST_OVERLAY_SOURCE + len(bench.sources)
            bench.sources[number] = MemorySource(number, 20_000, ends=True)
            bench.overlays = (OverlayOrder(number, 1.0, 0.0, 0),)
            bench.plan(bench.sent, after=current)
        elif kind in ("half", "flat", "fast", "again"):
            filters = {"half": HALF, "flat": FLAT, "fast": FAST, "again": bench.filters}[kind]
            bench.plan(bench.sent, after=current, filters=filters)
        else:
            bench.listen(*{"pcm": (PCM,), "opus": (PASSING,), "both": (PCM, PASSING)}[kind])
    bench.run()
    known = {packet for file in files for packet in packets_in(file)}
    for audio in bench.audios:
        assert 0 <= audio.lag_samples < FRAME_SAMPLES
        assert not (audio.is_passed and (audio.overlays or audio.position_rate != 1.0))
        for _, packets in audio.packets:
            if audio.is_passed:
                assert set(packets) <= known

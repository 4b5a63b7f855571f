"""Frames in other forms than PCM: the packets are those of one encoder that heard exactly what was sent."""

import numpy as np
import pytest

from tests.support import session_bench
from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.pcm import channels
from tests.support.session_bench import MemorySource, SessionBench
from tonearm.core.filters import BAND_COUNT, Effects, Filters, Normalization
from tonearm.core.frame import (
    FRAME_SAMPLES,
    NO_OUTPUTS,
    OPUS_LOOKAHEAD_SAMPLES,
    PCM,
    PCM_ONLY,
    Output,
    Outputs,
    mp3_output,
)
from tonearm.core.track_info import MeasuredLoudness
from tonearm.decoder.messages import BURST_FRAMES, Burst
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.packets.mp3 import MP3_FLUSH_PCM
from tonearm.worker.packets.opus_encoder import OpusEncoder

OPUS = Output("opus", complexity=0)
MP3 = mp3_output(128_000)
SECOND = 48_000
EQUALIZED = Filters(0.5, (3.0,) * BAND_COUNT)
NORMALIZED = Filters(effects=Effects(normalization=Normalization(-30.0)))


class Music(MemorySource):
    """Three voices that change slowly, so that an encoder has something to predict."""

    def pcm(self, start: int, samples: int) -> bytes:
        time = np.arange(start, start + samples) / 48_000
        left = sum(6000 / n * np.sin(2 * np.pi * 220 * n * (1 + self._number / 7) * time + n) for n in (1, 2, 3))
        right = 5000 * np.sin(2 * np.pi * 330 * time + self._number) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * time))
        return np.stack([left, right], axis=1).astype("<i2").tobytes()


def playing(samples: int, *, filters: Filters | None = None, outputs: Outputs = PCM_ONLY) -> SessionBench:
    return session_bench.playing(Music(1, samples, ends=True), filters=filters, outputs=outputs)


def packets(bench: SessionBench, output: Output, first: int = 0) -> list[bytes]:
    return [bench.packets[output][frame] for frame in range(first, bench.end_frame)]


def test_an_output_that_comes_later_begins_as_if_it_had_been_there() -> None:
    """Its encoder is primed with the frames before, so its first packets hold what they should."""
    bench = playing(2 * SECOND)
    bench.render()
    bench.send(17)
    bench.listen(PCM, OPUS)
    before = dict(bench.frames)
    bench.run()
    assert {frame: bench.frames[frame] for frame in before} == before, "the PCM is the same as without it"
    assert min(bench.packets[OPUS]) == 17
    plain = OpusEncoder(OPUS)
    of_plain = decoded([plain.encode(bench.frames[frame]) for frame in range(bench.end_frame)])
    late = decoded(packets(bench, OPUS, 17))
    wanted = channels(bench.pcm).astype(np.float64)[17 * FRAME_SAMPLES :]
    late_snr = segmental_snr_db(wanted, late[OPUS_LOOKAHEAD_SAMPLES:])
    plain_snr = segmental_snr_db(wanted, of_plain[17 * FRAME_SAMPLES + OPUS_LOOKAHEAD_SAMPLES :])
    assert late_snr > plain_snr - 0.5


def test_mp3_is_made_of_what_was_sent_once_and_in_order_and_comes_back_with_what_was_sent_meanwhile() -> None:
    bench = playing(4 * SECOND, outputs=frozenset({PCM, MP3}))
    bench.run(20)
    bench.session.take_mp3_jobs()
    bench.listen(PCM)
    bench.run(100)
    bench.listen(PCM, MP3)
    back = bench.sent
    bench.run(130)
    bench.plan(bench.sent + 2, after=1, filters=Filters(volume=0.5))
    bench.run()
    jobs = bench.session.take_mp3_jobs()
    assert (jobs[0].first_frame, jobs[0].end_frame) == (0, back)
    assert [job.is_first for job in jobs if job.pcm] == [True] + [False] * (sum(bool(job.pcm) for job in jobs) - 1)
    assert [job.end_frame for job in jobs] == sorted(job.end_frame for job in jobs)
    assert b"".join(job.pcm for job in jobs) == bench.pcm + MP3_FLUSH_PCM
    assert {job.output for job in jobs} == {MP3}


@pytest.mark.parametrize(
    ("filters", "was_heard", "keeps_burst", "has_memory"),
    [
        (EQUALIZED, True, True, True),
        (EQUALIZED, False, True, True),
        (NORMALIZED, True, True, True),
        (NORMALIZED, False, True, True),
        (Filters(), True, False, True),
        (Filters(), True, True, False),
    ],
)
def test_two_seconds_that_were_sent_can_be_encoded_for_a_new_form_and_half_a_second_where_memory_is_short(
    filters: Filters, was_heard: bool, keeps_burst: bool, has_memory: bool
) -> None:
    bench = playing(6 * SECOND, filters=filters, outputs=PCM_ONLY if was_heard else NO_OUTPUTS)
    bench.keeps_burst, bench.has_memory = keeps_burst, has_memory
    heard = playing(6 * SECOND, filters=filters)
    for each in (bench, heard):
        each.sources[1].loudness.tagged_lufs = -2.0
        each.run(150)
    bench.listen(PCM, MP3)
    bench.session.burst(Burst(1, OPUS, bench.sent, BURST_FRAMES))
    mp3, opus = bench.session.take_mp3_jobs()
    for job in (opus, mp3):
        assert (job.end_frame, job.is_first) == (bench.sent, True)
        least, most = (BURST_FRAMES, BURST_FRAMES) if keeps_burst and has_memory else (25, 50)
        assert least <= bench.sent - job.first_frame <= most
        wanted = b"".join(heard.frames[frame] for frame in range(job.first_frame, job.end_frame))
        assert np.abs(channels(job.pcm).astype(int) - channels(wanted).astype(int)).max() <= 1
    bench.run(180)
    following = bench.session.take_mp3_jobs()
    assert following[0].first_frame == mp3.end_frame
    assert not any(job.is_first for job in following)


@pytest.mark.parametrize(
    ("tagged_lufs", "measured_ms", "gain_db"),
    [(-2.0, 0, -28.0), (None, 60_000, -20.0), (None, 1_000, -18.0)],
)
@pytest.mark.parametrize("later_frames", [0, 7])
def test_a_first_stream_begins_at_the_level_at_which_it_goes_on(
    tagged_lufs: float | None, measured_ms: int, gain_db: float, later_frames: int
) -> None:
    """A source of which too little was measured has the gain of the source before it. The burst may end before the
    frame at which the stream came."""
    source = Music(2, 6 * SECOND, ends=True)
    source.loudness = SourceLoudness(MeasuredLoudness(-10.0, measured_ms))
    source.loudness.tagged_lufs = tagged_lufs
    bench = session_bench.playing(Music(1, SECOND, ends=True), source, filters=NORMALIZED, outputs=NO_OUTPUTS)
    bench.sources[1].loudness.tagged_lufs = -12.0
    bench.run(200)
    came = bench.sent
    bench.listen(PCM, MP3)
    bench.session.burst(Burst(1, OPUS, came - later_frames, 100))
    bench.render()
    bursts = [(job.first_frame, job.pcm) for job in bench.session.take_mp3_jobs()]
    assert len(bursts) == 2
    for first_frame, pcm in (*bursts, (came, bench.frames[came][:960]), (came + 1, bench.frames[came + 1])):
        heard, plain = channels(pcm), channels(source.pcm(first_frame * FRAME_SAMPLES - SECOND, len(pcm) // 4))
        assert 20 * np.log10(np.std(heard) / np.std(plain)) == pytest.approx(gain_db, abs=0.1)

"""A source without a process around it: what it reports, how far it decodes ahead, and how urgent it is."""

import itertools
import queue
import resource
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from tests.support.audio_files import Signal, encoded, mp3, music, opus, wav
from tests.support.decoder_driver import open_order
from tests.support.eventually import PATIENCE_S, eventually_without_a_loop
from tests.support.hand_time import HandTime
from tests.support.media_files import samples_of, snr_db
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.core.memory_budget import LEAST_AHEAD_FROM, LESS_AHEAD_FROM
from tonearm.decoder.messages import (
    DATA_CHUNK_BYTES,
    BeginAt,
    Data,
    DataFailed,
    Decoded,
    Failed,
    Opened,
    OpenSource,
    ReadRequest,
    SeekSource,
    TitleAt,
    Titled,
)
from tonearm.worker.memory import MemoryBudget
from tonearm.worker.reading.errors import OwnErrors
from tonearm.worker.sources.cursor import AHEAD_SAMPLES, FIRST_STEP_SAMPLES, CursorReport, Demand, Use
from tonearm.worker.sources.scheduler import DecodeScheduler, DecodeThreads
from tonearm.worker.sources.source import DecodingSource, SourceServices
from tonearm.worker.sources.source_content import DECODED_STEP_SAMPLES


def services_with(report: Callable[[CursorReport], None], note: Callable[[int, int], None]) -> SourceServices:
    """A slot to decode and two to open, with two threads."""
    threads = DecodeThreads()
    threads.add(2)
    return SourceServices(
        decoding=DecodeScheduler(range(1), note),
        opening=DecodeScheduler(range(1, 3), note),
        threads=threads,
        report=report,
        pcm_decoded=lambda session: None,
        note=note,
        errors=OwnErrors(),
        memory=MemoryBudget(resource.RLIM_INFINITY),
    )


class Bench:
    """A source with its node, which answers every read request; after the data with `failure`, if there is one."""

    def __init__(
        self,
        data: bytes,
        order: OpenSource | None = None,
        failure: PlayFailure | None = None,
        *,
        is_heard: bool = True,
        most_bytes: int = DATA_CHUNK_BYTES,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most_bytes` come in one answer."""
        self._data = data
        self.most_bytes = most_bytes
        self.part_ends: list[int] = []  # the node says once that a part has ended there
        self.answers = 0
        self.answered: Callable[[], None] = lambda: None
        self._failure = failure
        self._reports: queue.SimpleQueue[CursorReport] = queue.SimpleQueue()
        self.noted: dict[int, int] = {}
        order = order or open_order(7, 3, len(data))
        self.source = DecodingSource(
            order, None, replace(services_with(self._reports.put, self.noted.__setitem__), now_s=now_s)
        )
        self.source.used(order.start_sample, Use(is_current=True, is_heard=is_heard))
        self.source.start()

    def next_report(self) -> CursorReport:
        """The next one that is no read request."""
        while True:
            report = self._reports.get(timeout=PATIENCE_S)
            if not isinstance(report, ReadRequest):
                return report
            self._answer(report)

    def answer_requests(self) -> None:
        """Answers a read request that is there now, or in a moment."""
        try:
            report = self._reports.get(timeout=0.01)
        except queue.Empty:
            return
        if isinstance(report, ReadRequest):
            self._answer(report)

    def _answer(self, request: ReadRequest) -> None:
        part_end = next((end for end in self.part_ends if end >= request.offset), None)
        part = self._data[request.offset : part_end][: min(request.length, self.most_bytes)]
        if part_end is not None and not part:
            self.part_ends.remove(part_end)
        self.answers += 1
        self.answered()
        if part or self._failure is None:
            self.source.deliver(Data(7, 3, request.offset, part))
        else:
            self.source.deliver(DataFailed(7, 3, request.offset, self._failure))


def test_a_bug_is_a_failure_of_the_source_with_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    no_text: str = 5  # type: ignore[assignment]
    bench = Bench(b"no audio at all", structs.replace(open_order(7, 3, 15), content_type=no_text))
    failed = bench.next_report()
    assert isinstance(failed, Failed)
    assert failed.failure.code is FailureCode.INTERNAL
    assert "AttributeError" in failed.failure.message
    assert not failed.gave_audio
    assert "Traceback" in capfd.readouterr().err
    # The thread that reports gives its slot back after that.
    eventually_without_a_loop(lambda: set(bench.noted.values()) == {0}, "every slot is given back")


def test_decoding_keeps_to_its_distance_ahead() -> None:
    bench = Bench(wav(music(6.0)))
    store = bench.source.cursor.store
    bench.next_report()
    used = 0
    while used < 3 * SAMPLE_RATE_HZ:
        while store.end < used + AHEAD_SAMPLES - DECODED_STEP_SAMPLES:
            bench.answer_requests()
        assert store.end <= used + AHEAD_SAMPLES + DECODED_STEP_SAMPLES
        used += SAMPLE_RATE_HZ // 2
        bench.source.used(used, Use(is_current=True))
    bench.source.drop()


@pytest.mark.parametrize("encode", [wav, mp3, opus])
def test_a_source_that_drips_is_not_read_again_beyond_its_time(
    encode: Callable[[Signal], bytes],
) -> None:
    """As after its decoder process has died. It ends in the middle of a step or a page, which would take for hours."""
    clock = HandTime()
    data = encode(music(6.0))
    start_sample = 5 * SAMPLE_RATE_HZ
    order = structs.replace(open_order(7, 3, None, start_sample=start_sample, is_seekable=False), resumes=True)
    bench = Bench(data, order, most_bytes=1000, now_s=clock.now_s)
    assert isinstance(bench.next_report(), Opened)
    answers_to_open, bench.most_bytes = bench.answers, 1
    bench.answered = lambda: clock.forward(1.0)
    failed = bench.next_report()
    assert isinstance(failed, Failed)
    assert failed.failure.code is FailureCode.DECODER_DIED
    assert bench.answers - answers_to_open in range(10, 14)


def test_a_title_just_before_an_interruption_is_reported() -> None:
    radio = mp3(music(0.7, 44_100), 44_100, bit_rate=128_000, options={"write_xing": "0", "id3v2_version": "0"})
    lost = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The station went away.", "Try again.")
    order = open_order(7, 3, None, is_seekable=False, is_live=True)
    bench = Bench(radio, order, lost)
    bench.source.deliver(TitleAt(7, 3, len(radio) * 3 // 4, "Last words"))
    reports = [bench.next_report() for _ in range(3)]
    assert [type(report) for report in reports] == [Opened, Titled, Failed]


def test_opus_after_another_codec_is_decoded() -> None:
    first, last = opus(music(0.2)), opus(music(0.2, seed=2))
    parts = [first, mp3(music(0.2, 44_100)), last]
    bench, alone = (Bench(data, open_order(7, 3, None, is_seekable=False)) for data in (b"".join(parts), last))
    bench.part_ends = list(itertools.accumulate(map(len, parts)))
    for one in (bench, alone):
        assert isinstance(one.next_report(), Opened)
        one.source.used(SAMPLE_RATE_HZ, Use(is_current=True))
        assert isinstance(one.next_report(), Decoded)
    store, expected = bench.source.cursor.store, alone.source.cursor.store
    begin = store.end - expected.end
    assert begin > SAMPLE_RATE_HZ // 3
    across = samples_of(store.read(0, store.end)).astype(int)
    assert np.abs(across[begin:] - samples_of(expected.read(0, expected.end))).max() <= 2


@pytest.mark.parametrize("encode", [mp3, opus])
@pytest.mark.parametrize("left_out", [1, 3, 4])
def test_parts_that_cannot_be_played_are_left_out_unless_they_are_many(
    left_out: int, encode: Callable[[Signal], bytes]
) -> None:
    """As an advertisement without sound in HLS."""
    first, last, silent = encode(music(1.0)), encode(music(1.0, seed=2)), b"no sound " * 20_000
    parts = [first, *[silent] * left_out, last]
    bench = Bench(b"".join(parts), open_order(7, 3, None, is_seekable=False))
    bench.part_ends = list(itertools.accumulate(map(len, parts)))
    assert isinstance(bench.next_report(), Opened)
    bench.source.used(2 * SAMPLE_RATE_HZ, Use(is_current=True))
    ended = bench.next_report()
    if left_out == 4:
        assert isinstance(ended, Failed)
        assert (ended.failure.code, ended.gave_audio) == (FailureCode.NOT_AUDIO, True)
    else:
        assert isinstance(ended, Decoded)
        assert bench.source.cursor.store.end > 1.9 * SAMPLE_RATE_HZ


def test_parts_that_cannot_be_played_may_be_the_last() -> None:
    parts = [opus(music(1.0)), b"no sound " * 20_000]
    bench = Bench(b"".join(parts), open_order(7, 3, None, is_seekable=False))
    bench.part_ends = list(itertools.accumulate(map(len, parts)))
    assert isinstance(bench.next_report(), Opened)
    bench.source.used(SAMPLE_RATE_HZ, Use(is_current=True))
    assert isinstance(bench.next_report(), Decoded)
    assert bench.source.cursor.store.end == SAMPLE_RATE_HZ


@pytest.mark.parametrize("encode", [wav, opus])
def test_a_stream_that_finds_positions_itself_plays_from_its_beginning_again(encode: Callable[[Signal], bytes]) -> None:
    """As HLS does, in PCM or in packets."""
    begin = BeginAt(0, 0)
    bench = Bench(encode(music(2.0)), structs.replace(open_order(7, 3, None, is_seekable=False), begin=begin))
    bench.source.used(2 * SAMPLE_RATE_HZ, Use(is_current=True))
    assert [type(bench.next_report()) for _ in range(2)] == [Opened, Decoded]
    played = bench.source.cursor.store
    sound = played.read(0, SAMPLE_RATE_HZ)
    played.release_before(2 * SAMPLE_RATE_HZ)
    bench.source.seek(SeekSource(7, 3, 4, 0, begin))
    bench.source.used(2 * SAMPLE_RATE_HZ, Use(is_current=True))
    assert [type(bench.next_report()) for _ in range(2)] == [Opened, Decoded]
    again = bench.source.cursor.store
    assert (again.start, again.end) == (0, 2 * SAMPLE_RATE_HZ)
    assert again.read(0, SAMPLE_RATE_HZ) == sound


@pytest.mark.parametrize("is_seekable", [True, False])
def test_a_chained_file_plays_on_when_its_next_link_has_another_codec(is_seekable: bool) -> None:
    data = opus(music(0.5)) + encoded("ogg", "flac", music(0.5, seed=2)) + opus(music(0.5, seed=3))
    bench = Bench(data, open_order(7, 3, len(data), is_seekable=is_seekable))
    assert isinstance(bench.next_report(), Opened)
    bench.source.used(SAMPLE_RATE_HZ, Use(is_current=True))
    assert isinstance(bench.next_report(), Decoded)
    store = bench.source.cursor.store
    assert store.end == SAMPLE_RATE_HZ * 3 // 2
    flac = samples_of(store.read(SAMPLE_RATE_HZ // 2, SAMPLE_RATE_HZ // 2))
    assert snr_db(flac, music(0.5, seed=2)) > 80


@pytest.mark.parametrize("codecs", [("libopus", "flac"), ("flac", "libopus")])
@pytest.mark.parametrize("start_sample", [36_000, 48_000, 60_000])
def test_a_chained_file_goes_on_within_its_later_links_after_its_process_has_died(
    start_sample: int, codecs: tuple[str, str]
) -> None:
    first, second = codecs
    links = [encoded("ogg", codec, music(0.5, seed=seed)) for seed, codec in enumerate((first, second, first))]
    data = b"".join(links)
    order = open_order(7, 3, len(data))
    later = structs.replace(order, start_sample=start_sample, resumes=True)
    whole, resumed = Bench(data, order), Bench(data, later)
    for bench in (whole, resumed):
        assert isinstance(bench.next_report(), Opened)
        bench.source.used(2 * SAMPLE_RATE_HZ, Use(is_current=True))
        assert isinstance(bench.next_report(), Decoded)
    store, expected = resumed.source.cursor.store, whole.source.cursor.store
    left = expected.end - start_sample
    assert (store.start, store.end) == (start_sample, expected.end)
    heard, wanted = (samples_of(one.read(start_sample, left)).astype(int) for one in (store, expected))
    assert np.abs(heard - wanted).max() <= 2


def test_the_source_that_runs_out_first_has_the_earliest_deadline_however_early_it_asked() -> None:
    second = SAMPLE_RATE_HZ

    def urgency(now_s: float, left: int, *, is_current: bool, is_heard: bool = True) -> float:
        demand = Demand(MemoryBudget(resource.RLIM_INFINITY))
        demand.use = Use(is_current, is_heard)
        return demand.deadline_s(now_s, left)

    requested_early = urgency(10.0, 2 * second, is_current=True)
    assert requested_early < urgency(11.0, int(1.5 * second), is_current=True)
    assert requested_early > urgency(11.0, second // 2, is_current=True)
    assert urgency(10.0, 0, is_current=False) > urgency(12.0, 2 * second, is_current=True)
    assert urgency(10.0, 0, is_current=True, is_heard=False) > urgency(12.0, 2 * second, is_current=False)


def test_of_a_source_that_nobody_hears_hardly_anything_is_decoded_ahead_until_somebody_listens() -> None:
    bench = Bench(wav(music(5.0)), is_heard=False)
    bench.next_report()
    store = bench.source.cursor.store
    while not store.end:
        bench.answer_requests()
    for _ in range(10):  # it would ask for more at once
        bench.answer_requests()
    assert store.end <= 2 * DECODED_STEP_SAMPLES
    bench.source.used(0, Use(is_current=True))
    while store.end < AHEAD_SAMPLES - DECODED_STEP_SAMPLES:
        bench.answer_requests()
    bench.source.drop()


def demand_with(used: float, use: Use) -> Demand:
    """While that share of the memory is in use."""
    memory = MemoryBudget(resource.RLIM_INFINITY)
    memory.used = used
    demand = Demand(memory)
    demand.use = use
    return demand


@pytest.mark.parametrize(("rate", "reads_ahead"), [(0.25, 0), (1.0, 0), (1.0, 22_000), (2.0, 8_000), (4.0, 15_000)])
def test_with_too_little_left_for_a_frame_more_is_decoded_whatever_its_speed(rate: float, reads_ahead: int) -> None:
    left = max(int(FIRST_STEP_SAMPLES * rate), reads_ahead)
    every_use = itertools.product([0.0, LESS_AHEAD_FROM, 0.7, LEAST_AHEAD_FROM, 1.0], [True, False], [True, False])
    for used, is_heard, reads_only in every_use:
        demand = demand_with(used, Use(is_current=True, is_heard=is_heard, rate=rate, reads_ahead=reads_ahead))
        assert demand.needs_more(left, reads_only=reads_only), (used, is_heard, reads_only)
        assert demand.has_room(left, reads_only=reads_only), (used, is_heard, reads_only)


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0, 4.0])
def test_the_less_memory_there_is_the_less_is_decoded_ahead_and_least_for_nobody(rate: float) -> None:
    def ahead_samples(used: float, *, is_heard: bool = True) -> int:
        use = Use(is_current=True, is_heard=is_heard, rate=rate)
        return demand_with(used, use).ahead_samples(reads_only=False)

    least = ahead_samples(0.0, is_heard=False)
    assert ahead_samples(0.0) == AHEAD_SAMPLES * max(rate, 1.0) > ahead_samples(0.7) > ahead_samples(1.0) == least

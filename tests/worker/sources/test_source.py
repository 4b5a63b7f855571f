"""A source without a process around it: what it reports, how far it decodes ahead, and how urgent it is."""

import itertools
import queue
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from msgspec import structs

from tests.support.audio_files import Signal, encoded, live_mp3, mp3, music, opus, wav
from tests.support.decoder_driver import open_order
from tests.support.eventually import PATIENCE_S, eventually_without_a_loop
from tests.support.hand_time import HandTime
from tests.support.media_files import Samples, samples_of, snr_db
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
from tonearm.worker.sources.pcm_store import PcmStore
from tonearm.worker.sources.scheduler import DecodeScheduler, DecodeThreads
from tonearm.worker.sources.source import DecodingSource, SourceServices
from tonearm.worker.sources.source_content import DECODED_STEP_SAMPLES

MOMENT_S = 0.01


class SourceReports:
    """What sources need, with a slot to decode and two to open, and what they report. `source` is the one that reads,
    `answer` what it gets."""

    source: DecodingSource

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._reports: queue.SimpleQueue[CursorReport] = queue.SimpleQueue()
        self.reported: defaultdict[int, list[CursorReport]] = defaultdict(list)  # by session, but for read requests
        self._waits = 0
        self.noted: dict[int, int] = {}
        note, threads = self.noted.__setitem__, DecodeThreads()
        threads.add(2)
        self.services = SourceServices(
            decoding=DecodeScheduler(range(1), note),
            opening=DecodeScheduler(range(1, 3), note),
            threads=threads,
            report=self._reports.put,
            pcm_decoded=lambda session: None,
            note=note,
            errors=OwnErrors(),
            memory=MemoryBudget(resource.RLIM_INFINITY),
            now_s=now_s,
        )

    def answer(self, request: ReadRequest) -> Data | DataFailed:
        raise NotImplementedError

    def work(self) -> None:
        """Takes a report that is there now, or in a moment. A read request is answered."""
        try:
            report = self._reports.get(timeout=MOMENT_S)
        except queue.Empty:
            self._waits += 1
            assert self._waits < PATIENCE_S / MOMENT_S
            return
        self._waits = 0
        if isinstance(report, ReadRequest):
            self.source.deliver(self.answer(report))
        else:
            self.reported[report.session].append(report)


class Bench(SourceReports):
    """A source with its node, which answers every read request; after the data with `failure`, if there is one."""

    def __init__(
        self,
        data: bytes,
        order: OpenSource | None = None,
        failure: PlayFailure | None = None,
        *,
        part_ends: Iterable[int] = (),
        is_heard: bool = True,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """The node says once that a part has ended at each of `part_ends`."""
        super().__init__(now_s)
        self._data = data
        self._part_ends = list(part_ends)
        self._failure = failure
        self.most_bytes = DATA_CHUNK_BYTES  # in one answer
        self.answered: Callable[[], None] = lambda: None
        size_bytes = None if self._part_ends else len(data)
        order = order or open_order(7, 3, size_bytes, is_seekable=not self._part_ends)
        self.source = DecodingSource(order, None, self.services)
        self.source.used(order.start_sample, Use(is_current=True, is_heard=is_heard))
        self.source.start()

    def next_report(self) -> CursorReport:
        while not self.reported[7]:
            self.work()
        return self.reported[7].pop(0)

    def played(self, up_to: int = 2 * SAMPLE_RATE_HZ) -> PcmStore:
        """The sound of a source that is opened and decoded to its end, which must be behind `up_to`."""
        assert isinstance(self.next_report(), Opened)
        self.source.used(up_to, Use(is_current=True))
        assert isinstance(self.next_report(), Decoded)
        return self.source.cursor.store

    def answer(self, request: ReadRequest) -> Data | DataFailed:
        part_end = next((end for end in self._part_ends if end >= request.offset), None)
        part = self._data[request.offset : part_end][: min(request.length, self.most_bytes)]
        if part_end is not None and not part:
            self._part_ends.remove(part_end)
        self.answered()
        if part or self._failure is None:
            return Data(7, 3, request.offset, part)
        return DataFailed(7, 3, request.offset, self._failure)


def in_parts(*parts: bytes) -> Bench:
    return Bench(b"".join(parts), part_ends=itertools.accumulate(map(len, parts)))


def samples_in(store: PcmStore, start: int = 0) -> Samples:
    return samples_of(store.read(start, store.end - start)).astype(int)


def test_a_bug_is_a_failure_of_the_source_with_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    no_text: str = 5  # type: ignore[assignment]
    bench = Bench(b"no audio at all", structs.replace(open_order(7, 3, 15), content_type=no_text))
    failed = bench.next_report()
    assert isinstance(failed, Failed)
    assert (failed.failure.code, failed.gave_audio) == (FailureCode.INTERNAL, False)
    assert "AttributeError" in failed.failure.message
    assert "Traceback" in capfd.readouterr().err
    # The thread that reports gives its slot back after that.
    eventually_without_a_loop(lambda: set(bench.noted.values()) == {0}, "every slot is given back")


def test_hardly_anything_is_decoded_ahead_until_somebody_listens_and_then_a_fixed_distance() -> None:
    bench = Bench(wav(music(6.0)), is_heard=False)
    bench.next_report()
    store = bench.source.cursor.store
    while not store.end:
        bench.work()
    for _ in range(10):  # it would ask for more at once
        bench.work()
    assert store.end <= 2 * DECODED_STEP_SAMPLES
    for used in range(0, 3 * SAMPLE_RATE_HZ, SAMPLE_RATE_HZ // 2):
        bench.source.used(used, Use(is_current=True))
        while store.end < used + AHEAD_SAMPLES - DECODED_STEP_SAMPLES:
            bench.work()
        assert store.end <= used + AHEAD_SAMPLES + DECODED_STEP_SAMPLES
    bench.source.drop()


@pytest.mark.parametrize("encode", [wav, mp3, opus])
def test_a_source_that_drips_is_not_read_again_beyond_its_time(encode: Callable[[Signal], bytes]) -> None:
    """As after its decoder process has died. It ends in the middle of a step or a page, which would take for hours."""
    clock = HandTime()
    order = open_order(7, 3, None, start_sample=5 * SAMPLE_RATE_HZ, is_seekable=False)
    bench = Bench(encode(music(6.0)), structs.replace(order, resumes=True), now_s=clock.now_s)
    bench.most_bytes = 1000
    assert isinstance(bench.next_report(), Opened)
    began_s, bench.most_bytes = clock.now_s(), 1
    bench.answered = lambda: clock.forward(1.0)  # for each byte
    failed = bench.next_report()
    assert isinstance(failed, Failed)
    assert failed.failure.code is FailureCode.DECODER_DIED
    assert clock.now_s() - began_s in range(10, 14)


def test_a_title_just_before_an_interruption_is_reported() -> None:
    radio = live_mp3(music(0.7, 44_100))
    lost = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The station went away.", "Try again.")
    bench = Bench(radio, open_order(7, 3, None, is_seekable=False, is_live=True), lost)
    bench.source.deliver(TitleAt(7, 3, len(radio) * 3 // 4, "Last words"))
    reports = [bench.next_report() for _ in range(3)]
    assert [type(report) for report in reports] == [Opened, Titled, Failed]


@pytest.mark.parametrize("encode", [mp3, opus])
@pytest.mark.parametrize(("left_out", "is_behind"), [(1, True), (3, True), (4, True), (1, False)])
def test_parts_that_cannot_be_played_are_left_out_unless_they_are_many(
    left_out: int, is_behind: bool, encode: Callable[[Signal], bytes]
) -> None:
    """As an advertisement without sound in HLS, also where nothing follows it."""
    silent = [b"no sound " * 20_000] * left_out
    bench = in_parts(encode(music(1.0)), *silent, *[encode(music(1.0, seed=2))] * is_behind)
    if left_out < 4:
        assert 1.0 <= bench.played().end / ((1 + is_behind) * SAMPLE_RATE_HZ) < 1.1
        return
    assert isinstance(bench.next_report(), Opened)
    bench.source.used(2 * SAMPLE_RATE_HZ, Use(is_current=True))
    ended = bench.next_report()
    assert isinstance(ended, Failed)
    assert (ended.failure.code, ended.gave_audio) == (FailureCode.NOT_AUDIO, True)


@pytest.mark.parametrize("encode", [wav, opus])
def test_a_stream_that_finds_positions_itself_plays_from_its_beginning_again(encode: Callable[[Signal], bytes]) -> None:
    """As HLS does, in PCM or in packets."""
    begin = BeginAt(0, 0)
    bench = Bench(encode(music(2.0)), structs.replace(open_order(7, 3, None, is_seekable=False), begin=begin))
    played = bench.played()
    sound = played.read(0, SAMPLE_RATE_HZ)
    played.release_before(2 * SAMPLE_RATE_HZ)
    bench.source.seek(SeekSource(7, 3, 4, 0, begin))
    again = bench.played()
    assert (again.start, again.end) == (0, 2 * SAMPLE_RATE_HZ)
    assert again.read(0, SAMPLE_RATE_HZ) == sound


@pytest.mark.parametrize("codecs", [("libopus", "flac"), ("flac", "libopus")])
def test_a_chained_file_plays_on_in_another_codec_and_goes_on_there_after_its_process_has_died(
    codecs: tuple[str, str],
) -> None:
    first, second = codecs
    links = [encoded("ogg", codec, music(0.5, seed=seed)) for seed, codec in enumerate((first, second, first))]
    data = b"".join(links)
    whole = samples_in(Bench(data, open_order(7, 3, len(data), is_seekable=first == "flac")).played())
    assert len(whole) == SAMPLE_RATE_HZ * 3 // 2
    assert snr_db(whole[24_000:48_000], music(0.5, seed=1)) > (80 if second == "flac" else 15)
    for start_sample in (36_000, 48_000, 60_000):
        order = structs.replace(open_order(7, 3, len(data), start_sample=start_sample), resumes=True)
        store = Bench(data, order).played()
        assert store.start == start_sample
        assert np.abs(samples_in(store, start_sample) - whole[start_sample:]).max() <= 2


def demand_with(use: Use, used_memory: float = 0.0) -> Demand:
    memory = MemoryBudget(resource.RLIM_INFINITY)
    memory.used = used_memory
    demand = Demand(memory)
    demand.use = use
    return demand


def test_the_source_that_runs_out_first_has_the_earliest_deadline_however_early_it_asked() -> None:
    second = SAMPLE_RATE_HZ
    current, unheard = Use(is_current=True), Use(is_current=True, is_heard=False)
    in_order = [(11, second // 2, current), (10, 2 * second, current), (11, 3 * second // 2, current)]
    in_order += [(12, 2 * second, current), (10, 0, Use(is_current=False)), (12, 2 * second, Use(is_current=False))]
    in_order += [(10, 0, unheard)]
    deadlines_s = [demand_with(use).deadline_s(now_s, left) for now_s, left, use in in_order]
    assert deadlines_s == sorted(deadlines_s)
    assert len(set(deadlines_s)) == len(deadlines_s)


@pytest.mark.parametrize(("rate", "reads_ahead"), [(0.25, 0), (1.0, 0), (1.0, 22_000), (2.0, 8_000), (4.0, 15_000)])
def test_with_too_little_left_for_a_frame_more_is_decoded_whatever_its_speed(rate: float, reads_ahead: int) -> None:
    left = max(int(FIRST_STEP_SAMPLES * rate), reads_ahead)
    every_use = itertools.product([0.0, LESS_AHEAD_FROM, 0.7, LEAST_AHEAD_FROM, 1.0], [True, False], [True, False])
    for used, is_heard, reads_only in every_use:
        demand = demand_with(Use(is_current=True, is_heard=is_heard, rate=rate, reads_ahead=reads_ahead), used)
        assert demand.needs_more(left, reads_only=reads_only), (used, is_heard, reads_only)
        assert demand.has_room(left, reads_only=reads_only), (used, is_heard, reads_only)


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0, 4.0])
def test_the_less_memory_there_is_the_less_is_decoded_ahead_and_least_for_nobody(rate: float) -> None:
    def ahead_samples(used: float, *, is_heard: bool = True) -> int:
        use = Use(is_current=True, is_heard=is_heard, rate=rate)
        return demand_with(use, used).ahead_samples(reads_only=False)

    least = ahead_samples(0.0, is_heard=False)
    assert ahead_samples(0.0) == AHEAD_SAMPLES * max(rate, 1.0) > ahead_samples(0.7) > ahead_samples(1.0) == least

"""A session under random orders, checked against what its node would send: sample after sample, as the marks say, and
through the filters that were ordered."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.examples import examples
from tests.support.pcm import sounds_the_same
from tests.support.session_bench import MemorySource, SessionBench, render_all, with_tail
from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SAMPLE_BLOCK_BYTES
from tonearm.decoder.messages import Audio, Mark, MarkKind
from tonearm.worker.filters.chain import ChainState, process
from tonearm.worker.mixing.voices import GLIDE_SAMPLES

SOURCES = range(1, 9)
LENGTHS = st.sampled_from([1, 300, 959, 960, 961, 4800, 12_345])
FILTERS = (Filters(), Filters(volume=0.5), Filters(gains_db=(6.0, *(0.0,) * (BAND_COUNT - 1))))


class SessionMachine(RuleBasedStateMachine):
    """Its node is as simple as the real one: it takes the newest plan only, and sends old frames until that comes."""

    @initialize(
        filters=st.sampled_from(FILTERS),
        first_frame=st.sampled_from([0, 1000]),
        known=st.lists(st.tuples(LENGTHS, st.booleans()), min_size=3, max_size=len(SOURCES)),
    )
    def begin(self, filters: Filters, first_frame: int, known: list[tuple[int, bool]]) -> None:
        self.sources: dict[int, MemorySource] = {
            number: MemorySource(number, samples, ends=ends) for number, (samples, ends) in enumerate(known, 1)
        }
        self.bench = SessionBench(self.sources, filters, first_frame)
        self.in_flight: deque[Audio] = deque()
        # What the node ordered
        self.current = 0
        self.following: int | None = None
        self.must_switch = False
        self.next_of: dict[int, int | None] = {}
        # What was sent
        self.position: tuple[int, int] | None = None
        self.ended: int | None = None
        self.cut_to: int | None = None
        self.tail = b""  # of a sound that was cut off, due with the next frame
        self.planned_tail = b""
        self.begun: set[int] = set()
        self.sent_pcm: list[bytes] = []
        self.expected_pcm: list[bytes] = []
        # Filters: the frame from which they were rendered, the first that was sent of these, and if without a ramp.
        self.settings: list[tuple[int, int, Filters, bool]] = [(first_frame, first_frame, filters, True)]
        self.plan(1, following=2, ahead=0)

    # The sources

    @rule(number=st.sampled_from(SOURCES), samples=LENGTHS)
    def append(self, number: int, samples: int) -> None:
        source = self.sources.setdefault(number, MemorySource(number))
        if not source.store.is_finished and not source.has_failed:
            source.append(samples)

    @rule(number=st.sampled_from(SOURCES), is_interrupted=st.booleans())
    def end_source(self, number: int, is_interrupted: bool) -> None:
        source = self.sources.setdefault(number, MemorySource(number))
        if is_interrupted and source.store.end == 0:
            source.has_failed = True
        elif not source.has_failed and not source.store.is_finished:
            source.store.finish(is_interrupted=is_interrupted)

    # The node

    @rule(
        number=st.sampled_from([0, *SOURCES]),
        following=st.sampled_from([None, *SOURCES]),
        filters=st.sampled_from(FILTERS),
    )
    def switch(self, number: int, following: int | None, filters: Filters) -> None:
        if number not in self.begun and number != self.current:
            self.plan(number, self.not_begun(following, number), ahead=0, filters=filters)

    @rule(ahead=st.integers(0, 3))
    def follow_with_the_next(self, ahead: int) -> None:
        self.plan(self.current, self.not_begun(self.current % len(SOURCES) + 1, self.current), ahead)

    @rule(following=st.sampled_from([None, *SOURCES]), ahead=st.integers(0, 3), filters=st.sampled_from(FILTERS))
    def follow(self, following: int | None, ahead: int, filters: Filters) -> None:
        self.plan(self.current, self.not_begun(following, self.current), ahead, filters)

    @rule()
    def flush(self) -> None:
        self.bench.session.flush()

    @rule()
    def render(self) -> None:
        self.in_flight += render_all(self.bench.session)

    @rule(count=st.integers(1, 12))
    def play(self, count: int) -> None:
        self.render()
        self.receive(len(self.in_flight))
        self.send(count)

    @precondition(lambda self: self.in_flight)
    @rule(count=st.integers(1, 3))
    def receive(self, count: int) -> None:
        for _ in range(min(count, len(self.in_flight))):
            self.take(self.in_flight.popleft())

    @rule(count=st.integers(1, 12))
    def send(self, count: int) -> None:
        for _ in range(count):
            if self.bench.sent < self.bench.end_frame:
                self.send_frame()
        self.finish_ends()
        self.bench.send(0)

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        for source in self.sources.values():
            if not source.store.is_finished:
                source.store.finish(is_interrupted=False)
        if self.current not in self.sources:
            self.plan(0, None, ahead=0)
        self.run_until_idle()
        self.bench.session.flush()
        self.run_until_idle()
        assert self.position is None or not self.current, "a source that is whole was not played to its end"
        assert sounds_the_same(b"".join(self.sent_pcm), self.filtered())

    def filtered(self) -> bytes:
        """What was expected, through the filters in force at each frame."""
        result, state = b"", ChainState.steady(self.settings[0][2])
        ends = [setting[:2] for setting in self.settings[1:]] + [(self.bench.sent, self.bench.sent)]
        for (first, first_sent, filters, is_at_once), (next_first, next_sent) in zip(self.settings, ends, strict=True):
            history = self.expected(self.bench.first_frame, first)
            state = state.at_once(filters) if is_at_once else state.changed(filters, history)
            pcm, state = filtered(state, self.expected(first, next_first))
            rest, _ = filtered(state, self.expected(next_first, next_sent))
            result += (pcm + rest)[(first_sent - first) * FRAME_BYTES :]
        return result

    def expected(self, first: int, end: int) -> bytes:
        return b"".join(self.expected_pcm[first - self.bench.first_frame : end - self.bench.first_frame])

    # The node's rules

    def not_begun(self, following: int | None, current: int) -> int | None:
        return None if following in self.begun or following == current or not current else following

    def plan(self, wanted: int, following: int | None, ahead: int, filters: Filters | None = None) -> None:
        bench = self.bench
        if bench.sent == bench.first_frame > 0:
            filters = None
        switches = self.must_switch = self.must_switch or wanted != self.current
        at_frame = bench.sent
        if switches:
            self.planned_tail = self.tail
            if self.position is not None:
                self.planned_tail = self.what_goes_on(*self.position)
            bench.void_from(at_frame)
            self.next_of.clear()
        else:
            for mark in bench.marks:
                if mark.kind is MarkKind.BEGIN and mark.source not in (following, wanted):
                    bench.void_from(mark.frame)
                    break
            at_frame = max(bench.sent, min(bench.sent + ahead, bench.end_frame))
        self.current, self.following = wanted, following
        self.next_of[wanted] = following
        switch_to = wanted if switches else None
        bench.plan(at_frame, switch_to=switch_to, after=wanted, following=following, filters=filters)
        bench.send(0)

    def what_goes_on(self, number: int, sample: int) -> bytes:
        """What fades out behind a cut: 5 ms of the source, and of what joins where it ends earlier, for a sound that
        stops there clicks. Nothing of a source that was heard to its end."""
        pcm = b""
        while missing := GLIDE_SAMPLES - len(pcm) // SAMPLE_BLOCK_BYTES:
            store = self.sources[number].store
            taken = min(missing, store.end - sample)
            if not taken:
                break
            pcm += self.sources[number].pcm(sample, taken)
            joined = self.next_of.get(number)
            if not store.is_finished or joined not in self.sources:
                break
            number, sample = joined, 0
        return pcm

    def take(self, audio: Audio) -> None:
        bench = self.bench
        if audio.epoch != bench.epoch:
            return
        if audio.epoch != bench.sent_epoch:
            is_at_once = audio.first_frame == 0 or (self.must_switch and not self.planned_tail)
            self.settings = [setting for setting in self.settings if setting[0] <= audio.first_frame]
            self.settings.append((audio.first_frame, max(audio.first_frame, bench.sent), bench.filters, is_at_once))
            if self.must_switch:
                assert bench.sent >= bench.end_frame
                self.tail = self.planned_tail
                self.position, self.ended, self.cut_to = None, None, self.current
                self.must_switch = False
        bench.take(audio)
        bench.marks = [mark for mark in bench.marks if mark.frame >= bench.sent]

    def run_until_idle(self) -> None:
        while True:
            before = self.bench.sent, len(self.bench.marks), self.bench.epoch
            self.render()
            self.receive(len(self.in_flight))
            self.send(3)
            if before == (self.bench.sent, len(self.bench.marks), self.bench.epoch):
                return

    # What has to be sent

    def send_frame(self) -> None:
        pcm = b""
        for mark in self.marks_now():
            pcm += self.apply(mark)
        missing = FRAME_SAMPLES - len(pcm) // 4
        assert missing >= 0
        if self.position is not None:
            number, sample = self.position
            store = self.sources[number].store
            taken = min(missing, store.end - sample)
            assert taken == missing or store.is_finished
            pcm += self.sources[number].pcm(sample, taken)
            self.position = number, sample + taken
        assert pcm or self.tail, "a frame of nothing"
        self.expected_pcm.append(with_tail(pcm, self.tail))
        self.tail = b""
        self.sent_pcm.append(self.bench.frames[self.bench.sent])
        self.bench.sent += 1

    def finish_ends(self) -> None:
        """Applies an end at which nothing joins. Cuts to the source that should have followed."""
        marks = self.bench.marks
        if len(marks) == 1 and marks[0].kind is not MarkKind.BEGIN and marks[0].frame <= self.bench.sent:
            assert self.bench.sent >= self.bench.end_frame, "frames of nothing"
            assert self.apply(marks.pop()) == b""
            following, self.current, self.following = self.following, 0, None
            if following:
                self.plan(following, None, ahead=0)

    def marks_now(self) -> list[Mark]:
        sent, marks = self.bench.sent, self.bench.marks
        self.bench.marks = [mark for mark in marks if mark.frame > sent]
        return [mark for mark in marks if mark.frame == sent]

    def apply(self, mark: Mark) -> bytes:
        """Moves the position on. Returns the samples that were left of a source that ends."""
        number = mark.source
        if mark.kind is MarkKind.BEGIN:
            assert self.position is None
            assert number == (self.next_of.get(self.ended) if self.ended is not None else self.cut_to)
            self.position, self.ended, self.cut_to = (number, 0), None, None
            self.begun.add(number)
            if self.current != number:
                self.current, self.following = number, None
            return b""
        store = self.sources[number].store
        assert store.is_finished
        assert mark.kind is (MarkKind.INTERRUPTED if store.is_interrupted else MarkKind.END)
        if self.position is None:
            assert number == self.ended or (number == self.cut_to and store.end == 0)
            self.position = number, store.end
        source, sample = self.position
        assert source == number
        self.position, self.ended, self.cut_to = None, number, None
        return self.sources[number].pcm(sample, store.end - sample)


def filtered(state: ChainState, pcm: bytes) -> tuple[bytes, ChainState]:
    return process(state, pcm) if pcm else (b"", state)


SessionMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=50)
TestSessionAgainstModel = SessionMachine.TestCase

"""A session under random orders, against what its node would send: samples one after the other, as the marks tell."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.support.pcm import sounds_the_same
from tests.support.session_bench import MemorySource
from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.decoding.messages import GRANT_FRAMES, Audio, Grant, Mark, MarkKind, OpenSession, Plan
from tonearm.decoding.worker.filter_chain import ChainState, process
from tonearm.decoding.worker.render_session import RenderSession

SOURCES = range(1, 9)
LENGTHS = st.sampled_from([1, 300, 959, 960, 961, 4800, 12_345])
FILTERS = (Filters(), Filters(volume=0.5), Filters(gains_db=(6.0, *(0.0,) * (BAND_COUNT - 1))))


class SessionMachine(RuleBasedStateMachine):
    """The node's side is kept as simple as it is there: of the newest plan only, and old frames until it is heard."""

    @initialize(
        filters=st.sampled_from(FILTERS),
        first_frame=st.sampled_from([0, 1000]),
        known=st.lists(st.tuples(LENGTHS, st.booleans()), min_size=3, max_size=len(SOURCES)),
    )
    def begin(self, filters: Filters, first_frame: int, known: list[tuple[int, bool]]) -> None:
        self.filters = filters
        self.sources: dict[int, MemorySource] = {
            number: MemorySource(number, samples, ends=ends) for number, (samples, ends) in enumerate(known, 1)
        }
        self.session = RenderSession(OpenSession(1, 1, first_frame, filters), self.sources)
        self.on_their_way: deque[Audio] = deque()
        self.frames: dict[int, bytes] = {}
        self.marks: list[Mark] = []
        self.sent = self.end_frame = first_frame
        self.granted = first_frame + GRANT_FRAMES
        self.epoch = self.heard_epoch = 1
        # What the node ordered
        self.sounding = 0
        self.following: int | None = None
        self.must_switch = False
        self.followers: dict[int, int | None] = {}
        # What was heard
        self.place: tuple[int, int] | None = None
        self.ended: int | None = None
        self.cut_to: int | None = None
        self.begun: set[int] = set()
        self.sent_pcm: list[bytes] = []
        self.expected_pcm: list[bytes] = []
        self.plan(1, following=2, ahead=0)

    # The sources

    @rule(number=st.sampled_from(SOURCES), samples=LENGTHS)
    def append(self, number: int, samples: int) -> None:
        source = self.sources.setdefault(number, MemorySource(number))
        if not source.store.is_finished and not source.has_failed:
            source.append(samples)

    @rule(number=st.sampled_from(SOURCES), is_broken=st.booleans())
    def end_source(self, number: int, is_broken: bool) -> None:
        source = self.sources.setdefault(number, MemorySource(number))
        if is_broken and source.store.end == 0:
            source.has_failed = True
        elif not source.has_failed and not source.store.is_finished:
            source.store.finish(is_broken=is_broken)

    # The node

    @rule(number=st.sampled_from([0, *SOURCES]), following=st.sampled_from([None, *SOURCES]))
    def switch(self, number: int, following: int | None) -> None:
        if number not in self.begun and number != self.sounding:
            self.plan(number, self.unheard(following, number), ahead=0)

    @rule(ahead=st.integers(0, 3))
    def follow_with_the_next(self, ahead: int) -> None:
        self.plan(self.sounding, self.unheard(self.sounding % len(SOURCES) + 1, self.sounding), ahead)

    @rule(following=st.sampled_from([None, *SOURCES]), ahead=st.integers(0, 3))
    def follow(self, following: int | None, ahead: int) -> None:
        self.plan(self.sounding, self.unheard(following, self.sounding), ahead)

    @rule()
    def flush(self) -> None:
        self.session.flush()

    @rule()
    def render(self) -> None:
        audios = self.session.render()
        for audio in audios:
            assert audio.first_frame + audio.frames <= self.granted
            assert len(audio.pcm) == audio.frames * FRAME_BYTES
        self.on_their_way += audios

    @rule(count=st.integers(1, 12))
    def go_on(self, count: int) -> None:
        self.render()
        self.receive(len(self.on_their_way))
        self.send(count)

    @precondition(lambda self: self.on_their_way)
    @rule(count=st.integers(1, 3))
    def receive(self, count: int) -> None:
        for _ in range(min(count, len(self.on_their_way))):
            self.take(self.on_their_way.popleft())

    @rule(count=st.integers(1, 12))
    def send(self, count: int) -> None:
        for _ in range(count):
            if self.sent < self.end_frame:
                self.send_frame()
        self.tell_ends()
        self.grant()

    def teardown(self) -> None:
        if not hasattr(self, "session"):
            return
        for source in self.sources.values():
            if not source.store.is_finished:
                source.store.finish(is_broken=False)
        if self.sounding not in self.sources:
            self.plan(0, None, ahead=0)
        self.run_dry()
        self.session.flush()
        self.run_dry()
        assert self.place is None or not self.sounding, "a source that is whole was not played to its end"
        if self.sent_pcm:
            filtered, _ = process(ChainState.steady(self.filters), b"".join(self.expected_pcm))
            assert sounds_the_same(b"".join(self.sent_pcm), filtered)

    # How the node does it

    def unheard(self, following: int | None, sounding: int) -> int | None:
        return None if following in self.begun or following == sounding or not sounding else following

    def plan(self, wanted: int, following: int | None, ahead: int) -> None:
        switches = self.must_switch = self.must_switch or wanted != self.sounding
        at_frame = self.sent
        if switches:
            self.void_from(at_frame)
            self.followers.clear()
        else:
            for mark in self.marks:
                if mark.kind is MarkKind.BEGIN and mark.source not in (following, wanted):
                    self.void_from(mark.frame)
                    break
            at_frame = min(self.sent + ahead, self.end_frame)
        self.sounding, self.following = wanted, following
        self.followers[wanted] = following
        self.epoch += 1
        switch_to = wanted if switches else None
        base = self.heard_epoch
        self.session.plan(Plan(1, self.epoch, base, at_frame, switch_to, wanted, following, self.filters))
        self.grant()

    def grant(self) -> None:
        self.granted = max(self.granted, self.sent + GRANT_FRAMES)
        self.session.grant(Grant(1, self.heard_epoch, self.sent, self.granted))

    def take(self, audio: Audio) -> None:
        if audio.epoch != self.epoch:
            return
        if audio.epoch != self.heard_epoch:
            self.heard_epoch = audio.epoch
            self.void_from(audio.first_frame)
            if self.must_switch:
                assert self.sent == self.end_frame
                self.place, self.ended, self.cut_to = None, None, self.sounding
                self.must_switch = False
        assert audio.first_frame <= self.end_frame, "frames are missing"
        for index in range(audio.frames):
            frame = audio.first_frame + index
            if frame >= self.sent:
                self.frames[frame] = bytes(audio.pcm[index * FRAME_BYTES : (index + 1) * FRAME_BYTES])
        self.end_frame = max(self.end_frame, audio.first_frame + audio.frames)
        self.marks += [mark for mark in audio.marks if mark.frame >= self.sent]

    def void_from(self, frame: int) -> None:
        self.end_frame = max(self.sent, min(self.end_frame, frame))
        self.marks = [mark for mark in self.marks if mark.frame < frame]

    def run_dry(self) -> None:
        while True:
            before = self.sent, len(self.marks), self.epoch
            self.render()
            self.receive(len(self.on_their_way))
            self.send(3)
            if before == (self.sent, len(self.marks), self.epoch):
                return

    # What has to be heard

    def send_frame(self) -> None:
        pcm = b""
        for mark in self.marks_now():
            pcm += self.tell(mark)
        missing = FRAME_SAMPLES - len(pcm) // 4
        assert missing >= 0
        if self.place is not None:
            number, sample = self.place
            store = self.sources[number].store
            taken = min(missing, store.end - sample)
            assert taken == missing or store.is_finished
            pcm += self.sources[number].pcm(sample, taken)
            self.place = number, sample + taken
        assert pcm, "a frame of nothing"
        self.expected_pcm.append(pcm + bytes(FRAME_BYTES - len(pcm)))
        self.sent_pcm.append(self.frames.pop(self.sent))
        self.sent += 1

    def tell_ends(self) -> None:
        """Tells an end that is complete, as nothing joins there. What should have followed is cut to."""
        if len(self.marks) == 1 and self.marks[0].kind is not MarkKind.BEGIN and self.marks[0].frame <= self.sent:
            assert self.sent == self.end_frame, "frames of nothing"
            assert self.tell(self.marks.pop()) == b""
            following, self.sounding, self.following = self.following, 0, None
            if following:
                self.plan(following, None, ahead=0)

    def marks_now(self) -> list[Mark]:
        now = [mark for mark in self.marks if mark.frame == self.sent]
        self.marks = [mark for mark in self.marks if mark.frame > self.sent]
        return now

    def tell(self, mark: Mark) -> bytes:
        """Moves what was heard on; the samples that were left of a source that ends."""
        number = mark.source
        if mark.kind is MarkKind.BEGIN:
            assert self.place is None
            assert number == (self.followers.get(self.ended) if self.ended is not None else self.cut_to)
            self.place, self.ended, self.cut_to = (number, 0), None, None
            self.begun.add(number)
            if self.sounding != number:
                self.sounding, self.following = number, None
            return b""
        store = self.sources[number].store
        assert store.is_finished
        assert mark.kind is (MarkKind.BROKE if store.is_broken else MarkKind.END)
        if self.place is None:
            assert number == self.ended or (number == self.cut_to and store.end == 0)
            self.place = number, store.end
        source, sample = self.place
        assert source == number
        self.place, self.ended, self.cut_to = None, number, None
        return self.sources[number].pcm(sample, store.end - sample)


SessionMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestSessionAgainstModel = SessionMachine.TestCase

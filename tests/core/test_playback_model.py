"""Any order of requests and reports, against a simple model of what should be selected and what should wait."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.playback_log import PlaybackLog
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.events import Event
from tonearm.core.play_queue import LoopMode, SourceId
from tonearm.core.playback import Outcome, Playback, PlayerState
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

LATE_REPORTS: Final[tuple[Callable[[Playback, SourceId], Outcome], ...]] = (
    Playback.first_frame,
    Playback.ended,
    lambda playback, source: playback.opened(source, SourceFacts(title="wrong")),
    lambda playback, source: playback.expanded(source, (make_track("wrong"),)),
    lambda playback, source: playback.failed(source, FILE_MISSING),
    lambda playback, source: playback.broke_off(source, CONNECTION_LOST),
)


@dataclass
class Model:
    """What the interface says about queue, loop and bad sources, by names and without sources."""

    current: str
    waiting: list[str] = field(default_factory=list)
    mode: LoopMode = LoopMode.NONE
    has_stopped: bool = False  # idle or failed
    is_failed: bool = False
    gave_audio: set[str] = field(default_factory=set)
    failures_in_a_row: int = 0

    def end(self, *, is_skip: bool = False, comes_back: bool = True) -> None:
        if self.mode is LoopMode.TRACK and not is_skip and comes_back:
            return
        if self.mode is LoopMode.QUEUE and comes_back:
            self.waiting.append(self.current)
        self.is_failed = False
        self.has_stopped = not self.waiting
        if self.waiting:
            self.current = self.waiting.pop(0)

    def fail(self) -> None:
        if self.current in self.gave_audio:
            self.end()
            return
        self.failures_in_a_row += 1
        if self.waiting and self.failures_in_a_row < 5:
            self.end(comes_back=False)
        else:
            self.has_stopped = self.is_failed = True

    def go_on(self) -> None:
        """A stopped player gets something to play."""
        if self.is_failed:
            self.failures_in_a_row = 0
        if self.waiting:
            self.current = self.waiting.pop(0)
        self.has_stopped = self.is_failed = False


class PlaybackMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = PlaybackLog(make_track("0"))
        self.playback = self.log.playback
        self.model = Model("0")
        self.names = 1
        self.listed: set[str] = set()  # entries of playlists
        self.untold: set[SourceId | None] = set()  # failed, not told yet
        self.started: SourceId | None = None
        self.open_start: str | None = None  # the track of a TrackStart whose TrackEnd was not told yet
        self.last_state = "loading"
        self.last_length = 0

    # Requests

    @rule()
    def enqueue(self) -> None:
        name = str(self.names)
        self.names += 1
        self.model.waiting.append(name)
        if self.model.has_stopped:
            self.model.go_on()
        self._do(self.playback.enqueue(make_track(name)))

    @rule()
    def play(self) -> None:
        if self.model.has_stopped:
            self.model.go_on()
        self._do(self.playback.play())

    @rule()
    def pause(self) -> None:
        self._do(self.playback.pause())

    @rule()
    def skip(self) -> None:
        if not (self.model.has_stopped and not self.model.is_failed):
            self.model.end(is_skip=True, comes_back=not self.model.is_failed)
        self._do(self.playback.skip())

    @rule(mode=st.sampled_from(LoopMode))
    def set_loop(self, mode: LoopMode) -> None:
        self.model.mode = mode
        self._do(self.playback.set_loop(mode))

    # Reports of the shell

    @rule()
    def start_clock(self) -> None:
        self._do(self.playback.start_clock())

    @precondition(lambda self: self._is_alive(self.playback.sounding))
    @rule()
    def sounding_opens(self) -> None:
        self._do(self.playback.opened(self._sounding(), SourceFacts(length_ms=1000)))

    @precondition(lambda self: self._is_alive(self.playback.sounding) and self.playback.wants_frames)
    @rule()
    def sounding_starts(self) -> None:
        self.model.gave_audio.add(self.model.current)
        self.model.failures_in_a_row = 0
        self.started = self._sounding()
        self._do(self.playback.first_frame(self._sounding()))

    @precondition(lambda self: self._is_sounding())
    @rule()
    def sounding_ends(self) -> None:
        self.model.end()
        self._do(self.playback.ended(self.log.close(self._sounding())))

    @precondition(lambda self: self._is_sounding())
    @rule()
    def sounding_breaks_off(self) -> None:
        self.model.fail()
        self._do(self.playback.broke_off(self.log.close(self._sounding()), CONNECTION_LOST))

    @precondition(lambda self: self._is_alive(self.playback.sounding) and not self._is_sounding())
    @rule()
    def sounding_fails(self) -> None:
        self.untold.add(self._sounding())
        self._do(self.playback.failed(self.log.close(self._sounding()), FILE_MISSING))

    @precondition(lambda self: self._is_alive(self.playback.following))
    @rule(opens=st.booleans())
    def following_opens_or_fails(self, opens: bool) -> None:
        source = self.playback.following
        assert source is not None
        if opens:
            self._do(self.playback.opened(source, SourceFacts()))
        else:
            self.untold.add(source)
            self._do(self.playback.failed(self.log.close(source), FILE_MISSING))

    @precondition(lambda self: self._is_alive(self.playback.sounding) and not self._is_sounding())
    @precondition(lambda self: self.model.current not in self.listed)
    @rule(count=st.integers(1, 3))
    def sounding_expands(self, count: int) -> None:
        tracks = self._entries(count)
        self.model.current, *others = (track.id for track in tracks)
        self.model.waiting[:0] = others
        self._do(self.playback.expanded(self.log.close(self._sounding()), tracks))

    @precondition(lambda self: self._is_alive(self.playback.following))
    @precondition(lambda self: self._upcoming() in self.model.waiting and self._upcoming() not in self.listed)
    @rule(count=st.integers(1, 3))
    def following_expands(self, count: int) -> None:
        source = self.playback.following
        assert source is not None
        tracks = self._entries(count)
        self.model.waiting[:1] = (track.id for track in tracks)
        self._do(self.playback.expanded(self.log.close(source), tracks))

    @rule()
    def next_is_due(self) -> None:
        self._do(self.playback.next_is_due())

    @rule(flows=st.booleans())
    def frames_stop_or_flow(self, flows: bool) -> None:
        self._do(self.playback.flowing() if flows else self.playback.ran_dry())

    @rule(source=st.integers(-1, 30), report=st.sampled_from(LATE_REPORTS))
    def late_report(self, source: SourceId, report: Callable[[Playback, SourceId], Outcome]) -> None:
        if source not in (self.playback.sounding, self.playback.following):
            outcome = report(self.playback, source)
            assert outcome == Outcome()

    # What must hold

    @invariant()
    def the_right_track_is_selected(self) -> None:
        assert self.playback.current.id == self.model.current
        assert [track.id for track in self.playback.waiting] == self.model.waiting

    @invariant()
    def the_state_fits(self) -> None:
        state = self.playback.state
        assert (state is PlayerState.FAILED) == self.model.is_failed
        assert (state is PlayerState.IDLE) == (self.model.has_stopped and not self.model.is_failed)
        assert (self.playback.sounding is None) == self.model.has_stopped
        assert self.playback.following is None or not self.model.has_stopped
        assert self.last_state == state.value
        assert self.last_length == self.playback.queue_length

    @invariant()
    def only_wanted_sources_are_open(self) -> None:
        wanted = {self.playback.sounding, self.playback.following} - self.untold - {None}
        assert set(self.log.open_sources) == wanted
        if self.playback.sounding in wanted:
            assert self.log.open_sources[self._sounding()] == self.model.current
        if self.playback.following in wanted and self.playback.following is not None:
            assert self.log.open_sources[self.playback.following] == self._upcoming()

    @invariant()
    def failures_are_kept_only_before_their_turn(self) -> None:
        if self.playback.wants_frames:
            assert self.playback.sounding not in self.untold

    def teardown(self) -> None:
        """Whatever happened, the player can still be brought to play, and ends properly."""
        self.start_clock()
        self.play()
        self.enqueue()
        assert self.playback.wants_frames
        assert self.playback.sounding in self.log.open_sources
        self._do(self.playback.delete())
        assert self.open_start is None
        assert self.log.open_sources == {}

    # Helpers

    def _sounding(self) -> SourceId:
        assert self.playback.sounding is not None
        return self.playback.sounding

    def _upcoming(self) -> str:
        """What comes next when the current track ends."""
        upcoming = replace(self.model, waiting=list(self.model.waiting))
        upcoming.end()
        return upcoming.current

    def _entries(self, count: int) -> tuple[Track, ...]:
        names = [str(self.names + number) for number in range(count)]
        self.names += count
        self.listed.update(names)
        return tuple(make_track(name, is_playlist_entry=True) for name in names)

    def _is_alive(self, source: SourceId | None) -> bool:
        return source is not None and source not in self.untold

    def _is_sounding(self) -> bool:
        return self.playback.sounding is not None and self.playback.sounding == self.started

    def _do(self, outcome: Outcome) -> None:
        """Carries out and checks `outcome`. What the call itself does was done to the model before; the model tells
        here the failures that had been kept and whose turn came with it."""
        self.log.do(outcome)
        for event in outcome.events:
            self._check(event)
        self.untold &= {self.playback.sounding, self.playback.following}

    def _check(self, event: Event) -> None:
        match event.fields:
            case {"error": {"code": FILE_MISSING.code}, "track": {"info": {"title": name}}}:
                assert name == self.model.current
                assert self.playback.clock_started
                assert not self.playback.paused
                self.model.fail()
            case {"reason": _, "track": {"info": {"title": name}}}:
                assert self.open_start in (None, name)
                self.open_start = None
            case {"uri": _, "track": {"info": {"title": str() as name}}}:
                assert self.open_start is None
                self.open_start = name
            case {"state": str() as state}:
                self.last_state = state
            case {"length": int() as length}:
                self.last_length = length


PlaybackMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPlaybackModel = PlaybackMachine.TestCase

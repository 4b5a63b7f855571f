"""Any order of requests and reports, against a simple model of the track that is selected and of the queue."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.playback_log import PlaybackLog
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.errors import NoPrevious, NotSeekable, TrackNotFound
from tonearm.core.events import Event, PlayerState, PlayerUpdate, QueueUpdate, TrackEnd, TrackException, TrackStart
from tonearm.core.play_queue import LoopMode, SourceId
from tonearm.core.playback import Outcome, Playback
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

LATE_REPORTS: Final[tuple[Callable[[Playback, SourceId], Outcome], ...]] = (
    Playback.first_frame,
    Playback.ended,
    lambda playback, source: playback.opened(source, SourceFacts(title="wrong")),
    lambda playback, source: playback.expanded(source, (make_track("wrong"),)),
    lambda playback, source: playback.failed(source, FILE_MISSING),
    lambda playback, source: playback.interrupted(source, CONNECTION_LOST),
)


@dataclass
class Model:
    """What the interface says about queue, loop and bad sources, by names and without sources."""

    current: str
    queue: list[str] = field(default_factory=list)
    mode: LoopMode = LoopMode.NONE
    has_stopped: bool = False  # idle or failed
    is_failed: bool = False
    gave_audio: set[str] = field(default_factory=set)
    failures_in_a_row: int = 0
    known: dict[str, bool] = field(default_factory=dict)  # what was opened, and whether it can be sought
    sought_ms: int = 0
    has_clock: bool = False
    history: list[tuple[str, bool]] = field(default_factory=list)  # newest last; whether it sounded

    def end(self, *, is_skip: bool = False, comes_back: bool = True) -> None:
        if self.mode is LoopMode.TRACK and not is_skip and comes_back:
            return
        if self.mode is LoopMode.QUEUE and comes_back:
            self.queue.append(self.current)
        self.is_failed = False
        self.has_stopped = not self.queue
        if self.queue:
            self.current = self.queue.pop(0)
        self.sought_ms = 0

    def fail(self) -> None:
        if self.current in self.gave_audio:
            self.end()
            return
        self.failures_in_a_row += 1
        if self.queue and self.failures_in_a_row < 5:
            self.end(comes_back=False)
        else:
            self.has_stopped = self.is_failed = True

    def go_on(self) -> None:
        """A stopped player gets something to play."""
        if self.is_failed:
            self.failures_in_a_row = 0
        if self.queue:
            self.current = self.queue.pop(0)
        self.has_stopped = self.is_failed = False
        self.sought_ms = 0

    def choose(self, name: str) -> None:
        """What a client wants to hear now takes the current track's place."""
        self.current = name
        self.failures_in_a_row = self.sought_ms = 0
        self.has_stopped = self.is_failed = False

    def seek(self, position_ms: int) -> None:
        is_behind_end = self.current in self.known and position_ms >= LENGTH_MS
        if self.has_stopped:
            if not is_behind_end:
                self.choose(self.current)
                self.sought_ms = position_ms
        elif is_behind_end and self.has_clock:
            self.end()
        else:
            self.sought_ms = position_ms

    def finish_if_behind_end(self) -> None:
        if self.has_clock and not self.has_stopped and self.sought_ms >= LENGTH_MS and self.current in self.known:
            self.end()

    def note_end(self, name: str, sounded: bool) -> None:
        if self.history and self.history[-1][0] == name:
            sounded = self.history.pop()[1] or sounded
        self.history.append((name, sounded))
        del self.history[:-50]

    def take_previous(self) -> str | None:
        current = None if self.has_stopped and not self.is_failed else self.current
        for index in reversed(range(len(self.history))):
            name, sounded = self.history[index]
            if sounded and name != current:
                self.history[index:] = [played for played in self.history[index + 1 :] if played[0] != current]
                return name
        return None


LENGTH_MS: Final = 1000


class PlaybackMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = PlaybackLog(make_track("0"))
        self.playback = self.log.playback
        self.model = Model("0")
        self.names = 1
        self.listed: set[str] = set()  # entries of playlists
        self.unreported: set[SourceId | None] = set()  # failed, and no event yet
        self.started: SourceId | None = None
        self.open_start: str | None = None  # the track of a TrackStart without its TrackEnd
        self.last_state = "loading"
        self.last_length = self.last_version = 0
        self.remembers = True

    # Requests

    @rule(count=st.integers(1, 2), index=st.none() | st.integers(0, 4))
    def enqueue(self, count: int = 1, index: int | None = None) -> None:
        names = self._new_names(count)
        place = len(self.model.queue) if index is None else index
        self.model.queue[place:place] = names
        if self.model.has_stopped:
            self.model.go_on()
        self._do(self.playback.enqueue(*map(make_track, names), index=index))

    @rule(position_ms=st.sampled_from((-5, 0, 500, LENGTH_MS, 2 * LENGTH_MS)))
    def seek(self, position_ms: int) -> None:
        if self.model.known.get(self.model.current) is False:
            with pytest.raises(NotSeekable):
                self.playback.seek(position_ms)
            return
        had_started, track = self._has_started(), self.model.current
        was_stopped = self.model.has_stopped
        self.model.seek(max(position_ms, 0))
        ends = len(self.log.events)
        self._do(self.playback.seek(position_ms))
        ended = [event for event in self.log.events[ends:] if isinstance(event, TrackEnd)]
        if had_started and not ended and not was_stopped and self.model.current == track:
            self.started = self.playback.current_source  # it goes on as it was
        if not ended and not self.model.has_stopped:
            assert self.playback.position_ms == max(position_ms, 0)

    @rule(more=st.integers(0, 2))
    def replace(self, more: int) -> None:
        first, *others = self._new_names(1 + more)
        self.model.queue[:0] = others
        self.model.choose(first)
        self._do(self.playback.replace(*map(make_track, (first, *others))))

    @rule()
    def stop(self) -> None:
        if self.model.is_failed or not self.model.has_stopped:
            self.model.failures_in_a_row = 0
        self.model.has_stopped, self.model.is_failed = True, False
        self._do(self.playback.stop())

    @rule()
    def previous(self) -> None:
        was_idle, current = self.model.has_stopped and not self.model.is_failed, self.model.current
        name = self.model.take_previous()
        if name is None:
            with pytest.raises(NoPrevious):
                self.playback.previous()
            return
        self.model.queue = [waiting for waiting in self.model.queue if waiting != name]
        if not was_idle:
            self.model.queue.insert(0, current)
        self.model.choose(name)
        self.remembers = False
        self._do(self.playback.previous())
        self.remembers = True

    @precondition(lambda self: self.model.queue)
    @rule(data=st.data())
    def skip_to(self, data: st.DataObject) -> None:
        model = self.model
        index = data.draw(st.integers(0, len(model.queue) - 1))
        to = model.queue[index]
        passed, rest = model.queue[:index], model.queue[index + 1 :]
        if model.mode is LoopMode.QUEUE:
            rest += [model.current] if not model.has_stopped else []
            rest += passed
        failures = model.failures_in_a_row
        model.choose(to)
        model.failures_in_a_row = failures
        model.queue = rest
        self._do(self.playback.skip(to))

    @precondition(lambda self: self.model.queue)
    @rule(data=st.data())
    def edit_queue(self, data: st.DataObject) -> None:
        queue = self.model.queue
        name = data.draw(st.sampled_from(queue))
        edit = data.draw(st.sampled_from(("remove", "move", "clear", "shuffle")))
        if edit == "remove":
            queue.remove(name)
            self._do(self.playback.remove(name))
        elif edit == "move":
            index = data.draw(st.integers(0, len(queue) + 1))
            queue.remove(name)
            queue.insert(index, name)
            self._do(self.playback.move(name, index))
        elif edit == "clear":
            queue.clear()
            self._do(self.playback.clear_queue())
        else:
            order = data.draw(st.permutations(range(len(queue))))
            self.model.queue = [queue[index] for index in order]
            self._do(self.playback.shuffle(order))

    @rule(name=st.sampled_from(("no such track", "")))
    def what_does_not_wait_is_not_found(self, name: str) -> None:
        for edit in (self.playback.remove, self.playback.skip):
            with pytest.raises(TrackNotFound):
                edit(name)

    @rule()
    def play(self) -> None:
        if self.model.is_failed:
            self.model.go_on()
        elif self.model.has_stopped:
            self.model.has_stopped, self.model.sought_ms = False, 0
        self._do(self.playback.play())

    @rule()
    def pause(self) -> None:
        self._do(self.playback.pause())

    @rule()
    def skip(self) -> None:
        if not (self.model.has_stopped and not self.model.is_failed):
            self.model.end(is_skip=True, comes_back=not self.model.is_failed)
        elif self.model.queue:
            self.model.go_on()
        self._do(self.playback.skip())

    @rule(mode=st.sampled_from(LoopMode))
    def set_loop(self, mode: LoopMode) -> None:
        self.model.mode = mode
        self._do(self.playback.set_loop(mode))

    # Reports of the shell

    @rule()
    def start_clock(self) -> None:
        self.model.has_clock = True
        self._finish_if_behind_end()
        self._do(self.playback.start_clock())

    @precondition(lambda self: self._is_alive(self.playback.current_source))
    @rule(is_seekable=st.booleans())
    def current_opens(self, is_seekable: bool) -> None:
        self.model.known[self.model.current] = is_seekable
        self._finish_if_behind_end()
        self._do(self.playback.opened(self._current(), SourceFacts(length_ms=LENGTH_MS, is_seekable=is_seekable)))

    @precondition(lambda self: self._is_alive(self.playback.current_source) and self.playback.wants_frames)
    @rule()
    def current_starts(self) -> None:
        self.model.gave_audio.add(self.model.current)
        self.model.failures_in_a_row = 0
        self.started = self._current()
        self._do(self.playback.first_frame(self._current()))

    @precondition(lambda self: self._has_started())
    @rule()
    def current_ends(self) -> None:
        self.model.end()
        self._do(self.playback.ended(self.log.close(self._current())))

    @precondition(lambda self: self._has_started())
    @rule()
    def current_is_interrupted(self) -> None:
        self.model.fail()
        self._do(self.playback.interrupted(self.log.close(self._current()), CONNECTION_LOST))

    @precondition(lambda self: self._is_alive(self.playback.current_source) and not self._has_started())
    @rule()
    def current_fails(self) -> None:
        self.unreported.add(self._current())
        self._do(self.playback.failed(self.log.close(self._current()), FILE_MISSING))

    @precondition(lambda self: self._is_alive(self.playback.next_source))
    @rule(opens=st.booleans())
    def next_opens_or_fails(self, opens: bool) -> None:
        source = self.playback.next_source
        assert source is not None
        if opens:
            self.model.known[self._next_track()] = True
            self._finish_if_behind_end()
            self._do(self.playback.opened(source, SourceFacts(length_ms=LENGTH_MS, is_seekable=True)))
        else:
            self.unreported.add(source)
            self._do(self.playback.failed(self.log.close(source), FILE_MISSING))

    @precondition(lambda self: self._is_alive(self.playback.current_source) and not self._has_started())
    @precondition(lambda self: self.model.current not in self.listed)
    @rule(count=st.integers(1, 3))
    def current_expands(self, count: int) -> None:
        tracks = self._entries(count)
        self.model.current, *others = (track.id for track in tracks)
        self.model.queue[:0] = others
        self._do(self.playback.expanded(self.log.close(self._current()), tracks))

    @precondition(lambda self: self._is_alive(self.playback.next_source))
    @precondition(lambda self: self._next_track() in self.model.queue and self._next_track() not in self.listed)
    @rule(count=st.integers(1, 3))
    def next_expands(self, count: int) -> None:
        source = self.playback.next_source
        assert source is not None
        tracks = self._entries(count)
        self.model.queue[:1] = (track.id for track in tracks)
        self._do(self.playback.expanded(self.log.close(source), tracks))

    @rule()
    def next_is_due(self) -> None:
        self._do(self.playback.next_is_due())

    @rule(recovers=st.booleans())
    def underrun_or_recovery(self, recovers: bool) -> None:
        self._do(self.playback.recovered() if recovers else self.playback.underrun())

    @rule(source=st.integers(-1, 30), report=st.sampled_from(LATE_REPORTS))
    def late_report(self, source: SourceId, report: Callable[[Playback, SourceId], Outcome]) -> None:
        if source not in (self.playback.current_source, self.playback.next_source):
            outcome = report(self.playback, source)
            assert outcome == Outcome()

    # What must hold

    @invariant()
    def the_right_track_is_selected(self) -> None:
        assert self.playback.current.id == self.model.current
        assert [track.id for track in self.playback.queue] == self.model.queue

    @invariant()
    def the_state_fits(self) -> None:
        state = self.playback.state
        assert (state is PlayerState.FAILED) == self.model.is_failed
        assert (state is PlayerState.IDLE) == (self.model.has_stopped and not self.model.is_failed)
        assert (self.playback.current_source is None) == self.model.has_stopped
        assert self.playback.next_source is None or not self.model.has_stopped
        assert self.last_state == state.value
        assert self.last_length == self.playback.queue_length
        assert self.last_version == self.playback.queue_version
        assert [played.track.id for played in self.playback.history] == [name for name, _ in self.model.history[::-1]]

    @invariant()
    def only_wanted_sources_are_open(self) -> None:
        wanted = {self.playback.current_source, self.playback.next_source} - self.unreported - {None}
        assert set(self.log.open_sources) == wanted
        if self.playback.current_source in wanted:
            assert self.log.open_sources[self._current()] == self.model.current
        if self.playback.next_source in wanted and self.playback.next_source is not None:
            assert self.log.open_sources[self.playback.next_source] == self._next_track()

    @invariant()
    def failures_are_kept_only_before_their_turn(self) -> None:
        if self.playback.wants_frames:
            assert self.playback.current_source not in self.unreported

    def teardown(self) -> None:
        """Whatever happened, the player can still be brought to play, and ends properly."""
        self.start_clock()
        self.play()
        self.enqueue()
        assert self.playback.wants_frames
        assert self.playback.current_source in self.log.open_sources
        self._do(self.playback.delete())
        assert self.open_start is None
        assert self.log.open_sources == {}

    # Helpers

    def _current(self) -> SourceId:
        assert self.playback.current_source is not None
        return self.playback.current_source

    def _next_track(self) -> str:
        """What comes next when the current track ends."""
        model = replace(self.model, queue=list(self.model.queue))
        model.end()
        return model.current

    def _entries(self, count: int) -> tuple[Track, ...]:
        names = self._new_names(count)
        self.listed.update(names)
        return tuple(make_track(name, is_playlist_entry=True) for name in names)

    def _finish_if_behind_end(self) -> None:
        """A failure that is kept for its turn comes before a seek that is."""
        if self.playback.current_source not in self.unreported:
            self.model.finish_if_behind_end()

    def _new_names(self, count: int) -> list[str]:
        names = [str(self.names + number) for number in range(count)]
        self.names += count
        return names

    def _is_alive(self, source: SourceId | None) -> bool:
        return source is not None and source not in self.unreported

    def _has_started(self) -> bool:
        return self.playback.current_source is not None and self.playback.current_source == self.started

    def _do(self, outcome: Outcome) -> None:
        """Carries out and checks `outcome`. What the call itself does was done to the model before; failures that
        had been kept, and whose turn came with the call, are done to it here."""
        self.log.do(outcome)
        for event in outcome.events:
            self._check(event)
        self.unreported &= {self.playback.current_source, self.playback.next_source}

    def _check(self, event: Event) -> None:
        match event:
            case TrackException(track, failure=failure) if failure == FILE_MISSING:
                assert track.info.title == self.model.current
                assert self.playback.clock_started
                assert not self.playback.paused
                self.model.fail()
            case TrackEnd(track):
                assert self.open_start in (None, track.info.title)
                if self.remembers:
                    self.model.note_end(track.info.title, self.open_start is not None)
                self.open_start = None
            case TrackStart(track):
                assert self.open_start is None
                self.open_start = track.info.title
            case PlayerUpdate(state):
                self.last_state = state
            case QueueUpdate(length, version):
                assert version == self.last_version + 1
                self.last_length, self.last_version = length, version


PlaybackMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPlaybackModel = PlaybackMachine.TestCase

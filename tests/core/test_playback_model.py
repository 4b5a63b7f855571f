"""Any order of requests and reports, against a simple model of the selected track, of the position in it, and of the
queue."""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.playback_log import PlaybackLog
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.errors import NoPrevious, NotSeekable, TrackNotFound
from tonearm.core.events import (
    Event,
    LoopModeChange,
    PlayerPause,
    PlayerResume,
    PlayerState,
    PlayerUpdate,
    QueueUpdate,
    Seek,
    SeekFailed,
    TrackEnd,
    TrackException,
    TrackStart,
    TrackStuck,
)
from tonearm.core.failure import FailureCode, PlayFailure, own_error
from tonearm.core.play_queue import DropAction, EndReason, LoopMode, OpenAction, SeekAction, SourceId
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.track import MOST_LISTS, Track
from tonearm.core.track_info import SourceFacts

PLAIN_REPORTS: Final = Playback.next_is_due, Playback.next_is_not_due, Playback.underrun, Playback.recovered
LATE_REPORTS: Final[tuple[Callable[[Playback, SourceId], Outcome], ...]] = (
    Playback.first_frame,
    Playback.ended,
    lambda playback, source: playback.opened(source, SourceFacts(title="wrong")),
    lambda playback, source: playback.seek_failed(source, "late"),
    lambda playback, source: playback.retitled(source, "late"),
    lambda playback, source: playback.expanded(source, (make_track("wrong"),)),
    lambda playback, source: playback.failed(source, FILE_MISSING),
)


@dataclass
class Model:
    """What the interface says about queue, loop and bad sources, by names and without sources."""

    current: str
    queue: list[str] = field(default_factory=list)
    mode: LoopMode = LoopMode.NONE
    paused: bool = False
    has_stopped: bool = False  # idle or failed
    is_failed: bool = False
    gave_audio: set[str] = field(default_factory=set)
    failures: Counter[str] = field(default_factory=Counter)  # by track, since it gave audio
    own_error_ms: float = -math.inf
    failures_in_a_row: int = 0
    known: dict[str, bool] = field(default_factory=dict)  # what was opened, and whether it can be sought
    sought_ms: int = 0
    position_ms: int = 0
    played_ms: int = 0  # of the current track, since it was selected
    # What has to be told: which track ended, where, how much of it was played, and why
    ends: list[tuple[str, int, int, EndReason]] = field(default_factory=list)
    has_clock: bool = False
    history: list[tuple[str, bool]] = field(default_factory=list)  # newest last; whether it sounded

    @property
    def is_idle(self) -> bool:
        return self.has_stopped and not self.is_failed

    def leave(self, reason: EndReason) -> None:
        """The current track ends where it is. An idle player has none to end."""
        if not self.is_idle:
            self.ends.append((self.current, self.position_ms, self.played_ms, reason))
            self.played_ms = 0

    def begin(self, position_ms: int = 0) -> None:
        self.position_ms = self.sought_ms = position_ms

    def end(self, reason: EndReason, *, comes_back: bool = True, stops_at_ms: int | None = None) -> None:
        """`stops_at_ms`: where an idle player stands after it; None: where the track ended."""
        self.leave(reason)
        if self.mode is LoopMode.TRACK and reason is not EndReason.SKIPPED and comes_back:
            self.begin()
            return
        if self.mode is LoopMode.QUEUE and comes_back:
            self.queue.append(self.current)
        self.is_failed = False
        self.has_stopped = not self.queue
        if self.queue:
            self.current = self.queue.pop(0)
            self.begin()
        else:
            self.sought_ms = 0
            self.position_ms = self.position_ms if stops_at_ms is None else stops_at_ms

    def fail(self, own_error_ms: float | None = None) -> None:
        """A second error of the node's own within a minute is no track's fault."""
        stops = own_error_ms is not None and own_error_ms - self.own_error_ms <= 60_000
        self.own_error_ms = self.own_error_ms if own_error_ms is None else own_error_ms
        sounded = self.current in self.gave_audio
        if sounded:
            self.failures[self.current] += 1
        else:
            self.failures_in_a_row += 1
            stops = stops or not self.queue or self.failures_in_a_row >= 5
        if stops:
            self.leave(EndReason.LOAD_FAILED)
            self.has_stopped = self.is_failed = True
        else:
            self.end(EndReason.LOAD_FAILED, comes_back=sounded)

    def go_on(self) -> None:
        """A stopped player gets something to play."""
        if self.is_failed:
            self.failures_in_a_row = 0
        if self.queue:
            self.current = self.queue.pop(0)
        self.has_stopped = self.is_failed = False
        self.begin()

    def choose(self, name: str) -> None:
        """What a client wants to hear now takes the current track's place."""
        self.current = name
        self.failures_in_a_row = 0
        self.has_stopped = self.is_failed = False
        self.begin()

    def seek(self, position_ms: int) -> None:
        is_behind_end = self.current in self.known and position_ms >= LENGTH_MS
        if self.has_stopped:
            if not is_behind_end:
                self.choose(self.current)
                self.begin(position_ms)
        elif is_behind_end and self.has_clock:
            self.end(EndReason.FINISHED, stops_at_ms=LENGTH_MS)
        else:
            self.begin(position_ms)

    def finish_if_behind_end(self) -> None:
        if self.has_clock and not self.has_stopped and self.sought_ms >= LENGTH_MS and self.current in self.known:
            self.end(EndReason.FINISHED, stops_at_ms=LENGTH_MS)

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
DELAYS_S: Final = (0, 1, 2, 4, 8, 16, 30)  # before a track is opened again, by its failures
OWN_ERROR: Final = own_error(LookupError("samples 5 to 6"))

IN_ORDER: Final = re.compile(
    r"(QueueDetails )?((PlayerPause|PlayerResume|Seek|SeekFailed|LoopModeChange) )?"
    r"(((TrackException )?TrackEnd (QueueUpdate )?)+|QueueUpdate )?"
    r"(TrackStart )?(PlayerUpdate |PlayerDelete )?"
)
"""The events of one action."""


PLACES: Final = st.sampled_from((0, 1, 2, 3, 10**30))


class PlaybackMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = PlaybackLog(make_track("0"))
        self.playback = self.log.playback
        self.model = Model("0")
        self.names = 1
        self.listed: dict[str, int] = {}  # entries of playlists, and in how many they are
        self.unreported: set[SourceId | None] = set()  # failed, and no event yet
        self.started: SourceId | None = None
        self.open_start: str | None = None  # the track of a TrackStart without its TrackEnd
        self.last_state, self.last_paused = "loading", False
        self.last_length = self.last_version = 0
        self.remembers = True
        self.fading: set[SourceId] = set()  # sources that sound under a later track
        self.last_error: PlayFailure | None = None

    # What often comes before something else

    @initialize(count=st.sampled_from((0, 1, 2, 3, 7)), mode=st.sampled_from(LoopMode))
    def tracks_wait(self, count: int, mode: LoopMode) -> None:
        self.enqueue(count)
        self.set_loop(mode)

    @rule(by_ms=st.sampled_from((20, 100, 480)))
    def all_goes_well(self, by_ms: int = 100) -> None:
        """As it mostly does: otherwise hardly anything ever played."""
        self.start_clock()
        self.play()
        if self._is_alive(self.playback.current_source) and not self._has_started():
            if self.model.current not in self.model.known:
                self.current_opens(is_seekable=True)
            if self._is_alive(self.playback.current_source):
                self.current_starts()
        if self._has_started() and self.playback.wants_frames:
            self.frames_are_sent(by_ms)
        self.plain_report(Playback.next_is_due)

    @rule(count=st.integers(1, 3))
    def tracks_pass(self, count: int) -> None:
        for _ in range(count):
            self.all_goes_well()
            if self._has_started():
                self.current_ends()

    @rule(count=st.sampled_from((1, 2, 5)))
    def tracks_fail(self, count: int) -> None:
        """Five in a row are too many, whatever waits behind them."""
        self.enqueue(count + 1)
        self.start_clock()
        self.play()
        for _ in range(count):
            if self._has_started():
                self.current_is_interrupted()
            if self._is_alive(self.playback.current_source):
                self.current_fails()

    # Requests

    @rule(count=st.integers(1, 2), index=st.none() | PLACES)
    def enqueue(self, count: int = 1, index: int | None = None) -> None:
        names, queue = self._new_names(count), list(self.model.queue)
        place = len(queue) if index is None else index
        queue[place:place] = names
        if self.model.has_stopped:
            self.model.queue = queue
            self.model.go_on()
            self._do(self.playback.enqueue(*map(make_track, names), index=index))
        else:
            self._edit(queue, lambda: self.playback.enqueue(*map(make_track, names), index=index))

    @rule(position_ms=st.sampled_from((-5, 0, 500, LENGTH_MS, 2 * LENGTH_MS)))
    def seek(self, position_ms: int) -> None:
        if self.model.known.get(self.model.current) is False:
            with pytest.raises(NotSeekable):
                self.playback.seek(position_ms)
            return
        had_started, track = self._has_started(), self.model.current
        was_stopped, from_ms = self.model.has_stopped, self.model.position_ms
        self.model.seek(max(position_ms, 0))
        ends, ahead = len(self.log.events), self.playback.next_source
        self._do(self.playback.seek(position_ms), at_once=True)
        seeks = [event for event in self.log.events[ends:] if isinstance(event, Seek)]
        assert seeks in ([], [Seek(track, from_ms, max(position_ms, 0))])
        ended = [event for event in self.log.events[ends:] if isinstance(event, TrackEnd)]
        if had_started and not ended and not was_stopped and self.model.current == track:
            self.started = self.playback.current_source  # it goes on as it was
        if ended or not self.model.has_stopped:
            assert bool(seeks) is not bool(ended)
        if seeks and not was_stopped:
            assert self.playback.next_source == (ahead if max(position_ms, 0) >= from_ms else None)

    @rule(more=st.integers(0, 2))
    def replace(self, more: int) -> None:
        first, *others = self._new_names(1 + more)
        self.model.queue[:0] = others
        self.model.leave(EndReason.REPLACED)
        self.model.choose(first)
        self._do(self.playback.replace(*map(make_track, (first, *others))))

    @rule()
    def stop(self) -> None:
        if self.model.is_failed or not self.model.has_stopped:
            self.model.failures_in_a_row = 0
        self.model.leave(EndReason.STOPPED)
        self.model.sought_ms = 0
        self.model.has_stopped, self.model.is_failed = True, False
        self._do(self.playback.stop())
        assert self.playback.stop() == Outcome()

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
        self.model.leave(EndReason.REPLACED)
        self.model.choose(name)
        self.remembers = was_idle
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
        model.leave(EndReason.SKIPPED)
        model.choose(to)
        model.failures_in_a_row = failures
        model.queue = rest
        self._skip(to)

    @rule()
    def clear_queue(self) -> None:
        self._edit([], self.playback.clear_queue)

    @rule(data=st.data())
    def shuffle(self, data: st.DataObject) -> None:
        order = data.draw(st.permutations(range(len(self.model.queue))))
        self._edit([self.model.queue[index] for index in order], lambda: self.playback.shuffle(order))

    @precondition(lambda self: self.model.queue)
    @rule(data=st.data(), index=st.none() | PLACES)
    def remove_or_move(self, data: st.DataObject, index: int | None) -> None:
        name = data.draw(st.sampled_from(self.model.queue))
        queue = [waiting for waiting in self.model.queue if waiting != name]
        if index is None:
            self._edit(queue, lambda: self.playback.remove(name))
        else:
            queue[index:index] = [name]
            self._edit(queue, lambda: self.playback.move(name, index))

    @rule(name=st.sampled_from(("no such track", "", None)))
    def what_does_not_wait_is_not_found(self, name: str | None) -> None:
        name = self.model.current if name is None else name
        for edit in (self.playback.remove, self.playback.skip, lambda name: self.playback.move(name, 0)):
            with pytest.raises(TrackNotFound):
                edit(name)

    @rule()
    def play(self) -> None:
        was_paused, self.model.paused = self.model.paused, False
        resume = PlayerResume(self.playback.position_ms)
        if self.model.is_failed:
            self.model.go_on()
        elif self.model.has_stopped:
            self.model.has_stopped = False
            self.model.begin()
        outcome = self.playback.play()
        assert (outcome.events[:1] == (resume,)) is was_paused
        self._do(outcome, at_once=True)

    @rule()
    def pause(self) -> None:
        was_paused, self.model.paused = self.model.paused, True
        outcome = self.playback.pause()
        assert (PlayerPause(self.model.position_ms) in outcome.events) is not was_paused
        self._do(outcome)

    @rule()
    def skip(self) -> None:
        if not (self.model.has_stopped and not self.model.is_failed):
            self.model.end(EndReason.SKIPPED, comes_back=not self.model.is_failed)
        elif self.model.queue:
            self.model.go_on()
        self._skip()

    @rule(mode=st.sampled_from(LoopMode))
    def set_loop(self, mode: LoopMode) -> None:
        is_change, self.model.mode = mode is not self.model.mode, mode
        outcome = self.playback.set_loop(mode)
        assert outcome.events == (LoopModeChange(mode),) * is_change
        self._do(outcome)

    # Reports of the shell

    @precondition(lambda self: self._has_started() and self.playback.wants_frames)
    @rule(by_ms=st.sampled_from((20, 100, 480)))
    def frames_are_sent(self, by_ms: int) -> None:
        self.playback.position_ms += by_ms
        self.model.position_ms += by_ms
        self.model.played_ms += by_ms

    @precondition(lambda self: self._is_alive(self.playback.current_source) and self.model.sought_ms)
    @rule()
    def current_cannot_be_sought(self) -> None:
        self.model.begin()
        outcome = self.playback.seek_failed(self._current(), "not_seekable")
        assert outcome == Outcome((SeekFailed(self.model.current, "not_seekable", 0),))
        self._do(outcome)

    @precondition(lambda self: self._is_alive(self.playback.next_source))
    @rule()
    def next_cannot_be_sought(self) -> None:
        """The event comes when it starts, which it cannot do before its turn."""
        source = self.playback.next_source
        assert source is not None
        assert self.playback.first_frame(source) == Outcome()
        assert self.playback.seek_failed(source, "not_seekable") == Outcome()

    @precondition(lambda self: self._has_started() and self._is_alive(self.playback.next_source))
    @rule()
    def current_fades_into_the_next(self) -> None:
        """Its end is reported when the next one begins; it stays open for as long as it sounds under that one."""
        source = self._current()
        self.fading.add(source)
        self.model.end(EndReason.FINISHED)
        self._do(self.playback.ended(source))

    @precondition(lambda self: self.fading)
    @rule()
    def a_fade_is_over(self) -> None:
        self.log.close(self.fading.pop())

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
        self._do(
            self.playback.opened(
                self._current(), SourceFacts(length_ms=LENGTH_MS, is_seekable=is_seekable, is_length_exact=True)
            )
        )

    @precondition(lambda self: self._is_alive(self.playback.current_source) and self.playback.wants_frames)
    @rule()
    def current_starts(self) -> None:
        self.model.gave_audio.add(self.model.current)
        self.model.failures_in_a_row = self.model.failures[self.model.current] = 0
        self.last_error = None
        self.started = self._current()
        self._do(self.playback.first_frame(self._current()))

    @precondition(lambda self: self._has_started())
    @rule()
    def current_ends(self) -> None:
        self.model.end(EndReason.FINISHED)
        self._do(self.playback.ended(self.log.close(self._current())))

    @precondition(lambda self: self._has_started())
    @rule(failure=st.sampled_from((CONNECTION_LOST, OWN_ERROR)), after_ms=st.sampled_from((0, 60_000, 60_001)))
    def current_is_interrupted(self, failure: PlayFailure = CONNECTION_LOST, after_ms: int = 0) -> None:
        self.log.now_ms += after_ms
        self._do(self.playback.failed(self.log.close(self._current()), failure))

    @precondition(lambda self: self._has_started())
    @rule()
    def current_turns_out_to_be_a_playlist(self) -> None:
        self._do(self.playback.expanded(self.log.close(self._current()), (make_track("wrong"),)))

    @precondition(lambda self: self._is_alive(self.playback.current_source) and not self._has_started())
    @rule(failure=st.sampled_from((FILE_MISSING, OWN_ERROR)))
    def current_fails(self, failure: PlayFailure = FILE_MISSING) -> None:
        self.unreported.add(self._current())
        self._do(self.playback.failed(self.log.close(self._current()), failure))

    @precondition(lambda self: self._is_alive(self.playback.current_source) and not self._has_started())
    @precondition(lambda self: self.playback.wants_frames)
    @rule()
    def current_ends_without_a_sound(self) -> None:
        """Which is a failure, unless it may have been sought behind its end."""
        if self.model.sought_ms:
            self.model.end(EndReason.FINISHED)
        else:
            self.unreported.add(self._current())
        self._do(self.playback.ended(self.log.close(self._current())))

    @precondition(lambda self: self._is_alive(self.playback.next_source))
    @rule(opens=st.booleans())
    def next_opens_or_fails(self, opens: bool) -> None:
        source = self.playback.next_source
        assert source is not None
        if opens:
            self.model.known[self._next_track()] = True
            self._finish_if_behind_end()
            self._do(
                self.playback.opened(source, SourceFacts(length_ms=LENGTH_MS, is_seekable=True, is_length_exact=True))
            )
        else:
            self.unreported.add(source)
            self._do(self.playback.failed(self.log.close(source), FILE_MISSING))
            assert self.playback.expanded(source, (make_track("late"),)) == Outcome()

    @precondition(lambda self: self._is_alive(self.playback.current_source) and not self._has_started())
    @rule(count=st.integers(1, 3))
    def current_expands(self, count: int) -> None:
        tracks = self._entries(count, self.model.current)
        if self.listed.get(self.model.current, 0) < MOST_LISTS:
            self.model.current, *others = (track.id for track in tracks)
            self.model.queue[:0] = others
        else:
            self.unreported.add(self._current())
        self._do(self.playback.expanded(self.log.close(self._current()), tracks))

    @precondition(lambda self: self._is_alive(self.playback.next_source))
    @rule(count=st.integers(1, 3))
    def next_expands(self, count: int) -> None:
        """A track that a loop repeats is left as it is until its turn."""
        source, name = self.playback.next_source, self._next_track()
        assert source is not None
        tracks = self._entries(count, name)
        if name in self.model.queue and self.listed.get(name, 0) < MOST_LISTS:
            self.model.queue[:1] = (track.id for track in tracks)
        else:
            self.unreported.add(source)
        self._do(self.playback.expanded(self.log.close(source), tracks))

    @rule(report=st.sampled_from(PLAIN_REPORTS))
    def plain_report(self, report: Callable[[Playback], Outcome]) -> None:
        is_loading = not self._has_started() and not self.model.paused
        outcome = report(self.playback)
        assert outcome == Outcome() or not is_loading or report is not Playback.recovered
        self._do(outcome)

    @rule(source=st.integers(-1, 30), report=st.sampled_from(LATE_REPORTS))
    def late_report(self, source: SourceId, report: Callable[[Playback, SourceId], Outcome]) -> None:
        if source not in (self.playback.current_source, self.playback.next_source):
            outcome = report(self.playback, source)
            assert outcome == Outcome()

    @rule()
    def current_is_stuck(self) -> None:
        told = TrackStuck(self.playback.current, {}, self.model.position_ms, 10_000, "it is silent")
        outcome = self.playback.stuck(self.playback.current_source or 0, 10_000, "it is silent")
        assert outcome == Outcome((told,) if self.playback.stalled else ())

    # What must hold

    @invariant()
    def the_right_track_is_selected_and_the_state_fits(self) -> None:
        assert self.playback.current.id == self.model.current
        assert [track.id for track in self.playback.queue] == self.model.queue
        state = self.playback.state
        assert (state is PlayerState.FAILED) == self.model.is_failed
        assert (state is PlayerState.IDLE) == (self.model.has_stopped and not self.model.is_failed)
        assert (self.playback.current_source is None) == self.model.has_stopped
        assert self.playback.next_source is None or not self.model.has_stopped
        assert self.last_state == state.value
        assert self.playback.paused == self.last_paused == self.model.paused
        assert self.last_length == self.playback.queue_length
        assert self.last_version == self.playback.queue_version
        assert [(played.track.id, played.sounded) for played in self.playback.history] == self.model.history[::-1]
        current = self.playback.current_source
        is_stalled = self.last_state == "loading" and self.model.has_clock and current not in self.unreported
        assert self.playback.stalled == (current if is_stalled else None)
        assert self.playback.position_ms == self.model.position_ms
        assert self.model.ends == [], "an end without its event"
        assert self.playback.error == self.last_error

    @invariant()
    def only_wanted_sources_are_open(self) -> None:
        wanted = {self.playback.current_source, self.playback.next_source} - self.unreported - {None}
        assert self.fading <= set(self.log.open_sources), "what fades out was dropped"
        assert set(self.log.open_sources) - self.fading == wanted
        if self.playback.current_source in wanted:
            assert self.log.open_sources[self._current()] == self.model.current
        if self.playback.next_source in wanted and self.playback.next_source is not None:
            assert self.log.open_sources[self.playback.next_source] == self._next_track()
            assert not self.model.failures[self._next_track()], "its delay is not over"
        if self.playback.wants_frames:
            assert self.playback.current_source not in self.unreported, "its failure has to be told"

    def teardown(self) -> None:
        """Whatever happened, the player can still be brought to play, and ends properly."""
        self.start_clock()
        self.play()
        self.enqueue()
        assert self.playback.wants_frames
        assert self.playback.current_source in self.log.open_sources
        self.model.leave(EndReason.STOPPED)
        self._do(self.playback.delete())
        assert self.open_start is None
        assert set(self.log.open_sources) == self.fading

    # Helpers

    def _current(self) -> SourceId:
        assert self.playback.current_source is not None
        return self.playback.current_source

    def _next_track(self) -> str:
        """What comes next when the current track ends."""
        model = replace(self.model, queue=list(self.model.queue), ends=[])
        model.end(EndReason.FINISHED)
        return model.current

    def _entries(self, count: int, playlist: str) -> tuple[Track, ...]:
        names = self._new_names(count)
        self.listed.update(dict.fromkeys(names, self.listed.get(playlist, 0) + 1))
        return tuple(make_track(name, lists=("",)) for name in names)

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

    def _edit(self, queue: list[str], edit: Callable[[], Outcome]) -> None:
        """The queue becomes `queue`. An order that is the same is no change, and what comes next stays opened ahead."""
        version, was_open = self.playback.queue_version, self.playback.next_source is not None
        is_change, self.model.queue = queue != self.model.queue, queue
        self._do(edit())
        assert self.playback.queue_version == version + is_change
        comes_next = queue or self.model.mode is not LoopMode.NONE
        if was_open and comes_next and self._next_track() not in self.model.gave_audio:
            assert self.playback.next_source is not None

    def _has_started(self) -> bool:
        return self.playback.current_source is not None and self.playback.current_source == self.started

    def _skip(self, to: str | None = None) -> None:
        ahead = self.playback.next_source
        outcome = self.playback.skip(to)
        assert outcome.skips_to_open is (ahead is not None and self.playback.current_source == ahead)
        self._do(outcome, is_skip=True)

    def _do(self, outcome: Outcome, *, is_skip: bool = False, at_once: bool = False) -> None:
        """Carries out and checks `outcome`. What the call itself does was done to the model before; failures that
        had been kept, and whose turn came with the call, are done to it here."""
        self.log.do(outcome)
        assert is_skip or not outcome.skips_to_open
        kinds = "".join(f"{type(event).__name__} " for event in outcome.events)
        assert IN_ORDER.fullmatch(kinds), kinds
        for event in outcome.events:
            self._check(event)
        for action in outcome.actions:
            source = action.new_source if isinstance(action, SeekAction) else action.source
            if isinstance(action, OpenAction):
                delay_s = DELAYS_S[min(self.model.failures[action.track.id], 6)]
                assert action.delay_s == delay_s or (at_once and not action.delay_s)
            if not isinstance(action, DropAction) and source == self.playback.current_source:
                assert action.start_ms == self.playback.position_ms
        self.unreported &= {self.playback.current_source, self.playback.next_source}

    def _check(self, event: Event) -> None:
        match event:
            case TrackException(track, failure=failure):
                assert track.info.title == self.model.current
                if self.open_start is None:
                    assert self.playback.clock_started
                    assert not self.playback.paused
                self.last_error = failure
                self.model.fail(self.log.now_ms if failure.code is FailureCode.INTERNAL else None)
            case TrackEnd(track):
                assert self.open_start in (None, track.info.title)
                end = track.info.title, event.position_ms, event.played_ms, event.reason
                assert self.model.ends.pop(0) == end
                if self.remembers:
                    self.model.note_end(track.info.title, self.open_start is not None)
                self.remembers, self.open_start = True, None
            case TrackStart(track):
                assert self.open_start is None
                assert (track.info.title, event.position_ms) == (self.model.current, self.model.position_ms)
                self.open_start = track.info.title
            case PlayerUpdate(state):
                assert (event.paused, event.position_ms) == (self.playback.paused, self.playback.position_ms)
                self.last_state, self.last_paused = state, event.paused
            case QueueUpdate(length, version):
                assert version == self.last_version + 1
                self.last_length, self.last_version = length, version


PlaybackMachine.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=40)
TestPlaybackModel = PlaybackMachine.TestCase

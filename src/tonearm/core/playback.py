"""The rules of a player: a state machine without I/O and without a clock.

The shell does what an `Outcome` asks for and reports what became of it. Every report names its source; a report about
a source that is not the sounding or the following one (any more) changes nothing, so late reports need no care.
A source that was reported as failed, ended, broken off or expanded is gone; no `Drop` follows for it.

What a call on a player's rules leads to: events to emit, sources to open or drop.
"""

from dataclasses import dataclass, replace
from typing import Final

from tonearm.core import events
from tonearm.core.errors import LimitReached
from tonearm.core.events import Event, PlayerState
from tonearm.core.failure import ENDED_WITHOUT_AUDIO, NESTED_PLAYLIST, TURNED_PLAYLIST, PlayFailure
from tonearm.core.filters import FilterChange, Filters
from tonearm.core.json_value import Json
from tonearm.core.metadata import apply_metadata, is_same_json
from tonearm.core.play_queue import Action, Drop, EndReason, LoopMode, Open, PlayQueue, QueuedTrack, Selection, SourceId
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts


@dataclass(frozen=True, slots=True)
class Outcome:
    """Both parts in the order in which they are to be done."""

    events: tuple[Event, ...] = ()
    actions: tuple[Action, ...] = ()


__all__ = ["Action", "Drop", "Open", "Outcome", "Playback", "PlayerState", "SourceId"]

_FAILURES_BEFORE_STOP: Final = 5
_ACTIVE_STATES: Final = (PlayerState.LOADING, PlayerState.PLAYING)


class Playback:
    """One player, from `begin` to `delete`; nothing is to be called after `delete`.

    `position_ms` is the position in the current track. The shell sets it; it is 0 again whenever a track is selected.
    """

    def __init__(self, player_id: str, first_track: Track, metadata: Json, *, max_waiting_tracks: int = 10_000) -> None:
        self.player_id: Final = player_id
        self.position_ms = 0
        self._max_waiting_tracks = max_waiting_tracks
        self._state = PlayerState.LOADING
        self._paused = False
        self._clock_started = False
        self._filters = Filters()
        self._metadata = metadata
        self._queue = PlayQueue(QueuedTrack(first_track))
        self._failures_in_a_row = 0  # of tracks that never gave audio
        self._events: list[Event] = []

    # What the player is

    @property
    def state(self) -> PlayerState:
        return self._state

    @property
    def paused(self) -> bool:
        return self._paused

    @property
    def clock_started(self) -> bool:
        return self._clock_started

    @property
    def current(self) -> Track:
        """The selected track; an idle or failed player keeps its last one."""
        return self._queue.current.track

    @property
    def waiting(self) -> tuple[Track, ...]:
        return tuple(entry.track for entry in self._queue.waiting)

    @property
    def queue_length(self) -> int:
        return len(self._queue.waiting)

    @property
    def loop_mode(self) -> LoopMode:
        return self._queue.loop_mode

    @property
    def filters(self) -> Filters:
        return self._filters

    @property
    def metadata(self) -> Json:
        return self._metadata

    @property
    def sounding(self) -> SourceId | None:
        """The source that sounds or shall sound now; None when idle or failed."""
        return None if self._queue.sounding is None else self._queue.sounding.source

    @property
    def following(self) -> SourceId | None:
        """The source to be joined after the sounding one without a gap."""
        return None if self._queue.following is None else self._queue.following.source

    @property
    def wants_frames(self) -> bool:
        return self._clock_started and not self._paused and self._state in _ACTIVE_STATES

    @property
    def stalled(self) -> SourceId | None:
        """The source whose sound is missing in mid-track, as long as it is waited for, paused or not."""
        sounding = self._queue.sounding
        if self._state is not PlayerState.LOADING or sounding is None or not sounding.has_started:
            return None
        return sounding.source

    # What the shell reports

    def begin(self) -> Outcome:
        """Opens the first track. To be called once, before anything else."""
        self._queue.open_current()
        return self._outcome()

    def start_clock(self) -> Outcome:
        """The first listener is there, or was waited for long enough: a failure kept until now is told."""
        self._clock_started = True
        self._tell_due_failures()
        return self._outcome()

    def opened(self, source: SourceId, facts: SourceFacts) -> Outcome:
        attempt = self._queue.attempt(source)
        if attempt is not None:
            attempt.is_opened = True
            facts = replace(facts, title=attempt.stream_title or facts.title)
            attempt.entry.track = attempt.entry.track.with_facts(facts)
        return self._outcome()

    def expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> Outcome:
        """The source is a playlist of these tracks, one at least. They take its place; it was no track itself. What the
        client said of it, its metadata, is theirs.

        The first one is opened where the playlist was; the others go to the front of what waits. The last ones are left
        out when too many would wait.
        """
        attempt = self._queue.attempt(source)
        if attempt is None or attempt.failure is not None:
            return self._outcome()
        if attempt.entry.track.is_playlist_entry:
            return self.failed(source, NESTED_PLAYLIST)
        if attempt.has_started:
            return self.broke_off(source, TURNED_PLAYLIST)
        was_waiting = self._queue.waiting
        # The playlist gives its own place to the first of them.
        room = max(self._max_waiting_tracks - len(was_waiting), 0) + 1
        metadata = attempt.entry.track.metadata
        entries = tuple(QueuedTrack(replace(track, metadata=metadata)) for track in tracks[:room])
        if attempt is self._queue.sounding:
            self.position_ms = 0
            self._queue.replace_current(entries)
        elif not self._queue.replace_following(entries):
            return self.failed(source, TURNED_PLAYLIST)
        if len(self._queue.waiting) != len(was_waiting):
            self._events.append(events.queue_update(self.queue_length))
        return self._outcome()

    def failed(self, source: SourceId, failure: PlayFailure) -> Outcome:
        """The source cannot be opened or gave no audio. Told when its turn to sound comes."""
        attempt = self._queue.attempt(source)
        if attempt is not None and attempt.has_started:
            return self.broke_off(source, failure)
        if attempt is not None and attempt.failure is None:
            attempt.failure = failure
            self._tell_due_failures()
        return self._outcome()

    def first_frame(self, source: SourceId) -> Outcome:
        """The first frame of the source is about to be sent."""
        attempt = self._queue.sounding_attempt(source)
        if attempt is not None and not attempt.has_started and attempt.failure is None:
            attempt.has_started = True
            attempt.entry.gave_audio = True
            attempt.entry.failures = 0
            self._failures_in_a_row = 0
            self._events.append(events.track_start(attempt.entry.track, self._metadata))
            self._enter(PlayerState.PLAYING)
        return self._outcome()

    def ended(self, source: SourceId) -> Outcome:
        """The last frame of the source was sent and nothing went wrong.

        When the following source is opened the state stays `playing`: `first_frame` of it is expected in the same
        tick, and `ran_dry` when there is none.
        """
        attempt = self._queue.sounding_attempt(source)
        if attempt is None or not attempt.has_started:
            return self.failed(source, ENDED_WITHOUT_AUDIO)
        self._queue.forget_sounding()
        self._tell_end(EndReason.FINISHED)
        self._select(self._queue.after_current(EndReason.FINISHED), joins=True)
        self._tell_due_failures()
        return self._outcome()

    def broke_off(self, source: SourceId, failure: PlayFailure) -> Outcome:
        """The source had given audio, its last frame was sent, and there is no more because of `failure`."""
        attempt = self._queue.sounding_attempt(source)
        if attempt is None or not attempt.has_started:
            return self.failed(source, failure)
        self._end_by_failure(failure)
        self._tell_due_failures()
        return self._outcome()

    def next_is_due(self) -> Outcome:
        """The sounding source is near its end, or decoded to it: what comes next shall be opened."""
        self._queue.make_next_due()
        return self._outcome()

    def ran_dry(self) -> Outcome:
        """There is nothing to send for now."""
        if self._state is PlayerState.PLAYING:
            self._enter(PlayerState.LOADING)
        return self._outcome()

    def flowing(self) -> Outcome:
        """After `ran_dry`: there is enough to go on. Before its first frame a track is still loading."""
        sounding = self._queue.sounding
        if self._state is PlayerState.LOADING and sounding is not None and sounding.has_started:
            self._enter(PlayerState.PLAYING)
        return self._outcome()

    def retitled(self, source: SourceId, title: str) -> Outcome:
        """A stream begins something else: told when that is heard, and not again for the same title."""
        attempt = self._queue.sounding_attempt(source)
        if attempt is not None:
            attempt.stream_title = title
            if title != attempt.entry.track.info.title:
                attempt.entry.track = attempt.entry.track.with_title(title)
                self._events.append(events.stream_title(title))
        return self._outcome()

    def stuck(self, source: SourceId, threshold_ms: int, cause: str) -> Outcome:
        """The sound has been missing for so long in mid-track; `cause` says what is waited for."""
        if source == self.stalled:
            self._events.append(events.track_stuck(self.current, self._metadata, threshold_ms, cause))
        return self._outcome()

    def update(self) -> Event:
        """The PlayerUpdate that is told every few seconds."""
        return events.player_update(self._state, self._paused, self.position_ms)

    # What clients ask for

    def play(self) -> Outcome:
        """Clears pause; an idle player plays its track again, a failed one goes on, a delayed try is made now."""
        if self._paused:
            self._paused = False
            self._events.append(events.player_resume())
        sounding = self._queue.sounding
        if self._state is PlayerState.FAILED:
            self._leave_failed(self._queue.waiting)
        elif sounding is None or sounding.may_still_wait:
            self._restart()
        self._tell_due_failures()
        return self._outcome()

    def pause(self) -> Outcome:
        if not self._paused:
            self._paused = True
            self._events.append(events.player_pause())
        return self._outcome()

    def skip(self) -> Outcome:
        """Ends the current track and moves on. An idle player has nothing to skip."""
        if self._state is not PlayerState.IDLE:
            never_plays = self._state is PlayerState.FAILED
            self._queue.drop_sounding()
            self._tell_end(EndReason.SKIPPED)
            self._select(self._queue.after_current(EndReason.SKIPPED, drops_current=never_plays))
            self._tell_due_failures()
        return self._outcome()

    def enqueue(self, *tracks: Track) -> Outcome:
        """An idle or failed player goes on with what is there now.

        Raises LimitReached, with nothing done, when too many tracks would wait.
        """
        if len(self._queue.waiting) + len(tracks) > self._max_waiting_tracks:
            raise LimitReached(
                f"{self.queue_length} tracks are waiting in player {self.player_id!r}, and {len(tracks)} more would be "
                f"above the {self._max_waiting_tracks} that player.max_waiting_tracks allows; "
                "wait until some have played, or skip them."
            )
        line = (*self._queue.waiting, *(QueuedTrack(track) for track in tracks))
        if self._state is PlayerState.IDLE:
            self._select(Selection(line[0], line[1:]))
        elif self._state is PlayerState.FAILED:
            self._leave_failed(line)
        else:
            self._set_waiting(line)
            self._queue.revise_following()
        return self._outcome()

    def set_loop(self, mode: LoopMode) -> Outcome:
        if mode is not self._queue.loop_mode:
            self._queue.loop_mode = mode
            self._events.append(events.loop_mode_change(mode))
            self._queue.revise_following()
        return self._outcome()

    def change_filters(self, change: FilterChange) -> Outcome:
        """Raises BadRequest, with nothing applied, when a value is out of its range."""
        filters = change.applied_to(self._filters)
        if filters != self._filters:
            self._filters = filters
            self._events.append(events.filters_change(filters))
        return self._outcome()

    def change_metadata(self, merge: bool, value: Json) -> Outcome:
        metadata = apply_metadata(self._metadata, merge, value)
        if not is_same_json(metadata, self._metadata):
            self._metadata = metadata
            self._events.append(events.metadata_change(metadata))
        return self._outcome()

    def delete(self) -> Outcome:
        if self._state in _ACTIVE_STATES:
            self._tell_end(EndReason.STOPPED)
        self._queue.drop_all()
        self._state = PlayerState.IDLE
        self._events.append(events.player_delete())
        return self._outcome()

    # How it goes on

    def _tell_due_failures(self) -> None:
        """Tells the kept failure of the current track, and of one that takes its place and has failed as well."""
        while self._clock_started and not self._paused and self._queue.sounding is not None:
            if self._queue.sounding.failure is None:
                return
            self._end_by_failure(self._queue.sounding.failure)

    def _end_by_failure(self, failure: PlayFailure) -> None:
        entry = self._queue.current
        self._queue.forget_sounding()
        self._events.append(events.track_exception(entry.track, self._metadata, failure))
        self._tell_end(EndReason.LOAD_FAILED)
        if entry.gave_audio:
            entry.failures += 1
            self._select(self._queue.after_current(EndReason.LOAD_FAILED))
            return
        self._failures_in_a_row += 1
        if self._queue.waiting and self._failures_in_a_row < _FAILURES_BEFORE_STOP:
            self._select(self._queue.after_current(EndReason.LOAD_FAILED, drops_current=True))
        else:
            self._stop(PlayerState.FAILED)

    def _leave_failed(self, line: tuple[QueuedTrack, ...]) -> None:
        self._failures_in_a_row = 0
        if line:
            self._select(Selection(line[0], line[1:]))
        else:
            self._restart()

    def _select(self, selection: Selection[QueuedTrack], *, joins: bool = False) -> None:
        """Puts the selected track forward; `joins`: its first frame comes in the same tick when it is opened."""
        self._set_waiting(selection.waiting)
        if selection.track is None:
            self._stop(PlayerState.IDLE)
            return
        attempt = self._queue.put_forward(selection.track)
        self.position_ms = 0
        if not (joins and attempt.is_opened and self._state is PlayerState.PLAYING):
            self._enter(PlayerState.LOADING)

    def _restart(self) -> None:
        self._queue.open_current()
        self.position_ms = 0
        self._enter(PlayerState.LOADING)

    def _stop(self, state: PlayerState) -> None:
        self._queue.drop_all()
        self._enter(state)

    def _tell_end(self, reason: EndReason) -> None:
        self._events.append(events.track_end(self.current, self._metadata, reason))

    def _set_waiting(self, waiting: tuple[QueuedTrack, ...]) -> None:
        if waiting != self._queue.waiting:
            self._queue.waiting = waiting
            self._events.append(events.queue_update(len(waiting)))

    def _enter(self, state: PlayerState) -> None:
        if state is not self._state:
            self._state = state
            self._events.append(self.update())

    def _outcome(self) -> Outcome:
        outcome = Outcome(tuple(self._events), self._queue.take_actions())
        self._events.clear()
        return outcome

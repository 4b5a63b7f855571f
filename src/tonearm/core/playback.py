"""The rules of a player: a state machine without I/O and without a clock.

Each call returns an `Outcome`: the events to emit and the sources to open or drop. The shell carries it out and reports
back, always with the number of the source that it reports about. A report about a source that is neither the current
nor the next one (any more) changes nothing, so late reports need no care. A source that was reported as failed, ended,
interrupted or expanded is gone; no `Drop` follows for it.
"""

from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.errors import LimitReached
from tonearm.core.events import (
    Event,
    FiltersChange,
    LoopModeChange,
    MetadataChange,
    PlayerDelete,
    PlayerPause,
    PlayerResume,
    PlayerState,
    PlayerUpdate,
    QueueUpdate,
    StreamTitle,
    TrackEnd,
    TrackException,
    TrackStart,
    TrackStuck,
)
from tonearm.core.failure import ENDED_WITHOUT_AUDIO, NESTED_PLAYLIST, TURNED_PLAYLIST, PlayFailure
from tonearm.core.filters import FilterChange, Filters
from tonearm.core.json_value import Json
from tonearm.core.metadata import apply_metadata, is_same_json
from tonearm.core.play_queue import Action, EndReason, LoopMode, PlayQueue, QueuedTrack, Selection, SourceId
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

_FAILURES_BEFORE_STOP: Final = 5
_ACTIVE_STATES: Final = (PlayerState.LOADING, PlayerState.PLAYING)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call leads to; both parts in the order in which they are to be done."""

    events: tuple[Event, ...] = ()
    actions: tuple[Action, ...] = ()


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
    def queue(self) -> tuple[Track, ...]:
        """The tracks that wait behind the current one."""
        return tuple(queued_track.track for queued_track in self._queue.tracks)

    @property
    def queue_length(self) -> int:
        return len(self._queue.tracks)

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
    def current_source(self) -> SourceId | None:
        """The source of the current track; None when idle or failed."""
        return None if self._queue.current_load is None else self._queue.current_load.source

    @property
    def next_source(self) -> SourceId | None:
        """The source that joins the current one without a gap; None while there is none."""
        return None if self._queue.next_load is None else self._queue.next_load.source

    @property
    def wants_frames(self) -> bool:
        """True when a frame is to be sent at each tick, as far as there are any."""
        return self._clock_started and not self._paused and self._state in _ACTIVE_STATES

    @property
    def stalled(self) -> SourceId | None:
        """The current source while it gives nothing in mid-track, whether the player is paused or not."""
        load = self._queue.current_load
        if self._state is not PlayerState.LOADING or load is None or not load.has_started:
            return None
        return load.source

    # What clients ask for

    def play(self) -> Outcome:
        """Clears pause. An idle player plays its track again, a failed one goes on, a delayed load begins at once."""
        if self._paused:
            self._paused = False
            self._events.append(PlayerResume())
        load = self._queue.current_load
        if self._state is PlayerState.FAILED:
            self._leave_failed(self._queue.tracks)
        elif load is None or load.may_be_delayed:
            self._restart()
        self._report_due_failures()
        return self._outcome()

    def pause(self) -> Outcome:
        if not self._paused:
            self._paused = True
            self._events.append(PlayerPause())
        return self._outcome()

    def skip(self) -> Outcome:
        """Ends the current track and moves on. An idle player has nothing to skip."""
        if self._state is not PlayerState.IDLE:
            never_plays = self._state is PlayerState.FAILED
            self._queue.drop_current_load()
            self._end_track(EndReason.SKIPPED)
            self._select(self._queue.selection_after(EndReason.SKIPPED, drops_current=never_plays))
            self._report_due_failures()
        return self._outcome()

    def enqueue(self, *tracks: Track) -> Outcome:
        """Adds tracks to the end of the queue. An idle or failed player goes on with its front.

        Raises LimitReached, with nothing done, when the queue would become too long.
        """
        if len(self._queue.tracks) + len(tracks) > self._max_waiting_tracks:
            raise LimitReached(
                f"{self.queue_length} tracks are waiting in player {self.player_id!r}, and {len(tracks)} more would be "
                f"above the {self._max_waiting_tracks} that player.max_waiting_tracks allows; "
                "wait until some have played, or skip them."
            )
        queue = (*self._queue.tracks, *(QueuedTrack(track) for track in tracks))
        if self._state is PlayerState.IDLE:
            self._select(Selection(queue[0], queue[1:]))
        elif self._state is PlayerState.FAILED:
            self._leave_failed(queue)
        else:
            self._set_queue(queue)
            self._queue.revise_next()
        return self._outcome()

    def set_loop(self, mode: LoopMode) -> Outcome:
        if mode is not self._queue.loop_mode:
            self._queue.loop_mode = mode
            self._events.append(LoopModeChange(mode))
            self._queue.revise_next()
        return self._outcome()

    def change_filters(self, change: FilterChange) -> Outcome:
        """Raises BadRequest, with nothing applied, when a value is out of its range."""
        filters = change.applied_to(self._filters)
        if filters != self._filters:
            is_other_pace = filters.effects.position_rate != self._filters.effects.position_rate
            self._filters = filters
            self._events.append(FiltersChange(filters))
            if is_other_pace and self._state is PlayerState.PLAYING:
                self._events.append(self.update())  # who counts the position on has to count otherwise now
        return self._outcome()

    def change_metadata(self, merge: bool, value: Json) -> Outcome:
        metadata = apply_metadata(self._metadata, merge, value)
        if not is_same_json(metadata, self._metadata):
            self._metadata = metadata
            self._events.append(MetadataChange(metadata))
        return self._outcome()

    def delete(self) -> Outcome:
        if self._state in _ACTIVE_STATES:
            self._end_track(EndReason.STOPPED)
        self._queue.drop_all()
        self._state = PlayerState.IDLE
        self._events.append(PlayerDelete())
        return self._outcome()

    # What the shell reports

    def begin(self) -> Outcome:
        """Opens the first track. To be called once, before anything else."""
        self._queue.open_current()
        return self._outcome()

    def start_clock(self) -> Outcome:
        """The first listener is there, or was waited for long enough: a failure that was kept until now is due."""
        self._clock_started = True
        self._report_due_failures()
        return self._outcome()

    def opened(self, source: SourceId, facts: SourceFacts) -> Outcome:
        """The source gives audio that can be decoded."""
        load = self._queue.load(source)
        if load is not None:
            load.is_opened = True
            facts = replace(facts, title=load.stream_title or facts.title)
            load.queued_track.track = load.queued_track.track.with_facts(facts)
        return self._outcome()

    def expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> Outcome:
        """The source is a playlist of these tracks, one at least, which take its place and its metadata.

        The first one is opened where the playlist was; the others go to the front of the queue. The last ones are left
        out when the queue would become too long.
        """
        load = self._queue.load(source)
        if load is None or load.failure is not None:
            return self._outcome()
        if load.queued_track.track.is_playlist_entry:
            return self.failed(source, NESTED_PLAYLIST)
        if load.has_started:
            return self.interrupted(source, TURNED_PLAYLIST)
        length_before = self.queue_length
        # The playlist gives its own place to the first of them.
        room = max(self._max_waiting_tracks - length_before, 0) + 1
        metadata = load.queued_track.track.metadata
        entries = tuple(QueuedTrack(replace(track, metadata=metadata)) for track in tracks[:room])
        if load is self._queue.current_load:
            self.position_ms = 0
            self._queue.replace_current(entries)
        elif not self._queue.replace_next(entries):
            return self.failed(source, TURNED_PLAYLIST)
        if self.queue_length != length_before:
            self._events.append(QueueUpdate(self.queue_length))
        return self._outcome()

    def failed(self, source: SourceId, failure: PlayFailure) -> Outcome:
        """The source cannot be opened or gave no audio. The failure is kept until the track's turn to play comes."""
        load = self._queue.load(source)
        if load is not None and load.has_started:
            return self.interrupted(source, failure)
        if load is not None and load.failure is None:
            load.failure = failure
            self._report_due_failures()
        return self._outcome()

    def first_frame(self, source: SourceId) -> Outcome:
        """The first frame of the source is about to be sent."""
        load = self._queue.load_of_current(source)
        if load is not None and not load.has_started and load.failure is None:
            load.has_started = True
            load.queued_track.gave_audio = True
            load.queued_track.failures = 0
            self._failures_in_a_row = 0
            track = load.queued_track.track
            self._events.append(TrackStart(track, track.user_data(self._metadata)))
            self._enter(PlayerState.PLAYING)
        return self._outcome()

    def ended(self, source: SourceId) -> Outcome:
        """The last frame of the source was sent and nothing went wrong.

        When the next source is opened the state stays `playing`: `first_frame` of it is expected in the same tick, and
        `underrun` when there is none.
        """
        load = self._queue.load_of_current(source)
        if load is None or not load.has_started:
            return self.failed(source, ENDED_WITHOUT_AUDIO)
        self._queue.forget_current_load()
        self._end_track(EndReason.FINISHED)
        self._select(self._queue.selection_after(EndReason.FINISHED), joins=True)
        self._report_due_failures()
        return self._outcome()

    def interrupted(self, source: SourceId, failure: PlayFailure) -> Outcome:
        """The source had given audio, its last frame was sent, and there is no more because of `failure`."""
        load = self._queue.load_of_current(source)
        if load is None or not load.has_started:
            return self.failed(source, failure)
        self._end_by_failure(failure)
        self._report_due_failures()
        return self._outcome()

    def next_is_due(self) -> Outcome:
        """The current source is near its end, or decoded to it: the next track is to be opened."""
        self._queue.make_next_due()
        return self._outcome()

    def underrun(self) -> Outcome:
        """There is nothing to send for now."""
        if self._state is PlayerState.PLAYING:
            self._enter(PlayerState.LOADING)
        return self._outcome()

    def recovered(self) -> Outcome:
        """After `underrun`: there is enough to go on. Before its first frame a track is still loading."""
        load = self._queue.current_load
        if self._state is PlayerState.LOADING and load is not None and load.has_started:
            self._enter(PlayerState.PLAYING)
        return self._outcome()

    def retitled(self, source: SourceId, title: str) -> Outcome:
        """From the frame that was just sent on, the stream has this title. A title that it has already is no event."""
        load = self._queue.load_of_current(source)
        if load is not None:
            load.stream_title = title
            if title != load.queued_track.track.info.title:
                load.queued_track.track = load.queued_track.track.with_title(title)
                self._events.append(StreamTitle(title))
        return self._outcome()

    def stuck(self, source: SourceId, threshold_ms: int, cause: str) -> Outcome:
        """In mid-track nothing could be sent for `threshold_ms`; `cause` says in a few words what is missing."""
        if source == self.stalled:
            user_data = self.current.user_data(self._metadata)
            self._events.append(TrackStuck(self.current, user_data, threshold_ms, cause))
        return self._outcome()

    def update(self) -> PlayerUpdate:
        """Where the player stands, to be emitted every few seconds while it plays."""
        return PlayerUpdate(self._state, self._paused, self.position_ms, self._filters.effects.position_rate)

    # How it goes on

    def _report_due_failures(self) -> None:
        """Emits the kept failure of the current track, and of the next one that takes its place and failed as well."""
        while self._clock_started and not self._paused and self._queue.current_load is not None:
            if self._queue.current_load.failure is None:
                return
            self._end_by_failure(self._queue.current_load.failure)

    def _end_by_failure(self, failure: PlayFailure) -> None:
        ended = self._queue.current
        self._queue.forget_current_load()
        self._events.append(TrackException(ended.track, ended.track.user_data(self._metadata), failure))
        self._end_track(EndReason.LOAD_FAILED)
        if ended.gave_audio:
            ended.failures += 1
            self._select(self._queue.selection_after(EndReason.LOAD_FAILED))
            return
        self._failures_in_a_row += 1
        if self._queue.tracks and self._failures_in_a_row < _FAILURES_BEFORE_STOP:
            self._select(self._queue.selection_after(EndReason.LOAD_FAILED, drops_current=True))
        else:
            self._stop(PlayerState.FAILED)

    def _leave_failed(self, queue: tuple[QueuedTrack, ...]) -> None:
        """Goes on with the front of `queue`, or tries the current track again when that is empty."""
        self._failures_in_a_row = 0
        if queue:
            self._select(Selection(queue[0], queue[1:]))
        else:
            self._restart()

    def _select(self, selection: Selection[QueuedTrack], *, joins: bool = False) -> None:
        """Makes the selected track the current one; `joins`: when it is opened its first frame is in the same tick."""
        self._set_queue(selection.queue)
        if selection.track is None:
            self._stop(PlayerState.IDLE)
            return
        load = self._queue.make_current(selection.track)
        self.position_ms = 0
        if not (joins and load.is_opened and self._state is PlayerState.PLAYING):
            self._enter(PlayerState.LOADING)

    def _restart(self) -> None:
        self._queue.open_current()
        self.position_ms = 0
        self._enter(PlayerState.LOADING)

    def _stop(self, state: PlayerState) -> None:
        self._queue.drop_all()
        self._enter(state)

    def _end_track(self, reason: EndReason) -> None:
        self._events.append(TrackEnd(self.current, self.current.user_data(self._metadata), reason))

    def _set_queue(self, queue: tuple[QueuedTrack, ...]) -> None:
        if queue != self._queue.tracks:
            self._queue.tracks = queue
            self._events.append(QueueUpdate(len(queue)))

    def _enter(self, state: PlayerState) -> None:
        if state is not self._state:
            self._state = state
            self._events.append(self.update())

    def _outcome(self) -> Outcome:
        outcome = Outcome(tuple(self._events), self._queue.take_actions())
        self._events.clear()
        return outcome

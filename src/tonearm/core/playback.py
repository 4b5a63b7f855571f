"""The rules of a player: a state machine without I/O and without a clock.

Each call returns an `Outcome`: the events to emit and the sources to open or drop. The shell carries it out and reports
back, always with the number of the source that it reports about. A report about a source that is neither the current
nor the next one (any more) changes nothing, so late reports need no care. A source that was reported as failed, ended,
interrupted or expanded is gone; no `Drop` follows for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.crossfade import CrossfadeEdit, CrossfadeSettings
from tonearm.core.errors import NoPrevious, NotSeekable
from tonearm.core.events import (
    CrossfadeChange,
    DeleteReason,
    Event,
    FiltersChange,
    LoopModeChange,
    MetadataChange,
    PlayerDelete,
    PlayerPause,
    PlayerResume,
    PlayerState,
    PlayerUpdate,
    QueueDetails,
    QueueUpdate,
    Seek,
    SeekFailed,
    StreamTitle,
    TrackEnd,
    TrackException,
    TrackStart,
    TrackStuck,
)
from tonearm.core.failure import ENDED_WITHOUT_AUDIO, NESTED_PLAYLIST, TURNED_PLAYLIST, FailureCode, PlayFailure
from tonearm.core.filters import FilterChange, Filters
from tonearm.core.json_value import Json
from tonearm.core.metadata import apply_metadata, is_same_json
from tonearm.core.play_queue import (
    Action,
    EndReason,
    History,
    LoopMode,
    PlayedTrack,
    PlayQueue,
    QueuedTrack,
    Selection,
    SourceId,
)
from tonearm.core.queue_edits import QueueLimits, in_order, index_of, with_inserted, with_moved, without
from tonearm.core.repeated_errors import RepeatedErrors
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
_FAILURES_BEFORE_STOP: Final = 5
# Whatever is asked for, samples can be counted up to it in 64 bits.
MAX_POSITION_MS: Final = 2**53
_ACTIVE_STATES: Final = (PlayerState.LOADING, PlayerState.PLAYING)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call leads to; both parts in the order in which they are to be done.

    Events come as PlayerPause, PlayerResume or Seek, then for each track that ended TrackException, TrackEnd and
    QueueUpdate, then TrackStart, at last one PlayerUpdate when state or pause are others than before the call.
    """

    events: tuple[Event, ...] = ()
    actions: tuple[Action, ...] = ()


class Playback:
    """One player, from `begin` to `delete`; nothing is to be called after `delete`. Without a first track it is idle.
    With a `snapshot` it goes on where that was taken: `begin` opens its track there, and `start_clock` is to be called,
    too, when `snapshot.clock_started`.

    `position_ms` is the position in the current track's file. The shell sets it as frames are sent; it is the track's
    start again whenever a track is selected, and the target as soon as there is a seek. `wall_ms` gives the time of
    day, for the history to show; nothing is decided by it. `now_s` is a monotonic time.
    """

    def __init__(
        self,
        player_id: str,
        first_track: Track | None,
        metadata: Json,
        *,
        max_waiting_tracks: int = 10_000,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        paused: bool = False,
        filters: Filters | None = None,
        loop_mode: LoopMode = LoopMode.NONE,
        wall_ms: Callable[[], int] = lambda: 0,
        now_s: Callable[[], float] = lambda: 0.0,
        snapshot: PlayerSnapshot | None = None,
    ) -> None:
        self.player_id: Final = player_id
        selected = first_track or Track.none()
        self.position_ms = selected.start_ms
        self._limits = QueueLimits(max_waiting_tracks, max_waiting_bytes)
        self._wall_ms = wall_ms
        self._now_s = now_s
        self._state = PlayerState.IDLE if first_track is None else PlayerState.LOADING
        self._paused = paused
        self._last_update = (self._state, paused)  # in the last PlayerUpdate
        self._clock_started = False
        self._filters = filters or Filters()
        self._crossfade = CrossfadeSettings()
        self._metadata = metadata
        self._queue = PlayQueue(QueuedTrack(selected), loop_mode=loop_mode)
        self._history = History()
        self._failures_in_a_row = 0  # of tracks that never gave audio
        self._own_errors = RepeatedErrors()
        self._error: PlayFailure | None = None
        # Of the current track: whether it has sounded since it was selected, how much of it, and since which position.
        self._has_sounded = False
        self._played_ms = 0
        self._played_from_ms = selected.start_ms
        self._events: list[Event] = []
        if snapshot is not None:
            self._take_over(snapshot)

    def _take_over(self, snapshot: PlayerSnapshot) -> None:
        own: dict[QueuedTrack, QueuedTrack] = {}

        def own_track(track: QueuedTrack) -> QueuedTrack:
            return own.setdefault(track, replace(track))

        self._state = PlayerState.LOADING if snapshot.state in _ACTIVE_STATES else snapshot.state
        self._paused = snapshot.paused
        self._last_update = (self._state, self._paused)
        self._filters, self._crossfade = snapshot.filters, snapshot.crossfade
        self._metadata, self._queue.loop_mode = snapshot.metadata, snapshot.loop_mode
        if snapshot.current is not None:
            self._queue.current = own_track(snapshot.current)
        self._queue.tracks = tuple(map(own_track, snapshot.queue))
        played = [replace(played, queued_track=own_track(played.queued_track)) for played in snapshot.history]
        self._history = History(played)
        self._failures_in_a_row, self._error = snapshot.failures_in_a_row, snapshot.error
        is_behind = self._state is PlayerState.LOADING and self.current.is_unseekable
        self._begin_at(self.current.start_ms if is_behind else snapshot.position_ms)
        self._has_sounded, self._played_ms = snapshot.has_sounded, snapshot.played_ms

    def snapshot(self) -> PlayerSnapshot:
        """The player as it is now, to be restored."""
        return PlayerSnapshot(
            player_id=self.player_id,
            state=self._state,
            paused=self._paused,
            clock_started=self._clock_started,
            position_ms=self.position_ms,
            played_ms=self._played_ms + max(0, self.position_ms - self._played_from_ms),
            has_sounded=self._has_sounded,
            current=None if self.current.is_none else self._queue.current,
            queue=self._queue.tracks,
            history=self._history.played,
            loop_mode=self._queue.loop_mode,
            filters=self._filters,
            crossfade=self._crossfade,
            metadata=self._metadata,
            failures_in_a_row=self._failures_in_a_row,
            error=self._error,
        )

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
        """The selected track; an idle or failed player keeps its last one, `Track.none()` before the first."""
        return self._queue.current.track

    @property
    def queue(self) -> tuple[Track, ...]:
        """The tracks that wait behind the current one."""
        return tuple(queued_track.track for queued_track in self._queue.tracks)

    @property
    def front_of_queue(self) -> Track | None:
        """The first track that waits behind the current one."""
        return self._queue.tracks[0].track if self._queue.tracks else None

    @property
    def queue_length(self) -> int:
        return len(self._queue.tracks)

    @property
    def queue_version(self) -> int:
        """Counts the changes of the queue's order."""
        return self._queue.version

    @property
    def history(self) -> tuple[PlayedTrack, ...]:
        """What ended, newest first."""
        return self._history.played

    @property
    def error(self) -> PlayFailure | None:
        """The last failure, until something plays."""
        return self._error

    @property
    def loop_mode(self) -> LoopMode:
        return self._queue.loop_mode

    @property
    def filters(self) -> Filters:
        return self._filters

    @property
    def crossfade(self) -> CrossfadeSettings:
        return self._crossfade

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
    def next_track(self) -> Track | None:
        """The track of `next_source`."""
        return None if self._queue.next_load is None else self._queue.next_load.queued_track.track

    @property
    def wants_frames(self) -> bool:
        """True when a frame is to be sent at each tick, as far as there are any."""
        return self._clock_started and not self._paused and self._state in _ACTIVE_STATES

    @property
    def stalled(self) -> SourceId | None:
        """The current source while it gives nothing although its turn has come, whether the player is paused or not."""
        load = self._queue.current_load
        if self._state is not PlayerState.LOADING or load is None or load.failure is not None:
            return None
        return load.source if self._clock_started else None

    @property
    def is_in_mid_track(self) -> bool:
        """Whether the current source has given audio."""
        load = self._queue.current_load
        return load is not None and load.has_started

    # What clients ask for

    def play(self) -> Outcome:
        """Clears pause. An idle player plays its track again, a failed one goes on, a delayed load begins at once."""
        if self._paused:
            self._paused = False
            self._events.append(PlayerResume(self.position_ms))
        load = self._queue.current_load
        if self._state is PlayerState.FAILED:
            self._leave_failed(self._queue.tracks)
        elif (load is None or load.may_be_delayed) and not self.current.is_none:
            self._restart()
        self._report_due_failures()
        return self._outcome()

    def pause(self) -> Outcome:
        if not self._paused:
            self._paused = True
            self._events.append(PlayerPause(self.position_ms))
        return self._outcome()

    def seek(self, position_ms: int) -> Outcome:
        """Goes on at a position in the file of the current track; outside of the track it is the nearest one inside.

        Behind the end it ends the track, as far as the end is known; in an idle or failed player, which plays its
        track from there, that changes nothing. Raises NotSeekable.
        """
        if self.current.is_none:
            raise NotSeekable("The player has no track yet; give it one with POST …/queue or PUT …/track.")
        if self.current.is_unseekable:
            raise NotSeekable(
                "The current track is live, or its source cannot be read from the middle; skip it, or wait."
            )
        target_ms = min(max(position_ms, self.current.start_ms), MAX_POSITION_MS)
        if self._state not in _ACTIVE_STATES:
            if not self._is_behind_end(target_ms):
                self._note_seek(target_ms)
                self._failures_in_a_row = 0
                self._queue.open_current(start_ms=target_ms)
                self._enter(PlayerState.LOADING)
            return self._outcome()
        if self._clock_started and self._is_behind_end(target_ms):
            self._finish()
            return self._outcome()
        if target_ms < self.position_ms:
            self._queue.forget_due()  # it may be long until the end is near again
        self._note_seek(target_ms)
        self._queue.seek_current(target_ms)
        self._enter(PlayerState.LOADING)
        return self._outcome()

    def skip(self, to: str | None = None) -> Outcome:
        """Ends the current track and moves on, to the waiting track with the id `to` when there is one.

        What lies before it leaves the queue; with loop mode queue it goes to the back, behind the current track.
        An idle player has nothing to end. Raises TrackNotFound, with nothing done.
        """
        index = 0 if to is None else index_of(self._queue.tracks, to)
        is_idle, never_plays = self._state is PlayerState.IDLE, self._state is PlayerState.FAILED
        if is_idle and not self._queue.tracks:
            return self._outcome()
        if to is None and not is_idle:
            selection = self._queue.selection_after(EndReason.SKIPPED, drops_current=never_plays)
        else:
            passed, chosen, rest = (
                self._queue.tracks[:index],
                self._queue.tracks[index],
                self._queue.tracks[index + 1 :],
            )
            back: tuple[QueuedTrack, ...] = ()
            if self._queue.loop_mode is LoopMode.QUEUE:
                back = passed if is_idle or never_plays else (self._queue.current, *passed)
            selection = Selection(chosen, (*rest, *back))
        self._leave_current(EndReason.SKIPPED)
        self._select(selection)
        self._report_due_failures()
        return self._outcome()

    def enqueue(self, *tracks: Track, index: int | None = None) -> Outcome:
        """Adds tracks to the queue: to its end, or before what waits at `index`. 0 is the next one.

        An idle or failed player goes on with the queue's front. Raises LimitReached when the queue would become too
        long and BadRequest for a negative index, with nothing done.
        """
        self._require_room(tracks)
        queue = with_inserted(self._queue.tracks, tracks, index)
        if self._state is PlayerState.IDLE:
            self._select(Selection(queue[0], queue[1:]))
        elif self._state is PlayerState.FAILED:
            self._leave_failed(queue)
        else:
            self._change_queue(queue)
        return self._outcome()

    def replace(self, track: Track, *more: Track) -> Outcome:
        """Ends the current track, which no loop brings back, and plays `track` in its place; `more` come next.

        Raises LimitReached, with nothing done, when the queue would become too long.
        """
        self._require_room(more)
        self._leave_current(EndReason.REPLACED)
        self._failures_in_a_row = 0
        self._select(Selection(QueuedTrack(track), (*map(QueuedTrack, more), *self._queue.tracks)))
        return self._outcome()

    def stop(self) -> Outcome:
        """Ends the current track, which no loop brings back. The player is idle; its queue stays."""
        if self._state is not PlayerState.IDLE:
            self._leave_current(EndReason.STOPPED)
            self._failures_in_a_row = 0
            self._stop(PlayerState.IDLE)
        return self._outcome()

    def previous(self) -> Outcome:
        """Plays the newest track of the history that sounded, and puts the current one at the front of the queue.

        An idle player has no current one: it plays what it played last. Raises NoPrevious, with nothing done.
        """
        is_idle = self._state is PlayerState.IDLE
        current = None if is_idle else self._queue.current
        previous = self._history.take_previous(current)
        if previous is None:
            raise NoPrevious("Nothing that sounded came before the current track.")
        queue = tuple(waiting for waiting in self._queue.tracks if waiting is not previous)
        self._leave_current(EndReason.REPLACED, is_remembered=False)
        self._failures_in_a_row = 0
        self._select(Selection(previous, queue if current is None else (current, *queue)))
        self._report_due_failures()
        return self._outcome()

    def clear_queue(self) -> Outcome:
        self._change_queue(())
        return self._outcome()

    def remove(self, track_id: str) -> Outcome:
        """Takes a waiting track out of the queue. Raises TrackNotFound."""
        self._change_queue(without(self._queue.tracks, track_id))
        return self._outcome()

    def move(self, track_id: str, index: int) -> Outcome:
        """Moves a waiting track to the place `index` of the queue. Raises TrackNotFound, and BadRequest for a negative
        index."""
        self._change_queue(with_moved(self._queue.tracks, track_id, index))
        return self._outcome()

    def shuffle(self, order: Sequence[int]) -> Outcome:
        """Puts the queue into another order: each of its indexes once."""
        self._change_queue(in_order(self._queue.tracks, order))
        return self._outcome()

    def unread_track(self, depth: int, first: int = 0) -> Track | None:
        """The first of `depth` waiting tracks, from the index `first` on, whose tags are to be read ahead."""
        unread = self._queue.unread(depth, first)
        return None if unread is None else unread.track

    def has_unread(self, depth: int, first: int = 0) -> bool:
        """Whether more may still be found out of these waiting tracks before they play, by reading or opening them."""
        return any(waiting.is_unread for waiting in self._queue.tracks[first : first + depth])

    def tags_read(self, track_id: str, facts: SourceFacts | None) -> Outcome:
        """What was read of a waiting track; None when it could not be read."""
        for waiting in self._queue.tracks:
            if waiting.track.id == track_id and waiting.is_unread:
                waiting.is_read = True
                if facts is not None:
                    waiting.track = waiting.track.with_hints(facts)
                    self._events.append(QueueDetails((track_id,)))
        return self._outcome()

    def room_for(self, tracks: Sequence[Track]) -> int:
        """How many of these tracks, from the first on, may still wait."""
        return self._limits.room_for(self._queue.tracks, tracks)

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
                self._events.append(self.update())  # a client that extrapolates the position needs the new rate
        return self._outcome()

    def change_crossfade(self, edit: CrossfadeEdit) -> Outcome:
        """Raises BadRequest, with nothing applied, when the duration is out of its range."""
        settings = edit.applied_to(self._crossfade)
        if settings != self._crossfade:
            self._crossfade = settings
            self._events.append(CrossfadeChange(settings))
        return self._outcome()

    def change_metadata(self, merge: bool, value: Json) -> Outcome:
        metadata = apply_metadata(self._metadata, merge, value)
        if not is_same_json(metadata, self._metadata):
            self._metadata = metadata
            self._events.append(MetadataChange(metadata))
        return self._outcome()

    def delete(self, reason: DeleteReason | None = None) -> Outcome:
        if self._state in _ACTIVE_STATES:
            self._end_track(EndReason.STOPPED)
        self._queue.drop_all()
        self._state = PlayerState.IDLE
        self._last_update = (self._state, self._paused)  # no PlayerUpdate is due beside PlayerDelete
        self._events.append(PlayerDelete(reason))
        return self._outcome()

    # What the shell reports

    def begin(self) -> Outcome:
        """Opens the first track, when there is one to play. To be called once, before anything else."""
        if self._state is PlayerState.LOADING:
            self._queue.open_current(start_ms=self.position_ms).has_started = self._has_sounded
        return self._outcome()

    def start_clock(self) -> Outcome:
        """The first listener has come, or the wait for one is over: failures and ends that were kept are due."""
        self._clock_started = True
        self._finish_if_behind_end()
        self._report_due_failures()
        return self._outcome()

    def opened(self, source: SourceId, facts: SourceFacts) -> Outcome:
        """The source gives audio that can be decoded."""
        load = self._queue.load(source)
        if load is not None:
            load.is_opened = True
            if load.queued_track.is_unread and load.queued_track in self._queue.tracks:
                self._events.append(QueueDetails((load.queued_track.track.id,)))
            facts = replace(facts, title=load.stream_title or facts.title)
            load.queued_track.track = load.queued_track.track.with_facts(facts)
            self._finish_if_behind_end()
        return self._outcome()

    def counted(self, source: SourceId, length_ms: int) -> Outcome:
        """The length of the current track's file, which was only guessed, has been counted."""
        load = self._queue.load_of_current(source)
        if load is not None:
            load.queued_track.track = load.queued_track.track.with_length(length_ms)
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
        version_before = self.queue_version
        playlist = load.queued_track.track
        tracks = tuple(
            replace(track, metadata=playlist.metadata, metadata_bytes=playlist.metadata_bytes) for track in tracks
        )
        # The playlist gives its own place to the first of them.
        entries = tuple(map(QueuedTrack, (tracks[0], *tracks[1 : self.room_for(tracks[1:]) + 1])))
        if load is self._queue.current_load:
            self._queue.replace_current(entries)
            self._begin_at(self._queue.current_load.start_ms)
        elif not self._queue.replace_next(entries):
            return self.failed(source, TURNED_PLAYLIST)
        if self.queue_version != version_before:
            self._events.append(QueueUpdate(self.queue_length, self.queue_version))
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
        if load is not None and load.failure is None:
            load.queued_track.gave_audio = True
            load.queued_track.failures = 0
            self._failures_in_a_row = 0
            self._error = None
            if not load.has_started:
                load.has_started = self._has_sounded = True
                track = load.queued_track.track
                self._events.append(TrackStart(track, track.user_data(self._metadata), self.position_ms))
            self._enter(PlayerState.PLAYING)
        return self._outcome()

    def seek_failed(self, source: SourceId, code: str) -> Outcome:
        """The source was to begin in the middle and cannot, because of `code`: it gives the file from its start."""
        load = self._queue.load_of_current(source)
        if load is not None and load.failure is None:
            load.start_ms = 0
            self._count_played()
            self.position_ms = self._played_from_ms = 0
            self._events.append(SeekFailed(load.queued_track.track.id, code, 0))
        return self._outcome()

    def ended(self, source: SourceId) -> Outcome:
        """The last frame of the source was sent and nothing went wrong.

        When the next source is opened the state stays `playing`: `first_frame` of it is expected in the same tick, and
        `underrun` when there is none.
        """
        load = self._queue.load_of_current(source)
        if load is None or not (load.has_started or load.is_sought):
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
        """There is enough to go on, after `underrun` or during a pause. A track that is not paused is loading until its
        first frame."""
        load = self._queue.current_load
        if load is None or load.failure is not None:
            return self._outcome()
        if self._state is PlayerState.LOADING and (load.has_started or self._paused):
            self._enter(PlayerState.PLAYING)
        return self._outcome()

    def retitled(self, source: SourceId, title: str) -> Outcome:
        """From the frame that was just sent on, the stream has this title. A title that it has already is no event."""
        load = self._queue.load_of_current(source)
        if load is not None:
            load.stream_title = title
            if title != load.queued_track.track.info.title:
                load.queued_track.track = load.queued_track.track.with_title(title)
                self._events.append(StreamTitle(load.queued_track.track.id, title))
        return self._outcome()

    def stuck(self, source: SourceId, threshold_ms: int, cause: str) -> Outcome:
        """Nothing of the source could be sent for `threshold_ms`; `cause` says in a few words what is missing."""
        if source == self.stalled:
            user_data = self.current.user_data(self._metadata)
            self._events.append(TrackStuck(self.current, user_data, self.position_ms, threshold_ms, cause))
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
        self._error = failure
        user_data = ended.track.user_data(self._metadata)
        self._events.append(TrackException(ended.track, user_data, self.position_ms, failure))
        self._end_track(EndReason.LOAD_FAILED)
        is_beyond_tracks = failure.code is FailureCode.INTERNAL and self._own_errors.is_second(self._now_s())
        if ended.gave_audio:
            ended.failures += 1
            if is_beyond_tracks:
                self._stop(PlayerState.FAILED)
            else:
                self._select(self._queue.selection_after(EndReason.LOAD_FAILED))
            return
        self._failures_in_a_row += 1
        if self._queue.tracks and self._failures_in_a_row < _FAILURES_BEFORE_STOP and not is_beyond_tracks:
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
        self._begin_at(load.start_ms)
        if not (joins and load.is_opened and self._state is PlayerState.PLAYING):
            self._enter(PlayerState.LOADING)

    def _restart(self) -> None:
        self._begin_at(self._queue.open_current().start_ms)
        self._enter(PlayerState.LOADING)

    def _stop(self, state: PlayerState) -> None:
        self._queue.drop_all()
        self._enter(state)

    def _leave_current(self, reason: EndReason, *, is_remembered: bool = True) -> None:
        """Ends the current track, before another one is selected or none. An idle player has none to end."""
        if self._state is not PlayerState.IDLE:
            self._end_track(reason, is_remembered=is_remembered)

    def _finish(self) -> None:
        """The current track is at its end because a seek led there."""
        self._end_track(EndReason.FINISHED)
        self._begin_at(self.current.known_end_ms or self.position_ms)
        self._select(self._queue.selection_after(EndReason.FINISHED))
        self._report_due_failures()

    def _finish_if_behind_end(self) -> None:
        """A seek that was kept while its track was loading may turn out to lead behind the end."""
        load = self._queue.current_load
        if not self._clock_started or load is None or load.failure is not None or not load.is_sought:
            return
        if self._is_behind_end(load.start_ms):
            self._finish()

    def _is_behind_end(self, position_ms: int) -> bool:
        end_ms = self.current.known_end_ms
        return end_ms is not None and position_ms >= end_ms

    def _end_track(self, reason: EndReason, *, is_remembered: bool = True) -> None:
        self._count_played()
        user_data = self.current.user_data(self._metadata)
        self._events.append(TrackEnd(self.current, user_data, self.position_ms, reason, self._played_ms))
        if is_remembered:
            self._history.add(PlayedTrack(self._queue.current, self._wall_ms(), reason, self._has_sounded))
        self._begin_at(self.position_ms)

    def _begin_at(self, position_ms: int) -> None:
        """Nothing of the current track was played yet."""
        self.position_ms = self._played_from_ms = position_ms
        self._played_ms = 0
        self._has_sounded = False

    def _note_seek(self, target_ms: int) -> None:
        self._events.append(Seek(self.current.id, self.position_ms, target_ms))
        self._count_played()
        self.position_ms = self._played_from_ms = target_ms

    def _count_played(self) -> None:
        self._played_ms += max(0, self.position_ms - self._played_from_ms)
        self._played_from_ms = self.position_ms

    def _require_room(self, tracks: Sequence[Track]) -> None:
        self._limits.require_room(self.player_id, self._queue.tracks, tracks)

    def _change_queue(self, queue: tuple[QueuedTrack, ...]) -> None:
        self._set_queue(queue)
        self._queue.revise_next()

    def _set_queue(self, queue: tuple[QueuedTrack, ...]) -> None:
        if queue != self._queue.tracks:
            self._queue.set_tracks(queue)
            self._events.append(QueueUpdate(len(queue), self.queue_version))

    def _enter(self, state: PlayerState) -> None:
        self._state = state

    def _outcome(self) -> Outcome:
        if (self._state, self._paused) != self._last_update:
            self._last_update = (self._state, self._paused)
            self._events.append(self.update())
        outcome = Outcome(tuple(self._events), self._queue.take_actions())
        self._events.clear()
        return outcome

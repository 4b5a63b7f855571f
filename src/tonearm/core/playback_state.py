"""The state of a player, queries of it, and the transitions from one track to the next.

`core.playback_requests` handles the requests of clients, `core.playback` the reports about sources.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tonearm.core.crossfade import CrossfadeSettings
from tonearm.core.events import Event, PlayerState, PlayerUpdate, QueueUpdate, Seek, TrackEnd, TrackException
from tonearm.core.failure import FailureCode, PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.metadata import Json
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
from tonearm.core.queue_edits import QueueLimits
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.core.track import Track

MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
_FAILURES_BEFORE_STOP: Final = 5
_OWN_ERRORS_WITHIN_S: Final = 60.0
# Higher positions are reduced to this position, so that a count of samples fits into 64 bits.
MAX_POSITION_MS: Final = 2**53
ACTIVE_STATES: Final = (PlayerState.LOADING, PlayerState.PLAYING)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call: the events to emit and the actions to carry out, both in order.

    The order of events is: PlayerPause, PlayerResume or Seek; TrackException, TrackEnd and QueueUpdate for each track
    that ended; TrackStart; and last one PlayerUpdate, if the call changed the state or the pause.

    `skips_to_open`: a skip ended the current track while the new track's source was already open, so the two may fade.
    `moves_fade`: the fade into the next track may begin at another time, so that track may have to be opened at once.
    """

    events: tuple[Event, ...] = ()
    actions: tuple[Action, ...] = ()
    skips_to_open: bool = False
    moves_fade: bool = False


@dataclass(frozen=True, slots=True)
class FirstSettings:
    """The settings that a player begins with. No event reports them, because no client knows earlier settings."""

    paused: bool = False
    filters: Filters = field(default_factory=Filters)
    loop_mode: LoopMode = LoopMode.NONE


class PlaybackState:
    """The state of one player, from `begin` to `delete`. Nothing may be called after `delete`. Without a first track
    the player is idle. With a `snapshot` it continues from there: `begin` opens the track at its position, and the
    caller also calls `start_clock` if `snapshot.clock_started`.

    `position_ms` is the position in the current track's file. The engine advances it as frames are sent. This class
    sets it to the track's start when a track is selected, and to the target of a seek. `wall_ms` gives the time of day,
    which only the history shows. `now_s` gives a monotonic time.
    """

    def __init__(
        self,
        player_id: str,
        first_track: Track | None,
        metadata: Json,
        *,
        max_waiting_tracks: int = 10_000,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        first_settings: FirstSettings | None = None,
        wall_ms: Callable[[], int] = lambda: 0,
        now_s: Callable[[], float] = lambda: 0.0,
        snapshot: PlayerSnapshot | None = None,
    ) -> None:
        self.player_id: Final = player_id
        selected, begin = first_track or Track.none(), first_settings or FirstSettings()
        self.position_ms = selected.start_ms
        self._limits = QueueLimits(max_waiting_tracks, max_waiting_bytes)
        self._wall_ms = wall_ms
        self._now_s = now_s
        self.state = PlayerState.IDLE if first_track is None else PlayerState.LOADING
        self.paused = begin.paused
        self._last_update = (self.state, self.paused)  # as in the last PlayerUpdate
        self.clock_started = False
        self.filters = begin.filters
        self.crossfade = CrossfadeSettings()
        self.metadata = metadata
        self._queue = PlayQueue(QueuedTrack(selected), loop_mode=begin.loop_mode)
        self._history = History()
        self._failures_in_a_row = 0  # of tracks that never gave audio
        self._own_error_s = -math.inf  # time of the node's last own error
        self.error: PlayFailure | None = None  # the last failure, until something plays
        # Of the current track since its selection: whether any of it was heard, how much, and from which position on.
        self._has_sounded = False
        self._played_ms = 0
        self._played_from_ms = selected.start_ms
        self._is_resuming = False  # the player played before it was restored, and has sent no audio since
        self._events: list[Event] = []
        if snapshot is not None:
            self._take_over(snapshot)

    def _take_over(self, snapshot: PlayerSnapshot) -> None:
        own: dict[QueuedTrack, QueuedTrack] = {}

        def own_track(track: QueuedTrack) -> QueuedTrack:
            copied = own.get(track)
            if copied is None:  # `replace` takes five times as long, which matters for ten thousand tracks
                copied = own[track] = QueuedTrack(track.track, track.gave_audio, track.failures, track.is_read)
            return copied

        self.state = PlayerState.LOADING if snapshot.state in ACTIVE_STATES else snapshot.state
        self.paused = snapshot.paused
        self._last_update = (self.state, self.paused)
        self.filters, self.crossfade = snapshot.filters, snapshot.crossfade
        self.metadata, self._queue.loop_mode = snapshot.metadata, snapshot.loop_mode
        if snapshot.current is not None:
            self._queue.current = own_track(snapshot.current)
        self._queue.set_tracks(tuple(map(own_track, snapshot.queue)))
        self._queue.version = 0
        played = [replace(played, queued_track=own_track(played.queued_track)) for played in snapshot.history]
        self._history = History(played)
        self._failures_in_a_row, self.error = snapshot.failures_in_a_row, snapshot.error
        is_behind = self.state is PlayerState.LOADING and self.current.is_unseekable
        self._begin_at(self.current.start_ms if is_behind else snapshot.position_ms)
        self._has_sounded, self._played_ms = snapshot.has_sounded, snapshot.played_ms
        self._is_resuming = self.state is PlayerState.LOADING and (
            snapshot.state is PlayerState.PLAYING or snapshot.is_resuming
        )

    def snapshot(self) -> PlayerSnapshot:
        return PlayerSnapshot(
            player_id=self.player_id,
            state=self.state,
            paused=self.paused,
            clock_started=self.clock_started,
            position_ms=self.position_ms,
            played_ms=self._played_ms + max(0, self.position_ms - self._played_from_ms),
            has_sounded=self._has_sounded,
            current=None if self.current.is_none else self._queue.current,
            queue=self._queue.tracks,
            history=self._history.played,
            loop_mode=self._queue.loop_mode,
            filters=self.filters,
            crossfade=self.crossfade,
            metadata=self.metadata,
            failures_in_a_row=self._failures_in_a_row,
            error=self.error,
            is_resuming=self._is_resuming and self.state is PlayerState.LOADING,
        )

    # State

    @property
    def current(self) -> Track:
        """The selected track, which an idle or failed player keeps; `Track.none()` before the first track."""
        return self._queue.current.track

    @property
    def queue(self) -> tuple[Track, ...]:
        return tuple(queued_track.track for queued_track in self._queue.tracks)

    @property
    def front_of_queue(self) -> Track | None:
        return self._queue.tracks[0].track if self._queue.tracks else None

    @property
    def queue_length(self) -> int:
        return len(self._queue.tracks)

    @property
    def queue_version(self) -> int:
        """The number of changes of the queue's order."""
        return self._queue.version

    @property
    def history(self) -> tuple[PlayedTrack, ...]:
        """The tracks that ended, newest first."""
        return self._history.played

    @property
    def loop_mode(self) -> LoopMode:
        return self._queue.loop_mode

    @property
    def current_source(self) -> SourceId | None:
        """The source of the current track; None in an idle or failed player."""
        return None if self._queue.current_attempt is None else self._queue.current_attempt.source

    @property
    def next_source(self) -> SourceId | None:
        """The source that is open ahead for the next track; None while there is none."""
        return None if self._queue.next_attempt is None else self._queue.next_attempt.source

    @property
    def is_opening_next(self) -> bool:
        attempt = self._queue.next_attempt
        return attempt is not None and not attempt.is_opened and attempt.failure is None

    @property
    def next_track(self) -> Track | None:
        return None if self._queue.next_attempt is None else self._queue.next_attempt.queued_track.track

    @property
    def wants_frames(self) -> bool:
        """Whether to send a frame at each tick, if a frame is available."""
        return self.clock_started and not self.paused and self.state in ACTIVE_STATES

    @property
    def stalled(self) -> SourceId | None:
        """The current source while it gives no audio although the clock runs, paused or not; otherwise None."""
        attempt = self._queue.current_attempt
        if self.state is not PlayerState.LOADING or attempt is None or attempt.failure is not None:
            return None
        return attempt.source if self.clock_started else None

    @property
    def is_in_mid_track(self) -> bool:
        """Whether the current source has given audio."""
        attempt = self._queue.current_attempt
        return attempt is not None and attempt.has_started

    def unread_track(self, depth: int, first: int = 0) -> Track | None:
        """The first of `depth` waiting tracks, from the index `first` on, whose tags should be read ahead."""
        unread = self._queue.unread(depth, first)
        return None if unread is None else unread.track

    def has_unread(self, depth: int, first: int = 0) -> bool:
        """Whether the tags of any of these waiting tracks may still be read before it plays."""
        attempt = self._queue.next_attempt
        failed = attempt.queued_track if attempt is not None and attempt.failure is not None else None
        return any(waiting.is_unread and waiting is not failed for waiting in self._queue.tracks[first : first + depth])

    def room_for(self, tracks: Sequence[Track]) -> int:
        """How many of these tracks, from the first on, may still wait."""
        return self._limits.room_for(self.queue_length, self._queue.waiting_bytes, tracks)

    def update(self) -> PlayerUpdate:
        """State and position now, to be emitted every few seconds while the player plays."""
        return PlayerUpdate(self.state, self.paused, self.position_ms, self.filters.effects.position_rate)

    # Transitions

    def _report_due_failures(self) -> None:
        """Emits the pending failure of the current track, and of each following track that has failed as well."""
        while self.clock_started and not self.paused and self._queue.current_attempt is not None:
            if self._queue.current_attempt.failure is None:
                return
            self._end_by_failure(self._queue.current_attempt.failure)

    def _end_by_failure(self, failure: PlayFailure) -> None:
        ended = self._queue.current
        self._queue.current_attempt = None
        self.error = failure
        user_data = ended.track.user_data(self.metadata)
        self._events.append(TrackException(ended.track, user_data, self.position_ms, failure))
        self._end_track(EndReason.LOAD_FAILED)
        is_beyond_tracks = failure.code is FailureCode.INTERNAL and self._is_second_own_error()
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

    def _is_second_own_error(self) -> bool:
        """Notes an error in the node's own code. One error may come from the track, but no second one within 60 s."""
        before_s, self._own_error_s = self._own_error_s, self._now_s()
        return self._own_error_s - before_s <= _OWN_ERRORS_WITHIN_S

    def _leave_failed(self, queue: tuple[QueuedTrack, ...]) -> None:
        """Continues with the first track of `queue`, or retries the current track when the queue is empty."""
        self._failures_in_a_row = 0
        if queue:
            self._select(Selection(queue[0], queue[1:]))
        else:
            self._restart()

    def _select(self, selection: Selection[QueuedTrack], *, joins: bool = False) -> None:
        """Makes the selected track current. `joins`: the track follows without a gap if its source is open."""
        self._set_queue(selection.queue)
        if selection.track is None:
            self._stop(PlayerState.IDLE)
            return
        attempt = self._queue.make_current(selection.track)
        self._begin_at(attempt.start_ms)
        if not (joins and attempt.is_opened and self.state is PlayerState.PLAYING):
            self.state = PlayerState.LOADING

    def _restart(self) -> None:
        self._begin_at(self._queue.open_current().start_ms)
        self.state = PlayerState.LOADING

    def _stop(self, state: PlayerState) -> None:
        self._queue.drop_all()
        self.state = state

    def _leave_current(self, reason: EndReason, *, is_remembered: bool = True) -> None:
        """Ends the current track. An idle player has none to end."""
        if self.state is not PlayerState.IDLE:
            self._end_track(reason, is_remembered=is_remembered)

    def _finish(self) -> None:
        """Ends the current track because a seek led to its end."""
        self._end_track(EndReason.FINISHED)
        self._begin_at(self.current.known_end_ms or self.position_ms)
        self._select(self._queue.selection_after(EndReason.FINISHED))
        self._report_due_failures()

    def _finish_if_behind_end(self) -> None:
        """Ends the current track if a seek that was made while the track was loading leads behind its end."""
        attempt = self._queue.current_attempt
        if not self.clock_started or attempt is None or attempt.failure is not None or not attempt.is_sought:
            return
        if self._is_behind_end(attempt.start_ms):
            self._finish()

    def _is_behind_end(self, position_ms: int) -> bool:
        current = self.current
        end_ms = current.end_ms_after(self.position_ms) if self.is_in_mid_track else current.known_end_ms
        return end_ms is not None and position_ms >= end_ms

    def _end_track(self, reason: EndReason, *, is_remembered: bool = True) -> None:
        self._count_played()
        user_data = self.current.user_data(self.metadata)
        self._events.append(TrackEnd(self.current, user_data, self.position_ms, reason, self._played_ms))
        if is_remembered:
            self._history.add(PlayedTrack(self._queue.current, self._wall_ms(), reason, self._has_sounded))
        self._begin_at(self.position_ms)

    def _begin_at(self, position_ms: int) -> None:
        """Sets the position of a track of which nothing was played yet."""
        self.position_ms = self._played_from_ms = position_ms
        self._played_ms = 0
        self._has_sounded = self._is_resuming = False

    def _note_seek(self, target_ms: int) -> None:
        self._events.append(Seek(self.current.id, self.position_ms, target_ms))
        self._count_played()
        self.position_ms = self._played_from_ms = target_ms

    def _count_played(self) -> None:
        self._played_ms += max(0, self.position_ms - self._played_from_ms)
        self._played_from_ms = self.position_ms

    def _require_room(self, tracks: Sequence[Track]) -> None:
        self._limits.require_room(self.player_id, self.queue_length, self._queue.waiting_bytes, tracks)

    def _change_queue(self, queue: tuple[QueuedTrack, ...]) -> None:
        self._set_queue(queue)
        self._queue.revise_next()

    def _set_queue(self, queue: tuple[QueuedTrack, ...]) -> None:
        if self._queue.set_tracks(queue):
            self._events.append(QueueUpdate(len(queue), self.queue_version))

    def _outcome(self, *, skips_to_open: bool = False, moves_fade: bool = False) -> Outcome:
        if (self.state, self.paused) != self._last_update:
            self._last_update = (self.state, self.paused)
            self._events.append(self.update())
        outcome = Outcome(tuple(self._events), self._queue.take_actions(), skips_to_open, moves_fade)
        self._events.clear()
        return outcome

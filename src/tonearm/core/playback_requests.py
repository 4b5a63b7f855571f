"""The requests of clients to a player. Each request changes the state and returns an `Outcome`, or raises with nothing
done."""

from collections.abc import Sequence

from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.errors import NoPrevious, NotSeekable
from tonearm.core.events import (
    CrossfadeChange,
    DeleteReason,
    FiltersChange,
    LoopModeChange,
    MetadataChange,
    PlayerDelete,
    PlayerPause,
    PlayerResume,
    PlayerState,
)
from tonearm.core.filters import FilterChange
from tonearm.core.metadata import Json, apply_metadata, is_same_json
from tonearm.core.play_queue import EndReason, LoopMode, QueuedTrack, Selection
from tonearm.core.playback_state import ACTIVE_STATES, MAX_POSITION_MS, Outcome, PlaybackState
from tonearm.core.queue_edits import in_order, index_of, with_inserted, with_moved, without
from tonearm.core.track import Track


class Requests(PlaybackState):
    """The requests to one player, from `begin` to `delete`; nothing may be called after `delete`."""

    def begin(self) -> Outcome:
        """Opens the first track, when there is one to play. To be called once, before anything else."""
        if self.state is PlayerState.LOADING:
            self._queue.open_current(start_ms=self.position_ms).has_started = self._has_sounded
        return self._outcome()

    def play(self) -> Outcome:
        """Ends a pause. An idle player plays its track again, a failed player continues, a delayed retry begins now."""
        if self.paused:
            self.paused = False
            self._events.append(PlayerResume(self.position_ms))
        attempt = self._queue.current_attempt
        if self.state is PlayerState.FAILED:
            self._leave_failed(self._queue.tracks)
        elif (attempt is None or attempt.may_be_delayed) and not self.current.is_none:
            self._restart()
        self._report_due_failures()
        return self._outcome()

    def pause(self) -> Outcome:
        if not self.paused:
            self.paused = True
            self._events.append(PlayerPause(self.position_ms))
        return self._outcome()

    def seek(self, position_ms: int, step_ms: int = 1) -> Outcome:
        """Seeks to a position in the file of the current track, or to the multiple of `step_ms` at or before it. A
        position before the track becomes its start.

        A position behind the known end ends the track. An idle or failed player plays its track from the position, and
        ignores a position behind the end. Raises NotSeekable.
        """
        if self.current.is_none:
            raise NotSeekable("The player has no track yet; add one to its queue, or play one.")
        if self.current.is_unseekable:
            raise NotSeekable(
                "The current track is live, or its source cannot be read from the middle; skip it, or wait."
            )
        target_ms = min(max(position_ms, self.current.start_ms), MAX_POSITION_MS)
        if not self._is_behind_end(target_ms):
            target_ms = max(target_ms - target_ms % step_ms, self.current.start_ms)
        if self.state not in ACTIVE_STATES:
            if not self._is_behind_end(target_ms):
                self._note_seek(target_ms)
                self._failures_in_a_row = 0
                self._queue.open_current(start_ms=target_ms)
                self.state = PlayerState.LOADING
            return self._outcome()
        if self.clock_started and self._is_behind_end(target_ms):
            self._finish()
            return self._outcome()
        if target_ms < self.position_ms:
            self._queue.forget_due()  # after the seek the end may be far away
        self._note_seek(target_ms)
        self._queue.seek_current(target_ms)
        self.state = PlayerState.LOADING
        return self._outcome()

    def skip(self, to: str | None = None) -> Outcome:
        """Ends the current track and plays the next one, or the waiting track with the id `to`.

        The tracks before `to` leave the queue; with loop mode queue they go to its end, behind the current track. An
        idle player has nothing to end. Raises TrackNotFound, with nothing done.
        """
        index = 0 if to is None else index_of(self._queue.tracks, to)
        is_idle, never_plays = self.state is PlayerState.IDLE, self.state is PlayerState.FAILED
        opened = self.next_source
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
        return self._outcome(skips_to_open=opened is not None and self.current_source == opened)

    def enqueue(self, *tracks: Track, index: int | None = None) -> Outcome:
        """Adds tracks to the queue: to its end, or before the track at `index` (0: they play next).

        An idle or failed player continues with the first track of the queue. Raises LimitReached when the queue would
        become too long and BadRequest for a negative index, with nothing done.
        """
        self._require_room(tracks)
        queue = with_inserted(self._queue.tracks, tracks, index)
        if self.state is PlayerState.IDLE:
            self._select(Selection(queue[0], queue[1:]))
        elif self.state is PlayerState.FAILED:
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
        if self.state is not PlayerState.IDLE:
            self._leave_current(EndReason.STOPPED)
            self._failures_in_a_row = 0
            self._stop(PlayerState.IDLE)
        return self._outcome()

    def previous(self) -> Outcome:
        """Plays the newest track of the history that sounded, and puts the current one at the front of the queue.

        An idle player has no current track, so it plays the track that it played last. Raises NoPrevious, with nothing
        done.
        """
        is_idle = self.state is PlayerState.IDLE
        current = None if is_idle else self._queue.current
        previous = self._history.take_previous(current)
        if previous is None:
            raise NoPrevious("No track was played before the current track.")
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
        """Removes a waiting track from the queue. Raises TrackNotFound."""
        self._change_queue(without(self._queue.tracks, track_id))
        return self._outcome()

    def move(self, track_id: str, index: int) -> Outcome:
        """Moves a waiting track to the place `index` of the queue. Raises TrackNotFound, and BadRequest for a negative
        index."""
        self._change_queue(with_moved(self._queue.tracks, track_id, index))
        return self._outcome()

    def shuffle(self, order: Sequence[int]) -> Outcome:
        """Puts the queue into another order. `order` has each index of the queue once."""
        self._change_queue(in_order(self._queue.tracks, order))
        return self._outcome()

    def set_loop(self, mode: LoopMode) -> Outcome:
        if mode is not self._queue.loop_mode:
            self._queue.loop_mode = mode
            self._events.append(LoopModeChange(mode))
            self._queue.revise_next()
        return self._outcome()

    def change_filters(self, change: FilterChange) -> Outcome:
        """Raises BadRequest, with nothing applied, when a value is out of its range."""
        filters = change.applied_to(self.filters)
        is_change = filters != self.filters
        if is_change:
            is_other_pace = filters.effects.position_rate != self.filters.effects.position_rate
            self.filters = filters
            self._events.append(FiltersChange(filters))
            if is_other_pace and self.state is PlayerState.PLAYING:
                self._events.append(self.update())  # a client that extrapolates the position needs the new rate
        return self._outcome(moves_fade=is_change)

    def change_crossfade(self, edit: CrossfadeEdit) -> Outcome:
        """Raises BadRequest, with nothing applied, when the duration is out of its range."""
        settings = edit.applied_to(self.crossfade)
        is_change = settings != self.crossfade
        if is_change:
            self.crossfade = settings
            self._events.append(CrossfadeChange(settings))
        return self._outcome(moves_fade=is_change)

    def change_metadata(self, merge: bool, value: Json) -> Outcome:
        metadata = apply_metadata(self.metadata, merge, value)
        if not is_same_json(metadata, self.metadata):
            self.metadata = metadata
            self._events.append(MetadataChange(metadata))
        return self._outcome()

    def delete(self, reason: DeleteReason | None = None) -> Outcome:
        if self.state in ACTIVE_STATES:
            self._end_track(EndReason.STOPPED)
        self._queue.drop_all()
        self.state = PlayerState.IDLE
        self._last_update = (self.state, self.paused)  # no PlayerUpdate is due beside PlayerDelete
        self._events.append(PlayerDelete(reason))
        return self._outcome()

"""The rules of a player: a state machine without I/O and without a clock.

Each call returns an `Outcome`: the events to emit and the sources to open, seek or drop. `player.engine` carries it out
and reports back, always with the number of the source. A report about a source that is neither current nor next any
more changes nothing, so late reports are harmless. A source that was reported as failed, ended or expanded
is gone, so no `DropAction` follows for it.
"""

from dataclasses import replace

from tonearm.core.events import PlayerState, QueueDetails, QueueUpdate, SeekFailed, StreamTitle, TrackStart, TrackStuck
from tonearm.core.failure import ENDED_WITHOUT_AUDIO, TURNED_PLAYLIST, PlayFailure
from tonearm.core.play_queue import EndReason, QueuedTrack, SourceId
from tonearm.core.playback_requests import Requests
from tonearm.core.playback_state import Outcome
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts


class Playback(Requests):
    """The rules of one player. This class handles reports about its sources; `Requests` handles the requests of
    clients."""

    def start_clock(self) -> Outcome:
        """Starts the player's clock: the first listener has come, or the wait for it is over. Pending failures and
        ends are due now."""
        self.clock_started = True
        self._finish_if_behind_end()
        self._report_due_failures()
        return self._outcome()

    def opened(self, source: SourceId, facts: SourceFacts) -> Outcome:
        """Takes the facts about a source that was opened and can be decoded."""
        attempt = self._queue.attempt(source)
        if attempt is not None:
            attempt.is_opened = True
            if attempt.queued_track.is_unread and attempt.queued_track in self._queue.tracks:
                self._events.append(QueueDetails((attempt.queued_track.track.id,)))
            facts = replace(facts, title=attempt.stream_title or facts.title)
            attempt.queued_track.track = attempt.queued_track.track.with_facts(facts)
            self._finish_if_behind_end()
        return self._outcome()

    def expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> Outcome:
        """Replaces a source that is a playlist by its tracks, at least one, which get the playlist's metadata.

        The first track is opened in place of the playlist; the others go to the front of the queue. If the queue would
        become too long, the last tracks are left out.
        """
        attempt = self._queue.attempt(source)
        if attempt is None or attempt.failure is not None:
            return self._outcome()
        playlist = attempt.queued_track.track
        refusal = playlist.refusal_as_playlist
        if refusal is not None:
            return self.failed(source, refusal)
        if attempt.has_started:
            return self.failed(source, TURNED_PLAYLIST)
        version_before = self.queue_version
        lists = playlist.lists_within
        tracks = tuple(replace(track, lists=lists, metadata_json=playlist.metadata_json) for track in tracks)
        # The first track takes the playlist's own place, so only the others need room.
        entries = tuple(map(QueuedTrack, (tracks[0], *tracks[1 : self.room_for(tracks[1:]) + 1])))
        if attempt is self._queue.current_attempt:
            self._queue.replace_current(entries)
            self._begin_at(self._queue.current_attempt.start_ms)
        elif not self._queue.replace_next(entries):
            return self.failed(source, TURNED_PLAYLIST)
        if self.queue_version != version_before:
            self._events.append(QueueUpdate(self.queue_length, self.queue_version))
        return self._outcome()

    def failed(self, source: SourceId, failure: PlayFailure) -> Outcome:
        """Notes that the source failed. Before any audio the failure is due when the track should play. For a source
        that had given audio, call this when its last frame was sent."""
        attempt = self._queue.attempt(source)
        if attempt is not None and attempt.has_started:
            self._end_by_failure(failure)
            self._report_due_failures()
        elif attempt is not None and attempt.failure is None:
            attempt.failure = failure
            self._report_due_failures()
        return self._outcome()

    def first_frame(self, source: SourceId) -> Outcome:
        """To be called before the first frame of the source is sent."""
        attempt = self._queue.attempt_of_current(source)
        if attempt is not None and attempt.failure is None:
            attempt.queued_track.gave_audio = True
            attempt.queued_track.failures = 0
            self._failures_in_a_row = 0
            self._is_resuming = False
            self.error = None
            if not attempt.has_started:
                attempt.has_started = self._has_sounded = True
                track = attempt.queued_track.track
                if attempt.seek_refusal is not None:
                    self._events.append(SeekFailed(track.id, attempt.seek_refusal, 0))
                self._events.append(TrackStart(track, track.user_data(self.metadata), self.position_ms))
            self.state = PlayerState.PLAYING
        return self._outcome()

    def seek_failed(self, source: SourceId, code: str) -> Outcome:
        """Notes that a seek was not possible because of `code`, so that the source plays the file from its start. For
        the next track the event comes when the track starts."""
        attempt = self._queue.attempt(source)
        if attempt is not None and attempt.failure is None:
            attempt.start_ms = 0
            if attempt is self._queue.current_attempt:
                self._count_played()
                self.position_ms = self._played_from_ms = 0
                self._events.append(SeekFailed(attempt.queued_track.track.id, code, 0))
            else:
                attempt.seek_refusal = code
        return self._outcome()

    def ended(self, source: SourceId) -> Outcome:
        """To be called when the last frame of the source was sent, without a failure.

        If the next source is open, the state stays `playing`: the caller calls its `first_frame` in the same tick, or
        `underrun` if there is no frame.
        """
        attempt = self._queue.attempt_of_current(source)
        if attempt is None or not (attempt.has_started or attempt.is_sought):
            return self.failed(source, ENDED_WITHOUT_AUDIO)
        self._queue.current_attempt = None
        self._end_track(EndReason.FINISHED)
        self._select(self._queue.selection_after(EndReason.FINISHED), joins=True)
        self._report_due_failures()
        return self._outcome()

    def next_is_due(self) -> Outcome:
        """Opens the next track, because the current source is near its end or decoded to it."""
        self._queue.make_next_due()
        return self._outcome()

    def next_is_not_due(self) -> Outcome:
        """Drops the next source until `next_is_due`."""
        self._queue.forget_due()
        return self._outcome()

    def underrun(self) -> Outcome:
        """Notes that no frame is buffered."""
        if self.state is PlayerState.PLAYING:
            self.state = PlayerState.LOADING
        return self._outcome()

    def recovered(self) -> Outcome:
        """Notes that enough is buffered, after `underrun` or during a pause. Without a pause, a track stays loading
        until its first frame."""
        attempt = self._queue.current_attempt
        if attempt is None or attempt.failure is not None:
            return self._outcome()
        if self.state is PlayerState.LOADING and (attempt.has_started or self.paused):
            self.state = PlayerState.PLAYING
        return self._outcome()

    def retitled(self, source: SourceId, title: str) -> Outcome:
        """Sets the title that a stream has from the last sent frame on. An unchanged title makes no event."""
        attempt = self._queue.attempt_of_current(source)
        if attempt is not None:
            attempt.stream_title = title
            if title != attempt.queued_track.track.info.title:
                attempt.queued_track.track = attempt.queued_track.track.with_title(title)
                self._events.append(StreamTitle(attempt.queued_track.track.id, title))
        return self._outcome()

    def stuck(self, source: SourceId, threshold_ms: int, cause: str) -> Outcome:
        """Reports that the source gave no frame for `threshold_ms`. `cause` names in a few words what it waits for."""
        if source == self.stalled:
            user_data = self.current.user_data(self.metadata)
            self._events.append(TrackStuck(self.current, user_data, self.position_ms, threshold_ms, cause))
        return self._outcome()

    def tags_read(self, track_id: str, facts: SourceFacts | None) -> Outcome:
        """Takes the tags of a waiting track, which were read ahead; `facts` are None when reading failed."""
        for waiting in self._queue.tracks:
            if waiting.track.id == track_id and waiting.is_unread:
                waiting.is_read = True
                if facts is not None:
                    waiting.track = waiting.track.with_hints(facts)
                    self._events.append(QueueDetails((track_id,)))
                break
        return self._outcome()

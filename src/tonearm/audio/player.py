"""A player: the shell of a `Playback`, which holds the rules.

It does what the rules ask for, sends a frame at each tick, and reports to the rules what happens to the sources. Events
go to the event clients and, as far as an operator wants to know of them, to the log.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from tonearm.audio.broadcast import Broadcast
from tonearm.audio.clock import Clock
from tonearm.audio.decoder_session import GRANT_STEP_FRAMES, DecoderSession
from tonearm.audio.event_log import EventLog, EventText
from tonearm.audio.loudness_memory import LoudnessMemory
from tonearm.audio.plan_state import SourceBegan, SourceEnded
from tonearm.audio.sinks import EventSink, FrameSink
from tonearm.audio.source_input import Opener
from tonearm.audio.timers import LIVE_PAUSE_S, STUCK_AFTER_S, CallLater, Cancellable, LivePause, StallWatch
from tonearm.core.errors import LimitReached
from tonearm.core.events import Event, PlayerState, TrackEnd, TrackException, TrackStart
from tonearm.core.failure import SILENT_FOR_TOO_LONG, FailureCode, PlayFailure, Stage
from tonearm.core.filters import FilterChange, Filters
from tonearm.core.frame import FRAME_MS, FRAMES_PER_SECOND, ms_of_samples
from tonearm.core.json_value import Json
from tonearm.core.play_queue import LoopMode, Open, SourceId
from tonearm.core.playback import Outcome, Playback
from tonearm.core.player_status import PlayerQuality, PlayerStatus
from tonearm.core.source_uri import SourceUri
from tonearm.core.text_for_logs import text_for_logs
from tonearm.core.track import Track
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.decoding.pool.pool import DecoderPool

log = logging.getLogger(__name__)


class Suspects(Protocol):
    """Remembers the sources that decoder processes worked on when they died."""

    def add(self, uri: SourceUri) -> None: ...


@dataclass(frozen=True, slots=True)
class PlayerServices:
    """What all players of a node share, and their limits."""

    pool: DecoderPool
    opener: Opener
    suspects: Suspects
    clock: Clock
    wall_ms: Callable[[], int]
    event_text: EventText
    call_later: CallLater
    first_listener_wait_ms: int
    max_waiting_tracks: int
    max_listeners: int
    live_pause_s: float = LIVE_PAUSE_S


def log_event(player_id: str, event: Event) -> None:
    """Logs a line for an event that an operator wants to know of; none for the others."""
    match event:
        case TrackStart():
            log.info("player %s: track started: %s", player_id, _uri(event.track))
        case TrackEnd():
            log.info("player %s: track ended (%s): %s", player_id, event.reason, _uri(event.track))
        case TrackException():
            failure = event.failure
            message = text_for_logs(failure.message)
            log.warning("player %s: track failed (%s): %s %s", player_id, failure.code, message, _uri(event.track))


def _uri(track: Track) -> str:
    return text_for_logs(track.info.identifier)


UPDATE_INTERVAL_FRAMES: Final = 5 * FRAMES_PER_SECOND
OPEN_NEXT_BEFORE_END_MS: Final = 10_000
CLOSE_DELETED: Final = 1000  # RFC 6455, 7.4.1: normal closure

_NODE_ERROR: Final = PlayFailure(
    FailureCode.CORRUPT,
    Stage.DECODE,
    "The node met an error of its own while it played this track, and gave the track up.",
    "Look into the node's log, and report what it says.",
)


class Player:
    """One player from create to delete. All methods return at once; the loop's thread only."""

    def __init__(self, player_id: str, first_track: Track, metadata: Json, services: PlayerServices) -> None:
        self._services = services
        self._clock = services.clock
        self._playback = Playback(player_id, first_track, metadata, max_waiting_tracks=services.max_waiting_tracks)
        self._events = EventLog(player_id, services.wall_ms, services.event_text)
        self._broadcast = Broadcast(self._count_lost_frames)
        self._uris: dict[SourceId, SourceUri] = {}
        self._loudness = LoudnessMemory()
        self._is_buffering = True  # before the first frame, and after an underrun
        self._next_ordered_for: SourceId | None = None
        self._late_failure: tuple[SourceId, PlayFailure] | None = None
        self._frames_sent = 0
        self._plain_step_ms = FRAME_MS  # how far the position moves with a plain frame
        self._frames_lost = 0
        self._underruns = 0
        self._is_deleted = False
        self._session = DecoderSession(self, services.pool, services.opener, lambda: services.clock.until_tick_s(self))
        self._buffer = self._session.buffer
        self._stalls = StallWatch(
            services.call_later, self._report_stall, lambda source: self.source_failed(source, SILENT_FOR_TOO_LONG)
        )
        self._live_pause = LivePause(services.call_later, self._session.rest, services.live_pause_s)
        self._first_wait: Cancellable | None = services.call_later(
            services.first_listener_wait_ms / 1000, self._start_clock
        )
        self._perform(self._playback.begin())

    # What clients ask for

    def play(self) -> None:
        self._perform(self._playback.play())
        self.frames_arrived()

    def pause(self) -> None:
        self._perform(self._playback.pause())

    def skip(self) -> None:
        self._perform(self._playback.skip())

    def enqueue(self, *tracks: Track) -> None:
        """Raises `LimitReached` when not all of them may wait."""
        self._perform(self._playback.enqueue(*tracks))

    def set_loop(self, mode: LoopMode) -> None:
        self._perform(self._playback.set_loop(mode))

    def change_filters(self, change: FilterChange) -> None:
        """Raises `BadRequest`."""
        self._perform(self._playback.change_filters(change))

    def change_metadata(self, merge: bool, value: Json) -> None:
        self._perform(self._playback.change_metadata(merge, value))

    async def delete(self) -> None:
        """Emits the end and closes all connections at once; returns when everything is given back."""
        self._is_deleted = True
        self._cancel_first_wait()
        self._stalls.follow(None, is_paused=False)
        self._live_pause.follow(None)
        self._clock.leave(self)
        self._emit(self._playback.delete().events)
        self.close_connections(CLOSE_DELETED, "the player was deleted")
        await self._session.close()

    def attach(self, sink: FrameSink) -> Callable[[], None]:
        """Adds a listener; the first one starts the clock. Returns how to take it away. Raises `LimitReached`."""
        if len(self._broadcast) >= self._services.max_listeners:
            raise LimitReached(
                f"The player has {self._services.max_listeners} listeners, as many as player.max_listeners allows."
            )
        detach = self._broadcast.attach(sink)
        self._start_clock()
        self._update_listening()
        self._update_ticking()

        def leave() -> None:
            detach()
            self._update_listening()

        return leave

    def subscribe(self, sink: EventSink, since: int | None, wants_snapshot: bool) -> Callable[[], None]:
        """Sends events to `sink` from now on; first those after number `since`, or the whole state. Returns how to
        stop."""
        return self._events.subscribe(sink, since, wants_snapshot, self.status)

    def close_connections(self, code: int, reason: str) -> None:
        self._broadcast.close(code, reason)
        self._events.close(code, reason)

    # What the player is

    @property
    def queue(self) -> tuple[Track, ...]:
        """The tracks that wait behind the current one."""
        return self._playback.queue

    @property
    def filters(self) -> Filters:
        return self._playback.filters

    def status(self) -> PlayerStatus:
        """The whole state."""
        playback = self._playback
        return PlayerStatus(
            player_id=playback.player_id,
            track=playback.current,
            state=playback.state,
            paused=playback.paused,
            position_ms=playback.position_ms,
            filters=playback.filters,
            loop_mode=playback.loop_mode,
            queue_length=playback.queue_length,
            metadata=playback.metadata,
            listeners=len(self._broadcast),
            last_seq=self._events.last_seq,
            quality=PlayerQuality(
                frames_sent=self._frames_sent,
                frames_lost=self._frames_lost,
                underruns=self._underruns,
                late_plans=self._session.late_plans_total,
                decoder_process_id=self._session.decoder_process_id,
            ),
        )

    # The clock

    def tick(self) -> None:
        """One frame's time. Nearly all frames are plain ones, for which this is all that is done."""
        try:
            message = self._buffer.pop_plain()
            if message is None:
                self._tick()
            else:
                self._send(message)
                self._playback.position_ms += self._plain_step_ms
        except Exception:
            log.exception("player %s: sending a frame failed", self._playback.player_id)
            self.went_wrong()

    def _tick(self) -> None:
        """Sends the next frame when there is one, with all that falls due with it."""
        if self._playback.wants_frames:
            if self._is_buffering and self._session.has_enough:
                self._is_buffering = False
                self._perform(self._playback.recovered())
            if not self._is_buffering and self._send_frame():
                return
        if self._broadcast.wants_silence:
            self._broadcast.send_silence()
        self._update_ticking()

    def _send_frame(self) -> bool:
        buffer, playback = self._buffer, self._playback
        if not buffer.frames_ahead:
            self._underrun()
            return False
        while (event := self._session.take_event()) is not None:
            self._take_up(event)
        if not buffer.frames_ahead or not playback.wants_frames:
            return False  # the events led to another plan
        frame = buffer.pop()
        self._send(frame.message)
        if frame.source == playback.current_source:
            playback.position_ms = ms_of_samples(frame.end_samples)
        self._take_up_complete_ends()
        if frame.title is not None:
            self._perform(playback.retitled(frame.source, frame.title))
        self._open_next_in_time()
        if self._frames_sent % UPDATE_INTERVAL_FRAMES == 0:
            self._events.add(playback.update())
        if frame.source == playback.current_source:
            step_ms = FRAME_MS * frame.position_rate
            self._plain_step_ms = round(step_ms)
            if abs(step_ms - self._plain_step_ms) < 1e-6:  # else each frame's position is worked out
                buffer.allow_plain(self._frames_until_due())
        return True

    def _frames_until_due(self) -> int:
        """How many frames may be sent before the next PlayerUpdate, or before the next track is to be opened."""
        frames = UPDATE_INTERVAL_FRAMES - 1 - self._frames_sent % UPDATE_INTERVAL_FRAMES
        info = self._playback.current.info
        if self._next_ordered_for == self._playback.current_source or info.is_stream or not info.length_ms:
            return frames
        until_order_ms = info.length_ms - self._open_next_before_end_ms() - self._playback.position_ms
        return min(frames, max(0, until_order_ms // self._plain_step_ms))

    def _open_next_before_end_ms(self) -> int:
        """In time of the file, for the next track is opened in good time as it is heard."""
        return int(OPEN_NEXT_BEFORE_END_MS * self._playback.filters.effects.position_rate)

    def _send(self, message: bytes) -> None:
        if message:
            self._broadcast.send(message)
        self._frames_sent += 1
        # On common beats, so that the grants of many players wake a decoder process once, and so do their frames here.
        if self._clock.beat % GRANT_STEP_FRAMES == 0:
            self._session.grant()

    def _take_up(self, event: SourceBegan | SourceEnded) -> None:
        source = event.source
        if isinstance(event, SourceBegan):
            self._perform(self._playback.first_frame(source))
            return
        if event.failure is None:
            outcome = self._playback.ended(source)
        else:
            outcome = self._playback.interrupted(source, event.failure)
        self._drop(source)
        self._perform(outcome)

    def _take_up_complete_ends(self) -> None:
        while (end := self._session.take_complete_end()) is not None:
            self._take_up(end)

    def _underrun(self) -> None:
        self._is_buffering = True
        if self._playback.state is PlayerState.PLAYING:
            self._underruns += 1
        self._session.underrun()
        self._perform(self._playback.underrun())
        if self._late_failure is not None:
            source, failure = self._late_failure
            self._late_failure = None
            self.source_failed(source, failure)

    # What becomes of sources

    def source_opened(self, source: SourceId, facts: SourceFacts) -> None:
        self._loudness.opened(source, facts.album)
        self._perform(self._playback.opened(source, facts))
        self._open_next_in_time()

    def source_failed(self, source: SourceId, failure: PlayFailure) -> None:
        if source == self._playback.current_source and not self._is_buffering and self._buffer.frames_ahead:
            # A source that was opened again has failed: its buffered frames are sent first.
            self._late_failure = (source, failure)
            return
        outcome = self._playback.failed(source, failure)
        self._drop(source)
        self._perform(outcome)

    def source_expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        outcome = self._playback.expanded(source, tracks)
        self._drop(source)
        self._perform(outcome)

    def source_measured(self, source: SourceId, measured: MeasuredLoudness) -> None:
        self._loudness.measured(source, measured)

    def source_decoded(self, source: SourceId) -> None:
        self._open_next_in_time()
        if self._is_buffering and self._playback.position_ms:
            self._session.flush()
        self.frames_arrived()

    def frames_arrived(self) -> None:
        if self._is_deleted:
            return
        if self._playback.wants_frames:
            self._take_up_complete_ends()  # an end may be known only after its last frame was sent
        if self._is_buffering:
            self._update_ticking()

    def sources_suspected(self, sources: tuple[SourceId, ...]) -> None:
        for source in sources:
            uri = self._uris.get(source)
            if uri is not None:
                self._services.suspects.add(uri)

    def went_wrong(self) -> None:
        """After an error of the node itself: gives the track up, so that the player goes on and clients see why."""
        try:
            source = self._playback.current_source
            if source is not None:
                outcome = self._playback.failed(source, _NODE_ERROR)
                self._drop(source)
                self._perform(outcome)
        except Exception:
            log.exception(
                "player %s: the track could not be given up; the player stands still", self._playback.player_id
            )
            self._clock.leave(self)

    # How it is done

    def _perform(self, outcome: Outcome) -> None:
        self._emit(outcome.events)
        for action in outcome.actions:
            if isinstance(action, Open):
                uri = self._uris[action.source] = action.track.uri
                is_normalized = self._playback.filters.effects.normalizes
                waiting = self._playback.queue if is_normalized else ()
                hints = self._loudness.opening(action.source, action.track, waiting)
                self._session.open(action.source, uri, action.delay_s, hints)
            else:
                self._drop(action.source)
        playback = self._playback
        if not playback.paused:
            self._session.wake()
        self._session.play(playback.current_source, playback.next_source, playback.filters)
        self._stalls.follow(playback.stalled, is_paused=playback.paused)
        is_held_live = playback.paused and playback.current.info.is_stream
        self._live_pause.follow(playback.current_source if is_held_live else None)
        self._update_ticking()

    def _emit(self, events: tuple[Event, ...]) -> None:
        for event in events:
            log_event(self._playback.player_id, event)
            self._events.add(event)

    def _drop(self, source: SourceId) -> None:
        self._uris.pop(source, None)
        self._loudness.closed(source)
        self._session.drop(source)

    def _report_stall(self, source: SourceId) -> None:
        self._perform(self._playback.stuck(source, int(STUCK_AFTER_S * 1000), self._session.waiting_for))

    def _open_next_in_time(self) -> None:
        """Orders the next track when little of this one is left. Endless streams have no next one to wait for."""
        playback = self._playback
        source = playback.current_source
        info = playback.current.info
        if source is None or source == self._next_ordered_for or info.is_stream:
            return
        is_near = 0 < info.length_ms <= playback.position_ms + self._open_next_before_end_ms()
        if is_near or self._session.is_decoded(source):
            self._next_ordered_for = source
            self._perform(playback.next_is_due())

    def _start_clock(self) -> None:
        self._cancel_first_wait()
        if not self._playback.clock_started:
            self._perform(self._playback.start_clock())
            self._update_listening()
            self.frames_arrived()

    def _cancel_first_wait(self) -> None:
        if self._first_wait is not None:
            self._first_wait.cancel()
            self._first_wait = None

    def _update_listening(self) -> None:
        """Before the clock starts the first frames are rendered for the first listener."""
        if not self._is_deleted:
            self._session.listen(len(self._broadcast) > 0 or not self._playback.clock_started)

    def _update_ticking(self) -> None:
        """Ticks only while there is something to send: a player that is paused, idle or waiting costs nothing."""
        if self._is_deleted:
            return
        has_frames = self._playback.wants_frames and (not self._is_buffering or self._session.has_enough)
        if has_frames or self._broadcast.wants_silence:
            self._clock.join(self)
        else:
            self._clock.leave(self)

    def _count_lost_frames(self, frames: int) -> None:
        self._frames_lost += frames

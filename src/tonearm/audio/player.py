"""A player: the shell of a `Playback`, which holds the rules.

It does what the rules ask for, sends a frame at each tick, and reports to the rules what happens to the sources. Events
go to the event clients and, as far as an operator wants to know of them, to the log.
"""

import logging
import random
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from tonearm.audio.broadcast import Broadcast
from tonearm.audio.clock import Clock
from tonearm.audio.decoder_session import GRANT_STEP_FRAMES, DecoderSession
from tonearm.audio.event_feed import EventFeed
from tonearm.audio.event_log import MAX_KEPT_BYTES, EventLog, EventText
from tonearm.audio.framing import FrameFlag
from tonearm.audio.listener_changes import ListenerChanges
from tonearm.audio.loudness_memory import LoudnessHints, LoudnessMemory
from tonearm.audio.plan_state import SourceBegan, SourceEnded, SourceFaded
from tonearm.audio.player_overlays import PlayerOverlays
from tonearm.audio.sinks import EventSink, FrameSink
from tonearm.audio.sleep import Circumstances, Sleep
from tonearm.audio.source_input import PlayersOpener, SourcePart
from tonearm.audio.timers import (
    LIVE_PAUSE_S,
    START_TIMEOUT_S,
    CallLater,
    Cancellable,
    LivePause,
    StallWatch,
    patience_at_start,
    patience_in_mid_track,
)
from tonearm.core.crossfade import CrossfadeEdit, CrossfadeSettings, FadeBegin, FadeTime, fade_at_end, fade_of_skip
from tonearm.core.errors import LimitReached
from tonearm.core.events import (
    DeleteReason,
    Event,
    ListenersChange,
    OverlayException,
    PlayerState,
    QueueUpdate,
    TrackEnd,
    TrackException,
    TrackStart,
)
from tonearm.core.failure import SILENT_FOR_TOO_LONG, FailureCode, PlayFailure, Stage, never_started
from tonearm.core.filters import FilterChange, Filters
from tonearm.core.frame import FRAME_MS, FRAMES_PER_SECOND, SAMPLE_RATE_HZ, ms_of_samples, samples_of_ms
from tonearm.core.history import PlayedTrack
from tonearm.core.json_value import Json
from tonearm.core.metadata import MAX_METADATA_BYTES, apply_metadata, require_metadata_bytes
from tonearm.core.outputs import PCM_ONLY, Payloads
from tonearm.core.overlays import OverlaySettings, OverlayStatus
from tonearm.core.play_queue import Action, Drop, LoopMode, Open, SourceId
from tonearm.core.playback import MAX_WAITING_BYTES, Outcome, Playback
from tonearm.core.player_status import PlayerQuality, PlayerStatus
from tonearm.core.source_uri import SourceUri
from tonearm.core.text_for_logs import text_for_logs
from tonearm.core.track import Track
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.decoding.messages import Crossfade, Encoded
from tonearm.decoding.pool.pool import DecoderPool
from tonearm.protocol import close_codes

log = logging.getLogger(__name__)


class Suspects(Protocol):
    """Remembers the sources that decoder processes worked on when they died."""

    def add(self, uri: SourceUri) -> None: ...


@dataclass(frozen=True, slots=True)
class PlayerServices:
    """What all players of a node share, and their limits."""

    pool: DecoderPool
    opener: PlayersOpener
    suspects: Suspects
    clock: Clock
    wall_ms: Callable[[], int]
    event_text: EventText
    call_later: CallLater
    first_listener_wait_ms: int
    max_waiting_tracks: int
    max_listeners: int
    json_bytes: Callable[[Json], int]
    live_pause_s: float = LIVE_PAUSE_S
    start_timeout_s: float = START_TIMEOUT_S
    max_waiting_bytes: int = MAX_WAITING_BYTES
    max_metadata_bytes: int = MAX_METADATA_BYTES
    max_event_bytes: int = MAX_KEPT_BYTES
    event_feed: EventFeed | None = None
    queue_changed: "Callable[[Player], None]" = lambda player: None


@dataclass(frozen=True, slots=True)
class FirstSettings:
    """What a player begins with. No events tell of it: nobody can have known anything else."""

    paused: bool = False
    filters: Filters = field(default_factory=Filters)
    loop_mode: LoopMode = LoopMode.NONE


def log_event(player_id: str, event: Event) -> None:
    """Logs a line for an event that an operator wants to know of; none for the others."""
    match event:
        case TrackStart():
            log.info("player %s: track started: %s", player_id, _uri(event.track))
        case TrackEnd():
            played = f"after {event.played_ms / 1000:.1f} s" if event.played_ms else "without a sound"
            log.info("player %s: track ended (%s) %s: %s", player_id, event.reason, played, _uri(event.track))
        case TrackException():
            failure = event.failure
            message = text_for_logs(f"{failure.message} {failure.hint}")
            log.warning("player %s: track failed (%s): %s: %s", player_id, failure.code, _uri(event.track), message)
        case OverlayException():
            message = text_for_logs(f"{event.failure.message} {event.failure.hint}")
            log.warning("player %s: overlay failed (%s): %s", player_id, event.failure.code, message)


def _uri(track: Track) -> str:
    return text_for_logs(track.info.identifier)


class _Skipped(NamedTuple):
    """The track that a skip ends in the middle of its sound."""

    source: SourceId
    track: Track
    position_ms: int


def _crossfade(time: FadeTime | None, settings: CrossfadeSettings) -> Crossfade | None:
    if time is None:
        return None
    return Crossfade(samples_of_ms(time.at_ms), samples_of_ms(time.duration_ms), settings.curve.value, time.is_rest)


def _part(action: Open) -> SourcePart:
    end_sample = None if action.end_ms is None else samples_of_ms(action.end_ms)
    return SourcePart(action.track.uri, samples_of_ms(action.start_ms), end_sample)


NOT_SEEKABLE: Final = "not_seekable"  # why a seek failed
UPDATE_INTERVAL_FRAMES: Final = 5 * FRAMES_PER_SECOND
OPEN_NEXT_BEFORE_END_MS: Final = 10_000
FADE_LEAD_MS: Final = 60  # heard until a plan that is made now can change the sound
# Where nobody listens, and the next track is a file that was opened before: each second that a player is awake for it
# costs as much decoding as the rest of a track that it sleeps through.
OPEN_KNOWN_FILE_BEFORE_END_MS: Final = 3_000
MAX_ENCODERS: Final = 3  # of one format for one player
MP3_PATIENCE_FRAMES: Final = FRAMES_PER_SECOND // 2

_NODE_ERROR: Final = PlayFailure(
    FailureCode.CORRUPT,
    Stage.DECODE,
    "The node met an error of its own while it played this track, and gave the track up.",
    "Look into the node's log, and report what it says.",
)


class Player:
    """One player from create to delete. All methods return at once; the loop's thread only."""

    def __init__(
        self,
        player_id: str,
        first_track: Track,
        metadata: Json,
        services: PlayerServices,
        first_settings: FirstSettings | None = None,
    ) -> None:
        self._services = services
        self._clock = services.clock
        begin = first_settings or FirstSettings()
        self._playback = Playback(
            player_id,
            first_track,
            metadata,
            max_waiting_tracks=services.max_waiting_tracks,
            max_waiting_bytes=services.max_waiting_bytes,
            paused=begin.paused,
            filters=begin.filters,
            loop_mode=begin.loop_mode,
            wall_ms=services.wall_ms,
        )
        life = secrets.token_hex(8)
        self._events = EventLog(
            player_id,
            life,
            services.wall_ms,
            services.event_text,
            services.event_feed,
            services.max_event_bytes,
            services.call_later,
        )
        self._listener_changes = ListenerChanges(
            services.call_later, lambda listeners: self._emit((ListenersChange(listeners),))
        )
        self._broadcast = Broadcast(self._count_lost_frames, self._sent_position_us)
        self._tracks: dict[SourceId, Track] = {}
        self._loudness = LoudnessMemory()
        self._is_buffering = True  # before the first frame, and after an underrun
        self._next_ordered_for: SourceId | None = None
        self._late_failure: tuple[SourceId, PlayFailure] | None = None
        self._frames_sent = 0
        self._plain_step_ms = FRAME_MS  # how far the position moves with a plain frame
        self._begun_source: SourceId | None = None
        self._fade_begin = FadeBegin()
        self._frames_lost = 0
        self._late_frames = 0
        self._mp3_end_frame = 0  # frames before it were encoded
        self._mp3_waits = 0  # for how many ticks it has been waited for, with nothing to send
        self._underruns = 0
        self._is_deleted = False
        self._session = DecoderSession(self, services.pool, services.opener, lambda: services.clock.until_tick_s(self))
        self._buffer = self._session.buffer
        self._overlays = PlayerOverlays(
            self._session, self._emit, self._overlays_changed, services.call_later, services.start_timeout_s
        )
        self._stalls = StallWatch(services.call_later, self._report_stall, self._give_up)
        self._sleep = Sleep(self, services.clock, services.call_later, self._circumstances())
        self._live_pause = LivePause(services.call_later, self._session.rest, services.live_pause_s)
        self._first_wait: Cancellable | None = services.call_later(
            services.first_listener_wait_ms / 1000, self._start_clock
        )
        self._perform(self._playback.begin())

    # What clients ask for

    def play(self) -> None:
        self._sleep.catch_up()
        self._perform(self._playback.play())
        self.frames_arrived()

    def pause(self) -> None:
        self._sleep.catch_up()
        self._perform(self._playback.pause())

    def seek(self, position_ms: int) -> None:
        """To the frame in which the position is, when packets of the track are passed on. Raises `NotSeekable`."""
        self._sleep.catch_up()
        if self._session.seeks_by_frames:
            position_ms -= position_ms % FRAME_MS
        self._perform(self._playback.seek(position_ms))
        self.frames_arrived()

    def seek_by(self, offset_ms: int) -> None:
        """As `seek`, from the position of now. Raises `NotSeekable`."""
        self._sleep.catch_up()
        self.seek(self._playback.position_ms + offset_ms)

    def skip(self, to: str | None = None) -> None:
        """Raises `TrackNotFound` when `to` does not wait."""
        self._sleep.catch_up()
        playback = self._playback
        source, skipped = playback.current_source, None
        if source is not None and playback.state is PlayerState.PLAYING and playback.wants_frames:
            skipped = _Skipped(source, playback.current, playback.position_ms)
        self._perform(playback.skip(to), skipped=skipped)

    def replace(self, track: Track, *more: Track) -> None:
        """Raises `LimitReached` when not all of `more` may wait."""
        self._sleep.catch_up()
        self._perform(self._playback.replace(track, *more))

    def stop(self) -> None:
        self._sleep.catch_up()
        self._perform(self._playback.stop())

    def previous(self) -> None:
        """Raises `NoPrevious`."""
        self._sleep.catch_up()
        self._perform(self._playback.previous())

    def enqueue(self, *tracks: Track, index: int | None = None) -> None:
        """Raises `LimitReached` when not all of them may wait, and `BadRequest` for a negative index."""
        self._perform(self._playback.enqueue(*tracks, index=index))

    def clear_queue(self) -> None:
        self._perform(self._playback.clear_queue())

    def remove(self, track_id: str) -> None:
        """Raises `TrackNotFound`."""
        self._perform(self._playback.remove(track_id))

    def move(self, track_id: str, index: int) -> None:
        """Raises `TrackNotFound`, and `BadRequest` for a negative index."""
        self._perform(self._playback.move(track_id, index))

    def shuffle(self) -> None:
        length = self._playback.queue_length
        self._perform(self._playback.shuffle(random.sample(range(length), length)))

    def set_loop(self, mode: LoopMode) -> None:
        self._perform(self._playback.set_loop(mode))

    def change_filters(self, change: FilterChange) -> None:
        """Raises `BadRequest`."""
        self._sleep.catch_up()
        may_fade_yet = self._may_fade_yet
        self._perform_change_of_fade(self._playback.change_filters(change), may_fade_yet=may_fade_yet)

    def change_crossfade(self, edit: CrossfadeEdit) -> None:
        """Raises `BadRequest`."""
        self._sleep.catch_up()
        may_fade_yet = self._may_fade_yet
        self._perform_change_of_fade(self._playback.change_crossfade(edit), may_fade_yet=may_fade_yet)
        self._open_next_in_time()

    def add_overlay(self, track: Track, settings: OverlaySettings) -> None:
        """Has `track` sound over whatever plays, as soon as it can. Raises `LimitReached`."""
        self._sleep.catch_up()
        self._overlays.add(track, settings)

    def remove_overlay(self, overlay_id: str) -> None:
        """Raises `OverlayNotFound`."""
        self._overlays.remove(overlay_id)

    def change_metadata(self, merge: bool, value: Json) -> None:
        """Raises `BadRequest` when `value`, or what it leads to, is too long."""
        metadata = value
        self._require_metadata(value)
        if merge:
            metadata = apply_metadata(self._playback.metadata, merge, value)
            self._require_metadata(metadata)
        self._perform(self._playback.change_metadata(False, metadata))

    async def delete(self, reason: DeleteReason | None = None) -> None:
        """Emits the end and closes all connections at once; returns when everything is given back."""
        self._sleep.catch_up()
        self._sleep.stop()
        self._is_deleted = True
        self._cancel_first_wait()
        self._stalls.follow(None, patience_in_mid_track(), is_suspended=False)
        self._live_pause.follow(None)
        self._listener_changes.close()
        self._clock.leave(self)
        *ends, deleted = self._playback.delete(reason).events
        self._emit((*ends, *self._overlays.remove_all(), deleted))
        self.close_connections(close_codes.DELETED, "the player was deleted")
        await self._session.close()

    def attach(self, sink: FrameSink, *, is_counted: bool = True) -> Callable[[], None]:
        """Adds a listener; the first one starts the clock. Returns how to take it away. Raises `LimitReached`.

        One that is not counted yet hears what there is, but neither shows nor starts the clock before `count`.
        """
        if len(self._broadcast) >= self._services.max_listeners:
            raise LimitReached(
                f"The player has {self._services.max_listeners} listeners, as many as player.max_listeners allows."
            )
        encoders = {output for output in self._broadcast.outputs if output.format == sink.output.format}
        if len(encoders | {sink.output}) > MAX_ENCODERS:
            raise LimitReached(
                f"The player is encoded at {MAX_ENCODERS} bitrates already. Ask for one of them: "
                f"{', '.join(str(output.bitrate_bps) for output in sorted(encoders))}."
            )
        detach = self._broadcast.attach(sink, is_counted=is_counted)
        self._log_listeners("came")
        if is_counted:
            self._start_clock()
        self._update_listening()
        self._update_ticking()
        self._listener_changes.changed(self._broadcast.counted)

        def leave() -> None:
            detach()
            self._log_listeners("left")
            self._update_listening()
            if not self._is_deleted:
                self._listener_changes.changed(self._broadcast.counted)

        return leave

    def count(self, sink: FrameSink) -> None:
        """A listener that was not counted has stayed: from now on it is one as all others."""
        if self._broadcast.count(sink):
            self._start_clock()
            self._listener_changes.changed(self._broadcast.counted)

    def subscribe(
        self, sink: EventSink, since: int | None, wants_snapshot: bool, life: str | None = None
    ) -> Callable[[], None]:
        """Sends events to `sink` from now on; first those after number `since` of this `life` (None: whichever it is),
        or the whole state. Returns how to stop."""
        return self._events.subscribe(sink, since, wants_snapshot, self.status, life)

    def snapshot_text(self) -> str:
        """The whole state as an event client gets it."""
        return self._events.snapshot_text(self.status())

    def close_connections(self, code: int, reason: str) -> None:
        self._broadcast.close(code, reason)
        self._events.close(code, reason)

    def room_for(self, tracks: Sequence[Track]) -> int:
        """How many of these tracks, from the first on, may still wait."""
        return self._playback.room_for(tracks)

    def unread_track(self, depth: int) -> Track | None:
        """The first of the next `depth` waiting tracks of which nothing is known; None without one."""
        return None if self._is_deleted else self._playback.unread_track(depth)

    def tags_read(self, track_id: str, facts: SourceFacts | None) -> None:
        """What was read of a track that may still wait; None when it could not be read."""
        if not self._is_deleted:
            self._playback.tags_read(track_id, facts)

    # What the player is

    @property
    def is_attended(self) -> bool:
        """Whether somebody listens to it or follows its events."""
        return len(self._broadcast) > 0 or len(self._events) > 0

    @property
    def track(self) -> Track:
        """The selected track."""
        return self._playback.current

    @property
    def queue(self) -> tuple[Track, ...]:
        """The tracks that wait behind the current one."""
        return self._playback.queue

    @property
    def queue_version(self) -> int:
        """Counts the changes of the queue's order."""
        return self._playback.queue_version

    @property
    def history(self) -> tuple[PlayedTrack, ...]:
        """What was played, newest first."""
        return self._playback.history

    @property
    def life(self) -> str:
        """A random name: another player of the same id has another one."""
        return self._events.life

    @property
    def filters(self) -> Filters:
        return self._playback.filters

    @property
    def overlays(self) -> tuple[OverlayStatus, ...]:
        """Those that sound or load, oldest first."""
        return self._overlays.statuses()

    def overlay(self, overlay_id: str) -> OverlayStatus:
        """Raises `OverlayNotFound`."""
        return self._overlays.status(overlay_id)

    def title(self) -> tuple[str, str]:
        """Artist and title of the selected track, each empty when it is not known."""
        info = self._playback.current.info
        return info.author, info.title

    def status(self) -> PlayerStatus:
        """The whole state."""
        self._sleep.catch_up()
        playback = self._playback
        listeners = self._broadcast.counted_by_format()
        return PlayerStatus(
            player_id=playback.player_id,
            life=self._events.life,
            track=playback.current,
            state=playback.state,
            error=playback.error,
            paused=playback.paused,
            position_ms=playback.position_ms,
            filters=playback.filters,
            crossfade=playback.crossfade,
            overlays=self._overlays.statuses(),
            loop_mode=playback.loop_mode,
            queue_length=playback.queue_length,
            metadata=playback.metadata,
            listeners=sum(listeners.values()),
            listeners_by_format=dict(listeners),
            last_seq=self._events.last_seq,
            quality=PlayerQuality(
                frames_sent=self._frames_sent,
                frames_lost=self._frames_lost,
                underruns=self._underruns,
                late_plans=self._session.late_plans_total,
                late_frames=self._late_frames,
                decoder_process_id=self._session.decoder_process_id,
            ),
        )

    # The clock

    def tick(self) -> None:
        """One frame's time. Nearly all frames are plain ones, for which this is all that is done."""
        try:
            payloads = self._buffer.pop_plain()
            if payloads is None:
                self._tick()
            else:
                self._send(payloads)
                self._playback.position_ms += self._plain_step_ms
        except Exception:
            log.exception("player %s: sending a frame failed", self._playback.player_id)
            self.went_wrong()

    def ticks_skipped(self, count: int) -> None:
        self._late_frames += count

    def _tick(self) -> None:
        """Sends the next frame when there is one, with all that falls due with it."""
        if self._must_send_overlays:
            self._send_overlays()
            return
        if self._playback.wants_frames:
            if self._is_buffering and self._session.has_enough:
                self._is_buffering = False
                self._perform(self._playback.recovered())
            if (not self._is_buffering or self._must_send_tail) and self._send_frame():
                return
        elif self._must_send_tail:
            self._send(self._buffer.pop().payloads)
            return
        if self._broadcast.wants_silence:
            self._broadcast.send_silence(is_mp3_awaited=self._is_mp3_awaited())
        self._update_ticking()

    def _send_frame(self) -> bool:
        buffer, playback = self._buffer, self._playback
        if not buffer.frames_ahead:
            if self._sleep.may_pass_frame():
                self._pass_frame()
                return True
            self._underrun()
            return False
        flags = self._take_up_due_events()
        if not buffer.frames_ahead or not playback.wants_frames:
            return False  # the events led to another plan
        frame = buffer.pop()
        if frame.is_cut and self._frames_sent:
            flags |= FrameFlag.DISCONTINUITY
        self._send(frame.payloads, flags)
        if frame.source == playback.current_source:
            playback.position_ms = ms_of_samples(frame.end_samples)
        self._take_up_complete_ends()
        if frame.title is not None:
            self._perform(playback.retitled(frame.source, frame.title))
        self._open_next_in_time()
        if self._frames_sent % UPDATE_INTERVAL_FRAMES == 0:
            self._events.add(playback.update())
        if self._overlays:
            self._overlays.frame_sent()
        if frame.source == playback.current_source:
            step_ms = FRAME_MS * frame.position_rate
            self._plain_step_ms = round(step_ms)
            if abs(step_ms - self._plain_step_ms) < 1e-6:  # else each frame's position is worked out
                buffer.allow_plain(self.frames_until_due)
        return True

    def _take_up_due_events(self) -> int:
        """What falls due with the next frame. Returns the flags of that frame."""
        flags = 0
        has_ended = False
        while (event := self._session.take_event()) is not None:
            if isinstance(event, SourceBegan) and event.source != self._begun_source:
                self._begun_source = event.source  # another session reports it again
                flags = FrameFlag.TRACK_STARTS
            self._take_up(event)
            if isinstance(event, SourceBegan) and has_ended:
                self._sleep.joined()
            has_ended = isinstance(event, SourceEnded)
        if self._buffer.overlays:
            self._overlays.frame_comes()
        return flags

    def _send_overlays(self) -> None:
        """Sends a frame without music in it, in whatever state: the position stands."""
        if self._playback.wants_frames and not self._is_buffering and self._session.is_steady:
            self._underrun()
        self._overlays.frame_comes()
        if self._must_send_overlays:
            frame = self._buffer.pop()
            self._send(frame.payloads, FrameFlag.DISCONTINUITY if frame.is_cut and self._frames_sent else 0)
            self._overlays.frame_sent()
        self._update_ticking()

    # Sleep

    @property
    def position_ms(self) -> int:
        return self._playback.position_ms

    def pass_frames(self, frames: int) -> None:
        """Moves on by frames that nobody rendered and nobody hears."""
        while frames > 0:
            step = min(frames, UPDATE_INTERVAL_FRAMES - self._frames_sent % UPDATE_INTERVAL_FRAMES)
            self._buffer.skip(step)
            self._frames_sent += step
            self._playback.position_ms = ms_of_samples(self._buffer.end_position()[1])
            if self._frames_sent % UPDATE_INTERVAL_FRAMES == 0:
                self._events.add(self._playback.update())
            frames -= step

    def let_go(self) -> None:
        self._session.rest()
        self._update_ticking()

    def take_up(self) -> None:
        self._session.wake()
        self._update_ticking()

    def _pass_frame(self) -> None:
        """A frame's time while the source is being opened again."""
        if self._broadcast.wants_silence:
            self._broadcast.send_silence()
        self.pass_frames(1)
        self._grant_on_beat()
        self._open_next_in_time()

    def _circumstances(self) -> Circumstances:
        playback = self._playback
        return Circumstances(
            source=playback.current_source,
            info=playback.current.info,
            end_ms=playback.current.known_end_ms,
            open_from_ms=self._open_next_from_ms,
            has_sounded=playback.clock_started and playback.state is PlayerState.PLAYING,
            has_listeners=len(self._broadcast) > 0,
            is_running=playback.wants_frames,
            has_overlays=bool(self._overlays),
            is_stretched=playback.filters.effects.position_rate != 1.0,
        )

    @property
    def frames_until_due(self) -> int:
        """How many frames may be sent before the next PlayerUpdate, or before the next track is to be opened."""
        frames = UPDATE_INTERVAL_FRAMES - 1 - self._frames_sent % UPDATE_INTERVAL_FRAMES
        open_from_ms = self._open_next_from_ms
        if self._next_ordered_for == self._playback.current_source or open_from_ms is None:
            return frames
        return min(frames, max(0, (open_from_ms - self._playback.position_ms) // self._plain_step_ms))

    def _open_next_before_end_ms(self) -> int:
        """How long before the current track's end the next one is opened, in time heard."""
        playback = self._playback
        if not len(self._broadcast) and self._is_file_that_is_known(playback.current):
            coming = playback.front_of_queue or playback.current
            if playback.loop_mode is LoopMode.TRACK or self._is_file_that_is_known(coming):
                return OPEN_KNOWN_FILE_BEFORE_END_MS
        return OPEN_NEXT_BEFORE_END_MS

    @staticmethod
    def _is_file_that_is_known(track: Track) -> bool:
        return track.is_known and track.uri.kind == "file"

    def _send(self, payloads: Payloads, flags: int = 0) -> None:
        self._frames_sent += 1
        if payloads:
            self._broadcast.send(payloads, self._frames_sent, flags)
        self._grant_on_beat()

    def _grant_on_beat(self) -> None:
        # On common beats, so that the grants of many players wake a decoder process once, and so do their frames here.
        if self._clock.beat % GRANT_STEP_FRAMES == 0:
            self._session.grant()

    def _take_up(self, event: SourceBegan | SourceEnded | SourceFaded) -> None:
        source = event.source
        if isinstance(event, SourceFaded):
            self._drop(source)
            return
        if isinstance(event, SourceBegan):
            self._perform(self._playback.first_frame(source))
            return
        if event.failure is None:
            outcome = self._playback.ended(source)
        else:
            outcome = self._playback.interrupted(source, event.failure)
        if not event.fades:
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
        if self._overlays.own(source):
            self._overlays.opened(source, facts)
            return
        self._loudness.opened(source, facts.album)
        if source == self._playback.next_source and self._fades_for_rest:
            self._fade_begin.from_ms = max(self._fade_begin.from_ms, self._soon_ms)
        self._perform(self._playback.opened(source, facts))
        self._open_next_in_time()

    def source_failed(self, source: SourceId, failure: PlayFailure) -> None:
        if self._overlays.own(source):
            self._overlays.failed(source, failure)
            return
        if source == self._playback.current_source and not self._is_buffering and self._buffer.frames_ahead:
            # A source that was opened again has failed: its buffered frames are sent first.
            self._late_failure = (source, failure)
            return
        outcome = self._playback.failed(source, failure)
        self._drop(source)
        self._perform(outcome)

    def seek_failed(self, source: SourceId, failure: PlayFailure) -> None:
        log.info("player %s: %s %s", self._playback.player_id, failure.message, failure.hint)
        outcome = self._playback.seek_failed(source, NOT_SEEKABLE)
        if source == self._fade_begin.source:
            self._fade_begin.from_ms = self._soon_ms
        self._perform(outcome)

    @property
    def _soon_ms(self) -> int:
        """The position that a fade which is asked for now can begin at."""
        playback = self._playback
        return playback.position_ms + int(FADE_LEAD_MS * playback.filters.effects.position_rate)

    def source_faded(self, source: SourceId) -> None:
        self._drop(source)

    def source_expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        if self._overlays.own(source):
            self._overlays.expanded(source)
            return
        outcome = self._playback.expanded(source, tracks)
        self._drop(source)
        self._perform(outcome)

    def source_interrupted(self, source: SourceId, failure: PlayFailure) -> None:
        if self._overlays.own(source):
            self._overlays.interrupted(source, failure)

    def overlay_got_audio(self, source: SourceId) -> None:
        self._overlays.got_audio(source)

    def source_measured(self, source: SourceId, measured: MeasuredLoudness) -> None:
        self._loudness.measured(source, measured)

    def source_decoded(self, source: SourceId) -> None:
        if self._overlays.own(source):
            self._overlays.decoded(source)
            return
        self._open_next_in_time()
        if self._is_buffering and self._playback.position_ms:
            self._session.flush()
        self.frames_arrived()

    def frames_arrived(self) -> None:
        if self._is_deleted:
            return
        if self._playback.wants_frames:
            self._take_up_complete_ends()  # an end may be known only after its last frame was sent
        if self._sleep.is_waking and self._buffer.frames_ahead:
            self._sleep.woken()
            self._overlays_changed()
        if self._is_buffering or not self._playback.wants_frames:
            self._update_ticking()

    def mp3_arrived(self, encoded: Encoded) -> None:
        self._mp3_end_frame = encoded.end_frame
        self._mp3_waits = 0
        self._broadcast.send_mp3(encoded.output, encoded.first_frame, encoded.end_frame, encoded.mp3_frames)

    def sources_suspected(self, sources: tuple[SourceId, ...]) -> None:
        for source in sources:
            track = self._tracks.get(source) or self._overlays.track(source)
            if track is not None:
                self._services.suspects.add(track.uri)

    def wait_changed(self) -> None:
        if self._is_deleted:
            return
        playback = self._playback
        patience = (
            patience_in_mid_track() if playback.is_in_mid_track else patience_at_start(self._services.start_timeout_s)
        )
        is_suspended = playback.paused or not self._session.waiting_for.counts
        self._stalls.follow(playback.stalled, patience, is_suspended=is_suspended)

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

    def _log_listeners(self, what: str) -> None:
        log.debug("player %s: a listener %s; %d listen", self._playback.player_id, what, len(self._broadcast))

    def _require_metadata(self, value: Json) -> None:
        require_metadata_bytes(self._services.json_bytes(value), self._services.max_metadata_bytes)

    def _perform(self, outcome: Outcome, *, skipped: "_Skipped | None" = None) -> None:
        self._emit(outcome.events)
        playback = self._playback
        actions = outcome.actions
        cut_fade = None if skipped is None else self._fade_of_skip(skipped, actions)
        if skipped is not None and cut_fade is not None:
            actions = tuple(action for action in actions if action != Drop(skipped.source))
        self._open_and_drop(actions)
        self._sleep.follow(self._circumstances())
        if (not playback.paused or self._overlays) and not self._sleep.is_asleep:
            self._session.wake()
        # While a player wakes up frames pass that nobody hears, and no overlay is to begin with those.
        overlays = self._overlays.orders if playback.clock_started and not self._sleep.is_waking else ()
        self._session.play(
            playback.current_source,
            playback.next_source,
            playback.filters,
            self._next_crossfade(),
            cut_fade,
            overlays,
            holds=bool(overlays) and playback.paused,
        )
        self.wait_changed()
        is_held_live = playback.paused and playback.current.info.is_stream and not self._overlays
        self._live_pause.follow(playback.current_source if is_held_live else None)
        self._update_ticking()

    def _overlays_changed(self) -> None:
        if not self._is_deleted:
            self._perform(Outcome())

    def _open_and_drop(self, actions: tuple[Action, ...]) -> None:
        """A source that is dropped while its own track is opened anew, as a seek does, goes on as the new one."""
        opened = {action.track.id: action for action in actions if isinstance(action, Open) and not action.delay_s}
        for action in actions:
            if isinstance(action, Drop):
                track = self._tracks.get(action.source)
                again = None if track is None else opened.get(track.id)
                if again is not None and self._session.seek(action.source, again.source, _part(again)):
                    self._tracks[again.source] = again.track
                    self._loudness_hints(again)
                    del self._tracks[action.source]
                    self._loudness.closed(action.source)
                else:
                    self._drop(action.source)
            elif action.source not in self._tracks:
                self._tracks[action.source] = action.track
                self._session.open(action.source, _part(action), action.delay_s, self._loudness_hints(action))

    def _loudness_hints(self, action: Open) -> LoudnessHints:
        """What is known of the loudness of a track that is opened, which is remembered under its new source."""
        waiting = self._playback.queue if self._playback.filters.effects.normalizes else ()
        return self._loudness.opening(action.source, action.track, waiting)

    def _fade_of_skip(self, skipped: "_Skipped", actions: tuple[Action, ...]) -> Crossfade | None:
        """How the skipped track fades out: only where the next one is open already."""
        playback = self._playback
        if playback.current_source is None or any(isinstance(action, Open) for action in actions):
            return None
        rate = playback.filters.effects.position_rate
        time = fade_of_skip(playback.crossfade, skipped.track, skipped.position_ms, playback.current, rate)
        return _crossfade(time, playback.crossfade)

    def _next_crossfade(self) -> Crossfade | None:
        playback = self._playback
        self._fade_begin.follow(playback.current_source, playback.position_ms)
        return _crossfade(self._next_fade, playback.crossfade)

    @property
    def _next_fade(self) -> FadeTime | None:
        playback = self._playback
        following = playback.next_track
        if following is None or not playback.crossfade.duration_ms:
            return None
        rate = playback.filters.effects.position_rate
        return fade_at_end(playback.crossfade, playback.current, following, rate, self._fade_begin.from_ms)

    @property
    def _fades_for_rest(self) -> bool:
        fade = self._next_fade
        return fade is not None and fade.is_rest

    @property
    def _may_fade_yet(self) -> bool:
        """Whether a crossfade that is asked for now may begin late. Not when the next track itself was late for one."""
        fade, playback = self._next_fade, self._playback
        return playback.next_track is not None and (fade is None or fade.is_rest or playback.position_ms < fade.at_ms)

    def _perform_change_of_fade(self, outcome: Outcome, *, may_fade_yet: bool) -> None:
        """Performs what may have the crossfade begin earlier. If its time has come by that, its rest begins now."""
        if may_fade_yet and self._playback.current_source == self._fade_begin.source:
            self._fade_begin.from_ms = self._playback.position_ms
        self._perform(outcome)

    def _emit(self, events: tuple[Event, ...]) -> None:
        for event in events:
            log_event(self._playback.player_id, event)
            self._events.add(event)
            if isinstance(event, QueueUpdate) and not self._is_deleted:
                self._services.queue_changed(self)

    def _drop(self, source: SourceId) -> None:
        self._tracks.pop(source, None)
        self._loudness.closed(source)
        self._session.drop(source)

    def _report_stall(self, source: SourceId) -> None:
        self._perform(self._playback.stuck(source, self._stalls.threshold_ms, self._session.waiting_for.cause))

    def _give_up(self, source: SourceId) -> None:
        failure = SILENT_FOR_TOO_LONG
        if not self._playback.is_in_mid_track:
            wait = self._session.waiting_for
            failure = never_started(self._stalls.limit_s, wait.cause, wait.stage)
        self.source_failed(source, failure)

    def _open_next_in_time(self) -> None:
        """Orders the next track when little of this one is left. Endless streams have no next one to wait for."""
        playback = self._playback
        source = playback.current_source
        if source is None or source == self._next_ordered_for or playback.current.info.is_stream:
            return
        open_from_ms = self._open_next_from_ms
        is_near = open_from_ms is not None and playback.position_ms >= open_from_ms
        if is_near or self._session.is_decoded(source):
            self._next_ordered_for = source
            self._perform(playback.next_is_due())

    @property
    def _open_next_from_ms(self) -> int | None:
        """From which position on the next track is opened: at once where a skip may fade into it. None without end."""
        playback = self._playback
        end_ms, settings = playback.current.known_end_ms, playback.crossfade
        if end_ms is None or playback.current.info.is_stream:
            return None
        if settings.on_skip and settings.duration_ms:
            return 0
        heard_before_end_ms = self._open_next_before_end_ms() + settings.duration_ms
        return end_ms - int(heard_before_end_ms * playback.filters.effects.position_rate)

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
            is_made_ready = not self._broadcast.outputs and not self._playback.clock_started
            self._session.listen(PCM_ONLY if is_made_ready else self._broadcast.outputs)
            self._sleep.follow(self._circumstances())

    def _update_ticking(self) -> None:
        """Ticks only while there is something to send: a player that is paused, idle or waiting costs nothing."""
        if self._is_deleted:
            return
        has_frames = self._playback.wants_frames and (not self._is_buffering or self._session.has_enough)
        has_frames &= not self._sleep.is_asleep
        has_frames |= self._must_send_tail or self._must_send_overlays
        if has_frames or self._broadcast.wants_silence:
            self._clock.join(self)
        else:
            self._clock.leave(self)

    @property
    def _must_send_tail(self) -> bool:
        """Whether the end of a sound that was cut off is to be sent, in whatever state: without it there is a click."""
        return self._buffer.begins_with_tail and self._playback.clock_started and not self._playback.paused

    @property
    def _must_send_overlays(self) -> bool:
        """Whether overlays sound in the next frame and the music does not: nothing else decides when it is sent."""
        return self._buffer.begins_with_overlays_alone and self._playback.clock_started

    def _is_mp3_awaited(self) -> bool:
        """Whether frames that were sent are still being encoded to MP3, which begins when a grant reports them."""
        if all(output.format != "mp3" for output in self._broadcast.outputs):
            return False
        if self._mp3_end_frame >= self._buffer.next_frame or self._mp3_waits >= MP3_PATIENCE_FRAMES:
            return False
        if not self._mp3_waits:
            self._session.grant()
        self._mp3_waits += 1
        return True

    def _sent_position_us(self) -> int:
        return self._buffer.sent_position_samples * 1_000_000 // SAMPLE_RATE_HZ

    def _count_lost_frames(self, frames: int) -> None:
        self._frames_lost += frames

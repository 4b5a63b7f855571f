"""A player, as its clients see it: what they ask for, its listeners and event clients, and its state.

`PlaybackShell` makes it play.
"""

import logging
import random
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from tonearm.audio.clients.broadcast import Broadcast
from tonearm.audio.clients.event_log import EventLog
from tonearm.audio.clients.sinks import EventSink, FrameSink
from tonearm.audio.playback_shell import PlaybackShell
from tonearm.audio.player_services import FirstSettings, PlayerServices
from tonearm.audio.timers import CallLater, Cancellable
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.errors import LimitReached
from tonearm.core.events import DeleteReason, Event, ListenersChange, QueueUpdate
from tonearm.core.filters import FilterChange
from tonearm.core.frame import FRAME_MS, SAMPLE_RATE_HZ
from tonearm.core.json_value import Json
from tonearm.core.metadata import apply_metadata, require_metadata_bytes
from tonearm.core.overlays import OverlaySettings, OverlayStatus
from tonearm.core.play_queue import LoopMode, PlayedTrack
from tonearm.core.playback import Playback
from tonearm.core.player_status import PlayerStatus, WaitingTracks
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.protocol import close_codes

log = logging.getLogger(__name__)

MAX_ENCODERS: Final = 3  # of one format for one player
_LISTENERS_INTERVAL_S: Final = 1.0


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
        self._frames_lost = 0
        self._is_deleted = False
        self._broadcast = Broadcast(self._count_lost_frames, self._sent_position_us, self._is_sent_passed)
        self._shell = PlaybackShell(self._playback, self._broadcast, services, self._emit)
        self._sending = self._shell.sending
        self._overlays = self._shell.overlays
        self._first_wait: Cancellable | None = services.call_later(
            services.first_listener_wait_ms / 1000, self._start_clock
        )
        self._shell.perform(self._playback.begin())

    # What clients ask for

    def play(self) -> None:
        self._sending.catch_up()
        self._shell.perform(self._playback.play())
        self._sending.frames_arrived()

    def pause(self) -> None:
        self._sending.catch_up()
        self._shell.perform(self._playback.pause())

    def seek(self, position_ms: int) -> None:
        """To the frame in which the position is, when packets of the track are passed through. Raises `NotSeekable`."""
        self._sending.catch_up()
        if self._shell.session.seeks_by_frames:
            position_ms -= position_ms % FRAME_MS
        self._shell.perform(self._playback.seek(position_ms))
        self._sending.frames_arrived()

    def seek_by(self, offset_ms: int) -> None:
        """As `seek`, from the position of now. Raises `NotSeekable`."""
        self._sending.catch_up()
        self.seek(self._playback.position_ms + offset_ms)

    def skip(self, to: str | None = None) -> None:
        """Raises `TrackNotFound` when `to` does not wait."""
        self._sending.catch_up()
        skipped = self._shell.fades.sound_to_skip()
        self._shell.perform(self._playback.skip(to), skipped=skipped)

    def replace(self, track: Track, *more: Track) -> None:
        """Raises `LimitReached` when not all of `more` may wait."""
        self._sending.catch_up()
        self._shell.perform(self._playback.replace(track, *more))

    def stop(self) -> None:
        self._sending.catch_up()
        self._shell.perform(self._playback.stop())

    def previous(self) -> None:
        """Raises `NoPrevious`."""
        self._sending.catch_up()
        self._shell.perform(self._playback.previous())

    def enqueue(self, *tracks: Track, index: int | None = None) -> None:
        """Raises `LimitReached` when not all of them may wait, and `BadRequest` for a negative index."""
        self._shell.perform(self._playback.enqueue(*tracks, index=index))

    def clear_queue(self) -> None:
        self._shell.perform(self._playback.clear_queue())

    def remove(self, track_id: str) -> None:
        """Raises `TrackNotFound`."""
        self._shell.perform(self._playback.remove(track_id))

    def move(self, track_id: str, index: int) -> None:
        """Raises `TrackNotFound`, and `BadRequest` for a negative index."""
        self._shell.perform(self._playback.move(track_id, index))

    def shuffle(self) -> None:
        length = self._playback.queue_length
        self._shell.perform(self._playback.shuffle(random.sample(range(length), length)))

    def set_loop(self, mode: LoopMode) -> None:
        self._shell.perform(self._playback.set_loop(mode))

    def change_filters(self, change: FilterChange) -> None:
        """Raises `BadRequest`."""
        self._sending.catch_up()
        self._shell.change_fade(lambda: self._playback.change_filters(change))

    def change_crossfade(self, edit: CrossfadeEdit) -> None:
        """Raises `BadRequest`."""
        self._sending.catch_up()
        self._shell.change_fade(lambda: self._playback.change_crossfade(edit))
        self._shell.open_next_in_time()

    def add_overlay(self, track: Track, settings: OverlaySettings) -> None:
        """Has `track` sound over whatever plays, as soon as it can. Raises `LimitReached`."""
        self._sending.catch_up()
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
        self._shell.perform(self._playback.change_metadata(False, metadata))

    async def delete(self, reason: DeleteReason | None = None) -> None:
        """Emits the end and closes all connections at once; returns when everything is given back."""
        self._sending.catch_up()
        self._is_deleted = True
        self._cancel_first_wait()
        self._listener_changes.close()
        self._shell.stop()
        *ends, deleted = self._playback.delete(reason).events
        self._emit((*ends, *self._overlays.remove_all(), deleted))
        self.close_connections(close_codes.DELETED, "the player was deleted")
        await self._shell.close()

    # Listeners and event clients

    def attach(self, sink: FrameSink, *, is_counted: bool = True) -> Callable[[], None]:
        """Adds a listener; the first one starts the clock. Returns how to take it away. Raises `LimitReached`.

        One that is not counted gets frames, but neither shows nor starts the clock before `count`.
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
        self._sending.listeners_changed()
        self._sending.update_ticking()
        self._listener_changes.changed(self._broadcast.counted)

        def leave() -> None:
            detach()
            self._log_listeners("left")
            self._sending.listeners_changed()
            if not self._is_deleted:
                self._listener_changes.changed(self._broadcast.counted)

        return leave

    def count(self, sink: FrameSink) -> None:
        """Counts a listener that was attached without being counted, and has stayed."""
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
        """The first of the next `depth` waiting tracks whose tags were not read; None without one."""
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
    def queue(self) -> WaitingTracks:
        return WaitingTracks(self._events.life, self._playback.queue_version, self._playback.queue)

    @property
    def history(self) -> tuple[PlayedTrack, ...]:
        """What was played, newest first."""
        return self._playback.history

    def overlay(self, overlay_id: str) -> OverlayStatus:
        """Raises `OverlayNotFound`."""
        return self._overlays.status(overlay_id)

    def title(self) -> tuple[str, str]:
        """Artist and title of the selected track, each empty when it is not known."""
        info = self._playback.current.info
        return info.author, info.title

    def status(self) -> PlayerStatus:
        """The whole state."""
        self._sending.catch_up()
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
            quality=self._sending.quality(self._frames_lost),
        )

    # How it is done

    def _emit(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._events.add(event)
            if isinstance(event, QueueUpdate) and not self._is_deleted:
                self._services.queue_changed(self)

    def _log_listeners(self, what: str) -> None:
        log.debug("player %s: a listener %s; %d listen", self._playback.player_id, what, len(self._broadcast))

    def _require_metadata(self, value: Json) -> None:
        require_metadata_bytes(self._services.json_bytes(value), self._services.max_metadata_bytes)

    def _start_clock(self) -> None:
        self._cancel_first_wait()
        if not self._playback.clock_started:
            self._shell.perform(self._playback.start_clock())
            self._sending.listeners_changed()
            self._sending.frames_arrived()

    def _cancel_first_wait(self) -> None:
        if self._first_wait is not None:
            self._first_wait.cancel()
            self._first_wait = None

    def _sent_position_us(self) -> int:
        return self._shell.session.buffer.sent_position_samples * 1_000_000 // SAMPLE_RATE_HZ

    def _is_sent_passed(self) -> bool:
        return self._shell.session.buffer.is_sent_passed

    def _count_lost_frames(self, frames: int) -> None:
        self._frames_lost += frames


class ListenerChanges:
    """Reports how many listeners a player has when that changes.

    Calls `report` with the number of listeners: at once after a quiet second, else when the second is over.
    """

    def __init__(self, call_later: CallLater, report: Callable[[int], None]) -> None:
        self._call_later = call_later
        self._report = report
        self._listeners = 0
        self._reported = 0
        self._timer: Cancellable | None = None

    def changed(self, listeners: int) -> None:
        """To be called whenever a listener has come or gone."""
        self._listeners = listeners
        if self._timer is None:
            self._report_change()

    def close(self) -> None:
        """Ends all reports."""
        if self._timer is not None:
            self._timer.cancel()
        self._reported = self._listeners

    def _report_change(self) -> None:
        self._timer = None
        if self._listeners != self._reported:
            self._reported = self._listeners
            self._timer = self._call_later(_LISTENERS_INTERVAL_S, self._report_change)
            self._report(self._listeners)

"""A player as its clients see it: their requests, its listeners and event clients, and its state. `Engine` does the
playing.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Concatenate, Final, ParamSpec

from tonearm.core.call_later import Cancellable
from tonearm.core.errors import BadRequest, LimitReached
from tonearm.core.events import DeleteReason, Event, EventMessage, ListenersChange, VoiceState
from tonearm.core.figures import PlayerFigures
from tonearm.core.frame import FRAME_MS
from tonearm.core.metadata import Json, apply_metadata, require_metadata_bytes
from tonearm.core.overlays import OverlaySettings, OverlayStatus
from tonearm.core.play_queue import PlayedTrack
from tonearm.core.playback import Playback
from tonearm.core.playback_requests import Requests
from tonearm.core.playback_state import FirstSettings, Outcome
from tonearm.core.player_status import PlayerStatus, WaitingTracks
from tonearm.core.snapshot import Handover, PlayerSnapshot
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.core.voice import VoicePhase, VoiceStatus, restarted, target_of
from tonearm.player.clients.event_log import EventLog
from tonearm.player.clients.sinks import Companion, EventSink, FrameSink
from tonearm.player.engine import Engine
from tonearm.player.player_services import PlayerServices
from tonearm.player.voice_telling import VoiceTelling
from tonearm.protocol.framing import CloseCode

_P = ParamSpec("_P")

log = logging.getLogger(__name__)

VOICE: Final = "voice"  # the name of a voice among a player's companions

_LISTENERS_INTERVAL_S: Final = 1.0
_VOICE_WAIT_S: Final = 10.0  # for so long the clock of a new player waits for its voice
_SETTLE_S: Final = 1.0  # for so long a new stream waits for sound, and gets no silence


class Player:
    """One player from its creation to its deletion. All methods except `delete` and `close` return at once. Only the
    event loop's thread may call them.

    Without a `first_track` the player begins idle. With a `snapshot` it continues where the snapshot was taken, in a
    new life, whose first event is `came`.
    """

    def __init__(
        self,
        player_id: str,
        first_track: Track | None,
        metadata: Json,
        services: PlayerServices,
        first_settings: FirstSettings | None = None,
        snapshot: PlayerSnapshot | None = None,
        came: Event | None = None,
    ) -> None:
        self._services = services
        settings = services.settings
        self._playback = Playback(
            player_id,
            first_track,
            metadata,
            max_waiting_tracks=settings.max_waiting_tracks,
            max_waiting_bytes=settings.max_waiting_bytes,
            first_settings=first_settings,
            wall_ms=services.wall_ms,
            now_s=services.clock.now_s,
            snapshot=snapshot,
        )
        life = secrets.token_hex(8)
        self._events = EventLog(
            player_id,
            life,
            services.wall_ms,
            services.json_bytes,
            services.event_feed,
            settings.max_event_bytes,
            services.call_later,
        )
        self._told_listeners = 0  # in the last ListenersChange
        self._told_timer: Cancellable | None = None  # runs for a while after that event
        self.is_deleted = False
        self._engine = Engine(self._playback, self._events, services)
        self._broadcast, self._overlays = self._engine.broadcast, self._engine.overlays
        self._first_wait: Cancellable | None = services.call_later(
            settings.first_listener_wait_ms / 1000, self._start_clock
        )
        self._companions: dict[str, Companion] = {}
        self._left_records = {} if snapshot is None else dict(snapshot.companions)  # of companions not returned yet
        self._awaits_voice = False
        engine = self._engine  # not `self`: a cycle would keep the deleted player until the next collection
        self._voice = VoiceTelling(services.call_later, lambda voice: engine.emit((VoiceState(voice),)))
        if snapshot is not None:
            self._engine.begin_at(snapshot.start_sample)
        if came is not None:
            self._engine.emit((came,))
        if (target := target_of(self._left_records.get(VOICE))) is not None:
            self._voice.take(restarted(target, services.wall_ms()))
        self._engine.do(Requests.begin)
        if snapshot is not None and snapshot.handover is not None and snapshot.handover.overlays:
            overlays = snapshot.handover.overlays
            self._engine.do(lambda _: self._overlays.go_on(overlays))
        if snapshot is not None and snapshot.clock_started:
            self._start_clock()

    # Requests of clients

    def do(self, change: Callable[Concatenate[Requests, _P], Outcome], *values: _P.args, **named: _P.kwargs) -> None:
        """Carries out a client's request: a method of `Requests` with its values. Raises any error of the method, with
        nothing done."""
        self._engine.do(lambda rules: change(rules, *values, **named))

    def seek(self, position_ms: int) -> None:
        """Seeks to `position_ms`, or, while packets are passed through, to its frame. Raises `NotSeekable`."""
        self._engine.catch_up()
        self.do(Requests.seek, position_ms, FRAME_MS if self._engine.seeks_by_frames else 1)

    def seek_by(self, offset_ms: int) -> None:
        """As `seek`, from the current position. Raises `NotSeekable`."""
        self.seek(self._rules.position_ms + offset_ms)

    def add_overlays(self, *new: tuple[Track, OverlaySettings]) -> None:
        """Plays these tracks over the music, together as soon as all of them have audio. Raises `LimitReached`."""
        self._engine.do(lambda _: self._overlays.add(*new))

    def remove_overlay(self, overlay_id: str) -> None:
        """Raises `OverlayNotFound`."""
        self._engine.do(lambda _: self._overlays.remove(overlay_id))

    def change_metadata(self, merge: bool, value: Json) -> None:
        """Raises `BadRequest` when `value`, or the result of the change, is too long."""
        metadata = value
        self._require_metadata(value)
        if merge:
            metadata = apply_metadata(self._playback.metadata, merge, value)
            self._require_metadata(metadata)
        self.do(Requests.change_metadata, False, metadata)

    async def delete(self, reason: DeleteReason | None = None) -> None:
        """Emits the end and closes all connections at once; returns when the player's sources are closed."""
        try:
            self.end(reason)
        finally:
            await self.close()

    def end(self, reason: DeleteReason | None = None) -> None:
        """Emits the end and closes all connections. The caller calls `close` next."""
        try:
            self._stop()
            *ends, deleted = self._playback.delete(reason).events
            self._engine.emit((*ends, *self._overlays.remove_all(), deleted))
        finally:  # the player cannot be deleted again
            self.is_deleted = True
            self.close_connections(CloseCode.DELETED, "the player was deleted")

    def give_up(self, reason: str) -> PlayerSnapshot:
        """Stops at the frame that was sent last, so that the player can continue elsewhere, and returns its snapshot
        for that. No event is emitted, because nothing has ended for the clients. Their connections are closed with
        `reason`. The caller calls `close` next."""
        try:
            taken = self.record()
            self._stop()
        finally:
            self.is_deleted = True
            self.close_connections(CloseCode.MOVED, reason)
        return taken

    def _stop(self) -> None:
        self._engine.catch_up()
        self.is_deleted = True
        self._cancel_first_wait()
        if self._told_timer is not None:
            self._told_timer.cancel()
        self._voice.stop()
        self._engine.stop()
        self._services.totals.add(self._engine.quality)

    async def close(self) -> None:
        """Closes the sources of a player that has ended."""
        await self._engine.close()

    # Listeners and event clients

    def attach(
        self, sink: FrameSink, *, is_counted: bool = True, is_stranger: bool = False, is_voice: bool = False
    ) -> Callable[[], None]:
        """Adds a listener; the first counted listener starts the position. Returns a call that removes the listener.
        Raises `LimitReached`, and `BadRequest` for Opus where that cannot be encoded.

        A listener that is not counted gets frames. Before `count` it does not show, and does not start the position.
        Strangers are logged at debug level, because they could fill the log. A voice in a channel is a listener kind of
        its own.
        """
        opus_problem = self._services.pool.opus_problem
        if sink.output.format == "opus" and opus_problem:
            raise BadRequest(f"The node cannot encode Opus ({opus_problem}). Ask for PCM or MP3.")
        max_listeners = self._services.settings.max_listeners
        if len(self._broadcast) >= max_listeners:
            raise LimitReached(f"The player has reached player.max_listeners: {max_listeners} listeners.")
        self._engine.catch_up()
        self._services.bursts.are_kept |= sink.burst_ms > 0
        sounds = self._engine.sounds_for_streams
        detach = self._broadcast.attach(sink, is_counted=is_counted, is_voice=is_voice, sounds=sounds)
        settling = self._services.call_later(_SETTLE_S, lambda: self._broadcast.settle(sink)) if sink.burst_ms else None
        log_level = logging.DEBUG if is_stranger else logging.INFO
        self._log_listeners(log_level, "came", sink)
        if is_counted and not self._awaits_voice:
            self._start_clock()
        self._engine.listeners_changed()
        self._tell_listeners()

        def leave() -> None:
            if settling is not None:
                settling.cancel()
            detach()
            self._log_listeners(log_level, "left", sink)
            self._engine.listeners_changed()
            self._tell_listeners()

        return leave

    def count(self, sink: FrameSink, listeners: int = 1) -> None:
        """Counts a listener that was attached uncounted: as `listeners`, if it forwards the audio to others."""
        if self._broadcast.count(sink, listeners):
            if listeners and not self._awaits_voice:
                self._start_clock()
            self._tell_listeners()

    def await_voice(self) -> None:
        """Lets the clock of this new player wait until its voice can send audio, so that the channel hears the first
        sample. The clock waits 10 s at most, and not for a voice that was given up."""
        self._cancel_first_wait()
        self._awaits_voice = True
        self._first_wait = self._services.call_later(_VOICE_WAIT_S, self._start_clock)

    def voice_changed(self, status: VoiceStatus | None) -> None:
        """Takes the status of the player's voice; None when it has left. Clients get an event for notable changes."""
        if self.is_deleted:
            return
        self._voice.take(None if status is None or status.phase is VoicePhase.NONE else status)
        if self._awaits_voice and (status is None or status.can_flow or status.phase is VoicePhase.CLOSED):
            self._start_clock()

    def forget_voice(self) -> None:
        """Forgets a voice that ended with another process. Only its owner ends a present voice."""
        if self._left_records.pop(VOICE, None) is not None:
            self._services.changed(self.player_id)
            self.voice_changed(None)

    def subscribe(
        self, sink: EventSink, since: int | None, wants_snapshot: bool, life: str | None = None
    ) -> Callable[[], None]:
        """Sends events to `sink` from now on; before them the events after number `since` of this `life` (None: of any
        life), or the whole state. Returns a call that stops it."""
        return self._events.subscribe(sink, since, wants_snapshot, self.status, life)

    def state_message(self) -> EventMessage:
        """The whole state as an event client gets it."""
        return self._events.state_message(self.status())

    def accompany(self, name: str, companion: Companion) -> Callable[[], None]:
        """Adds a companion under this name, which is saved with the player. Returns a call that removes it. After a
        change of the companion its owner calls this again with it."""
        self._left_records.pop(name, None)
        self._companions[name] = companion
        self._services.changed(self.player_id)

        def leave() -> None:
            if self._companions.get(name) is companion:
                del self._companions[name]
                self._services.changed(self.player_id)

        return leave

    def close_connections(self, code: CloseCode, reason: str) -> None:
        self._broadcast.close(code, reason)
        self._events.close(code, reason)
        companions, self._companions = self._companions, {}
        for name, companion in companions.items():
            try:
                try:
                    self._left_records[name] = companion.record()
                finally:
                    companion.player_ended(code)
            except Exception:  # as with a listener: all other connections, and other players, are closed all the same
                log.exception("player %s: its %s could not be ended properly", self.player_id, name)

    def room_for(self, tracks: Sequence[Track]) -> int:
        """How many of these tracks, from the first on, may still wait."""
        return self._playback.room_for(tracks)

    def unread_track(self, depth: int, first: int = 0) -> Track | None:
        """The first track whose tags were not read, of `depth` waiting tracks from the index `first` on."""
        return None if self.is_deleted else self._playback.unread_track(depth, first)

    def has_unread(self, depth: int, first: int = 0) -> bool:
        """Whether tags of these waiting tracks may still be read before they play."""
        return not self.is_deleted and self._playback.has_unread(depth, first)

    def tags_read(self, track_id: str, facts: SourceFacts | None) -> None:
        """Takes the tags of a track that may still be waiting; `facts` are None if they could not be read."""
        if not self.is_deleted:
            self._engine.emit(self._playback.tags_read(track_id, facts).events)

    # State

    @property
    def player_id(self) -> str:
        return self._playback.player_id

    @property
    def life(self) -> str:
        return self._events.life

    @property
    def is_attended(self) -> bool:
        """Whether the player has listeners or event clients."""
        return len(self._broadcast) > 0 or len(self._events) > 0

    @property
    def queue(self) -> WaitingTracks:
        rules = self._rules
        return WaitingTracks(self._events.life, rules.queue_version, rules.queue)

    @property
    def history(self) -> tuple[PlayedTrack, ...]:
        """The played tracks, newest first."""
        return self._rules.history

    def overlay(self, overlay_id: str) -> OverlayStatus:
        """Raises `OverlayNotFound`."""
        return self._overlays.status(overlay_id)

    @property
    def metadata(self) -> Json:
        return self._playback.metadata

    def title(self) -> tuple[str, str]:
        """Artist and title of the selected track, each empty if unknown."""
        info = self._playback.current.info
        return info.author, info.title

    def figures(self) -> PlayerFigures:
        """This player's part of the node's figures."""
        return PlayerFigures(
            self._playback.state,
            self._engine.is_asleep,
            self._broadcast.counted_by_format(),
            self._engine.quality,
        )

    def snapshot(self) -> PlayerSnapshot:
        """The data that is needed to create the player again."""
        taken = self._rules.snapshot()
        if not self._companions and not self._left_records:
            return taken
        records = {name: companion.record() for name, companion in self._companions.items()}
        return replace(taken, companions=self._left_records | records)

    def record(self) -> PlayerSnapshot:
        """As `snapshot`, with the data that is needed to continue elsewhere at once."""
        taken = self.snapshot()
        frames, overlays = self._engine.quality.frames_sent, self._overlays.statuses()
        handover = Handover(self._events.life, self._events.last_seq, frames, self._engine.next_sample, overlays)
        return replace(taken, handover=handover)

    def status(self) -> PlayerStatus:
        """The whole state."""
        playback = self._rules
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
            quality=self._engine.quality,
            voice=self._voice.status,
        )

    # Implementation

    @property
    def _rules(self) -> Playback:
        """The rules, after all frames that are due by now have passed, because a sleeping player's track may have
        ended."""
        self._engine.catch_up()
        return self._playback

    def _tell_listeners(self) -> None:
        """Emits the number of listeners if it has changed: at once after a quiet second, otherwise at the end of the
        second."""
        listeners = self._broadcast.counted
        if self._told_timer is None and listeners != self._told_listeners and not self.is_deleted:
            self._told_listeners = listeners
            self._told_timer = self._services.call_later(_LISTENERS_INTERVAL_S, self._tell_listeners_again)
            self._engine.emit((ListenersChange(listeners),))

    def _tell_listeners_again(self) -> None:
        self._told_timer = None
        self._tell_listeners()

    def _log_listeners(self, level: int, what: str, sink: FrameSink) -> None:
        count, output = len(self._broadcast), sink.output
        log.log(level, "player %s: a listener %s; %d listen (%s)", self._playback.player_id, what, count, output.format)

    def _require_metadata(self, value: Json) -> None:
        require_metadata_bytes(self._services.json_bytes(value), self._services.settings.max_metadata_bytes)

    def _start_clock(self) -> None:
        self._awaits_voice = False
        self._cancel_first_wait()
        if not self._playback.clock_started:
            self._engine.start_clock()

    def _cancel_first_wait(self) -> None:
        if self._first_wait is not None:
            self._first_wait.cancel()
            self._first_wait = None

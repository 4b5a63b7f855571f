"""A player's engine: it passes client requests and source reports to the rules, and carries out their actions.

All requests go through `do`: it first passes the frames that are due, then applies the change to the rules, then emits
their events and carries out their actions. `Playback` has the rules of a player, `Joins` the rules between two tracks.
The session decodes, `Sending` sends, and `Sleep` decides when the player continues without a session.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from tonearm.core.crossfade import CrossfadeSettings, FadeTime
from tonearm.core.errors import NotSeekable
from tonearm.core.events import Event, PlayerState, TrackException
from tonearm.core.failure import SILENT_FOR_TOO_LONG, PlayFailure, never_started, own_error
from tonearm.core.figures import underrun_cause
from tonearm.core.frame import PCM_ONLY, ms_of_samples, samples_of_ms
from tonearm.core.joins import HeardSource, Joins
from tonearm.core.play_queue import Action, DropAction, OpenAction, SeekAction, SourceId
from tonearm.core.playback import Playback
from tonearm.core.playback_requests import Requests
from tonearm.core.playback_state import Outcome
from tonearm.core.player_status import PlayerQuality
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    Audio,
    CrossfadeOrder,
    Decoded,
    Encoded,
    Failed,
    Opened,
    SeekRefused,
    SessionFailed,
)
from tonearm.decoder.opening.source_input import Expanded, Notice
from tonearm.decoder.session.decoder_session import DecoderSession, SessionReport, SourceReport, Suspected
from tonearm.decoder.session.plan_moves import Mix, Program, SourceBegan, SourceEnded, SourceFaded
from tonearm.player.clients.broadcast import Broadcast
from tonearm.player.clients.event_log import EventLog
from tonearm.player.player_overlays import PlayerOverlays
from tonearm.player.player_services import PlayerServices
from tonearm.player.sending import Due, Moment, Retitled, Sending
from tonearm.player.sleep import Circumstances, Sleep
from tonearm.player.timers import IDLE_S, PATIENCE_IN_MID_TRACK, Alarm, Patience, TimerName, Timers, patience_at_start
from tonearm.player.weak_calls import weakly

log = logging.getLogger(__name__)


class Engine:
    """The engine of one player, until `close`. The clock ticks it."""

    def __init__(self, playback: Playback, events: EventLog, services: PlayerServices) -> None:
        clock, call_later = services.clock, services.call_later
        self._playback = playback
        self._events = events
        self._services = services
        self._clock = clock
        self._is_closed = False
        self._begins_at: int | None = None
        self._late_failure: tuple[SourceId, PlayFailure] | None = None
        self._stuck: SourceId | None = None  # the source that was reported as stuck and still gives no audio
        self._joins = Joins(playback)
        self._session = DecoderSession(
            weakly(self.receive),
            services.pool,
            services.opener,
            weakly(self._until_tick_s),
            services.carriers,
            services.bursts,
            clock.now_s,
        )
        self.broadcast: Final = Broadcast(playback.player_id, self._session.buffer, self._session.order_burst)
        self._timers = Timers(call_later, weakly(self._ring))
        self.overlays: Final = PlayerOverlays(self._session.plans, self._timers, services.settings.start_timeout_s)
        self._sending = Sending(playback, self._session, self._joins, self.broadcast)
        self._sleep = Sleep(clock, self._timers, self._circumstances())

    @property
    def next_sample(self) -> int | None:
        """The first sample of the current track's file that was not sent; None if no frame of it was sent."""
        source, sample = self._session.buffer.sent_to
        playback = self._playback
        is_there = source == playback.current_source and ms_of_samples(max(0, sample)) == playback.position_ms
        return sample if is_there else None

    def begin_at(self, sample: int | None) -> None:
        """Sets the first sample of the next track that is opened. It is ignored if it is not at the track's
        position."""
        self._begins_at = sample

    def stop(self) -> None:
        """Stops all timers and the ticks. The session stays until `close`."""
        self._is_closed = True
        self._timers.stop()
        self._sleep.stop()
        self._clock.leave(self)

    async def close(self) -> None:
        """To be called after `stop`. Returns when the session and its sources are closed."""
        await self._session.close()

    # Requests

    def do(self, change: Callable[[Requests], Outcome]) -> None:
        """Applies a change to the rules and carries out the outcome. Raises any error of `change`, with nothing
        done."""
        self.catch_up()
        sound = self._joins.sound if self._sending.sounds else None
        may_fade_yet = self._joins.may_fade_yet
        outcome = change(self._playback)
        if outcome.moves_fade and may_fade_yet:
            self._joins.fade_from_now()
        self._perform(outcome, skipped=sound if outcome.skips_to_open else None)
        if outcome.moves_fade:
            self._open_next_in_time()
        self._tell_late_failure()
        self._frames_arrived()

    def start_clock(self) -> None:
        """Starts the position, because the first listener has come or the wait for a listener is over."""
        self._perform(self._playback.start_clock())
        self.listeners_changed()
        self._frames_arrived()

    def catch_up(self) -> None:
        """Moves a sleeping player on by the frames that are due. To be called before the state of a player is read."""
        if frames := self._sleep.take_passed_frames():
            try:
                # After a standstill of the node they are many more than the track has.
                self._handle(self._sending.pass_frames(self._circumstances().frames_in_track(frames)))
            except Exception:  # the caller may be a list of all players
                log.exception("player %s: the frames of its sleep could not pass", self._playback.player_id)
                self.went_wrong()

    @property
    def seeks_by_frames(self) -> bool:
        """Whether seeks should go to whole frames, so that the packets of the source still fit."""
        return self._session.seeks_by_frames

    @property
    def is_asleep(self) -> bool:
        return self._sleep.is_asleep

    @property
    def sounds_for_streams(self) -> bool:
        """Whether a stream that begins now has audio, or will have it soon."""
        playback = self._playback
        return playback.state in (PlayerState.PLAYING, PlayerState.LOADING) and not playback.paused

    @property
    def quality(self) -> PlayerQuality:
        return self._sending.quality

    def listeners_changed(self) -> None:
        """Requests frames in the forms of all listeners. Without listeners, before the clock starts, the form is
        PCM."""
        if not self._is_closed:
            self.catch_up()
            is_made_ready = not self.broadcast.outputs and not self._playback.clock_started
            outputs = PCM_ONLY if is_made_ready else self.broadcast.outputs
            self._session.listen(outputs, is_for_nobody=is_made_ready)
            self._follow()
            self._session.buffer.end_plain_run()  # frames may have to be sent early from now on
            self._update_ticking()

    def emit(self, events: tuple[Event, ...]) -> None:
        """Sends events to the player's clients and to the node."""
        self._services.told(self._playback.player_id, events)
        for event in events:
            self._events.add(event, is_heard=len(self.broadcast) > 0)
            if isinstance(event, TrackException):
                self._services.totals.track_failures[event.failure.code] += 1

    # Actions of the rules

    def _perform(self, outcome: Outcome, *, skipped: HeardSource | None = None) -> None:
        """Emits the events, carries out the actions and plans the audio. `skipped`: the audio that a skip ends, which
        may fade out."""
        self.emit(outcome.events)
        playback, session, actions = self._playback, self._session, outcome.actions
        cut_fade = None
        if skipped is not None:
            cut_fade = _crossfade(self._joins.fade_of_skip(skipped), playback.crossfade)
            if cut_fade is not None:
                actions = tuple(action for action in actions if action != DropAction(skipped.source))
        self._carry_out(actions)
        self._follow()
        has_something = playback.current_source is not None or bool(self.overlays)
        if has_something and (not playback.paused or self.overlays) and not self._sleep.is_asleep:
            session.wake()
        # While frames pass without audio, no overlay may begin.
        overlays = self.overlays.orders if playback.clock_started and not self._sleep.passes_frames else ()
        pauses = bool(overlays) and playback.paused
        fade = _crossfade(self._joins.next_fade(), playback.crossfade)
        mix = Mix(playback.filters, fade, overlays, pauses, may_crossfade=playback.crossfade.duration_ms > 0)
        if playback.paused:
            session.fall_silent()
        session.be_silent(is_silent=playback.paused and not self.overlays)
        program = Program(playback.current_source, playback.next_source, mix)
        session.play(program, cut_fade, from_silence=not self._sending.sounds)
        self._wait_changed()
        if has_something:
            is_paused_live = playback.paused and playback.current.info.is_stream and not self.overlays
            paused_live = playback.current_source if is_paused_live else None
            self._timers.follow(Alarm.REST, paused_live, self._services.settings.live_pause_s)
        else:
            self._timers.follow(Alarm.REST, "idle", IDLE_S)
        self._update_ticking()

    def _carry_out(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case DropAction(source):
                    self._session.drop(source)
                case SeekAction(source, new_source, start_ms):
                    self._session.seek(source, new_source, samples_of_ms(start_ms))
                case OpenAction(source, track, delay_s, start_ms):
                    waiting = self._playback.queue if self._playback.filters.effects.normalizes else ()
                    sleeps_on = self._sleep.is_asleep and source == self._playback.next_source
                    sample, self._begins_at = self._begins_at, None
                    if sample is None or ms_of_samples(sample) != start_ms:
                        sample = samples_of_ms(start_ms)
                    self._session.open(source, track, sample, delay_s, waiting, ends_rest=not sleeps_on)

    def _open_next_in_time(self) -> None:
        """Opens the next track when little of the current track is left."""
        if self._joins.take_opening(self._session.plans.is_decoded, has_listeners=len(self.broadcast) > 0):
            self._perform(self._playback.next_is_due())

    # The clock

    def tick(self) -> None:
        """Sends one frame."""
        try:
            beat = self._clock.beat
            if not self._sending.send_plain(beat):
                self._handle(self._sending.send_next(beat))
                self._send_early(beat)
                self._update_ticking()
        except Exception:
            log.exception("player %s: sending a frame failed", self._playback.player_id)
            self.went_wrong()

    def ticks_skipped(self, count: int) -> None:
        self._sending.frames_left_out += count

    def _send_early(self, beat: int) -> None:
        frames = self._sending.take_early_frames()
        for _ in range(frames):
            if not self._sending.send_plain(beat):
                self._handle(self._sending.send_next(beat))
        if frames:
            self._session.grant()
            self._session.buffer.end_plain_run()

    def _update_ticking(self) -> None:
        """Lets the clock tick this player only while it has frames or silence to send, also what it could not send to a
        slow listener before."""
        if self._is_closed:
            return
        sending = self._sending
        if self._playback.paused:
            sending.falls_silent()
        has_frames = (sending.has_frames and not self._sleep.is_asleep) or sending.must_send
        if has_frames or self.broadcast.wants_silence or self.broadcast.must_catch_up:
            self._clock.join(self)
        else:
            self._clock.leave(self)

    def _handle(self, falls_due: Iterable[Due]) -> None:
        for due in falls_due:
            match due:
                case Moment():
                    self._handle_moment(due)
                case SourceBegan(source):
                    self._perform(self._playback.first_frame(source))
                case SourceEnded():
                    self._end(due)
                case SourceFaded(source):
                    self._session.drop(source)
                case Retitled(source, title):
                    self._perform(self._playback.retitled(source, title))

    def _handle_moment(self, moment: Moment) -> None:
        match moment:
            case Moment.READY:
                self._perform(self._playback.recovered())
            case Moment.MOVED:
                self._open_next_in_time()
            case Moment.UPDATE:
                self.emit((self._playback.update(),))
            case Moment.UNDERRAN:
                self._underran()
            case Moment.OVERLAYS_COME:
                self.emit(self.overlays.frame_comes())
            case Moment.SENT if self.overlays:
                ended = self.overlays.frame_sent()
                if ended.events:
                    self._perform(ended)
                self._session.grant_due()
            case Moment.NO_FRAME:
                self._no_frame()

    def _end(self, ended: SourceEnded) -> None:
        source = ended.source
        if ended.failure is None:
            outcome = self._playback.ended(source)
        else:
            outcome = self._playback.failed(source, ended.failure)
        if not ended.fades:
            self._session.drop(source)
        self._perform(outcome)

    def _no_frame(self) -> None:
        goes_on_late = self._sleep.is_waking and not self._sleep.passes_frames
        if self._sleep.may_lack_frame(self._circumstances()):
            self._pass_frame()
            return
        self._sending.underrun()
        self._underran(is_dry=not goes_on_late)
        self._sending.send_silence()

    def _underran(self, *, is_dry: bool = True) -> None:
        if self._playback.state is PlayerState.PLAYING and is_dry:
            if self._clock.is_behind:
                self._clock.leave_out(self)
            else:
                self._sending.underruns += 1
                self._services.totals.underruns[underrun_cause(self._session.waiting_for.stage)] += 1
        self._perform(self._playback.underrun())
        self._tell_late_failure()

    # Sleep

    def _follow(self) -> None:
        """To be called when a condition of the player's sleep has changed."""
        if self._sleep.follow(self._circumstances()):
            self._wake()

    def _circumstances(self) -> Circumstances:
        playback = self._playback
        return Circumstances(
            source=playback.current_source,
            info=playback.current.info,
            position_ms=playback.position_ms,
            end_ms=playback.current.known_end_ms,
            open_from_ms=self._joins.open_from_ms(has_listeners=len(self.broadcast) > 0),
            frames_until_update=self._sending.frames_until_update,
            has_audio=playback.state is PlayerState.PLAYING,
            has_begun=self._sending.has_begun,
            has_listeners=len(self.broadcast) > 0,
            is_running=playback.wants_frames,
            is_opening_next=playback.is_opening_next,
            has_overlays=bool(self.overlays),
            position_rate=playback.filters.effects.position_rate,
        )

    def _sleep_timer(self) -> None:
        """Handles the sleep timer: the player falls asleep, or an event is due in its sleep."""
        if not self._sleep.is_asleep:
            if self._sleep.falls_asleep(self._circumstances(), self._clock.next_deadline_s(self)):
                self._session.rest()
                self._late_failure = None  # the source is opened once more
                self._update_ticking()
            return
        self.catch_up()
        if not self._sleep.sleeps_on(self._circumstances()):
            self._wake()

    def _wake(self) -> None:
        """Opens a session with the sources again, at the player's position, and ticks."""
        self.catch_up()
        next_s = self._sleep.wake()
        if next_s is not None:
            self._clock.resume_at(self, next_s)
        self._session.wake(has_burst=self.broadcast.awaits_bursts)
        self._sending.wakes()
        self._update_ticking()
        if next_s is not None:
            self._sleep.woke(next_s, self._clock.next_deadline_s(self))

    def _pass_frame(self) -> None:
        """Passes one frame's time without audio, while the source is opened again after a sleep."""
        self._sending.send_silence()
        if self._sleep.passes_frames:
            self._handle(self._sending.pass_frames(1))
        self._sending.grant_on_beat(self._clock.beat)
        self._open_next_in_time()

    # Reports of the session

    def receive(self, report: SessionReport) -> None:
        """Takes a report of the session."""
        match report:
            case Audio():
                self._frames_arrived()
            case Encoded():
                self._sending.encoded_arrived(report)
            case Notice.WAIT_CHANGED:
                self._wait_changed()
            case Notice.WENT_WRONG:
                self.went_wrong()
            case Suspected(uri):
                self._services.suspect(uri)
            case SessionFailed(source=source, failure=failure):
                self._perform(self.overlays.session_failed(failure))
                if 0 < source < FIRST_OVERLAY_SOURCE:
                    self._source_failed(source, failure)
            case _:
                self._source_reported(report)

    def _source_reported(self, report: SourceReport | Failed | Expanded) -> None:
        match report:
            case _ if report.source >= FIRST_OVERLAY_SOURCE:
                self._perform(self.overlays.receive(report))
                if isinstance(report, Failed) and report.gave_audio:
                    self._frames_arrived()
            case SeekRefused(source=source, failure=failure):
                log.info("player %s: %s %s", self._playback.player_id, failure.message, failure.hint)
                outcome = self._playback.seek_failed(source, NotSeekable.code)
                self._joins.seek_failed(source)
                self._perform(outcome)
            case Opened(source=source, facts=facts):
                self._joins.source_opened(source)
                self._perform(self._playback.opened(source, facts))
                is_decoded, has_listeners = self._session.plans.is_decoded, len(self.broadcast) > 0
                if self._joins.opened_early(source, is_decoded, has_listeners=has_listeners):
                    self._perform(self._playback.next_is_not_due())
                self._open_next_in_time()
            case Expanded(source, tracks):
                outcome = self._playback.expanded(source, tracks)
                self._session.drop(source)
                self._perform(outcome)
            case Failed(gave_audio=True):
                self._frames_arrived()  # its end may be due already
            case Failed(source=source, failure=failure):
                self._source_failed(source, failure)
            case Decoded():
                self._open_next_in_time()
                if self._sending.is_buffering and self._playback.is_in_mid_track:
                    self._session.flush()
                self._frames_arrived()

    def _source_failed(self, source: SourceId, failure: PlayFailure) -> None:
        playback = self._playback
        is_early = self._sending.sends_music or (playback.paused and playback.is_in_mid_track)
        if source == playback.current_source and is_early:
            # The source was opened again in another session. Its buffered frames are sent, and a pause ends, before the
            # failure is reported.
            self._late_failure = (source, failure)
        else:
            self._fail(source, failure)

    def _tell_late_failure(self) -> None:
        if self._late_failure is not None:
            source, failure = self._late_failure
            self._late_failure = None
            self._source_failed(source, failure)

    def _frames_arrived(self) -> None:
        if self._is_closed:
            return
        sending = self._sending
        self._handle(sending.frames_arrived())
        if self._sleep.is_waking and self._session.frames_ahead:
            self._sleep.woken(self._circumstances())
            self._session.grant()  # the last frames, rendered again, become MP3 with this grant
            self._perform(Outcome())  # plans the overlays that waited for the audio
        if sending.is_buffering or not self._playback.wants_frames:
            self._update_ticking()

    def _wait_changed(self) -> None:
        if self._is_closed:
            return
        playback = self._playback
        stalled, wait = playback.stalled, self._session.waiting_for
        if self._stuck != stalled:
            self._stuck = None
        is_reported = self._stuck is not None
        is_timed = stalled is not None and not playback.paused and (wait.counts or (wait.is_told and not is_reported))
        patience = self._patience
        delay_s = patience.give_up_after_s if is_reported else patience.stuck_after_s
        self._timers.follow(Alarm.STALL, (stalled, is_reported) if is_timed else None, delay_s)
        self.overlays.wait_changed(counts=self._session.waited_for_room_s is None)

    @property
    def _patience(self) -> Patience:
        """How long the current source may give no audio. After a pause, and after a wait that does not count, the time
        begins again."""
        is_in_mid_track = self._playback.is_in_mid_track
        return PATIENCE_IN_MID_TRACK if is_in_mid_track else patience_at_start(self._services.settings.start_timeout_s)

    def went_wrong(self) -> None:
        """Fails the track after an error in the node's code, so that the player continues and clients see the cause."""
        try:
            source = self._playback.current_source
            if source is not None:
                self._fail(source, own_error())
        except Exception:
            log.exception(
                "player %s: the failed track could not be ended; the player has stopped", self._playback.player_id
            )
            self._clock.leave(self)

    def _fail(self, source: SourceId, failure: PlayFailure) -> None:
        outcome = self._playback.failed(source, failure)
        self._session.drop(source)
        self._perform(outcome)

    def _until_tick_s(self) -> float:
        return self._clock.until_tick_s(self)

    # Timers

    def _ring(self, timer: TimerName) -> None:
        """Handles a timer that went off."""
        try:
            match timer:
                case Alarm.SLEEP:
                    self._sleep_timer()
                case Alarm.REST:
                    self._session.rest()
                case Alarm.STALL:
                    self._stalled()
                case overlay:
                    self._perform(self.overlays.gave_nothing(overlay))
        except Exception:
            log.exception("player %s: the action of a timer failed", self._playback.player_id)
            self.went_wrong()

    def _stalled(self) -> None:
        playback, wait, patience = self._playback, self._session.waiting_for, self._patience
        source = playback.stalled
        if source is None:
            return
        if self._stuck is None:
            self._stuck = source
            self._perform(playback.stuck(source, round(patience.stuck_after_s * 1000), wait.cause))
        elif playback.is_in_mid_track:
            self._source_failed(source, SILENT_FOR_TOO_LONG)
        else:
            self._source_failed(source, never_started(patience.in_all_s, wait.cause, wait.stage))


def _crossfade(time: FadeTime | None, settings: CrossfadeSettings) -> CrossfadeOrder | None:
    if time is None:
        return None
    return CrossfadeOrder(
        samples_of_ms(time.at_ms), samples_of_ms(time.duration_ms), settings.curve.value, time.is_late
    )

"""What a player sends at each tick of the clock, and when it ticks, buffers or sleeps.

Frames come from the session's buffer. What falls due with a frame (a track that begins or ends, a title, an event)
is given to a `SendingObserver` before or after the frame is sent.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from tonearm.audio.clients.broadcast import Broadcast
from tonearm.audio.clients.framing import FrameFlag
from tonearm.audio.clock import Clock
from tonearm.audio.head_start import HeadStart
from tonearm.audio.next_opening import NextOpening
from tonearm.audio.player_overlays import PlayerOverlays
from tonearm.audio.session.decoder_session import DecoderSession
from tonearm.audio.session.plan_moves import SourceBegan, SourceEnded, SourceFaded
from tonearm.audio.session.plan_state import GRANT_STEP_FRAMES, LONG_GRANT_STEP_FRAMES
from tonearm.audio.sleep import Circumstances, Sleep
from tonearm.audio.timers import CallLater
from tonearm.core.events import Event, PlayerState
from tonearm.core.frame import FRAME_MS, FRAMES_PER_SECOND, ms_of_samples
from tonearm.core.outputs import PCM_ONLY, Forms, Payloads, has_format
from tonearm.core.play_queue import SourceId
from tonearm.core.playback import Outcome, Playback
from tonearm.core.player_status import PlayerQuality
from tonearm.decoding.messages import Encoded

log = logging.getLogger(__name__)

UPDATE_INTERVAL_FRAMES: Final = 5 * FRAMES_PER_SECOND
MP3_PATIENCE_FRAMES: Final = FRAMES_PER_SECOND // 2


class SendingObserver(Protocol):
    """Takes up what comes of sending frames."""

    def perform(self, outcome: Outcome) -> None:
        """Carries out what the rules ask for."""
        ...

    def take_up(self, event: SourceBegan | SourceEnded | SourceFaded) -> None:
        """A mark that was in a frame."""
        ...

    def open_next_in_time(self) -> None:
        """The position has moved on."""
        ...

    def underran(self) -> None:
        """There was no frame to send."""
        ...

    def unheard(self) -> None:
        """Nobody listens now."""
        ...

    def went_wrong(self) -> None:
        """An error of the node's own has been logged."""
        ...


class Sending:
    """One player's sending, from its creation to `stop`. It is the player's member of the clock."""

    def __init__(
        self,
        observer: SendingObserver,
        playback: Playback,
        session: DecoderSession,
        overlays: PlayerOverlays,
        next_opening: NextOpening,
        broadcast: Broadcast,
        clock: Clock,
        call_later: CallLater,
        emit: Callable[[tuple[Event, ...]], None],
    ) -> None:
        self._observer = observer
        self._playback = playback
        self._session = session
        self._buffer = session.buffer
        self._overlays = overlays
        self._next_opening = next_opening
        self._broadcast = broadcast
        self._clock = clock
        self._emit = emit
        self._is_buffering = True  # before the first frame, and after an underrun
        self._is_stopped = False
        self._frames_sent = 0
        self._forms: Forms = ()  # of the frame that was looked at last, and of the plain ones after it
        self._plain_step_ms = FRAME_MS  # how far the position moves with a plain frame
        self._begun_source: SourceId | None = None  # the one that sounded last
        self._sounds = False
        self._late_frames = 0
        self._underruns = 0
        self._mp3_end_frame = 0  # frames before it were encoded
        self._mp3_waits = 0  # for how many ticks nothing was sent while MP3 was awaited
        self._sleep = Sleep(self, clock, call_later, self._circumstances())
        self._head_start = HeadStart(self, lambda: broadcast.least_burst_ms, clock)

    def quality(self, frames_lost: int, closed_too_slow: int, closed_failed: int) -> PlayerQuality:
        """How well it has been doing, with what listeners lost, and how many were closed."""
        waited_s = self._session.waited_for_room_s
        return PlayerQuality(
            frames_sent=self._frames_sent,
            frames_lost=frames_lost,
            underruns=self._underruns,
            late_plans=self._session.late_plans_total,
            late_frames=self._late_frames,
            decoder_process_id=self._session.decoder_process_id,
            closed_too_slow=closed_too_slow,
            closed_failed=closed_failed,
            waiting_for_room_ms=None if waited_s is None else round(waited_s * 1000),
        )

    @property
    def sounds(self) -> bool:
        """Whether music was sent just now, so that what follows continues it or cuts it off."""
        return self._sounds

    @property
    def sends_music(self) -> bool:
        """Whether frames of the current track are being sent, and at least one more is there."""
        return not self._is_buffering and self._buffer.frames_ahead > 0

    @property
    def frames_sent(self) -> int:
        return self._frames_sent

    @property
    def frames_to_spare(self) -> int:
        """How many frames of a file could be sent at once."""
        may_send = self.sends_music and self._playback.wants_frames and not self._playback.current.info.is_stream
        return self._buffer.frames_ahead if may_send else 0

    @property
    def waits_in_mid_track(self) -> bool:
        """Whether the position stands for lack of audio, behind the first frame of the track."""
        return self._is_buffering and self._playback.is_in_mid_track

    @property
    def is_asleep(self) -> bool:
        return self._sleep.is_asleep

    @property
    def is_waking(self) -> bool:
        return self._sleep.is_waking

    # Changes

    def catch_up(self) -> None:
        """Lets the frames pass that are due by now. To be called before anything is done with a player."""
        self._sleep.catch_up()

    def follow(self) -> None:
        """To be called when something has changed by which the player may sleep, or not any more."""
        self._sleep.follow(self._circumstances())
        if not len(self._broadcast):
            self._observer.unheard()

    def listeners_changed(self) -> None:
        """Has frames rendered for all who listen; before the clock starts, for the listener that comes first."""
        if not self._is_stopped:
            self.catch_up()
            is_made_ready = not self._broadcast.outputs and not self._playback.clock_started
            self._session.listen(PCM_ONLY if is_made_ready else self._broadcast.outputs)
            self.follow()
            self._head_start.follow()

    @property
    def sounds_for_streams(self) -> bool:
        """Whether a stream that begins now has sound in it, or is about to."""
        playback = self._playback
        return playback.state in (PlayerState.PLAYING, PlayerState.LOADING) and not playback.paused

    def recall(self) -> None:
        """For listeners who begin with what was sent before: has it made in their forms. While the player wakes, that
        is done when it has woken."""
        if not self._sleep.is_waking:
            for output in self._broadcast.recalls:
                if not self._frames_sent or not self._session.recall(output):
                    self._broadcast.recalled(output, ())

    def frames_arrived(self) -> None:
        if self._is_stopped:
            return
        if self._playback.wants_frames:
            self._take_up_complete_ends()  # an end may be known only after its last frame was sent
        elif self._is_ready_in_pause:
            self._observer.perform(self._playback.recovered())
        if self._sleep.is_waking and self._buffer.frames_ahead:
            self._sleep.woken()
            self._recall_woken()
            self._observer.perform(Outcome())  # overlays waited for it
        if self._is_buffering or not self._playback.wants_frames:
            self.update_ticking()

    def _recall_woken(self) -> None:
        """What was sent before was rendered again, and becomes MP3 by a grant."""
        outputs = self._broadcast.recalls
        if has_format(outputs, "mp3"):
            self._session.grant()
        for output in outputs:
            if output.format == "opus" and not self._session.recall(output):
                self._broadcast.recalled(output, ())

    def encoded_arrived(self, encoded: Encoded) -> None:
        if encoded.output.format == "opus":
            self._broadcast.recalled(encoded.output, encoded.mp3_frames)
            return
        self._mp3_end_frame = encoded.end_frame
        self._mp3_waits = 0
        self._broadcast.send_mp3(encoded.output, encoded.first_frame, encoded.end_frame, encoded.mp3_frames)

    def grant(self) -> None:
        self._session.grant()

    def update_ticking(self) -> None:
        """Ticks only while there is something to send: a player that is paused, idle or waiting costs nothing."""
        if self._is_stopped:
            return
        self._sounds &= not self._playback.paused
        has_frames = self._playback.wants_frames and (not self._is_buffering or self._session.has_enough)
        has_frames &= not self._sleep.is_asleep
        has_frames |= self._must_send_tail or self._must_send_overlays
        if has_frames or self._broadcast.wants_silence:
            self._clock.join(self)
        else:
            self._clock.leave(self)
        self._head_start.follow()

    def stand_still(self) -> None:
        """Ticks no more until something else changes."""
        self._clock.leave(self)

    def stop(self) -> None:
        """Ends it all, with the player."""
        self._sleep.stop()
        self._is_stopped = True
        self._clock.leave(self)
        self._head_start.stop()

    # The clock

    def tick(self) -> None:
        """One frame's time. Nearly all frames are plain ones, for which this is all that is done."""
        try:
            payloads = self._buffer.pop_plain()
            if payloads is None:
                self._tick()
            else:
                self._send(self._forms, payloads)
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
                self._observer.perform(self._playback.recovered())
            if (not self._is_buffering or self._must_send_tail) and self._send_frame():
                return
        elif self._must_send_tail:
            frame = self._buffer.pop()
            self._send(frame.forms, frame.payloads)
            return
        if self._broadcast.wants_silence:
            self._broadcast.send_silence(is_mp3_awaited=self._is_mp3_awaited())
        self.update_ticking()

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
        self._sounds = True
        self._send(frame.forms, frame.payloads, flags)
        if frame.source == playback.current_source:
            playback.position_ms = ms_of_samples(frame.end_samples)
        self._take_up_complete_ends()
        if frame.title is not None:
            self._observer.perform(playback.retitled(frame.source, frame.title))
        self._observer.open_next_in_time()
        self._emit_update_in_time()
        if self._overlays:
            self._overlays.frame_sent()
        if frame.source == playback.current_source:
            step_ms = FRAME_MS * frame.position_rate
            self._plain_step_ms = round(step_ms)
            if abs(step_ms - self._plain_step_ms) < 1e-6:  # else each frame's position is worked out
                buffer.allow_plain(self.frames_until_due)
        return True

    def _send_overlays(self) -> None:
        """Sends a frame without music in it, in whatever state: the position stands."""
        if self._playback.wants_frames and not self._is_buffering and self._session.is_steady:
            self._underrun()
        self._overlays.frame_comes()
        if self._must_send_overlays:
            frame = self._buffer.pop()
            flags = FrameFlag.DISCONTINUITY if frame.is_cut and self._frames_sent else 0
            self._send(frame.forms, frame.payloads, flags)
            self._emit_update_in_time()
            self._overlays.frame_sent()
        self.update_ticking()

    def _send(self, forms: Forms, payloads: Payloads, flags: int = 0) -> None:
        self._frames_sent += 1
        self._forms = forms
        if payloads:
            self._broadcast.send(forms, payloads, self._frames_sent, flags)
        self._grant_on_beat()

    def _grant_on_beat(self) -> None:
        # On common beats, so that the grants of many players wake a decoder process once, and their frames this
        # process.
        beat = self._clock.beat
        if beat % GRANT_STEP_FRAMES == 0:
            self._session.grant(is_long_step=beat % LONG_GRANT_STEP_FRAMES == 0)

    def _underrun(self) -> None:
        self._is_buffering = True
        self._sounds = False
        if self._playback.state is PlayerState.PLAYING:
            self._underruns += 1
        self._session.underrun()
        self._observer.underran()

    @property
    def _must_send_tail(self) -> bool:
        """Whether the end of a sound that was cut off is to be sent, in whatever state: without it there is a click."""
        return self._buffer.begins_with_tail and self._playback.clock_started and not self._playback.paused

    @property
    def _must_send_overlays(self) -> bool:
        """Whether overlays sound in the next frame and the music does not: nothing else decides when it is sent."""
        return self._buffer.begins_with_overlays_alone and self._playback.clock_started

    @property
    def _is_ready_in_pause(self) -> bool:
        """Whether a paused player that was loading has enough to go on with."""
        playback = self._playback
        is_loading = playback.clock_started and playback.paused and playback.state is PlayerState.LOADING
        return is_loading and self._session.has_enough and not self._buffer.begins_with_overlays_alone

    def _is_mp3_awaited(self) -> bool:
        """Whether frames that were sent are still being encoded to MP3, which begins when a grant reports them."""
        if not has_format(self._broadcast.outputs, "mp3"):
            return False
        if self._mp3_end_frame >= self._buffer.next_frame or self._mp3_waits >= MP3_PATIENCE_FRAMES:
            return False
        if not self._mp3_waits:
            self._session.grant()
        self._mp3_waits += 1
        return True

    # What falls due with a frame

    def _take_up_due_events(self) -> int:
        """What falls due with the next frame. Returns the flags of that frame."""
        flags = 0
        while (event := self._session.take_event()) is not None:
            if isinstance(event, SourceBegan):
                # Not where a seek led, nor where another session goes on.
                flags = 0 if self._playback.is_in_mid_track else FrameFlag.TRACK_STARTS
                self._begun_source = event.source
            self._observer.take_up(event)
        if self._buffer.overlays:
            self._overlays.frame_comes()
        return flags

    def _take_up_complete_ends(self) -> None:
        while (end := self._session.take_complete_end()) is not None:
            self._observer.take_up(end)

    def _emit_update_in_time(self) -> None:
        if self._frames_sent % UPDATE_INTERVAL_FRAMES == 0 and self._playback.wants_frames:
            self._emit((self._playback.update(),))

    @property
    def frames_until_due(self) -> int:
        """How many frames may be sent before the next PlayerUpdate, or before the next track is to be opened."""
        frames = self.frames_until_update
        until_opening_ms = self._next_opening.ms_until
        return frames if until_opening_ms is None else min(frames, until_opening_ms // self._plain_step_ms)

    @property
    def frames_until_update(self) -> int:
        """How many frames may be sent before the next PlayerUpdate."""
        return UPDATE_INTERVAL_FRAMES - 1 - self._frames_sent % UPDATE_INTERVAL_FRAMES

    # Sleep

    @property
    def position_ms(self) -> int:
        return self._playback.position_ms

    def pass_frames(self, frames: int) -> None:
        """Moves on by frames that were not rendered, as nobody listens."""
        self._sounds = False
        while frames > 0:
            step = min(frames, UPDATE_INTERVAL_FRAMES - self._frames_sent % UPDATE_INTERVAL_FRAMES)
            self._buffer.skip(step)
            self._frames_sent += step
            self._playback.position_ms = ms_of_samples(self._buffer.end_position()[1])
            self._emit_update_in_time()
            frames -= step

    def let_go(self) -> None:
        self._session.rest()
        self.update_ticking()

    def take_up(self) -> None:
        self._session.wake(recalls=bool(self._broadcast.recalls))
        self.update_ticking()

    def went_wrong(self) -> None:
        self._observer.went_wrong()

    def _pass_frame(self) -> None:
        """A frame's time while the source is being opened again."""
        if self._broadcast.wants_silence:
            self._broadcast.send_silence()
        self.pass_frames(1)
        self._grant_on_beat()
        self._observer.open_next_in_time()

    def _circumstances(self) -> Circumstances:
        playback, has_listeners = self._playback, len(self._broadcast) > 0
        return Circumstances(
            source=playback.current_source,
            info=playback.current.info,
            end_ms=playback.current.known_end_ms,
            open_from_ms=self._next_opening.from_ms,
            has_sounded=playback.state is PlayerState.PLAYING and self._begun_source == playback.current_source,
            has_listeners=has_listeners,
            is_running=playback.wants_frames,
            has_overlays=bool(self._overlays),
            is_stretched=playback.filters.effects.position_rate != 1.0,
        )

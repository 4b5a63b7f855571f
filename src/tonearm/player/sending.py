"""Sends a player's frames at each tick of the clock.

Frames come from the session's buffer. A frame may have events: a track begins or ends, a title changes, an update is
due. `Sending` yields these events as values, before or after the frame, and the player's engine handles them.
"""

from collections.abc import Generator, Iterator
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.events import PlayerState
from tonearm.core.frame import FRAME_MS, FRAMES_PER_SECOND, Forms, Payloads, has_format, ms_of_samples
from tonearm.core.joins import Joins
from tonearm.core.play_queue import SourceId
from tonearm.core.playback_state import PlaybackState
from tonearm.core.player_status import PlayerQuality
from tonearm.decoder.messages import Encoded
from tonearm.decoder.session.decoder_session import DecoderSession
from tonearm.decoder.session.orders import GRANT_STEP_FRAMES, LONG_GRANT_STEP_FRAMES
from tonearm.decoder.session.plan_moves import SourceBegan, SourceEnded, SourceFaded
from tonearm.player.clients.broadcast import FAILED, NOTHING_READ, Broadcast
from tonearm.protocol.framing import FrameFlag

UPDATE_INTERVAL_FRAMES: Final = 5 * FRAMES_PER_SECOND
MP3_PATIENCE_FRAMES: Final = FRAMES_PER_SECOND // 2
_MOST_EARLY_FRAMES: Final = 8  # are sent early at a tick
_KEPT_FRAMES: Final = 15  # stay in the buffer (300 ms), so that sending early causes no underrun


class Moment(Enum):
    """Events without a value."""

    READY = "ready"  # enough is buffered to continue after an underrun
    NO_FRAME = "no frame"  # the buffer is empty: the engine calls `underrun` or `pass_frames`
    UNDERRAN = "underran"
    MOVED = "moved"  # the position has changed
    UPDATE = "update"  # a PlayerUpdate is due
    OVERLAYS_COME = "overlays come"  # the next frame may have overlays in it
    SENT = "sent"  # a frame that may have overlays in it


class Retitled(NamedTuple):
    """A stream has this title from the last sent frame on."""

    source: SourceId
    title: str


Due: TypeAlias = Moment | Retitled | SourceBegan | SourceEnded | SourceFaded


class Sending:
    """Sends one player's frames. `beat` is `Clock.beat`.

    The caller handles each event of an iterator before it takes the next one, because handling may change the frames
    that are sent.
    """

    def __init__(
        self,
        playback: PlaybackState,
        session: DecoderSession,
        joins: Joins,
        broadcast: Broadcast,
    ) -> None:
        self._playback = playback
        self._session = session
        self._plans = session.plans
        self._buffer = session.buffer
        self._joins = joins
        self._broadcast = broadcast
        self._is_buffering = True  # before the first frame, and after an underrun
        self._frames_sent = 0
        self._forms: Forms = ()  # of the last frame from `pop`, and of the plain frames after it
        self._plain_step_ms = FRAME_MS  # how far the position moves with a plain frame
        self._begun_source: SourceId | None = None  # the source that began last
        self._sounds = False
        self.underruns = 0
        self._mp3_end_frame = 0  # frames before this one were encoded to MP3
        self._mp3_waits = 0  # ticks without a frame since the order to encode the rest to MP3
        self.frames_left_out = 0

    @property
    def quality(self) -> PlayerQuality:
        """Counts since the player was created."""
        broadcast = self._broadcast
        waited_s = self._session.waited_for_room_s
        return PlayerQuality(
            frames_sent=self._frames_sent,
            frames_lost=broadcast.frames_lost,
            underruns=self.underruns,
            late_plans=self._plans.late_plans_total,
            frames_left_out=self.frames_left_out,
            decoder_process_id=self._session.decoder_process_id,
            closed_too_slow=broadcast.closed[NOTHING_READ],
            closed_failed=broadcast.closed[FAILED],
            waiting_for_room_ms=None if waited_s is None else round(waited_s * 1000),
        )

    @property
    def sounds(self) -> bool:
        """Whether the last frame had music in it, which the next frame continues or cuts off."""
        return self._sounds

    @property
    def has_begun(self) -> bool:
        """Whether a frame of the current source was sent."""
        return self._begun_source == self._playback.current_source

    @property
    def sends_music(self) -> bool:
        """Whether frames of the current track are being sent, and at least one more is buffered."""
        return not self._is_buffering and self._buffer.frames_ahead > 0

    @property
    def is_buffering(self) -> bool:
        """Whether the player waits for audio: before its first frame, and after an underrun."""
        return self._is_buffering

    @property
    def has_frames(self) -> bool:
        """Whether music should be sent and enough of it is buffered."""
        return self._playback.wants_frames and (not self._is_buffering or self._plans.has_enough)

    @property
    def must_send(self) -> bool:
        """Whether frames have to be sent although no music plays: a tail, or overlays."""
        return self._must_send_tail or self._must_send_overlays

    @property
    def frames_until_update(self) -> int:
        """How many frames may be sent before the next PlayerUpdate."""
        return UPDATE_INTERVAL_FRAMES - 1 - self._frames_sent % UPDATE_INTERVAL_FRAMES

    def wakes(self) -> None:
        """To be called when the source is opened again after a sleep. Its first frame is sent as soon as it comes."""
        self._is_buffering = False

    def falls_silent(self) -> None:
        """Notes that the next frame continues no sound."""
        self._sounds = False

    # A tick

    def send_plain(self, beat: int) -> bool:
        """Sends the next frame if it is plain, as nearly all frames are. Returns True if the tick is done with that."""
        # The same as `_send`, written out, because nearly every tick runs this and calls take 3 % of the node's time
        # with Opus.
        payloads = self._buffer.pop_plain()
        if payloads is None:
            return False
        self._frames_sent += 1
        if payloads:
            self._broadcast.send(self._forms, payloads, self._frames_sent)
        if beat % GRANT_STEP_FRAMES == 0:
            self.grant_on_beat(beat)
        self._playback.position_ms += self._plain_step_ms
        return True

    def send_next(self, beat: int) -> Iterator[Due]:
        """Sends the next frame, or silence when there is none, and yields the events that come with it."""
        if self._must_send_overlays:
            yield from self._send_overlays(beat)
            return
        if self._playback.wants_frames:
            if self._is_buffering and self._plans.has_enough:
                self._is_buffering = False
                yield Moment.READY
            if not self._is_buffering or self._must_send_tail:
                if not self._buffer.frames_ahead:
                    yield Moment.NO_FRAME
                    return
                flags = yield from self._take_due()
                if self._buffer.frames_ahead and self._playback.wants_frames:  # unless the events have voided the frame
                    yield from self._send_frame(flags, beat)
                    return
        elif self._must_send_tail:
            frame = self._buffer.pop()
            self._send(frame.forms, frame.payloads, beat)
            return
        self.send_silence()

    def frames_arrived(self) -> Iterator[Due]:
        """To be called when frames have arrived, or when the player may want frames."""
        if self._playback.wants_frames:
            yield from self._take_complete_ends()  # an end may become known after its last frame was sent
        elif self._is_ready_in_pause:
            yield Moment.READY

    def take_early_frames(self) -> int:
        """How many frames to send ahead of time at this tick. While there may be more of them, no frame is plain.

        A stream begins with a burst of audio, because Chromium plays nothing before it has read 32 KiB (two seconds at
        128 kbit/s). A player that has just begun has sent too little for a burst. So while all its listeners are new
        streams with a burst, the player sends several frames at each tick. It stops when it has sent as much as the
        shortest burst. From then on it is ahead of its listeners by that length, as with every other stream. A live
        stream gives no frames faster than they play.
        """
        missing_frames = self._broadcast.least_burst_ms // FRAME_MS - self._frames_sent
        if missing_frames <= 0:
            return 0
        self._buffer.end_plain_run()
        if not self.sends_music or not self._playback.wants_frames or self._playback.current.info.is_stream:
            return 0
        return max(0, min(_MOST_EARLY_FRAMES, missing_frames, self._buffer.frames_ahead - _KEPT_FRAMES))

    def send_silence(self) -> None:
        """Sends a frame of silence to the connections that require data, and to others only what waits for them."""
        if self._broadcast.wants_silence:
            self._broadcast.send_silence(self._frames_sent + 1, is_mp3_awaited=self._is_mp3_awaited())
        self._broadcast.catch_up()

    def underrun(self) -> None:
        """Notes that there was no frame to send. Sending continues when enough frames are buffered."""
        self._is_buffering = True
        self._sounds = False
        self._session.underrun()

    def pass_frames(self, frames: int) -> Iterator[Due]:
        """Moves the position on by frames that were never rendered, because there are no listeners."""
        self._sounds = False
        while frames > 0:
            step = min(frames, UPDATE_INTERVAL_FRAMES - self._frames_sent % UPDATE_INTERVAL_FRAMES)
            self._buffer.skip(step, self._playback.filters.effects.position_rate)
            self._frames_sent += step
            self._playback.position_ms = ms_of_samples(self._buffer.end_position()[1])
            frames -= step
            if frames < UPDATE_INTERVAL_FRAMES:  # after a standstill of the node the last update is enough
                yield from self._update_in_time()

    def grant_on_beat(self, beat: int) -> None:
        """Grants the decoder more frames, at beats that players share. So the grants of many players wake a decoder
        process once, and their frames wake this process once."""
        if beat % GRANT_STEP_FRAMES == 0:
            self._session.grant(is_long_step=beat % LONG_GRANT_STEP_FRAMES == 0)

    def _send_frame(self, flags: int, beat: int) -> Iterator[Due]:
        buffer, playback = self._buffer, self._playback
        frame = buffer.pop()
        if frame.is_cut and self._frames_sent:
            flags |= FrameFlag.DISCONTINUITY
        self._sounds = True
        self._send(frame.forms, frame.payloads, beat, flags)
        if frame.source == playback.current_source:
            playback.position_ms = ms_of_samples(frame.end_samples)
        yield from self._take_complete_ends()
        if frame.title is not None:
            yield Retitled(frame.source, frame.title)
        yield Moment.MOVED
        yield from self._update_in_time()
        yield Moment.SENT
        if frame.source == playback.current_source:
            step_ms = FRAME_MS * frame.position_rate
            self._plain_step_ms = round(step_ms)
            if abs(step_ms - self._plain_step_ms) < 1e-6:  # otherwise rounding would add up
                buffer.allow_plain(self._frames_until_due)

    def _send_overlays(self, beat: int) -> Iterator[Due]:
        """Sends a frame with overlays and no music. The position does not move."""
        if self._playback.wants_frames and not self._is_buffering and self._plans.is_steady:
            self.underrun()
            yield Moment.UNDERRAN
        yield Moment.OVERLAYS_COME
        if self._must_send_overlays:
            frame = self._buffer.pop()
            flags = FrameFlag.DISCONTINUITY if frame.is_cut and self._frames_sent else 0
            self._send(frame.forms, frame.payloads, beat, flags)
            yield from self._update_in_time()
            yield Moment.SENT

    def _send(self, forms: Forms, payloads: Payloads, beat: int, flags: int = 0) -> None:
        self._frames_sent += 1
        self._forms = forms
        if payloads:
            self._broadcast.send(forms, payloads, self._frames_sent, flags)
        self.grant_on_beat(beat)

    @property
    def _must_send_tail(self) -> bool:
        """Whether the tail of a cut has to be sent, which prevents a click."""
        return self._buffer.begins_with_tail and self._playback.clock_started and not self._playback.paused

    @property
    def _must_send_overlays(self) -> bool:
        """Whether the next frame has overlays and no music. Such a frame is sent whether the music plays or not."""
        return self._buffer.begins_with_overlays_alone and self._playback.clock_started

    @property
    def _is_ready_in_pause(self) -> bool:
        """Whether a paused player that was loading has buffered enough."""
        playback = self._playback
        is_loading = playback.clock_started and playback.paused and playback.state is PlayerState.LOADING
        return is_loading and self._plans.has_enough and not self._buffer.begins_with_overlays_alone

    # Events that are due with a frame

    def _take_due(self) -> Generator[Due, None, int]:
        """Yields the events of the next frame. Returns the flags of that frame."""
        flags = 0
        while (event := self._plans.take_event()) is not None:
            if isinstance(event, SourceBegan):
                # A track starts only once, although a seek and another session begin a source of it again.
                flags = 0 if self._playback.is_in_mid_track else FrameFlag.TRACK_STARTS
                self._begun_source = event.source
            yield event
        if self._buffer.overlays:
            yield Moment.OVERLAYS_COME
        return flags

    def _take_complete_ends(self) -> Iterator[Due]:
        while (end := self._plans.take_complete_end()) is not None:
            yield end

    def _update_in_time(self) -> Iterator[Due]:
        if self._frames_sent % UPDATE_INTERVAL_FRAMES == 0 and self._playback.wants_frames:
            yield Moment.UPDATE

    @property
    def _frames_until_due(self) -> int:
        """How many frames may be sent before the next PlayerUpdate, or before the next track is to be opened."""
        frames = self.frames_until_update
        until_opening_ms = self._joins.ms_until_opening(has_listeners=len(self._broadcast) > 0)
        return frames if until_opening_ms is None else min(frames, until_opening_ms // self._plain_step_ms)

    # MP3, and earlier audio

    def encoded_arrived(self, encoded: Encoded) -> None:
        output, end_frame = encoded.output, encoded.end_frame
        if output.format == "opus":
            self._broadcast.begin_opus(output, end_frame, encoded.mp3_frames)
            return
        self._mp3_end_frame = end_frame
        self._mp3_waits = 0
        self._broadcast.send_mp3(output, encoded.first_frame, end_frame, encoded.mp3_frames, begins=encoded.begins)

    def _is_mp3_awaited(self) -> bool:
        """Whether sent frames are still being encoded to MP3. The decoder encodes the frames that a grant reports as
        sent."""
        if not has_format(self._broadcast.outputs, "mp3"):
            return False
        if self._mp3_end_frame >= self._buffer.next_frame or self._mp3_waits >= MP3_PATIENCE_FRAMES:
            return False
        if not self._mp3_waits:
            self._session.grant()
        self._mp3_waits += 1
        return True

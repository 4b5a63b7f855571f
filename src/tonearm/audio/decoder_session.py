"""A player's session in a decoder process, from the node's side: its sources, its plan, its frames.

The decoder renders what is granted; this side keeps up to twenty frames, so a busy decoder is not heard. A new plan
(another source, other filters) voids frames that were not sent yet and has them rendered anew.

Who is told what becomes of a player's sources.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from tonearm.audio.frame_buffer import FrameBuffer, TitleSchedule
from tonearm.audio.source_input import Opener, SourceOpenings
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_MS
from tonearm.core.play_queue import SourceId
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.decoding.messages import (
    GRANT_FRAMES,
    Audio,
    Decoded,
    Failed,
    Flush,
    FromDecoder,
    Grant,
    Opened,
    OpenSession,
    Plan,
    ReadRequest,
    Titled,
)
from tonearm.decoding.pool.pool import DecoderPool, PoolSession

log = logging.getLogger(__name__)


class SourceObserver(Protocol):
    """Who is told what becomes of the sources."""

    def source_opened(self, source: SourceId, facts: SourceFacts) -> None: ...

    def source_failed(self, source: SourceId, failure: PlayFailure) -> None:
        """It cannot be opened, or gave nothing."""
        ...

    def source_expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        """It is a list of other sources, which these tracks stand for."""
        ...

    def source_decoded(self, source: SourceId) -> None:
        """It is decoded to its end."""
        ...

    def frames_arrived(self) -> None: ...

    def sources_guilty(self, sources: tuple[SourceId, ...]) -> None:
        """A decoder process died while it worked on them. Told before they are opened again."""
        ...

    def went_wrong(self) -> None:
        """What the decoder said led to an error of the node's own, which is in the log."""
        ...


GRANT_STEP_FRAMES: Final = GRANT_FRAMES // 2
ENOUGH_FRAMES: Final = 200 // FRAME_MS  # with so much the sound goes on after a pause
PLAN_LEAD_S: Final = 0.006  # a plan made this shortly before a tick is for the frame after the next one
LATE_PLAN_STEP_FRAMES: Final = 2


class DecoderSession:
    """Lives as long as its player; survives the death of decoder processes."""

    def __init__(
        self, owner: SourceObserver, pool: DecoderPool, opener: Opener, until_tick_s: Callable[[], float]
    ) -> None:
        self._owner = owner
        self._pool = pool
        self._until_tick_s = until_tick_s
        self._uris: dict[SourceId, SourceUri] = {}
        self._openings = SourceOpenings(owner, opener)
        self._decoded: set[SourceId] = set()
        self._break_offs: dict[SourceId, PlayFailure] = {}
        self._sounding: SourceId = 0
        self._following: SourceId | None = None
        self._filters = Filters()
        self._epoch = 0
        self._played_epoch = 0
        self._late_plans = 0
        self._plan_ramps = False
        self._granted_at = 0
        self._must_switch = False
        self._resuming: SourceId | None = None  # goes on in a new session, after the frames that are still here
        self._has_newer_filters = False
        self._has_flushed = False
        self._has_listeners = True
        self._is_resting = False
        self.late_plans_total = 0
        self.buffer = FrameBuffer()
        self.titles = TitleSchedule()
        self._session: PoolSession | None = None
        self._open_session()

    @property
    def decoder_process_id(self) -> int | None:
        return None if self._session is None else self._session.process_id

    @property
    def can_flow(self) -> bool:
        """Enough is here to go on after a pause of the sound: 200 ms, or all there is up to the end."""
        buffer = self.buffer
        if buffer.frames_ahead >= ENOUGH_FRAMES:
            return True
        return buffer.frames_ahead > 0 and (buffer.holds_end or self._sounding in self._decoded)

    def is_decoded(self, source: SourceId) -> bool:
        """Whether a source is decoded to its end."""
        return source in self._decoded

    @property
    def waiting_for(self) -> str:
        """What the sounding source is waiting for when it gives nothing, in a few words."""
        return self._openings.waiting_for(self._sounding)

    def take_break_off(self, source: SourceId) -> PlayFailure | None:
        """Why a source that gave audio gives no more, once its last frame was sent."""
        return self._break_offs.pop(source, None)

    # Orders of the player

    def open(self, source: SourceId, uri: SourceUri, delay_s: float) -> None:
        self.wake()
        self._uris[source] = uri
        self._start_opening(source, uri, delay_s, start_sample=0)

    def drop(self, source: SourceId) -> None:
        self._uris.pop(source, None)
        self._decoded.discard(source)
        self._break_offs.pop(source, None)
        self._openings.drop(source)
        self.titles.forget(source)

    def play(self, sounding: SourceId | None, following: SourceId | None, filters: Filters) -> None:
        """Makes these the plan, from the earliest frame on that is possible; nothing happens when they are.

        A `following` source that has failed is not waited for.
        """
        wanted = sounding or 0
        following = following if following in self._uris else None
        switches = wanted != self._sounding
        if not switches and following == self._following and filters == self._filters:
            return
        self._late_plans = 0
        self._has_flushed = False
        if switches or self._must_switch:
            self._cut_to(wanted, following, filters)
        elif self._resuming is not None:
            self._change_resumed(following, filters)
        else:
            self._change(following, filters)

    def listen(self, has_listeners: bool) -> None:
        """Whether anybody listens: frames that nobody hears are counted, but not made."""
        if has_listeners == self._has_listeners:
            return
        self._has_listeners = has_listeners
        if has_listeners and self.buffer.frames_ahead and not self._must_switch and self._resuming is None:
            self._send_plan(self.buffer.next_frame)  # what is here has no sound in it
        else:
            self.grant()

    def source_ended(self, joined: SourceId | None) -> None:
        """The sounding source ended in what was rendered, and `joined` (None: silence) comes next in it."""
        self._sounding = joined or 0
        self._following = None
        self._has_flushed = False

    def grant(self) -> None:
        """Lets the decoder render on. To be called with a frame sent every `GRANT_STEP_FRAMES`."""
        if self._session is not None:
            granted_at = self._granted_at = self.buffer.next_frame
            granted = granted_at + GRANT_FRAMES
            self._session.send(Grant(self._session.id, self._played_epoch, granted_at, granted, self._has_listeners))

    def run_dry(self) -> None:
        """The buffer ran dry. No frame is sent until enough is here, so nothing else would ask for as much: the clock
        may have passed over the beat of the next grant."""
        if self.buffer.next_frame > self._granted_at:
            self.grant()
        self.flush()

    def flush(self) -> None:
        """The buffer ran dry: a last partial frame must not wait for the following source any longer."""
        if not self._has_flushed and self._following is not None and self._sounding in self._decoded:
            self._has_flushed = True
            if self._session is not None:
                self._session.send(Flush(self._session.id))

    def rest(self) -> None:
        """Gives everything up, also what is here to be sent. `wake` goes on; a live source is then where it is then."""
        self._is_resting = True
        self._pool.forget(self)
        self._openings.drop_all()
        if self._session is not None:
            self._session.close()
            self._session = None
        self._decoded.clear()
        self._break_offs.clear()
        self.buffer.void_from(self.buffer.next_frame)

    def wake(self) -> None:
        """Ends a rest."""
        if self._is_resting:
            self._is_resting = False
            self._open_session()
            self._resume()

    async def close(self) -> None:
        self._pool.forget(self)
        self._openings.drop_all()
        if self._session is not None:
            self._session.close()
        await self._openings.close()

    # Messages of the decoder

    def receive(self, message: FromDecoder) -> None:
        try:
            self._take_in(message)
        except Exception:
            log.exception("%s could not be taken in", type(message).__name__)
            self._owner.went_wrong()

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """Goes on in another process, after the frames that are still here."""
        if suspect_sources:
            self._owner.sources_guilty(suspect_sources)
        self._openings.drop_all()
        self._decoded.clear()
        self._open_session()
        self._resume()

    # How it is done

    def _cut_to(self, sounding: SourceId, following: SourceId | None, filters: Filters) -> None:
        """A cut that is not heard yet belongs to every plan that replaces the one with the cut."""
        self._must_switch = True
        self._resuming = None
        self._plan_ramps = False
        self._sounding, self._following, self._filters = sounding, following, filters
        self.buffer.void_from(self.buffer.next_frame)
        self._send_plan(self.buffer.next_frame)

    def _change(self, following: SourceId | None, filters: Filters) -> None:
        buffer = self.buffer
        is_under_way = self._epoch != self._played_epoch
        if following == self._following and is_under_way and buffer.frames_ahead:
            # Each plan makes the one before it worthless: with many changes a second none would ever be heard.
            self._filters = filters
            self._has_newer_filters = True
            return
        if following != self._following:
            buffer.void_joins_except(self._sounding, following)
        self._plan_ramps = filters != self._filters or (self._plan_ramps and is_under_way)
        self._following, self._filters = following, filters
        self._send_plan(self._earliest_frame())

    def _change_resumed(self, following: SourceId | None, filters: Filters) -> None:
        """Changes a plan that waits for a new session, to be heard after the frames that are here."""
        end_frame = self.buffer.end_frame
        if following != self._following:
            self.buffer.void_joins_except(self._sounding, following)
        self._following, self._filters = following, filters
        if self.buffer.end_frame == end_frame:
            self._send_plan(end_frame)
        elif self._session is not None:
            # The frames here end earlier now, in another source: it has to be opened again instead.
            self._session.close()
            self.process_lost(())

    def _earliest_frame(self) -> int:
        """Where a change may begin. A ramp has to be heard from its first frame on, which takes a moment to render."""
        buffer = self.buffer
        if self._plan_ramps and self._until_tick_s() < PLAN_LEAD_S:
            return min(buffer.next_frame + 1, buffer.end_frame)
        return buffer.next_frame

    def _open_session(self) -> None:
        self._session = self._pool.open(self)
        if self._session is None:
            return
        self._epoch += 1
        self._played_epoch = self._epoch
        self._plan_ramps = self._must_switch = self._has_newer_filters = False
        first_frame = self.buffer.end_frame
        self._granted_at = first_frame
        self._session.send(OpenSession(self._session.id, self._epoch, first_frame, self._filters))

    def _resume(self) -> None:
        """Opens the sources in the session that was just begun, each from where the frames here end in it."""
        self._resuming = None
        if self._session is None:
            return  # there is no process; this is called again when there is one
        sounding = self._sounding
        last_source, last_sample = self.buffer.end_place()
        finished: set[SourceId] = set()
        if last_source == self._following and last_source != sounding:
            finished.add(sounding)  # what is here ends within the following source
            sounding = last_source
        if self.buffer.holds_end:
            finished.add(sounding)
        for source, uri in tuple(self._uris.items()):
            if source in finished:
                continue
            self._start_opening(source, uri, 0.0, last_sample if source == sounding == last_source else 0)
        if sounding and sounding not in finished:
            self._resuming = sounding
            self._send_plan(self.buffer.end_frame)

    def _start_opening(self, source: SourceId, uri: SourceUri, delay_s: float, start_sample: int) -> None:
        if self._session is not None:
            self._openings.start(source, uri, delay_s, start_sample, self._session)

    def _send_plan(self, at_frame: int) -> None:
        if self._session is None:
            return
        self._epoch += 1
        self._has_newer_filters = False
        after, following, switch_to = self._sounding, self._following, None
        if self._must_switch:
            switch_to = after
        elif self._resuming is not None:
            switch_to = self._resuming
            if self._resuming != after:  # it is the following source, of which the beginning is here
                after, following = self._resuming, None
        order = Plan(
            self._session.id, self._epoch, self._played_epoch, at_frame, switch_to, after, following, self._filters
        )
        self._session.send(order)
        self.grant()

    def _take_in(self, message: FromDecoder) -> None:
        match message:
            case Audio():
                self._take_audio(message)
            case ReadRequest():
                self._openings.request_read(message)
            case Opened() | Failed() | Decoded() | Titled():
                if message.source in self._uris:  # else it was dropped meanwhile
                    self._take_report(message)

    def _take_report(self, report: Opened | Failed | Decoded | Titled) -> None:
        source = report.source
        self.buffer.plain_until = 0
        match report:
            case Opened():
                self._owner.source_opened(source, self._openings.completed(source, report.facts))
            case Failed(gave_audio=True):
                self._break_offs[source] = report.failure
                self._decoded.add(source)
                self._owner.frames_arrived()
            case Failed():
                self._owner.source_failed(source, report.failure)
            case Decoded():
                self._decoded.add(source)
                self._owner.source_decoded(source)
            case Titled():
                self.titles.add(source, report.sample, report.title)

    def _take_audio(self, audio: Audio) -> None:
        if audio.epoch != self._epoch:
            return  # of a plan that was replaced
        buffer = self.buffer
        if audio.epoch != self._played_epoch:
            if self._plan_ramps and audio.frames and audio.first_frame < buffer.next_frame and buffer.frames_ahead:
                # Its first frame, in which the sound glides, comes too late: asked for again a little further on.
                self._late_plans += 1
                self.late_plans_total += 1
                self._send_plan(min(buffer.next_frame + LATE_PLAN_STEP_FRAMES * self._late_plans, buffer.end_frame))
                return
            buffer.void_from(audio.first_frame)
            self._played_epoch = audio.epoch
            self._plan_ramps = self._must_switch = False
            self._resuming = None
        buffer.append(audio)
        if self._has_newer_filters:
            self._plan_ramps = True
            self._late_plans = 0
            self._send_plan(self._earliest_frame())
        self._owner.frames_arrived()

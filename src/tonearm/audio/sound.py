"""A player's session in a decoder process, from the node's side: its sources, its plan, its frames.

The decoder renders what is granted; this side keeps up to ten frames, so a busy decoder is not heard. A new plan
(another source, other filters) voids frames that were not sent yet and has them rendered anew.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from tonearm.audio.decoder_pool import DecoderPool, PoolSession
from tonearm.audio.frame_buffer import FrameBuffer, SentFrame
from tonearm.audio.source_opening import Opener, SourceOpening
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.outcome import SourceId
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
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
    Want,
)

GRANT_STEP_FRAMES: Final = 5
PLAN_LEAD_S: Final = 0.006  # a plan made this shortly before a tick is for the frame after the next one
LATE_PLAN_STEP_FRAMES: Final = 2


class SoundOwner(Protocol):
    """Who is told what becomes of the sources."""

    def source_opened(self, source: SourceId, facts: SourceFacts) -> None: ...

    def source_failed(self, source: SourceId, failure: PlayFailure) -> None:
        """It cannot be opened, or gave nothing."""
        ...

    def source_decoded(self, source: SourceId) -> None:
        """It is decoded to its end."""
        ...

    def frames_arrived(self) -> None: ...

    def sources_guilty(self, sources: tuple[SourceId, ...]) -> None:
        """A decoder process died while it worked on them. Told before they are opened again."""
        ...


class Sound:
    """Lives as long as its player; survives the death of decoder processes."""

    def __init__(self, owner: SoundOwner, pool: DecoderPool, opener: Opener, until_tick_s: Callable[[], float]) -> None:
        self._owner = owner
        self._pool = pool
        self._opener = opener
        self._until_tick_s = until_tick_s
        self._uris: dict[SourceId, str] = {}
        self._openings: dict[SourceId, SourceOpening] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._live: set[SourceId] = set()
        self._decoded: set[SourceId] = set()
        self._position_bases: dict[SourceId, int] = {}
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
        self._has_flushed = False
        self._last_place: tuple[SourceId, int] = (0, 0)
        self.late_plans_total = 0
        self.buffer = FrameBuffer()
        self._session: PoolSession | None = None
        self._open_session()

    @property
    def decoder_process_id(self) -> int | None:
        return None if self._session is None else self._session.process_id

    @property
    def can_flow(self) -> bool:
        """Enough is here to go on after a pause of the sound: 200 ms, or all there is up to the end."""
        buffer = self.buffer
        if buffer.frames_ahead >= GRANT_FRAMES:
            return True
        return buffer.frames_ahead > 0 and (buffer.holds_end or self._sounding in self._decoded)

    def position_samples(self, source: SourceId, samples: int) -> int:
        """The position of a sample in its track, for a live source that was joined anew, too."""
        return samples + self._position_bases.get(source, 0)

    def is_decoded(self, source: SourceId) -> bool:
        """Whether a source is decoded to its end."""
        return source in self._decoded

    def take_break_off(self, source: SourceId) -> PlayFailure | None:
        """Why a source that gave audio gives no more, once its last frame was sent."""
        return self._break_offs.pop(source, None)

    # Orders of the player

    def open(self, source: SourceId, uri: str, delay_s: float) -> None:
        self._uris[source] = uri
        self._start_opening(source, uri, delay_s, start_sample=0)

    def drop(self, source: SourceId) -> None:
        self._uris.pop(source, None)
        self._live.discard(source)
        self._decoded.discard(source)
        self._position_bases.pop(source, None)
        self._break_offs.pop(source, None)
        opening = self._openings.pop(source, None)
        if opening is not None:
            self._keep_until_done(opening.drop())

    def play(self, sounding: SourceId | None, following: SourceId | None, filters: Filters) -> None:
        """Makes these the plan, from the earliest frame on that is possible; nothing happens when they are."""
        wanted = sounding or 0
        buffer = self.buffer
        switches = wanted != self._sounding
        if not switches and following == self._following and filters == self._filters:
            return
        at_frame = buffer.next_frame
        # A cut that is not heard yet belongs to every plan that replaces the one with the cut.
        switches = self._must_switch = switches or self._must_switch
        if switches:
            buffer.void_from(at_frame)
        elif following != self._following:
            buffer.void_joins_except(following)
        self._plan_ramps = filters != self._filters or (self._plan_ramps and self._epoch != self._played_epoch)
        if self._plan_ramps and not switches and self._until_tick_s() < PLAN_LEAD_S:
            at_frame += 1
        self._sounding, self._following, self._filters = wanted, following, filters
        self._late_plans = 0
        self._has_flushed = False
        self._send_plan(at_frame, switches)

    def source_ended(self, joined: SourceId | None) -> None:
        """The sounding source ended in what was rendered, and `joined` (None: silence) comes next in it."""
        self._sounding = joined or 0
        self._following = None
        self._has_flushed = False

    def take_frame(self) -> SentFrame:
        """The frame to send now; another one may be rendered for it. To be called only when there is one."""
        frame = self.buffer.pop()
        self._last_place = frame.source, frame.position_samples + FRAME_SAMPLES
        if self.buffer.next_frame - self._granted_at >= GRANT_STEP_FRAMES:
            self._grant()
        return frame

    def flush(self) -> None:
        """The buffer ran dry: a last partial frame must not wait for the following source any longer."""
        if not self._has_flushed and self._following is not None and self._sounding in self._decoded:
            self._has_flushed = True
            if self._session is not None:
                self._session.send(Flush(self._session.id))

    async def close(self) -> None:
        self._pool.forget(self)
        for source in tuple(self._openings):
            self.drop(source)
        if self._session is not None:
            self._session.close()
        if self._closing:
            await asyncio.wait(self._closing)

    # Messages of the decoder

    def receive(self, message: FromDecoder) -> None:
        match message:
            case Audio():
                self._take_audio(message)
            case Want():
                opening = self._openings.get(message.source)
                if opening is not None:
                    opening.want(message)
            case Opened():
                opening = self._openings.get(message.source)
                facts = message.facts if opening is None else opening.completed(message.facts)
                if facts.is_stream:
                    self._live.add(message.source)
                self._owner.source_opened(message.source, facts)
            case Failed():
                self._take_failure(message.source, message.failure, message.gave_audio)
            case Decoded():
                self._decoded.add(message.source)
                self._owner.source_decoded(message.source)

    def process_lost(self, guilty_sources: tuple[int, ...]) -> None:
        """Goes on in another process, after the frames that are still here."""
        if guilty_sources:
            self._owner.sources_guilty(guilty_sources)
        for source, opening in tuple(self._openings.items()):
            del self._openings[source]
            self._keep_until_done(opening.drop())
        sounding, following = self._sounding, self._following
        last_source, last_sample = self.buffer.end_place() or self._last_place
        if last_source == following:  # what is here ends within the following source
            sounding, following = last_source, None
        samples = last_sample if last_source == sounding else 0
        holds_all = self.buffer.holds_end
        self._decoded.clear()
        self._open_session()
        for source, uri in tuple(self._uris.items()):
            if source == sounding and holds_all:
                continue
            start = samples if source == sounding else 0
            if source in self._live and start:
                self._position_bases[source] = self.position_samples(source, start)
            self._start_opening(source, uri, 0.0, start)
        if sounding and not holds_all:
            self._must_switch = True
            self._send_plan_of(self.buffer.end_frame, sounding, after=sounding, following=following)

    # How it is done

    def _open_session(self) -> None:
        self._session = self._pool.open(self)
        if self._session is None:
            return
        self._epoch += 1
        self._played_epoch = self._epoch
        self._plan_ramps = self._must_switch = False
        first_frame = self.buffer.end_frame
        self._granted_at = first_frame
        self._session.send(OpenSession(self._session.id, self._epoch, first_frame, self._filters))

    def _start_opening(self, source: SourceId, uri: str, delay_s: float, start_sample: int) -> None:
        if self._session is not None:
            self._openings[source] = SourceOpening(
                source, uri, delay_s, start_sample, self._opener, self._session, self._owner.source_failed
            )

    def _keep_until_done(self, task: asyncio.Task[None]) -> None:
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _send_plan(self, at_frame: int, switches: bool) -> None:
        self._send_plan_of(
            at_frame, self._sounding if switches else None, after=self._sounding, following=self._following
        )

    def _send_plan_of(
        self, at_frame: int, switch_to: SourceId | None, after: SourceId, following: SourceId | None
    ) -> None:
        if self._session is None:
            return
        self._epoch += 1
        self._session.send(
            Plan(
                self._session.id,
                self._epoch,
                self._played_epoch,
                at_frame,
                switch_to,
                after,
                following,
                self._filters,
            )
        )
        self._grant()

    def _grant(self) -> None:
        if self._session is not None:
            self._granted_at = self.buffer.next_frame
            self._session.send(
                Grant(
                    self._session.id,
                    self._played_epoch,
                    self._granted_at,
                    self._granted_at + GRANT_FRAMES,
                )
            )

    def _take_audio(self, audio: Audio) -> None:
        if audio.epoch != self._epoch:
            return  # of a plan that was replaced
        buffer = self.buffer
        if audio.epoch != self._played_epoch:
            if self._plan_ramps and audio.frames and audio.first_frame < buffer.next_frame and buffer.frames_ahead:
                # Its first frame, in which the sound glides, comes too late: asked for again a little further on.
                self._late_plans += 1
                self.late_plans_total += 1
                self._send_plan(buffer.next_frame + LATE_PLAN_STEP_FRAMES * self._late_plans, switches=False)
                return
            buffer.void_from(audio.first_frame)
            self._played_epoch = audio.epoch
            self._plan_ramps = False
            self._must_switch = False
        buffer.append(audio)
        self._owner.frames_arrived()

    def _take_failure(self, source: SourceId, failure: PlayFailure, gave_audio: bool) -> None:
        if gave_audio:
            self._break_offs[source] = failure
            self._decoded.add(source)
        else:
            self._owner.source_failed(source, failure)

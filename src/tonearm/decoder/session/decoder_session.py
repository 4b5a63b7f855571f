"""A player's session in a decoder process, on the node's side.

`PlanState` decides what the decoder renders, and `DecoderSession` carries out its orders. It opens the sources, brings
their bytes to the process, and opens a session in another process when the process dies. It reports about the sources,
mostly with the decoder's own messages.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.admission import Claim, Urgency
from tonearm.core.frame import Output, Outputs, has_format, samples_of_ms
from tonearm.core.opened_source import Wait
from tonearm.core.play_queue import SourceId
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    Audio,
    CrossfadeOrder,
    Decoded,
    Encoded,
    Failed,
    FirstAudio,
    FromDecoder,
    Heard,
    Measured,
    NoRoom,
    Opened,
    ReadRequest,
    SeekRefused,
    SessionFailed,
    Titled,
)
from tonearm.decoder.opening.live_carriers import LiveCarriers
from tonearm.decoder.opening.loudness_memory import NO_HINTS, LoudnessHints, LoudnessMemory
from tonearm.decoder.opening.source_input import (
    NODE_BUSY,
    Notice,
    OpeningReport,
    PlayersOpener,
    SourceOpenings,
    SourcePart,
)
from tonearm.decoder.pool.pool import DecoderPool, PoolSession
from tonearm.decoder.session.orders import Bursts
from tonearm.decoder.session.plan_moves import (
    OpenSourceAt,
    Order,
    Program,
    RenewSession,
)
from tonearm.decoder.session.plan_state import PlanState

log = logging.getLogger(__name__)


class Suspected(NamedTuple):
    """A decoder process died while it worked on this URI. The report comes before the URI is opened again."""

    uri: SourceUri


SourceReport: TypeAlias = Opened | SeekRefused | Decoded | FirstAudio
SessionReport: TypeAlias = SourceReport | OpeningReport | Audio | Encoded | SessionFailed | Suspected
"""What a session reports. `Audio`: its frames are in the buffer. `Decoded` and `Failed` come before the last frames of
the source are sent. `SessionFailed`: its source, and all overlays, are not opened again."""


@dataclass(slots=True)
class _WantedSource:
    """A source that is opened in each session. `is_given_up`: no further session opens it, after an error of the
    decoder."""

    part: SourcePart
    loudness: LoudnessHints
    has_packets: bool = False  # that can be passed through
    is_given_up: bool = False


class DecoderSession:
    """Lives as long as its player, and outlives decoder processes. Only `close` waits."""

    def __init__(
        self,
        report: Callable[[SessionReport], None],
        pool: DecoderPool,
        opener: PlayersOpener,
        until_tick_s: Callable[[], float],
        carriers: LiveCarriers,
        bursts: Bursts,
        now_s: Callable[[], float],
    ) -> None:
        """`until_tick_s` gives the time until the player sends its next frame, `now_s` the time of its clock."""
        self._report = report
        self._pool = pool
        self._sources: dict[SourceId, _WantedSource] = {}
        self._loudness = LoudnessMemory()
        self._openings = SourceOpenings(report, opener, carriers)
        # The player queries it and takes its events. The session carries out its orders.
        self.plans: Final = PlanState(until_tick_s, bursts)
        self._link: PoolSession | None = None
        self._mp3_to: int | None = None  # frames before this one were encoded to MP3; None without MP3 listeners
        self.buffer: Final = self.plans.buffer  # the player takes frames from it
        self._now_s = now_s
        self._claim = Claim(Urgency.STARTS, pool.next_claim())  # while the player is heard
        self._left_s = -math.inf  # when its last listener left; -inf in a pause, which keeps no place
        self._is_for_nobody = True  # no listener has come since the player was created
        self.is_silent = False  # as in a pause

    @property
    def decoder_process_id(self) -> int | None:
        return None if self._link is None else self._link.process_id

    @property
    def waited_for_room_s(self) -> float | None:
        """For how long the session has waited for room in a process; None when it does not wait, or is silent."""
        return None if self._link is not None else self._pool.waited_s(self)

    @property
    def waiting_for(self) -> Wait:
        if self.waited_for_room_s is not None:
            return NODE_BUSY
        return self._openings.waiting_for(self.plans.current or 0)

    @property
    def seeks_by_frames(self) -> bool:
        """Whether a seek should go to the beginning of a frame, so that the packets of the source still fit."""
        current = self._sources.get(self.plans.current or 0)
        return current is not None and current.has_packets and self.plans.passes_through

    # Sources and plans

    def open(
        self,
        source: SourceId,
        track: Track,
        start_sample: int,
        delay_s: float = 0.0,
        waiting: tuple[Track, ...] = (),
        *,
        ends_rest: bool = True,
    ) -> None:
        """Opens a track from `start_sample` of its file (48 kHz) on, after `delay_s`, and again in each later process,
        until it is dropped. If a rest goes on, the track is opened when the rest ends. `waiting`: the tracks behind it,
        which may be of the same album."""
        end_sample = None if track.end_ms is None else samples_of_ms(track.end_ms)
        part = SourcePart(track.uri, start_sample, end_sample)
        is_music = source < FIRST_OVERLAY_SOURCE
        loudness = self._loudness.opening(source, track, waiting) if is_music else NO_HINTS
        if ends_rest:
            self.wake()
        self._open(source, _WantedSource(part, loudness), delay_s)

    def seek(self, source: SourceId, new_source: SourceId, start_sample: int) -> None:
        """Makes a source continue as `new_source`, from another sample on, and drops the old number. A source that is
        not open yet, or whose session is lost, is opened again, which ends a rest."""
        sought = self._sources[source]
        sought = replace(sought, part=replace(sought.part, start_sample=start_sample), is_given_up=False)
        self._loudness.sought(source, new_source)
        can_be_sought = self.plans.can_be_sought(source) and self._openings.seek(source, new_source, start_sample)
        self.drop(source)
        if can_be_sought:
            self._add(new_source, sought)
        else:
            self.wake()
            self._open(new_source, sought)

    def drop(self, source: SourceId) -> None:
        self._sources.pop(source, None)
        self._loudness.closed(source)
        self.plans.drop(source)
        self._openings.drop(source)

    def play(self, program: Program, cut_fade: CrossfadeOrder | None = None, *, from_silence: bool = False) -> None:
        """Plays `program` from the earliest possible frame on. Does nothing when it is played already.

        With `cut_fade` the source that sounded before fades out, until it is dropped. `from_silence`: no source sounded
        before.
        """
        self._carry_out(self.plans.play(program, cut_fade, from_silence=from_silence))
        self._drop_faded()

    def fall_silent(self) -> None:
        """Nothing is heard from now on, as in a pause: a cut just before needs no tail."""
        self._carry_out(self.plans.fall_silent())

    def listen(self, outputs: Outputs, *, is_for_nobody: bool = False) -> None:
        """Sets the forms in which frames are rendered. `is_for_nobody`: for the first listener, who has not come
        yet."""
        was_heard = self._is_heard
        if outputs and not is_for_nobody:
            self._is_for_nobody = False
        if not has_format(outputs, "mp3"):
            self._mp3_to = None
        orders = self.plans.listen(outputs)
        if was_heard and not self._is_heard:
            self._left_s = self._now_s()
        self._heard_now(was_heard=was_heard)
        self._carry_out(orders)

    def be_silent(self, *, is_silent: bool) -> None:
        """Sets whether listeners hear nothing, neither music nor overlays, as in a pause. A silent session is not
        urgent."""
        was_heard = self._is_heard
        if is_silent:
            self._left_s = -math.inf
        if is_silent is not self.is_silent:
            self.is_silent = is_silent
            self._pool.silence_changed(self)
        self._heard_now(was_heard=was_heard)

    def _heard_now(self, *, was_heard: bool) -> None:
        """Handles a player that is heard now and was not before. If it has played, it starts again, behind all players
        that play now, unless its listener was away only for a moment."""
        if was_heard or not self._is_heard or self._unheard_claim == self._claim:
            return
        if self._claim.urgency is Urgency.PLAYS:
            self._claim = Claim(Urgency.STARTS, self._pool.next_claim())
        if self._link is not None:
            self._link.send(Heard(self._link.id, self._claim.number))
        elif not self.plans.is_resting:
            self._open_session()  # it may be admitted now, since it is heard
            self._report(Notice.WAIT_CHANGED)

    def rest(self) -> None:
        """Closes the session and drops the buffered frames, until `wake`."""
        self._mp3_to = None
        self._pool.forget(self)
        self._openings.drop_all()
        self._close_link()
        self.plans.rest()
        self._drop_faded()

    def wake(self, *, has_burst: bool = False) -> None:
        """Ends a rest; otherwise does nothing. `has_burst`: a stream begins with frames that were sent before."""
        if self.plans.is_resting:
            self.plans.wake()
            self._claim = Claim(Urgency.STARTS, self._pool.next_claim())
            self._open_session(has_burst=has_burst)

    def order_burst(self, output: Output, before_frame: int) -> bool:
        """Orders the frames that were sent before `before_frame`, in a form of Opus that had no listeners. Returns
        False if the session does not have these frames."""
        orders = self.plans.order_burst(output, before_frame)
        self._carry_out(orders)
        return bool(orders)

    async def close(self) -> None:
        """Ends the session and drops the buffered frames. Returns when its sources are closed."""
        self._pool.forget(self)
        self._openings.drop_all()
        self._close_link()
        self.buffer.void()
        await self._openings.close()

    # Sending

    def grant(self, *, is_long_step: bool = True) -> None:
        """Lets the decoder render on. To be called every `GRANT_STEP_FRAMES` frames; every second call is a long
        step."""
        self._carry_out(self.plans.grant_in_time(is_long_step=is_long_step))

    def grant_due(self) -> None:
        """To be called after each frame that is not plain while there are overlays: grants when few frames remain."""
        self._carry_out(self.plans.grant_due())

    def underrun(self) -> None:
        self._carry_out(self.plans.underrun())

    def flush(self) -> None:
        self._carry_out(self.plans.flush())

    # The decoder

    @property
    def frames_ahead(self) -> int:
        return self.buffer.frames_ahead

    @property
    def claim(self) -> Claim:
        return self._claim if self._is_heard else self._unheard_claim

    @property
    def _unheard_claim(self) -> Claim:
        return self._claim.unheard(self._now_s() - self._left_s)

    @property
    def _is_heard(self) -> bool:
        return self.plans.is_heard and not self._is_for_nobody and not self.is_silent

    def receive(self, message: FromDecoder) -> None:
        try:
            match message:
                case Audio():
                    if self._claim.urgency is Urgency.STARTS:
                        self._claim = self._claim._replace(urgency=Urgency.PLAYS)
                    orders = self.plans.audio(message)
                    if orders:
                        self._carry_out(orders)
                    self._drop_faded()
                    self._report(message)
                case Encoded():
                    if message.output.format == "mp3":
                        self._mp3_to = message.end_frame
                    self._report(message)
                case ReadRequest():
                    self._openings.request_read(message)
                case SessionFailed():
                    self._fail(message)
                case NoRoom():
                    self._close_link()
                    self._lose()
                    self._pool.wait_for_room(self)
                    self._report(Notice.WAIT_CHANGED)
                case Opened() | SeekRefused() | Failed() | Decoded() | FirstAudio() | Titled() | Measured():
                    if self.plans.is_known(message.source):  # otherwise it was dropped meanwhile
                        self._take_report(message)
        except Exception:
            log.exception("handling a decoder's %s failed", type(message).__name__)
            self._report(Notice.WENT_WRONG)

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """Goes on in another process, after the buffered frames. The suspect 0 is the source that sounded."""
        suspects = {self._openings.opened_as(number) or self.plans.current or 0 for number in suspect_sources}
        if suspects == {0}:
            self.rest()  # no source can be suspected, so the session must not come back without a new request
            return
        for source in suspects & self._sources.keys():
            self._report(Suspected(self._sources[source].part.uri))
        self._link = None
        self._lose()
        self._open_session()
        self._report(Notice.WAIT_CHANGED)

    def _lose(self) -> None:
        self._openings.session_lost()
        self.plans.lose()
        self._drop_faded()

    def _fail(self, report: SessionFailed) -> None:
        """Goes on in a new session, without the source that may have caused the error."""
        log.error("decoder process %s: %s", self.decoder_process_id, report.failure.message)
        source = self._openings.opened_as(report.source) or self.plans.current
        is_known = source is not None and self.plans.is_known(source)
        has_overlays = self.plans.has_overlays
        if source is not None and is_known:
            self._sources[source].is_given_up = True
            self._openings.drop(source)
        self._close_link()
        self._lose()
        try:
            self._report(
                SessionFailed(report.session, source if source is not None and is_known else 0, report.failure)
            )
        finally:
            if source is None and not has_overlays:
                self.rest()  # no source can be left out, so the session must not come back without a new request
            else:
                self._open_session()

    def _take_report(self, report: SourceReport | Failed | Measured | Titled) -> None:
        source = report.source
        match report:
            case Opened(facts=facts):
                self._sources[source].has_packets |= facts.has_packets
                opening = self._openings.get(source)
                if opening is not None:
                    report = Opened(report.session, source, opening.completed(facts))
                self._loudness.opened(source, report.facts.album)
            case SeekRefused():
                self.plans.seek_failed(source)
            case Failed(gave_audio=True):
                self.plans.interrupted(source, report.failure)
            case Decoded():
                self.plans.decoded(source)
            case Measured():
                known = self._sources[source]
                known.loudness = replace(known.loudness, measured=report.loudness)
                self._loudness.measured(source, report.loudness)
                return
            case Titled():
                self.plans.titled(source, report.sample, report.title)
                return  # `FrameBuffer.pop` gives the title with its frame
        self._report(report)

    def _carry_out(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            if isinstance(order, OpenSourceAt):
                source = self._sources[order.source]
                if not source.is_given_up:
                    part = replace(source.part, start_sample=order.start_sample, resumes=order.resumes)
                    self._start_opening(order.source, part, 0.0)
            elif isinstance(order, RenewSession):
                self._close_link()
                self.process_lost(())
            elif self._link is not None:
                self._link.send(order)

    def _open_session(self, *, has_burst: bool = False) -> None:
        """Opens a session now, or later by `process_lost` when there is a process."""
        self._link = self._pool.open(self)
        if self._link is not None:
            orders = self.plans.session_opened(
                self._link.id,
                self._mp3_to,
                has_burst=has_burst,
                is_heard=not self._is_for_nobody,
                claim=self._claim.number,
            )
            self._carry_out(orders)

    def _close_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _drop_faded(self) -> None:
        """Drops sources whose fade was ended by a cut or by the end of the session."""
        while (source := self.plans.take_faded()) is not None:
            self.drop(source)

    def _open(self, source: SourceId, added: _WantedSource, delay_s: float = 0.0) -> None:
        self._add(source, added)
        self._start_opening(source, added.part, delay_s)

    def _add(self, source: SourceId, added: _WantedSource) -> None:
        self._sources[source] = added
        self.plans.add(source, added.part.start_sample)

    def _start_opening(self, source: SourceId, part: SourcePart, delay_s: float) -> None:
        if self._link is not None:
            self._openings.start(source, part, delay_s, self._link, self._sources[source].loudness)

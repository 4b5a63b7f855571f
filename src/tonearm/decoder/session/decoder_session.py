"""A player's session in a decoder process, on the node's side.

`PlanState` decides what the decoder is to render; `DecoderSession` carries out its orders. It opens the sources, brings
their bytes to the process, opens a session in another process when that one dies, and reports what becomes of the
sources to a `SourceObserver`, the player's engine.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tonearm.core.admission import Claim, Urgency
from tonearm.core.failure import PlayFailure
from tonearm.core.opened_source import FileVersion, Wait
from tonearm.core.outputs import Output, Outputs, has_format
from tonearm.core.play_queue import SourceId
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.decoder.messages import (
    Audio,
    Crossfade,
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
from tonearm.decoder.opening.loudness_memory import NO_HINTS, LoudnessHints
from tonearm.decoder.opening.source_input import NODE_BUSY, PlayersOpener, SourceOpenings, SourcePart
from tonearm.decoder.pool.pool import DecoderPool, PoolSession
from tonearm.decoder.session.plan_moves import (
    OpenSourceAt,
    Order,
    Program,
    RenewSession,
    SourceBegan,
    SourceEnded,
    SourceFaded,
)
from tonearm.decoder.session.plan_state import PlanState

log = logging.getLogger(__name__)


class SourceObserver(Protocol):
    """Gets the reports about a session's sources."""

    def source_opened(self, source: SourceId, facts: SourceFacts) -> None: ...

    def source_failed(self, source: SourceId, failure: PlayFailure) -> None:
        """The source cannot be opened, or gave no audio."""

    def seek_failed(self, source: SourceId, failure: PlayFailure) -> None:
        """The source cannot begin at the wanted position, and begins at its start."""

    def source_faded(self, source: SourceId) -> None:
        """The source has stopped to fade out under another source, because of a cut or because the process died."""

    def source_expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        """The source is a playlist of these tracks."""

    def source_measured(self, source: SourceId, measured: MeasuredLoudness) -> None:
        """How loud the source is so far; comes from time to time while the source is measured."""

    def source_interrupted(self, source: SourceId, failure: PlayFailure) -> None:
        """The source gave audio, and then failed. A `SourceEnded` follows unless it is an overlay."""

    def overlay_got_audio(self, source: SourceId) -> None:
        """The first samples of an overlay are decoded, in this session."""

    def source_decoded(self, source: SourceId) -> None:
        """The source was decoded to its end."""

    def frames_arrived(self) -> None: ...

    def encoded_arrived(self, encoded: Encoded) -> None: ...

    def source_suspected(self, uri: SourceUri) -> None:
        """A decoder process died while it worked on this URI. Comes before the URI is opened again."""

    def session_failed(self, source: SourceId | None, failure: PlayFailure) -> None:
        """An error in the decoder's code has ended the session, perhaps because of `source` or an overlay: these are
        not opened again."""

    def wait_changed(self) -> None: ...

    def went_wrong(self) -> None:
        """A message of the decoder led to an error in the node's code, which was logged."""


@dataclass(slots=True)
class _Source:
    """A source that is opened in each session. `is_given_up`: it is not, after an error of the decoder."""

    part: SourcePart
    loudness: LoudnessHints
    has_packets: bool = False  # that can be passed through
    is_given_up: bool = False


class DecoderSession:
    """Lives as long as its player, and outlives decoder processes. No method waits, but `close`."""

    def __init__(
        self,
        observer: SourceObserver,
        pool: DecoderPool,
        opener: PlayersOpener,
        until_tick_s: Callable[[], float],
        carriers: LiveCarriers | None = None,
    ) -> None:
        """`until_tick_s` gives the time until the player sends its next frame."""
        self._observer = observer
        self._pool = pool
        self._sources: dict[SourceId, _Source] = {}
        self._openings = SourceOpenings(observer, opener, carriers)
        self._state = PlanState(until_tick_s)
        self._link: PoolSession | None = None
        self._mp3_to: int | None = None  # frames before this one were encoded to MP3; None without MP3 listeners
        self.buffer: Final = self._state.buffer  # the player takes frames from it
        self.is_paused = False  # set by the player: the session of a paused player is not urgent
        self._claim_number = pool.next_claim()
        self._has_sounded = False  # frames have come since the last `next_claim`
        self._is_for_nobody = True  # no listener has come since the player was created
        self._open_session()

    @property
    def decoder_process_id(self) -> int | None:
        return None if self._link is None else self._link.process_id

    @property
    def waited_for_room_s(self) -> float | None:
        """For how long the session has waited for room in a process; None when it does not wait."""
        return None if self._link is not None else self._pool.waited_s(self)

    @property
    def late_plans_total(self) -> int:
        """How many plans arrived after their first frame had been sent, and were made again."""
        return self._state.late_plans_total

    @property
    def waiting_for(self) -> Wait:
        if self.waited_for_room_s is not None:
            return NODE_BUSY
        return self._openings.waiting_for(self._state.current or 0)

    @property
    def seeks_by_frames(self) -> bool:
        """Whether a seek should lead to a whole frame, so that the packets of the source still fit."""
        current = self._sources.get(self._state.current or 0)
        return current is not None and current.has_packets and self._state.passes_through

    def is_decoded(self, source: SourceId) -> bool:
        return self._state.is_decoded(source)

    # Sources and plans

    def open(self, source: SourceId, part: SourcePart, delay_s: float, loudness: LoudnessHints = NO_HINTS) -> None:
        """Opens a source after `delay_s`, and again in each later process, until it is dropped. Ends a rest."""
        self.wake()
        self._add(source, _Source(part, loudness))
        self._start_opening(source, part, delay_s)

    def file_version(self, source: SourceId) -> FileVersion | None:
        opening = self._openings.get(source)
        return None if opening is None else opening.file_version

    def seek(self, source: SourceId, new_source: SourceId, start_sample: int) -> None:
        """Has a source go on as `new_source`, from another sample on, and drops the old number. A source that is not
        open yet, or whose session is lost, is opened anew, which ends a rest."""
        sought = self._sources[source]
        sought = replace(sought, part=replace(sought.part, start_sample=start_sample), is_given_up=False)
        can_be_sought = self._state.can_be_sought(source) and self._openings.seek(source, new_source, start_sample)
        self.drop(source)
        if can_be_sought:
            self._add(new_source, sought)
        else:
            self.open(new_source, sought.part, 0.0, sought.loudness)

    def drop(self, source: SourceId) -> None:
        self._sources.pop(source, None)
        self._state.drop(source)
        self._openings.drop(source)

    def play(self, program: Program, cut_fade: Crossfade | None = None, *, from_silence: bool = False) -> None:
        """Has `program` played from the earliest possible frame on. Does nothing when it is played already.

        With `cut_fade` the source that sounded before fades out, until `source_faded` is called for it. `from_silence`:
        no source sounded before.
        """
        self._carry_out(self._state.play(program, cut_fade, from_silence=from_silence))
        self._report_faded()

    def fall_silent(self) -> None:
        """Nothing is heard from now on, as in a pause: a cut just before needs no tail."""
        self._carry_out(self._state.fall_silent())

    def listen(self, outputs: Outputs, *, is_for_nobody: bool = False) -> None:
        """Sets the forms in which frames are rendered. `is_for_nobody`: for the first listener, who has not come
        yet."""
        if outputs and self._is_for_nobody and not is_for_nobody:
            self._is_for_nobody = False
            if self._link is not None:
                self._link.send(Heard(self._link.id))
        if not has_format(outputs, "mp3"):
            self._mp3_to = None
        self._carry_out(self._state.listen(outputs))

    def rest(self) -> None:
        """Closes the session and drops the buffered frames, until `wake`."""
        self._mp3_to = None
        self._pool.forget(self)
        self._openings.drop_all()
        self._close_link()
        self._state.rest()
        self._report_faded()

    def wake(self, *, has_burst: bool = False) -> None:
        """Ends a rest; otherwise does nothing. `has_burst`: a stream begins with frames that were sent before."""
        if self._state.is_resting:
            self._state.wake()
            self._claim_number, self._has_sounded = self._pool.next_claim(), False
            self._open_session(has_burst=has_burst)

    def order_burst(self, output: Output) -> bool:
        """Asks for the frames that were sent last, in a form that had no listeners. Returns False where the session
        does not have these frames."""
        orders = self._state.order_burst(output)
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

    @property
    def has_enough(self) -> bool:
        return self._state.has_enough

    @property
    def is_steady(self) -> bool:
        return self._state.is_steady

    def take_event(self) -> SourceBegan | SourceEnded | SourceFaded | None:
        return self._state.take_event()

    def take_complete_end(self) -> SourceEnded | SourceFaded | None:
        return self._state.take_complete_end()

    def grant(self, *, is_long_step: bool = True) -> None:
        """Lets the decoder render on. To be called every `GRANT_STEP_FRAMES` frames; each second call is a long
        step."""
        grant = self._state.grant_in_time(is_long_step=is_long_step)
        if grant is not None and self._link is not None:
            self._link.send(grant)

    def grant_due(self) -> None:
        """To be called after each frame that is not plain while there are overlays: grants when few frames are left."""
        self._carry_out(self._state.grant_due())

    def overlay_ended(self, source: SourceId) -> None:
        self._state.overlay_ended(source)

    def underrun(self) -> None:
        self._carry_out(self._state.underrun())

    def flush(self) -> None:
        self._carry_out(self._state.flush())

    # The decoder

    @property
    def frames_ahead(self) -> int:
        return self.buffer.frames_ahead

    @property
    def claim(self) -> Claim:
        if self.is_paused or self._is_for_nobody or not self._state.is_heard:
            urgency = Urgency.UNHEARD
        else:
            urgency = Urgency.PLAYS if self._has_sounded else Urgency.STARTS
        return Claim(urgency, self._claim_number)

    def receive(self, message: FromDecoder) -> None:
        try:
            match message:
                case Audio():
                    self._has_sounded = True
                    orders = self._state.audio(message)
                    if orders:
                        self._carry_out(orders)
                    self._report_faded()
                    self._observer.frames_arrived()
                case Encoded():
                    if message.output.format == "mp3":
                        self._mp3_to = message.end_frame
                    self._observer.encoded_arrived(message)
                case ReadRequest():
                    self._openings.request_read(message)
                case SessionFailed():
                    self._fail(message)
                case NoRoom():
                    self._close_link()
                    self._lose()
                    self._pool.wait_for_room(self)
                    self._observer.wait_changed()
                case Opened() | SeekRefused() | Failed() | Decoded() | FirstAudio() | Titled() | Measured():
                    if self._state.is_known(message.source):  # otherwise it was dropped meanwhile
                        self._take_report(message)
        except Exception:
            log.exception("handling a decoder's %s failed", type(message).__name__)
            self._observer.went_wrong()

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """Goes on in another process, after the buffered frames. The suspect 0 is the source that sounded."""
        suspects = {self._openings.opened_as(number) or self._state.current or 0 for number in suspect_sources}
        if suspects == {0}:
            self.rest()  # no source can be suspected, so the session must not come back without a new wish
            return
        for source in suspects & self._sources.keys():
            self._observer.source_suspected(self._sources[source].part.uri)
        self._link = None
        self._lose()
        self._open_session()
        self._observer.wait_changed()

    def _lose(self) -> None:
        self._openings.session_lost()
        self._state.lose()
        self._report_faded()

    def _fail(self, report: SessionFailed) -> None:
        """Goes on in a new session, without the source that may have caused the error."""
        log.error("decoder process %s: %s", self.decoder_process_id, report.failure.message)
        source = self._openings.opened_as(report.source) or self._state.current
        is_known = source is not None and self._state.is_known(source)
        has_overlays = self._state.has_overlays
        if source is not None and is_known:
            self._sources[source].is_given_up = True
            self._openings.drop(source)
        self._close_link()
        self._lose()
        try:
            self._observer.session_failed(source if is_known else None, report.failure)
        finally:
            if source is None and not has_overlays:
                self.rest()  # no source can be left out, so the session must not come back without a new wish
            else:
                self._open_session()

    def _take_report(self, report: Opened | SeekRefused | Failed | Decoded | FirstAudio | Titled | Measured) -> None:
        source = report.source
        match report:
            case Opened():
                self._sources[source].has_packets |= report.facts.has_packets
                opening = self._openings.get(source)
                facts = report.facts if opening is None else opening.completed(report.facts)
                self._observer.source_opened(source, facts)
            case SeekRefused():
                self._state.seek_failed(source)
                self._observer.seek_failed(source, report.failure)
            case Failed(gave_audio=True):
                self._state.interrupted(source, report.failure)
                self._observer.source_interrupted(source, report.failure)
                self._observer.frames_arrived()
            case Failed():
                self._observer.source_failed(source, report.failure)
            case Decoded():
                self._state.decoded(source)
                self._observer.source_decoded(source)
            case FirstAudio():
                self._observer.overlay_got_audio(source)
            case Measured():
                measured = MeasuredLoudness(report.lufs, report.measured_ms)
                known = self._sources[source]
                known.loudness = replace(known.loudness, measured=measured)
                self._observer.source_measured(source, measured)
            case Titled():
                self._state.titled(source, report.sample, report.title)

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
        """Opens a session now or, by `process_lost`, when there is a process."""
        self._link = self._pool.open(self)
        if self._link is not None:
            is_heard = not self._is_for_nobody
            self._carry_out(
                self._state.session_opened(self._link.id, self._mp3_to, has_burst=has_burst, is_heard=is_heard)
            )

    def _close_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _report_faded(self) -> None:
        while (source := self._state.take_faded()) is not None:
            self._observer.source_faded(source)

    def _add(self, source: SourceId, added: _Source) -> None:
        self._sources[source] = added
        self._state.add(source, added.part.start_sample)

    def _start_opening(self, source: SourceId, part: SourcePart, delay_s: float) -> None:
        if self._link is not None:
            self._openings.start(source, part, delay_s, self._link, self._sources[source].loudness)

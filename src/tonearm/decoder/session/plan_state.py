"""A state machine without I/O, which decides what a player's decoder renders.

Each input is a call: a request of the player (`play`, `listen`), a message of the decoder (`audio`), or a change of the
session (`session_opened`, `lose`, `rest`). The call returns orders, which `DecoderSession` carries out one after the
other. Frames wait in `buffer`, which belongs to this object.

The decoder renders *plans*. A plan defines the content of the frames from a number on, and has an epoch. Audio of any
epoch but the newest plan's is ignored, so replies may be late or lost. Until the first audio of the newest plan
arrives, the player sends frames of the plan before it, the played plan, where they still fit. The states are in
`plan_moves`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_S, Output, Outputs
from tonearm.core.play_queue import SourceId
from tonearm.decoder.messages import (
    BURST_FRAMES,
    Audio,
    Burst,
    CrossfadeOrder,
    Flush,
    Grant,
    Mark,
    MarkKind,
    OpenSession,
)
from tonearm.decoder.session.frame_buffer import Cut, FrameBuffer
from tonearm.decoder.session.orders import (
    DUE_FRAMES,
    ENOUGH_FRAMES,
    Bursts,
    Grants,
    begin_session,
    crossfade_now,
    frames_to_encode_again,
    plan_order,
)
from tonearm.decoder.session.plan_moves import (
    MOVES,
    Changing,
    Detached,
    Epoch,
    Mix,
    Move,
    Order,
    Program,
    RefusedMove,
    RenewSession,
    Resting,
    Resuming,
    SessionStart,
    SessionState,
    SourceBegan,
    SourceEnded,
    SourceFaded,
    Steady,
    Switching,
)

# A plan begins a frame later if it would hardly arrive before the next tick: if this margin and the plan's way to the
# decoder and back take longer. The way is an average, because a missed frame costs as much as a frame that was waited
# for in vain.
WAY_SPARE_S: Final = 0.001
FIRST_WAY_S: Final = 0.005  # until the first way is measured
POSTPONE_FRAMES: Final = 2  # a plan that arrived too late is made again a frame later, then so many more each time


class PlanState:
    """One player's plans, from its creation on. Sources are known from `add` to `drop`.

    `until_tick_s` gives the time until the next frame is sent.
    """

    def __init__(self, until_tick_s: Callable[[], float], bursts: Bursts) -> None:
        self._until_tick_s = until_tick_s
        self.state: SessionState = Resting()  # nothing is to be played yet
        self.buffer = FrameBuffer()
        self.late_plans_total = 0
        self._bursts = bursts
        self._grants = Grants(self.buffer, bursts)
        self._sources: dict[SourceId, _Progress] = {}
        self._wanted = Program(None, None, Mix(Filters()))
        self._planned = self._played = Epoch(0, self._wanted.mix)
        self._fading: set[SourceId] = set()  # sources that fade out under the current source
        self._faded: list[SourceId] = []
        self._way_s = FIRST_WAY_S
        self._ordered_at = (0, 0.0)  # the newest plan: the frame that was next, and the time until its tick
        self._flushed_epoch = 0  # the plan whose last, partial frame was filled with silence
        self._lag_samples: int | None = None  # of the Opus packets in the buffer (see `Audio`); None before any came

    # Queries of the player

    @property
    def current(self) -> SourceId | None:
        return self._wanted.current

    @property
    def has_enough(self) -> bool:
        """Whether sending may begin, or go on after an underrun: 200 ms are buffered, or all up to the end."""
        frames_ahead = self.buffer.frames_ahead
        if frames_ahead >= ENOUGH_FRAMES:
            return True
        if frames_ahead and self._wanted.mix.overlays:
            return True  # the decoder sends overlays without the music until it has enough of the music
        return frames_ahead > 0 and (self.buffer.holds_end or self.is_decoded(self._wanted.current))

    @property
    def is_steady(self) -> bool:
        return isinstance(self.state, Steady)

    @property
    def is_resting(self) -> bool:
        return isinstance(self.state, Resting)

    @property
    def passes_through(self) -> bool:
        """Whether a source's own packets, if it has any, may go to listeners."""
        return self._wanted.mix.filters.changes_nothing and any(
            output.passes_through for output in self._grants.outputs
        )

    @property
    def is_heard(self) -> bool:
        return bool(self._grants.outputs)

    @property
    def has_overlays(self) -> bool:
        return bool(self._wanted.mix.overlays)

    def is_known(self, source: SourceId) -> bool:
        return source in self._sources

    def can_be_sought(self, source: SourceId) -> bool:
        """Whether the session has the source, so that a seek is possible there. The source may not be open yet."""
        return self._session is not None and source in self._sources and self._sources[source].failure is None

    def is_decoded(self, source: SourceId | None) -> bool:
        progress = None if source is None else self._sources.get(source)
        return progress is not None and progress.is_decoded

    # Requests of the player

    def add(self, source: SourceId, start_sample: int = 0) -> None:
        """Adds a source, which begins at this sample (48 kHz). The caller opens it in the present session; in later
        sessions an `OpenSourceAt` does."""
        self._sources[source] = _Progress(start_sample)
        if start_sample:
            self.buffer.starts[source] = start_sample

    def drop(self, source: SourceId) -> None:
        self._sources.pop(source, None)
        self.buffer.starts.pop(source, None)
        self.buffer.forget_titles(source)

    def play(
        self, program: Program, cut_fade: CrossfadeOrder | None = None, *, from_silence: bool = False
    ) -> tuple[Order, ...]:
        """Plans `program` from the earliest possible frame on. A next source that is not known is left out. With
        `cut_fade` the replaced source fades out under the current source, until `take_faded` returns it.
        `from_silence`: no sound came before, so a cut needs no tail."""
        self.buffer.end_plain_run()
        wanted = program
        if wanted.next not in self._sources:
            wanted = Program(wanted.current, None, wanted.mix._replace(crossfade=None))
        if wanted == self._wanted:
            return ()
        if wanted.current != self._wanted.current or isinstance(self.state, Switching):
            cut_fade = self._fade_at_cut(wanted, cut_fade)
            # While an earlier cut was not sent yet, the sound before that cut still needs its tail.
            cut = self._cut_ahead
            return self._cut(wanted, cut_fade, from_silence=from_silence and (cut is None or cut.from_silence))
        return self._change(wanted)

    def fall_silent(self) -> tuple[Order, ...]:
        """No sound is sent any more, as in a pause: a cut that was not sent yet becomes a cut from silence."""
        cut = self._cut_ahead
        if cut is None or cut.from_silence or self._fading or self._session is None:
            return ()
        return self._cut(self._wanted, None, from_silence=True)

    def listen(self, outputs: Outputs) -> tuple[Order, ...]:
        """Sets the forms in which frames are rendered. Without any, the decoder only counts frames."""
        if outputs == self._grants.outputs:
            return ()
        gains = outputs - self._grants.outputs
        self._grants.outputs = outputs
        if not gains or self._wanted.current is None or self._session is None:
            return self._granted()
        # The frames that are buffered or on their way do not have the new form.
        buffer = self.buffer
        if isinstance(self.state, Switching):
            return self._plan_from(buffer.next_frame, outputs)
        self._enter_change()
        if isinstance(self.state, Resuming):
            return self._plan_from(self.state.session.first_frame, outputs)
        if not buffer.next_frame:
            buffer.void_from(0)  # the first listener is to hear the first sample
        return self._plan_from(buffer.next_frame, outputs)

    # Sending

    def take_faded(self) -> SourceId | None:
        """Takes a source whose fade was ended by a cut or a lost session. To be called after each input."""
        return self._faded.pop() if self._faded else None

    def take_event(self) -> SourceBegan | SourceEnded | SourceFaded | None:
        """Takes an event of the next frame. To be called until it returns None, before `buffer.pop`."""
        while (mark := self.buffer.take_mark()) is not None:
            if mark.kind is not MarkKind.BEGIN:
                event: SourceBegan | SourceEnded | SourceFaded | None = self._over(mark)
            else:  # a plan that starts where a source began reports the beginning again, also of a source that is over
                event = SourceBegan(mark.source) if mark.source == self._wanted.current else None
            if event is not None:
                return event
        return None

    def take_complete_end(self) -> SourceEnded | SourceFaded | None:
        """Takes the end of a source whose frames are all sent, when no other source joins there."""
        while (mark := self.buffer.take_complete_end()) is not None:
            event = self._over(mark)
            if event is not None:
                return event
        return None

    def grant(self) -> Grant | None:
        """A grant from the frames that were sent; None without a session."""
        session = self._session
        return None if session is None else self._grants.grant(session, self.state, self._played, self._wanted.mix)

    def grant_in_time(self, *, is_long_step: bool) -> tuple[Order, ...]:
        """As `grant`, if the last grant does not reach far enough. To be called every `GRANT_STEP_FRAMES` frames, and
        every `LONG_GRANT_STEP_FRAMES` with `is_long_step`."""
        return () if self._grants.is_good(is_long_step=is_long_step) else self._granted()

    def grant_due(self) -> tuple[Order, ...]:
        """To be called after each frame that is not plain while there are overlays. When few frames remain, it grants
        the next ones as due, so that the decoder does not wait for samples."""
        return self._granted() if self._wanted.mix.overlays and self.buffer.frames_ahead < DUE_FRAMES else ()

    def underrun(self) -> tuple[Order, ...]:
        """There was no frame to send. No frame is sent before enough frames are buffered, so the next grant has to come
        now."""
        return (self._granted() if self._grants.have_passed else ()) + self.flush()

    def flush(self) -> tuple[Order, ...]:
        """The player waits for the last, partial frame of the current source. Each plan fills it with silence once."""
        wanted, session = self._wanted, self._session
        is_flushed = self._flushed_epoch == self._planned.number
        if session is None or is_flushed or wanted.next is None or not self.is_decoded(wanted.current):
            return ()
        self._flushed_epoch = self._planned.number
        return (Flush(session.id),)

    def order_burst(self, output: Output, before_frame: int) -> tuple[Order, ...]:
        """Orders the frames that were sent before `before_frame`, in a form that had no listeners. No order if the
        session does not have these frames."""
        session = self._session
        if session is None or isinstance(self.state, Resuming) or not before_frame:
            return ()
        return (Burst(session.id, output, before_frame, BURST_FRAMES),)

    # Messages of the decoder

    def audio(self, audio: Audio) -> tuple[Order, ...]:
        if audio.epoch != self._planned.number:
            return ()  # the plan was replaced
        if audio.packets:
            self._lag_samples = audio.lag_samples
        self._grants.arrived(audio)
        state = self.state
        if isinstance(state, Steady):
            self.buffer.append(audio)
            return ()
        if isinstance(state, Changing):
            self._measure_way()
        if isinstance(state, Changing) and self._comes_too_late(state, audio):
            postponed = state.postponed + 1
            self._enter(Move.POSTPONE, Changing(state.session, postponed))
            self.late_plans_total += 1
            later = 0 if self._wanted.mix.pauses else POSTPONE_FRAMES * postponed - 1
            return self._plan_from(min(self.buffer.next_frame + later, self.buffer.end_frame))
        session = self._session
        fades = any(mark.kind is MarkKind.FADING for mark in audio.marks)
        if isinstance(state, Switching) and state.cut_fade is not None and not fades:
            self._end_fades()  # the new source had no samples in time, so the decoder cut without the fade
        self._enter(Move.ARRIVE, state if session is None else Steady(session))
        self._played = self._planned
        if not isinstance(state, Resuming):
            self.buffer.void_from(audio.first_frame)
        if isinstance(state, Switching):
            self.buffer.cut(from_silence=state.from_silence)
        self.buffer.append(audio)
        if self._planned.mix == self._wanted.mix:
            return ()
        self._enter_change()
        return self._plan_from(self._earliest_frame())

    def decoded(self, source: SourceId) -> None:
        if source in self._sources:
            self._sources[source].is_decoded = True
            self.buffer.end_plain_run()

    def interrupted(self, source: SourceId, failure: PlayFailure) -> None:
        """The source gave audio, and then failed."""
        if source in self._sources:
            self._sources[source].failure = failure
            self.decoded(source)

    def seek_failed(self, source: SourceId) -> None:
        """The source begins at its start instead of the wanted sample."""
        if source in self._sources:
            self._sources[source].start_sample = 0
            self.buffer.starts.pop(source, None)

    def titled(self, source: SourceId, sample: int, title: str) -> None:
        if source in self._sources:
            self.buffer.add_title(source, sample, title)

    def overlay_ended(self, source: SourceId) -> None:
        """The last frame with this overlay was sent. This needs no new plan."""
        self._wanted = self._wanted._replace(mix=self._wanted.mix.without_overlay(source))
        self._planned = self._planned._replace(mix=self._planned.mix.without_overlay(source))
        self._played = self._played._replace(mix=self._played.mix.without_overlay(source))

    # The session

    def session_opened(
        self,
        session: int,
        mp3_to: int | None = None,
        *,
        has_burst: bool = False,
        is_heard: bool = True,
        claim: int = 0,
    ) -> tuple[Order, ...]:
        """Begins a session: opens the sources in it, the current source where the buffered frames end.

        `mp3_to`: the session before encoded the frames before this one to MP3; None without MP3 listeners. `has_burst`:
        a stream is to begin with frames that were sent before. `is_heard` and `claim`, the number of the player's
        `Claim`, are those of `OpenSession`.
        """
        buffer, filters = self.buffer, self._wanted.mix.filters
        if self._wanted.mix.pauses and not buffer.begins_with_overlays_alone:
            buffer.void_from(buffer.next_frame)  # the music in these frames is paused
        self._grants.begin(buffer.end_frame)
        again = BURST_FRAMES if has_burst else frames_to_encode_again(buffer, self._grants.outputs, mp3_to)
        start_samples = {source: progress.start_sample for source, progress in self._sources.items()}
        start, resumed, opens = begin_session(session, buffer, self._wanted, start_samples, again)
        for order in opens:  # a live source that is opened again has other titles there
            buffer.forget_titles(order.source, resumed.next_sample if resumed is not None and order.resumes else 0)
        self._planned = self._played = Epoch(self._planned.number + 1, Mix(filters))
        first_frame = start.first_frame
        mp3_from = None if mp3_to is None else max(first_frame, mp3_to)
        number, lag_samples = self._planned.number, self._lag_samples
        plays_on = buffer.frames_ahead > 0
        opened = OpenSession(session, number, first_frame, filters, mp3_from, lag_samples, is_heard, claim, plays_on)
        plan: tuple[Order, ...] = ()
        if resumed is not None:
            self._enter(Move.RESUME, resumed)
            plan = self._plan_from(first_frame)
        else:
            self._enter(Move.OPEN, Steady(start))
            if self._wanted.mix.overlays:
                self._enter_change()
                plan = self._plan_from(first_frame)
        return (opened, *opens, *plan)

    def lose(self) -> None:
        """The decoder process died, or the session was closed: `session_opened` follows."""
        if isinstance(self.state, Switching):
            self.buffer.cut()  # the new source comes from another session
        self._enter(Move.LOSE, Detached())
        self._end_fades()
        self.buffer.end_fades()
        for progress in self._sources.values():
            progress.is_decoded = False

    def rest(self) -> None:
        """Gives the session and the buffered frames up. `wake` and `session_opened` go on after the frame that was sent
        last; a live source goes on at its present position."""
        self._enter(Move.REST, Resting())
        self._end_fades()
        for source in self._sources:
            self._sources[source] = _Progress(self._sources[source].start_sample)
        self.buffer.void_from(self.buffer.next_frame)
        self.buffer.cut()
        self._lag_samples = None

    def wake(self) -> None:
        """Ends a rest; `session_opened` follows."""
        self._enter(Move.WAKE, Detached())

    # Plans

    def _fade_at_cut(self, wanted: Program, cut_fade: CrossfadeOrder | None) -> CrossfadeOrder | None:
        """How the earlier sound fades out, in the plan that cuts to `wanted`."""
        before, state = self._wanted.current, self.state
        late_fade = state.cut_fade if isinstance(state, Switching) else None
        if isinstance(state, Switching) and wanted.current == before:
            return late_fade  # the same cut once more
        if cut_fade is not None and late_fade is not None:
            self._faded += () if before is None else (before,)  # it never sounded: the source before it fades on
        else:
            self._end_fades()
            if cut_fade is not None and before is not None:
                (self._faded.append if self._session is None else self._fading.add)(before)
        return cut_fade if self._fading else None

    def _end_fades(self) -> None:
        self._faded += self._fading
        self._fading.clear()

    def _cut(self, wanted: Program, cut_fade: CrossfadeOrder | None, *, from_silence: bool) -> tuple[Order, ...]:
        session = self._session
        self._enter(Move.CUT, self.state if session is None else Switching(session, cut_fade, from_silence))
        self._wanted = wanted
        passed_frames = self.buffer.next_frame
        self.buffer.void()
        if session is None:
            self.buffer.cut()
            return ()
        # The session resumed after buffered frames that are void now. Its overlays have another state, or it lacks the
        # beginning of a source.
        if (
            passed_frames < session.first_frame and (session.overlays_begun or session.overlays_over)
        ) or not session.begun_in_buffer.isdisjoint((wanted.current, wanted.next)):
            return (RenewSession(),)
        return self._plan_from(self.buffer.next_frame)

    def _change(self, wanted: Program) -> tuple[Order, ...]:
        buffer, session = self.buffer, self._session
        end_frame = buffer.end_frame
        is_under_way = isinstance(self.state, Changing)
        self._enter_change()
        if isinstance(self.state, Changing):
            self.state = replace(self.state, postponed=0)
        before, self._wanted = self._wanted, wanted
        if wanted.mix.pauses != before.mix.pauses and session is not None and buffer.next_frame < session.first_frame:
            buffer.void_from(buffer.next_frame)  # the session cannot render these frames in another way
            return (RenewSession(),)
        if wanted.next != before.next:
            buffer.void_joins_except(wanted.current, wanted.next)
        elif is_under_way and buffer.frames_ahead:
            # Each plan voids the plan before it, so with many changes a second no plan would arrive in time. Therefore
            # the next plan is made when the plan under way has arrived.
            return ()
        if session is not None and buffer.end_frame < end_frame and buffer.end_frame <= session.first_frame:
            # The buffered frames now end before the first frame of this session, which lacks the frames between.
            return (RenewSession(),)
        return self._plan_from(self._earliest_frame())

    def _plan_from(self, at_frame: int, outputs: Outputs | None = None) -> tuple[Order, ...]:
        """Orders the wanted program from `at_frame` on. `outputs` is set when the plan is made for a new output."""
        state, wanted = self.state, self._wanted
        if isinstance(state, (Detached, Resting)):
            return ()
        self._grants.planned()
        if isinstance(state, Changing):
            self.state = replace(state, is_overtaken=False)
        self._ordered_at = self.buffer.next_frame, self._until_tick_s()
        number, crossfade = self._planned.number + 1, crossfade_now(state, wanted)
        self._planned = Epoch(number, wanted.mix._replace(crossfade=crossfade))
        order = plan_order(
            state,
            wanted._replace(mix=self._planned.mix),
            (number, self._played.number),
            at_frame,
            outputs,
        )
        return order, *self._granted()

    def _granted(self) -> tuple[Order, ...]:
        grant = self.grant()
        return () if grant is None else (grant,)

    @property
    def _cut_ahead(self) -> Switching | Cut | None:
        """The last cut, if no frame was sent since."""
        return self.state if isinstance(self.state, Switching) else self.buffer.cut_ahead

    def _earliest_frame(self) -> int:
        """The first frame that a change can still reach in time."""
        buffer = self.buffer
        if isinstance(self.state, Resuming):
            return self.state.session.first_frame
        if self._wanted.mix.pauses:
            return buffer.next_frame  # this frame has music, so it is not sent meanwhile
        if self._wanted.mix.differs_at_once(self._played.mix) and self._until_tick_s() < self._way_s + WAY_SPARE_S:
            return min(buffer.next_frame + 1, buffer.end_frame)
        return buffer.next_frame

    def _measure_way(self) -> None:
        """Averages how long plans are on their way, with the plan that arrives. The newest plans count most."""
        frame, until_tick_s = self._ordered_at
        way_s = (self.buffer.next_frame - frame) * FRAME_S + until_tick_s - self._until_tick_s()
        self._way_s += (min(max(way_s, 0.0), FRAME_S) - self._way_s) / 4.0

    def _comes_too_late(self, state: Changing, audio: Audio) -> bool:
        """Whether the frame in which a glide or a fade begins was sent before the plan arrived."""
        if not audio.frames:
            return False
        if state.is_overtaken:
            return True
        next_frame = self.buffer.next_frame
        if audio.first_frame >= next_frame or not self.buffer.frames_ahead:
            return False
        glides = self._planned.mix.differs_at_once(self._played.mix)  # a setting does, or an overlay begins
        return glides or any(mark.kind is MarkKind.FADING and mark.frame < next_frame for mark in audio.marks)

    def _over(self, mark: Mark) -> SourceEnded | SourceFaded | None:
        if mark.kind is not MarkKind.FADED:
            return self._ended(mark)
        if mark.source not in self._fading:
            return None
        self._fading.discard(mark.source)
        return SourceFaded(mark.source)

    def _ended(self, mark: Mark) -> SourceEnded | None:
        """Notes that the current source ended. The source that joins there, if any, is the current source now."""
        if mark.source != self._wanted.current:
            return None  # a plan that starts where a source ended reports the end again
        self._wanted = Program(self.buffer.begins_now, None, self._wanted.mix._replace(crossfade=None))
        progress = self._sources.get(mark.source)
        is_interrupted = progress is not None and mark.kind is MarkKind.INTERRUPTED
        fades = mark.kind is MarkKind.FADING
        if fades:
            self._fading.add(mark.source)
            if isinstance(self.state, Changing) and self._planned.mix.crossfade != self._played.mix.crossfade:
                self.state = replace(self.state, is_overtaken=True)
        failure = progress.failure if progress is not None and is_interrupted else None
        return SourceEnded(mark.source, failure, fades)

    @property
    def _session(self) -> SessionStart | None:
        state = self.state
        return None if isinstance(state, (Detached, Resting)) else state.session

    def _enter_change(self) -> None:
        """The move `CHANGE`: from `Steady` to `Changing`; the other states stay."""
        state = self.state
        self._enter(Move.CHANGE, Changing(state.session) if isinstance(state, Steady) else state)

    def _enter(self, move: Move, state: SessionState) -> None:
        if MOVES[type(self.state)].get(move) is not type(state):
            raise RefusedMove(f"{move.value} while {type(self.state).__name__}")
        self.state = state


@dataclass(slots=True)
class _Progress:
    """Where a source begins, and what the decoder reported about it."""

    start_sample: int = 0
    is_decoded: bool = False
    failure: PlayFailure | None = None

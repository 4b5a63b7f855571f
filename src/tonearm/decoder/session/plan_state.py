"""What a player's decoder is asked to render: a state machine that decides and does nothing.

Each input is a call: a wish of the player (`play`, `listen`), a message of the decoder (`audio`), the fate of the
session (`session_opened`, `lose`, `rest`). It returns the orders that follow, in order; `DecoderSession` carries them
out. Frames wait in `buffer`, which belongs to this object.

The decoder renders *plans*. A plan says what the frames hold from a number on, and has an epoch. Audio of any epoch but
the newest plan's is ignored, so replies may be late or lost. Until the first audio of the newest plan arrives, the
frames of the plan before it, the played one, are sent where they still fit. The states stand in `plan_moves`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.outputs import Output, Outputs
from tonearm.core.play_queue import SourceId
from tonearm.decoder.messages import (
    RECALL_FRAMES,
    Audio,
    Crossfade,
    Flush,
    Grant,
    Mark,
    MarkKind,
    OpenSession,
    Recall,
)
from tonearm.decoder.session.frame_buffer import FrameBuffer
from tonearm.decoder.session.grants import DUE_FRAMES, ENOUGH_FRAMES, Grants
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
    SourceBegan,
    SourceEnded,
    SourceFaded,
    State,
    Steady,
    Switching,
)
from tonearm.decoder.session.plan_order import crossfade_now, plan_order
from tonearm.decoder.session.session_start import begin_session, frames_to_encode_again

PLAN_LEAD_S: Final = 0.006  # a plan made this shortly before a tick is for the frame after the next one
POSTPONE_FRAMES: Final = 2  # a plan that arrived too late is made again so much further on, and further each time


class PlanState:
    """One player's plans, from its creation on. Sources are known from `add` to `drop`.

    `until_tick_s` gives the time until the next frame is sent; it is asked when that matters for a plan.
    """

    def __init__(self, until_tick_s: Callable[[], float]) -> None:
        self._until_tick_s = until_tick_s
        self.state: State = Detached()
        self.buffer = FrameBuffer()
        self.late_plans_total = 0
        self._grants = Grants(self.buffer)
        self._sources: dict[SourceId, _Progress] = {}
        self._wanted = Program(None, None, Mix(Filters()))
        self._planned = self._played = Epoch(0, self._wanted.mix)
        self._fading: set[SourceId] = set()  # sources that go on under the current one
        self._cuts_silence = False  # nothing sounded before the last cut
        self._faded: list[SourceId] = []
        self._has_flushed = False
        self._lag_samples: int | None = None  # of the Opus packets in the buffer; None before the first ones

    # What the player asks

    @property
    def current(self) -> SourceId | None:
        return self._wanted.current

    @property
    def has_enough(self) -> bool:
        """Whether sending may begin, or go on after an underrun: with 200 ms, or all there is up to the end."""
        frames_ahead = self.buffer.frames_ahead
        if frames_ahead >= ENOUGH_FRAMES:
            return True
        if frames_ahead and self._wanted.mix.overlays:
            return True  # the decoder had overlays go on alone until it had enough
        return frames_ahead > 0 and (self.buffer.holds_end or self.is_decoded(self._wanted.current))

    @property
    def is_steady(self) -> bool:
        """Whether the buffered frames are those of the newest plan."""
        return isinstance(self.state, Steady)

    @property
    def is_resting(self) -> bool:
        return isinstance(self.state, Resting)

    @property
    def passes_through(self) -> bool:
        """Whether packets of a source that has some go to listeners as they are."""
        return self._wanted.mix.filters.changes_nothing and any(
            output.passes_through for output in self._grants.outputs
        )

    @property
    def is_heard(self) -> bool:
        """Whether frames are wanted in any form."""
        return bool(self._grants.outputs)

    @property
    def has_overlays(self) -> bool:
        """Whether overlays are to sound."""
        return bool(self._wanted.mix.overlays)

    def is_known(self, source: SourceId) -> bool:
        return source in self._sources

    def can_be_sought(self, source: SourceId) -> bool:
        """Whether a source is open in the session, as far as is known, so that it can go on elsewhere."""
        return self._session is not None and source in self._sources and self._sources[source].failure is None

    def is_decoded(self, source: SourceId | None) -> bool:
        """Whether a source was decoded to its end."""
        progress = None if source is None else self._sources.get(source)
        return progress is not None and progress.is_decoded

    # Wishes of the player

    def add(self, source: SourceId, start_sample: int = 0) -> None:
        """Makes a source known, which begins at this sample (48 kHz). The caller has it opened now; in later sessions
        `OpenSourceAt` does."""
        self._sources[source] = _Progress(start_sample)
        if start_sample:
            self.buffer.starts[source] = start_sample

    def drop(self, source: SourceId) -> None:
        self._sources.pop(source, None)
        self.buffer.starts.pop(source, None)
        self.buffer.forget_titles(source)

    def play(
        self, program: Program, cut_fade: Crossfade | None = None, *, from_silence: bool = False
    ) -> tuple[Order, ...]:
        """Makes this the plan, from the earliest frame on that is possible. Its next source is not waited for when it
        is not known (any more). With `cut_fade` the source that is replaced fades out under the current one, until it
        is in `take_faded`. `from_silence`: nothing was heard just before, so nothing fades out where this is a cut."""
        self.buffer.end_plain_run()
        wanted = program
        if wanted.next not in self._sources:
            wanted = Program(wanted.current, None, wanted.mix._replace(crossfade=None))
        if wanted == self._wanted:
            return ()
        self._has_flushed = False
        if wanted.current != self._wanted.current or isinstance(self.state, Switching):
            cut_fade = self._fade_at_cut(wanted, cut_fade)
            # The end of a sound that was cut off in time may come late, but has to come.
            self._cuts_silence = from_silence and (self._cuts_silence or not self._is_cut_ahead)
            return self._cut(wanted, cut_fade)
        return self._change(wanted)

    def fall_silent(self) -> tuple[Order, ...]:
        """Nothing is heard any more, as after a pause. A cut that was not heard yet is made from silence instead."""
        if self._cuts_silence or not self._is_cut_ahead or self._fading or self._session is None:
            return ()
        self._cuts_silence = True
        return self._cut(self._wanted)

    def listen(self, outputs: Outputs) -> tuple[Order, ...]:
        """The forms in which frames are rendered. Without any, the decoder counts frames, but neither filters nor sends
        them."""
        if outputs == self._grants.outputs:
            return ()
        gains = outputs - self._grants.outputs
        self._grants.outputs = outputs
        if not gains or self._wanted.current is None or self._session is None:
            return self._granted()
        # The frames that are buffered, and those under way, may not be there in this form.
        buffer = self.buffer
        if isinstance(self.state, Switching):
            return self._plan_from(buffer.next_frame, outputs)
        self._enter_change()
        if isinstance(self.state, Resuming):
            return self._plan_from(self.state.at_frame, outputs)
        if not buffer.next_frame:
            buffer.void_from(0)  # nothing was sent yet, and the first listener shall hear the first sample
        return self._plan_from(buffer.next_frame, outputs)

    # Sending

    def take_faded(self) -> SourceId | None:
        """Takes a source that fades no longer because of a cut or a lost session. To be called after each input."""
        return self._faded.pop() if self._faded else None

    def take_event(self) -> SourceBegan | SourceEnded | SourceFaded | None:
        """Takes what falls due with the next frame. To be called until there is nothing, before `buffer.pop`."""
        while (mark := self.buffer.take_mark()) is not None:
            if mark.kind is not MarkKind.BEGIN:
                event: SourceBegan | SourceEnded | SourceFaded | None = self._over(mark)
            else:  # a plan that begins where a source had begun reports that again, even of one that is over now
                event = SourceBegan(mark.source) if mark.source == self._wanted.current else None
            if event is not None:
                return event
        return None

    def take_complete_end(self) -> SourceEnded | SourceFaded | None:
        """Takes an end of which all frames were sent, when nothing joins there."""
        while (mark := self.buffer.take_complete_end()) is not None:
            event = self._over(mark)
            if event is not None:
                return event
        return None

    def grant(self) -> Grant | None:
        """Lets the decoder render on from the frames that were sent. To be called every few frames."""
        session = self._session
        return None if session is None else self._grants.grant(session, self.state, self._played, self._wanted.mix)

    def grant_in_time(self, *, is_long_step: bool) -> Grant | None:
        """As `grant`, to be called every `GRANT_STEP_FRAMES`, unless the last one is good for long enough.

        `is_long_step`: it is `LONG_GRANT_STEP_FRAMES` since the last such one.
        """
        return None if self._grants.is_good(is_long_step=is_long_step) else self.grant()

    def hurry(self) -> tuple[Order, ...]:
        """To be called after each frame that is looked at while there are overlays. When hardly any are left, the
        decoder makes the next ones without what it waits for."""
        return self._granted() if self._wanted.mix.overlays and self.buffer.frames_ahead < DUE_FRAMES else ()

    def underrun(self) -> tuple[Order, ...]:
        """There was no frame to send.

        None is sent now until there are enough, so the next grant would not come by itself, and the last one may have
        been for fewer frames.
        """
        return (self._granted() if self._grants.have_passed else ()) + self.flush()

    def flush(self) -> tuple[Order, ...]:
        """A last partial frame is waited for: it must not wait for samples of the next source any longer."""
        wanted, session = self._wanted, self._session
        if session is None or self._has_flushed or wanted.next is None or not self.is_decoded(wanted.current):
            return ()
        self._has_flushed = True
        return (Flush(session.id),)

    def recall(self, output: Output) -> tuple[Order, ...]:
        """What was sent last is wanted in a form that nobody listened to then. No order where that cannot be had."""
        session = self._session
        if session is None or isinstance(self.state, Resuming) or not self.buffer.next_frame:
            return ()
        return (Recall(session.id, output, self.buffer.next_frame, RECALL_FRAMES),)

    # Messages of the decoder

    def audio(self, audio: Audio) -> tuple[Order, ...]:
        if audio.epoch != self._planned.number:
            return ()  # of a plan that was replaced
        if audio.packets:
            self._lag_samples = audio.lag_samples
        self._grants.arrived(audio)
        state = self.state
        if isinstance(state, Steady):
            self.buffer.append(audio)
            return ()
        if isinstance(state, Changing) and self._comes_too_late(state, audio):
            postponed = state.postponed + 1
            self._enter(Move.POSTPONE, Changing(state.session, postponed))
            self.late_plans_total += 1
            later = 0 if self._wanted.mix.holds else POSTPONE_FRAMES * postponed
            return self._plan_from(min(self.buffer.next_frame + later, self.buffer.end_frame))
        session = self._session
        fades = any(mark.kind is MarkKind.FADING for mark in audio.marks)
        if isinstance(state, Switching) and state.cut_fade is not None and not fades:
            self._end_fades()  # the source that was cut to was late
        self._enter(Move.ARRIVE, state if session is None else Steady(session))
        self._played = self._planned
        if not isinstance(state, Resuming):
            self.buffer.void_from(audio.first_frame)
        if isinstance(state, Switching):
            self.buffer.cut()
        self.buffer.append(audio)
        if self._planned.mix == self._wanted.mix:
            return ()
        self._enter_change()
        return self._plan_from(self._earliest_frame())

    def decoded(self, source: SourceId) -> None:
        """The source was decoded to its end."""
        if source in self._sources:
            self._sources[source].is_decoded = True
            self.buffer.end_plain_run()

    def interrupted(self, source: SourceId, failure: PlayFailure) -> None:
        """The source gave audio, and gives no more because of `failure`."""
        if source in self._sources:
            self._sources[source].is_decoded = True
            self._sources[source].failure = failure
            self.buffer.end_plain_run()

    def seek_failed(self, source: SourceId) -> None:
        """The source begins at its start instead of where it was to begin."""
        if source in self._sources:
            self._sources[source].start_sample = 0
            self.buffer.starts.pop(source, None)

    def titled(self, source: SourceId, sample: int, title: str) -> None:
        """From `sample` on the source has this title."""
        if source in self._sources:
            self.buffer.add_title(source, sample, title)

    def overlay_ended(self, source: SourceId) -> None:
        """The last frame with this overlay was sent. That is no change of the plan."""
        self._wanted = self._wanted._replace(mix=self._wanted.mix.without_overlay(source))
        self._planned = self._planned._replace(mix=self._planned.mix.without_overlay(source))
        self._played = self._played._replace(mix=self._played.mix.without_overlay(source))

    # The session

    def session_opened(
        self, session: int, mp3_to: int | None = None, *, recalls: bool = False, is_heard: bool = True
    ) -> tuple[Order, ...]:
        """The sources are opened in it, the current one from where the buffered frames end.

        `mp3_to`: frames before it were encoded to MP3 by the session before; None when nobody wanted any. `recalls`: a
        stream wants to begin with what was sent before. `is_heard`: somebody listens.
        """
        buffer, filters = self.buffer, self._wanted.mix.filters
        if self._wanted.mix.holds and not buffer.begins_with_overlays_alone:
            buffer.void_from(buffer.next_frame)  # nobody hears the music in them before it goes on
        self._grants.begin(buffer.end_frame)
        again = RECALL_FRAMES if recalls else frames_to_encode_again(buffer, self._grants.outputs, mp3_to)
        start_samples = {source: progress.start_sample for source, progress in self._sources.items()}
        start, resumed, opens = begin_session(session, buffer, self._wanted, start_samples, again)
        self._has_flushed = False
        self._planned = self._played = Epoch(self._planned.number + 1, Mix(filters))
        first_frame = start.first_frame
        mp3_from = None if mp3_to is None else max(first_frame, mp3_to)
        number, lag_samples = self._planned.number, self._lag_samples
        opened = OpenSession(session, number, first_frame, filters, mp3_from, lag_samples, is_heard)
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
            self.buffer.cut()  # what was cut to is heard from another session
        self._enter(Move.LOSE, Detached())
        self._end_fades()
        self.buffer.end_fades()
        for progress in self._sources.values():
            progress.is_decoded = False

    def rest(self) -> None:
        """Gives the session and the buffered frames up. `wake` and `session_opened` go on from the frame sent last; a
        live source is then where it is then."""
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

    def _fade_at_cut(self, wanted: Program, cut_fade: Crossfade | None) -> Crossfade | None:
        """How the sound before goes out, in the plan that cuts it."""
        before, state = self._wanted.current, self.state
        late_fade = state.cut_fade if isinstance(state, Switching) else None
        if isinstance(state, Switching) and wanted.current == before:
            return late_fade  # the same cut once more
        if cut_fade is not None and late_fade is not None:
            self._faded += () if before is None else (before,)  # it never sounded: the one before it goes on fading
        else:
            self._end_fades()
            if cut_fade is not None and before is not None:
                (self._faded.append if self._session is None else self._fading.add)(before)
        return cut_fade if self._fading else None

    def _end_fades(self) -> None:
        self._faded += self._fading
        self._fading.clear()

    def _cut(self, wanted: Program, cut_fade: Crossfade | None = None) -> tuple[Order, ...]:
        session = self._session
        self._enter(Move.CUT, self.state if session is None else Switching(session, cut_fade))
        self._wanted = wanted
        passed_frames = self.buffer.next_frame
        self.buffer.void()
        # A session goes on behind frames that are void now: with overlays or without them, or in a source that is still
        # to begin.
        if session is not None and (
            (passed_frames < session.first_frame and (session.overlays_begun or session.overlays_over))
            or not session.begun_in_buffer.isdisjoint((wanted.current, wanted.next))
        ):
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
        if wanted.mix.holds != before.mix.holds and session is not None and buffer.next_frame < session.first_frame:
            buffer.void_from(buffer.next_frame)  # the session cannot render these frames in another way
            return (RenewSession(),)
        if wanted.next != before.next:
            buffer.void_joins_except(wanted.current, wanted.next)
        elif is_under_way and buffer.frames_ahead:
            # Each plan makes the one before it worthless: with many changes a second none would ever arrive in time.
            # So this one is made when the one under way has arrived.
            return ()
        if session is not None and buffer.end_frame < end_frame and buffer.end_frame <= session.first_frame:
            # The buffered frames end within a source that this session began behind: it has to be opened from there.
            return (RenewSession(),)
        return self._plan_from(self.state.at_frame if isinstance(self.state, Resuming) else self._earliest_frame())

    def _plan_from(self, at_frame: int, outputs: Outputs | None = None) -> tuple[Order, ...]:
        """Orders what is wanted, from `at_frame` on. `outputs` are set when the plan is there for a new one of them."""
        state, wanted = self.state, self._wanted
        if isinstance(state, (Detached, Resting)):
            return ()
        self._grants.planned()
        if isinstance(state, Changing):
            self.state = replace(state, is_overtaken=False)
        number, crossfade = self._planned.number + 1, crossfade_now(state, wanted)
        self._planned = Epoch(number, wanted.mix._replace(crossfade=crossfade))
        order = plan_order(
            state,
            wanted._replace(mix=self._planned.mix),
            (number, self._played.number),
            at_frame,
            outputs,
            from_silence=self._cuts_silence,
        )
        return order, *self._granted()

    def _granted(self) -> tuple[Order, ...]:
        grant = self.grant()
        return () if grant is None else (grant,)

    @property
    def _is_cut_ahead(self) -> bool:
        """Whether nothing was sent yet of what was cut to last."""
        return isinstance(self.state, Switching) or self.buffer.is_cut_ahead

    @property
    def _glides(self) -> bool:
        """Whether the first frame of the newest plan differs from the played plan's: something glides or begins."""
        return self._planned.mix.differs_at_once(self._played.mix)

    def _earliest_frame(self) -> int:
        """Where a change may begin. What glides or begins in its first frame must not come too late for it."""
        buffer = self.buffer
        if self._wanted.mix.holds:
            return buffer.next_frame  # which is not sent before, as long as there is music in it
        if self._wanted.mix.differs_at_once(self._played.mix) and self._until_tick_s() < PLAN_LEAD_S:
            return min(buffer.next_frame + 1, buffer.end_frame)
        return buffer.next_frame

    def _comes_too_late(self, state: Changing, audio: Audio) -> bool:
        """Whether the frame in which the sound begins to glide, or to fade, was sent as it was before."""
        if not audio.frames:
            return False
        if state.is_overtaken:
            return True
        next_frame = self.buffer.next_frame
        if audio.first_frame >= next_frame or not self.buffer.frames_ahead:
            return False
        return self._glides or any(mark.kind is MarkKind.FADING and mark.frame < next_frame for mark in audio.marks)

    def _over(self, mark: Mark) -> SourceEnded | SourceFaded | None:
        if mark.kind is not MarkKind.FADED:
            return self._ended(mark)
        if mark.source not in self._fading:
            return None
        self._fading.discard(mark.source)
        return SourceFaded(mark.source)

    def _ended(self, mark: Mark) -> SourceEnded | None:
        """Takes up that the current source ended: what joins there is the current one now, or nothing is."""
        if mark.source != self._wanted.current:
            return None  # a plan that begins where a source had ended reports its end again
        self._wanted = Program(self.buffer.begins_now, None, self._wanted.mix._replace(crossfade=None))
        self._has_flushed = False
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
        """The move `CHANGE`: from a steady state a change is under way; the others stay."""
        state = self.state
        self._enter(Move.CHANGE, Changing(state.session) if isinstance(state, Steady) else state)

    def _enter(self, move: Move, state: State) -> None:
        if MOVES[type(self.state)].get(move) is not type(state):
            raise RefusedMove(f"{move.value} while {type(self.state).__name__}")
        self.state = state


@dataclass(slots=True)
class _Progress:
    """Where a source begins, and what the decoder reported about it."""

    start_sample: int = 0
    is_decoded: bool = False
    failure: PlayFailure | None = None

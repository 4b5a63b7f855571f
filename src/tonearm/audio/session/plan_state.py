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

from tonearm.audio.session.frame_buffer import FrameBuffer
from tonearm.audio.session.plan_moves import (
    MOVES,
    Epoch,
    Mix,
    Move,
    OpenSourceAt,
    Order,
    Program,
    RefusedMove,
    RenewSession,
    SourceBegan,
    SourceEnded,
    SourceFaded,
    State,
)
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_MS, FRAME_SAMPLES
from tonearm.core.outputs import PCM_ONLY, PRIMING_FRAMES, Output, Outputs, has_format
from tonearm.core.play_queue import SourceId
from tonearm.decoding.messages import (
    GRANT_FRAMES,
    PASSED_GRANT_FRAMES,
    RECALL_FRAMES,
    SHORT_GRANT_FRAMES,
    Audio,
    Crossfade,
    Flush,
    Grant,
    Mark,
    MarkKind,
    OpenSession,
    Plan,
    Recall,
)

GRANT_STEP_FRAMES: Final = SHORT_GRANT_FRAMES // 2
LONG_GRANT_STEP_FRAMES: Final = GRANT_FRAMES // 2
ENOUGH_FRAMES: Final = 200 // FRAME_MS  # buffered, before sending begins or goes on after an underrun
PLAN_LEAD_S: Final = 0.006  # a plan made this shortly before a tick is for the frame after the next one
MAX_FRAMES_AGAIN: Final = 50  # that another process renders for an encoder, when the one before it died
DUE_FRAMES: Final = 2  # with overlays, the next frames that must not wait for anything
POSTPONE_FRAMES: Final = 2  # a plan that arrived too late is made again so much further on, and further each time

_STEADY: Final = State.STEADY  # looking up an enum's member takes as long as a call, too long for each audio message


class PlanState:
    """One player's plans, from its creation on. Sources are known from `add` to `drop`.

    `until_tick_s` gives the time until the next frame is sent; it is asked when that matters for a plan.
    """

    def __init__(self, until_tick_s: Callable[[], float]) -> None:
        self._until_tick_s = until_tick_s
        self.state = State.DETACHED
        self.buffer = FrameBuffer()
        self.late_plans_total = 0
        self._session = 0
        self._sources: dict[SourceId, _Progress] = {}
        self._wanted = Program(None, None, Mix(Filters()))
        self._planned = self._played = Epoch(0, self._wanted.mix)
        self._fading: set[SourceId] = set()  # sources that go on under the current one
        self._cut_fade: Crossfade | None = None  # how the sound before goes out, while SWITCHING
        self._cuts_silence = False  # nothing sounded before the last cut
        self._faded: list[SourceId] = []
        self._is_overtaken = False  # the newest plan has the crossfade elsewhere, and it has begun before that arrived
        self._resumed: SourceId = 0  # the source that a session goes on with while RESUMING,
        self._resumed_at = 0  # the frame that it begins with there,
        self._resumed_sample = 0  # and its sample that is heard next
        self._begun_in_buffer: set[SourceId | None] = set()  # of these the session has no beginning, or nothing
        self._postponed = 0  # how often, since the player changed its mind
        self._outputs = PCM_ONLY
        self._has_flushed = False
        self._granted_at = 0  # the frame that was next at the last grant
        self._granted_to = 0  # by the last grant
        self._only_passes = False  # the frames that arrived last are packets that were passed through, and nothing else
        self._due_before = 0  # at the last grant
        self._begins_at = 0  # the first frame of the session
        # Overlays that sounded before the session was opened; those of them whose last frame is buffered are not in it.
        self._begun_before: frozenset[SourceId] = frozenset()
        self._over_before: frozenset[SourceId] = frozenset()
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
        return self.state is _STEADY

    @property
    def passes_through(self) -> bool:
        """Whether packets of a source that has some go to listeners as they are."""
        return self._wanted.mix.filters.changes_nothing and any(output.passes_through for output in self._outputs)

    @property
    def is_heard(self) -> bool:
        """Whether frames are wanted in any form."""
        return bool(self._outputs)

    @property
    def has_overlays(self) -> bool:
        """Whether overlays are to sound."""
        return bool(self._wanted.mix.overlays)

    def is_known(self, source: SourceId) -> bool:
        return source in self._sources

    def can_be_sought(self, source: SourceId) -> bool:
        """Whether a source is open in the session, as far as is known, so that it can go on elsewhere."""
        return bool(self._session) and source in self._sources and self._sources[source].failure is None

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
        self._postponed = 0
        self._has_flushed = False
        if wanted.current != self._wanted.current or self.state is State.SWITCHING:
            self._fade_at_cut(wanted, cut_fade)
            # The end of a sound that was cut off in time may come late, but has to come.
            self._cuts_silence = from_silence and (self._cuts_silence or not self._is_cut_ahead)
            return self._cut(wanted)
        return self._change(wanted)

    def fall_silent(self) -> tuple[Order, ...]:
        """Nothing is heard any more, as after a pause. A cut that was not heard yet is made from silence instead."""
        if self._cuts_silence or not self._is_cut_ahead or self._fading or not self._session:
            return ()
        self._cuts_silence = True
        return self._cut(self._wanted)

    def listen(self, outputs: Outputs) -> tuple[Order, ...]:
        """The forms in which frames are rendered. Without any, the decoder counts frames, but neither filters nor sends
        them."""
        if outputs == self._outputs:
            return ()
        gains = outputs - self._outputs
        self._outputs = outputs
        if not gains or self._wanted.current is None or not self._session:
            return self._granted()
        # The frames that are buffered, and those under way, may not be there in this form.
        buffer = self.buffer
        if self.state is State.SWITCHING:
            self._move(Move.CUT)
            return self._plan_from(buffer.next_frame, outputs)
        self._move(Move.CHANGE)
        if self.state is State.RESUMING:
            return self._plan_from(self._resumed_at, outputs)
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
        if not self._session:
            return None
        sent = granted_from = self._granted_at = self.buffer.next_frame
        if self.state is State.RESUMING:  # frames may have passed that it has not rendered yet
            sent = min(sent, self._resumed_at)
        if self._wanted.mix.overlays and self.buffer.frames_ahead < DUE_FRAMES:
            self._due_before = max(sent, self._begins_at) + DUE_FRAMES
        if self._only_passes:
            frames = PASSED_GRANT_FRAMES
        else:
            is_short = self._wanted.mix.may_crossfade or not self._outputs  # what nobody hears can wait
            frames = SHORT_GRANT_FRAMES if is_short else GRANT_FRAMES
        self._granted_to = granted_from + frames
        return Grant(self._session, self._played.number, sent, self._granted_to, self._outputs, self._due_before)

    def grant_in_time(self, *, is_long_step: bool) -> Grant | None:
        """As `grant`, to be called every `GRANT_STEP_FRAMES`, unless the last one is good for long enough.

        `is_long_step`: it is `LONG_GRANT_STEP_FRAMES` since the last such one. Grants for MP3 are never left out: by
        them frames are encoded, so its listeners get them in steps of 200 ms.
        """
        left = self._granted_to - self.buffer.next_frame
        is_good = left > GRANT_FRAMES if is_long_step else left > GRANT_STEP_FRAMES
        return None if is_good and not has_format(self._outputs, "mp3") else self.grant()

    def hurry(self) -> tuple[Order, ...]:
        """To be called after each frame that is looked at while there are overlays. When hardly any are left, the
        decoder makes the next ones without what it waits for."""
        return self._granted() if self._wanted.mix.overlays and self.buffer.frames_ahead < DUE_FRAMES else ()

    def underrun(self) -> tuple[Order, ...]:
        """There was no frame to send.

        None is sent now until there are enough, so the next grant would not come by itself, and the last one may have
        been for fewer frames.
        """
        return (self._granted() if self.buffer.next_frame > self._granted_at else ()) + self.flush()

    def flush(self) -> tuple[Order, ...]:
        """A last partial frame is waited for: it must not wait for samples of the next source any longer."""
        wanted = self._wanted
        if self._has_flushed or wanted.next is None or not self.is_decoded(wanted.current):
            return ()
        self._has_flushed = True
        return (Flush(self._session),)

    def recall(self, output: Output) -> tuple[Order, ...]:
        """What was sent last is wanted in a form that nobody listened to then. No order where that cannot be had."""
        if not self._session or self.state is State.RESUMING or not self.buffer.next_frame:
            return ()
        return (Recall(self._session, output, self.buffer.next_frame, RECALL_FRAMES),)

    # Messages of the decoder

    def audio(self, audio: Audio) -> tuple[Order, ...]:
        if audio.epoch != self._planned.number:
            return ()  # of a plan that was replaced
        if audio.packets:
            self._lag_samples = audio.lag_samples
        if audio.frames:
            self._only_passes = audio.is_passed and not audio.pcm and all(form.passes_through for form in self._outputs)
        if self.state is _STEADY:
            self.buffer.append(audio)
            return ()
        if self._comes_too_late(audio):
            self._move(Move.POSTPONE)
            self._postponed += 1
            self.late_plans_total += 1
            later_frame = self.buffer.next_frame + POSTPONE_FRAMES * self._postponed * (not self._wanted.mix.holds)
            return self._plan_from(min(later_frame, self.buffer.end_frame))
        is_cut = self.state is State.SWITCHING
        goes_on = self.state is State.RESUMING
        if self._cut_fade is not None and not any(mark.kind is MarkKind.FADING for mark in audio.marks):
            self._end_fades()  # the source that was cut to was late
        self._cut_fade = None
        self._move(Move.ARRIVE)
        self._played = self._planned
        if not goes_on:
            self.buffer.void_from(audio.first_frame)
        if is_cut:
            self.buffer.cut()
        self.buffer.append(audio)
        if self._planned.mix == self._wanted.mix:
            return ()
        self._move(Move.CHANGE)
        self._postponed = 0
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
        current, next_source, filters = self._wanted.current, self._wanted.next, self._wanted.mix.filters
        buffer = self.buffer
        if self._wanted.mix.holds and not buffer.begins_with_overlays_alone:
            buffer.void_from(buffer.next_frame)  # nobody hears the music in them before it goes on
        buffered_source, buffered_to = buffer.end_position()
        finished: set[SourceId | None] = set()
        if buffered_source == next_source and buffered_source != current:
            finished.add(current)  # the buffered frames end within the source that joins
            current = buffered_source
        if buffer.holds_end:
            finished.add(current)
        goes_on = current is not None and current not in finished
        self._move(Move.RESUME if goes_on else Move.OPEN)
        self._session = session
        self._has_flushed = False
        self._planned = self._played = Epoch(self._planned.number + 1, Mix(filters))
        self._granted_at = first_frame = buffer.end_frame
        self._resumed_sample = buffered_to
        to_encode = RECALL_FRAMES if recalls else self._frames_to_encode_again(mp3_to)
        if goes_on and current == buffered_source and to_encode:
            # The last frames are rendered once more, and not sent, so that the encoders begin with them.
            frame_samples = FRAME_SAMPLES * filters.effects.position_rate  # of the source
            again = min(buffer.whole_frames_before_end(to_encode), int(buffered_to / frame_samples))
            overlays = buffer.overlays.samples_at(first_frame).keys()
            while again and buffer.overlays.samples_at(first_frame - again).keys() != overlays:
                again -= 1
            first_frame -= again
            buffered_to -= round(again * frame_samples)
        overlays_at = buffer.overlays.samples_at(first_frame)
        self._begun_before, self._over_before = frozenset(overlays_at), buffer.overlays.ending
        finished |= self._over_before
        self._begins_at = first_frame
        self._begun_in_buffer = finished - {None}
        mp3_from = None if mp3_to is None else max(first_frame, mp3_to)
        orders: list[Order] = [
            OpenSession(session, self._planned.number, first_frame, filters, mp3_from, self._lag_samples, is_heard)
        ]
        for source, progress in self._sources.items():
            if source in overlays_at and source not in finished:
                orders.append(OpenSourceAt(source, overlays_at[source], resumes=True))
            elif source not in finished:
                resumes = source == current == buffered_source
                start_sample = buffered_to if resumes else progress.start_sample
                if start_sample > progress.start_sample:
                    self._begun_in_buffer.add(source)
                orders.append(OpenSourceAt(source, start_sample, resumes))
        if current is not None and goes_on:
            self._resumed, self._resumed_at = current, first_frame
            orders += self._plan_from(first_frame)
        elif self._wanted.mix.overlays:
            self._move(Move.CHANGE)
            orders += self._plan_from(first_frame)
        return tuple(orders)

    def _frames_to_encode_again(self, mp3_to: int | None) -> int:
        frames = PRIMING_FRAMES if has_format(self._outputs, "opus") else 0
        if mp3_to is not None:
            frames = max(frames, min(self.buffer.end_frame - mp3_to, MAX_FRAMES_AGAIN))
        return frames

    def lose(self) -> None:
        """The decoder process died, or the session was closed: `session_opened` follows."""
        if self.state is State.SWITCHING:
            self.buffer.cut()  # what was cut to is heard from another session
        self._move(Move.LOSE)
        self._end_fades()
        self.buffer.end_fades()
        self._session = 0
        for progress in self._sources.values():
            progress.is_decoded = False

    def rest(self) -> None:
        """Gives the session and the buffered frames up. `wake` and `session_opened` go on from the frame sent last; a
        live source is then where it is then."""
        self._move(Move.REST)
        self._end_fades()
        self._session = 0
        for source in self._sources:
            self._sources[source] = _Progress(self._sources[source].start_sample)
        self.buffer.void_from(self.buffer.next_frame)
        self.buffer.cut()
        self._lag_samples = None

    def wake(self) -> None:
        """Ends a rest; `session_opened` follows."""
        self._move(Move.WAKE)

    # Plans

    def _fade_at_cut(self, wanted: Program, cut_fade: Crossfade | None) -> None:
        before = self._wanted.current
        if self.state is State.SWITCHING and wanted.current == before:
            return  # the same cut once more
        if cut_fade is not None and self.state is State.SWITCHING and self._cut_fade is not None:
            self._faded += () if before is None else (before,)  # it never sounded: the one before it goes on fading
        else:
            self._end_fades()
            if cut_fade is not None and before is not None:
                (self._fading.add if self._session else self._faded.append)(before)
        self._cut_fade = cut_fade if self._fading else None

    def _end_fades(self) -> None:
        self._faded += self._fading
        self._fading.clear()
        self._cut_fade = None

    def _cut(self, wanted: Program) -> tuple[Order, ...]:
        # A session goes on behind frames that are void now: with overlays or without them, or in a source that is still
        # to begin.
        has_overlays_before = bool(self._begun_before or self._over_before)
        must_renew = self._session and (
            (self.buffer.next_frame < self._begins_at and has_overlays_before)
            or not self._begun_in_buffer.isdisjoint((wanted.current, wanted.next))
        )
        self._move(Move.CUT)
        self._wanted = wanted
        self.buffer.void()
        if must_renew:
            return (RenewSession(),)
        return self._plan_from(self.buffer.next_frame)

    def _change(self, wanted: Program) -> tuple[Order, ...]:
        buffer = self.buffer
        end_frame = buffer.end_frame
        is_under_way = self.state is State.CHANGING
        self._move(Move.CHANGE)
        before, self._wanted = self._wanted, wanted
        if wanted.mix.holds != before.mix.holds and self._session and buffer.next_frame < self._begins_at:
            buffer.void_from(buffer.next_frame)  # the session cannot render these frames in another way
            return (RenewSession(),)
        if wanted.next != before.next:
            buffer.void_joins_except(wanted.current, wanted.next)
        elif is_under_way and buffer.frames_ahead:
            # Each plan makes the one before it worthless: with many changes a second none would ever arrive in time.
            # So this one is made when the one under way has arrived.
            return ()
        if self._session and buffer.end_frame < end_frame and buffer.end_frame <= self._begins_at:
            # The buffered frames end within a source that this session began behind: it has to be opened from there.
            return (RenewSession(),)
        return self._plan_from(self._resumed_at if self.state is State.RESUMING else self._earliest_frame())

    def _plan_from(self, at_frame: int, outputs: Outputs | None = None) -> tuple[Order, ...]:
        """Orders what is wanted, from `at_frame` on. `outputs` are set when the plan is there for a new one of them."""
        if not self._session:
            return ()
        self._only_passes = False
        wanted = self._wanted
        self._is_overtaken = False
        after, next_source, switch_to, cut_fade = wanted.current or 0, wanted.next, None, None
        mix, crossfade = wanted.mix, wanted.mix.crossfade
        if self.state is State.SWITCHING:
            switch_to, cut_fade = after, self._cut_fade
        elif self.state is State.RESUMING:
            switch_to = self._resumed
            if switch_to != after:  # the source that joins has begun in the buffer already
                after, next_source, crossfade = switch_to, None, None
            elif crossfade is not None and crossfade.at_sample < self._resumed_sample:
                crossfade = None  # until its frames arrive: it must not begin in those that are rendered once more
        self._planned = Epoch(self._planned.number + 1, mix._replace(crossfade=crossfade))
        epochs = self._planned.number, self._played.number
        order = Plan(
            self._session,
            *epochs,
            at_frame,
            switch_to,
            after,
            next_source,
            mix.filters,
            crossfade=crossfade,
            cut_fade=cut_fade,
            outputs=outputs,
            overlays=tuple(
                replace(overlay, has_begun=True) if overlay.source in self._begun_before else overlay
                for overlay in mix.overlays
                if overlay.source not in self._over_before
            ),
            holds=mix.holds,
            from_silence=self._cuts_silence and self.state is State.SWITCHING,
        )
        return order, *self._granted()

    def _granted(self) -> tuple[Order, ...]:
        grant = self.grant()
        return () if grant is None else (grant,)

    @property
    def _is_cut_ahead(self) -> bool:
        """Whether nothing was sent yet of what was cut to last."""
        return self.state is State.SWITCHING or self.buffer.is_cut_ahead

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

    def _comes_too_late(self, audio: Audio) -> bool:
        """Whether the frame in which the sound begins to glide, or to fade, was sent as it was before."""
        if self.state is not State.CHANGING or not audio.frames:
            return False
        if self._is_overtaken:
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
            self._is_overtaken |= self._planned.mix.crossfade != self._played.mix.crossfade
        failure = progress.failure if progress is not None and is_interrupted else None
        return SourceEnded(mark.source, failure, fades)

    def _move(self, move: Move) -> None:
        state = MOVES[self.state].get(move)
        if state is None:
            raise RefusedMove(f"{move.value} while {self.state.value}")
        self.state = state


@dataclass(slots=True)
class _Progress:
    """Where a source begins, and what the decoder reported about it."""

    start_sample: int = 0
    is_decoded: bool = False
    failure: PlayFailure | None = None

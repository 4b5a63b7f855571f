"""The orders to a decoder process: the part of a plan that it needs in each state, and how far it may render. Also the
start of a session in another process while frames of the lost session are still buffered.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonearm.core.frame import FRAME_MS, FRAME_SAMPLES, PCM_ONLY, PRIMING_FRAMES, Outputs, has_format
from tonearm.core.play_queue import SourceId
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    PASSED_GRANT_FRAMES,
    SHORT_GRANT_FRAMES,
    Audio,
    CrossfadeOrder,
    Grant,
    Plan,
)
from tonearm.decoder.session.frame_buffer import FrameBuffer
from tonearm.decoder.session.plan_moves import (
    Attached,
    Epoch,
    Mix,
    OpenSourceAt,
    Program,
    Resuming,
    SessionStart,
    SessionState,
    Switching,
)

MAX_FRAMES_AGAIN: Final = 120  # the most frames that another process renders again, for its encoders


def crossfade_now(state: Attached, wanted: Program) -> CrossfadeOrder | None:
    """The wanted crossfade, or None if a plan in this state must not have it."""
    crossfade = wanted.mix.crossfade
    if isinstance(state, Resuming) and crossfade is not None:
        if state.source != wanted.current:
            return None  # the source that joins has begun in the buffer already
        if crossfade.at_sample < state.next_sample:
            return None  # until new frames arrive: it must not begin in frames that are only rendered again
    return crossfade


def plan_order(
    state: Attached,
    program: Program,
    epochs: tuple[int, int],
    at_frame: int,
    outputs: Outputs | None,
) -> Plan:
    """The order for a program, from `at_frame` on. `epochs`: of this plan, and of the played plan. `outputs` is set
    when the plan is made for a new output."""
    current, next_source, mix, session = program.current or 0, program.next, program.mix, state.session
    switch_to: int | None = None
    if isinstance(state, Switching):
        switch_to = current
    elif isinstance(state, Resuming):
        switch_to = state.source
        if switch_to != current:
            current, next_source = switch_to, None
    return Plan(
        session.id,
        *epochs,
        at_frame,
        switch_to,
        current,
        next_source,
        mix.filters,
        crossfade=mix.crossfade,
        cut_fade=state.cut_fade if isinstance(state, Switching) else None,
        outputs=outputs,
        overlays=tuple(
            replace(overlay, has_begun=True) if overlay.source in session.overlays_begun else overlay
            for overlay in mix.overlays
            if overlay.source not in session.overlays_over
        ),
        pauses=mix.pauses,
        from_silence=isinstance(state, Switching) and state.from_silence,
    )


def frames_to_encode_again(buffer: FrameBuffer, outputs: Outputs, mp3_to: int | None) -> int:
    """How many of the buffered frames the encoders of the new session encode again. `mp3_to`: frames before this one
    were encoded to MP3; None without MP3 listeners."""
    frames = PRIMING_FRAMES if has_format(outputs, "opus") else 0
    if mp3_to is not None:
        frames = max(frames, min(buffer.end_frame - mp3_to, MAX_FRAMES_AGAIN))
    return frames


def begin_session(
    number: int, buffer: FrameBuffer, wanted: Program, start_samples: Mapping[SourceId, int], frames_again: int
) -> tuple[SessionStart, Resuming | None, tuple[OpenSourceAt, ...]]:
    """Returns the session's start, what it resumes after the buffered frames (None where the music ends in these
    frames), and the sources to open.

    `start_samples`: where each source begins. `frames_again`: how many of the buffered frames are rendered again for
    the encoders, and not sent.
    """
    current, rate = wanted.current, wanted.mix.filters.effects.position_rate
    buffered_source, buffered_to = buffer.end_position()
    finished: set[SourceId | None] = set()
    if buffered_source == wanted.next and buffered_source != current:
        finished.add(current)  # the buffered frames end within the source that joins
        current = buffered_source
    if buffer.holds_end:
        finished.add(current)
    goes_on = current is not None and current not in finished
    first_frame, next_sample = buffer.end_frame, buffered_to
    if goes_on and current == buffered_source and frames_again:
        frame_samples = FRAME_SAMPLES * rate  # of the source
        again = min(buffer.whole_frames_before_end(frames_again), int(buffered_to / frame_samples))
        overlays = buffer.overlays.samples_at(first_frame).keys()
        while again and buffer.overlays.samples_at(first_frame - again).keys() != overlays:
            again -= 1
        first_frame -= again
        buffered_to -= round(again * frame_samples)
    overlays_at = buffer.overlays.samples_at(first_frame)
    overlays_over = buffer.overlays.ending
    finished |= overlays_over
    begun = {source for source in finished if source is not None}
    opens: list[OpenSourceAt] = []
    for source, start_sample in start_samples.items():
        if source in overlays_at and source not in finished:
            opens.append(OpenSourceAt(source, overlays_at[source], resumes=True))
        elif source not in finished:
            resumes = source == current == buffered_source
            at_sample = buffered_to if resumes else start_sample
            if at_sample > start_sample:
                begun.add(source)
            opens.append(OpenSourceAt(source, at_sample, resumes))
    start = SessionStart(number, first_frame, frozenset(begun), frozenset(overlays_at), overlays_over)
    resuming = Resuming(start, current, next_sample) if current is not None and goes_on else None
    return start, resuming, tuple(opens)


GRANT_STEP_FRAMES: Final = SHORT_GRANT_FRAMES // 2
LONG_GRANT_STEP_FRAMES: Final = GRANT_FRAMES // 2
ENOUGH_FRAMES: Final = 200 // FRAME_MS  # have to be buffered before sending begins, or goes on after an underrun
DUE_FRAMES: Final = 2  # how many of the next frames wait for nothing while overlays sound


class Bursts:
    """Whether the sessions of a node keep the frames that were sent last, for a burst: from the first stream on."""

    def __init__(self) -> None:
        self.are_kept = False


class Grants:
    """The last grant of a session, and its outputs."""

    def __init__(self, buffer: FrameBuffer, bursts: Bursts) -> None:
        self._buffer = buffer
        self._bursts = bursts
        self.outputs: Outputs = PCM_ONLY
        self._at = 0  # the frame that was next at the last grant
        self._to = 0  # frames before this one were granted
        self._due_before = 0  # of the last grant
        self._only_passes = False  # the frames that arrived last have only packets that were passed through

    def begin(self, frame: int) -> None:
        """A session begins with this frame."""
        self._at = frame

    def planned(self) -> None:
        """A plan was ordered. Whether its frames are passed through is not known yet."""
        self._only_passes = False

    def arrived(self, audio: Audio) -> None:
        if audio.frames:
            self._only_passes = audio.is_passed and not audio.pcm and all(form.passes_through for form in self.outputs)

    def grant(self, session: SessionStart, state: SessionState, played: Epoch, wanted: Mix) -> Grant:
        """Lets the decoder render on from the frames that were sent."""
        sent = self._at = self._buffer.next_frame
        if isinstance(state, Resuming):  # frames that the new session has not rendered may have been sent
            sent = min(sent, session.first_frame)
        if wanted.overlays and self._buffer.frames_ahead < DUE_FRAMES:
            self._due_before = max(sent, session.first_frame) + DUE_FRAMES
        if self._only_passes:
            frames = PASSED_GRANT_FRAMES
        else:
            is_short = wanted.may_crossfade or not self.outputs  # without listeners the work can wait
            frames = SHORT_GRANT_FRAMES if is_short else GRANT_FRAMES
        self._to = self._at + frames
        return Grant(session.id, played.number, sent, self._to, self.outputs, self._due_before, self._bursts.are_kept)

    def is_good(self, *, is_long_step: bool) -> bool:
        """Whether the last grant reaches so far that the next one can be left out. Never with MP3: its frames are
        encoded when a grant reports them as sent, so its listeners need the grant of each step."""
        left = self._to - self._buffer.next_frame
        enough = GRANT_FRAMES if is_long_step else GRANT_STEP_FRAMES
        return left > enough and not has_format(self.outputs, "mp3")

    @property
    def have_passed(self) -> bool:
        """Whether frames were sent since the last grant."""
        return self._buffer.next_frame > self._at

"""How far the decoder of a player may render: grants, as `PlanState` gives them."""

from typing import Final

from tonearm.core.frame import FRAME_MS
from tonearm.core.outputs import PCM_ONLY, Outputs, has_format
from tonearm.decoder.messages import GRANT_FRAMES, PASSED_GRANT_FRAMES, SHORT_GRANT_FRAMES, Audio, Grant
from tonearm.decoder.session.frame_buffer import FrameBuffer
from tonearm.decoder.session.plan_moves import Epoch, Mix, Resuming, SessionStart, State

GRANT_STEP_FRAMES: Final = SHORT_GRANT_FRAMES // 2
LONG_GRANT_STEP_FRAMES: Final = GRANT_FRAMES // 2
ENOUGH_FRAMES: Final = 200 // FRAME_MS  # buffered, before sending begins or goes on after an underrun
DUE_FRAMES: Final = 2  # with overlays, the next frames that must not wait for anything


class Grants:
    """What was granted last, and for which outputs."""

    def __init__(self, buffer: FrameBuffer) -> None:
        self._buffer = buffer
        self.outputs: Outputs = PCM_ONLY
        self._at = 0  # the frame that was next at the last grant
        self._to = 0  # by the last grant
        self._due_before = 0  # at the last grant
        self._only_passes = False  # the frames that arrived last are packets that were passed through, and nothing else

    def begin(self, frame: int) -> None:
        """A session begins with this frame."""
        self._at = frame

    def planned(self) -> None:
        """A plan was ordered: what it is made of is not known."""
        self._only_passes = False

    def arrived(self, audio: Audio) -> None:
        if audio.frames:
            self._only_passes = audio.is_passed and not audio.pcm and all(form.passes_through for form in self.outputs)

    def grant(self, session: SessionStart, state: State, played: Epoch, wanted: Mix) -> Grant:
        """Lets the decoder render on from the frames that were sent."""
        sent = self._at = self._buffer.next_frame
        if isinstance(state, Resuming):  # frames may have passed that it has not rendered yet
            sent = min(sent, state.at_frame)
        if wanted.overlays and self._buffer.frames_ahead < DUE_FRAMES:
            self._due_before = max(sent, session.first_frame) + DUE_FRAMES
        if self._only_passes:
            frames = PASSED_GRANT_FRAMES
        else:
            is_short = wanted.may_crossfade or not self.outputs  # what nobody hears can wait
            frames = SHORT_GRANT_FRAMES if is_short else GRANT_FRAMES
        self._to = self._at + frames
        return Grant(session.id, played.number, sent, self._to, self.outputs, self._due_before)

    def is_good(self, *, is_long_step: bool) -> bool:
        """Whether the last one is good for long enough. Never for MP3: its frames are encoded by grants, so its
        listeners get them in steps of 200 ms."""
        left = self._to - self._buffer.next_frame
        enough = GRANT_FRAMES if is_long_step else GRANT_STEP_FRAMES
        return left > enough and not has_format(self.outputs, "mp3")

    @property
    def have_passed(self) -> bool:
        """Whether frames were sent since the last one."""
        return self._buffer.next_frame > self._at

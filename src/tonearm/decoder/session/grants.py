"""How far the decoder may render for a player: the grants of its `PlanState`."""

from typing import Final

from tonearm.core.frame import FRAME_MS
from tonearm.core.outputs import PCM_ONLY, Outputs, has_format
from tonearm.decoder.messages import GRANT_FRAMES, PASSED_GRANT_FRAMES, SHORT_GRANT_FRAMES, Audio, Grant
from tonearm.decoder.session.frame_buffer import FrameBuffer
from tonearm.decoder.session.plan_moves import Epoch, Mix, Resuming, SessionStart, State

GRANT_STEP_FRAMES: Final = SHORT_GRANT_FRAMES // 2
LONG_GRANT_STEP_FRAMES: Final = GRANT_FRAMES // 2
ENOUGH_FRAMES: Final = 200 // FRAME_MS  # have to be buffered before sending begins, or goes on after an underrun
DUE_FRAMES: Final = 2  # while overlays sound, so many of the next frames must not wait for anything


class Grants:
    """The last grant of a session, and its outputs."""

    def __init__(self, buffer: FrameBuffer) -> None:
        self._buffer = buffer
        self.outputs: Outputs = PCM_ONLY
        self._at = 0  # the frame that was next at the last grant
        self._to = 0  # by the last grant
        self._due_before = 0  # at the last grant
        self._only_passes = False  # the frames that arrived last have only packets that were passed through

    def begin(self, frame: int) -> None:
        """A session begins with this frame."""
        self._at = frame

    def planned(self) -> None:
        """A plan was ordered: whether its frames are passed through is not known yet."""
        self._only_passes = False

    def arrived(self, audio: Audio) -> None:
        if audio.frames:
            self._only_passes = audio.is_passed and not audio.pcm and all(form.passes_through for form in self.outputs)

    def grant(self, session: SessionStart, state: State, played: Epoch, wanted: Mix) -> Grant:
        """Lets the decoder render on from the frames that were sent."""
        sent = self._at = self._buffer.next_frame
        if isinstance(state, Resuming):  # frames that the new session has not rendered may have been sent
            sent = min(sent, state.at_frame)
        if wanted.overlays and self._buffer.frames_ahead < DUE_FRAMES:
            self._due_before = max(sent, session.first_frame) + DUE_FRAMES
        if self._only_passes:
            frames = PASSED_GRANT_FRAMES
        else:
            is_short = wanted.may_crossfade or not self.outputs  # without listeners the work can wait
            frames = SHORT_GRANT_FRAMES if is_short else GRANT_FRAMES
        self._to = self._at + frames
        return Grant(session.id, played.number, sent, self._to, self.outputs, self._due_before)

    def is_good(self, *, is_long_step: bool) -> bool:
        """Whether the last grant reaches far enough to leave the next one out. Never for MP3: frames are encoded when a
        grant reports them as sent, so each step brings its listeners audio."""
        left = self._to - self._buffer.next_frame
        enough = GRANT_FRAMES if is_long_step else GRANT_STEP_FRAMES
        return left > enough and not has_format(self.outputs, "mp3")

    @property
    def have_passed(self) -> bool:
        """Whether frames were sent since the last grant."""
        return self._buffer.next_frame > self._at

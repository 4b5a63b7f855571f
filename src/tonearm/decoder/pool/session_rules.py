"""The messages that a decoder process may send about a session, given the node's orders for that session.

`decoder.messages` declares the range of each single value. The rules here are about the order of messages. They rely on
the node's own orders only, so a process that an attacker controls gains nothing by false messages.
"""

from typing import Final

from tonearm.core.frame import PCM_ONLY, Outputs
from tonearm.decoder.message_coding import BrokenMessage, Message
from tonearm.decoder.messages import (
    SHORT_GRANT_FRAMES,
    Audio,
    Encoded,
    FoundPicture,
    FromNode,
    Grant,
    NoRoom,
    OpenSession,
    OpenSource,
    Plan,
    SeekSource,
    SessionFailed,
    Want,
)

MOST_MARKS_OF_PLAN: Final = 1000  # a plan has a join or a cut, and a few sources that fade out
_FLUSHED_MP3_FRAMES: Final = 4  # may come besides one for each frame when the encoder is flushed
_PART: Final = 1024


class _Sources:
    """Numbers of sources, one bit for each: a session that goes on for weeks has many thousands. Numbers follow each
    other, so parts of them are stored together."""

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}  # by part

    def add(self, source: int) -> None:
        part, bit = divmod(source, _PART)
        self._bits[part] = self._bits.get(part, 0) | 1 << bit

    def __contains__(self, source: int) -> bool:
        part, bit = divmod(source, _PART)
        return bool(self._bits.get(part, 0) >> bit & 1)


class SessionRules:
    """The rules of one session in one process, from its `OpenSession` on.

    - Frames of a plan come once, one after the other, and none before it is granted. A plan begins at its frame, or
      earlier if the decoder had rendered less.
    - Frames come in forms that were granted, and in epochs that were ordered.
    - The source of a report was opened in the session. A source that sounds was opened, or is in a plan.
    """

    def __init__(self) -> None:
        self._epoch = 0  # of the newest plan
        self._begins_at = 0  # the newest plan's first frame, at the latest
        self._first_frame = 0  # of the session
        self._granted = 0  # the highest of all grants: a grant may be for fewer frames than the grant before
        self._rendered_epoch = 0  # the epoch of the frames that came last
        self._rendered_to = 0  # the frame after them
        self._marks = 0  # how many came since the newest plan
        self._outputs: Outputs = PCM_ONLY  # of the last grant
        self._all_outputs = set(PCM_ONLY)
        self._opened = _Sources()
        self._named = _Sources()  # sources that were opened or are in a plan, and 0
        self._named.add(0)
        self._pictures = _Sources()  # sources that were opened for their picture

    def ordered(self, order: FromNode) -> None:
        """Must be called with each message that the node sends."""
        if isinstance(order, Grant):
            self._granted = max(self._granted, order.granted)
            if order.outputs is not self._outputs:
                self._outputs = order.outputs
                self._all_outputs |= order.outputs
        elif isinstance(order, Plan):
            self._epoch = order.epoch
            self._begins_at = max(order.at_frame, self._first_frame)
            self._marks = 0
            self._all_outputs.update(order.outputs or ())
            named = (order.switch_to, order.after, order.following, *(overlay.source for overlay in order.overlays))
            for source in named:
                if source is not None:
                    self._named.add(source)
        elif isinstance(order, OpenSource | SeekSource):
            source = order.source if isinstance(order, OpenSource) else order.new_source
            self._opened.add(source)
            self._named.add(source)
            if isinstance(order, OpenSource) and order.want is Want.PICTURE:
                self._pictures.add(source)
        elif isinstance(order, OpenSession):
            self._epoch = self._rendered_epoch = order.epoch
            self._first_frame = self._begins_at = self._rendered_to = order.first_frame
            self._granted = order.first_frame + SHORT_GRANT_FRAMES

    def check(self, message: Message) -> None:
        """Raises `BrokenMessage` for a message that breaks the rules."""
        if isinstance(message, Audio):
            self._check_audio(message)
        elif isinstance(message, Encoded):
            self._check_encoded(message)
        elif isinstance(message, SessionFailed):
            self._check_sounds(message.source)
        elif not isinstance(message, NoRoom):
            source = getattr(message, "source", 0)
            if source not in (self._pictures if isinstance(message, FoundPicture) else self._opened):
                raise BrokenMessage(f"a {type(message).__name__} about source {source}, which was not opened for that")

    def _check_audio(self, audio: Audio) -> None:
        first_frame, epoch = audio.first_frame, audio.epoch
        end_frame = first_frame + audio.frames
        if end_frame > self._granted:
            raise BrokenMessage(f"frames up to {end_frame}, where {self._granted} are granted")
        if epoch == self._rendered_epoch:
            if first_frame != self._rendered_to:
                raise BrokenMessage(f"frames from {first_frame} on, where {self._rendered_to} is the next one")
        elif not self._rendered_epoch < epoch <= self._epoch:
            raise BrokenMessage(f"frames of epoch {epoch} between {self._rendered_epoch} and {self._epoch}")
        elif epoch == self._epoch and first_frame > self._begins_at:
            raise BrokenMessage(f"frames from {first_frame} on, where the plan begins at {self._begins_at}")
        self._rendered_epoch, self._rendered_to = epoch, end_frame
        self._check_sounds(audio.source)
        for output, _ in audio.packets:
            self._check_output(output)
        if audio.marks or audio.overlays:
            self._check_places(audio)

    def _check_places(self, audio: Audio) -> None:
        self._marks += len(audio.marks)
        if self._marks > MOST_MARKS_OF_PLAN:
            raise BrokenMessage(f"{self._marks} marks since the last plan")
        for mark in audio.marks:
            self._check_sounds(mark.source)
            if mark.frame > self._granted:
                raise BrokenMessage(f"a mark in frame {mark.frame}, where {self._granted} are granted")
        for overlay in audio.overlays:
            self._check_sounds(overlay.source)

    def _check_encoded(self, encoded: Encoded) -> None:
        frames = encoded.end_frame - encoded.first_frame
        if frames < 0 or encoded.end_frame > self._granted:
            raise BrokenMessage(f"MP3 of frames {encoded.first_frame} to {encoded.end_frame}")
        if len(encoded.mp3_frames) > frames + _FLUSHED_MP3_FRAMES:
            raise BrokenMessage(f"{len(encoded.mp3_frames)} frames of MP3 for {frames} frames")
        self._check_output(encoded.output)

    def _check_output(self, output: object) -> None:
        if output not in self._all_outputs:
            raise BrokenMessage("frames in a form that was not granted")

    def _check_sounds(self, source: int) -> None:
        if source not in self._named:
            raise BrokenMessage(f"the sound of source {source}, which is not in the session")

"""Rendered frames that wait to be sent, and what happens to the sources in them.

Titles of streams, kept until their sound is sent.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from tonearm.audio.broadcast import websocket_messages
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.play_queue import SourceId
from tonearm.decoding.messages import Audio, Mark, MarkKind

# Two seconds are decoded ahead; nobody could read as many titles in them.
MAX_WAITING_TITLES: Final = 200


class TitleSchedule:
    """Positions are samples (48 kHz) of the source."""

    def __init__(self) -> None:
        self._waiting: dict[SourceId, deque[tuple[int, str]]] = {}

    def add(self, source: SourceId, sample: int, title: str) -> None:
        """From `sample` on the source has this title. Later calls of a source tell of later samples."""
        self._waiting.setdefault(source, deque(maxlen=MAX_WAITING_TITLES)).append((sample, title))

    def has_some(self, source: SourceId) -> bool:
        return bool(self._waiting.get(source))

    def due(self, source: SourceId, up_to_sample: int) -> str | None:
        """The title of what is sent up to this sample, if it is a new one."""
        waiting = self._waiting.get(source)
        title = None
        while waiting and waiting[0][0] < up_to_sample:
            _, title = waiting.popleft()
        return title

    def forget(self, source: SourceId) -> None:
        self._waiting.pop(source, None)


class _Stretch(NamedTuple):
    """Frames of one source. `position_samples` is where the first one stands in it: before 0 where it joins later."""

    first_frame: int
    source: SourceId
    position_samples: int

    def place(self, frame: int) -> tuple[SourceId, int]:
        return self.source, self.position_samples + (frame - self.first_frame) * FRAME_SAMPLES


class SentFrame(NamedTuple):
    """A frame that leaves: as a WebSocket message, empty when it was made for nobody to hear; and the source and
    sample (48 kHz) that it begins with."""

    message: bytes
    source: SourceId
    position_samples: int


class FrameBuffer:
    """Frames `next_frame` … `end_frame`, without gaps; marks are told when their frame's turn comes.

    Frames before `plain_until` are plain: who sends has found that nothing is to be done in them. It is 0 again as soon
    as something is learned that may change that.
    """

    def __init__(self, first_frame: int = 0) -> None:
        self._messages: deque[bytes] = deque()
        # The first is that of the last frame sent.
        self._stretches: deque[_Stretch] = deque((_Stretch(first_frame, 0, 0),))
        self._marks: deque[Mark] = deque()
        self.next_frame = first_frame
        self.end_frame = first_frame
        self.plain_until = 0

    @property
    def frames_ahead(self) -> int:
        return self.end_frame - self.next_frame

    @property
    def holds_end(self) -> bool:
        """True when the sound ends in here: nothing more comes until something else is planned."""
        return bool(self._marks) and self._marks[-1].kind is not MarkKind.BEGIN

    def append(self, audio: Audio) -> None:
        """Takes rendered frames; those that were sent already in another form are left out."""
        if audio.marks:
            self.plain_until = 0
            self._marks.extend(audio.marks)
        end_frame = audio.first_frame + audio.frames
        if not audio.frames or end_frame <= self.end_frame:
            return
        if not self.frames_ahead:
            self.plain_until = 0
            self.next_frame = self.end_frame = max(self.next_frame, audio.first_frame)
        messages = websocket_messages(audio.pcm) if audio.pcm else [b""] * audio.frames
        self._messages.extend(messages[self.end_frame - audio.first_frame :])
        for stretch in _stretches(audio):
            self._continue_with(stretch)
        self.end_frame = end_frame

    def void_from(self, frame: int) -> None:
        """Forgets the frames from `frame` on, and what was to happen in them."""
        self.plain_until = 0
        self.end_frame = max(self.next_frame, min(self.end_frame, frame))
        while len(self._messages) > self.frames_ahead:
            self._messages.pop()
        while len(self._stretches) > 1 and self._stretches[-1].first_frame >= self.end_frame:
            self._stretches.pop()
        self._marks = deque(mark for mark in self._marks if mark.frame < frame)

    def void_joins_except(self, *sources: SourceId | None) -> None:
        """Forgets the frames from where another source than one of `sources` begins."""
        for mark in self._marks:
            if mark.kind is MarkKind.BEGIN and mark.source not in sources and mark.frame >= self.next_frame:
                self.void_from(mark.frame)
                return

    def next_mark(self) -> Mark | None:
        """Takes a mark of the frame that is to be sent next, or one of an end before it."""
        if not self._marks or self._marks[0].frame > self.next_frame:
            return None
        return self._marks.popleft()

    def next_end(self) -> Mark | None:
        """Takes the mark of an end that is complete: all its frames were sent, and no other source joins in."""
        if not self._marks or self._marks[0].frame > self.next_frame or self._marks[0].kind is MarkKind.BEGIN:
            return None
        if self.joining() is not None:
            return None
        return self._marks.popleft()

    def begins_now(self) -> SourceId | None:
        """The source that begins in the frame to be sent next, as far as that is rendered."""
        if self._marks and self._marks[0].kind is MarkKind.BEGIN and self._marks[0].frame <= self.next_frame:
            return self._marks[0].source
        return None

    def joining(self) -> SourceId | None:
        """The source that begins where the next marked end is."""
        if len(self._marks) < 2 or self._marks[1].kind is not MarkKind.BEGIN:
            return None
        return self._marks[1].source if self._marks[1].frame == self._marks[0].frame else None

    def pop(self) -> SentFrame:
        """The next frame, to be called only when there is one."""
        while len(self._stretches) > 1 and self._stretches[1].first_frame <= self.next_frame:
            self._stretches.popleft()
        source, position_samples = self._stretches[0].place(self.next_frame)
        self.next_frame += 1
        return SentFrame(self._messages.popleft(), source, position_samples)

    def pop_plain(self) -> bytes | None:
        """The message of the next frame if that is a plain one, and here."""
        if self.next_frame >= self.plain_until or not self._messages:
            return None
        self.next_frame += 1
        return self._messages.popleft()

    def look_ahead(self, most: int) -> None:
        """After a frame was sent: of up to `most` next ones, those before a mark and before another source are plain.
        That includes frames that are still to come."""
        self.plain_until = self.next_frame + most
        if self._marks:
            self.plain_until = min(self.plain_until, self._marks[0].frame - 1)
        if len(self._stretches) > 1:
            self.plain_until = min(self.plain_until, self._stretches[1].first_frame)

    def end_place(self) -> tuple[SourceId, int]:
        """The source and sample that the frame after the last one here, or the last one sent, would begin with."""
        return self._stretches[-1].place(self.end_frame)

    def _continue_with(self, stretch: _Stretch) -> None:
        """Frames from `end_frame` on are of `stretch`, from where it begins."""
        frame = max(stretch.first_frame, self.end_frame)
        place = stretch.place(frame)
        while len(self._stretches) > 1 and self._stretches[-1].first_frame >= frame:
            self._stretches.pop()
        if place != self._stretches[-1].place(frame):
            self.plain_until = 0
            self._stretches.append(_Stretch(frame, *place))


def _stretches(audio: Audio) -> Iterator[_Stretch]:
    """What the frames of `audio` are of. One that begins no later than the one before it takes its place."""
    source = audio.source
    yield _Stretch(audio.first_frame, source, audio.position_samples)
    for mark in audio.marks:
        if mark.kind is MarkKind.BEGIN and (mark.frame > audio.first_frame or mark.source != source):
            source = mark.source
            yield _Stretch(mark.frame, source, -mark.offset_samples)

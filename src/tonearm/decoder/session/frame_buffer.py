"""The frames of one player between its decoder and the clock, with their marks and titles.

Frames arrive in blocks and leave one by one. A mark names the frame in which a source begins or ends. Titles come from
streams. Both take effect when their frame is sent, not when it arrives.

Nearly all frames are *plain*: they have no mark and no title. After each `pop`, `allow_plain` sets how many plain
frames follow, each of which needs only a `pop_plain`. A new mark or title, or any other change of the buffered frames,
ends the run of plain frames.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from tonearm.core.frame import FRAME_SAMPLES, PCM, Forms, Payloads
from tonearm.core.play_queue import SourceId
from tonearm.decoder.messages import Audio, Mark, MarkKind, OverlayPosition
from tonearm.protocol.framing import packets_as_messages, pcm_as_messages


class _OverlayFrames(NamedTuple):
    """Frames `first_frame` to `end_frame - 1`, in which the overlays do not change."""

    first_frame: int
    end_frame: int
    positions: tuple[OverlayPosition, ...]


class OverlayPositions:
    """The overlays in the frames of a `FrameBuffer`, which reports what is appended and voided. False while no frame
    has an overlay."""

    def __init__(self) -> None:
        self._parts: deque[_OverlayFrames] = deque()  # frames of the first part may have been sent
        self._sounding: set[SourceId] = set()  # in the frame sent last

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def ending(self) -> frozenset[SourceId]:
        """The overlays whose last sample is in the buffered frames."""
        return frozenset(at.source for part in self._parts for at in part.positions if at.ends)

    def samples_at(self, frame: int) -> dict[SourceId, int]:
        """For each overlay in the frame before `frame`, the sample of its source that comes next."""
        part = self._part_of(frame - 1)
        passed = (frame - part.first_frame) * FRAME_SAMPLES
        return {at.source: at.sample + passed * at.moves for at in part.positions}

    def standing_at(self, frame: int) -> frozenset[SourceId]:
        """The overlays that stand still in the frame before `frame`, for lack of audio."""
        return frozenset(at.source for at in self._part_of(frame - 1).positions if not at.moves)

    # Frames arrive

    def append(self, audio: Audio) -> None:
        if audio.overlays:
            self._parts.append(_OverlayFrames(audio.first_frame, audio.first_frame + audio.frames, audio.overlays))

    def void_from(self, frame: int) -> None:
        while self._parts and self._parts[-1].first_frame >= frame:
            self._parts.pop()
        if self._parts and self._parts[-1].end_frame > frame:
            part = self._parts.pop()
            goes_on = tuple(at._replace(ends=False) for at in part.positions)
            self._parts.append(_OverlayFrames(part.first_frame, frame, goes_on))

    # Frames are sent

    def take_begun(self, frame: int) -> list[SourceId]:
        """The overlays that begin in `frame`, which is sent next."""
        begun = [at.source for at in self._part_of(frame).positions if at.source not in self._sounding]
        self._sounding.update(begun)
        return begun

    def take_ended(self, next_frame: int) -> list[SourceId]:
        """The overlays whose last frame was sent. `next_frame` is sent next."""
        ended: list[SourceId] = []
        while self._parts and self._parts[0].end_frame <= next_frame:
            part = self._parts[0]
            ended += [at.source for at in part.positions if at.ends and at.source in self._sounding]
            self._sounding.difference_update(ended)
            if part.end_frame == next_frame and not all(at.ends for at in part.positions):
                break  # this part still has the positions of the other overlays
            self._parts.popleft()
        return ended

    def next_change(self, frame: int) -> int | None:
        """The first frame from `frame` on in which an overlay begins, or ends; None if there is none."""
        for part in self._parts:
            if part.end_frame <= frame:
                continue
            if any(at.source not in self._sounding for at in part.positions):
                return max(part.first_frame, frame)
            if any(at.ends for at in part.positions):
                return part.end_frame - 1
        return None

    def forget(self, source: SourceId) -> None:
        """Removes an overlay, so that nothing reports it any more."""
        self._sounding.discard(source)
        self._parts = deque(
            part._replace(positions=tuple(at for at in part.positions if at.source != source)) for part in self._parts
        )

    def _part_of(self, frame: int) -> _OverlayFrames:
        """The part with this frame; if there is none, a part without overlays."""
        parts = (part for part in self._parts if part.first_frame <= frame < part.end_frame)
        return next(parts, _OverlayFrames(frame, frame + 1, ()))


MAX_TITLES_AHEAD: Final = 200  # of one source; the latest titles are kept

# While overlays sound, the last frames of the buffer are not plain, so that the player can grant more in time.
LOW_FRAMES: Final = 2

_PCM_ALONE: Final[Forms] = (PCM,)
_ENDS: Final = (MarkKind.END, MarkKind.INTERRUPTED)
_BEGINNINGS: Final = (MarkKind.BEGIN, MarkKind.FADING)  # a source begins in the mark's frame


class SentFrame(NamedTuple):
    """A frame that is sent, in these forms.

    Its first sample is that of `source` at `position_samples` (48 kHz), and `position_rate` times its length passes in
    the source. `title` is set where the source's title changes in this frame. `is_cut`: the frame does not continue the
    frame before. `filled_samples`: the silence at its end, after the source has ended.
    """

    forms: Forms
    payloads: Payloads
    source: SourceId
    position_samples: int
    title: str | None = None
    position_rate: float = 1.0
    is_cut: bool = False
    filled_samples: int = 0

    @property
    def end_samples(self) -> int:
        """The position of the source after this frame."""
        samples = FRAME_SAMPLES - self.filled_samples
        return self.position_samples + round(samples * self.position_rate)


class Cut(NamedTuple):
    """A new sound is expected from `at_frame` on. The tail of the old sound may come first, unless `from_silence`."""

    at_frame: int
    from_silence: bool


class FrameBuffer:
    """Frames `next_frame` to `end_frame - 1`, without gaps. `next_frame` is sent next."""

    def __init__(self) -> None:
        self.starts: dict[SourceId, int] = {}  # the first sample of each source that does not begin at 0
        self.next_frame = 0
        self.end_frame = 0
        self._payloads: deque[Payloads] = deque()
        # The first run has the frame that was sent last.
        self._runs: deque[_FrameRun] = deque((_FrameRun(0, 0, 0),))
        self._marks: deque[Mark] = deque()
        self._titles: dict[SourceId, deque[tuple[int, str]]] = {}
        self._cut: Cut | None = None  # the last cut, until its new sound is sent
        self._plain_until = 0  # frames before this one are plain
        self.overlays = OverlayPositions()

    @property
    def frames_ahead(self) -> int:
        return self.end_frame - self.next_frame

    @property
    def holds_end(self) -> bool:
        """Whether a source ends in the buffer and none begins after it."""
        kinds = (mark.kind for mark in reversed(self._marks) if mark.kind is not MarkKind.FADED)
        return next(kinds, MarkKind.BEGIN) in _ENDS

    @property
    def begins_with_tail(self) -> bool:
        """Whether the next frame is the tail of a cut, and nothing else."""
        return bool(self.frames_ahead) and self._next_run.source == 0

    @property
    def begins_with_overlays_alone(self) -> bool:
        """Whether the next frame has overlays, and no music."""
        return bool(self.frames_ahead) and self._next_run.position_rate == 0.0

    @property
    def cut_ahead(self) -> Cut | None:
        """The last cut, if no frame was sent since."""
        return self._cut if self._cut is not None and self._cut.at_frame >= self.next_frame else None

    @property
    def _next_run(self) -> "_FrameRun":
        """The run of the next frame."""
        runs = self._runs
        return runs[1] if len(runs) > 1 and runs[1].first_frame <= self.next_frame else runs[0]

    @property
    def begins_now(self) -> SourceId | None:
        """The source that begins in the next frame; None also when that frame was not rendered yet."""
        if self._marks and self._marks[0].kind is MarkKind.BEGIN and self._marks[0].frame <= self.next_frame:
            return self._marks[0].source
        return None

    def end_position(self) -> tuple[SourceId, int]:
        """The source and its sample with which the frame `end_frame` would begin."""
        return self._runs[-1].position(self.end_frame)

    def whole_frames_before_end(self, most: int) -> int:
        """How many of the last frames, up to `most`, have no music but that of the source in the very last frame."""
        run = self._runs[-1]
        if run.position_rate == 0.0:
            return 0
        frames = min(most, self.end_frame - run.first_frame)
        while frames and run.position(self.end_frame - frames)[1] < self.starts.get(run.source, 0):
            frames -= 1
        return frames

    # Frames arrive

    def append(self, audio: Audio) -> None:
        """Adds rendered frames and marks. Frames before `end_frame` are left out, but not their marks."""
        if audio.marks:
            self.end_plain_run()
            self._marks.extend(audio.marks)
        end_frame = audio.first_frame + audio.frames
        if not audio.frames or end_frame <= self.end_frame:
            return
        if not self.frames_ahead:
            self.end_plain_run()
            self.next_frame = self.end_frame = max(self.next_frame, audio.first_frame)
        if audio.overlays:
            self.end_plain_run()
            self.overlays.append(audio)
        self._payloads.extend(_payloads(audio)[self.end_frame - audio.first_frame :])
        forms = _forms(audio)
        if audio.marks or not self._runs[-1].goes_on_in(audio, forms):
            for run in _runs(audio, forms, self.starts):
                if not run.source:  # a tail, or overlays alone: the position of the earlier sound goes on, or stands
                    source, sample = self._runs[-1].position(run.first_frame)
                    # Behind overlays alone another session goes on with the earlier source. A tail is the end of it.
                    run = run._replace(source=0 if run.position_rate else source, position_samples=sample)
                self._continue_with(run)
        self.end_frame = end_frame

    def cut(self, *, from_silence: bool = True) -> None:
        """Notes that the frame `end_frame` will not continue the frame before it, as in another session."""
        self.end_plain_run()
        self._cut = Cut(self.end_frame, from_silence)

    def add_title(self, source: SourceId, sample: int, title: str) -> None:
        """The source has this title from `sample` on. Samples of one source come in order."""
        self.end_plain_run()
        self._titles.setdefault(source, deque(maxlen=MAX_TITLES_AHEAD)).append((sample, title))

    def forget_titles(self, source: SourceId, from_sample: int = 0) -> None:
        waiting = self._titles.get(source)
        while waiting and waiting[-1][0] >= from_sample:
            waiting.pop()
        if not waiting:
            self._titles.pop(source, None)

    def void_from(self, frame: int) -> None:
        """Removes the frames from `frame` on, and their marks."""
        self.end_plain_run()
        self.end_frame = max(self.next_frame, min(self.end_frame, frame))
        self.overlays.void_from(self.end_frame)
        while len(self._payloads) > self.frames_ahead:
            self._payloads.pop()
        while len(self._runs) > 1 and self._runs[-1].first_frame >= self.end_frame:
            self._runs.pop()
        # The frames that replace these do not report again that a source has faded out before `frame`.
        self._marks = deque(
            mark for mark in self._marks if mark.frame < frame or (mark.kind is MarkKind.FADED and mark.frame == frame)
        )

    def void(self) -> None:
        """Removes all frames, and marks that are due but not taken: a replaced source neither begins nor ends."""
        self.void_from(self.next_frame)
        self._marks = deque(mark for mark in self._marks if mark.kind is MarkKind.FADED)

    def end_fades(self) -> None:
        """Makes sources that fade out in the buffered frames end where the next source begins, because later frames are
        lost."""
        self._marks = deque(
            replace(mark, kind=MarkKind.END) if mark.kind is MarkKind.FADING else mark for mark in self._marks
        )

    def void_joins_except(self, *sources: SourceId | None) -> None:
        """Removes the frames from the beginning of another source than `sources` on."""
        for mark in self._marks:
            if mark.kind is MarkKind.BEGIN and mark.source not in sources and mark.frame >= self.next_frame:
                self.void_from(mark.frame)
                return

    # Frames are sent

    def pop_plain(self) -> Payloads | None:
        """Takes the next frame when it is plain and has arrived; otherwise returns None. A plain frame has the forms of
        the frame before it."""
        if self.next_frame >= self._plain_until or not self._payloads:
            return None
        self.next_frame += 1
        return self._payloads.popleft()

    @property
    def sent_position_samples(self) -> int:
        """The position in its source of the first sample of the frame that was taken last."""
        return max(0, self._runs[0].position(self.next_frame - 1)[1])

    @property
    def sent_to(self) -> tuple[SourceId, int]:
        """The source of the frame that was taken last, and the sample that comes next in it."""
        return self._runs[0].position(self.next_frame)

    @property
    def is_sent_passed(self) -> bool:
        """Whether the frame that was taken last has the source's own packet, for outputs that pass through."""
        return self._runs[0].is_passed

    def skip(self, frames: int, position_rate: float = 1.0) -> None:
        """Skips frames that were never rendered. To be called only while the buffer is empty."""
        if self._runs[-1].position_rate != position_rate:
            self._runs = deque((_FrameRun(self.end_frame, *self.end_position(), position_rate),))
        self.next_frame += frames
        self.end_frame = self.next_frame

    def take_mark(self) -> Mark | None:
        """Takes a mark of the next frame, or of an earlier one. To be called until it returns None."""
        if not self._marks or self._marks[0].frame > self.next_frame:
            return None
        return self._marks.popleft()

    def take_complete_end(self) -> Mark | None:
        """Takes the mark of an end with no source after it, or of the end of a fade, once all frames before it were
        sent. Where another source begins in the same frame, `take_mark` gives the end with that frame."""
        marks = self._marks
        if not marks or marks[0].frame > self.next_frame or marks[0].kind in _BEGINNINGS:
            return None
        if len(marks) > 1 and marks[1].kind is MarkKind.BEGIN and marks[1].frame == marks[0].frame:
            return None
        return marks.popleft()

    def pop(self) -> SentFrame:
        """Takes the next frame, after its marks were taken. To be called only when `frames_ahead`."""
        while len(self._runs) > 1 and self._runs[1].first_frame <= self.next_frame:
            self._runs.popleft()
        run = self._runs[0]
        source, position_samples = run.position(self.next_frame)
        self.next_frame += 1
        has_music = source != 0 and run.position_rate > 0.0
        is_cut = self._cut is not None and self._cut.at_frame < self.next_frame and has_music
        if is_cut:
            self._cut = None
        payloads = self._payloads.popleft()
        filled = self._filled_samples(source) if self._marks else 0
        frame = SentFrame(run.forms, payloads, source, position_samples, None, run.position_rate, is_cut, filled)
        title = self._take_title(source, frame.end_samples) if self._titles else None
        return frame if title is None else frame._replace(title=title)

    def allow_plain(self, frames: int) -> None:
        """To be called after `pop`: the next `frames` frames are plain, arrived or not, up to the first of them with a
        mark, a title or another run."""
        if self._cut is not None or self._titles.get(self._runs[0].source):
            return
        plain_until = self.next_frame + frames
        if self._marks:
            # The end is taken after the frame before the mark's frame, so that frame is not plain.
            plain_until = min(plain_until, self._marks[0].frame - 1)
        if len(self._runs) > 1:
            plain_until = min(plain_until, self._runs[1].first_frame)
        if self.overlays:
            change = self.overlays.next_change(self.next_frame)
            plain_until = min(plain_until, self.end_frame - LOW_FRAMES, plain_until if change is None else change)
        self._plain_until = plain_until

    def end_plain_run(self) -> None:
        """Makes the next frame not plain, despite `allow_plain`."""
        self._plain_until = 0

    def _filled_samples(self, source: SourceId) -> int:
        """How many samples of silence are at the end of the frame that was taken last."""
        end = self._marks[0]
        is_due = end.kind in _ENDS and end.frame == self.next_frame and end.source == source
        return end.offset_samples if is_due else 0

    def _take_title(self, source: SourceId, before_sample: int) -> str | None:
        """Takes the titles that begin before this sample, and returns the last of them."""
        waiting = self._titles.get(source)
        title = None
        while waiting and waiting[0][0] < before_sample:
            _, title = waiting.popleft()
        return title

    def _continue_with(self, run: "_FrameRun") -> None:
        """Frames from `end_frame` on belong to `run`, from its first frame on."""
        frame = max(run.first_frame, self.end_frame)
        while len(self._runs) > 1 and self._runs[-1].first_frame >= frame:
            self._runs.pop()
        if not self._runs[-1].continues_with(run, frame):
            self.end_plain_run()
            self._runs.append(_FrameRun(frame, *run.position(frame), run.position_rate, run.is_passed, run.forms))


class _FrameRun(NamedTuple):
    """Consecutive frames of one source, all in the same `forms`. `position_samples` is the position in the source of
    the first frame's first sample; it is before the source's start when the source begins in the middle of that frame.
    `position_rate`: how many samples of the source pass in a sample that is heard. `is_passed`: the frames have the
    source's own packets, for outputs that pass through."""

    first_frame: int
    source: SourceId
    position_samples: int
    position_rate: float = 1.0
    is_passed: bool = False
    forms: Forms = ()

    def position(self, frame: int) -> tuple[SourceId, int]:
        samples = (frame - self.first_frame) * FRAME_SAMPLES
        return self.source, self.position_samples + (
            samples if self.position_rate == 1.0 else round(samples * self.position_rate)
        )

    def goes_on_in(self, audio: Audio, forms: Forms) -> bool:
        """Whether audio without marks continues this run, as nearly all audio does. At another rate than 1 the answer
        is False, and `continues_with` decides."""
        return (
            self.position_samples - audio.position_samples == (self.first_frame - audio.first_frame) * FRAME_SAMPLES
            and self.first_frame < audio.first_frame
            and self.source == audio.source
            and self.position_rate == audio.position_rate == 1.0
            and self.is_passed == audio.is_passed
            and self.forms == forms
        )

    def continues_with(self, run: "_FrameRun", frame: int) -> bool:
        """Whether `run` gives `frame` the same position as this run. At another rate than 1 positions are rounded, so
        they may differ by a sample."""
        (source, here), (other_source, there) = self.position(frame), run.position(frame)
        if (self.position_rate, self.is_passed, self.forms) != (run.position_rate, run.is_passed, run.forms):
            return False
        return source == other_source and abs(here - there) <= (0 if run.position_rate == 1.0 else 1)


def _forms(audio: Audio) -> Forms:
    if not audio.packets:
        return _PCM_ALONE if audio.pcm else ()
    forms = tuple([output for output, _ in audio.packets])
    return (*forms, PCM) if audio.pcm else forms


def _payloads(audio: Audio) -> Sequence[Payloads]:
    """The payloads of each frame, in the order of the forms, copied out of the message."""
    if not audio.packets:
        return pcm_as_messages(audio.pcm) if audio.pcm else [()] * audio.frames
    columns = [packets_as_messages(packets) for _, packets in audio.packets]
    if audio.pcm:
        columns.append(pcm_as_messages(audio.pcm))
    return list(zip(*columns, strict=True)) if len(columns) > 1 else columns[0]


def _runs(audio: Audio, forms: Forms, starts: Mapping[SourceId, int]) -> Iterator[_FrameRun]:
    """The runs of the frames in `audio`. A run replaces the run before it, unless that run begins earlier."""
    source = audio.source
    rate, is_passed = audio.position_rate, audio.is_passed
    yield _FrameRun(audio.first_frame, source, audio.position_samples, rate, is_passed, forms)
    for mark in audio.marks:
        if mark.kind is MarkKind.BEGIN and (mark.frame > audio.first_frame or mark.source != source):
            source = mark.source
            before_begin = round(mark.offset_samples * rate)
            yield _FrameRun(mark.frame, source, starts.get(source, 0) - before_begin, rate, is_passed, forms)

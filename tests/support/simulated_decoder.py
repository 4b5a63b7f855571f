"""A decoder's side of a session without sound: which samples of which source it would put into which frame.

It keeps to what `decoder.messages` says, also about the speed, and renders nothing. A frame's PCM is a number, under
which `contents` has what the frame holds. An overlay has all its samples once its source is open, and nothing is
rendered before that; they stand in the messages alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.decoder.messages import (
    SHORT_GRANT_FRAMES,
    Audio,
    Burst,
    CrossfadeOrder,
    Decoded,
    Failed,
    Flush,
    Grant,
    Mark,
    MarkKind,
    OpenSession,
    OverlayPosition,
    Plan,
)

BLOCK_FRAMES = 20
FROM_START = -1
INTERRUPTION = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The connection was lost.", "Try again.")


class Track(NamedTuple):
    """What a source is in truth. One without samples fails to open; one that `breaks` is interrupted at its end."""

    samples: int
    breaks: bool = False


class Piece(NamedTuple):
    source: int
    sample: int
    samples: int


class Content(NamedTuple):
    """What a rendered frame holds: no piece where overlays sound alone. `glides`: other filters come in with it."""

    frame: int
    pieces: tuple[Piece, ...]
    filters: Filters
    glides: bool

    @property
    def position(self) -> tuple[int, int]:
        """The source of the frame's last piece, and the sample that the frame's beginning would be of it."""
        *before, last = self.pieces
        return last.source, last.sample - sum(piece.samples for piece in before)


@dataclass
class OpenedSource:
    track: Track
    start: int
    end: int  # decoded up to here
    is_finished: bool = False
    has_failed: bool = False
    is_dropped: bool = False


class Place(NamedTuple):
    """Where rendering goes on; `has_begun` when the begin was reported."""

    source: int = 0
    sample: int = FROM_START
    has_begun: bool = False


class CutFade(NamedTuple):
    """`source` goes on for so many samples under `target`, which was cut to."""

    source: int
    target: int
    samples: int


@dataclass
class Timeline:
    first_frame: int
    place: Place
    filters: Filters
    frames: list[tuple[Place, Content]] = field(default_factory=list)
    fades: list[tuple[int, Mark]] = field(default_factory=list)  # from which frame on, and the mark of its end
    cut_fade: CutFade | None = None
    overlays: dict[int, int] = field(default_factory=dict)  # the frame in which each begins

    @property
    def end_frame(self) -> int:
        return self.first_frame + len(self.frames)

    def cut_at(self, frame: int) -> "Timeline":
        kept = self.frames[: max(0, frame - self.first_frame)]
        fades = [fade for fade in self.fades if fade[0] < frame]
        if len(kept) == len(self.frames):
            return Timeline(self.first_frame, self.place, self.filters, kept, fades, self.cut_fade)
        place = self.frames[len(kept)][0]
        filters = kept[-1][1].filters if kept else self.frames[0][1].filters
        return Timeline(self.first_frame, place, filters, kept, fades, self.cut_fade)


class SimulatedDecoder:
    """One session. `tracks` says what the sources are in truth."""

    def __init__(self, tracks: dict[int, Track], contents: list[Content]) -> None:
        self._tracks = tracks
        self._contents = contents
        self._sources: dict[int, OpenedSource] = {}
        self._followers: dict[int, int | None] = {}
        self._crossfades: dict[int, CrossfadeOrder] = {}
        self._fading: list[Mark] = []  # where sources will have faded away, of the newest plan
        self._place = Place()
        self._must_flush = False
        self._has_listeners = True
        self._glides = False
        self._pauses = False
        self._session = self._epoch = self._begins_at = self._sent = self._granted = 0
        self._timelines: dict[int, Timeline] = {}

    def receive(self, message: OpenSession | Plan | Grant | Flush | Burst) -> None:
        match message:
            case OpenSession():
                self._session, self._epoch = message.session, message.epoch
                self._begins_at = message.first_frame
                self._granted = self._begins_at + SHORT_GRANT_FRAMES
                self._timelines = {message.epoch: Timeline(message.first_frame, Place(), message.filters)}
            case Plan():
                self._plan(message)
            case Grant():
                self._sent = max(self._sent, message.sent)
                self._granted = max(self._granted, message.granted)
                self._has_listeners = bool(message.outputs)
                for epoch in [epoch for epoch in self._timelines if epoch < message.epoch and epoch != self._epoch]:
                    del self._timelines[epoch]
            case Flush():
                self._must_flush = True

    def open(self, source: int, start_sample: int) -> None:
        self._sources[source] = OpenedSource(self._tracks[source], start_sample, start_sample)

    def drop(self, source: int) -> None:
        if source in self._sources:
            self._sources[source].is_dropped = True

    def decode(self, source: int, samples: int) -> list[Decoded | Failed]:
        """Decodes so many samples of an opened source, and reports its end."""
        opened = self._sources.get(source)
        if opened is None or opened.is_finished or opened.has_failed or opened.is_dropped:
            return []
        track = opened.track
        if not track.samples:
            opened.has_failed = True
            return [Failed(self._session, source, INTERRUPTION, gave_audio=False)]
        opened.end = max(opened.end, min(opened.end + samples, track.samples))
        if opened.end < track.samples:
            return []
        opened.is_finished = True
        if track.breaks:
            return [Failed(self._session, source, INTERRUPTION, gave_audio=True)]
        return [Decoded(self._session, source)]

    def decode_ahead(self, samples: int) -> list[Decoded | Failed]:
        """Decodes every source up to so many samples beyond what was rendered of it, and reports their ends."""
        reports: list[Decoded | Failed] = []
        for number, opened in self._sources.items():
            is_current = number == self._place.source and self._place.sample != FROM_START
            missing = (self._place.sample if is_current else opened.start) + samples - opened.end
            if missing > 0:
                reports += self.decode(number, missing)
        return reports

    def render(self) -> Iterator[Audio]:
        """What was granted and can be rendered now."""
        while (audio := self._block()) is not None:
            yield audio

    def _plan(self, plan: Plan) -> None:
        assert plan.base_epoch in self._timelines, "a plan on an epoch that was given up"
        assert plan.at_frame >= self._sent, "a plan for frames that are gone"
        base = self._timelines[plan.base_epoch]
        timeline = base.cut_at(plan.at_frame)
        if plan.switch_to is not None and timeline.end_frame < plan.at_frame:
            timeline = Timeline(plan.at_frame, timeline.place, timeline.filters)
        self._timelines = {plan.base_epoch: base, plan.epoch: timeline}
        self._epoch = plan.epoch
        self._granted = min(self._granted, max(plan.at_frame, self._sent, self._begins_at) + SHORT_GRANT_FRAMES)
        if plan.switch_to is not None:
            before = timeline.place
            timeline.cut_fade = None
            if plan.cut_fade is not None and before.has_begun and self._can_join(plan.switch_to):
                timeline.cut_fade = CutFade(before.source, plan.switch_to, plan.cut_fade.samples)
            timeline.place = Place(plan.switch_to)
            self._followers.clear()
            self._crossfades.clear()
            timeline.fades.clear()
        self._fading = [mark for _, mark in timeline.fades if mark.frame >= plan.at_frame]
        self._place = timeline.place
        self._followers[plan.after] = plan.following
        self._crossfades.pop(plan.after, None)
        if plan.crossfade is not None and plan.following is not None:
            self._crossfades[plan.after] = plan.crossfade
        self._must_flush = False
        begun = {source: frame for source, frame in base.overlays.items() if frame < plan.at_frame}
        timeline.overlays = {order.source: begun.get(order.source, plan.at_frame) for order in plan.overlays}
        self._pauses = plan.pauses
        self._glides = plan.filters != timeline.filters
        timeline.filters = plan.filters

    def _block(self) -> Audio | None:
        timeline = self._timelines[self._epoch]
        first_frame = timeline.end_frame
        frames, sounding = self._overlays(timeline)
        if self._pauses or (sounding and not self._place.source):
            return self._overlays_alone(timeline, frames, sounding)
        rendered: list[Content] = []
        marks: list[Mark] = []
        first = None
        while len(rendered) < frames:
            before = self._place
            pieces, new_marks, is_whole = self._frame(timeline.end_frame)
            if pieces and not is_whole:
                self._place = before
                break
            marks += new_marks
            while self._fading and self._fading[0].frame <= timeline.end_frame:
                marks.append(self._fading.pop(0))
            if not pieces:
                break
            first = first or pieces[0]
            content = Content(timeline.end_frame, tuple(pieces), timeline.filters, self._glides)
            self._glides = False
            timeline.frames.append((timeline.place, content))
            timeline.place = Place(pieces[-1].source, pieces[-1].sample + pieces[-1].samples, has_begun=True)
            rendered.append(content)
        if not rendered and not marks:
            return None
        pcm = b""
        if self._has_listeners:
            pcm = b"".join((len(self._contents) + n).to_bytes(FRAME_BYTES, "little") for n in range(len(rendered)))
        self._contents += rendered
        source, sample = (first.source, first.sample) if first else (self._place.source, max(self._place.sample, 0))
        rate = timeline.filters.effects.position_rate
        told = self._session, self._epoch, first_frame, len(rendered), source, sample, tuple(marks), pcm, rate
        return Audio(*told, overlays=_positions(sounding, len(rendered)))

    def _overlays(self, timeline: Timeline) -> tuple[int, dict[int, tuple[int, int]]]:
        """How many frames to render next, with the same overlays in each; and for each overlay the sample at which it
        is, and how many frames it has left."""
        frame = timeline.end_frame
        frames = max(0, min(BLOCK_FRAMES, self._granted - frame))
        sounding = {}
        for source, begins_at in timeline.overlays.items():
            if frame < begins_at:
                frames = min(frames, begins_at - frame)
                continue
            opened = self._sources.get(source)
            if opened is None:
                return 0, {}
            sample = opened.start + (frame - begins_at) * FRAME_SAMPLES
            left = -((sample - opened.track.samples) // FRAME_SAMPLES)
            if left > 0:
                frames = min(frames, left)
                sounding[source] = (sample, left)
        return frames, sounding

    def _overlays_alone(self, timeline: Timeline, frames: int, sounding: dict[int, tuple[int, int]]) -> Audio | None:
        """The music stands still, or there is none."""
        if not frames or not sounding:
            return None
        first_frame, place = timeline.end_frame, timeline.place
        pcm = b""
        if self._has_listeners:
            pcm = b"".join((len(self._contents) + n).to_bytes(FRAME_BYTES, "little") for n in range(frames))
        for frame in range(first_frame, first_frame + frames):
            content = Content(frame, (), timeline.filters, glides=False)
            timeline.frames.append((place, content))
            self._contents.append(content)
        source, sample = (place.source, place.sample) if place.has_begun else (0, 0)
        told = self._session, self._epoch, first_frame, frames, source, sample, (), pcm, 0.0
        return Audio(*told, overlays=_positions(sounding, frames))

    def _rest(self, crossfade: CrossfadeOrder, place: Place, sample: int) -> CrossfadeOrder | None:
        """A crossfade that may begin late, as it would now."""
        at_sample = max(crossfade.at_sample, sample + (0 if place.has_begun else FRAME_SAMPLES))
        samples = crossfade.at_sample + crossfade.samples - at_sample
        follower = self._followers.get(place.source)
        if samples <= 0 or (at_sample == sample and (follower is None or not self._can_join(follower))):
            return None
        return replace(crossfade, at_sample=at_sample, samples=samples)

    def _frame(self, frame: int) -> tuple[list[Piece], list[Mark], bool]:
        """One frame's pieces and marks, and whether it is whole."""
        pieces: list[Piece] = []
        marks: list[Mark] = []
        have = 0
        while have < FRAME_SAMPLES and self._place.source:
            source, sample, has_begun = self._place
            opened = self._sources.get(source)
            if opened is None:
                break
            sample = opened.start if sample == FROM_START else sample
            crossfade = self._crossfades.get(source)
            if crossfade is not None and crossfade.is_late:
                crossfade = self._rest(crossfade, self._place, sample)
            elif crossfade is not None and sample > crossfade.at_sample:
                crossfade = None
            end_sample = opened.end if crossfade is None else min(opened.end, crossfade.at_sample)
            rate = self._timelines[self._epoch].filters.effects.position_rate
            count = min(max(1, round((FRAME_SAMPLES - have) * rate)), end_sample - sample)
            if count > 0:
                cut_fade = self._timelines[self._epoch].cut_fade
                if not has_begun and cut_fade is not None and cut_fade.target == source:
                    marks.append(Mark(MarkKind.FADING, frame, cut_fade.source))
                    self._fade(frame, cut_fade.samples, cut_fade.source)
                if not has_begun:
                    marks.append(Mark(MarkKind.BEGIN, frame, source, have))
                pieces.append(Piece(source, sample, count))
                have = min(FRAME_SAMPLES, have + math.ceil(count / rate))
                self._place = Place(source, sample + count, has_begun=True)
                continue
            follower = self._followers.get(source)
            if crossfade is not None and follower is not None and sample == crossfade.at_sample:
                del self._crossfades[source]  # a plain join when the next one is late
                if self._can_join(follower):
                    self._fade(frame, crossfade.samples, source)
                    marks.append(Mark(MarkKind.FADING, frame, source))
                    self._place = Place(follower)
                continue
            joins = follower is not None and self._can_join(follower)
            if not opened.is_finished or (follower is not None and not joins and self._is_awaited(follower)):
                break
            end = MarkKind.INTERRUPTED if opened.track.breaks else MarkKind.END
            if joins or not have:
                marks.append(Mark(end, frame, source))
            else:
                marks.append(Mark(end, frame + 1, source, FRAME_SAMPLES - have))
                have = FRAME_SAMPLES  # the rest of the frame is silent
            self._place = Place(follower) if follower is not None and joins else Place()
        return pieces, marks, have == FRAME_SAMPLES

    def _fade(self, frame: int, samples: int, source: int) -> None:
        mark = Mark(MarkKind.FADED, frame + 1 + samples // FRAME_SAMPLES, source)
        self._fading.append(mark)
        self._timelines[self._epoch].fades.append((frame, mark))

    def _can_join(self, source: int) -> bool:
        opened = self._sources.get(source)
        return opened is not None and opened.end > opened.start

    def _is_awaited(self, source: int) -> bool:
        opened = self._sources.get(source)
        return not self._must_flush and (opened is None or not (opened.has_failed or opened.is_finished))


def _positions(sounding: dict[int, tuple[int, int]], frames: int) -> tuple[OverlayPosition, ...]:
    """The overlays in so many rendered frames."""
    if not frames:
        return ()
    return tuple(OverlayPosition(source, sample, ends=left == frames) for source, (sample, left) in sounding.items())

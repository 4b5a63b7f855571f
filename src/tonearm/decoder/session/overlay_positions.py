"""Which overlays are in the buffered frames of a player, and where in their sources."""

from collections import deque
from typing import NamedTuple

from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.play_queue import SourceId
from tonearm.decoder.messages import Audio, OverlayPosition


class _Part(NamedTuple):
    """Frames `first_frame` to `end_frame - 1`, in which the overlays do not change."""

    first_frame: int
    end_frame: int
    positions: tuple[OverlayPosition, ...]


class OverlayPositions:
    """The overlays in the frames of a `FrameBuffer`, which reports what is appended and voided. False while no frame
    has an overlay."""

    def __init__(self) -> None:
        self._parts: deque[_Part] = deque()  # frames of the first part may have been sent
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
            self._parts.append(_Part(audio.first_frame, audio.first_frame + audio.frames, audio.overlays))

    def void_from(self, frame: int) -> None:
        while self._parts and self._parts[-1].first_frame >= frame:
            self._parts.pop()
        if self._parts and self._parts[-1].end_frame > frame:
            part = self._parts.pop()
            goes_on = tuple(at._replace(ends=False) for at in part.positions)
            self._parts.append(_Part(part.first_frame, frame, goes_on))

    # Frames are sent

    def take_begun(self, frame: int) -> list[SourceId]:
        """The overlays that begin in `frame`, which is sent next."""
        begun = [at.source for at in self._part_of(frame).positions if at.source not in self._sounding]
        self._sounding.update(begun)
        return begun

    def take_ended(self, next_frame: int) -> list[SourceId]:
        """The overlays whose last frame was sent: `next_frame` is the one that is sent next."""
        ended: list[SourceId] = []
        while self._parts and self._parts[0].end_frame <= next_frame:
            part = self._parts[0]
            ended += [at.source for at in part.positions if at.ends and at.source in self._sounding]
            self._sounding.difference_update(ended)
            if part.end_frame == next_frame and not all(at.ends for at in part.positions):
                break  # this part still says where the other overlays are
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

    def _part_of(self, frame: int) -> _Part:
        """The part with this frame; one without overlays when there is none."""
        parts = (part for part in self._parts if part.first_frame <= frame < part.end_frame)
        return next(parts, _Part(frame, frame + 1, ()))

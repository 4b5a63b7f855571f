"""Which track comes next: the one place where loop mode and the reason of an end are weighed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

TrackT = TypeVar("TrackT")


class LoopMode(StrEnum):
    """What comes again at its end: nothing, the track, or the whole queue."""

    NONE = "none"
    TRACK = "track"
    QUEUE = "queue"


class EndReason(StrEnum):
    """Why a track ended."""

    FINISHED = "finished"
    SKIPPED = "skipped"
    LOAD_FAILED = "loadFailed"
    STOPPED = "stopped"  # the player was deleted
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Selection(Generic[TrackT]):
    """What plays next (None: nothing, the player is idle) and what waits after it was taken."""

    track: TrackT | None
    waiting: tuple[TrackT, ...]


def select_next(
    mode: LoopMode,
    reason: EndReason,
    current: TrackT,
    waiting: tuple[TrackT, ...],
    *,
    drops_current: bool = False,
) -> Selection[TrackT]:
    """The selection after `current` ended for `reason`.

    `drops_current` is for a track that never gave audio: no loop brings it back. A deleted player selects nothing.
    """
    if reason is EndReason.STOPPED:
        return Selection(None, waiting)
    repeats = mode is LoopMode.TRACK and reason in (EndReason.FINISHED, EndReason.LOAD_FAILED)
    if repeats and not drops_current:
        return Selection(current, waiting)
    goes_back = mode is LoopMode.QUEUE and not drops_current
    line = (*waiting, current) if goes_back else waiting
    return Selection(line[0], line[1:]) if line else Selection(None, ())

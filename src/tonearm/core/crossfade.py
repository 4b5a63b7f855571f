"""Computes the position and the duration of the fade from one track into the next."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tonearm.core.errors import BadRequest
from tonearm.core.track import Track

DURATION_MAX_MS: Final = 12_000
SHORTEST_LATE_MS: Final = 100  # of a crossfade that begins late; with less time left there is no fade


class CrossfadeCurve(StrEnum):
    """The shape of the two gains during a fade."""

    EQUAL_POWER = "equalPower"
    LINEAR = "linear"


@dataclass(frozen=True, slots=True)
class CrossfadeSettings:
    """A player's crossfades. With a duration of 0, tracks follow without a gap. `on_skip`: skips fade, too."""

    duration_ms: int = 0
    curve: CrossfadeCurve = CrossfadeCurve.EQUAL_POWER
    on_skip: bool = False


@dataclass(frozen=True, slots=True)
class CrossfadeEdit:
    """A change of `CrossfadeSettings`. A field that is None keeps its setting."""

    duration_ms: int | None = None
    curve: CrossfadeCurve | None = None
    on_skip: bool | None = None

    def applied_to(self, settings: CrossfadeSettings) -> CrossfadeSettings:
        """`settings` after the change. Raises BadRequest."""
        duration_ms = settings.duration_ms if self.duration_ms is None else self.duration_ms
        if not 0 <= duration_ms <= DURATION_MAX_MS:
            raise BadRequest(f"`durationMs` must lie between 0 and {DURATION_MAX_MS}.")
        curve = settings.curve if self.curve is None else self.curve
        return CrossfadeSettings(duration_ms, curve, settings.on_skip if self.on_skip is None else self.on_skip)


@dataclass(frozen=True, slots=True)
class FadeTime:
    """The next track begins at `at_ms` of the current track's file, and both play for `duration_ms` of playback time.

    `is_late`: the fade should have begun before the current source did, so only a part of it is left.
    """

    at_ms: int
    duration_ms: int
    is_late: bool = False


def fade_at_end(
    settings: CrossfadeSettings, current: Track, next_track: Track, rate: float = 1.0, from_ms: int = 0
) -> FadeTime | None:
    """The fade from the end of `current` into `next_track`; None: they join without a fade. So they do when that end is
    a guess: the fade might cut off a part of `current`.

    The fade takes at most half of either track, in playback time at `rate` (seconds of the file per second played). It
    begins at the position `from_ms` or later, and is shorter when `from_ms` is late.
    """
    return None if current.is_end_a_guess else _fade_before_end(settings, current, next_track, rate, from_ms)


def _fade_before_end(
    settings: CrossfadeSettings, current: Track, next_track: Track, rate: float, from_ms: int = 0
) -> FadeTime | None:
    this, other = _part_ms(current), _part_ms(next_track)
    if not settings.duration_ms or this is None or other is None:
        return None
    shorter_ms = min(this[1] - this[0], other[1] - other[0])
    duration_ms = min(settings.duration_ms, int(shorter_ms / (2 * rate)))
    at_ms = math.floor(this[1] - duration_ms * rate)
    if from_ms <= at_ms or duration_ms <= 0:
        return FadeTime(at_ms, duration_ms) if duration_ms > 0 else None
    rest_ms = min(duration_ms, int((this[1] - from_ms) / rate))
    return FadeTime(from_ms, rest_ms, is_late=True) if rest_ms >= SHORTEST_LATE_MS else None


def fade_of_skip(
    settings: CrossfadeSettings, current: Track, position_ms: int, next_track: Track, rate: float = 1.0
) -> FadeTime | None:
    """The fade of a skip at `position_ms`, with `rate` as in `fade_at_end`. None: the current track ends at once."""
    longest = _fade_before_end(settings, current, next_track, rate) if settings.on_skip else None
    part = _part_ms(current)
    if longest is None or part is None:
        return None
    duration_ms = min(longest.duration_ms, int((part[1] - position_ms) / rate))
    return FadeTime(position_ms, duration_ms) if duration_ms > 0 else None


def _part_ms(track: Track) -> tuple[int, int] | None:
    """Where the track begins and ends in its file; None when its end is not known."""
    end_ms = track.known_end_ms
    return None if track.info.is_stream or end_ms is None else (track.start_ms, end_ms)

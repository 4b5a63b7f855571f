"""Remembers the loudness of a player's tracks, for tracks that are opened again after a seek or in a loop."""

from dataclasses import dataclass
from typing import Final, TypeVar

from tonearm.core.play_queue import SourceId
from tonearm.core.track import Track
from tonearm.core.track_info import MeasuredLoudness

MAX_TRACKS: Final = 1_000  # the latest tracks are kept

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LoudnessHints:
    """Facts about loudness that the decoder does not have: the earlier measurement of the track, and the album that is
    being played."""

    measured: MeasuredLoudness | None = None
    album: str | None = None


NO_HINTS: Final = LoudnessHints()


class LoudnessMemory:
    """Measurements and albums by track id. `opening` and `closed` record which source plays which track."""

    def __init__(self) -> None:
        self._track_ids: dict[SourceId, str] = {}
        self._measured: dict[str, MeasuredLoudness] = {}
        self._albums: dict[str, str | None] = {}

    def opening(self, source: SourceId, track: Track, waiting: tuple[Track, ...]) -> LoudnessHints:
        """The hints for a source of `track`. An album is being played when the track before, and each waiting track
        that was opened before, are of that album."""
        self._track_ids[source] = track.id
        albums = {self._albums[other.id] for other in waiting if other.id in self._albums}
        albums.update(list(self._albums.values())[-1:])
        album = albums.pop() if len(albums) == 1 else None
        return LoudnessHints(self._measured.get(track.id), album)

    def sought(self, source: SourceId, new_source: SourceId) -> None:
        """The source goes on as `new_source`."""
        if source in self._track_ids:
            self._track_ids[new_source] = self._track_ids.pop(source)

    def opened(self, source: SourceId, album: str | None) -> None:
        self._keep(self._albums, source, album)

    def measured(self, source: SourceId, measured: MeasuredLoudness) -> None:
        self._keep(self._measured, source, measured)

    def closed(self, source: SourceId) -> None:
        self._track_ids.pop(source, None)

    def _keep(self, values: dict[str, _T], source: SourceId, value: _T) -> None:
        track_id = self._track_ids.get(source)
        if track_id is not None:
            values.pop(track_id, None)
            values[track_id] = value
            if len(values) > MAX_TRACKS:
                del values[next(iter(values))]

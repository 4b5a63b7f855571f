"""What a player has played: the newest first, each track once for all its repeats in a row."""

from dataclasses import dataclass
from typing import Final

from tonearm.core.play_queue import EndReason, QueuedTrack
from tonearm.core.track import Track

MAX_PLAYED: Final = 50


@dataclass(frozen=True, slots=True)
class PlayedTrack:
    """A track that ended. `ended_at_ms` is the time of day since 1970; `sounded`: it gave audio before it ended."""

    queued_track: QueuedTrack
    ended_at_ms: int
    reason: EndReason
    sounded: bool

    @property
    def track(self) -> Track:
        return self.queued_track.track


class History:
    """At most `MAX_PLAYED` tracks."""

    def __init__(self) -> None:
        self._played: list[PlayedTrack] = []  # newest last

    @property
    def played(self) -> tuple[PlayedTrack, ...]:
        """Newest first."""
        return tuple(reversed(self._played))

    def add(self, played: PlayedTrack) -> None:
        """A repeat of the newest one takes its place."""
        if self._played and self._played[-1].queued_track is played.queued_track:
            before = self._played.pop()
            sounded = before.sounded or played.sounded
            played = PlayedTrack(played.queued_track, played.ended_at_ms, played.reason, sounded)
        self._played.append(played)
        del self._played[:-MAX_PLAYED]

    def take_previous(self, current: QueuedTrack | None) -> QueuedTrack | None:
        """Takes out the newest track that sounded, and returns it; None, with nothing changed, when there is none.

        Earlier rounds of `current` are not what came before it: those on the way are taken out, too.
        """
        for index in range(len(self._played) - 1, -1, -1):
            candidate = self._played[index]
            if candidate.sounded and candidate.queued_track is not current:
                later = [played for played in self._played[index + 1 :] if played.queued_track is not current]
                self._played[index:] = later
                return candidate.queued_track
        return None

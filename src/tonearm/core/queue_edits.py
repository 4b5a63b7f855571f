"""Edits of a queue, as functions from the waiting tracks to the new ones, and the limits of a queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tonearm.core.errors import BadRequest, LimitReached, TrackNotFound
from tonearm.core.play_queue import QueuedTrack
from tonearm.core.track import Track

Waiting: TypeAlias = tuple[QueuedTrack, ...]
"""What waits behind the current track, next one first."""


def with_inserted(waiting: Waiting, tracks: Sequence[Track], index: int | None) -> Waiting:
    """Adds tracks before the one at `index`, or at the end for None or an index beyond the end. Raises BadRequest for a
    negative index."""
    place = _place(len(waiting), index)
    return waiting[:place] + tuple(map(QueuedTrack, tracks)) + waiting[place:]


def without(waiting: Waiting, track_id: str) -> Waiting:
    """Removes a track. Raises TrackNotFound."""
    index = index_of(waiting, track_id)
    return waiting[:index] + waiting[index + 1 :]


def with_moved(waiting: Waiting, track_id: str, index: int) -> Waiting:
    """Moves a track to the place `index`. Raises TrackNotFound, and BadRequest for a negative index."""
    before = index_of(waiting, track_id)
    others = waiting[:before] + waiting[before + 1 :]
    place = _place(len(waiting), index)
    return others[:place] + waiting[before : before + 1] + others[place:]


def in_order(waiting: Waiting, order: Sequence[int]) -> Waiting:
    """The same tracks in another order. `order` has each of their indexes once."""
    assert sorted(order) == list(range(len(waiting))), "a shuffled queue has the same tracks"
    return tuple(waiting[index] for index in order)


def index_of(waiting: Waiting, track_id: str) -> int:
    """The index of a waiting track. Raises TrackNotFound."""
    for index, queued_track in enumerate(waiting):
        if queued_track.track.id == track_id:
            return index
    raise TrackNotFound("The player's queue has no track with this id; GET its queue lists them.")


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many tracks may wait in a player, and how many bytes their URIs and metadata may have together."""

    max_tracks: int
    max_bytes: int

    def room_for(self, waiting: int, waiting_bytes: int, tracks: Sequence[Track]) -> int:
        """How many of these tracks, from the first on, may wait beside the others, which take `waiting_bytes`."""
        room_bytes = self.max_bytes - waiting_bytes
        fitting = 0
        for track in tracks[: max(self.max_tracks - waiting, 0)]:
            room_bytes -= track.waiting_bytes
            if room_bytes < 0:
                break
            fitting += 1
        return fitting

    def require_room(self, player_id: str, waiting: int, waiting_bytes: int, tracks: Sequence[Track]) -> None:
        """Raises LimitReached when not all of these tracks may wait beside the others."""
        if self.room_for(waiting, waiting_bytes, tracks) == len(tracks):
            return
        limit = (
            f"{self.max_tracks} tracks of player.max_waiting_tracks"
            if waiting + len(tracks) > self.max_tracks
            else f"{self.max_bytes} bytes of player.max_waiting_bytes for URIs and metadata"
        )
        raise LimitReached(
            f"{waiting} tracks wait in player {player_id!r}, and {len(tracks)} more would exceed the {limit}; wait "
            "until some have played, or skip them."
        )


def require_index(index: int | None) -> None:
    """Raises BadRequest for a negative index."""
    if index is not None and index < 0:
        raise BadRequest("`index` must not be negative; 0 is the next track.")


def _place(length: int, index: int | None) -> int:
    """Where in a queue of this length. Raises BadRequest for a negative index."""
    require_index(index)
    return length if index is None else min(index, length)

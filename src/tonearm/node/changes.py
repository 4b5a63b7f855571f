"""Finds which parts of a player have to be written to the state file. It looks only at what a change touches, not at
ten thousand tracks."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from tonearm.core.play_queue import QueuedTrack
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.core.splices import splice_of
from tonearm.core.track import Track
from tonearm.node.queue_rows import QueueRow, RowForm, rows_after
from tonearm.protocol.saved_state import tracks_of

_MAY_BE_READ: Final = 100  # so many first tracks may have changed by reading tags ahead, which changes no queue

# The file's record of a track is as new as these fields.
TrackState = tuple[Track, bool, int, bool]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a player to write: its snapshot (None: it is gone). `place` orders players by creation. `touched` has
    the ids of waiting tracks with facts that became known since the player was last written."""

    player_id: str
    snapshot: PlayerSnapshot | None
    taken_ms: int
    place: int
    touched: Set[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Written:
    """The contents of the file for a player. `tracks` is changed when the next change is written."""

    snapshot: PlayerSnapshot
    tracks: dict[str, TrackState]
    rows: Sequence[QueueRow] = ()


@dataclass(frozen=True, slots=True)
class Edit:
    """What of a player has to be written: the tracks that `states` names, of which `tracks` has more, and `new_rows` of
    its queue. `left` are the ids of tracks that are to go, `left_rows` the numbers of such rows."""

    change: Change
    snapshot: PlayerSnapshot
    tracks: Mapping[str, QueuedTrack]
    states: Mapping[str, TrackState]
    left: Sequence[str]
    rows: Sequence[QueueRow]
    new_rows: Sequence[tuple[QueueRow, Sequence[QueuedTrack]]]
    left_rows: Sequence[int]

    def done(self, before: Written | None) -> Written:
        """The contents of the file after this edit."""
        tracks = {} if before is None else before.tracks
        tracks.update(self.states)
        for track_id in self.left:
            del tracks[track_id]
        return Written(self.snapshot, tracks, self.rows)


def edit_of(change: Change, snapshot: PlayerSnapshot, before: Written | None, form: RowForm) -> Edit:
    """What `change`, to `snapshot`, takes when the file holds `before` of the player. Without `before` the file holds
    nothing of it. `form` is that of the rows of its queue."""
    splice = splice_of(() if before is None else before.snapshot.queue, snapshot.queue)
    looked_at = tracks_of(snapshot, (*snapshot.queue[:_MAY_BE_READ], *splice.added))
    if not change.touched <= looked_at.keys():
        looked_at |= {queued.track.id: queued for queued in snapshot.queue if queued.track.id in change.touched}
    known = {} if before is None else before.tracks
    states = {track_id: _state_of(queued) for track_id, queued in looked_at.items()}
    rows, new_rows = rows_after(() if before is None else before.rows, splice, snapshot.queue, form)
    left: list[str] = []
    left_rows: list[int] = []
    if before is not None:
        went = dict.fromkeys((*splice.dropped, *splice.removed))
        # Of what was played or selected, some waits still, or again.
        others = (queued for queued in tracks_of(before.snapshot, ()).values() if queued not in went)
        left = [queued.track.id for queued in went if queued.track.id not in looked_at]
        left += [
            queued.track.id for queued in others if queued.track.id not in looked_at and queued not in snapshot.queue
        ]
        left_rows = [*{row.number for row in before.rows} - {row.number for row in rows}]
    changed = {track_id: state for track_id, state in states.items() if known.get(track_id) != state}
    return Edit(change, snapshot, looked_at, changed, left, rows, new_rows, left_rows)


def _state_of(queued: QueuedTrack) -> TrackState:
    return queued.track, queued.gave_audio, queued.failures, queued.is_read

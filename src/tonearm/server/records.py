"""The record of a player as JSON, and back, in pieces. A record may have ten thousand tracks, and no piece holds up
what else the node does. A record with too much is refused before much was made of it.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tonearm.core.errors import LimitReached
from tonearm.core.metadata import MAX_RECORD_NESTING, JsonObject
from tonearm.core.play_queue import QueuedTrack
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.protocol.saved_state import (
    SavedPlayer,
    SavedTrack,
    queue_out,
    require_version,
    saved_track_out,
    state_head_out,
    tracks_of,
)
from tonearm.protocol.wire_model import json_text
from tonearm.server.bodies import checked, decoded, name_ignored, not_json, read_raw, too_deep, too_many_values
from tonearm.server.http_server import EdgeRequest
from tonearm.server.json_pieces import MAX_PIECE_BYTES, Piece, PieceTooLong, is_object, pieces_of
from tonearm.server.replies import BodyTooLarge, object_slices

_OTHER_PIECES: Final = 1_000  # fields, some of which another version may know, and overlays


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Of a player's record: its bytes, the values in it, and its tracks."""

    max_bytes: int
    max_values: int
    max_tracks: int

    @property
    def max_pieces(self) -> int:
        """The largest number of fields and entries. Each track may be in `tracks`, and its id in the queue and in the
        history."""
        return 3 * self.max_tracks + _OTHER_PIECES


def record_slices(snapshot: PlayerSnapshot, saved_at_ms: int) -> Iterator[bytes]:
    """A `SavedPlayer` as JSON, in slices."""
    head = {**state_head_out(snapshot, saved_at_ms), "queue": queue_out(snapshot.queue)}
    return object_slices(head, "tracks", (json_text(saved_track_out(track)) for track in tracks_of(snapshot).values()))


def stored_record(raw: bytes) -> tuple[int, PlayerSnapshot]:
    """Reads a node's record of its own player: the time in ms since 1970, and the player. A long record takes long, so
    call this in a thread. Raises `RequestError`."""
    player, tracks = _record(raw, _UNLIMITED, [], came_through_proxy=False)
    return player.saved_at, player.as_snapshot(new_tracks=tracks)


_UNLIMITED: Final = RecordLimits(sys.maxsize, sys.maxsize, sys.maxsize)


async def read_record(
    request: EdgeRequest, limits: RecordLimits, player_id: str, *, came_through_proxy: bool
) -> PlayerSnapshot:
    """The body as a player's record, for the player with this id. Raises `BodyTooLarge`, `LimitReached` for too many
    tracks, and `BadRequest` that names the first field that is wrong."""
    raw, ignored = await read_raw(request, limits.max_bytes), list[str]()

    def read() -> PlayerSnapshot:
        player, tracks = _record(raw, limits, ignored, came_through_proxy)
        return player.as_snapshot(player_id, tracks)

    try:
        return await asyncio.to_thread(read)
    finally:
        name_ignored(request, ignored)


def _record(
    raw: bytes | bytearray, limits: RecordLimits, ignored: list[str], came_through_proxy: bool
) -> tuple[SavedPlayer, list[QueuedTrack]]:
    """A player without its tracks, and its tracks."""
    if not is_object(raw):  # the refusal needs to know no more of what is long
        return checked(None if len(raw) > MAX_PIECE_BYTES else decoded(raw)[0], SavedPlayer, ignored), []
    fields: JsonObject = {}
    tracks: list[QueuedTrack] = []
    values = 0
    try:
        for piece in _counted(pieces_of(raw), limits.max_pieces):
            outside = 1 if piece.index is None else 2
            (name, _), (value, count) = decoded(piece.name), decoded(piece.value, MAX_RECORD_NESTING - outside)
            assert isinstance(name, str), "a piece's name is one"
            values += count
            if values > limits.max_values:
                raise too_many_values(limits.max_values)
            if piece.index is None:
                fields[name] = value
                if name == "version" and type(value) is int:
                    require_version(value)  # before its tracks, in which something may be new
                elif name == "tracks":  # of a field that is there twice the last counts
                    tracks.clear()
                continue
            if piece.index >= limits.max_tracks:
                raise LimitReached(
                    f"`{name}` of the record has more than {limits.max_tracks} entries, as many as a player has tracks "
                    "with those that player.max_waiting_tracks allows. Leave some out."
                )
            if name == "tracks":
                track = checked(value, SavedTrack, ignored, f"tracks.{piece.index}.")
                tracks.append(track.as_queued(came_through_proxy))
            else:
                items = fields[name]
                assert isinstance(items, list), "its `[]` came first"
                items.append(value)
    except PieceTooLong:
        raise BodyTooLarge(f"A value in the body has more than {MAX_PIECE_BYTES} bytes. Send less at once.") from None
    except RecursionError:
        raise too_deep(MAX_RECORD_NESTING) from None
    except ValueError as error:
        raise not_json(error) from error
    return checked(fields, SavedPlayer, ignored), tracks


def _counted(pieces: Iterable[Piece], most: int) -> Iterator[Piece]:
    """At most `most` of the pieces. Raises `BodyTooLarge` for a further piece."""
    for number, piece in enumerate(pieces, start=1):
        if number > most:
            raise BodyTooLarge(f"The record has more than {most} fields and entries in them. Leave some out.")
        yield piece

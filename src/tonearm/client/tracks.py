"""What a program gives the node to play, and the answers about tracks as typed values."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, Union

from pydantic import TypeAdapter, ValidationError

from tonearm.client.errors import TonearmError
from tonearm.protocol.replies import (
    FoundTracks,
    LoadedPlaylist,
    PlayedTrack,
    Player,
    QueuedTrackDetails,
    Stats,
    TrackOut,
)

Track: TypeAlias = TrackOut
Playable: TypeAlias = str | os.PathLike[str] | Track
# What can be sent as JSON: read-only, so that a program's dict[str, int] is one, too. Union, not |: it names itself.
Metadata: TypeAlias = Union[bool, int, float, str, "Sequence[Metadata]", "Mapping[str, Metadata]", None]

TRACK: Final = TypeAdapter(Track)
TRACKS: Final = TypeAdapter(list[Track])
QUEUE: Final = TypeAdapter(list[QueuedTrackDetails])
HISTORY: Final = TypeAdapter(list[PlayedTrack])
PLAYER: Final = TypeAdapter(Player)
PLAYERS: Final = TypeAdapter(list[Player])
FOUND: Final = TypeAdapter(FoundTracks)
PLAYLIST: Final = TypeAdapter(LoadedPlaylist)
STATS: Final = TypeAdapter(Stats)

_T = TypeVar("_T")


def playable_body(track: Playable, metadata: Metadata = None, start_ms: int | None = None) -> dict[str, Any]:
    """The fields that name a track in a request."""
    body: dict[str, Any] = {"encoded": track.encoded} if isinstance(track, TrackOut) else {"uri": os.fspath(track)}
    if metadata is not None:
        body["metadata"] = metadata
    if start_ms:
        body["startMs"] = start_ms
    return body


def read(model: TypeAdapter[_T], answer: Any) -> _T:
    """The answer as `model`. Raises `TonearmError` for one that this client cannot read."""
    try:
        return model.validate_python(answer)
    except ValidationError as error:
        raise TonearmError(f"The node answered what this client cannot read; update one of them. {error}") from error

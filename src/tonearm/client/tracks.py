"""The tracks that a program gives to a node, the node's answers about tracks as typed values, and a player's queue. The
node keeps the queue: each method of `Queue` is a request, and the client stores no copy.
"""

import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from tonearm.client.connection import Connection
from tonearm.client.errors import TonearmError
from tonearm.core.play_queue import LoopMode
from tonearm.protocol.replies import (
    FoundBySearch,
    FoundList,
    FoundTracks,
    LibraryFiles,
    LoadedPlaylist,
    LoadedTrack,
    LoadError,
    PlayedTrack,
    Player,
    QueuedTrackDetails,
    SentFile,
    SentSound,
    Stats,
    TrackOut,
)
from tonearm.protocol.replies import Loaded as LoadedAnswer

Track: TypeAlias = TrackOut
Playable: TypeAlias = str | os.PathLike[str] | Track
# What can be sent as JSON: read-only, so that a program's dict[str, int] is one, too. Union, not |: it names itself.
Metadata: TypeAlias = Union[bool, int, float, str, "Sequence[Metadata]", "Mapping[str, Metadata]", None]

TRACKS_MODEL: Final = TypeAdapter(list[Track])
QUEUE_MODEL: Final = TypeAdapter(list[QueuedTrackDetails])
HISTORY_MODEL: Final = TypeAdapter(list[PlayedTrack])
PLAYER_MODEL: Final = TypeAdapter(Player)
PLAYERS_MODEL: Final = TypeAdapter(list[Player])
FOUND_MODEL: Final = TypeAdapter(FoundTracks)
FILES_MODEL: Final = TypeAdapter(LibraryFiles)
SENT_MODEL: Final = TypeAdapter(SentFile)
LOADED_MODEL: Final[TypeAdapter[LoadedAnswer]] = TypeAdapter(LoadedAnswer)
PLAYLIST_MODEL: Final = TypeAdapter(LoadedPlaylist)
SOUND_MODEL: Final = TypeAdapter(SentSound)
STATS_MODEL: Final = TypeAdapter(Stats)

_T = TypeVar("_T")


def playable_body(track: Playable, metadata: Metadata = None, start_ms: int | None = None) -> dict[str, Any]:
    """The fields of a request that name a track. Raises `TypeError` if `track` cannot name one."""
    if not isinstance(track, str | os.PathLike | TrackOut):
        several = "; queue.put(*tracks) takes several" if isinstance(track, Sequence | Set) else ""
        raise TypeError(f"A track is a link, a path or a Track, not a {type(track).__name__}{several}.")
    body: dict[str, Any] = {"encoded": track.encoded} if isinstance(track, TrackOut) else {"uri": os.fspath(track)}
    if metadata is not None:
        body["metadata"] = metadata
    if start_ms:
        body["startMs"] = whole_ms(start_ms)
    return body


def whole_ms(given: int) -> int:
    """The value, if it is a whole number of milliseconds. Raises `TypeError` otherwise: it is mostly a value in
    seconds."""
    if isinstance(given, int):
        return given
    right = f"{given:g} s is {given * 1000:.0f}" if isinstance(given, float) else "90_000 is a minute and a half"
    raise TypeError(f"Times are whole milliseconds (int), not {given!r}: {right}.")


def loop_name(mode: LoopMode | str) -> str:
    """The name of a loop mode. Raises `ValueError` if there is no such mode."""
    if mode not in list(LoopMode):
        raise ValueError(f"There is no loop mode {mode!r}; there are {', '.join(LoopMode)}.")
    return LoopMode(mode).value


def read(model: TypeAdapter[_T], answer: Any) -> _T:
    """The answer as a `model`. Raises `TonearmError` if this client cannot read it."""
    try:
        return model.validate_python(answer)
    except ValidationError as error:
        raise TonearmError(f"The node answered what this client cannot read; update one of them. {error}") from error


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a text stands for: one track, the tracks of a list, or search results, best first. Without `tracks`,
    `problem` says why in a sentence or two. `name` is the name of a list. `selected` is the index of the track in a
    list that the text itself names, or -1."""

    kind: Literal["track", "playlist", "search", "empty", "error"]
    tracks: list[Track]
    problem: str = ""
    name: str = ""
    selected: int = -1

    @classmethod
    def of(cls, answer: Any) -> "Loaded":
        """From the answer of `GET /v0/load`."""
        match read(LOADED_MODEL, answer):
            case LoadedTrack(data=track):
                return cls("track", [track])
            case FoundList(data=listed):
                return cls("playlist", list(listed.tracks), "", listed.info.name, listed.info.selected_track)
            case FoundBySearch(data=found):
                return cls("search", list(found))
            case LoadError(data=failure):
                return cls("error", [], f"{failure.message} {failure.hint}")
        return cls("empty", [], "Nothing was found.")


class Queue:
    """The tracks that wait in a player. `put` and `list` return the ids by which other methods name a track."""

    def __init__(self, connection: Connection, path: str, length: Callable[[], int]) -> None:
        self._connection = connection
        self._path = f"{path}/queue"
        self._length = length

    def __len__(self) -> int:
        """How many tracks wait, according to the last event."""
        return self._length()

    async def put(self, *tracks: Playable, index: int | None = None, metadata: Metadata = None) -> list[str]:
        """Adds all tracks or none, at the end or at `index` (0 is next). `metadata` applies to each track. Returns
        their ids."""
        if not tracks:
            return []
        body: dict[str, Any] = {"tracks": [playable_body(track, metadata) for track in tracks]}
        if index is not None:
            body["index"] = index
        answer = await self._connection.request("POST", self._path, body)
        ids = answer.get("trackIds") or [answer["trackId"]]
        return [str(one) for one in ids]

    async def list(
        self, *, offset: int = 0, limit: int | None = None, wait_ms: int | None = None
    ) -> list[QueuedTrackDetails]:
        """The tracks that wait, with titles and lengths where these are known. The node waits up to `wait_ms` for them,
        at most 5000."""
        query = f"?details=true&offset={offset}"
        query += ("" if limit is None else f"&limit={limit}") + ("" if wait_ms is None else f"&wait={wait_ms}")
        return read(QUEUE_MODEL, await self._connection.request("GET", self._path + query))

    async def remove(self, track: str | QueuedTrackDetails) -> None:
        """Removes a track from the queue. Raises `NotFound` if it is not in the queue."""
        await self._connection.request("DELETE", self._path_of(track))

    async def move(self, track: str | QueuedTrackDetails, index: int) -> None:
        """Moves a track to another place; 0 is next. Raises `NotFound` if it is not in the queue."""
        await self._connection.request("PATCH", self._path_of(track), {"index": index})

    async def shuffle(self) -> None:
        """Puts the queue into a random order."""
        await self._connection.request("POST", f"{self._path}/shuffle")

    async def clear(self) -> None:
        """Removes all tracks from the queue. The current track continues to play."""
        await self._connection.request("DELETE", self._path)

    def _path_of(self, track: str | QueuedTrackDetails) -> str:
        return f"{self._path}/{quote(track_id_of(track), safe='')}"


def track_id_of(track: str | QueuedTrackDetails) -> str:
    return track if isinstance(track, str) else track.id

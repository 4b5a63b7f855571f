"""A node: a program connects to it, and creates or finds players with it."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote
from weakref import WeakValueDictionary

from tonearm.client.connection import Connection
from tonearm.client.errors import PlayerExists
from tonearm.client.events import Event, NodeEventStream
from tonearm.client.filters import preset_body
from tonearm.client.player import Player
from tonearm.client.tracks import (
    FILES_MODEL,
    FOUND_MODEL,
    PLAYERS_MODEL,
    PLAYLIST_MODEL,
    SENT_MODEL,
    SOUND_MODEL,
    STATS_MODEL,
    TRACKS_MODEL,
    Loaded,
    Metadata,
    Playable,
    Track,
    loop_name,
    playable_body,
    read,
)
from tonearm.core.play_queue import LoopMode
from tonearm.protocol.events import EventsLost
from tonearm.protocol.replies import LibraryFiles, LoadedPlaylist, NodeInfo, SentFile, SentSound, Stats

PlayerT = TypeVar("PlayerT", bound=Player)


class Node:
    """A connection to one node.

    async with Node("http://127.0.0.1:2333", password="sesame") as node:
        player = await node.create_player("lobby", "song.flac")
    """

    def __init__(
        self, url: str = "http://127.0.0.1:2333", *, password: str | None = None, timeout_s: float = 10.0
    ) -> None:
        self.url = url.rstrip("/")
        self._connection = Connection(url, password, timeout_s)
        # A handle exists as long as the program has it, or as long as it follows its player.
        self._players: WeakValueDictionary[str, Player] = WeakValueDictionary()

    @classmethod
    def from_env(cls) -> Self:
        """The node at TONEARM_URL, with the password in TONEARM_PASSWORD."""
        return cls(
            os.environ.get("TONEARM_URL") or "http://127.0.0.1:2333", password=os.environ.get("TONEARM_PASSWORD")
        )

    async def __aenter__(self) -> Self:
        """Connects and checks the password. Raises `ConnectError` and `Unauthorized`."""
        try:
            await self._connection.check()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections, and ends all loops over frames and events. The players continue to play."""
        await asyncio.gather(*(player.unfollow() for player in self._players.values()))
        await self._connection.close()

    async def create_player(
        self,
        player_id: str | int,
        track: Playable | None = None,
        *,
        metadata: Metadata = None,
        exist_ok: bool = False,
        paused: bool = False,
        volume: float | None = None,
        loop: LoopMode | Literal["none", "track", "queue"] | None = None,
        preset: str | None = None,
    ) -> Player:
        """Creates a player that plays `track`, or an idle one without a track. If the id exists already, raises
        `PlayerExists`, or with `exist_ok` returns the existing player unchanged."""
        given: dict[str, Any] = {"metadata": metadata, "volume": volume, "paused": paused or None}
        given["loop"] = None if loop is None else loop_name(loop)
        settings = {name: value for name, value in given.items() if value is not None}
        if preset is not None:
            settings["filters"] = preset_body(preset)
        try:
            return await self.create_player_of(Player, str(player_id), track, settings)
        except PlayerExists:
            if not exist_ok:
                raise
        return await self.player(player_id).refresh()

    async def create_player_of(
        self, kind: type[PlayerT], player_id: str, track: Playable | None, settings: Mapping[str, Any]
    ) -> PlayerT:
        """As `create_player`, of a class of your own, with the `settings` that POST /v0/players takes."""
        what = {"idle": True} if track is None else playable_body(track)
        try:
            await self._connection.request("POST", "/v0/players", {"id": player_id, **what, **settings})
        except PlayerExists as error:
            remedy = f"create_player({player_id!r}, exist_ok=True) gives it as it is"
            raise PlayerExists(error.status, error.code, f"A player {player_id!r} exists; {remedy}.") from error
        if (earlier := self._players.get(player_id)) is not None:
            await earlier.unfollow()
        return await self._new_handle(kind, player_id).created()

    async def take_over(self, kind: type[PlayerT], player_id: str) -> PlayerT:
        """The existing player, unchanged, as an object of your own class. An earlier object of the player goes on with
        its events. Raises `PlayerNotFound`."""
        return await self._new_handle(kind, player_id).refresh()

    def _new_handle(self, kind: type[PlayerT], player_id: str) -> PlayerT:
        player = self._players[player_id] = kind(self._connection, player_id)
        return player

    def player(self, player_id: str | int) -> Player:
        """A handle to a player. No request is sent, so a missing player is noticed by the first request."""
        return self._players.setdefault(str(player_id), Player(self._connection, str(player_id)))

    async def players(self) -> list[Player]:
        """All players of the node, with their current states."""
        found = []
        for state in read(PLAYERS_MODEL, await self._connection.request("GET", "/v0/players")):
            player = self.player(state.id)
            player.take_state(state)
            found.append(player)
        return found

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events of all players, on one socket. It begins with the state of each player as a `PlayerState`, and
        sends these states again after a reconnect. Handles such as `node.player("lobby")` are kept up to date by it.
        Errors are raised as by `Player.events`. `QueueEnd` and `PlayerGone` exist only in `Player.events`."""
        stream = NodeEventStream(self._connection)
        await stream.connect()
        async with aclosing(stream.received()) as received:
            async for event in received:
                # The handle is kept until the program has seen the event, so that it finds the new state in it.
                player = None if isinstance(event, EventsLost) else self.player(event.id)
                if player is not None:
                    await player.take_event(event)
                yield event

    async def load(self, text: str, *, limit: int = 10) -> Loaded:
        """Finds the tracks for a text that a user typed: a link, search words, a path or an encoded track. Raises
        `BadRequest` for an empty text, `Forbidden` and `LimitReached`."""
        return Loaded.of(await self._connection.fetched(f"/v0/load?identifier={quote(text, safe='')}&limit={limit}"))

    async def explain(self, identifier: str) -> str | None:
        """Why a URI cannot be played, in a sentence or two. None if it can be played. The node opens the URI to find
        out."""
        path = f"/v0/loadtracks?identifier={quote(identifier, safe='')}&explain=true"
        error = (await self._connection.fetched(path)).get("error")
        return f"{error['message']} {error['hint']}" if error else None

    async def load_playlist(self, identifier: str) -> LoadedPlaylist:
        """All tracks of a playlist. Raises `BadRequest` if `identifier` is not a playlist."""
        path = f"/v0/loadplaylist?identifier={quote(identifier, safe='')}"
        return read(PLAYLIST_MODEL, await self._connection.fetched(path))

    async def send_sound(self, data: bytes) -> SentSound:
        """Sends the bytes of a sound. The node keeps it for a while. Its `uri` can be played, queued and used as an
        overlay. Raises `BadRequest` if it is not audio, `ApiError` if it is too large, and `LimitReached`."""
        return read(SOUND_MODEL, await self._connection.send("POST", "/v0/sounds", data))

    async def end_sound(self, uri: str) -> None:
        """Deletes a sound from the node. Raises `NotFound` if the node does not have it any more."""
        await self._connection.request("DELETE", f"/v0/sounds/{quote(uri.removeprefix('sound:'), safe='')}")

    async def search(self, query: str, *, site: str = "youtube", limit: int = 10) -> list[Track]:
        """The search results, best match first. Raises `BadRequest` on a node without the resolver."""
        path = f"/v0/search?query={quote(query, safe='')}&site={quote(site, safe='')}&limit={limit}"
        return list(read(FOUND_MODEL, await self._connection.fetched(path)).tracks)

    async def files(
        self, path: str = "", query: str = "", *, offset: int = 0, limit: int = 200, details: bool = False
    ) -> LibraryFiles:
        """The content of the library's folder `path`; "" lists the library's folders. With `query`, all files below
        that folder that match every word. Raises `NotFound` and `Forbidden`."""
        query_text = f"path={quote(path, safe='/')}&query={quote(query, safe='')}&offset={offset}&limit={limit}"
        answer = await self._connection.request("GET", f"/v0/files?{query_text}{'&details=true' if details else ''}")
        return read(FILES_MODEL, answer)

    async def send_file(self, file: str | os.PathLike[str] | bytes, name: str = "") -> SentFile:
        """Sends a file of this machine, or bytes under a `name`, into the node's library. The `uri` of the answer can
        be played. Raises `BadRequest` if the file cannot be played, `Forbidden` if the node accepts no files,
        `LimitReached` and `ApiError`."""
        path = f"/v0/files?name={quote(name or ('' if isinstance(file, bytes) else Path(file).name), safe='')}"
        if isinstance(file, bytes):
            return read(SENT_MODEL, await self._connection.send("POST", path, file))
        with await asyncio.to_thread(Path(file).open, "rb") as opened:
            return read(SENT_MODEL, await self._connection.send("POST", path, opened))

    async def decode(self, *encoded: str) -> list[Track]:
        """The tracks behind encoded tracks. Raises `BadRequest`, which names the first invalid one."""
        return read(TRACKS_MODEL, await self._connection.request("POST", "/v0/decodetracks", list(encoded)))

    async def resolve(self, url: str) -> str:
        """The direct link behind a page. Raises `BadRequest` if there is none."""
        return str((await self._connection.fetched(f"/v0/resolve?url={quote(url, safe='')}"))["url"])

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """Sends any request of docs/interface.md that has no method here. Returns the JSON of the answer, or None.
        Raises `ApiError` and `ConnectError`."""
        return await self._connection.request(method, path, body)

    async def info(self) -> NodeInfo:
        """The node's version and build time."""
        return NodeInfo.model_validate(await self._connection.check())

    async def stats(self) -> Stats:
        """The node's load and counters since its start."""
        return read(STATS_MODEL, await self._connection.request("GET", "/v0/stats"))

"""A node: what a program connects to, and where its players come from."""

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
    """One node.

    async with Node("http://127.0.0.1:2333", password="sesame") as node:
        player = await node.create_player("lobby", "song.flac")
    """

    def __init__(
        self, url: str = "http://127.0.0.1:2333", *, password: str | None = None, timeout_s: float = 10.0
    ) -> None:
        self.url = url.rstrip("/")
        self._connection = Connection(url, password, timeout_s)
        # A player's handle lives as long as somebody has it, or it follows its player.
        self._players: WeakValueDictionary[str, Player] = WeakValueDictionary()

    @classmethod
    def from_env(cls) -> Self:
        """The node of TONEARM_URL, with the password of TONEARM_PASSWORD."""
        return cls(
            os.environ.get("TONEARM_URL") or "http://127.0.0.1:2333", password=os.environ.get("TONEARM_PASSWORD")
        )

    async def __aenter__(self) -> Self:
        """Reaches the node and tries the password. Raises `ConnectError` and `Unauthorized`."""
        try:
            await self._connection.check()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends every connection; the players play on."""
        for player in list(self._players.values()):
            await player.unfollow()
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
        """A new player that plays `track`, or waits for one. Raises `PlayerExists`; with `exist_ok` the one that there
        is comes instead, as it is."""
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
        return await (await self._new_handle(kind, player_id)).created()

    async def take_over(self, kind: type[PlayerT], player_id: str) -> PlayerT:
        """The player that there is, as it is, as one of a class of your own. Raises `PlayerNotFound`."""
        return await (await self._new_handle(kind, player_id)).refresh()

    async def _new_handle(self, kind: type[PlayerT], player_id: str) -> PlayerT:
        if (earlier := self._players.get(player_id)) is not None:
            await earlier.unfollow()
        player = kind(self._connection, player_id)
        self._players[player_id] = player
        return player

    def player(self, player_id: str | int) -> Player:
        """A handle; whether there is such a player shows with the first thing that is asked of it."""
        return self._players.setdefault(str(player_id), Player(self._connection, str(player_id)))

    async def players(self) -> list[Player]:
        """All that there are, with their states as they are now."""
        found = []
        for state in read(PLAYERS_MODEL, await self._connection.request("GET", "/v0/players")):
            player = self.player(state.id)
            player.take_state(state)
            found.append(player)
        return found

    async def events(self) -> AsyncGenerator[Event, None]:
        """What happens to all players, on one socket: first the state of each, as a `PlayerState`, and so again after a
        lost connection. What handles show, as `node.player("lobby").position`, is kept by it, too. What is raised, and
        when, is as with `Player.events`; `QueueEnd` and `PlayerGone` are of a player's own events only."""
        stream = NodeEventStream(self._connection)
        await stream.connect()
        async with aclosing(stream.received()) as received:
            async for event in received:
                # Kept until the program has seen the event, so that it finds in the handle what came with it.
                player = None if isinstance(event, EventsLost) else self.player(event.id)
                if player is not None:
                    await player.take_event(event)
                yield event

    async def load(self, text: str, *, limit: int = 10) -> Loaded:
        """What somebody means who types this: a link, words, a path, an encoded track. Raises `BadRequest` for an empty
        text, `Forbidden`, and `LimitReached`."""
        return Loaded.of(
            await self._connection.request("GET", f"/v0/load?identifier={quote(text, safe='')}&limit={limit}")
        )

    async def explain(self, identifier: str) -> str | None:
        """Why a URI cannot be played, in a sentence or two; None when it can. It is opened to look."""
        path = f"/v0/loadtracks?identifier={quote(identifier, safe='')}&explain=true"
        error = (await self._connection.request("GET", path)).get("error")
        return f"{error['message']} {error['hint']}" if error else None

    async def load_playlist(self, identifier: str) -> LoadedPlaylist:
        """All tracks of a playlist. Raises `BadRequest` for what is none."""
        path = f"/v0/loadplaylist?identifier={quote(identifier, safe='')}"
        return read(PLAYLIST_MODEL, await self._connection.request("GET", path))

    async def send_sound(self, data: bytes) -> SentSound:
        """Sends the bytes of a sound, which the node keeps for a while; its `uri` can be played, queued and laid over.
        Raises `BadRequest` for what is no audio, `ApiError` for what is too large, and `LimitReached`."""
        return read(SOUND_MODEL, await self._connection.send("POST", "/v0/sounds", data))

    async def end_sound(self, uri: str) -> None:
        """Has the node forget a sound. Raises `NotFound` when it has done so before."""
        await self._connection.request("DELETE", f"/v0/sounds/{quote(uri.removeprefix('sound:'), safe='')}")

    async def search(self, query: str, *, site: str = "youtube", limit: int = 10) -> list[Track]:
        """The best match first. Raises `BadRequest` on a node without the resolver."""
        path = f"/v0/search?query={quote(query, safe='')}&site={quote(site, safe='')}&limit={limit}"
        return list(read(FOUND_MODEL, await self._connection.request("GET", path)).tracks)

    async def files(
        self, path: str = "", query: str = "", *, offset: int = 0, limit: int = 200, details: bool = False
    ) -> LibraryFiles:
        """What the node's library has in the folder at `path`, "" for its folders; with words in `query`, which files
        below it have all of them. Raises `NotFound` and `Forbidden`."""
        query_text = f"path={quote(path, safe='/')}&query={quote(query, safe='')}&offset={offset}&limit={limit}"
        answer = await self._connection.request("GET", f"/v0/files?{query_text}{'&details=true' if details else ''}")
        return read(FILES_MODEL, answer)

    async def send_file(self, file: str | os.PathLike[str] | bytes, name: str = "") -> SentFile:
        """Sends a file of this machine, or bytes under a `name`, into the node's library; the answer's `uri` can be
        played. Raises `BadRequest` for what cannot be played, `Forbidden` where the node takes no files, `LimitReached`
        and `ApiError`."""
        path = f"/v0/files?name={quote(name or ('' if isinstance(file, bytes) else Path(file).name), safe='')}"
        if isinstance(file, bytes):
            return read(SENT_MODEL, await self._connection.send("POST", path, file))
        with await asyncio.to_thread(Path(file).open, "rb") as opened:
            return read(SENT_MODEL, await self._connection.send("POST", path, opened))

    async def decode(self, *encoded: str) -> list[Track]:
        """Raises `BadRequest` that names the first wrong one."""
        return read(TRACKS_MODEL, await self._connection.request("POST", "/v0/decodetracks", list(encoded)))

    async def resolve(self, url: str) -> str:
        """The direct link behind a page. Raises `BadRequest` when there is none."""
        return str((await self._connection.request("GET", f"/v0/resolve?url={quote(url, safe='')}"))["url"])

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """What has no method here, as docs/interface.md describes it: the JSON that the node answers, or None. Raises
        `ApiError` and `ConnectError`."""
        return await self._connection.request(method, path, body)

    async def info(self) -> NodeInfo:
        """The node's version, and when it was built."""
        return NodeInfo.model_validate(await self._connection.check())

    async def stats(self) -> Stats:
        """How well the node does, in numbers since its start."""
        return read(STATS_MODEL, await self._connection.request("GET", "/v0/stats"))

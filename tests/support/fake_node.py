"""A node that keeps players in memory and plays nothing: what the edge is tested against."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tonearm.audio.sinks import EventSink, FrameSink
from tonearm.core.errors import BadRequest, PlayerExists, PlayerNotFound, ResolverDisabled
from tonearm.core.filters import FilterChange
from tonearm.core.json_value import Json, JsonObject
from tonearm.core.play_queue import LoopMode


@dataclass
class FakePlayer:
    uri: str
    metadata: Json
    waiting: list[JsonObject] = field(default_factory=list)
    done: list[object] = field(default_factory=list)  # what was asked of it, in order
    listeners: list[FrameSink] = field(default_factory=list)
    followers: list[EventSink] = field(default_factory=list)

    @property
    def sinks(self) -> tuple[FrameSink | EventSink, ...]:
        return (*self.listeners, *self.followers)


class FakeNode:
    """Set `refusal` to have every change of a player, and every attach, refused with it."""

    def __init__(self) -> None:
        self.players: dict[str, FakePlayer] = {}
        self.refusal: Exception | None = None
        self.answers_enqueue = True
        self.more_tracks: list[str] = []  # what a playlist adds
        self.unanswered = 0  # requests to enqueue that will never get an answer
        self.resolved: str | None = None
        self.loadable: dict[str, JsonObject] = {}
        self.answers_load = True
        self.loads_running = 0
        self.subscriptions: list[tuple[int | None, bool]] = []
        self.first_message: bytes | None = None  # written to each new listener at once
        self.backlog: list[str] = []  # sent to each new follower at once

    def add_player(self, player_id: str = "p") -> FakePlayer:
        player = self.players[player_id] = FakePlayer("clip.mp3", {})
        return player

    def close_sinks(self, code: int, reason: str) -> None:
        for player in self.players.values():
            for sink in player.sinks:
                sink.close(code, reason)

    async def create_player(
        self, player_id: str, uri: str, metadata: Json, *, came_through_proxy: bool = False
    ) -> None:
        if "!" in player_id:
            raise BadRequest("The id holds a character that is not allowed.")
        if player_id in self.players:
            raise PlayerExists("There is a player with this id.")
        self._refuse()
        self.players[player_id] = FakePlayer(uri, metadata)

    async def delete_player(self, player_id: str) -> None:
        del self.players[player_id]

    def list_players(self) -> Iterator[JsonObject]:
        return map(self.player_state, self.players)

    def player_state(self, player_id: str) -> JsonObject:
        player = self._player(player_id)
        return {"id": player_id, "track": {"info": {"uri": player.uri}}, "metadata": player.metadata}

    def has_player(self, player_id: str) -> bool:
        return player_id in self.players

    def play(self, player_id: str) -> None:
        self._change(player_id, "play")

    def pause(self, player_id: str) -> None:
        self._change(player_id, "pause")

    def skip(self, player_id: str) -> None:
        self._change(player_id, "skip")

    async def enqueue(self, player_id: str, uri: str, metadata: Json, *, came_through_proxy: bool = False) -> list[str]:
        self._refuse()
        if not self.answers_enqueue:
            self.unanswered += 1
            await asyncio.Event().wait()
        self._player(player_id).waiting.append({"id": "track-1", "uri": uri, "metadata": metadata})
        return ["track-1", *self.more_tracks]

    def waiting(self, player_id: str) -> list[JsonObject]:
        return self._player(player_id).waiting

    def set_loop(self, player_id: str, mode: LoopMode) -> None:
        self._change(player_id, mode)

    def filters(self, player_id: str) -> JsonObject:
        self._player(player_id)
        return {"volume": 1.0}

    def change_filters(self, player_id: str, change: FilterChange) -> None:
        self._change(player_id, change)

    def change_metadata(self, player_id: str, merge: bool, value: Json) -> None:
        self._change(player_id, (merge, value))

    def attach_listener(self, player_id: str, sink: FrameSink) -> Callable[[], None]:
        self._refuse()
        listeners = self._player(player_id).listeners
        listeners.append(sink)
        if self.first_message is not None:
            sink.write(self.first_message)
        return lambda: listeners.remove(sink)

    def subscribe(self, player_id: str, sink: EventSink, *, since: int | None, snapshot: bool) -> Callable[[], None]:
        self._refuse()
        followers = self._player(player_id).followers
        followers.append(sink)
        self.subscriptions.append((since, snapshot))
        for text in self.backlog:
            sink.send(text)
        return lambda: followers.remove(sink)

    async def resolve(self, url: str, *, came_through_proxy: bool = False) -> str:
        if self.resolved is None:
            raise ResolverDisabled("The resolver is off. Set resolver.enabled.")
        return f"{self.resolved}?of={url}"

    async def load_track(self, identifier: str, *, came_through_proxy: bool = False) -> JsonObject | None:
        self._refuse()
        self.loads_running += 1
        try:
            if not self.answers_load:
                await asyncio.Event().wait()
            return self.loadable.get(identifier)
        finally:
            self.loads_running -= 1

    @contextmanager
    def refusing(self, refusal: Exception) -> Iterator[None]:
        """Everything is refused with `refusal` while this lasts."""
        self.refusal = refusal
        try:
            yield
        finally:
            self.refusal = None

    def _change(self, player_id: str, what: object) -> None:
        self._refuse()
        self._player(player_id).done.append(what)

    def _player(self, player_id: str) -> FakePlayer:
        if player_id not in self.players:
            raise PlayerNotFound("There is no such player.")
        return self.players[player_id]

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise self.refusal

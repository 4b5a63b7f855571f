"""A node for tests of the edge: its players play nothing and write down what is asked of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import cast

from tests.support.tracks import FILE_MISSING, make_status
from tonearm.core.errors import BadRequest, PlayerExists, PlayerNotFound, ResolverDisabled
from tonearm.core.failure import PlayFailure
from tonearm.core.json_value import Json
from tonearm.core.play_queue import LeftOut, PlayedTrack
from tonearm.core.player_status import PlayerStatus, WaitingTracks
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track import Track
from tonearm.core.track_info import TrackInfo
from tonearm.node.node import AddedTracks, Node, WantedSettings
from tonearm.node.wanted_tracks import WantedTrack
from tonearm.player.clients.sinks import EventSink, FrameSink


class FakePlayer:
    """`done` holds every order, such as `("set_loop", LoopMode.QUEUE)`; any method's name is one."""

    def __init__(self, node: "FakeNode", player_id: str, uri: str, metadata: Json) -> None:
        self._node = node
        self._id = player_id
        self._track = fake_track("track-0", uri, {})
        self._metadata = metadata
        self.done: list[tuple[object, ...]] = []
        self.queue = WaitingTracks("1ife", 7, ())
        self.listeners: list[FrameSink] = []
        self.followers: list[EventSink] = []
        self.subscriptions: list[tuple[int | None, bool]] = []
        self.lives: list[str | None] = []
        self.history: list[PlayedTrack] = []

    def __getattr__(self, order: str) -> Callable[..., None]:
        def note(*arguments: object, **named: object) -> None:
            self._node.refuse()
            self.done.append((order, *arguments, *named.values()))

        return note

    @property
    def sinks(self) -> tuple[FrameSink | EventSink, ...]:
        return (*self.listeners, *self.followers)

    def status(self) -> PlayerStatus:
        return make_status(self._id, self._track, self._metadata)

    def title(self) -> tuple[str, str]:
        return "", self._track.info.title

    def attach(self, sink: FrameSink, *, is_counted: bool = True, is_stranger: bool = False) -> Callable[[], None]:
        self._node.refuse()
        self.listeners.append(sink)
        if self._node.first_message is not None:
            sink.write(self._node.first_message)
        return lambda: self.listeners.remove(sink)

    def subscribe(
        self, sink: EventSink, since: int | None, wants_snapshot: bool, life: str | None = None
    ) -> Callable[[], None]:
        self._node.refuse()
        self.followers.append(sink)
        self.subscriptions.append((since, wants_snapshot))
        self.lives.append(life)
        for text in self._node.backlog:
            sink.send(text)
        return lambda: self.followers.remove(sink)


class FakeNode:
    """Set a refusal with `refusing` to have every order, attach, create and load refused with it."""

    def __init__(self) -> None:
        self.fakes: dict[str, FakePlayer] = {}
        self.answers_enqueue = True
        self.more_tracks: list[str] = []  # what a playlist adds
        self.left_out = LeftOut()  # what it left out
        self.wanted: list[object] = []  # what tracks were asked for, and how
        self.followers: list[EventSink] = []  # of all players
        self.unanswered = 0  # requests to enqueue that will never get an answer
        self.resolved: str | None = None
        self.loadable: dict[str, TrackInfo] = {}
        self.answers_load = True
        self.loads_running = 0
        self.first_message: bytes | None = None  # written to each new listener at once
        self.backlog: list[str] = []  # sent to each new follower at once
        self.unsaved = ""  # the player that the disk does not take in time
        self._refusal: Exception | None = None

    async def saved(self, player_id: str) -> bool:
        return player_id != self.unsaved

    def as_node(self) -> Node:
        """For the edge, which asks a node for no more than what stands here."""
        return cast(Node, self)

    def add_player(self, player_id: str = "p") -> FakePlayer:
        player = self.fakes[player_id] = FakePlayer(self, player_id, "clip.mp3", {})
        return player

    def close_sinks(self, code: int, reason: str) -> None:
        for player in self.fakes.values():
            for sink in player.sinks:
                sink.close(code, reason)

    @contextmanager
    def refusing(self, refusal: Exception) -> Iterator[None]:
        """Everything is refused with `refusal` while this lasts."""
        self._refusal = refusal
        try:
            yield
        finally:
            self._refusal = None

    def refuse(self) -> None:
        if self._refusal is not None:
            raise self._refusal

    # What the edge asks of a node

    async def create_player(
        self,
        player_id: str,
        track: WantedTrack | None,
        metadata: Json,
        *,
        settings: WantedSettings,
        came_through_proxy: bool = False,
        client: str = "",
    ) -> LeftOut:
        if "!" in player_id:
            raise BadRequest("The id holds a character that is not allowed.")
        if player_id in self.fakes:
            raise PlayerExists("There is a player with this id.")
        self.refuse()
        self.wanted.append((track, settings))
        self.fakes[player_id] = FakePlayer(self, player_id, (track and track.uri) or "encoded", metadata)
        return self.left_out

    async def delete_player(self, player_id: str, client: str = "") -> None:
        del self.fakes[player_id]

    def has_player(self, player_id: str) -> bool:
        return player_id in self.fakes

    def player(self, player_id: str) -> FakePlayer:
        if player_id not in self.fakes:
            raise PlayerNotFound("There is no such player.")
        return self.fakes[player_id]

    def players(self) -> Iterator[FakePlayer]:
        return iter(self.fakes.values())

    @asynccontextmanager
    async def changing_queue(self, player_id: str, patience_s: float | None = None) -> AsyncIterator[None]:
        yield

    async def enqueue(
        self,
        player_id: str,
        track: WantedTrack,
        metadata: Json,
        *,
        index: int | None = None,
        came_through_proxy: bool = False,
    ) -> AddedTracks:
        self.refuse()
        if not self.answers_enqueue:
            self.unanswered += 1
            await asyncio.Event().wait()
        self.wanted.append((track, index))
        player = self.player(player_id)
        queued = fake_track("track-1", track.uri or "encoded", metadata)
        player.queue = replace(player.queue, tracks=(*player.queue.tracks, queued))
        return AddedTracks(("track-1", *self.more_tracks), self.left_out)

    async def enqueue_all(
        self,
        player_id: str,
        wanted: Sequence[WantedTrack],
        *,
        index: int | None = None,
        came_through_proxy: bool = False,
    ) -> AddedTracks:
        self.refuse()
        self.wanted.append((tuple(wanted), index))
        return AddedTracks(tuple(f"track-{number}" for number in range(1, len(wanted) + 1)))

    async def replace_track(
        self, player_id: str, wanted: WantedTrack, *, came_through_proxy: bool = False
    ) -> AddedTracks:
        self.refuse()
        self.wanted.append(wanted)
        return AddedTracks(("track-1", *self.more_tracks), self.left_out)

    def follow_all(self, sink: EventSink) -> Callable[[], None]:
        self.refuse()
        self.followers.append(sink)
        return lambda: self.followers.remove(sink)

    async def queue_details_known(self, player_id: str, first: int, count: int, wait_s: float) -> None:
        self.wanted.append((first, count, wait_s))

    async def resolve(self, url: str, *, came_through_proxy: bool = False) -> str:
        if self.resolved is None:
            raise ResolverDisabled("The resolver is off. Set resolver.enabled.")
        return f"{self.resolved}?of={url}"

    @property
    def lookup(self) -> "FakeNode":
        return self

    async def load(self, identifier: str, *, came_through_proxy: bool = False) -> TrackInfo | PlayFailure:
        self.refuse()
        self.loads_running += 1
        try:
            if not self.answers_load:
                await asyncio.Event().wait()
            return self.loadable.get(identifier, FILE_MISSING)
        finally:
            self.loads_running -= 1


def fake_track(track_id: str, uri: str, metadata: Json) -> Track:
    """A track whose `identifier` and `uri` are the same."""
    return Track(track_id, parse_source_uri("clip.mp3"), TrackInfo(uri, uri, "clip"), metadata)

"""The real edge on a real port, in front of a real node in which nothing happens by itself: no source opens, no decoder
answers, and the clock stands."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

from tests.support.hand_time import HandTime
from tests.support.player_bench import HandPool
from tests.support.stand_in_voices import StandInVoices
from tonearm.core.opened_source import OpenedSource, ReportWait
from tonearm.core.play_queue import Playlist
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import SourceUri
from tonearm.description import cluster
from tonearm.description.operation import Operation
from tonearm.node.node import AddedTracks, Node
from tonearm.node.parts import NodeSettings, usual_parts
from tonearm.node.tracks import Lookup
from tonearm.player.clients.sinks import EventSink, FrameSink
from tonearm.player.clock import Clock
from tonearm.player.handle import PlayerHandle
from tonearm.server.app import App, EdgeSettings, build_app, build_public_app, listen_on
from tonearm.server.audio_settings import AudioSettings
from tonearm.server.http_server import ConnectionLimits
from tonearm.sources.opener import SourceOpener


class StillOpener(SourceOpener):
    """No source answers."""

    async def open(self, uri: SourceUri, report_wait: ReportWait = lambda wait: None) -> OpenedSource | Playlist:
        await asyncio.Event().wait()
        raise AssertionError


class ToldLookup(Lookup):
    """Has an `answer` for whatever is asked, unless that is None, and notes what was `asked` last."""

    answer: Any = None
    asked = ""

    async def load(self, identifier: str, **how: bool) -> Any:
        self.asked = identifier
        return self.answer or await super().load(identifier, **how)

    async def resolve(self, url: str, **how: bool) -> Any:
        self.asked = url
        return self.answer or await super().resolve(url, **how)


class StillNode(Node):
    """Notes the connections of its clients: `listeners`, and `followers` of one player or of all.

    `fails`: what a method raises, by its name. `unsaved`: players of which the file does not know all.
    """

    def __init__(self, settings: NodeSettings, voice: StandInVoices | None = None) -> None:
        time = HandTime()
        usual = usual_parts(StillOpener(SourcePolicy(), private_networks=True), settings)
        clock = Clock(time.now_s, time.call_later)
        super().__init__(replace(usual, clock=clock, pool=_StillPool(), template=_NoTemplate(), voice=voice), settings)
        self.listeners: list[FrameSink] = []
        self.followers: list[EventSink] = []
        self.lookup: ToldLookup = ToldLookup(usual.opener, usual.loader)
        self.fails: dict[str, Exception] = {}
        self.unsaved: set[str] = set()

    @property
    def sinks(self) -> list[FrameSink | EventSink]:
        return [*self.listeners, *self.followers]

    async def saved(self, player_id: str) -> bool:
        return player_id not in self.unsaved

    async def create_player(self, player_id: str, *values: Any, **named: Any) -> AddedTracks:
        self._fail("create_player")
        return await super().create_player(player_id, *values, **named)

    def player(self, player_id: str) -> PlayerHandle:
        self._fail("player")
        return cast(PlayerHandle, _NotedPlayer(super().player(player_id), self))

    def follow_all(self, sink: EventSink) -> Callable[[], None]:
        return _noted(self.followers, sink, super().follow_all(sink))

    def _fail(self, method: str) -> None:
        if method in self.fails:
            raise self.fails[method]


class _NotedPlayer:
    """A player whose clients the node notes."""

    def __init__(self, player: PlayerHandle, node: StillNode) -> None:
        self._player = player
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def attach(self, sink: FrameSink, **options: bool) -> Callable[[], None]:
        return _noted(self._node.listeners, sink, self._player.attach(sink, **options))

    def subscribe(self, sink: EventSink, **options: Any) -> Callable[[], None]:
        return _noted(self._node.followers, sink, self._player.subscribe(sink, **options))


class _StillPool(HandPool):
    async def start(self, *, spare_at_once: bool = False) -> None: ...


class _NoTemplate:
    def load(self) -> None: ...

    async def stop(self) -> None: ...


def _noted(sinks: list[Any], sink: FrameSink | EventSink, leave: Callable[[], None]) -> Callable[[], None]:
    sinks.append(sink)

    def left() -> None:
        sinks.remove(sink)
        leave()

    return left


@asynccontextmanager
async def still_node(
    settings: NodeSettings | None = None, voice: StandInVoices | None = None
) -> AsyncIterator[StillNode]:
    """With an idle player, `p`."""
    node = StillNode(settings or NodeSettings(), voice)
    await node.start()
    await node.create_player("p", None, {})
    try:
        yield node
    finally:
        await node.stop()


def all_operations(settings: EdgeSettings | None = None, *, of_cluster: bool = True) -> tuple[Operation, ...]:
    """What a node answers with these settings; by default all that the interface has, `of_cluster` too."""
    if settings is not None:
        return build_app(cast(Node, None), settings).operations
    found = build_app(cast(Node, None), EdgeSettings(password="sesame", has_login=True)).operations
    others = [one for one in vars(cluster).values() if of_cluster and isinstance(one, Operation)]
    return tuple(operation for operation in (*found, *others) if operation.tag)


@asynccontextmanager
async def running_edge(node: Node, settings: EdgeSettings | None = None, port: int = 0) -> AsyncIterator[int]:
    """The port of an edge in front of `node`, which listens on 127.0.0.1 while this lasts."""
    async with _listening(build_app(node, settings or EdgeSettings()), port) as port:
        yield port


@asynccontextmanager
async def running_public(node: Node, limits: ConnectionLimits | None = None) -> AsyncIterator[int]:
    """The port of a public address of `node`, at which the player `p` is heard."""
    app = build_public_app(node, "p".__eq__, limits or ConnectionLimits(), AudioSettings())
    async with _listening(app, 0) as port:
        yield port


@asynccontextmanager
async def _listening(app: App, port: int) -> AsyncIterator[int]:
    server = await listen_on(app, "127.0.0.1", port)
    try:
        yield server.port
    finally:
        await server.close()

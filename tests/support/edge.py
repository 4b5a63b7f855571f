"""The real edge on a real port, in front of a real node in which nothing happens by itself: no source opens, no decoder
answers, and the clock stands."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tests.support.hand_time import HandTime
from tests.support.player_bench import HandPool
from tonearm.core.opened_source import OpenedSource, ReportWait
from tonearm.core.play_queue import Playlist
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import SourceUri
from tonearm.node.node import Node, NodeSettings
from tonearm.player.clients.sinks import EventSink, FrameSink
from tonearm.player.clock import Clock
from tonearm.player.player import Player
from tonearm.server.app import App, EdgeSettings, build_app, listen_on
from tonearm.sources.opener import SourceOpener


class StillOpener(SourceOpener):
    """No source answers."""

    async def open(self, uri: SourceUri, report_wait: ReportWait = lambda wait: None) -> OpenedSource | Playlist:
        await asyncio.Event().wait()
        raise AssertionError


class StillNode(Node):
    """Notes the connections of its clients: `listeners`, and `followers` of one player or of all."""

    def __init__(self) -> None:
        super().__init__(StillOpener(SourcePolicy(), private_networks=True), NodeSettings())
        self.listeners: list[FrameSink] = []
        self.followers: list[EventSink] = []

    @property
    def sinks(self) -> list[FrameSink | EventSink]:
        return [*self.listeners, *self.followers]

    def follow_all(self, sink: EventSink) -> Callable[[], None]:
        return _noted(self.followers, sink, super().follow_all(sink))

    def attach(self, player: Player, sink: FrameSink, **options: bool) -> Callable[[], None]:
        return _noted(self.listeners, sink, _ATTACH(player, sink, **options))

    def subscribe(self, player: Player, sink: EventSink, **options: Any) -> Callable[[], None]:
        return _noted(self.followers, sink, _SUBSCRIBE(player, sink, **options))


_ATTACH, _SUBSCRIBE = Player.attach, Player.subscribe


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
async def still_node(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StillNode]:
    """With an idle player, `p`."""
    time = HandTime()
    monkeypatch.setattr("tonearm.node.node.Clock", lambda: Clock(time.now_s, time.call_later))
    monkeypatch.setattr("tonearm.node.node.DecoderPool", lambda *_, **__: _StillPool())
    monkeypatch.setattr("tonearm.node.node.DecoderTemplate", lambda *_: _NoTemplate())
    node = StillNode()
    monkeypatch.setattr(Player, "attach", lambda *given, **options: node.attach(*given, **options))
    monkeypatch.setattr(Player, "subscribe", lambda *given, **options: node.subscribe(*given, **options))
    await node.start()
    await node.create_player("p", None, {})
    try:
        yield node
    finally:
        await node.stop()


def edge_of_nothing(settings: EdgeSettings) -> App:
    """What asks no node, for its routes."""
    return build_app(cast(Node, None), settings)


@asynccontextmanager
async def running_edge(node: Node, settings: EdgeSettings | None = None) -> AsyncIterator[int]:
    """The port of an edge in front of `node`, which listens on 127.0.0.1 while this lasts."""
    server = await listen_on(build_app(node, settings or EdgeSettings()), "127.0.0.1", 0)
    try:
        yield server.port
    finally:
        await server.close()

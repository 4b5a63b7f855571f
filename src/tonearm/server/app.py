"""The HTTP server as a whole: its settings, how it is built, started and stopped."""

import asyncio
import errno
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web

from tonearm.core.figures import ClusterFigures
from tonearm.core.frame import Output
from tonearm.core.source_uri import in_url
from tonearm.dashboard.page_files import ShownNode, page_files
from tonearm.description.operation import Operation
from tonearm.node.node import Node
from tonearm.player.handle import Listened
from tonearm.server.access import OriginRules, PasswordCheck
from tonearm.server.audio_settings import AudioSettings
from tonearm.server.audio_streams import AudioStreamRoutes, FindListened
from tonearm.server.http_server import ConnectionLimits, EdgeHttpServer
from tonearm.server.login import Login
from tonearm.server.public import PublicEdge, PublicEvents, PublicPage
from tonearm.server.routes_files import FileRoutes
from tonearm.server.routes_login import LoginRoutes
from tonearm.server.routes_node import DashboardRoutes, DescriptionRoutes, FigureRoutes
from tonearm.server.routes_overlays import OverlayRoutes
from tonearm.server.routes_players import PlayerRoutes, QueueRoutes
from tonearm.server.routes_sounds import SoundRoutes
from tonearm.server.routes_state import StateRoutes
from tonearm.server.routes_tracks import TrackRoutes
from tonearm.server.routes_voice import VoiceRoutes
from tonearm.server.routing import ClusterSide, Edge, NodeEdge, Route, RouteTable
from tonearm.server.sockets import AudioSocketRoute, EventSocketRoutes
from tonearm.server.streams import OpenStreams

PING_INTERVAL_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """`password` and `schemes` are for `PasswordCheck`, `ping_interval_s` is for `OpenStreams`.

    `hosts` and `allowed_origins` are for `OriginRules`. `open_paths` are answered without the password. `clip_uri` is
    the dashboard's suggestion of a first track. `requests_per_second` may come from one address; 0: any number.
    With `has_login` a node with a password serves the dashboard; `logged_out_path` and `now_s` are for `Login`.
    """

    password: str = ""
    schemes: Collection[str] = ()
    ping_interval_s: float = PING_INTERVAL_S
    listens_on_loopback_only: bool = True
    hosts: Collection[str] = ()
    allowed_origins: Collection[str] = ()
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    audio: AudioSettings = field(default_factory=AudioSettings)
    open_paths: Collection[str] = ()
    clip_uri: str = ""
    requests_per_second: float = 0.0
    has_login: bool = False
    logged_out_path: Path | None = None
    now_s: Callable[[], float] = time.monotonic

    @property
    def is_for_own_machine(self) -> bool:
        """Whether only this machine reaches the node, and everybody on it may control the node."""
        return self.listens_on_loopback_only and not self.password


class ClusterRoutes(ClusterSide, Protocol):
    """`own` is this node's name, `name` the cluster's. `serves` gets the open streams and the audio settings of the
    address."""

    @property
    def own(self) -> str: ...

    @property
    def name(self) -> str: ...

    def serves(self, streams: OpenStreams, audio: AudioSettings) -> None: ...

    def routes(self) -> Sequence[Route]: ...

    def figures(self) -> ClusterFigures: ...


_BACKLOG: Final = 1024  # hundreds of players may connect their sockets at once

# Together with the closing of connections less than two seconds: aiohttp waits its timeout twice.
_STREAMS_PATIENCE_S: Final = 0.1
_REQUESTS_PATIENCE_S: Final = 0.25


class BindError(Exception):
    """The node cannot listen on an address. The message names the address and the reason; `section` is the section of
    the configuration. `is_in_use`: another program listens there."""

    def __init__(self, section: str, host: str, port: int, error: OSError) -> None:
        self.section = section
        number = error.errno or 0
        self.is_in_use = number == errno.EADDRINUSE
        reason = os.strerror(number).lower() if number > 0 else str(error)  # a name's lookup has negative numbers
        super().__init__(
            f"cannot listen on {in_url(host)}:{port}: {reason}; choose another {section}.host or {section}.port"
        )


@dataclass(frozen=True, slots=True)
class App:
    """The application of an address, not listening yet. `name` is its section in the configuration."""

    edge: Edge
    connections: ConnectionLimits
    streams: OpenStreams
    operations: tuple[Operation, ...] = ()
    name: str = "server"


def build_app(node: Node, settings: EdgeSettings, cluster: ClusterRoutes | None = None) -> App:
    """Builds the application of the node's own address, which also serves the other nodes of its cluster."""
    streams = OpenStreams(settings.ping_interval_s, settings.connections.close_grace_s)
    groups = (
        TrackRoutes(node),
        SoundRoutes(node),
        PlayerRoutes(node, "" if cluster is None else cluster.own),
        QueueRoutes(node),
        OverlayRoutes(node),
        VoiceRoutes(node),
        AudioSocketRoute(_finding(node), streams, settings.audio),
        EventSocketRoutes(node, streams),
        AudioStreamRoutes(_finding(node), streams, settings.audio),
        FileRoutes(node),
        FigureRoutes(node, None if cluster is None else cluster.figures),
        StateRoutes(node),
    )
    routes = tuple(chain.from_iterable(group.routes() for group in groups))
    if cluster is not None:
        cluster.serves(streams, settings.audio)
        routes = (*routes, *cluster.routes())
    login = None
    if settings.has_login and settings.password:
        name = "" if cluster is None else cluster.name
        login = Login(settings.password, settings.logged_out_path, settings.now_s, cluster=name)
    if login is not None:  # before the page's files, whose route matches any name
        routes = (*routes, *LoginRoutes(login).routes())
    if settings.is_for_own_machine or login is not None:
        has_login, in_cluster = login is not None, cluster is not None
        shown = ShownNode("this node", "..", settings.clip_uri, "..", has_login=has_login, in_cluster=in_cluster)
        files = page_files([shown])
        routes = (*routes, *DashboardRoutes(files, is_for_own_machine=login is None).routes())
    routes = (*routes, *DescriptionRoutes(routes).routes())
    password_check = PasswordCheck(settings.password, settings.schemes)
    origin_rules = OriginRules(
        node_is_open=password_check.is_open,
        listens_on_loopback_only=settings.listens_on_loopback_only,
        hosts=settings.hosts,
        allowed_origins=settings.allowed_origins,
    )
    edge = NodeEdge(
        node,
        password_check,
        origin_rules,
        RouteTable(routes),
        settings.open_paths,
        settings.requests_per_second,
        login,
        cluster,
    )
    return App(edge, settings.connections, streams, tuple(route.operation for route in routes))


def build_public_app(
    node: Node, is_listed: Callable[[str], bool], connections: ConnectionLimits, audio: AudioSettings
) -> App:
    """Builds the application of the public address of `node`. There anybody may listen to the players for whose ids
    `is_listed` is true, and do nothing else."""
    streams = OpenStreams(PING_INTERVAL_S, connections.close_grace_s)
    edge = PublicEdge(
        node,
        is_listed,
        AudioStreamRoutes(_finding(node), streams, audio, serves_strangers=True),
        PublicEvents(node, streams),
        PublicPage(node, is_listed, audio.station.name),
    )
    return App(edge, connections, streams, name="public")


def _finding(node: Node) -> FindListened:
    async def find(player_id: str, output: Output, burst_ms: int | None) -> Listened:
        return node.player(player_id)

    return find


async def listen_on(app: App, host: str, port: int, *, own_port: int | None = None) -> "Server":
    """Listens on `host` and `port`; port 0 lets the system choose a port. With `own_port` the server also listens on
    that port, and shares `port` with other processes. Raises `BindError`."""
    http_server = EdgeHttpServer(app.edge.handle, app.connections)
    runner = web.ServerRunner(http_server, shutdown_timeout=_REQUESTS_PATIENCE_S)
    await runner.setup()
    sites = [web.TCPSite(runner, host, port, backlog=_BACKLOG, reuse_port=own_port is not None)]
    if own_port is not None:
        sites.append(web.TCPSite(runner, host, own_port, backlog=_BACKLOG))
    for site in sites:
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise BindError(app.name, host, site.port, error) from error
    return Server(app, http_server, runner, sites)


class Server:
    """A listening application. To stop: `stop_accepting`, then the node closes its sinks, then `close`."""

    def __init__(
        self, app: App, http_server: EdgeHttpServer, runner: web.ServerRunner, sites: Sequence[web.TCPSite]
    ) -> None:
        self._app = app
        self._http_server = http_server
        self._runner = runner
        self._sites = sites
        self._is_accepting = True

    @property
    def port(self) -> int:
        """The port on which the server really listens."""
        return self._sites[0].port

    async def stop_accepting(self) -> None:
        """Takes no new connections, and no new requests on the open ones. Requests under way go on."""
        if self._is_accepting:
            self._is_accepting = False
            self._app.edge.stop()
            for site in self._sites:
                await site.stop()

    async def close(self) -> None:
        """Ends every connection in less than two seconds; connections that do not end by themselves are cut."""
        await self.stop_accepting()
        # aiohttp stops reading when its clean-up begins, so the sockets' close handshakes come before that.
        streams = self._app.streams
        await streams.close_all(streams.close_grace_s + _STREAMS_PATIENCE_S)
        transports = [connection.transport for connection in self._http_server.connections]
        await self._runner.cleanup()
        for transport in transports:
            if isinstance(transport, asyncio.Transport):
                transport.abort()

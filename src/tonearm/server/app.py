"""The HTTP server as a whole: putting it together, starting it, stopping it.

What the edge needs of the configuration.
"""

import asyncio
from dataclasses import dataclass
from itertools import chain
from typing import Final

from aiohttp import web

from tonearm.server.access import PasswordCheck
from tonearm.server.http_server import EdgeHttpServer
from tonearm.server.node_api import NodeApi
from tonearm.server.routes_players import InfoRoutes, PlayerRoutes
from tonearm.server.routes_tracks import TrackRoutes
from tonearm.server.routing import Edge, Route, RouteTable
from tonearm.server.sockets import AudioSocketRoutes, EventSocketRoutes
from tonearm.server.streams import CLOSE_GRACE_S, OpenStreams, WavStreamRoutes


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """`password` empty: everyone is let in. A socket that answers no ping for two intervals is cut."""

    password: str = ""
    ping_interval_s: float = 20.0


_BACKLOG: Final = 1024  # hundreds of players may connect their sockets at once

# Together under two seconds: aiohttp waits its timeout twice.
_STREAMS_PATIENCE_S: Final = CLOSE_GRACE_S + 0.1
_REQUESTS_PATIENCE_S: Final = 0.25


class BindError(Exception):
    """The address cannot be listened on. The message says which and why."""


class App:
    """The edge of one node, not listening yet."""

    def __init__(self, edge: Edge, streams: OpenStreams, routes: tuple[Route, ...]) -> None:
        self.edge = edge
        self.streams = streams
        self.routes = routes


def build_app(node: NodeApi, settings: EdgeSettings) -> App:
    """Puts the edge together."""
    streams = OpenStreams()
    ping_interval_s = settings.ping_interval_s
    groups = (
        InfoRoutes(),
        TrackRoutes(node),
        PlayerRoutes(node),
        AudioSocketRoutes(node, streams, ping_interval_s=ping_interval_s),
        EventSocketRoutes(node, streams, ping_interval_s=ping_interval_s),
        WavStreamRoutes(node, streams),
    )
    routes = tuple(chain.from_iterable(group.routes() for group in groups))
    return App(Edge(node, PasswordCheck(settings.password), RouteTable(routes)), streams, routes)


async def serve(app: App, host: str, port: int) -> "Server":
    """Listens on `host` and `port`; port 0 lets the system choose one. Raises `BindError`."""
    http_server = EdgeHttpServer(app.edge.handle)
    runner = web.ServerRunner(http_server, shutdown_timeout=_REQUESTS_PATIENCE_S)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=_BACKLOG)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise BindError(
            f"Cannot listen on {host}:{port}: {error}. Choose another server.host or server.port."
        ) from error
    return Server(http_server, runner, site, app.streams)


class Server:
    """A listening edge. To stop: `stop_accepting`, then the node closes its sinks, then `close`."""

    def __init__(
        self, http_server: EdgeHttpServer, runner: web.ServerRunner, site: web.TCPSite, streams: OpenStreams
    ) -> None:
        self._http_server = http_server
        self._runner = runner
        self._site = site
        self._streams = streams
        self._is_accepting = True

    @property
    def port(self) -> int:
        """The port that is really listened on."""
        return self._site.port

    async def stop_accepting(self) -> None:
        """Takes no new connections. What is connected goes on."""
        if self._is_accepting:
            self._is_accepting = False
            await self._site.stop()

    async def close(self) -> None:
        """Ends every connection, the stuck ones by cutting them, in less than two seconds."""
        await self.stop_accepting()
        # aiohttp stops reading when its clean-up begins, so the sockets' close handshakes come before that.
        await self._streams.close_all(_STREAMS_PATIENCE_S)
        transports = [connection.transport for connection in self._http_server.connections]
        await self._runner.cleanup()
        for transport in transports:
            if isinstance(transport, asyncio.Transport):
                transport.abort()

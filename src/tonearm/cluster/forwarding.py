"""Forwards requests and event sockets to the node that has the player, and passes the answers back.

A forwarded request has the header `Tonearm-Hop`. The node that gets it answers it, so no request goes in a circle.
Event sockets outlive a move of the player: this node connects to the new node, and the client's socket stays open.
"""

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar

import aiohttp
import msgspec
from aiohttp import WSMsgType, web
from yarl import URL

from tonearm.core.cluster import NodeRecord
from tonearm.core.errors import BadRequest, EngineGone, LimitReached, NodeUnreachable, PlayerNotFound, RequestError
from tonearm.core.events import EventMessage, EventsLost
from tonearm.protocol.event_rendering import event_text
from tonearm.protocol.framing import CloseCode
from tonearm.server.http_server import EdgeRequest
from tonearm.server.routing import parse_target
from tonearm.server.sockets import wants_states
from tonearm.server.streams import OpenStreams
from tonearm.server.websocket import WebSocketConnection, text_frame

HOP: Final = "Tonearm-Hop"
NODE: Final = "Tonearm-Node"
# Headers of a single hop (RFC 9110, 7.6.1), those that are written anew, and those by which this node judged the page.
# The body was unpacked.
_NOT_PASSED: Final = frozenset(
    {
        "authorization", "connection", "content-encoding", "content-length", "cookie", "expect", "host", "keep-alive",
        "origin", "proxy-connection", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "sec-fetch-user",
        "sec-websocket-extensions", "sec-websocket-key", "sec-websocket-protocol", "sec-websocket-version", "te",
        "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_NOT_BACK: Final = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "vary"}
)
_CONNECT_TIMEOUT_S: Final = 2.0
_ENGINE_ASK_S: Final = 1.0
_ASK_TIMEOUT: Final = aiohttp.ClientTimeout(sock_connect=_CONNECT_TIMEOUT_S, sock_read=10.0)
_PING_INTERVAL_S: Final = 4.0  # the connection to a frozen node ends before its players go on elsewhere
_AGAIN_AFTER_S: Final = 0.01  # at first, then doubled each time up to
_AGAIN_AT_LAST_S: Final = 0.25
_LOOK_EVERY_S: Final = 0.25
_LONGER_S: Final = 14.0  # than a lease a socket waits until some node has its player
_NODES_AGAIN_S: Final = 1.0
_MOST_PENDING_BYTES: Final = 1024 * 1024

log = logging.getLogger(__name__)


_Answer = TypeVar("_Answer")
Where: TypeAlias = Callable[[], Awaitable[tuple[str, str] | None]]
"""The address and the name of the node that has a player now; None where nobody has it."""


class Forwarding:
    """The connections to the other nodes of the cluster, until `close`. All nodes have the same password, and leases of
    `lease_s`. `is_alive` tells by a node's name whether it is alive. `wall_ms` gives the time of day in ms since 1970.
    """

    def __init__(
        self, password: str, is_alive: Callable[[str], bool], wall_ms: Callable[[], int], lease_s: float
    ) -> None:
        self._again_for_s = lease_s + _LONGER_S
        self._password = password
        self._wall_ms = wall_ms
        self._is_alive = is_alive
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def reaches_engine(self, address: str) -> bool:
        """Whether the node at this address reaches the engine. False also when its machine says that no node is there,
        or when there is no such machine; True when nothing is said."""
        try:
            async with asyncio.timeout(_ENGINE_ASK_S):
                answer = json.loads(await self.ask(address, "GET", "/v0/nodes/self"))
        except aiohttp.ClientConnectorError as error:  # it may be this node that has no network
            reason = error.os_error
            return not isinstance(reason, ConnectionRefusedError) and reason.errno != socket.EAI_NONAME
        except (aiohttp.ClientError, OSError, ValueError):
            return True
        return not (isinstance(answer, dict) and answer.get("reachesEngine") is False)

    async def ask(self, address: str, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of what the node there answers; `body` is JSON. Raises `aiohttp.ClientError` and `OSError`."""
        headers = self._headers({} if body is None else {"Content-Type": "application/json"})
        url, session = _url(address, path), self._open()
        async with session.request(
            method, url, headers=headers, data=body, raise_for_status=True, timeout=_ASK_TIMEOUT
        ) as answer:
            return await answer.read()

    async def pass_on(
        self, request: EdgeRequest, body: bytes | None, address: str, name: str
    ) -> web.StreamResponse | None:
        """The answer of the node `name` to a request with the whole `body`; None when the node does not have the
        player. Raises `NodeUnreachable`."""
        if not address:  # it does not listen yet
            raise _unreachable(name)
        try:
            return await self.while_alive(name, self._answer(request, body, address, name))
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(name) from error

    async def _answer(
        self, request: EdgeRequest, body: bytes | None, address: str, name: str
    ) -> web.StreamResponse | None:
        headers, url = self._headers(request.headers), _url(address, _target_of(request))
        async with self._open().request(
            request.method, url, headers=headers, data=body, allow_redirects=False
        ) as answer:
            passed = await answer.read()
            if answer.status == HTTPStatus.NOT_FOUND and b'"player_not_found"' in passed:
                return None
            request.add_reply_header(NODE, name)
            if request.method != "HEAD":
                return web.Response(status=answer.status, headers=_back(answer), body=passed)
            head = web.StreamResponse(status=answer.status, headers=_back(answer))
            head.content_length = answer.content_length
            return head

    async def while_alive(self, name: str, asking: Coroutine[Any, Any, _Answer]) -> _Answer:
        """What `asking` the node `name` gives. The wait for a frozen node ends with the node's lease. Raises
        `NodeUnreachable` then."""
        task = asyncio.create_task(asking)
        try:
            while not (await asyncio.wait([task], timeout=_LOOK_EVERY_S))[0]:
                if not self._is_alive(name):
                    raise _unreachable(name)
            return task.result()
        finally:
            task.cancel()

    async def pass_events(self, request: EdgeRequest, streams: OpenStreams, where: Where) -> web.StreamResponse:
        """Passes on the events of a player. When the player moves, its events continue on the same client connection.
        Raises `RequestError`."""
        connection = WebSocketConnection(request, streams)
        target = parse_target(request.raw_path)
        # The state says which events this node need not ask for again, also to a client that does not want it.
        heard = Heard(hides_state=target.parameter("since") is None and not target.flag("snapshot"))
        first = f"{target.path}?snapshot=true" if heard.hides_state else _target_of(request)
        upstream = await self.socket_anywhere(where, first, request.headers)

        async def anew() -> aiohttp.ClientWebSocketResponse:
            # All events of the life, because a life that begins at another node is new.
            path = f"{target.path}?since=0" if heard.life else first
            return await self.socket_anywhere(where, path, request.headers)

        return await _run(connection, _carry(connection, upstream, heard, anew))

    async def follow_all(
        self, request: EdgeRequest, streams: OpenStreams, nodes: Callable[[], Mapping[str, NodeRecord]]
    ) -> web.StreamResponse:
        """Passes on the events of all players of `nodes`, which may come and go meanwhile. The client is told that it
        may have lost events of a node that was followed later, or anew. Raises `RequestError`."""
        connection = WebSocketConnection(request, streams)
        wants_states(parse_target(request.raw_path))  # each node is asked for the same
        following: dict[str, asyncio.Task[None]] = {}

        async def follow(name: str, address: str, *, is_late: bool) -> None:
            with contextlib.suppress(RequestError):
                upstream = await self._socket((address, name), _target_of(request), request.headers)
                try:
                    if is_late:
                        lost = event_text(EventMessage("", "", 0, self._wall_ms(), EventsLost()))
                        connection.writer.write(text_frame(lost))
                    await _pass_messages(upstream, connection, None)
                finally:
                    await upstream.close()

        async def follow_nodes() -> None:
            is_late = False
            try:
                while True:
                    for name, record in nodes().items():
                        task = following.get(name)
                        if record.address and (task is None or task.done()):
                            following[name] = asyncio.create_task(follow(name, record.address, is_late=is_late))
                    is_late = True
                    await asyncio.sleep(_NODES_AGAIN_S)
            finally:
                for task in following.values():
                    task.cancel()
                await asyncio.gather(*following.values(), return_exceptions=True)

        return await _run(connection, follow_nodes())

    async def socket_anywhere(
        self, where: Where, path: str, given: Mapping[str, str] | None = None
    ) -> aiohttp.ClientWebSocketResponse:
        """A socket at the node that has the player. The player may be moving. Raises `RequestError`."""
        until_s, wait_s = asyncio.get_running_loop().time() + self._again_for_s, _AGAIN_AFTER_S
        while asyncio.get_running_loop().time() < until_s:
            with contextlib.suppress(EngineGone, NodeUnreachable, PlayerNotFound):
                place = await where()
                if place is not None:
                    return await self._socket(place, path, given or {})
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _AGAIN_AT_LAST_S)
        raise NodeUnreachable("The node that has the player cannot be reached. Try again.")

    async def _socket(
        self, place: tuple[str, str], path: str, given: Mapping[str, str]
    ) -> aiohttp.ClientWebSocketResponse:
        """Raises `NodeUnreachable`, and why the node refuses, which a handshake does not tell."""
        address, name = place
        url, headers = _url(address, path), self._headers(given)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                try:
                    return await self._open().ws_connect(
                        url, headers=headers, heartbeat=_PING_INTERVAL_S, max_msg_size=0, compress=0
                    )
                except aiohttp.WSServerHandshakeError:
                    async with self._open().get(url, headers={**headers, **_HANDSHAKE}) as answer:
                        if answer.status != HTTPStatus.SWITCHING_PROTOCOLS:
                            _refuse(await answer.read())
                raise _unreachable(name)
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(name) from error

    def _headers(self, given: Mapping[str, str]) -> dict[str, str]:
        headers = {name: value for name, value in given.items() if name.lower() not in _NOT_PASSED}
        headers[HOP] = "1"
        headers.setdefault("Accept-Encoding", "identity")
        if self._password:
            headers["Authorization"] = self._password
        return headers

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
            # Otherwise aiohttp would send a DELETE or PUT again when a connection ends without an answer. The node may
            # have carried it out, and then answers that there is no such player. There is no public setting.
            self._session._retry_connection = False
        return self._session


_HANDSHAKE: Final[Mapping[str, str]] = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dG9uZWFybS1pcy1hLW5vZGU=",
}


def _refuse(refusal: bytes) -> None:
    """Raises the error that a node answered."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        fields = json.loads(refusal)
        for error in (BadRequest, LimitReached, PlayerNotFound):
            if fields["code"] == error.code:
                raise error(str(fields["message"]))


def _unreachable(name: str) -> NodeUnreachable:
    return NodeUnreachable(f"The node {name}, which has the player, cannot be reached. Try again.")


class _Event(msgspec.Struct):
    op: str
    seq: int = 0
    life: str = ""


_read_event: Final = msgspec.json.Decoder(_Event).decode


class Heard:
    """Which events of a player a client has got: the number of the last one, and its life, empty before the first.
    `hides_state`: the client does not get the state with which the events begin."""

    def __init__(self, *, hides_state: bool) -> None:
        self.hides_state: Final = hides_state
        self.life, self._number = "", 0

    def is_new(self, text: str) -> bool:
        """Whether the client is to get an event, or a state."""
        event = _read_event(text)
        if not event.life:
            return True
        if event.life == self.life and event.seq <= self._number:
            return False
        is_hidden = event.op == "PlayerState" and self.hides_state and not self.life
        self.life, self._number = event.life, event.seq
        return not is_hidden


async def _carry(
    connection: WebSocketConnection,
    upstream: aiohttp.ClientWebSocketResponse,
    heard: Heard,
    anew: Callable[[], Awaitable[aiohttp.ClientWebSocketResponse]],
) -> None:
    """Passes on the events of `upstream`, and then of those sockets that `anew` opens, until the player is deleted."""
    try:
        await _pass_messages(upstream, connection, heard)
        while upstream.close_code != CloseCode.DELETED and not connection.writer.has_ended:
            await upstream.close()
            upstream = await anew()
            await _pass_messages(upstream, connection, heard)
        code = upstream.close_code or CloseCode.GOING_AWAY
        connection.close(int(code), "the player's node has ended the socket")
    except RequestError as error:
        connection.close(CloseCode.GOING_AWAY, error.message)
    except Exception:
        log.exception("an event socket could not be forwarded")
        connection.abort()
    finally:
        await upstream.close()


async def _pass_messages(
    upstream: aiohttp.ClientWebSocketResponse, connection: WebSocketConnection, heard: Heard | None
) -> None:
    async for message in upstream:
        if connection.writer.pending_bytes() > _MOST_PENDING_BYTES:
            connection.close(CloseCode.TOO_SLOW, "the client did not read fast enough")
            return
        if message.type is WSMsgType.TEXT and (heard is None or heard.is_new(message.data)):
            connection.writer.write(text_frame(message.data))


def _back(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {key: value for key, value in answer.headers.items() if key.lower() not in _NOT_BACK}


async def _run(connection: WebSocketConnection, work: Coroutine[Any, Any, None]) -> web.StreamResponse:
    """Serves a client's socket, beside the work that writes to it."""
    working = asyncio.create_task(work)
    try:
        return await connection.run(working.cancel)
    finally:
        await asyncio.wait([working])


def _target_of(request: EdgeRequest) -> str:
    """Path and query as the client sent them, also in a target that names a host."""
    target = parse_target(request.raw_path)
    return f"{target.path}?{target.query}" if target.query else target.path


def _url(address: str, target: str) -> URL:
    return URL(address.rstrip("/") + target, encoded=True)

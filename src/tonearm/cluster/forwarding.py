"""Passes requests, sockets and streams on to the node that has the player, and their answers back as they come.

A request that was passed on bears `Tonearm-Hop`: it is answered where it comes to, so none goes in a circle. Sockets
and streams outlive a move of the player: they are taken up again at its new node, while the client's stays open.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias

import aiohttp
from aiohttp import WSMsgType, web
from yarl import URL

from tonearm.core.errors import NodeUnreachable, RequestError
from tonearm.core.metadata import Json
from tonearm.protocol.framing import CloseCode
from tonearm.server.http_server import EdgeRequest
from tonearm.server.streams import OpenStreams
from tonearm.server.websocket import WebSocketConnection, binary_frame, text_frame

HOP: Final = "Tonearm-Hop"
NODE: Final = "Tonearm-Node"
# What counts between two hops only (RFC 9110, 7.6.1), or is written anew.
_NOT_PASSED: Final = frozenset(
    {
        "authorization", "connection", "content-length", "cookie", "expect", "host", "keep-alive", "origin",
        "proxy-connection", "sec-websocket-extensions", "sec-websocket-key", "sec-websocket-protocol",
        "sec-websocket-version", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_NOT_BACK: Final = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding", "vary"}
)
_CONNECT_TIMEOUT_S: Final = 2.0
_ASK_TIMEOUT_S: Final = 1.0
_PING_INTERVAL_S: Final = 20.0
_AGAIN_AFTER_S: Final = 0.1
_LOOK_EVERY_S: Final = 0.25
_AGAIN_FOR_S: Final = 20.0  # a socket waits so long for its player to be somewhere again
_NODES_AGAIN_S: Final = 1.0
_MOST_PENDING_BYTES: Final = 1024 * 1024
# As `protocol.event_rendering` writes them: the number at the beginning of an event, the life at its end.
_NUMBER: Final = re.compile(r'"seq":([0-9]{1,18})[,}]')
_LIFE: Final = re.compile(r'"life":"([A-Za-z0-9_-]{8,64})"[^"]*$')
_HEAD_CHARACTERS: Final = 300
_GONE: Final = aiohttp.WSCloseCode.OK  # the player is deleted

log = logging.getLogger(__name__)


Where: TypeAlias = Callable[[], Awaitable[tuple[str, str] | None]]
"""The address and the name of the node that has a player now; None where nobody has it."""


class Forwarding:
    """The connections to the other nodes of the cluster, until `close`. All have this node's password. `is_alive` says
    it of a node by its name."""

    def __init__(self, password: str, is_alive: Callable[[str], bool]) -> None:
        self._password = password
        self._is_alive = is_alive
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def reaches_engine(self, address: str) -> bool:
        """Whether the node there reaches the engine: False also where nobody is there; True where it says nothing."""
        try:
            async with asyncio.timeout(_ASK_TIMEOUT_S):
                answer = await self.ask(address, "GET", "/v0/nodes/self")
        except aiohttp.ClientConnectorError:
            return False
        except (aiohttp.ClientError, OSError, ValueError):
            return True
        return not (isinstance(answer, dict) and answer.get("reachesEngine") is False)

    async def ask(self, address: str, method: str, path: str, body: Json = None) -> Json:
        """The JSON that the node there answers. Raises `aiohttp.ClientError`, `OSError` and `ValueError`."""
        async with self._open().request(
            method, _url(address, path), headers=self._headers({}), json=body, raise_for_status=True
        ) as answer:
            return await answer.json() if answer.status != 204 else None

    async def pass_on(
        self, request: EdgeRequest, body: bytes | None, address: str, name: str
    ) -> web.StreamResponse | None:
        """The answer of the node `name` to a request, `body` being all of its body; None where the node has not got the
        player. Raises `NodeUnreachable`."""
        try:
            answer = await self._answer_of(request, body, address, name)
            async with answer:
                if answer.status == HTTPStatus.NOT_FOUND:
                    refusal = await answer.read()
                    if b'"player_not_found"' in refusal:
                        return None
                    return web.Response(status=answer.status, headers=_back(answer, name), body=refusal)
                return await self._answered(request, answer, name)
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise _unreachable(name) from error

    async def _answer_of(
        self, request: EdgeRequest, body: bytes | None, address: str, name: str
    ) -> aiohttp.ClientResponse:
        """The head of the answer. One that stands still is not waited for any more when its lease has ended."""
        asking = asyncio.ensure_future(
            self._open().request(
                request.method,
                _url(address, request.raw_path),
                headers=self._headers(request.headers),
                data=body,
                allow_redirects=False,
            )
        )
        try:
            while not (await asyncio.wait([asking], timeout=_LOOK_EVERY_S))[0]:
                if not self._is_alive(name):
                    raise _unreachable(name)
            return asking.result()
        finally:
            asking.cancel()

    async def pass_stream(self, request: EdgeRequest, where: Where) -> web.StreamResponse:
        """An endless answer: where the player moves, the stream goes on from there."""
        response: web.StreamResponse | None = None
        async for address, name in _places(where):
            try:
                async with self._open().request(
                    request.method, _url(address, request.raw_path), headers=self._headers(request.headers)
                ) as answer:
                    if response is None:
                        if answer.status != 200 or request.method == "HEAD":
                            return await self._answered(request, answer, name)
                        response = web.StreamResponse(status=200, headers=_back(answer, name))
                        await response.prepare(request)
                    elif answer.status != 200:
                        break
                    async for data in answer.content.iter_any():
                        await response.write(data)
            except (aiohttp.ClientError, OSError):
                if request.transport is None or request.transport.is_closing():
                    break
        if response is None:
            raise NodeUnreachable("The node that has the player cannot be reached. Try again.")
        return response

    async def pass_socket(
        self,
        request: EdgeRequest,
        streams: OpenStreams,
        where: Where,
    ) -> web.StreamResponse:
        """A WebSocket: where the player moves, its messages come from there, over the same connection."""
        upstream: aiohttp.ClientWebSocketResponse | None = None
        async for place in _places(where):
            upstream = await self._socket(request, place)
            if upstream is None and (refusal := await self._refusal(request, place)) is not None:
                return refusal
            if upstream is not None:
                break
        if upstream is None:
            raise NodeUnreachable("The node that has the player cannot be reached. Try again.")
        connection = WebSocketConnection(request, streams)
        carrying = asyncio.create_task(self._carry(request, connection, upstream, where, Heard(request.raw_path)))
        try:
            return await connection.run(partial(_end, carrying))
        finally:
            await asyncio.wait([carrying])

    async def follow_all(
        self, request: EdgeRequest, streams: OpenStreams, nodes: Callable[[], list[tuple[str, str]]]
    ) -> web.StreamResponse:
        """The events of all players of `nodes`, by name and address, which may come and go meanwhile."""
        connection = WebSocketConnection(request, streams)
        following: dict[str, asyncio.Task[None]] = {}

        async def follow(name: str, address: str) -> None:
            with contextlib.suppress(RequestError):
                upstream = await self._socket(request, (address, name))
                if upstream is not None:
                    try:
                        await _pass_messages(upstream, connection, Heard())
                    finally:
                        await upstream.close()

        async def follow_nodes() -> None:
            try:
                while True:
                    for name, address in nodes():
                        task = following.get(name)
                        if address and (task is None or task.done()):
                            following[name] = asyncio.create_task(follow(name, address))
                    await asyncio.sleep(_NODES_AGAIN_S)
            finally:
                for task in following.values():
                    task.cancel()
                await asyncio.gather(*following.values(), return_exceptions=True)

        working = asyncio.create_task(follow_nodes())
        try:
            return await connection.run(partial(_end, working))
        finally:
            await asyncio.wait([working])

    async def _socket(
        self, request: EdgeRequest, place: tuple[str, str], path: str = ""
    ) -> aiohttp.ClientWebSocketResponse | None:
        """The socket at the node there; None where it is refused. Raises `NodeUnreachable`."""
        address, name = place
        try:
            return await self._open().ws_connect(
                _url(address, path or request.raw_path),
                headers=self._headers(request.headers),
                heartbeat=_PING_INTERVAL_S,
                max_msg_size=0,
                compress=0,
            )
        except aiohttp.WSServerHandshakeError:
            return None
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(name) from error

    async def _refusal(self, request: EdgeRequest, place: tuple[str, str]) -> web.StreamResponse | None:
        """Why a socket is refused, which a handshake does not tell; None where the player is not there by now."""
        address, name = place
        headers = {**self._headers(request.headers), **_HANDSHAKE}
        async with self._open().get(_url(address, request.raw_path), headers=headers) as answer:
            refusal = await answer.read()
            if b'"player_not_found"' in refusal:
                return None
            return web.Response(status=answer.status, headers=_back(answer, name), body=refusal)

    async def _carry(
        self,
        request: EdgeRequest,
        connection: WebSocketConnection,
        upstream: aiohttp.ClientWebSocketResponse,
        where: Where,
        heard: "Heard",
    ) -> None:
        try:
            await _pass_messages(upstream, connection, heard)
            while upstream.close_code != _GONE and not connection.writer.has_ended:
                await upstream.close()
                async for place in _places(where):
                    with contextlib.suppress(RequestError):
                        again = await self._socket(request, place, heard.path_to_go_on)
                        if again is not None:
                            upstream = again
                            break
                else:
                    break
                await _pass_messages(upstream, connection, heard)
            code = upstream.close_code or aiohttp.WSCloseCode.GOING_AWAY
            connection.close(int(code), "the player's node has ended the socket")
        except Exception:
            log.exception("a socket was not passed on")
            connection.abort()
        finally:
            await upstream.close()

    async def _answered(self, request: EdgeRequest, answer: aiohttp.ClientResponse, name: str) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_back(answer, name))
        if answer.content_length is not None:
            response.content_length = answer.content_length
        await response.prepare(request)
        try:
            async for data in answer.content.iter_any():
                await response.write(data)
            await response.write_eof()
        except (aiohttp.ClientError, OSError):  # in the middle of an answer: the client sees that its end is missing
            response.force_close()
        return response

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
        return self._session


_HANDSHAKE: Final[Mapping[str, str]] = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dG9uZWFybS1pcy1hLW5vZGU=",
}


async def _places(where: Where) -> AsyncIterator[tuple[str, str]]:
    """Where the player is, address and name, asked again and again for a while."""
    until_s = asyncio.get_running_loop().time() + _AGAIN_FOR_S
    while asyncio.get_running_loop().time() < until_s:
        place = await where()
        if place is not None:
            yield place
        await asyncio.sleep(_AGAIN_AFTER_S)


def _unreachable(name: str) -> NodeUnreachable:
    return NodeUnreachable(f"The node {name}, which has the player, cannot be reached. Try again.")


class Heard:
    """What a client of `path` has got, to go on elsewhere: of events the last number and its life."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._last = ("", 0)

    @property
    def path_to_go_on(self) -> str:
        """Of events all of the player's life are asked for, since a life that begins elsewhere is a new one."""
        path = self._path.partition("?")[0]
        return f"{path}?since=0" if path.endswith("/events") else self._path

    def is_new(self, text: str) -> bool:
        """Whether an event was not passed on yet."""
        found = _NUMBER.search(text[:_HEAD_CHARACTERS]), _LIFE.search(text[-_HEAD_CHARACTERS:])
        if found[0] is None or found[1] is None or not self._path:
            return True
        number, life = int(found[0][1]), found[1][1]
        if life == self._last[0] and number <= self._last[1]:
            return False
        self._last = life, number
        return True


async def _pass_messages(
    upstream: aiohttp.ClientWebSocketResponse, connection: WebSocketConnection, heard: Heard
) -> None:
    async for message in upstream:
        if connection.writer.pending_bytes() > _MOST_PENDING_BYTES:
            connection.close(CloseCode.TOO_SLOW, "the client did not read fast enough")
            return
        if message.type is WSMsgType.BINARY:
            connection.writer.write(binary_frame(message.data))
        elif message.type is WSMsgType.TEXT and heard.is_new(message.data):
            connection.writer.write(text_frame(message.data))


def _back(answer: aiohttp.ClientResponse, name: str) -> dict[str, str]:
    headers = {key: value for key, value in answer.headers.items() if key.lower() not in _NOT_BACK}
    return {**headers, NODE: name}


def _end(task: asyncio.Task[None]) -> None:
    task.cancel()


def _url(address: str, target: str) -> URL:
    return URL(address.rstrip("/") + target, encoded=True)

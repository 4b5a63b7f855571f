"""Passes requests and WebSockets on to nodes, with their passwords, and their answers back as they come."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp import WSMsgType, web
from yarl import URL

_TO_NODE: Final = ("Accept", "Content-Type", "Content-Length", "If-None-Match", "Icy-MetaData")
_TO_PAGE: Final = ("Content-Type", "Content-Length", "ETag", "Cache-Control", "Tonearm-Ignored")
_STREAM_HEADERS: Final = "icy-"
# A node's answers are data: when a browser is led to one as to a page, it must not run anything in it.
_AS_DATA: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}
_CONNECT_TIMEOUT_S: Final = 10.0
_REFUSAL_TIMEOUT: Final = aiohttp.ClientTimeout(total=5.0)
_PING_INTERVAL_S: Final = 20.0
_MOST_FROM_PAGE_BYTES: Final = 64 * 1024  # nodes ignore what clients say on a socket


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node and its password, which is empty when the node has none."""

    url: str
    password: str = ""


class PassingOn:
    """The connections to the nodes, as an asynchronous context manager."""

    def __init__(self, nodes: Sequence[KnownNode]) -> None:
        self._nodes = nodes

    async def __aenter__(self) -> "PassingOn":
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S),
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def refusal(self, number: int) -> str:
        """Why the node `number` cannot be used now; empty when it can be."""
        node = self._nodes[number]
        try:
            async with self._session.get(
                _url(node, "/v0/players"), headers=_password(node), timeout=_REFUSAL_TIMEOUT
            ) as answer:
                status = answer.status
        except TimeoutError:
            return f"{node.url} does not answer. Is it a node?"
        except aiohttp.ClientError as error:
            return _unreachable(node, error)
        if status == HTTPStatus.UNAUTHORIZED:
            return f"{node.url} refuses the password. Give the right one with --password-file."
        return "" if status == HTTPStatus.OK else f"{node.url} answers {status}: it seems to be no node."

    async def answer(self, request: web.Request, number: int, target: str) -> web.StreamResponse:
        """The answer of node `number` to `target`, a path with its query as the client sent it."""
        if number >= len(self._nodes):
            return _problem(HTTPStatus.NOT_FOUND, "not_found", "There is no such node.")
        node = self._nodes[number]
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._pass_socket(request, node, target)
            return await self._pass_request(request, node, target)
        except aiohttp.WSServerHandshakeError as error:
            return _problem(
                HTTPStatus(error.status), "no_socket", f"{node.url} refuses the socket with {error.status}."
            )
        except aiohttp.ClientError as error:
            return _problem(HTTPStatus.BAD_GATEWAY, "unreachable", _unreachable(node, error))

    async def _pass_request(self, request: web.Request, node: KnownNode, target: str) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _TO_NODE if name in request.headers}
        async with self._session.request(
            request.method,
            _url(node, target),
            headers={**headers, "Accept-Encoding": "identity", **_password(node)},
            data=request.content if request.body_exists else None,
            allow_redirects=False,
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers=_AS_DATA)
            for name, value in answer.headers.items():
                if name in _TO_PAGE or name.lower().startswith(_STREAM_HEADERS):
                    response.headers[name] = value
            await response.prepare(request)
            try:
                async for data in answer.content.iter_any():
                    await response.write(data)
                await response.write_eof()
            except aiohttp.ClientError:  # in the middle of an answer: the page sees that its end is missing
                response.force_close()
            return response

    async def _pass_socket(self, request: web.Request, node: KnownNode, target: str) -> web.StreamResponse:
        async with self._session.ws_connect(
            _url(node, target), headers=_password(node), heartbeat=_PING_INTERVAL_S, max_msg_size=0
        ) as from_node:
            to_page = web.WebSocketResponse(
                heartbeat=_PING_INTERVAL_S, compress=False, max_msg_size=_MOST_FROM_PAGE_BYTES
            )
            await to_page.prepare(request)
            both = [asyncio.create_task(_carry(from_node, to_page)), asyncio.create_task(_drain(to_page))]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
            await to_page.close(code=from_node.close_code or aiohttp.WSCloseCode.GOING_AWAY)
            return to_page


async def _carry(from_node: aiohttp.ClientWebSocketResponse, to_page: web.WebSocketResponse) -> None:
    """Passes messages on. When the page reads too slowly, reading stops here, and the node drops old messages."""
    with suppress(ConnectionError):  # the page is gone
        async for message in from_node:
            if message.type is WSMsgType.BINARY:
                await to_page.send_bytes(message.data)
            elif message.type is WSMsgType.TEXT:
                await to_page.send_str(message.data)


async def _drain(to_page: web.WebSocketResponse) -> None:
    """Reads until the page closes the socket."""
    async for _ in to_page:
        pass


def is_node_address(url: str) -> bool:
    try:
        return url.startswith(("http://", "https://")) and bool(URL(url).host)
    except ValueError:
        return False


def _url(node: KnownNode, target: str) -> URL:
    return URL(node.url.rstrip("/") + target, encoded=True)


def _password(node: KnownNode) -> dict[str, str]:
    return {"Authorization": node.password} if node.password else {}


def _unreachable(node: KnownNode, error: aiohttp.ClientError) -> str:
    return f"{node.url} cannot be reached ({error}). Is the node running?"


def _problem(status: HTTPStatus, code: str, message: str) -> web.Response:
    """An error in the form of a node's errors."""
    return web.json_response({"status": status, "code": code, "message": message}, status=status)

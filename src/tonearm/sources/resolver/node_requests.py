"""yt-dlp's requests, made by the node: a handler for yt-dlp that has a pipe instead of a network.

Redirects, cookies and packed bodies are the work of yt-dlp's own handler, of which this one replaces the connection.
"""

import functools
import http.client
import io
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.response import addinfourl

from yt_dlp.networking import _urllib
from yt_dlp.networking.common import _REQUEST_HANDLERS
from yt_dlp.networking.exceptions import IncompleteRead, RequestError, SSLError, TransportError

from tonearm.sources.resolver.messages import NodePipe

_NOT_CARRIED: Final = ("ws", "wss", "ftp")  # of those that yt-dlp knows
LIKE_A_BROWSER: Final = "the page wants a request that looks like a browser's, which the node cannot send"
_BUFFER_BYTES: Final = 64 * 1024
_WHOLE_BYTES: Final = 1024 * 1024  # requested at a time when the whole body is read


def let_the_node_make_requests(pipe: NodePipe) -> None:
    """Sends each request of yt-dlp through `pipe` from now on, and removes yt-dlp's own handlers."""
    _REQUEST_HANDLERS.clear()
    _REQUEST_HANDLERS["Node"] = functools.partial(NodeRH, pipe=pipe)


class NodeRH(_urllib.UrllibRH):  # type: ignore[misc]  # yt-dlp has no types
    RH_NAME = "node"
    _SUPPORTED_URL_SCHEMES = ("http", "https", "data")
    _SUPPORTED_PROXY_SCHEMES = None  # the node knows the way

    def __init__(self, *, pipe: NodePipe, **options: Any) -> None:
        super().__init__(**options)
        self._pipe = pipe

    def _validate(self, request: Any) -> None:
        scheme = urlsplit(request.url).scheme.lower()
        if scheme in _NOT_CARRIED:
            raise RequestError(f"the node does not carry {scheme}: connections, which the page asks for")
        if request.extensions.get("impersonate") is not None:
            raise RequestError(LIKE_A_BROWSER)
        super()._validate(request)

    def _create_instance(self, cookiejar: Any, **_: Any) -> Any:
        opener = urllib.request.OpenerDirector()
        for handler in (
            _NodeHandler(self._pipe),
            urllib.request.HTTPCookieProcessor(cookiejar),
            urllib.request.DataHandler(),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            _urllib.RedirectHandler(),
        ):
            opener.add_handler(handler)
        opener.addheaders = []
        return opener


class _NodeHandler(_urllib.HTTPHandler):  # type: ignore[misc]
    def __init__(self, pipe: NodePipe) -> None:
        super().__init__()
        self._pipe = pipe
        self._closed: list[int] = []  # numbers of closed answers; sent with the next request

    def http_open(self, request: Any) -> Any:
        closed = [self._closed.pop() for _ in range(len(self._closed))]
        question: dict[str, Any] = {
            "method": request.get_method(),
            "url": request.full_url,
            "headers": [[name, str(value)] for name, value in {**request.headers, **request.unredirected_hdrs}.items()],
            "closed": closed,
        }
        reply, begun = self._pipe.ask("send", question, _bytes_of(request.data))
        _raise_failure(reply, 0)
        headers = http.client.HTTPMessage()
        for name, value in reply["headers"]:
            headers[name] = value
        body = _Body(self._pipe, reply, begun, self._closed)
        answer = addinfourl(io.BufferedReader(body, _BUFFER_BYTES), headers, request.full_url, reply["status"])
        answer.msg = reply["reason"]  # type: ignore[attr-defined]  # urllib wants it of its handlers
        return answer

    https_open = http_open


class _Body(io.RawIOBase):
    """The body of the answer with `head`. The node reads it on request; the bytes in `begun` have already arrived."""

    def __init__(self, pipe: NodePipe, head: Mapping[str, Any], begun: bytes, closed: list[int]) -> None:
        self._pipe = pipe
        self._number: int = head["number"]
        self._has_ended: bool = head["ends"]
        self._begun = begun
        self._closed = closed
        self._read_bytes = len(begun)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._begun or self._next(1, len(buffer))
        count = min(len(data), len(buffer))
        buffer[:count] = data[:count]
        self._begun = data[count:]
        return count

    def readall(self) -> bytes:
        parts = [self._begun]
        self._begun = b""
        while not self._has_ended:
            parts.append(self._next(_WHOLE_BYTES, _WHOLE_BYTES))
        return b"".join(parts)

    def close(self) -> None:
        # The garbage collector may call this during a request to the node, so no other request can be sent here.
        if not self.closed and not self._has_ended:
            self._closed.append(self._number)
        super().close()

    def _next(self, least: int, most: int) -> bytes:
        if self._has_ended:
            return b""
        reply, data = self._pipe.ask("read", {"of": self._number, "least": least, "most": most})
        _raise_failure(reply, self._read_bytes)
        self._has_ended = reply["ends"]
        self._read_bytes += len(data)
        return data


def _bytes_of(data: Any) -> bytes:
    if data is None or isinstance(data, bytes):
        return data or b""
    return bytes(data.read()) if hasattr(data, "read") else b"".join(data)


def _raise_failure(reply: Mapping[str, Any], read_bytes: int) -> None:
    reason = reply.get("error")
    if reason is None:
        return
    if reply["code"] == "connection_lost" and read_bytes:
        raise IncompleteRead(partial=read_bytes)
    raise (SSLError if reply["code"] == "tls" else TransportError)(reason.rstrip("."))

"""The HTTP requests of a page that is being resolved: its process asks for each of them, and the node makes it.

The node sends one request at a time to one address, whose whole URI patterns and guard have judged, and gives back what
came: status, head, and the body as it is read. Redirects, cookies and packed bodies are the process's: it asks again.
"""

import asyncio
import itertools
import re
from types import TracebackType
from typing import Final, Self

import aiohttp

from tonearm.core.failure import REFUSALS, FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.metadata import Json, JsonObject
from tonearm.core.source_uri import SourceUri
from tonearm.sources.http.client import HttpClient
from tonearm.sources.http.errors import PassingError, ProxyError, read_error
from tonearm.sources.resolver.messages import Message

REQUESTS_AT_MOST: Final = 500  # of one page
OPEN_AT_MOST: Final = 32  # answers whose bodies are not read to their end
LARGEST_HEAD_BYTES: Final = 64 * 1024
LARGEST_BODY_BYTES: Final = 1024 * 1024
LARGEST_READ_BYTES: Final = 1024 * 1024
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}", re.ASCII)
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
# Headers that apply to one hop only (RFC 9110, 7.6.1), or that the node writes.
_NOT_SENT: Final = frozenset(
    {
        "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te",
        "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_numbers: Final = itertools.count(1)  # of all answers: a late message about another page's answer matches none


class BadQuestion(Exception):
    """A process sent an invalid request."""


class PageRequests:
    """The requests of one page, until the end of the block. `traffic_limit_bytes` covers both directions together.

    All requests go through `proxy`, if given. `problem` is why an address could not be reached: the refusal if there
    was one, otherwise the last failure.
    """

    def __init__(self, client: HttpClient, traffic_limit_bytes: int, proxy: str | None = None) -> None:
        self._client = client
        self._proxy = proxy
        self.is_proxy_at_fault = False
        self._left_bytes = traffic_limit_bytes
        self._left_requests = REQUESTS_AT_MOST
        self._open: dict[int, aiohttp.ClientResponse] = {}
        self.problem: PlayFailure | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in tuple(self._open):
            self._close(number)

    async def send(self, question: JsonObject, body: bytes) -> Message:
        """`{"method", "url", "headers": [[name, value]], "closed": [numbers]}`: the head of the answer and the bytes
        of its body that have come, or `{"error", "code"}`. Raises `BadQuestion`."""
        closed = question.get("closed")
        for number in closed if isinstance(closed, list) else ():
            self._close(number)
        method, url, headers = question.get("method"), question.get("url"), _headers(question.get("headers"))
        if method not in _METHODS or not isinstance(url, str) or len(body) > LARGEST_BODY_BYTES:
            raise BadQuestion("it asks for what is no request")
        try:
            self._left_requests -= 1
            if self._left_requests < 0 or len(self._open) >= OPEN_AT_MOST:
                raise _too_much("asks for more addresses")
            self._spend(len(url) + _size(headers) + len(body))
            uri = self._client.admitted(url)
            return self._answer(await self._sent(uri, str(method), headers, body))
        except PlayError as error:
            self.is_proxy_at_fault |= isinstance(error, ProxyError)
            return self._told(error.failure)

    async def read(self, question: JsonObject) -> Message:
        """`{"of": number, "least", "most"}`: the bytes that come next, `least` or more unless it ends before, with
        `{"ends"}`; or `{"error", "code"}`. Raises `BadQuestion`."""
        number, least, most = (question.get(name) for name in ("of", "least", "most"))
        if not (isinstance(number, int) and isinstance(least, int) and isinstance(most, int)):
            raise BadQuestion("it reads of what is no answer")
        response = self._open.get(number)
        if response is None:
            raise BadQuestion("it reads of what is no answer")
        most = min(max(most, 1), LARGEST_READ_BYTES)
        parts: list[bytes] = []
        count = 0
        try:
            while not response.content.at_eof() and count < min(max(least, 1), most):
                async with asyncio.timeout(self._client.stall_timeout_s):
                    parts.append(await response.content.read(most - count))
                count += len(parts[-1])
            self._spend(count)
        except PlayError as error:
            return self._told(error.failure)
        except (aiohttp.ClientError, OSError) as error:
            self._close(number)
            return self._told(read_error(error, response.url.host or "").failure)
        return self._body(number, response, {}, b"".join(parts))

    async def _sent(self, uri: SourceUri, method: str, headers: JsonObject, body: bytes) -> aiohttp.ClientResponse:
        given = {name: str(value) for name, value in headers.items()}
        content = body if body or method not in ("GET", "HEAD") else None
        try:
            return await self._client.send(uri, given, method=method, body=content, proxy=self._proxy)
        except PassingError as error:
            # A server may close an idle connection at the moment of its reuse. aiohttp repeats only idempotent
            # requests; browsers repeat the others, too.
            if content is None or error.failure.code is not FailureCode.CONNECTION_LOST:
                raise
            return await self._client.send(uri, given, method=method, body=content, proxy=self._proxy)

    def _answer(self, response: aiohttp.ClientResponse) -> Message:
        number = next(_numbers)
        self._open[number] = response
        head: list[Json] = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in response.raw_headers]
        begun = b"" if response.content.exception() is not None else response.content.read_nowait(-1)
        self._spend(sum(len(name) + len(value) for name, value in response.raw_headers) + len(begun))
        told: JsonObject = {
            "number": number, "status": response.status, "reason": response.reason or "", "headers": head,
        }  # fmt: skip
        return self._body(number, response, told, begun)

    def _body(self, number: int, response: aiohttp.ClientResponse, head: JsonObject, data: bytes) -> Message:
        has_ended = response.content.at_eof() and response.content.exception() is None
        if has_ended:
            self._close(number)
        return Message({**head, "ends": has_ended}, data)

    def _close(self, number: Json) -> None:
        response = self._open.pop(number, None) if isinstance(number, int) else None
        if response is not None:
            response.close()  # no effect after the end of the body, when the connection was already returned

    def _spend(self, count_bytes: int) -> None:
        """Counts traffic. Raises `PlayError` when it is too much."""
        self._left_bytes -= count_bytes
        if self._left_bytes < 0:
            raise _too_much("makes the resolver load more")

    def _told(self, failure: PlayFailure) -> Message:
        if self.problem is None or self.problem.code not in REFUSALS:
            self.problem = failure
        return Message({"error": failure.message, "code": failure.code})


def _headers(given: Json) -> JsonObject:
    """The headers to send, each name once. Raises `BadQuestion`."""
    headers: JsonObject = {}
    for pair in given if isinstance(given, list) else ():
        match pair:
            case [str(name), str(value)] if _NAME.fullmatch(name) and _VALUE.fullmatch(value):
                if name.lower() not in _NOT_SENT:
                    headers[name] = value
            case _:
                raise BadQuestion("it sends what is no header")
    if _size(headers) > LARGEST_HEAD_BYTES:
        raise BadQuestion("it sends a head that is too long")
    return headers


def _size(headers: JsonObject) -> int:
    return sum(len(name) + len(str(value)) + 4 for name, value in headers.items())


def _too_much(what: str) -> PlayError:
    message = f"The page {what} than it may."
    hint = "Give the link of the media itself."
    return PlayError.of(FailureCode.LIMIT_EXCEEDED, Stage.RESOLVE, message, hint)

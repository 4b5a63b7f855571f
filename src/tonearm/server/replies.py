"""Answers: with a JSON body, with a list made in slices, or without a body; the choice between JSON and plain text; the
body of every error answer, and the refusals of the edge itself.
"""

import asyncio
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from aiohttp import web

from tonearm.core.errors import ErrorCode, LimitReached, RequestError
from tonearm.core.file_formats import Picture
from tonearm.core.metadata import JsonObject
from tonearm.protocol.wire_model import json_text

# A slice ends at the first of these limits, so that it blocks the event loop for only a few milliseconds, even on a
# slow machine.
SLICE_ITEMS: Final = 100
SLICE_BYTES: Final = 32 * 1024
SLICE_S: Final = 0.005
# A longer list is sent while it is made, as fast as the client takes it, so that it is never in memory as a whole.
SENT_AT_ONCE_BYTES: Final = 1024 * 1024


def json_reply(value: JsonObject, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return encoded_reply(json_text(value), status)


def encoded_reply(body: bytes, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """An answer with a body that `json_text` has made."""
    return web.Response(status=status, body=body, content_type="application/json")


def encoded_list_reply(items: Iterable[bytes]) -> web.Response:
    """An array of items that `json_text` has made."""
    return encoded_reply(b"[" + b",".join(items) + b"]")


async def json_list_reply(
    request: web.BaseRequest, items: Iterable[JsonObject], etag: str | None = None
) -> web.StreamResponse:
    """An array, made and encoded in slices, so that thousands of items do not make the audio clock late."""
    return await sliced_reply(
        request, array_slices(b"[", map(json_text, items), b"]"), {} if etag is None else {"ETag": etag}
    )


async def json_object_reply(
    request: web.BaseRequest, fields: JsonObject, list_name: str, items: Iterable[JsonObject]
) -> web.StreamResponse:
    """An object with `fields` and an array `list_name`, made and encoded in slices."""
    return await sliced_reply(request, object_slices(fields, list_name, map(json_text, items)))


def object_slices(fields: JsonObject, list_name: str, items: Iterable[bytes]) -> Iterator[bytes]:
    """An object with `fields` and an array `list_name`, in slices."""
    head = json_text(fields)[:-1] + (b"," if fields else b"")
    return array_slices(head + json_text(list_name) + b":[", items, b"]}")


def array_slices(head: bytes, items: Iterable[bytes], tail: bytes) -> Iterator[bytes]:
    """`head`, the items that `json_text` made with commas between them, and `tail`, in slices."""
    for some in slices(items):
        yield head + some
        head = b","
    yield tail if head == b"," else head + tail


async def sliced_reply(
    request: web.BaseRequest, parts: Iterator[bytes], headers: Mapping[str, str] = MappingProxyType({})
) -> web.StreamResponse:
    """An answer with JSON made in slices. When it is long, it is sent while it is made."""
    made: list[bytes] = []
    response: web.StreamResponse | None = None
    size_bytes = 0
    for part in parts:
        if response is not None:
            await response.write(part)  # waits while the client is slow
        else:
            made.append(part)
            size_bytes += len(part)
            if size_bytes > SENT_AT_ONCE_BYTES and request.method != "HEAD":
                response = web.StreamResponse(headers={"Content-Type": "application/json", **headers})
                await response.prepare(request)
                await response.write(b"".join(made))
        await asyncio.sleep(0)
    if response is None:
        reply = encoded_reply(b"".join(made))
        reply.headers.update(headers)
        return reply
    await response.write_eof()
    return response


def slices(items: Iterable[bytes], now_s: Callable[[], float] = time.monotonic) -> Iterator[bytes]:
    """The items with commas between them, in slices of up to SLICE_ITEMS, SLICE_BYTES or SLICE_S."""
    some: list[bytes] = []
    size_bytes, ends_s = 0, now_s() + SLICE_S
    for item in items:
        some.append(item)
        size_bytes += len(item)
        if len(some) == SLICE_ITEMS or size_bytes >= SLICE_BYTES or now_s() > ends_s:
            yield b",".join(some)
            some.clear()
            size_bytes, ends_s = 0, now_s() + SLICE_S
    if some:
        yield b",".join(some)


def picture_reply(request: web.BaseRequest, picture: Picture) -> web.Response:
    """A picture, or 304 for a client that has it. Clients must revalidate each time, because the picture at the path
    changes with the track."""
    etag = f'"{picture.version}"'
    headers = {
        "ETag": etag,
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    known = _entries(request.headers.getall("If-None-Match", []))
    if known == ["*"] or etag in (one.removeprefix("W/") for one in known):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    return web.Response(body=picture.data, content_type=picture.media_type, headers=headers)


def no_content() -> web.Response:
    return web.Response(status=HTTPStatus.NO_CONTENT)


_MAX_ENTRIES: Final = 100


def _entries(headers: Sequence[str]) -> list[str]:
    """The entries of all headers of one name. Entries beyond the limit are ignored: no real client sends more, and
    parsing all entries that fit into a request would delay frames."""
    return [entry.strip() for entry in ",".join(headers).split(",", _MAX_ENTRIES)[:_MAX_ENTRIES]]


def accepts_html(accept_headers: Sequence[str]) -> bool:
    """Whether a browser asks for a page."""
    return "text/html" in ",".join(accept_headers).lower()


_WEIGHT: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def prefers_json(accept_headers: Sequence[str]) -> bool:
    """True when `application/json` is weighed above both `text/plain` and `*/*`.

    Weights are those of RFC 9110, section 12.5.1: `q` from 0 to 1, 1 when it is left out, and the more exact range
    counts for a type. A type that is not mentioned weighs nothing; a range that cannot be read is passed over.
    """
    weights = _weights(accept_headers)
    json_weight = weights.get("application/json", weights.get("application/*", 0.0))
    text_weight = weights.get("text/plain", weights.get("text/*", 0.0))
    return json_weight > text_weight and json_weight > weights.get("*/*", 0.0)


def _weights(accept_headers: Sequence[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for entry in _entries(accept_headers):
        media_range, *parameters = (part.strip().lower() for part in entry.split(";"))
        weight_text = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        if _WEIGHT.fullmatch(weight_text):
            weights[media_range] = max(weights.get(media_range, 0.0), float(weight_text))
    return weights


class Unauthorized(RequestError, code="unauthorized", status=401):
    """The password is missing or wrong."""

    def __init__(
        self,
        message: str = "Send the node's password as the value of one Authorization header.",
        challenges: str = "",
    ) -> None:
        """`challenges` are the value of WWW-Authenticate; empty: without it."""
        self.challenges = challenges
        # One sentence for every cause: an answer must not show how near a guess was.
        super().__init__(message)


class ForeignOrigin(RequestError, code="foreign_origin", status=403):
    """A page of a foreign origin asked."""


class NotFound(RequestError, code="not_found", status=404):
    """There is no such path."""


class MethodNotAllowed(RequestError, code="method_not_allowed", status=405):
    """The path has other methods."""

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.allow = ", ".join(sorted(allowed))
        super().__init__(f"{method} is not possible here. Use {self.allow}.")


class BodyTooLarge(RequestError, code="body_too_large", status=413):
    """The body has too many bytes."""


class UpgradeRequired(RequestError, code="upgrade_required"):
    """The path is a WebSocket."""

    def __init__(self) -> None:
        super().__init__("This path is a WebSocket. Connect with a WebSocket client (version 13).")


class NotReady(RequestError, code="not_ready", status=503):
    """The node cannot play yet, or not any more."""


class TooManyRequests(LimitReached):
    """An address sent more requests than allowed, by default than `server.requests_per_second`. After `wait_s` seconds
    a request is allowed again."""

    def __init__(
        self,
        wait_s: float,
        message: str = "Your address sends more requests than server.requests_per_second allows. Wait, and try again.",
    ) -> None:
        self.retry_after = str(max(1, math.ceil(wait_s)))
        super().__init__(message)


def new_request_id() -> str:
    """A new id, which is in an error's answer and in the log."""
    return secrets.token_hex(6)


def refusal_reply(error: RequestError, path: str, request_id: str) -> web.Response:
    reply = error_reply(HTTPStatus(error.status), error.code, error.message, path, request_id)
    if isinstance(error, Unauthorized) and error.challenges:
        reply.headers["WWW-Authenticate"] = error.challenges
    if isinstance(error, MethodNotAllowed):
        reply.headers["Allow"] = error.allow
    if isinstance(error, TooManyRequests):
        reply.headers["Retry-After"] = error.retry_after
    return reply


def internal_error_reply(path: str, request_id: str) -> web.Response:
    """The answer to a request that failed because of an error in the node. Details are in the log only."""
    message = "The request failed inside the node. Try again; if it fails again, read the node's log."
    return error_reply(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", message, path, request_id)


def stopping_reply(path: str, request_id: str) -> web.Response:
    """The answer to a request that the stopping node cannot answer."""
    message = "The node is shutting down. Try again after its restart."
    reply = error_reply(HTTPStatus.SERVICE_UNAVAILABLE, "internal", message, path, request_id)
    reply.force_close()
    return reply


def error_reply(status: HTTPStatus, code: ErrorCode, message: str, path: str, request_id: str) -> web.Response:
    """`protocol.replies.Error`. `path` is the request's, without the query."""
    body: JsonObject = {
        "timestamp": time.time_ns() // 1_000_000,
        "status": status.value,
        "error": status.phrase,
        "code": code,
        "message": message,
        "path": path,
        "requestId": request_id,
    }
    return json_reply(body, status)

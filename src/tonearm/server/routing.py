"""Finds the handler of a request: it parses the target, looks up the route, and does the checks in order.

The target is parsed from the bytes that were sent, because libraries normalise paths: they resolve dots, and decode
only some escapes. A player's id may have any of `. _ ~ : @ + -` in it, so the path is split and then decoded, and
nothing else is done to it.
"""

import asyncio
import logging
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from tonearm.core.errors import BadRequest, PlayerNotFound, RequestError
from tonearm.core.printable import text_for_logs
from tonearm.core.request_rates import RequestRates, origin_of
from tonearm.description.operation import Operation, Subject
from tonearm.node.node import Node
from tonearm.server.access import OriginRules, PasswordCheck
from tonearm.server.http_server import EdgeRequest, RefusalLog
from tonearm.server.login import Login
from tonearm.server.login_page import PAGE_PATHS, login_page
from tonearm.server.replies import (
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
    Unauthorized,
    accepts_html,
    internal_error_reply,
    refusal_reply,
    stopping_reply,
)

MAX_QUERY_FIELDS: Final = 50
_MAX_SEGMENTS: Final = 20  # more than any route has; the last segment of a longer path is the whole rest


@dataclass(frozen=True)
class Target:
    """`path` as sent, without query; `segments` percent-decoded; `query` as sent."""

    path: str
    segments: tuple[str, ...]
    query: str

    def parameter(self, name: str, *, keeps_plus: bool = False) -> str | None:
        """The decoded value, None without the parameter. Raises `BadRequest` when it is there twice or not UTF-8, and
        for a query of more than `MAX_QUERY_FIELDS` fields.

        A `+` is a space, as in forms; with `keeps_plus` it stays a `+`, as base64 needs.
        """
        try:
            fields = self._fields_with_plus if keeps_plus else self._fields
            values = [value for key, value in fields if key == name]
            for value in values:
                value.encode("utf-8")  # bytes that were sent raw and are not UTF-8 have become lone surrogates
        except UnicodeError as error:
            raise BadRequest("The query is not UTF-8. Percent-encode it as UTF-8.") from error
        if len(values) > 1:
            raise BadRequest(f"The parameter `{name}` occurs {len(values)} times. Send it once.")
        return values[0] if values else None

    @cached_property
    def _fields(self) -> list[tuple[str, str]]:
        return _query_fields(self.query)

    @cached_property
    def _fields_with_plus(self) -> list[tuple[str, str]]:
        return _query_fields(self.query.replace("+", "%2B"))

    def flag(self, name: str) -> bool:
        """True for `true`; False for `false` and without the parameter. Raises `BadRequest` for other values."""
        value = self.parameter(name)
        if value not in (None, "true", "false"):
            raise BadRequest(f"`{name}` must be true or false.")
        return value == "true"

    def required_parameter(self, name: str, *, keeps_plus: bool = False) -> str:
        """As `parameter`; raises `BadRequest` also when the parameter is missing."""
        value = self.parameter(name, keeps_plus=keeps_plus)
        if value is None:
            raise BadRequest(f"The parameter `{name}` is missing. Add ?{name}=… to the path.")
        return value


def _query_fields(query: str) -> list[tuple[str, str]]:
    if query.count("&") >= MAX_QUERY_FIELDS:
        raise BadRequest(f"The query has more than {MAX_QUERY_FIELDS} fields. Send only fields that the path takes.")
    return parse_qsl(query, keep_blank_values=True, errors="strict")


def parse_target(raw: str) -> Target:
    """Parses the target of a request line: `/path?query`, also in absolute form (`http://host/path?query`)."""
    if not raw.startswith("/") and "://" in raw:
        raw = "/" + raw.partition("://")[2].partition("/")[2]
    path, _, query = raw.partition("#")[0].partition("?")
    return Target(path, tuple(unquote(segment) for segment in path.split("/", _MAX_SEGMENTS)[1:]), query)


PLAYER_ARGUMENT: Final = "{player_id}"
_TRACK_ARGUMENT: Final = "{track_id}"
_OVERLAY_ARGUMENT: Final = "{overlay_id}"


@dataclass(frozen=True, slots=True)
class Call:
    """A request that passed the checks and has a route. The answer waits until the player that it is about, or
    `new_players`, are saved."""

    request: EdgeRequest
    target: Target
    arguments: Mapping[str, str]
    new_players: list[str] = field(default_factory=list)

    @property
    def player_id(self) -> str:
        return self.arguments[PLAYER_ARGUMENT]

    @property
    def track_id(self) -> str:
        return self.arguments[_TRACK_ARGUMENT]

    @property
    def overlay_id(self) -> str:
        return self.arguments[_OVERLAY_ARGUMENT]

    @property
    def came_through_proxy(self) -> bool:
        """Whether a proxy passed the request on. Such a request may come from anywhere, whatever address the node
        listens on, and `core.policy` applies the stricter rules."""
        return any(name in self.request.headers for name in ("Forwarded", "X-Forwarded-For", "Via"))


Handler: TypeAlias = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """An operation and its handler. A route for GET answers HEAD, too."""

    operation: Operation
    handler: Handler


class RouteTable:
    """All routes of the node."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_template: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            method, path = route.operation.method, route.operation.path
            by_method = self._by_template.setdefault(tuple(path.split("/")[1:]), {})
            by_method[method] = route
            if method == "GET":
                by_method["HEAD"] = route

    def find(self, method: str, segments: tuple[str, ...]) -> tuple[Route, Mapping[str, str]]:
        """The route and the path's arguments. Raises `NotFound` and `MethodNotAllowed`."""
        for template, by_method in self._by_template.items():
            arguments = _match(template, segments)
            if arguments is None:
                continue
            if method not in by_method:
                raise MethodNotAllowed(method, by_method)
            return by_method[method], arguments
        raise NotFound("There is nothing at this path. GET / lists all paths.")


def _match(template: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    if len(template) != len(segments):
        return None
    arguments: dict[str, str] = {}
    for pattern, segment in zip(template, segments, strict=True):
        if pattern.startswith("{") and segment:
            arguments[pattern] = segment
        elif pattern != segment:
            return None
    return arguments


log = logging.getLogger(__name__)

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WARNED_STATUSES: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
_LOGGED_CHARACTERS: Final = 300
# A supervisor restarts a node that refuses these requests. Other requests from its address must not cause that.
_ASKED_BY_SUPERVISORS: Final = frozenset({"/healthz", "/readyz"})

# A page from an allowed origin may do the same as any other client.
_PREFLIGHT_HEADERS: Final[Mapping[str, str]] = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "*, Authorization",  # browsers leave the password out of `*`
    "Access-Control-Allow-Private-Network": "true",
    "Access-Control-Max-Age": "600",
}


class Edge(ABC):
    """Answers every request, also when its handler fails. After `stop` requests are answered with 503."""

    def __init__(self) -> None:
        self._refusals = RefusalLog()
        self._is_stopping = False

    @abstractmethod
    def headers(self, request: EdgeRequest) -> Mapping[str, str]:
        """The headers of every answer to `request`, also of errors."""

    @abstractmethod
    async def answer(self, request: EdgeRequest, target: Target) -> web.StreamResponse:
        """The answer to a request. Raises `RequestError`."""

    def refused(self, request: EdgeRequest, target: Target, error: RequestError) -> web.Response:
        """The answer to a request that raised `error`."""
        return refusal_reply(error, target.path, request.id)

    def stop(self) -> None:
        """The node is stopping: from now on a failed request is answered with 503."""
        self._is_stopping = True

    async def handle(self, request: EdgeRequest) -> web.StreamResponse:
        """The answer to `request`. Raises nothing but cancellation."""
        target = parse_target(request.raw_path)
        request.reply_headers = self.headers(request)
        try:
            if self._is_stopping:
                return self._stopping(request, target)
            return await self.answer(request, target)
        except RequestError as error:
            self._log_refusal(request, target, error)
            return self.refused(request, target, error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._is_stopping or task is None or task.cancelling():
                raise
            return self._stopping(request, target)  # the node was cancelled, and not the request
        except Exception as error:
            if self._is_stopping:
                return self._stopping(request, target)
            is_gone = request.transport is None or request.transport.is_closing()
            if is_gone and isinstance(error, OSError):  # others are ours: a socket that fails has closed its connection
                log.debug(
                    "request %s: %s %s: the client went away.", request.id, request.method, target.path, exc_info=True
                )
            else:
                log.exception("request %s failed: %s %s", request.id, request.method, target.path)
            return internal_error_reply(target.path, request.id)

    def _stopping(self, request: EdgeRequest, target: Target) -> web.StreamResponse:
        """The answer of a stopping node. During the handling of an exception, the log gets the exception, too."""
        text = "request %s was not done, for the node stops: %s %s"
        log.debug(text, request.id, request.method, target.path, exc_info=sys.exc_info()[0] is not None)
        return stopping_reply(target.path, request.id)

    def _log_refusal(self, request: EdgeRequest, target: Target, error: RequestError) -> None:
        is_warning = error.status in _WARNED_STATUSES
        if not (is_warning or log.isEnabledFor(logging.DEBUG)):
            return
        text = (
            f"request {request.id} refused with {error.status} {error.code}: "
            f"{request.method} {target.path} from {request.client}: {error.message}"
        )
        (self._refusals.warn if is_warning else log.debug)(text_for_logs(text)[:_LOGGED_CHARACTERS])


class ClusterSide(Protocol):
    """The part of a cluster that answers requests."""

    async def answer(self, call: Call, operation: Operation) -> web.StreamResponse | None:
        """The answer of another node, or of several together; None when this node answers by itself. Raises
        `RequestError`."""

    def is_from_node(self, request: EdgeRequest) -> bool:
        """Whether another node passed the request on."""


class NodeEdge(Edge):
    """All of the node's routes. Checks the rate of requests, the password, the origin, path and method, and the player,
    in this order, and calls the route's handler. The preflight request of a browser for a page of an allowed origin is
    answered before all checks: it never has a password, and the answer reveals nothing about the node.

    `open_paths` need no password. With `login` a cookie counts as the password.
    """

    def __init__(
        self,
        node: Node,
        password_check: PasswordCheck,
        origin_rules: OriginRules,
        routes: RouteTable,
        open_paths: Collection[str] = (),
        requests_per_second: float = 0.0,
        login: Login | None = None,
        cluster: ClusterSide | None = None,
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._node = node
        self._password_check = password_check
        self._origin_rules = origin_rules
        self._routes = routes
        self._open_paths = open_paths
        self._rates = RequestRates(requests_per_second)
        self._login = login

    def headers(self, request: EdgeRequest) -> Mapping[str, str]:
        allowed_origin = self._origin_rules.allowed(request.headers)
        if allowed_origin is None:
            return {}
        return {
            "Access-Control-Allow-Origin": allowed_origin,
            "Access-Control-Expose-Headers": "*",
            "Vary": "Origin",
        }

    def refused(self, request: EdgeRequest, target: Target, error: RequestError) -> web.Response:
        is_at_page = target.path in PAGE_PATHS and isinstance(error, Unauthorized | NotFound)
        if not (is_at_page and accepts_html(request.headers.getall("Accept", []))):
            return super().refused(request, target, error)
        return login_page(error.status, can_log_in=self._login is not None)

    async def answer(self, request: EdgeRequest, target: Target) -> web.StreamResponse:
        is_preflight = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        if is_preflight and self._origin_rules.allowed(request.headers) is not None:
            self._origin_rules.require(request.headers)
            return web.Response(status=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT_HEADERS)
        brings_password = self._login is not None and self._login.is_entry(request.method, target.path)
        needs_password = not brings_password and target.path not in self._open_paths
        self._require_rate(request, target, needs_password=needs_password)
        if needs_password and not self._lets_in(request):
            raise Unauthorized(challenges=self._password_check.challenges(request.headers))
        self._origin_rules.require(request.headers)
        if not brings_password:
            request.let_in()
        route, arguments = self._routes.find(request.method, target.segments)
        call, is_about_player = Call(request, target, arguments), route.operation.subject is Subject.PLAYER
        if self._cluster is not None:
            passed = await self._cluster.answer(call, route.operation)
            if passed is not None:
                return passed
        if is_about_player and self._node.find(call.player_id) is None:
            raise PlayerNotFound.of(call.player_id)
        try:
            reply = await route.handler(call)
        except PlayerNotFound:
            passed = None if self._cluster is None else await self._cluster.answer(call, route.operation)
            if passed is None:
                raise
            return passed  # the player has moved while the request waited here
        if request.method not in _READING:
            changed = [call.player_id] if is_about_player else call.new_players
            if not all([await self._node.saved(one) for one in changed]):
                request.add_reply_header("Tonearm-Unsaved", "true")
        return reply

    def _lets_in(self, request: EdgeRequest) -> bool:
        """Whether the request has the password, or the cookie of a browser that has logged in with it."""
        return self._password_check.lets_in(request.headers) or (
            self._login is not None and self._login.lets_in(request)
        )

    def _require_rate(self, request: EdgeRequest, target: Target, *, needs_password: bool) -> None:
        """Counts the request for its address. Raises `TooManyRequests`.

        Requests of a supervisor and of other nodes are not counted, unless their password is wrong: otherwise guessing
        would be free.
        """
        is_free = target.path in _ASKED_BY_SUPERVISORS or (
            self._cluster is not None and self._cluster.is_from_node(request)
        )
        if is_free and (not needs_password or self._lets_in(request)):
            return
        wait_s = self._rates.wait_s(origin_of(request.remote or ""), time.monotonic())
        if wait_s:
            raise TooManyRequests(wait_s)

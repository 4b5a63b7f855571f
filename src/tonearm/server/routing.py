"""What happens to every request, in this order: password, origin, path and method, player, then its own handler.

The request target, read from what was sent.

Libraries normalise paths: they resolve dots, decode some escapes and keep others. A player's id may hold any of
`. _ ~ : @ + -`, so the path is split before it is decoded, and nothing else is done to it.

From method and path to the function that answers.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from tonearm.core.errors import BadRequest, PlayerNotFound, RequestError
from tonearm.server.access import PasswordCheck, require_own_origin
from tonearm.server.errors import MethodNotAllowed, NotFound, internal_error_reply, refusal_reply
from tonearm.server.node_api import NodeApi


@dataclass(frozen=True, slots=True)
class Target:
    """`path` as sent, without query; `segments` percent-decoded; `query` as sent."""

    path: str
    segments: tuple[str, ...]
    query: str

    def parameter(self, name: str, *, keeps_plus: bool = False) -> str | None:
        """The decoded value, or None when it is not there. Raises `BadRequest` when it is there twice or not UTF-8.

        A `+` is a space, as in forms. With `keeps_plus` it stays: in base64 nobody means a space.
        """
        query = self.query.replace("+", "%2B") if keeps_plus else self.query
        try:
            parameters = parse_qsl(query, keep_blank_values=True, errors="strict")
            values = [value for key, value in parameters if key == name]
            for value in values:
                value.encode("utf-8")  # bytes that were sent raw and are not UTF-8 have become lone surrogates
        except UnicodeError as error:
            raise BadRequest("The query is not UTF-8. Percent-encode it as UTF-8.") from error
        if len(values) > 1:
            raise BadRequest(f"The parameter `{name}` is there {len(values)} times. Send it once.")
        return values[0] if values else None

    def required_parameter(self, name: str, *, keeps_plus: bool = False) -> str:
        """As `parameter`, but a missing one is a `BadRequest` too."""
        value = self.parameter(name, keeps_plus=keeps_plus)
        if value is None:
            raise BadRequest(f"The parameter `{name}` is missing. Add ?{name}=… to the path.")
        return value


def parse_target(raw: str) -> Target:
    """Takes the target of a request line: `/path?query`, also in absolute form (`http://host/path?query`)."""
    if not raw.startswith("/") and "://" in raw:
        raw = "/" + raw.partition("://")[2].partition("/")[2]
    path, _, query = raw.partition("#")[0].partition("?")
    return Target(path, tuple(unquote(segment) for segment in path.split("/")[1:]), query)


PLAYER_ARGUMENT = "{player_id}"


@dataclass(frozen=True, slots=True)
class Call:
    """One request that passed the checks and found its route."""

    request: web.BaseRequest
    target: Target
    arguments: Mapping[str, str]

    @property
    def player_id(self) -> str:
        return self.arguments[PLAYER_ARGUMENT]


Handler: TypeAlias = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """`path` is a template such as `/v0/players/{player_id}/play`. A route for GET answers HEAD, too."""

    method: str
    path: str
    handler: Handler


class RouteTable:
    """All routes of the node."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_template: dict[tuple[str, ...], dict[str, Handler]] = {}
        for route in routes:
            handlers = self._by_template.setdefault(tuple(route.path.split("/")[1:]), {})
            handlers[route.method] = route.handler
            if route.method == "GET":
                handlers["HEAD"] = route.handler

    def find(self, method: str, segments: tuple[str, ...]) -> tuple[Handler, Mapping[str, str]]:
        """The handler and the path's arguments. Raises `NotFound` and `MethodNotAllowed`."""
        for template, handlers in self._by_template.items():
            arguments = _match(template, segments)
            if arguments is None:
                continue
            if method not in handlers:
                raise MethodNotAllowed(method, handlers)
            return handlers[method], arguments
        raise NotFound("There is nothing at this path. Look at the list of endpoints in the documentation.")


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


_LOG: Final = logging.getLogger(__name__)


class Edge:
    """Translates between HTTP and the node."""

    def __init__(self, node: NodeApi, password_check: PasswordCheck, routes: RouteTable) -> None:
        self._node = node
        self._password_check = password_check
        self._routes = routes

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to `request`. Raises nothing but cancellation."""
        target = parse_target(request.raw_path)
        try:
            return await self._answer(request, target)
        except RequestError as error:
            return refusal_reply(error, target.path)
        except Exception:  # noqa: BLE001 - the last resort: logged with its traceback, told without details
            if request.transport is None:
                _LOG.debug("%s %s: the client went away.", request.method, target.path, exc_info=True)
            else:
                _LOG.exception("%s %s failed.", request.method, target.path)
            return internal_error_reply(target.path)

    async def _answer(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        self._password_check.require(request.headers)
        require_own_origin(request.headers, node_is_open=self._password_check.is_open)
        handler, arguments = self._routes.find(request.method, target.segments)
        player_id = arguments.get(PLAYER_ARGUMENT)
        if player_id is not None and not self._node.has_player(player_id):
            raise PlayerNotFound("There is no player with this id. Create it with POST /v0/players.")
        return await handler(Call(request, target, arguments))

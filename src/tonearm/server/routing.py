"""From method and path to the function that answers."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from tonearm.server.errors import MethodNotAllowed, NotFound
from tonearm.server.target import Target

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

"""What happens to every request, in this order: password, origin, path and method, player, then its own handler."""

import logging
from typing import Final

from aiohttp import web

from tonearm.core.errors import PlayerNotFound, RequestError
from tonearm.server.auth import PasswordCheck
from tonearm.server.errors import internal_error_reply, refusal_reply
from tonearm.server.node_api import NodeApi
from tonearm.server.origin import require_own_origin
from tonearm.server.routing import PLAYER_ARGUMENT, Call, RouteTable
from tonearm.server.target import Target, parse_target

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

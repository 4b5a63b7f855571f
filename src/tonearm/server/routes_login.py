"""The endpoints to log in to the dashboard with a browser, and to log out."""

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from tonearm.description.node import LOG_IN, LOG_OUT
from tonearm.protocol.requests import DashboardLogin
from tonearm.server.access import is_from_own_page
from tonearm.server.bodies import as_model, decoded, read_raw
from tonearm.server.login import Login
from tonearm.server.replies import ForeignOrigin
from tonearm.server.routing import Call, Route

_MAX_BODY_BYTES: Final = 8 * 1024


class LoginRoutes:
    def __init__(self, login: Login) -> None:
        self._login = login

    def routes(self) -> Sequence[Route]:
        return (Route(LOG_IN, self._log_in), Route(LOG_OUT, self._log_out))

    async def _log_in(self, call: Call) -> web.Response:
        if not is_from_own_page(call.request.headers):
            raise ForeignOrigin("Only the dashboard's own page logs in. Open it at the node's own address.")
        body = as_model(call.request, decoded(await read_raw(call.request, _MAX_BODY_BYTES))[0], DashboardLogin)
        return self._login.log_in(call.request, body.password, stays=body.stay)

    async def _log_out(self, call: Call) -> web.Response:
        return self._login.log_out(call.request)

"""aiohttp's HTTP server, with this node's answers where it would send its own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm.server.errors import error_reply, internal_error_reply

_LOG: Final = logging.getLogger(__name__)

# A source's URI has up to 4096 characters, and each may take nine bytes when it is percent-encoded in a query.
_MAX_REQUEST_LINE_BYTES: Final = 64 * 1024


class EdgeProtocol(web.RequestHandler):
    """One client's connection."""

    def __init__(self, manager: "EdgeHttpServer", *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            manager,
            loop=loop,
            max_line_size=_MAX_REQUEST_LINE_BYTES,
            access_log=None,  # type: ignore[arg-type]  # documented to switch the access log off
        )
        self.lost: asyncio.Future[None] = loop.create_future()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if not self.lost.done():
            self.lost.set_result(None)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers what never became a request (`status` 400), or what went wrong outside of every handler."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _LOG.error("A request failed outside of its handler.", exc_info=exc)
            response = internal_error_reply(request.path)
        else:
            _LOG.debug("A client sent what is not HTTP: %s", message)
            text = "This is not a valid HTTP request, or its head is too large. Send HTTP/1.1."
            response = error_reply(HTTPStatus(status), "bad_request", text, request.path)
        response.force_close()
        return response


class EdgeHttpServer(web.Server):
    """Makes an `EdgeProtocol` for each connection."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(handler)
        self._event_loop = asyncio.get_running_loop()

    def __call__(self) -> EdgeProtocol:
        return EdgeProtocol(self, loop=self._event_loop)


def connection_lost(request: web.BaseRequest) -> asyncio.Future[None]:
    """Is done when the client's connection is gone."""
    protocol = request.protocol
    if not isinstance(protocol, EdgeProtocol):
        raise TypeError(f"requests of this server come through {EdgeProtocol.__name__}")
    return protocol.lost

"""Lets the HTTP client understand the first radio servers of the web.

SHOUTcast 1 begins its answer with `ICY 200 OK` where HTTP has its version; the rest is HTTP/1.0.
"""

import functools
import socket
from collections.abc import Callable
from typing import Any, Final, cast

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler

_ICY: Final = b"ICY "
_HTTP: Final = b"HTTP/1.0 "


class RadioConnector(aiohttp.TCPConnector):
    """A connector whose connections translate the one word that is not HTTP."""

    def __init__(self, *, resolver: AbstractResolver, socket_factory: Callable[[Any], socket.socket]) -> None:
        # No limit: how many sources are open is decided elsewhere, and one must not wait for another.
        super().__init__(resolver=resolver, socket_factory=socket_factory, limit=0)
        handler: Callable[[], ResponseHandler] = functools.partial(_RadioResponseHandler, loop=self._loop)
        self._factory = cast("functools.partial[ResponseHandler]", handler)


class _RadioResponseHandler(ResponseHandler):
    # What came so far of an answer, as long as it may still become `ICY `; None once that is decided.
    _begun: bytes | None = b""

    def set_response_params(self, **params: Any) -> None:
        """Called before each request; a connection may have served another one before."""
        self._begun = b""
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._begun is not None and data:
            data = self._begun + data
            self._begun = None
            if data.startswith(_ICY):
                data = _HTTP + data[len(_ICY) :]
            elif _ICY.startswith(data):
                self._begun = data
                return
        super().data_received(data)

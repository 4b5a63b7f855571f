"""Logging in to the dashboard with a browser: the node's password for a cookie, which counts as the header.

Only the page of this address may use the cookie: scripts cannot read it, other sites cannot have it sent, and requests
from pages of other origins are refused. A lasting cookie is valid after a restart, too, because its key is made of the
password.
"""

import asyncio
import hashlib
import hmac
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from aiohttp import web

from tonearm.core.login import STAY_S, LoginCookies, WrongTries
from tonearm.core.printable import text_for_logs
from tonearm.core.request_rates import origin_of
from tonearm.description.node import LOG_IN
from tonearm.server.access import is_from_own_page
from tonearm.server.http_server import EdgeRequest
from tonearm.server.replies import TooManyRequests, Unauthorized, no_content, refusal_reply

log = logging.getLogger(__name__)

_DEFAULT_PORT: Final = "80"
_STREAM: Final = "/stream."  # in the paths of endless answers


class Login:
    """`password` is the node's. All nodes of the `cluster`, if any, accept each other's cookies. The change time of the
    file at `ended_path` is when all browsers were last logged out. With None the process keeps that time only in
    memory. `now_s` is a monotonic clock."""

    def __init__(
        self,
        password: str,
        ended_path: Path | None = None,
        now_s: Callable[[], float] = time.monotonic,
        *,
        cluster: str = "",
    ) -> None:
        self._now_s = now_s
        self._is_shared = bool(cluster)
        self._password = password.encode("utf-8", "surrogateescape")
        self._ended_path = ended_path
        ended_ms = 0
        if ended_path is not None:
            with suppress(OSError):
                ended_ms = ended_path.stat().st_mtime_ns // 1_000_000
        # Slowly, so that a cookie is no help to guess the password.
        salt = f"tonearm login {f'cluster {cluster}' if cluster else socket.gethostname()}".encode()
        lasting_key = hashlib.scrypt(self._password, salt=salt, n=2**14, r=8, p=1)
        passing_key = hmac.digest(lasting_key, b"here", "sha256") if cluster else secrets.token_bytes()
        self._cookies = LoginCookies(lasting_key, passing_key, ended_ms)
        self._wrong = WrongTries()
        self._open: set[asyncio.Transport] = set()  # the sockets and streams that a cookie let in

    def is_entry(self, method: str, path: str) -> bool:
        """Whether a request needs no password because it is the login itself."""
        return (method, path) == (LOG_IN.method, LOG_IN.path)

    def lets_in(self, request: EdgeRequest) -> bool:
        """Whether the request has a cookie, and comes from the page of this address or from no page."""
        value = request.cookies.get(_cookie_name(request))
        is_known = value is not None and self._cookies.knows(value, _now_ms(), self._port(request))
        if not is_known or not is_from_own_page(request.headers):
            return False
        if request.transport is not None and ("Upgrade" in request.headers or _STREAM in request.path):
            self._keep(request.transport, request.lost)
        return True

    def _keep(self, transport: asyncio.Transport, lost: asyncio.Future[None]) -> None:
        self._open.add(transport)
        lost.add_done_callback(lambda _: self._open.discard(transport))

    def log_in(self, request: EdgeRequest, password: str, *, stays: bool) -> web.Response:
        """204 with a cookie, 401 for a wrong password, or 429 after too many wrong passwords. The refusals are not
        raised, because they are logged less often than other refusals."""
        path, address = request.path, origin_of(request.remote or "")
        wait_s = self._wrong.wait_s(address, self._now_s())
        if wait_s:
            error = TooManyRequests(wait_s, "Too many wrong passwords. Wait, and try again.")
            return refusal_reply(error, path, request.id)
        if not hmac.compare_digest(password.encode("utf-8", "surrogateescape"), self._password):
            if self._wrong.note(address, self._now_s()):
                log.warning(
                    "a wrong password was tried at the dashboard's login from %s", text_for_logs(request.client)
                )
            return refusal_reply(Unauthorized("The password is wrong."), path, request.id)
        request.let_in()
        reply = no_content()
        reply.set_cookie(
            _cookie_name(request),
            self._cookies.make(_now_ms(), self._port(request), stays=stays),
            max_age=STAY_S if stays else None,
            path="/",
            secure=_came_by_https(request),
            httponly=True,
            samesite="Strict",
        )
        return reply

    def log_out(self, request: EdgeRequest) -> web.Response:
        """Ends the cookies of all browsers, and what they let in."""
        ended_ms = self._cookies.end_all(_now_ms())
        if self._ended_path is not None:
            self._ended_path.touch(0o600)
            os.utime(self._ended_path, ns=(ended_ms * 1_000_000,) * 2)
        for transport in self._open - {request.transport}:
            transport.abort()
        reply = no_content()
        reply.del_cookie(_cookie_name(request), path="/", httponly=True, samesite="Strict")
        return reply

    def _port(self, request: EdgeRequest) -> int:
        """The port of the node, so that its cookies differ from those of another node on this machine."""
        address = None if request.transport is None else request.transport.get_extra_info("sockname")
        return int(address[1]) if address and not self._is_shared else 0


def _cookie_name(request: EdgeRequest) -> str:
    """The cookie's name, with the port that the browser uses, because a browser sends the cookies of a host to all
    ports."""
    port = request.headers.get("Host", "").rpartition(":")[2]
    return f"tonearm-node-{port if port.isascii() and port.isdigit() else _DEFAULT_PORT}"


def _came_by_https(request: EdgeRequest) -> bool:
    """Whether the request came by https, by the page's origin or a proxy's headers."""
    proto = request.headers.get("X-Forwarded-Proto", "").strip().lower()
    forwarded = request.headers.get("Forwarded", "").lower()
    origin = request.headers.get("Origin", "").lower()
    return proto == "https" or "proto=https" in forwarded or origin.startswith("https:")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""HTTP requests and WebSockets to a node. Failures become the errors of `client.errors`, with the most likely cause."""

import asyncio
import contextlib
import json
import re
import ssl
from http import HTTPStatus
from typing import Any, BinaryIO, Final
from urllib.parse import unquote

import aiohttp
from yarl import URL

from tonearm.client.errors import Cause, ConnectError, PlayerNotFound, TonearmError, Unauthorized, api_error

_HEARTBEAT_S: Final = 20.0  # detects a node that vanished without closing the socket
_TLS_ALERT_PATIENCE_S: Final = 2.0
_GOODBYE_PATIENCE_S: Final = 1.0
_FETCHED_WITHIN_S: Final = 120.0  # longer than the node tries to open a source or to resolve a page
# aiohttp asserts that nobody closes the session meanwhile.
_FAILURES: Final = (aiohttp.ClientError, OSError, ValueError, AssertionError)
_OF_PLAYER: Final = re.compile(r"/v0/players/([^/]+)")


class Connection:
    """All requests and sockets to the node at `url`."""

    def __init__(self, url: str, password: str | None, timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self._password = (password or "").strip()  # Files end with a line break; no node has such a password.
        self._timeout_s = timeout_s
        self._limits = aiohttp.ClientTimeout(total=timeout_s)
        self._fetching_limits = aiohttp.ClientTimeout(connect=timeout_s, sock_read=_FETCHED_WITHIN_S)
        self._session: aiohttp.ClientSession | None = None
        self.closings = 0

    async def close(self) -> None:
        """Closes all sockets. A stream that began before this ends, and does not reconnect: `closings` has changed."""
        self.closings += 1
        if self._session is not None:
            await self._session.close()

    async def request(self, method: str, path: str, body: object = None) -> Any:
        """Sends `body` as JSON and returns the JSON of the answer, or None. Raises `ApiError` and `ConnectError`."""
        return await self._asked(method, path, None if body is None else _json(body))

    async def fetched(self, path: str) -> Any:
        """As `request` with GET. It may take longer, because the node opens a source or a page first."""
        return await self._asked("GET", path, None, self._fetching_limits)

    async def send(self, method: str, path: str, content: bytes | BinaryIO) -> Any:
        """As `request`, with a body that is not JSON. There is no timeout for sending it."""
        return await self._asked(method, path, content, aiohttp.ClientTimeout(sock_connect=self._timeout_s))

    async def content(self, path: str) -> tuple[bytes, str]:
        """As `fetched`, for an answer that is not JSON: its bytes and media type. Raises `ApiError` and
        `ConnectError`."""
        return await self._answer("GET", path, None, self._fetching_limits, "*/*")

    async def _asked(
        self, method: str, path: str, data: bytes | BinaryIO | None, limits: aiohttp.ClientTimeout | None = None
    ) -> Any:
        body, _ = await self._answer(method, path, data, limits or self._limits, "application/json")
        if not body:
            return None
        try:
            return json.loads(body.decode(errors="replace"))
        except ValueError:
            raise self._not_tonearm() from None

    async def _answer(
        self, method: str, path: str, data: bytes | BinaryIO | None, limits: aiohttp.ClientTimeout, accept: str
    ) -> tuple[bytes, str]:
        headers = {"Accept": accept}
        try:
            async with self._opened().request(
                method, self._address(path), data=data, headers=headers, timeout=limits
            ) as answer:
                return await answer.read(), answer.content_type
        except _FAILURES as error:
            raise await self._diagnosed(error) from error

    async def socket(self, path: str) -> aiohttp.ClientWebSocketResponse:
        """Opens a WebSocket. Raises `ApiError` and `ConnectError`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._opened().ws_connect(self._address(path), heartbeat=_HEARTBEAT_S, max_msg_size=0)
        except _FAILURES as error:
            raise await self._diagnosed(error) from error

    async def end(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Closes the socket properly, and waits only a moment for the node's answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_PATIENCE_S):
                await socket.close()

    async def check(self) -> Any:
        """What the node says about itself. Raises `ConnectError` if the address is not a tonearm node, and
        `Unauthorized`."""
        info = await self.request("GET", "/info")
        if not (isinstance(info, dict) and {"version", "buildTime"} <= info.keys()):
            raise self._not_tonearm()
        return info

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            headers = {"Authorization": self._password} if self._password else {}
            # Without a limit of connections: sockets stay open for hours, and a bot has one or two for each player.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                headers=headers, timeout=self._limits, connector=connector, middlewares=[self._raise_refusal]
            )
        return self._session

    async def _raise_refusal(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """A middleware, because for a refused socket aiohttp keeps only the status and drops the node's message."""
        answer = await handler(request)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise await self._refusal(answer, await answer.text(errors="replace"))
        return answer

    def _address(self, path: str) -> URL:
        url = URL(f"{self.url}{path}", encoded=True)
        if url.scheme not in ("http", "https") or not url.host or self.url.endswith("/v0"):
            raise ValueError
        return url

    async def _refusal(self, answer: aiohttp.ClientResponse, text: str) -> TonearmError:
        status, retry_after = answer.status, answer.headers.get("Retry-After", "")
        with contextlib.suppress(ValueError):
            body = json.loads(text)
            if isinstance(body, dict) and isinstance(body.get("code"), str) and isinstance(body.get("message"), str):
                if status == 401:
                    return Unauthorized(status, body["code"], self._password_sentence())
                of_player = _OF_PLAYER.search(answer.url.raw_path)
                if body["code"] == "player_not_found" and of_player is not None:
                    return PlayerNotFound(unquote(of_player[1]))
                retry_after_s = float(retry_after) if retry_after.isdecimal() else None  # It may be a date.
                return api_error(status, body["code"], body["message"], retry_after_s)
        if self.url.startswith("http:") and await self._speaks_tls():
            return self._tls_expected()
        return self._not_tonearm()

    def _password_sentence(self) -> str:
        if self._password:
            return f"The node at {self.url} refused the password. It is `server.password` of its configuration."
        return f"The node at {self.url} wants its password: give `password`, or set TONEARM_PASSWORD."

    async def _diagnosed(self, error: Exception) -> TonearmError:
        match error:
            case _ if self._session is not None and self._session.closed:
                cause: Cause = "lost"
                sentence = f"The program closed the connection to the node at {self.url}."
            case aiohttp.ClientConnectorDNSError():
                cause = "name_not_found"
                sentence = f"The name in {self.url} is not known; is it written right?"
            case aiohttp.ClientConnectorCertificateError():
                cause, sentence = "no_tls_there", f"The certificate at {self.url} is not valid: {error}."
            case aiohttp.ClientConnectorSSLError():
                cause = "no_tls_there"
                sentence = f"What listens at {self.url} does not speak TLS: write http:// instead of https://."
            case aiohttp.SocketTimeoutError():
                cause = "timeout"
                sentence = f"The node at {self.url} did not answer within {_FETCHED_WITHIN_S:g} s."
            case TimeoutError():
                cause, sentence = "timeout", f"The node at {self.url} did not answer within {self._timeout_s:g} s."
            case aiohttp.ClientConnectorError():
                cause, sentence = (
                    "nothing_listens",
                    f"Nothing listens at {self.url} ({error.strerror}); is the node on?",
                )
            case ValueError() if self.url.endswith("/v0"):
                cause, sentence = "wrong_address", f"{self.url} is no address of a node; write {self.url[:-3]}."
            case aiohttp.InvalidURL() | ValueError():
                cause, sentence = "wrong_address", f"{self.url} is no address of a node, as http://127.0.0.1:2333 is."
            case _ if self.url.startswith("http:") and await self._speaks_tls():
                return self._tls_expected()
            case aiohttp.ClientResponseError():
                return self._not_tonearm()
            case _:
                cause, sentence = "lost", f"The connection to the node at {self.url} was lost ({error})."
        return ConnectError(cause, sentence)

    def _not_tonearm(self) -> ConnectError:
        return ConnectError("not_tonearm", f"What answers at {self.url} is no tonearm node; is the port right?")

    def _tls_expected(self) -> ConnectError:
        return ConnectError("tls_expected", f"What listens at {self.url} wants TLS: write https:// instead of http://.")

    async def _speaks_tls(self) -> bool:
        """Whether a TLS handshake succeeds where plain HTTP failed. The certificate is not checked."""
        url = URL(self.url)
        anybody = ssl.create_default_context()
        anybody.check_hostname = False
        anybody.verify_mode = ssl.CERT_NONE
        try:
            async with asyncio.timeout(_TLS_ALERT_PATIENCE_S):
                _, writer = await asyncio.open_connection(url.host, url.port, ssl=anybody)
        except (OSError, TimeoutError):
            return False
        writer.transport.abort()
        return True


def _json(value: object) -> bytes:
    """Characters are sent as UTF-8 and not escaped, because the node's limits count that size. Only half a surrogate
    pair, which UTF-8 cannot express, is escaped."""
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace")

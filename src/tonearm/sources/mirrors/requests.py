"""One JSON or HTML request to a service, made by the node's guarded client. It copes with any answer."""

import asyncio
from collections.abc import Mapping
from typing import Final

import aiohttp
import msgspec

from tonearm.core.failure import REFUSALS, FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.metadata import Json
from tonearm.core.printable import one_line
from tonearm.sources.http.client import HttpClient
from tonearm.sources.http.errors import read_error

_MOST_BYTES: Final = 2 * 1024 * 1024
_MOST_REASON_CHARACTERS: Final = 300
_IS_BUSY: Final = 429


class ServiceRefused(Exception):
    """A service answered without the requested data. `reason` is a sentence without its full stop."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.reason = one_line(reason)[:_MOST_REASON_CHARACTERS]
        self.status = status


class ServiceClient:
    """Sends requests to services through `client`. Each request takes at most `timeout_s`."""

    def __init__(self, client: HttpClient, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    async def json(
        self, url: str, headers: Mapping[str, str] | None = None, *, body: bytes | None = None
    ) -> dict[str, Json]:
        """The JSON object in the answer; `body` is posted as a form. Raises `ServiceRefused` for any other answer, and
        `PlayError` without an answer."""
        return await json_object(await self.text(url, headers, body=body))

    async def text(self, url: str, headers: Mapping[str, str] | None = None, *, body: bytes | None = None) -> str:
        """The text of an answer with status 200. Raises as `json`."""
        response: aiohttp.ClientResponse | None = None
        form = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
        asked = {"Accept-Encoding": "identity", **form, **(headers or {})}
        try:
            async with asyncio.timeout(self._timeout_s):
                uri = self._client.admitted(url)
                if body is None:
                    response, _ = await self._client.for_source().get(uri, asked)
                else:
                    response = await self._client.send(uri, asked, method="POST", body=body)
                if response.status != 200:
                    raise _refusal(response)
                return await _body(response)
        except TimeoutError:
            raise ServiceRefused(f"it did not answer within {self._timeout_s:g} s") from None
        except aiohttp.ClientError as error:
            raise read_error(error, "the service") from error
        finally:
            if response is not None:
                response.close()

    async def redirect(self, url: str) -> str:
        """Where a short link leads, as its server says. Raises as `json`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._client.send(self._client.admitted(url), {})
        except TimeoutError:
            raise ServiceRefused(f"it did not answer within {self._timeout_s:g} s") from None
        response.close()
        if "Location" not in response.headers:
            raise ServiceRefused("its short link leads nowhere", response.status)
        return response.headers["Location"]


async def json_object(text: str) -> dict[str, Json]:
    """Parses a JSON object in a thread. msgspec keeps the interpreter's lock for a third of the time of `json`. Raises
    `ServiceRefused`."""
    try:
        value = await asyncio.to_thread(msgspec.json.decode, text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise ServiceRefused("its answer is no JSON") from None
    if not isinstance(value, dict):
        raise ServiceRefused("its answer is not what was asked for")
    return value


async def _body(response: aiohttp.ClientResponse) -> str:
    parts: list[bytes] = []
    count_bytes = 0
    async for part in response.content.iter_any():
        count_bytes += len(part)
        if count_bytes > _MOST_BYTES:
            raise ServiceRefused(f"its answer has more than {_MOST_BYTES >> 20} MiB")
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def _refusal(response: aiohttp.ClientResponse) -> ServiceRefused:
    if response.status == _IS_BUSY:
        wait_s = response.headers.get("Retry-After", "")
        again = f"; it says to ask again in {wait_s} s" if wait_s.isdecimal() and len(wait_s) < 7 else ""
        return ServiceRefused(f"it is asked too often by this address{again}", _IS_BUSY)
    return ServiceRefused(f"it answered with HTTP status {response.status}", response.status)


def service_error(service: str, reason: str | PlayFailure, hint: str = "") -> PlayError:
    """The error when a service's data about a link cannot be fetched. A refusal of the node keeps its code."""
    if isinstance(reason, PlayFailure):
        if reason.code in REFUSALS:
            message = f"{service} may not be asked: {reason.message}"
            return PlayError.of(reason.code, Stage.RESOLVE, message, reason.hint)
        return service_error(service, reason.message.rstrip("."), hint or reason.hint)
    hint = hint or "Try again later, or give the title and the artist as words."
    message = f"{service} did not say what the link is: {reason[:_MOST_REASON_CHARACTERS]}."
    return PlayError.of(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, message, hint)

"""Internet radio as a source of bytes: endless, with titles, taken up again when it breaks off."""

import asyncio
from collections import deque
from typing import Final

import aiohttp

from tonearm.core.byte_source import StreamTitle
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.sources.fetch_settings import FetchSettings
from tonearm.sources.http_client import HttpClient
from tonearm.sources.http_errors import read_error, status_error
from tonearm.sources.http_facts import RemoteFile, refuse_encoded
from tonearm.sources.icy_metadata import IcySplitter, metadata_interval, radio_text
from tonearm.sources.read_window import ReadWindow
from tonearm.sources.retry_budget import RetryBudget

# Asks for titles. Servers that know nothing of it ignore it.
TITLES_WANTED: Final = ("Icy-MetaData", "1")
# Far more than fit into what is read ahead, unless a server wants to fill the memory with them.
MAX_WAITING_TITLES: Final = 100
# What another try cannot change. Even a 404 may pass: so Icecast answers while a station's own line is down.
_FINAL_CODES: Final = frozenset({FailureCode.SOURCE_BLOCKED, FailureCode.SOURCE_REFUSED})


class RadioSource:
    """A live `ByteSource` and `Station`, for one reader that reads in order.

    Offsets count the bytes of sound over all connections. A stream that ends has broken off, for radio has no end: it
    is taken up again where it is then, as often as `live_resume_delays_s` allows.
    """

    size_bytes: int | None = None
    is_seekable = False
    is_live = True

    def __init__(
        self, client: HttpClient, file: RemoteFile, settings: FetchSettings, response: aiohttp.ClientResponse
    ) -> None:
        self._client = client
        self._file = file
        self._settings = settings
        self._retries = RetryBudget(settings.live_resume_delays_s)
        self._window = ReadWindow(0, behind_bytes=0, ahead_bytes=settings.read_ahead_bytes)
        self._titles: deque[StreamTitle] = deque(maxlen=MAX_WAITING_TITLES)
        self._last_title = ""
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._failure: PlayError | None = None
        self._is_connecting = False
        self._response: aiohttp.ClientResponse | None = response
        self._station_name = station_name(response)
        self._filling = asyncio.create_task(self._fill(response))

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def content_type(self) -> str | None:
        return self._file.content_type

    @property
    def station_name(self) -> str | None:
        return self._station_name

    @property
    def is_connecting(self) -> bool:
        return self._is_connecting

    def take_titles(self, up_to_offset: int) -> list[StreamTitle]:
        taken: list[StreamTitle] = []
        while self._titles and self._titles[0].offset < up_to_offset:
            taken.append(self._titles.popleft())
        return taken

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from `offset`, at least one. Raises `PlayError`, also when `offset` is another place."""
        if offset != self._window.position:
            raise PlayError(_only_in_order(self._file.host))
        while True:
            data = self._window.take(max_bytes)
            if data:
                self._room.set()
                return data
            if self._failure is not None:
                raise self._failure
            if self._filling.done():
                self._filling.result()  # raises what nobody foresaw
            self._arrived.clear()
            await self._arrived.wait()

    async def close(self) -> None:
        """Cuts the connection, also one that is just being made. A waiting `read_at` raises `PlayError`."""
        self._failure = self._failure or read_error(ConnectionAbortedError(), self._file.host)
        self._arrived.set()
        self._filling.cancel()
        await asyncio.wait((self._filling,))
        # A task that is cancelled before its first step does not get to its end.
        self._drop_response()

    async def _fill(self, response: aiohttp.ClientResponse) -> None:
        try:
            while True:
                await self._pour(response)
                self._drop_response()
                self._is_connecting = True
                response = self._response = await self._take_up_again()
                self._is_connecting = False
        except PlayError as error:
            self._failure = error
        finally:
            self._drop_response()
            self._arrived.set()

    async def _pour(self, response: aiohttp.ClientResponse) -> None:
        """Moves a body into the window until it ends, breaks off or falls silent: for radio that is all the same."""
        splitter = IcySplitter(metadata_interval(response.headers.get("icy-metaint")), self._window.end)
        try:
            while True:
                await self._wait_for_room()
                async with asyncio.timeout(self._settings.stall_timeout_s):
                    chunk = await response.content.readany()
                if not chunk:
                    return
                self._take_in(*splitter.feed(chunk))
        except (aiohttp.ClientError, OSError):
            return

    def _take_in(self, sound: bytes, titles: list[StreamTitle]) -> None:
        for title in titles:
            if title.title != self._last_title:
                self._last_title = title.title
                self._titles.append(title)
        if sound:
            self._window.append(sound)
            self._arrived.set()

    async def _take_up_again(self) -> aiohttp.ClientResponse:
        """The stream where it is now. Raises when all tries are used up."""
        # A reader that is paused for long needs no connection.
        await self._wait_for_room()
        while (delay_s := self._retries.next_delay_s(asyncio.get_running_loop().time())) is not None:
            await asyncio.sleep(delay_s)
            try:
                return await self._tune_in()
            except PlayError as error:
                if error.failure.code in _FINAL_CODES:
                    raise
        raise PlayError(_lost(self._file.host))

    async def _tune_in(self) -> aiohttp.ClientResponse:
        # The URI as given: it may lead to another server when the one before is gone.
        response = await self._client.get(self._file.given_uri, dict((TITLES_WANTED,)), self._file.link_headers)
        try:
            if response.status != 200:
                raise status_error(response.status, self._file.host, Stage.READ)
            refuse_encoded(response, self._file.host)
        except PlayError:
            response.close()
            raise
        return response

    async def _wait_for_room(self) -> None:
        while self._window.is_full:
            self._room.clear()
            await self._room.wait()

    def _drop_response(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None


def station_name(response: aiohttp.ClientResponse) -> str | None:
    """The station's name in the header of its answer."""
    header = response.headers.get("icy-name", "")
    return radio_text(header.encode("utf-8", "surrogateescape")) or None


def _lost(host: str) -> PlayFailure:
    return PlayFailure(
        FailureCode.CONNECTION_LOST,
        Stage.READ,
        f"The live stream from {host} broke off and could not be taken up again.",
        "Play it again later; the station or the way to it is down.",
    )


def _only_in_order(host: str) -> PlayFailure:
    return PlayFailure(
        FailureCode.CONNECTION_LOST,
        Stage.READ,
        f"The live stream from {host} can only be read in order.",
        "Play it as it comes; a live stream has no other positions.",
    )

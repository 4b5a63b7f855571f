"""Internet radio as a source of bytes: endless, with titles, taken up again when it breaks off.

Titles inside the bytes of internet radio, as SHOUTcast began it and Icecast does it too.

A server that was asked for it (`Icy-MetaData: 1`) names an interval (`icy-metaint`). After that many bytes of sound
stands one byte, then 16 times as many bytes of text, mostly none, such as `StreamTitle='Artist - Title';StreamUrl='';`,
filled up with zeros.
"""

import asyncio
import re
from collections import deque
from typing import Final

import aiohttp

from tonearm.core.byte_source import StreamTitle
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.sources.fetch_settings import FetchSettings
from tonearm.sources.http.client import HttpClient
from tonearm.sources.http.errors import read_error, status_error
from tonearm.sources.http.facts import RemoteFile, refuse_encoded
from tonearm.sources.read_ahead import ReadWindow, RetryBudget

# 16 kB is common. Farther apart titles would be useless, and a longer number is no interval.
MAX_INTERVAL_BYTES: Final = 1024 * 1024
MAX_TITLE_CHARACTERS: Final = 1000

_BLOCK_UNIT_BYTES: Final = 16
_INTERVAL: Final = re.compile(r"[0-9]{1,7}")
_TITLE: Final = b"StreamTitle='"
# A quote inside of a title is not escaped. The end is a quote before the next field, or the last one.
_NEXT_FIELD: Final = re.compile(rb"';\s*Stream[A-Za-z0-9]{1,20}=")
_FIELD: Final = re.compile(rb"\s*[A-Za-z][A-Za-z0-9_-]{0,40}=")


def metadata_interval(header: str | None) -> int | None:
    """The bytes between two blocks, from an `icy-metaint` header; None when nothing is mixed into the sound."""
    text = (header or "").strip()
    if _INTERVAL.fullmatch(text) is None or not 0 < int(text) <= MAX_INTERVAL_BYTES:
        return None
    return int(text)


class IcySplitter:
    """Takes a response apart. `interval` is that of the response, `offset` what its first byte of sound has.

    A server that announces titles and sends none is found out by the first block that is no text; from there on all
    bytes are sound.
    """

    def __init__(self, interval: int | None, offset: int = 0) -> None:
        self._interval = interval
        self._until_block_bytes = interval or 0
        self._block = bytearray()  # with the byte that tells its length
        self._offset = offset

    def feed(self, data: bytes) -> tuple[bytes, list[StreamTitle]]:
        """The sound in `data`, and the titles that begin in it or right after it. Offsets count sound only."""
        sound: list[bytes] = []
        titles: list[StreamTitle] = []
        position = 0
        while position < len(data):
            if self._interval is None:
                position += self._pass_on(sound, data[position:])
            elif self._until_block_bytes:
                part = data[position : position + self._until_block_bytes]
                self._until_block_bytes -= len(part)
                position += self._pass_on(sound, part)
            else:
                missing = 1 + _BLOCK_UNIT_BYTES * self._block[0] - len(self._block) if self._block else 1
                part = data[position : position + missing]
                self._block += part
                position += len(part)
                if len(self._block) == 1 + _BLOCK_UNIT_BYTES * self._block[0]:
                    self._end_block(sound, titles)
        return b"".join(sound), titles

    def _end_block(self, sound: list[bytes], titles: list[StreamTitle]) -> None:
        block = bytes(self._block)
        self._block.clear()
        text = block[1:].rstrip(b"\0")
        if text and _FIELD.match(text) is None:
            self._interval = None
            self._pass_on(sound, block)
            return
        self._until_block_bytes = self._interval or 0
        title = stream_title(text)
        if title:
            titles.append(StreamTitle(self._offset, title))

    def _pass_on(self, sound: list[bytes], part: bytes) -> int:
        sound.append(part)
        self._offset += len(part)
        return len(part)


def stream_title(text: bytes) -> str | None:
    """The title in the text of a block; None without one, "" for an empty one. Other fields are ignored."""
    start = text.find(_TITLE)
    if start < 0:
        return None
    value = text[start + len(_TITLE) :]
    next_field = _NEXT_FIELD.search(value)
    end = next_field.start() if next_field is not None else value.rfind(b"'")
    return radio_text(value[:end] if end >= 0 else value)


def radio_text(raw: bytes) -> str:
    """What a radio server sent as a text: UTF-8, or else Windows-1252, which is Latin-1 with quotes and dashes.

    Without control characters and outer blanks.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    visible = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(visible.split())[:MAX_TITLE_CHARACTERS]


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

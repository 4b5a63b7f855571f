"""Internet radio: endless, with titles between the bytes of sound, and resumed when the connection is lost.

SHOUTcast began it and Icecast does it too: a server that is asked for titles (`Icy-MetaData: 1`) names an interval
(`icy-metaint`). After each interval of sound follows one byte, then 16 times as many bytes of text, mostly none, such
as `StreamTitle='Artist - Title';StreamUrl='';`, filled up with zeros.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Mapping
from typing import Final

import aiohttp

from tonearm.core.failure import REFUSALS, FailureCode, PlayError, Stage
from tonearm.core.live_pace import COMPARED_BYTES, WATCHED_S, Pace, is_of_station_server
from tonearm.core.opened_source import SourceReader, TitleAtByte, media_type
from tonearm.core.printable import one_line
from tonearm.core.track_info import MAX_TITLE_CHARACTERS
from tonearm.sources.http.body import Body
from tonearm.sources.http.client import SourceClient
from tonearm.sources.http.errors import may_pass, status_error
from tonearm.sources.http.facts import RemoteFile, begins_whole
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.read_ahead import ReadAhead, RetryBudget

# Asks for titles. Servers without titles ignore it.
TITLES_WANTED: Final[Mapping[str, str]] = {"Icy-MetaData": "1"}
# Far more titles than fit into the window; the limit stops a server from filling the memory with titles.
MAX_UNTOLD_TITLES: Final = 100
# 16 kB is common. Farther apart titles would be useless, and a longer number is no interval.
MAX_INTERVAL_BYTES: Final = 1024 * 1024
# Each block takes some time on the event loop, and no station sends one after so few bytes.
MIN_INTERVAL_BYTES: Final = 256

# A page in place of the sound, such as that of a station that is down, does not change the codec.
_SOUND_TYPES: Final = ("audio/", "application/ogg")
_BLOCK_UNIT_BYTES: Final = 16
_INTERVAL: Final = re.compile(r"[0-9]{1,7}")
_TITLE: Final = b"StreamTitle='"
_FIELD: Final = re.compile(rb"\s*[A-Za-z][A-Za-z0-9_-]{0,40}=")
# A quote inside of a title is not escaped. The end is a quote before the next field, or the last one.
_NEXT_FIELD: Final = re.compile(rb"';" + _FIELD.pattern)


class RadioReader(SourceReader):
    """Reads the audio of a station in order. Offsets count the bytes of audio over all connections.

    A station has no end, so a stream that ends was lost. The reader connects again, as often as `live_resume_delays_s`
    allows, and goes on at the present point of the broadcast. A stream that begins twice with `first`, and ends after
    as many bytes, is a file that was sent in real time, and has ended. A stream that comes back with another media type
    begins a part.
    """

    def __init__(
        self, client: SourceClient, file: RemoteFile, settings: FetchSettings, body: Body, first: bytes = b""
    ) -> None:
        self._client = client
        self._file = file
        self._stall_timeout_s = settings.stall_timeout_s
        self._retries = RetryBudget(settings.live_resume_delays_s)
        self._titles: deque[TitleAtByte] = deque(maxlen=MAX_UNTOLD_TITLES)
        self._last_title = ""
        self._is_reconnecting = False
        self._body: Body | None = body
        self._first = first
        self._media_type = ""
        self._ahead = ReadAhead(self._fill, host=file.host, behind_bytes=0, ahead_bytes=settings.read_ahead_bytes)

    @property
    def is_reconnecting(self) -> bool:
        return self._is_reconnecting

    @property
    def waiting_bytes(self) -> int:
        return self._ahead.end - self._ahead.position

    def take_titles(self, up_to_offset: int) -> list[TitleAtByte]:
        taken: list[TitleAtByte] = []
        while self._titles and self._titles[0].offset < up_to_offset:
            taken.append(self._titles.popleft())
        return taken

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        if offset != self._ahead.position:
            raise _cut_off(
                f"The live stream from {self._file.host} can only be read in order.",
                "Play it from now on; a live stream has no other positions.",
            )
        return await self._ahead.read_at(offset, max_bytes)

    async def close(self) -> None:
        await self._ahead.close()
        # A task that is cancelled before its first step does not run its `finally`.
        self._drop_body()

    async def _fill(self) -> None:
        received_bytes = -1
        try:
            while True:
                if self._body is not None:
                    begun_at = self._ahead.end
                    begins_alike = bool(self._first) and await self._begins_with_first(self._body)
                    await self._receive(self._body)
                    self._drop_body()
                    received_bytes, last_bytes = self._ahead.end - begun_at, received_bytes
                    if begins_alike and received_bytes == last_bytes:
                        return
                self._is_reconnecting = True
                self._body = await self._tune_in_again()
                self._is_reconnecting = False
        finally:
            self._drop_body()

    async def _receive(self, body: Body) -> None:
        """Reads a body until it ends, is cut or stalls, which is the same for radio."""
        interval = metadata_interval(body.response.headers.get("icy-metaint"))
        if interval is not None and interval < MIN_INTERVAL_BYTES:
            message = f"The station at {self._file.host} mixes text into its sound after each {interval} bytes."
            hint = f"Play another station; titles may stand {MIN_INTERVAL_BYTES} bytes apart or more (icy-metaint)."
            raise PlayError.of(FailureCode.CORRUPT, Stage.READ, message, hint)
        came_as = media_type(body.response.headers.get("Content-Type"))
        if came_as != self._media_type and came_as.startswith(_SOUND_TYPES):
            self._media_type = came_as
            self._ahead.end_part()
        splitter = IcySplitter(interval, self._ahead.end)
        while True:
            await self._ahead.wait_for_room()
            try:
                chunk = await body.read()
            except PlayError as error:
                if not may_pass(error):
                    raise
                return
            if not chunk:
                return
            sound, titles = splitter.feed(chunk)
            for title in titles:
                if title.title != self._last_title:
                    self._last_title = title.title
                    self._titles.append(title)
            self._retries.earn(len(sound))
            self._ahead.append(sound)

    async def _tune_in_again(self) -> Body:
        """The stream where it is now. Raises `PlayError` when no retry is left."""
        # A reader that is paused for long needs no connection.
        await self._ahead.wait_for_room()
        while await self._retries.wait():
            try:
                return await self._tune_in()
            except PlayError as error:
                # Others may pass, a 404 too: Icecast answers so while a station's own line is down.
                if error.failure.code in REFUSALS:
                    raise
        raise _cut_off(
            f"The live stream from {self._file.host} broke off and could not be resumed.",
            "Play it again later; the station or the network is down.",
        )

    async def _tune_in(self) -> Body:
        # The URI as given: it may lead to another server when the one before is gone.
        response, _ = await self._client.get(self._file.given_uri, TITLES_WANTED)
        try:
            if not begins_whole(response):
                raise status_error(response.status, self._file.host, Stage.READ)
            return Body(response, self._file.host, self._stall_timeout_s)
        except PlayError:
            response.close()
            raise

    async def _begins_with_first(self, body: Body) -> bool:
        """Whether the first bytes are those that came when the stream was opened."""
        chunks: list[bytes] = []
        with contextlib.suppress(PlayError):  # which the next read meets, too
            while sum(map(len, chunks)) < len(self._first) and (chunk := await body.read()):
                chunks.append(chunk)
        body.put_back(chunks)
        return b"".join(chunks).startswith(self._first)

    def _drop_body(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None


async def is_live_stream(body: Body) -> tuple[bool, bytes]:
    """Whether the body is a live stream. If only its pace shows that, also its first bytes, by which it is recognised.

    Reads for at most `WATCHED_S`, and puts the bytes back into `body`.
    """
    if is_of_station_server(body.response.headers):
        return True, b""
    time_s = asyncio.get_running_loop().time
    pace = Pace()
    chunks: list[bytes] = []
    is_live = False
    try:
        chunks.append(await body.read())
        begun_s = time_s()
        pace.feed(0.0, chunks[0])
        async with asyncio.timeout_at(begun_s + WATCHED_S):
            while chunks[-1] and not pace.is_a_files:
                chunks.append(await body.read())
                pace.feed(time_s() - begun_s, chunks[-1])
    except TimeoutError:
        is_live = pace.is_live
    except PlayError:
        pass  # the next read meets it, too
    body.put_back(chunks)
    return is_live, b"".join(chunks)[:COMPARED_BYTES]


def station_name(response: aiohttp.ClientResponse) -> str | None:
    header = response.headers.get("icy-name", "")
    return radio_text(header.encode("utf-8", "surrogateescape")) or None


def _cut_off(message: str, hint: str) -> PlayError:
    return PlayError.of(FailureCode.CONNECTION_LOST, Stage.READ, message, hint)


def metadata_interval(header: str | None) -> int | None:
    """The bytes between two blocks, from an `icy-metaint` header; None when nothing is mixed into the sound."""
    text = (header or "").strip()
    if _INTERVAL.fullmatch(text) is None or not 0 < int(text) <= MAX_INTERVAL_BYTES:
        return None
    return int(text)


class IcySplitter:
    """Splits a response into sound and titles. `interval` is the response's, `offset` that of its first byte of sound.

    Some servers announce titles but send none: after the first block that is no text, all bytes are audio.
    """

    def __init__(self, interval: int | None, offset: int = 0) -> None:
        self._interval = interval
        self._until_block_bytes = interval or 0
        self._block = bytearray()  # its first byte is its length in units
        self._offset = offset

    def feed(self, data: bytes) -> tuple[bytes, list[TitleAtByte]]:
        """The sound in `data`, and the titles that begin in it or right after it. Offsets count sound only."""
        sound: list[bytes] = []
        titles: list[TitleAtByte] = []
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

    def _end_block(self, sound: list[bytes], titles: list[TitleAtByte]) -> None:
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
            titles.append(TitleAtByte(self._offset, title))

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
    """Clean text from a radio server's bytes: UTF-8, or else Windows-1252, which is Latin-1 with quotes and dashes."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    return one_line(text)[:MAX_TITLE_CHARACTERS]

"""A remote file as a source of bytes.

One running transfer of a remote file, from some offset on, with the bytes around the reading position.
"""

import asyncio
from dataclasses import replace
from typing import Final, cast

import aiohttp

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.sources.fetch_settings import FetchSettings, read_ahead_bytes_at
from tonearm.sources.http.client import HttpClient
from tonearm.sources.http.errors import PassingError, read_error, status_error
from tonearm.sources.http.facts import RemoteFile, content_range, empty_error, refuse_encoded
from tonearm.sources.read_ahead import ReadWindow, RetryBudget

KEEP_BEHIND_BYTES: Final = 64 * 1024
# Up to here it is quicker to read on than to ask anew.
SKIP_FORWARD_BYTES: Final = 256 * 1024
# A response that brought this much before it ended early is taken up again without counting as a try.
PROGRESS_BYTES: Final = 64 * 1024
# When a link that redirects was resolved long ago its target may have expired; the link itself still leads there.
_EXPIRED_STATUSES: Final = frozenset({401, 403, 404, 410})


class RangeStream:
    """Fills a bounded window ahead of its reader and takes a broken transfer up again.

    `response` is one that begins at `offset`; without one the stream asks for it itself.
    """

    def __init__(
        self,
        client: HttpClient,
        file: RemoteFile,
        settings: FetchSettings,
        retries: RetryBudget,
        *,
        offset: int,
        response: aiohttp.ClientResponse | None = None,
    ) -> None:
        self._client = client
        self._file = file
        self._settings = settings
        self._retries = retries
        self._window = ReadWindow(offset, behind_bytes=KEEP_BEHIND_BYTES, ahead_bytes=settings.read_ahead_bytes)
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._is_complete = False
        self._failure: PlayError | None = None
        self._response = response
        self._filling = asyncio.create_task(self._fill())

    @property
    def received_to(self) -> int:
        """The offset after the last byte that has arrived."""
        return self._window.end

    @property
    def held_bytes(self) -> int:
        """How much lies ready in front of the reading position."""
        return self._window.end - self._window.position

    def read_ahead(self, ahead_bytes: int) -> None:
        """Changes how much is held ready."""
        self._window.hold_ahead(ahead_bytes)
        self._room.set()

    def can_reach(self, offset: int) -> bool:
        """Whether `offset` is held, or so near ahead that it soon will be."""
        return self._window.start <= offset <= self._window.end + SKIP_FORWARD_BYTES

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from an offset within reach; empty at the end. Raises `PlayError` after what was held."""
        self._window.move_to(offset)
        self._room.set()
        while True:
            data = self._window.take(max_bytes)
            if data:
                self._room.set()
                return data
            if self._failure is not None:
                raise self._failure
            if self._is_complete:
                return b""
            if self._filling.done():
                self._filling.result()  # raises what nobody foresaw
            self._arrived.clear()
            await self._arrived.wait()

    async def close(self) -> None:
        """Cuts the connection, whatever is under way. A waiting `read_at` raises `PlayError`."""
        self._failure = self._failure or read_error(ConnectionAbortedError(), self._file.host)
        self._arrived.set()
        self._filling.cancel()
        await asyncio.wait((self._filling,))
        # A task that is cancelled before its first step does not get to its end.
        self._drop_response()

    async def _fill(self) -> None:
        try:
            if self._response is None:
                self._response = await self._begin()
            while True:
                before = self._window.end
                lost = await self._pour(self._response)
                self._drop_response()
                if lost is None and not self._is_short():
                    self._finish()
                    return
                made_progress = self._window.end - before >= PROGRESS_BYTES
                self._response = await self._take_up_again(lost, made_progress=made_progress)
        except PlayError as error:
            self._failure = error
        finally:
            self._drop_response()
            self._arrived.set()

    def _drop_response(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    async def _pour(self, response: aiohttp.ClientResponse) -> PlayError | None:
        """Moves a body into the window until it ends; returns why, when it broke off."""
        try:
            while True:
                if self._window.is_full:
                    await self._wait_for_room()
                async with asyncio.timeout(self._settings.stall_timeout_s):
                    chunk = await response.content.readany()
                if not chunk:
                    return None
                self._window.append(chunk)
                self._arrived.set()
        except (aiohttp.ClientError, OSError) as error:
            self._window.append(_left_in(response.content))
            return read_error(error, self._file.host)

    def _is_short(self) -> bool:
        size_bytes = self._file.size_bytes
        return size_bytes is not None and self._window.end < size_bytes

    def _finish(self) -> None:
        if self._window.end == 0:
            raise empty_error(self._file.host)
        self._is_complete = True

    async def _begin(self) -> aiohttp.ClientResponse:
        """The first request of a jump: it needs no try of the budget unless it fails in passing."""
        try:
            return await self._request()
        except PlayError as error:
            if not _may_pass(error):
                raise
            return await self._take_up_again(error, made_progress=False)

    async def _take_up_again(self, lost: PlayError | None, *, made_progress: bool) -> aiohttp.ClientResponse:
        """A response that goes on where the window ends. Raises what was lost when there is no way."""
        lost = lost or read_error(ConnectionResetError(), self._file.host)
        if not self._file.is_seekable:
            raise lost
        # A reader that is paused for long needs no connection; many servers cut it meanwhile.
        if self._window.is_full:
            await self._wait_for_room()
        while True:
            if not made_progress:
                delay_s = self._retries.next_delay_s(asyncio.get_running_loop().time())
                if delay_s is None:
                    raise lost
                await asyncio.sleep(delay_s)
            made_progress = False
            try:
                return await self._request()
            except PlayError as error:
                if not _may_pass(error):
                    raise

    async def _request(self) -> aiohttp.ClientResponse:
        """A response whose body begins at the window's end."""
        response = await self._ask(self._file.final_uri)
        if response.status in _EXPIRED_STATUSES and self._file.given_uri != self._file.final_uri:
            response.close()
            response = await self._ask(self._file.given_uri)
        try:
            self._check_goes_on(response)
        except PlayError:
            response.close()
            raise
        return response

    async def _ask(self, uri: str) -> aiohttp.ClientResponse:
        headers = {"Range": f"bytes={self._window.end}-"}
        if self._file.validator is not None:
            headers["If-Range"] = self._file.validator
        return await self._client.get(uri, headers, self._file.link_headers)

    def _check_goes_on(self, response: aiohttp.ClientResponse) -> None:
        if response.status not in (200, 206, 416):
            raise status_error(response.status, self._file.host, Stage.READ)
        refuse_encoded(response, self._file.host)
        part = content_range(response) if response.status == 206 else None
        goes_on = part is not None and part.first == self._window.end and self._fits(part.total_bytes)
        begins_again = response.status == 200 and self._window.end == 0
        if not goes_on and not begins_again:
            failure = PlayFailure(
                FailureCode.CONNECTION_LOST,
                Stage.READ,
                f"{self._file.host} does not send the rest of the file: it has changed there meanwhile.",
                "Play the track again to get the new file.",
            )
            raise PlayError(failure)

    def _fits(self, total_bytes: int | None) -> bool:
        return total_bytes is None or self._file.size_bytes in (None, total_bytes)

    async def _wait_for_room(self) -> None:
        while self._window.is_full:
            self._room.clear()
            await self._room.wait()


def _may_pass(error: PlayError) -> bool:
    return isinstance(error, PassingError) or error.failure.code is FailureCode.TIMEOUT


def _left_in(content: aiohttp.StreamReader) -> bytes:
    """What had arrived before the connection broke: the reader holds it back behind its exception."""
    content.set_exception(cast(BaseException, None))
    return content.read_nowait()


# Without range requests a reader that is still finding out what the file is may go back by a new request.
REWIND_WITHIN_BYTES: Final = 2 * 1024 * 1024
# A container is opened by a look at its end and back; the place left is kept open until reading went on this far.
KEEP_LEFT_FOR_BYTES: Final = 1024 * 1024


class HttpSource:
    """A `ByteSource` over HTTP, for one reader at a time.

    Memory is bounded by the window of the current transfer and that of the one last left.
    """

    def __init__(
        self, client: HttpClient, file: RemoteFile, settings: FetchSettings, response: aiohttp.ClientResponse
    ) -> None:
        self._client = client
        self._file = file
        self._settings = settings
        self._retries = RetryBudget(settings.resume_delays_s)
        self._current = self._stream(0, response)
        self._left: RangeStream | None = None
        self._read_since_jump_bytes = 0
        self._is_closed = False

    @property
    def size_bytes(self) -> int | None:
        return self._file.size_bytes

    @property
    def is_seekable(self) -> bool:
        return self._file.is_seekable

    @property
    def is_live(self) -> bool:
        return self._file.is_live

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def final_uri(self) -> str:
        """Where the redirects ended."""
        return self._file.final_uri

    @property
    def content_type(self) -> str | None:
        return self._file.content_type

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from `offset`, at least one; `b""` at the end. Raises `PlayError`."""
        if self._file.size_bytes is not None and offset >= self._file.size_bytes:
            return b""
        if not self._current.can_reach(offset):
            await self._jump(offset)
        data = await self._current.read_at(offset, max_bytes)
        if self._left is not None:
            self._read_since_jump_bytes += len(data)
            if self._read_since_jump_bytes > KEEP_LEFT_FOR_BYTES:
                await self._close_left()
        return data

    async def close(self) -> None:
        """Cuts every connection, also one that is just being made."""
        self._is_closed = True
        await self._current.close()
        await self._close_left()

    async def _jump(self, offset: int) -> None:
        """Makes a stream current that reaches `offset`.

        No await lies between choosing and storing, so that `close` finds every stream.
        """
        if self._is_closed:
            raise read_error(ConnectionAbortedError(), self._file.host)
        self._read_since_jump_bytes = 0
        if self._left is not None and self._left.can_reach(offset):
            self._current, self._left = self._left, self._current
        elif self._file.is_seekable:
            unwanted, self._left, self._current = self._left, self._current, self._stream(offset)
            if unwanted is not None:
                await unwanted.close()
        elif offset < self._current.received_to <= REWIND_WITHIN_BYTES:
            unwanted, self._current = self._current, self._stream(0)
            await unwanted.close()
        else:
            raise PlayError(
                PlayFailure(
                    FailureCode.CONNECTION_LOST,
                    Stage.READ,
                    f"{self._file.host} does not support range requests, so the file can only be read in order.",
                    "Play it from its start, or serve it from a server that supports range requests.",
                )
            )

    @property
    def held_bytes(self) -> int:
        """How much lies ready in front of the reading position."""
        return self._current.held_bytes

    def played_in(self, length_ms: int) -> None:
        """Holds ten seconds ready from now on."""
        if self._file.size_bytes:
            ahead_bytes = read_ahead_bytes_at(self._file.size_bytes, length_ms)
            self._settings = replace(self._settings, read_ahead_bytes=ahead_bytes)
            self._current.read_ahead(ahead_bytes)

    def _stream(self, offset: int, response: aiohttp.ClientResponse | None = None) -> RangeStream:
        return RangeStream(self._client, self._file, self._settings, self._retries, offset=offset, response=response)

    async def _close_left(self) -> None:
        if self._left is not None:
            left, self._left = self._left, None
            await left.close()

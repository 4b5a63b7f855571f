"""Reading a remote file by offset: transfers from an offset on, kept while the reader jumps, resumed when lost."""

from dataclasses import replace
from typing import Final

import aiohttp

from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.opened_source import SourceReader
from tonearm.core.source_uri import SourceUri
from tonearm.sources.http.body import Body, packed_error, packing
from tonearm.sources.http.client import Answer, SourceClient
from tonearm.sources.http.errors import EXPIRED_STATUSES, may_pass, read_error, status_error
from tonearm.sources.http.facts import RemoteFile, begins_whole, content_range, empty_error, is_success
from tonearm.sources.http.settings import FetchSettings, read_ahead_bytes_at
from tonearm.sources.read_ahead import ReadAhead, RetryBudget

KEEP_BEHIND_BYTES: Final = 64 * 1024
# While a demuxer opens a file it may go back to the begin of a chunk, when the chunk behind it was requested already.
KEEP_BEHIND_AT_FIRST_BYTES: Final = 128 * 1024
# Up to this distance reading on is quicker than a new request.
SKIP_FORWARD_BYTES: Final = 256 * 1024
# Without range requests a reader that is still finding out what the file is may go back by a new request.
REWIND_WITHIN_BYTES: Final = 2 * 1024 * 1024
# A demuxer reads the end of some containers and then goes back. The earlier transfer is kept until the demuxer has read
# this much.
KEEP_LEFT_FOR_BYTES: Final = 1024 * 1024


class HttpFileReader(SourceReader):
    """Reads a remote file. It has at most two transfers, the current one and the one before, each with a bounded
    window."""

    def __init__(self, client: SourceClient, file: RemoteFile, settings: FetchSettings, body: Body) -> None:
        self._file = file
        self._settings = settings
        self._behind_bytes = KEEP_BEHIND_AT_FIRST_BYTES
        self._retries = RetryBudget(settings.resume_delays_s)
        self._link = FileLink(client, file)
        self._current = self._stream(0, body)
        self._left: RangeStream | None = None
        self._read_since_jump_bytes = 0
        self._is_closed = False

    def set_length(self, length_ms: int) -> None:
        """Reads ten seconds ahead from now on: the file has been opened."""
        if self._file.size_bytes:
            ahead_bytes = read_ahead_bytes_at(self._file.size_bytes, length_ms)
            self._settings = replace(self._settings, read_ahead_bytes=ahead_bytes)
            self._behind_bytes = KEEP_BEHIND_BYTES
            self._current.ahead.hold(self._behind_bytes, ahead_bytes)

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        if self._file.size_bytes is not None and offset >= self._file.size_bytes:
            return b""
        if not self._current.can_reach(offset):
            await self._jump(offset)
        data = await self._current.ahead.read_at(offset, max_bytes)
        if self._left is not None:
            self._read_since_jump_bytes += len(data)
            if self._read_since_jump_bytes > KEEP_LEFT_FOR_BYTES:
                await self._close_left()
        return data

    async def close(self) -> None:
        self._is_closed = True
        await self._current.close()
        await self._close_left()

    async def _jump(self, offset: int) -> None:
        """Makes a stream that reaches `offset` the current stream.

        A new stream is stored before the first wait, so that `close` finds every stream.
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
        elif offset < self._current.ahead.end <= REWIND_WITHIN_BYTES:
            unwanted, self._current = self._current, self._stream(0)
            await unwanted.close()
        else:
            raise PlayError.of(
                FailureCode.CONNECTION_LOST,
                Stage.READ,
                f"{self._file.host} does not support range requests, so the file can only be read in order.",
                "Play it from its start, or serve it from a server that supports range requests.",
            )

    def _stream(self, offset: int, body: Body | None = None) -> "RangeStream":
        return RangeStream(
            self._link, self._file, self._settings, self._retries, self._behind_bytes, offset=offset, body=body
        )

    async def _close_left(self) -> None:
        if self._left is not None:
            left, self._left = self._left, None
            await left.close()


class RangeStream:
    """One transfer from an offset on, resumed when the connection is lost. `ahead` has its bytes.

    `body` begins at `offset`; without a body the stream requests one.
    """

    def __init__(
        self,
        link: "FileLink",
        file: RemoteFile,
        settings: FetchSettings,
        retries: RetryBudget,
        behind_bytes: int,
        *,
        offset: int,
        body: Body | None = None,
    ) -> None:
        self._link = link
        self._file = file
        self._stall_timeout_s = settings.stall_timeout_s
        self._retries = retries
        self._body = body
        self.ahead = ReadAhead(
            self._fill,
            host=file.host,
            offset=offset,
            behind_bytes=behind_bytes,
            ahead_bytes=settings.read_ahead_bytes,
        )

    def can_reach(self, offset: int) -> bool:
        """Whether the window contains `offset`, or will soon contain it."""
        return self.ahead.start <= offset <= self.ahead.end + SKIP_FORWARD_BYTES

    async def close(self) -> None:
        """Cuts the connection, whatever is under way. A waiting `read_at` raises `PlayError`."""
        await self.ahead.close()
        # A task that is cancelled before its first step does not run its `finally`.
        self._drop_body()

    async def _fill(self) -> None:
        try:
            if self._body is None:
                self._body = await self._begin()
            while True:
                lost = await self._receive(self._body)
                self._drop_body()
                if lost is None and not self._is_short():
                    break
                self._body = await self._resume(lost)
        finally:
            self._drop_body()
        if self.ahead.end == 0:
            raise empty_error(self._file.host)

    def _drop_body(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    async def _receive(self, body: Body) -> PlayError | None:
        """Reads a body to its end; returns the reason when the transfer was lost before."""
        try:
            while True:
                await self.ahead.wait_for_room()
                chunk = await body.read()
                if not chunk:
                    return None
                self._append(chunk)
        except PlayError as lost:
            self._append(body.left())
            return lost

    def _append(self, chunk: bytes) -> None:
        self._retries.earn(len(chunk))
        self.ahead.append(chunk)

    def _is_short(self) -> bool:
        size_bytes = self._file.size_bytes
        return size_bytes is not None and self.ahead.end < size_bytes

    async def _begin(self) -> Body:
        """The first response of a jump. Only its retries count."""
        try:
            return await self._request()
        except PlayError as error:
            if not may_pass(error):
                raise
            return await self._resume(error)

    async def _resume(self, lost: PlayError | None) -> Body:
        """A response that begins where the window ends. Raises `lost` when there is no way or no retry left."""
        lost = lost or read_error(ConnectionResetError(), self._file.host)
        if not self._file.is_seekable:
            raise lost
        # A reader that is paused for long needs no connection; many servers cut it meanwhile.
        await self.ahead.wait_for_room()
        while await self._retries.wait():
            try:
                return await self._request()
            except PlayError as error:
                if not may_pass(error):
                    raise
        raise lost

    async def _request(self) -> Body:
        response = await self._link.answer_from(self.ahead.end)
        try:
            self._check_goes_on(response)
        except PlayError:
            response.close()
            raise
        return Body(response, self._file.host, self._stall_timeout_s)

    def _check_goes_on(self, response: aiohttp.ClientResponse) -> None:
        if response.status != 416 and not is_success(response):
            raise status_error(response.status, self._file.host, Stage.READ)
        how = packing(response, self._file.host)
        if how is not None and self.ahead.end:
            raise packed_error(self._file.host, how)
        part = content_range(response)
        goes_on = part is not None and part.first == self.ahead.end and self._fits(part.total_bytes)
        begins_again = begins_whole(response) and self.ahead.end == 0
        if not goes_on and not begins_again:
            message = f"{self._file.host} does not send the rest of the file: the file has changed on the server."
            hint = "Play the track again to get the new file."
            raise PlayError.of(FailureCode.CONNECTION_LOST, Stage.READ, message, hint)

    def _fits(self, total_bytes: int | None) -> bool:
        return total_bytes is None or self._file.size_bytes in (None, total_bytes)


class FileLink:
    """The link by which a file is requested. The target of a redirect may expire, and so may a page's link."""

    def __init__(self, client: SourceClient, file: RemoteFile) -> None:
        self._client = client
        self._given = file.given_uri
        self._final = file.final_uri
        self._validator = file.validator

    async def answer_from(self, offset: int) -> aiohttp.ClientResponse:
        """The answer of the server that has the file now, to be judged by the caller. Raises `PlayError`."""
        response, _ = await self._ask(self._final, offset)
        if response.status in EXPIRED_STATUSES and self._given.opened != self._final.opened:
            response.close()
            response, final = await self._ask(self._given, offset)
            self._final = self._final if response.status in EXPIRED_STATUSES else final
        if response.status in EXPIRED_STATUSES and (renewed := await self._renewed(response)) is not None:
            self._given = renewed
            self._validator = None  # the new link may lead to another copy; its size is compared
            response, self._final = await self._ask(renewed, offset)
        return response

    async def _renewed(self, refusal: aiohttp.ClientResponse) -> SourceUri | None:
        """A new link from the page. `refusal` is closed when there is a new link, and when the page fails."""
        try:
            renewed = await self._client.renewed(self._given)
        except BaseException:
            refusal.close()
            raise
        if renewed is not None:
            refusal.close()
        return renewed

    async def _ask(self, uri: SourceUri, offset: int) -> Answer:
        headers = {"Range": f"bytes={offset}-"}
        if self._validator is not None:
            headers["If-Range"] = self._validator
        return await self._client.get(uri, headers)

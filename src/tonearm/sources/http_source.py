"""A remote file as a source of bytes."""

from dataclasses import replace
from typing import Final

import aiohttp

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.sources.fetch_settings import FetchSettings, read_ahead_bytes_at
from tonearm.sources.http_client import HttpClient
from tonearm.sources.http_errors import read_error
from tonearm.sources.http_facts import RemoteFile
from tonearm.sources.range_stream import RangeStream
from tonearm.sources.retry_budget import RetryBudget

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

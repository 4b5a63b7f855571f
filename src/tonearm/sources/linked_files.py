"""Reading what a playlist leads to: over HTTP, and for a playlist of this machine from its files, too."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import aiohttp

from tonearm.core.errors import RequestError
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.source_uri import SourceUri
from tonearm.sources import playlist_errors
from tonearm.sources.detached_threads import DetachedThreads
from tonearm.sources.fetch_settings import FetchSettings
from tonearm.sources.hls.playlist import ByteRange
from tonearm.sources.http.client import HttpClient, LinkHeaders
from tonearm.sources.http.errors import admission_error, read_error, status_error
from tonearm.sources.http.facts import content_range, refuse_encoded
from tonearm.sources.local_file import FileOpener
from tonearm.sources.playlist import MAX_PLAYLIST_BYTES, linked_uri

_CHUNK_BYTES: Final = 64 * 1024
# From a server without range requests so much may come in vain.
_SKIP_AT_MOST_BYTES: Final = 2 * 1024 * 1024
_READS_AT_MOST: Final = 32


class Body(Protocol):
    """Bytes that come in order."""

    async def read(self) -> bytes:
        """The next bytes; `b""` at the end. Raises `PlayError`."""
        ...

    async def close(self) -> None:
        """Gives up what is left. May be called more than once."""
        ...


@dataclass(frozen=True, slots=True)
class Version:
    """What a server needs to know to tell that a file has not changed since."""

    etag: str | None = None
    last_modified: str | None = None

    def headers(self) -> dict[str, str]:
        asked = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PlaylistFile:
    """A playlist's bytes and where they are in the end, after all redirects."""

    data: bytes
    uri: SourceUri
    version: Version


class LinkedFiles:
    """For one playlist: `link_headers` are what a page's player would send for it."""

    def __init__(
        self,
        client: HttpClient,
        files: FileOpener,
        admit: Callable[[str], SourceUri],
        settings: FetchSettings,
        link_headers: LinkHeaders | None = None,
    ) -> None:
        self.settings = settings
        self._client = client
        self._files = files
        self._admit = admit
        self._link_headers = link_headers
        self.threads = DetachedThreads(_READS_AT_MOST)

    def admitted(self, text: str) -> SourceUri:
        """Raises `PlayError` for what form or patterns are against."""
        try:
            return self._admit(text)
        except RequestError as error:
            raise admission_error(error) from error

    def linked(self, playlist: SourceUri, reference: str) -> SourceUri:
        """Where a reference of an HLS playlist leads. Raises `PlayError`."""
        try:
            text = linked_uri(playlist, reference, is_uri=True)
        except RequestError as error:
            raise admission_error(error) from error
        return self.admitted(text)

    async def open(self, uri: SourceUri, byte_range: ByteRange | None = None, skip_bytes: int = 0) -> Body:
        """A file or the range of it, without its first `skip_bytes`. Raises `PlayError`."""
        start = skip_bytes + (byte_range.start if byte_range else 0)
        length = byte_range.length - skip_bytes if byte_range else None
        if uri.kind == "file":
            file = await self._files.open(uri.path)
            return FileBody(file.descriptor, start, length, self.threads)
        return await self._open_http(uri, start, length)

    async def playlist(self, uri: SourceUri, known: Version | None = None) -> PlaylistFile | None:
        """The playlist at `uri`; None when it is still the `known` version. Raises `PlayError`."""
        if uri.kind == "file":
            return PlaylistFile(await read_playlist(await self.open(uri), self.settings), uri, Version())
        response = await self._client.get(uri.normalised, known.headers() if known else {}, self._link_headers)
        body = _HttpBody(response, None, self.settings.stall_timeout_s)
        try:
            if response.status == 304 and known is not None:
                return None
            host = response.url.host or ""
            if response.status != 200:
                raise status_error(response.status, host, Stage.READ)
            refuse_encoded(response, host)
            data = await read_playlist(body, self.settings)
        finally:
            await body.close()
        version = Version(response.headers.get("ETag"), response.headers.get("Last-Modified"))
        return PlaylistFile(data, self.admitted(str(response.url)), version)

    async def _open_http(self, uri: SourceUri, start: int, length: int | None) -> Body:
        headers = {}
        if start or length is not None:
            headers["Range"] = f"bytes={start}-" if length is None else f"bytes={start}-{start + length - 1}"
        response = await self._client.get(uri.normalised, headers, self._link_headers)
        host = response.url.host or ""
        try:
            if response.status not in (200, 206):
                raise status_error(response.status, host, Stage.READ)
            refuse_encoded(response, host)
            part = content_range(response) if response.status == 206 else None
            skip_bytes = start - (part.first if part else 0)
            if not 0 <= skip_bytes <= _SKIP_AT_MOST_BYTES:
                raise playlist_errors.byte_range_ignored(host)
        except BaseException:
            response.close()
            raise
        return _HttpBody(response, length, self.settings.stall_timeout_s, skip_bytes=skip_bytes)


async def read_playlist(body: Body, settings: FetchSettings) -> bytes:
    """All of a playlist; closes `body`. Raises `PlayError`, also for too much of it, or when it comes too slowly."""
    limit_s = settings.headers_timeout_s + settings.stall_timeout_s
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limit_s):
            while part := await body.read():
                parts.append(part)
                size += len(part)
                if size > MAX_PLAYLIST_BYTES:
                    raise playlist_errors.too_large(f"it has more than {MAX_PLAYLIST_BYTES // 1024} KiB")
    except TimeoutError as error:
        raise playlist_errors.took_too_long(limit_s) from error
    finally:
        await body.close()
    return b"".join(parts)


class _HttpBody:
    def __init__(
        self, response: aiohttp.ClientResponse, length: int | None, stall_timeout_s: float, *, skip_bytes: int = 0
    ) -> None:
        self._response = response
        self._skip_bytes = skip_bytes
        self._left_bytes = length
        self._stall_timeout_s = stall_timeout_s

    async def read(self) -> bytes:
        if self._left_bytes == 0:
            return b""
        while True:
            data = await self._read_any()
            skipped = min(self._skip_bytes, len(data))
            self._skip_bytes -= skipped
            if not data or skipped < len(data):
                break
        data = data[skipped:]
        if self._left_bytes is not None:
            data = data[: self._left_bytes]
            self._left_bytes -= len(data)
        return data

    async def _read_any(self) -> bytes:
        try:
            async with asyncio.timeout(self._stall_timeout_s):
                return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise read_error(error, self._response.url.host or "") from error

    async def close(self) -> None:
        # The connection of a body that was read to its end is used again; any other is cut by this.
        self._response.close()


class FileBody:
    """A `Body` of what lies from `start` on behind a descriptor, which it takes over."""

    def __init__(self, descriptor: int, start: int, length: int | None, threads: DetachedThreads) -> None:
        self._descriptor: int | None = descriptor
        self._offset = start
        self._end = None if length is None else start + length
        self._threads = threads

    async def read(self) -> bytes:
        wanted = _CHUNK_BYTES if self._end is None else min(_CHUNK_BYTES, self._end - self._offset)
        if wanted <= 0 or self._descriptor is None:
            return b""
        # A descriptor of its own: this one may be closed, and its number be another file's, while the thread reads.
        descriptor, offset = os.dup(self._descriptor), self._offset
        try:
            data = await self._threads.run(lambda: _read_and_close(descriptor, wanted, offset))
        except OSError as error:
            message = f"Reading the file failed: {error.strerror}."
            failure = PlayFailure(FailureCode.FILE_UNREADABLE, Stage.READ, message, "Check the disk and the file.")
            raise PlayError(failure) from error
        self._offset += len(data)
        return data

    async def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _read_and_close(descriptor: int, wanted: int, offset: int) -> bytes:
    try:
        return os.pread(descriptor, wanted, offset)
    finally:
        os.close(descriptor)

"""Fetches the files of an HLS stream: playlists, segments and keys. They come over HTTP, or from the disk if the stream
is local.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tonearm.core.errors import RequestError
from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.sources.hls.decryption import KEY_BYTES
from tonearm.sources.hls.playlist import MAX_HLS_BYTES, ByteRange
from tonearm.sources.http.body import Body, packed_error, packing
from tonearm.sources.http.client import SourceClient
from tonearm.sources.http.errors import EXPIRED_STATUSES, admission_error, status_error
from tonearm.sources.http.facts import content_range, is_success
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.local_file import FileOpener
from tonearm.sources.playlist import ByteStream, ReaderBody, linked_uri, playlist_error, read_playlist

# At most this much of a file is read and skipped when its server supports no range requests.
_MAX_SKIPPED_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PlaylistFile:
    """A playlist's bytes, the URI where redirects ended, and the URI that was requested."""

    data: bytes
    uri: SourceUri
    asked: SourceUri


class HlsFiles:
    """The files that a playlist leads to. `client` is that of the opened source.

    `admit` checks the URIs in a playlist.
    """

    def __init__(
        self,
        client: SourceClient,
        files: FileOpener,
        admit: Callable[[SourceUri], SourceUri],
        settings: FetchSettings,
    ) -> None:
        self.settings = settings
        self._client = client
        self._files = files
        self._admit = admit

    def linked(self, playlist: SourceUri, reference: str) -> SourceUri:
        """The URI that a reference in the playlist at `playlist` means. Raises `PlayError`."""
        try:
            return self._admit(parse_source_uri(linked_uri(playlist, reference, is_uri=True)))
        except RequestError as error:
            raise admission_error(error) from error

    async def open(self, uri: SourceUri, byte_range: ByteRange | None = None, skip_bytes: int = 0) -> ByteStream:
        """The body of a file or of a range of it, without its first `skip_bytes`. Raises `PlayError`."""
        start = skip_bytes + (byte_range.start if byte_range else 0)
        length = byte_range.length - skip_bytes if byte_range else None
        return (await self._open(uri, start, length))[0]

    async def playlist(self, uri: SourceUri) -> PlaylistFile:
        """The playlist at `uri`. Raises `PlayError`."""
        body, final_uri = await self._open(uri, 0, None)
        try:
            return PlaylistFile(await read_playlist(body, self.settings, MAX_HLS_BYTES), final_uri, uri)
        finally:
            await body.close()

    async def playlist_anew(self, uri: SourceUri) -> PlaylistFile:
        """As `playlist`. Where `uri` is a page's link that has expired, the page is asked for another one."""
        try:
            return await self.playlist(uri)
        except PlayError as error:
            has_expired = error.failure.http_status in EXPIRED_STATUSES
            renewed = await self._client.renewed(uri) if has_expired else None
            if renewed is None:
                raise
        return await self.playlist(renewed)

    async def key(self, uri: SourceUri) -> bytes:
        """The key of AES-128 at `uri`. Raises `PlayError`."""
        body, _ = await self._open(uri, 0, None)
        try:
            key = b""
            while len(key) <= KEY_BYTES and (chunk := await body.read()):
                key += chunk
        finally:
            await body.close()
        if len(key) == KEY_BYTES:
            return key
        told = f"more than {KEY_BYTES}" if len(key) > KEY_BYTES else str(len(key))
        message = f"The key of the encrypted HLS stream has {told} bytes; AES-128 needs {KEY_BYTES}."
        hint = "The server sent something other than the key, such as a login page; the stream may need a login."
        raise playlist_error(FailureCode.CORRUPT, message, hint)

    async def _open(self, uri: SourceUri, start: int, length: int | None) -> tuple[ByteStream, SourceUri]:
        """The body, and the URI where redirects ended."""
        if uri.kind == "file":
            return ReaderBody((await self._files.open(uri)).reader, start, length), uri
        headers = {}
        if start or length is not None:
            headers["Range"] = f"bytes={start}-" if length is None else f"bytes={start}-{start + length - 1}"
        response, final_uri = await self._client.get(uri, headers)
        host = response.url.host or ""
        try:
            if not is_success(response):
                raise status_error(response.status, host, Stage.READ)
            part = content_range(response)
            how = packing(response, host)
            if how is not None and part is not None and "Range" in headers:
                raise packed_error(host, how)
            skip_bytes = start - (part.first if part else 0)
            if not 0 <= skip_bytes <= _MAX_SKIPPED_BYTES:
                message = f"{host} did not send the part of the file that the playlist names."
                hint = "Serve the stream from a server that supports range requests."
                raise playlist_error(FailureCode.CONNECTION_LOST, message, hint)
        except BaseException:
            response.close()
            raise
        body = Body(response, host, self.settings.stall_timeout_s)
        return _HttpBody(body, length, skip_bytes), final_uri


class _HttpBody:
    def __init__(self, body: Body, length: int | None, skip_bytes: int) -> None:
        self._body = body
        self._skip_bytes = skip_bytes
        self._left_bytes = length

    async def read(self) -> bytes:
        if self._left_bytes == 0:
            return b""
        while True:
            data = await self._body.read()
            skipped = min(self._skip_bytes, len(data))
            self._skip_bytes -= skipped
            if not data or skipped < len(data):
                break
        data = data[skipped:]
        if self._left_bytes is not None:
            data = data[: self._left_bytes]
            self._left_bytes -= len(data)
        return data

    async def close(self) -> None:
        # A connection is used again when the body was read to its end; otherwise it is cut.
        self._body.close()

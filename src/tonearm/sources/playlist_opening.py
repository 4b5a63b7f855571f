"""Sees whether an opened source is a playlist, and makes of it what it stands for: a stream, or a list of sources."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import Final

from tonearm.core.byte_source import ByteSource, LocalFile
from tonearm.core.errors import RequestError
from tonearm.core.failure import PlayError
from tonearm.core.play_queue import Playlist, PlaylistEntry
from tonearm.core.source_uri import SourceUri
from tonearm.core.text_for_logs import text_for_logs
from tonearm.sources import playlist_errors
from tonearm.sources.fetch_settings import FetchSettings
from tonearm.sources.hls.playlist import is_hls
from tonearm.sources.hls.source import HlsSource
from tonearm.sources.http.client import LinkHeaders
from tonearm.sources.http.file import HttpSource
from tonearm.sources.linked_files import Body, FileBody, LinkedFiles, PlaylistFile, Version, read_playlist
from tonearm.sources.playlist import (
    HEAD_BYTES,
    MAX_ENTRIES,
    Listed,
    decode,
    has_playlist_ending,
    linked_uri,
    looks_like_playlist,
    may_be_playlist,
    parse_listing,
)

# Little, so that a source that is no playlist still holds it for the decoder.
_READ_BYTES: Final = 16 * 1024
_LOGGED_CHARACTERS: Final = 200

log = logging.getLogger(__name__)


class PlaylistOpening:
    """`link` makes the files that a playlist leads to readable; `check` judges form and policy of an entry."""

    def __init__(
        self,
        link: Callable[[LinkHeaders | None], LinkedFiles],
        check: Callable[[str], None],
        settings: FetchSettings,
    ) -> None:
        self._link = link
        self._check = check
        self._settings = settings

    async def look_into(self, source: HttpSource, link_headers: LinkHeaders | None) -> ByteSource | Playlist:
        """`source` itself when it is no playlist; else it is closed. Raises `PlayError`."""
        if not may_be_playlist(source.name, source.content_type):
            return source
        body = _SourceBody(source)
        try:
            head = await self._head(body)
            if head is None or not looks_like_playlist(head, source.name, source.content_type):
                body.keep = True
                return source
            files = self._link(link_headers)
            return await self._open(files, head + await read_playlist(body, self._settings), source.final_uri)
        finally:
            await body.close()

    async def look_into_file(self, file: LocalFile, uri: SourceUri) -> LocalFile | ByteSource | Playlist:
        """The same for a file, by whose name it must be a playlist: others are not looked into."""
        if not has_playlist_ending(file.name):
            return file
        is_kept = False
        files = self._link(None)
        body = FileBody(os.dup(file.descriptor), 0, None, files.threads)
        try:
            head = await self._head(body)
            if head is None or not looks_like_playlist(head, file.name, None):
                is_kept = True
                return file
            return await self._open(files, head + await read_playlist(body, self._settings), uri.normalised)
        finally:
            await body.close()
            if not is_kept:
                os.close(file.descriptor)

    async def _head(self, body: Body) -> bytes | None:
        """The first bytes; None when they do not come, which the decoder will find out and tell."""
        head = b""
        with contextlib.suppress(PlayError, TimeoutError):
            async with asyncio.timeout(self._settings.headers_timeout_s):
                while len(head) < HEAD_BYTES and (part := await body.read()):
                    head += part
            return head
        return None

    async def _open(self, files: LinkedFiles, data: bytes, uri_text: str) -> ByteSource | Playlist:
        uri = files.admitted(uri_text)
        if is_hls(decode(data)):
            return await HlsSource.open(files, PlaylistFile(data, uri, Version()))
        # In a thread: hundreds of entries take some ms to be judged.
        return await asyncio.to_thread(self._listing, data, uri)

    def _listing(self, data: bytes, playlist: SourceUri) -> Playlist:
        listing = parse_listing(data)
        entries: list[PlaylistEntry] = []
        for listed in listing.entries:
            try:
                entries.append(self._entry(playlist, listed))
            except (RequestError, PlayError) as error:
                reason = error.message if isinstance(error, RequestError) else error.failure.message
                entry = text_for_logs(listed.reference)[:_LOGGED_CHARACTERS]
                log.warning("an entry of a playlist is left out: %s: %s", entry, text_for_logs(reason))
        if listing.count > MAX_ENTRIES:
            log.warning("only the first %d of a playlist's %d entries are taken", MAX_ENTRIES, listing.count)
        if not entries:
            raise playlist_errors.nothing_to_play(
                "has no entry that this node may play" if listing.entries else "has no entries"
            )
        return Playlist(tuple(entries))

    def _entry(self, playlist: SourceUri, listed: Listed) -> PlaylistEntry:
        uri = linked_uri(playlist, listed.reference, is_uri=listed.is_uri)
        self._check(uri)
        return PlaylistEntry(uri, listed.title)


class _SourceBody:
    """A source read in order. Unless it is to be kept it is closed with this."""

    def __init__(self, source: ByteSource) -> None:
        self.keep = False
        self._source = source
        self._offset = 0

    async def read(self) -> bytes:
        data = await self._source.read_at(self._offset, _READ_BYTES)
        self._offset += len(data)
        return data

    async def close(self) -> None:
        if not self.keep:
            await self._source.close()

"""The library as clients use it: its listing, the details of its files, and uploads."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonearm.core.errors import LoadFailed, RequestError, UploadsOff
from tonearm.core.failure import PlayError
from tonearm.core.library import LibraryEntry, LibraryListing, LibrarySettings, sent_name
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import SourceUri, client_uri, initial_track_info, text_of_file
from tonearm.core.track_info import TrackInfo
from tonearm.decoder.opening.track_loader import TrackLoader
from tonearm.node.tracks import request_error
from tonearm.sources.library import Library
from tonearm.sources.opener import SourceOpener
from tonearm.sources.uploads import Uploads

log = logging.getLogger(__name__)

MOST_DETAILS: Final = 100
_OPENED_AT_ONCE: Final = 4  # fewer than the loader opens at once, so that other clients do not wait for a whole folder
_DETAILS_LIMIT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that was sent. `uri` is what a player takes."""

    name: str
    uri: str
    size_bytes: int
    info: TrackInfo


class Files:
    """`came_through_proxy`: whether a proxy passed the request on. All methods raise `SourceRefused` where such a
    request may play no file."""

    def __init__(self, settings: LibrarySettings, opener: SourceOpener, loader: TrackLoader) -> None:
        self.most_sent_bytes: Final = settings.upload_max_bytes
        self._library = Library(settings)
        self._uploads = Uploads(settings.uploads, settings.uploads_max_bytes) if settings.uploads else None
        self._opener = opener
        self._loader = loader

    @property
    def takes_files(self) -> bool:
        return self._uploads is not None

    async def listing(
        self, path: str, query: str, offset: int, limit: int, *, came_through_proxy: bool
    ) -> LibraryListing:
        """As `Library.listing`."""
        self._opener.require_files(came_through_proxy=came_through_proxy)
        return await self._library.listing(path, query, offset, limit)

    async def details(
        self, entries: Sequence[LibraryEntry], *, came_through_proxy: bool
    ) -> dict[LibraryEntry, TrackInfo]:
        """The facts from opening the first `MOST_DETAILS` audio files, of those that can be opened in time."""
        known: dict[LibraryEntry, TrackInfo] = {}
        places = asyncio.Semaphore(_OPENED_AT_ONCE)

        async def look_at(entry: LibraryEntry) -> None:
            async with places:
                with contextlib.suppress(PlayError, OSError, RequestError):
                    uri = self._opener.admit(client_uri(entry.uri, came_through_proxy))
                    known[entry] = initial_track_info(uri).with_facts(await self._loader.load(uri))

        audio = [entry for entry in entries if entry.kind == "audio"][:MOST_DETAILS]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DETAILS_LIMIT_S), asyncio.TaskGroup() as tasks:
                for entry in audio:
                    tasks.create_task(look_at(entry))
        return known

    def name_for(self, given: str, *, came_through_proxy: bool) -> str:
        """The name under which a file may be sent, made of the name that its sender gives. Raises `UploadsOff`,
        `BadRequest` and `SourceBlocked`."""
        self._opener.require_files(came_through_proxy=came_through_proxy)
        name = sent_name(given)
        self._opener.admit(self._uri_of(self._to_uploads.path_of(name), came_through_proxy))
        return name

    async def keep(
        self, name: str, parts: AsyncIterator[bytes], announced_bytes: int, *, came_through_proxy: bool
    ) -> KeptFile:
        """Writes an uploaded file. It gets its name when a decoder process could open it; otherwise it is removed.

        Raises `LimitReached`, `DiskFull`, `UploadsOff`, `LoadFailed`, `SourceBlocked`, and what `parts` raises.
        """
        async with self._to_uploads.sending(name, announced_bytes) as file:
            async for part in parts:
                await file.write(part)
            await file.finish()
            try:
                facts = await self._loader.load(self._opener.admit(self._uri_of(file.path, came_through_proxy)))
            except PlayError as error:
                log.info("an uploaded file cannot be played: %s", text_for_logs(error.failure.message))
                raise request_error(error.failure, LoadFailed) from error
            uri = self._uri_of(await file.keep(), came_through_proxy)
            log.info("a file of %d bytes was uploaded: %s", file.size_bytes, text_for_logs(uri.path))
            info = initial_track_info(uri).with_facts(facts)
            return KeptFile(uri.path.rpartition("/")[2], text_of_file(uri.path), file.size_bytes, info)

    @property
    def _to_uploads(self) -> Uploads:
        if self._uploads is None:
            raise UploadsOff("Uploads are off at this node; set library.uploads in its configuration to a folder.")
        return self._uploads

    @staticmethod
    def _uri_of(path: str, came_through_proxy: bool) -> SourceUri:
        return client_uri(text_of_file(path), came_through_proxy)

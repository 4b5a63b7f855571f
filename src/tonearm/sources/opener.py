"""From a URI to something that can be read."""

import asyncio
import os
from collections.abc import Iterable

from tonearm.core.byte_source import ByteSource, LocalFile
from tonearm.core.errors import RequestError, SourceRefused
from tonearm.core.failure import PlayError
from tonearm.core.play_queue import Playlist
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.sources.fetch_settings import FetchSettings
from tonearm.sources.guard import AddressGuard, AddressRefusedError
from tonearm.sources.http.client import HttpClient, LinkHeaders
from tonearm.sources.http.errors import admission_error
from tonearm.sources.http.file import HttpSource
from tonearm.sources.http.opening import open_http
from tonearm.sources.linked_files import LinkedFiles
from tonearm.sources.local_file import FileOpener, FileRefusedError
from tonearm.sources.playlist_opening import PlaylistOpening
from tonearm.sources.resolver.pages import PageOpening, PageResolver, ResolverSettings


class SourceOpener:
    """Judges and opens URIs. One for the whole node; use it on one event loop and `close` it there.

    `private_networks` tells whether addresses outside the open internet may be dialled; `own_addresses` are host
    and port of the node's listening sockets. Which files may be read is the policy's `files`. With `resolver`
    settings, pages are opened as the links behind them.
    """

    def __init__(
        self,
        policy: SourcePolicy,
        *,
        private_networks: bool,
        own_addresses: Iterable[tuple[str, int]] = (),
        settings: FetchSettings | None = None,
        resolver: ResolverSettings | None = None,
    ) -> None:
        self._policy = policy
        self._settings = settings or FetchSettings()
        self._files = FileOpener(policy.files if isinstance(policy.files, tuple) else policy.allows_files)
        self._guard = AddressGuard(private_networks=private_networks, own_addresses=own_addresses)
        self._client = HttpClient(self._guard, self._admit, self._settings)
        self._playlists = PlaylistOpening(self._link, self.check, self._settings)
        self._resolver: PageResolver | None = None
        self._pages: PageOpening | None = None
        if resolver is not None:
            timeout_s = self._settings.connect_timeout_s
            self._resolver = PageResolver(self._guard, self._admit, resolver, connect_timeout_s=timeout_s)
            self._pages = PageOpening(self._resolver, self._fetch)

    async def start(self) -> None:
        """Sees whether the resolver can work. Raises `ResolverSetupError`."""
        if self._resolver is not None:
            await self._resolver.start()

    def add_own_address(self, host: str, port: int) -> None:
        """Tells of a listening socket whose port was chosen only when it was bound."""
        self._guard.add_own_address(host, port)

    def check(self, uri: str) -> None:
        """Form and policy, without touching network or disk.

        Raises `BadRequest`, `SourceBlocked` or `SourceRefused`.
        """
        source_uri = self._admit(uri)
        try:
            if source_uri.host is not None and source_uri.port is not None:
                self._guard.check_host(source_uri.host, source_uri.port)
            else:
                self._files.check(source_uri.path)
        except AddressRefusedError as error:
            raise SourceRefused(f"{error.message} {error.hint}") from error
        except FileRefusedError as error:
            raise SourceRefused(error.message) from error

    async def open(self, uri: str) -> LocalFile | ByteSource | Playlist:
        """Opens `uri`; what comes back belongs to the caller, who closes it. Raises `PlayError`."""
        try:
            source_uri = self._admit(uri)
        except RequestError as error:
            raise admission_error(error) from error
        if source_uri.kind == "file":
            file = await self._files.open(source_uri.path)
            return await self._playlists.look_into_file(file, source_uri)
        if self._pages is not None:
            return await self._pages.open(source_uri)
        return await self._fetch(source_uri)

    async def playlist(self, uri: str) -> Playlist | None:
        """The entries of the playlist at `uri`; None when it is none, or cannot be had in `playlist_limit_s`."""
        try:
            async with asyncio.timeout(self._settings.playlist_limit_s):
                opened = await self.open(uri)
        except (PlayError, TimeoutError):
            return None
        if isinstance(opened, LocalFile):
            os.close(opened.descriptor)
        elif not isinstance(opened, Playlist):
            await opened.close()
        return opened if isinstance(opened, Playlist) else None

    @property
    def resolves_pages(self) -> bool:
        return self._pages is not None

    async def direct_uri(self, uri: str) -> str:
        """What `open` would really open: the link behind a page, else `uri` in its normal form.

        Raises `PlayError`, and the classes that `check` raises.
        """
        self.check(uri)
        source_uri = self._admit(uri)
        if self._pages is None or source_uri.kind == "file":
            return source_uri.opened
        link = (await self._pages.link_of(source_uri)).opened
        self.check(link)
        return link

    async def close(self) -> None:
        """Closes the HTTP client and ends the resolver's processes. Sources that are still open break off."""
        if self._resolver is not None:
            await self._resolver.close()
        await self._client.close()

    async def _fetch(self, uri: SourceUri, link_headers: LinkHeaders | None = None) -> ByteSource | Playlist:
        source = await open_http(self._client, uri.normalised, self._settings, link_headers)
        return await self._playlists.look_into(source, link_headers) if isinstance(source, HttpSource) else source

    def _link(self, link_headers: LinkHeaders | None) -> LinkedFiles:
        return LinkedFiles(self._client, self._files, self._admit, self._settings, link_headers)

    def _admit(self, uri: str) -> SourceUri:
        source_uri = parse_source_uri(uri).absolute(os.getcwd())
        self._policy.check(source_uri)
        return source_uri

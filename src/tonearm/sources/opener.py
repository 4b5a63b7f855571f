"""Opens the source of a URI. It puts policy, files, HTTP, pages and playlists together."""

import asyncio
import dataclasses
import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import Final, Literal, TypeAlias

from tonearm.core.errors import BadRequest, RequestError, ResolverDisabled, SourceRefused
from tonearm.core.failure import REFUSALS, FailureCode, PlayError, Stage
from tonearm.core.figures import ResolverFigures
from tonearm.core.library import kind_of_file
from tonearm.core.live_pace import may_be_live
from tonearm.core.opened_source import (
    RESOLVER_HINT,
    UNRESOLVED_PAGE,
    OpenedSource,
    ReportWait,
    SourceReader,
    ignore_wait,
    is_html,
    media_type,
)
from tonearm.core.play_queue import Playlist, PlaylistEntry
from tonearm.core.policy import SourcePolicy, is_host_of
from tonearm.core.source_uri import (
    SourceUri,
    client_uri,
    has_playlist_ending,
    hint_for_link,
)
from tonearm.core.typed_text import Meaning, what_is_meant
from tonearm.sources.guard import AddressGuard, AddressRefusedError
from tonearm.sources.hls.files import HlsFiles, PlaylistFile
from tonearm.sources.hls.playlist import MAX_HLS_BYTES
from tonearm.sources.hls.source import open_hls
from tonearm.sources.http.body import Body
from tonearm.sources.http.client import Answer, HttpClient, SourceClient
from tonearm.sources.http.errors import PassingError, admission_error
from tonearm.sources.http.facts import ContentRange, RemoteFile, content_range, empty_error, remote_file
from tonearm.sources.http.file import HttpFileReader
from tonearm.sources.http.radio import TITLES_WANTED, RadioReader, is_live_stream, station_name
from tonearm.sources.http.settings import FetchSettings, PageLink, Renew
from tonearm.sources.lists.entries import playlist_in, playlist_of
from tonearm.sources.lists.flac import flac_listing
from tonearm.sources.lists.folder import folder_listing
from tonearm.sources.local_file import FileOpener, IsFolderError
from tonearm.sources.mirrors.mirrors import Mirrors
from tonearm.sources.playlist import (
    HEAD_BYTES,
    M3U_MARK,
    MAX_PLAYLIST_BYTES,
    ByteStream,
    ReaderBody,
    decode,
    is_hls,
    is_playlist_type,
    looks_like_playlist,
    may_be_playlist,
    read_beginning,
    too_large,
)
from tonearm.sources.resolver.answers import resolve_error
from tonearm.sources.resolver.page_opening import PageOpening
from tonearm.sources.resolver.pages import DEFAULT_SEARCH, MAX_LISTED, PageResolver, ResolverSettings
from tonearm.sources.sounds import Sounds

PrivateNetworks: TypeAlias = Literal["auto"] | bool

# Small enough that the reader's window still contains these bytes for the decoder if the source is no playlist.
_HEAD_READ_BYTES: Final = 16 * 1024
# The limit for the first bytes of a source that is probably audio: if they do not arrive, the decoder reports why.
_UNLIKELY_LIMIT_S: Final = 1.0

# Well-known sites whose links need the resolver. The hint names the resolver even if such a site answers with a login,
# a question about cookies or a refusal instead of the page.
_SITES_OF_PAGES: Final = (
    *(".youtube.com", ".youtu.be", ".youtube-nocookie.com", ".soundcloud.com", ".bandcamp.com", ".mixcloud.com"),
    *(".vimeo.com", ".dailymotion.com", ".twitch.tv", ".tiktok.com", ".bilibili.com", ".nicovideo.jp", ".twitter.com"),
    *(".spotify.com", ".spotify.link", ".deezer.com", ".deezer.page.link", ".music.apple.com", ".tidal.com"),
    *(".x.com", ".facebook.com", ".instagram.com", ".reddit.com", ".audiomack.com", ".rumble.com", ".odysee.com"),
)

log = logging.getLogger(__name__)


class SourceOpener:
    """Judges and opens URIs. One for the whole node; use it on one event loop and `close` it there.

    `private_networks` permits dialling addresses outside the open internet. The policy's `files` says which files may
    be read. With `resolver` settings, a page is opened through the link behind it, and a link of a music service
    through another site that has the same recording. `sounds` are the sounds that clients sent. `guard` looks up names
    and judges addresses; without it, the opener makes a guard that uses the system's resolver.
    """

    def __init__(
        self,
        policy: SourcePolicy,
        *,
        private_networks: bool,
        settings: FetchSettings | None = None,
        resolver: ResolverSettings | None = None,
        sounds: Sounds | None = None,
        guard: AddressGuard | None = None,
    ) -> None:
        self._policy = policy
        self._working_folder = os.getcwd()  # which may be gone by the time a source is opened
        self.sounds: Final = sounds or Sounds()
        self._settings = settings or FetchSettings()
        self._files = FileOpener(policy.files if isinstance(policy.files, tuple) else policy.allows_files)
        self._guard = guard or AddressGuard(private_networks=private_networks)
        self._client = HttpClient(self._guard, self._admit, self._settings)
        self._resolver: PageResolver | None = None
        self._pages: PageOpening | None = None
        self._mirrors: Mirrors | None = None
        if resolver is not None:
            page_resolver = self._resolver = PageResolver(self._client, self._admit, resolver)
            self._pages = PageOpening(page_resolver, self._fetch, self.admit)
            self._mirrors = Mirrors(
                self._client, self._pages, lambda: page_resolver.searches, self.admit, resolver.mirrors
            )

    async def start(self) -> None:
        """Checks that the resolver works. Raises `ResolverSetupError`, `SandboxRequiredError`."""
        if self._resolver is not None:
            await self._resolver.start()

    def share_with(self, other: "SourceOpener") -> None:
        """Takes the sites that can be searched and the prepared scripts from `other`, which was started with the same
        settings."""
        if self._resolver is not None and other._resolver is not None:
            self._resolver.searches = other._resolver.searches
            self._resolver.scripts = other._resolver.scripts

    @property
    def resolver_figures(self) -> ResolverFigures | None:
        return None if self._resolver is None else self._resolver.figures

    @property
    def resolver_sandbox(self) -> str:
        return "" if self._resolver is None else self._resolver.sandbox.level

    def announce_sandbox(self) -> None:
        if self._resolver is not None:
            self._resolver.sandbox.announce()

    def add_own_address(self, host: str, port: int) -> None:
        """Adds a listening socket of the node, which the node must not dial."""
        self._guard.add_own_address(host, port)

    def admit(self, uri: SourceUri) -> SourceUri:
        """Checks the form of `uri`, the policy and a literal address, and returns `uri` with an absolute path.

        Accesses neither network nor disk. Raises `SourceBlocked` or `SourceRefused`, and `BadRequest` for a search that
        this node cannot make.
        """
        admitted = self._admit(uri)
        if admitted.kind == "search":
            self._require_search(admitted)
        if admitted.kind in ("search", "sound"):
            return admitted
        try:
            if admitted.host is not None and admitted.port is not None:
                self._guard.check_host(admitted.host, admitted.port)
            else:
                self._files.check(admitted.path)
        except AddressRefusedError as error:
            raise SourceRefused(f"{error.message} {error.hint}") from error
        except SourceRefused as error:
            raise SourceRefused(error.message + hint_for_link(admitted.given)) from error
        return admitted

    def warning_of(self, uri: SourceUri) -> str:
        """Why a link will not play, if that is known before the link is opened; empty otherwise. Without a resolver,
        the warning covers links of well-known sites of pages."""
        if self._mirrors is not None and (warning := self._mirrors.warning_of(uri)):
            return warning
        if self._pages is not None or kind_of_file(uri.path) or not is_host_of(_SITES_OF_PAGES, uri.host):
            return ""
        return f"The links of {uri.host} lead to web pages, which this node cannot play. {RESOLVER_HINT}"

    def require_files(self, *, came_through_proxy: bool) -> None:
        """Raises `SourceRefused` when a request that came this way may not play any file."""
        self._policy.require_files()

    async def open(self, uri: SourceUri, report_wait: ReportWait = ignore_wait) -> OpenedSource | Playlist:
        """Opens `uri`; the caller owns and closes the opened source. Raises `PlayError`."""
        if not uri.is_admitted:
            try:
                uri = self._admit(uri)
            except RequestError as error:
                raise admission_error(error) from error
        if uri.kind == "sound":
            return self.sounds.open(uri)
        if uri.kind == "file":
            uri = await self._as_on_disk(uri)
            try:
                return await self._expand(await self._files.open(uri), self._client.for_source(), uri)
            except IsFolderError as folder:
                listing = folder_listing(uri, folder.names)
                # In a thread, as below.
                return await asyncio.to_thread(playlist_of, listing, uri, self.admit)
        if self._mirrors is not None and self._mirrors.is_for(uri):
            return await self._mirrors.open(uri, report_wait)
        if self._pages is not None:
            return await self._pages.open(uri, report_wait)
        if uri.kind == "search":
            raise resolve_error("the resolver is off on this node", "Set resolver.enabled in the node's configuration.")
        return await self._fetch_unresolved(uri)

    async def open_direct(self, uri: SourceUri) -> OpenedSource | Playlist | None:
        """As `open`, but returns None for pages and searches, which would have to be resolved. Raises `PlayError`."""
        if self._pages is None or uri.is_here:
            return None if uri.kind == "search" else await self.open(uri)
        if self._mirrors is not None and self._mirrors.is_for(uri):
            return None
        opened = await self._pages.open_direct(uri)
        return None if isinstance(opened, SourceUri) else opened

    async def open_list(self, uri: SourceUri) -> Playlist:
        """All entries of a playlist file, a CUE sheet within FLAC, a page or a search.

        Raises `PlayError` and `LimitReached`.
        """
        if self._mirrors is not None and self._mirrors.is_for(uri):
            looked_up = await (
                self._mirrors.search(uri, MAX_LISTED) if uri.kind == "search" else self._mirrors.look_up(uri)
            )
            if isinstance(looked_up, Playlist):
                return looked_up
            raise _single_track()
        is_resolved = self._pages is not None and not uri.is_here
        opened = await (self._pages.open_list(uri) if self._pages and is_resolved else self.open(uri))
        if isinstance(opened, Playlist):
            return opened
        if opened is not None:
            try:
                listing = await flac_listing(opened, uri, self._settings)
            finally:
                await opened.close()
            if listing is not None:
                return await asyncio.to_thread(playlist_of, listing, uri, self.admit)
        if opened is None or opened.content_type != UNRESOLVED_PAGE:
            raise _single_track()
        message = "The URI is a web page, not a playlist."
        raise PlayError.of(FailureCode.NOT_AUDIO, Stage.READ, message, RESOLVER_HINT)

    async def look_up(self, uri: SourceUri) -> PlaylistEntry | Playlist | None:
        """The metadata of a page, a link of a service, a list or a folder, without opening any sound. None for a
        source, which must be opened. Raises `PlayError` and `LimitReached`."""
        if self._mirrors is not None and self._mirrors.is_for(uri):
            return await self._mirrors.look_up(uri)
        if self._pages is not None and not uri.is_here:
            return await self._pages.look_up(uri)
        opened = await self.open(uri)
        if isinstance(opened, Playlist):
            return opened
        await opened.close()
        return None

    async def page_facts(self, uri: SourceUri) -> PlaylistEntry | None:
        """The metadata of the one track that a page or a link of a service plays; None for anything else. Used for the
        titles of a queue. Raises `PlayError`, and `LimitReached` when it may be asked later."""
        if self._pages is None or uri.is_here:
            return None
        if self._mirrors is None or not self._mirrors.is_for(uri):
            return await self._pages.facts(uri)
        found = None if uri.kind == "search" else await self._mirrors.look_up(uri)
        return found if isinstance(found, PlaylistEntry) else None

    @property
    def searches(self) -> Mapping[str, str]:
        """The names of the sites that can be searched, by the key that precedes the words."""
        of_pages = {} if self._resolver is None else self._resolver.searches
        return {**of_pages, **({} if self._mirrors is None else self._mirrors.searches)}

    @property
    def why_no_search(self) -> str:
        """Why this node cannot search; valid only while `searches` is empty."""
        return "resolver.enabled is off" if self._resolver is None else "none of resolver.sites can be searched"

    async def meaning_of(self, text: str, *, came_through_proxy: bool) -> Meaning:
        """What a typed text means. Raises `PlayError` when the system gives the node no thread."""

        def is_there(path: str) -> bool:
            try:
                admitted = self.admit(client_uri(path, came_through_proxy))
            except RequestError:
                return False
            return admitted.kind == "file" and self._files.has(self._files.as_on_disk(admitted.path))

        default = DEFAULT_SEARCH if self._resolver is None else self._resolver.default_search
        meant = partial(what_is_meant, text, searches=self.searches, default_search=default, is_there=is_there)
        return await self._files.run(meant)  # it may look at a disk

    async def search(self, uri: SourceUri, limit: int) -> Playlist:
        """The first results of an admitted search, at least one. Raises `PlayError` and `LimitReached`."""
        assert self._pages is not None, "a search is admitted only with a resolver"
        if self._mirrors is not None and uri.search_key in self._mirrors.searches:
            return await self._mirrors.search(uri, limit)
        return await self._pages.search(uri, limit)

    def search_key(self, site: str) -> str:
        """The key before the words of a search at `site`, as `ytsearch`. Raises `ResolverDisabled` and `BadRequest`."""
        if self._resolver is None:
            raise ResolverDisabled("The resolver is disabled on this node; set resolver.enabled to search.")
        wanted = site.lower()
        for key, name in self.searches.items():
            if wanted in (name, key):
                return key
        raise BadRequest(f"This node cannot search {site!r}. {self._what_can_be_searched()}")

    def _require_search(self, uri: SourceUri) -> None:
        if self._resolver is None:
            raise BadRequest(
                f"{uri.search_key}: is a search, and the resolver is disabled on this node; give a URI or a path, "
                "or set resolver.enabled."
            )
        if uri.search_key not in self.searches:
            raise BadRequest(f"This node has no search {uri.search_key!r}. {self._what_can_be_searched()}")

    def _what_can_be_searched(self) -> str:
        if not self.searches:
            return f"{self.why_no_search.capitalize()}."
        return "There are " + ", ".join(f"{name} ({key}:)" for key, name in sorted(self.searches.items())) + "."

    async def playlist(self, uri: SourceUri) -> Playlist | None:
        """The entries of the playlist at `uri`; None when it is no playlist, or cannot be read in
        `playlist_limit_s`."""
        try:
            async with asyncio.timeout(self._settings.playlist_limit_s):
                opened = await self.open(uri)
        except (PlayError, TimeoutError):
            return None
        if isinstance(opened, Playlist):
            return opened
        await opened.close()
        return None

    @property
    def resolves_pages(self) -> bool:
        return self._pages is not None

    async def direct_uri(self, uri: SourceUri) -> str:
        """The URI that `open` would fetch: the link behind a page, otherwise `uri` in its normal form.

        Raises `PlayError`, `LimitReached`, and what `admit` raises.
        """
        uri = self.admit(uri)
        if self._pages is None or uri.is_here:
            return uri.opened
        if self._mirrors is not None and self._mirrors.is_for(uri):
            uri = await self._mirrors.page_of(uri)
        return self.admit(await self._pages.link_of(uri)).opened

    async def close(self) -> None:
        """Closes the HTTP client and ends the resolver's processes. Sources that are still open lose their bytes."""
        self.sounds.close()
        if self._resolver is not None:
            await self._resolver.close()
        await self._client.close()

    def _admit(self, uri: SourceUri) -> SourceUri:
        return self._policy.admit(uri.absolute(self._working_folder))

    async def _as_on_disk(self, uri: SourceUri) -> SourceUri:
        """The file under its name on the disk, see `FileOpener.as_on_disk`. Raises `PlayError`."""
        if uri.path.isascii():
            return uri
        path = await self._files.run(partial(self._files.as_on_disk, uri.path))
        try:
            return uri if path == uri.path else self._admit(uri.at(path))
        except RequestError as error:
            raise admission_error(error) from error

    async def _fetch_unresolved(self, uri: SourceUri) -> OpenedSource | Playlist:
        """As `_fetch`, on a node without a resolver: the failure of a page names the resolver in its hint."""
        try:
            opened = await self._fetch(uri)
        except PlayError as error:
            failure = error.failure
            if failure.code in REFUSALS or not is_host_of(_SITES_OF_PAGES, uri.host):
                raise
            raise PlayError(dataclasses.replace(failure, hint=f"{failure.hint} {RESOLVER_HINT}")) from error
        if isinstance(opened, OpenedSource) and is_html(opened.content_type):
            return dataclasses.replace(opened, content_type=UNRESOLVED_PAGE)
        return opened

    async def _fetch(
        self,
        uri: SourceUri,
        link: PageLink | None = None,
        renew: Renew | None = None,
        hops: list[SourceUri] | None = None,
    ) -> OpenedSource | Playlist:
        """`hops` gets `uri` and where it redirects to, also when that fails."""
        client = self._client.for_source(link, renew)
        try:
            source = await open_http(client, uri, self._settings)
        finally:
            if hops is not None:
                hops += client.hops
        return source if source.is_live else await self._expand(source, client, uri)

    async def _expand(self, source: OpenedSource, client: SourceClient, asked: SourceUri) -> OpenedSource | Playlist:
        """Opens a playlist as a stream or list of tracks; returns `source`, opened for `asked`, if it is no playlist.

        A source that is not returned is closed. A local file is read only when its name is a playlist's. Of a remote
        source with an audio type only the first bytes are read, since some servers send the playlist of a stream with
        such a type. Raises `PlayError`.
        """
        is_local = source.uri.kind == "file"
        is_likely = has_playlist_ending(source.name) if is_local else may_be_playlist(source.name, source.content_type)
        if is_local and not is_likely:
            return source
        is_kept = False
        try:
            body = ReaderBody(source.reader, read_bytes=_HEAD_READ_BYTES)
            head = await self._head(body, is_likely=is_likely)
            if head is None or not looks_like_playlist(head, source.name, source.content_type):
                is_kept = True
                return source
            begins_stream = is_hls(decode(head))
            max_bytes = MAX_HLS_BYTES if begins_stream else MAX_PLAYLIST_BYTES
            rest, is_whole = await read_beginning(body, self._settings, max_bytes)
            data = (head + rest)[:max_bytes]
        finally:
            if not is_kept:
                await source.close()
        more = "" if is_whole else f"it has more than {max_bytes // 1024} KiB"
        if begins_stream or is_hls(decode(data)):
            if more:
                raise too_large(more)
            files = HlsFiles(client, self._files, self._admit, self._settings)
            return await open_hls(files, PlaylistFile(data, source.uri, asked))
        unread = f"The end of the playlist is not read: {more}." if more else ""
        # In a thread: admitting hundreds of entries takes some ms, and a local list has to be looked for on the disk.
        parse = partial(playlist_in, data, source.uri, self.admit, self._files, unread=unread)
        return await (self._files.run(parse) if source.uri.kind == "file" else asyncio.to_thread(parse))

    async def _head(self, body: ByteStream, *, is_likely: bool) -> bytes | None:
        """The first bytes; None when they are no playlist's, or cannot be read.

        A failed read is not raised, since the decoder meets and reports it, too. Only `LIMIT_EXCEEDED` of a likely
        playlist is raised. An unlikely playlist is recognised only by `M3U_MARK`.
        """
        head = b""
        try:
            async with asyncio.timeout(self._settings.headers_timeout_s if is_likely else _UNLIKELY_LIMIT_S):
                while len(head) < HEAD_BYTES and (part := await body.read()):
                    head += part
                    if not is_likely and not (head.startswith(M3U_MARK) or M3U_MARK.startswith(head)):
                        return None
        except TimeoutError:
            return None
        except PlayError as error:
            if is_likely and error.failure.code is FailureCode.LIMIT_EXCEEDED:
                raise
            return None
        return head


# The range covers the whole file; the answer shows whether the server supports ranges. Only the first request asks for
# titles: within a file their bytes would be damage.
_FIRST_HEADERS: Final[Mapping[str, str]] = {"Range": "bytes=0-", **TITLES_WANTED}
_LEAST_ASKED_AGAIN_BYTES: Final = 64 * 1024  # not for each page and list


async def open_http(client: SourceClient, uri: SourceUri, settings: FetchSettings) -> OpenedSource:
    """Requests the whole file by a range request, and retries failures that may pass. Raises `PlayError`."""
    for delay_s in settings.open_retry_delays_s:
        try:
            return await _open_once(client, uri, settings)
        except PassingError:
            await asyncio.sleep(delay_s)
    return await _open_once(client, uri, settings)


async def _open_once(client: SourceClient, uri: SourceUri, settings: FetchSettings) -> OpenedSource:
    answer = await client.get(uri, _FIRST_HEADERS)
    try:
        if answer[0].status == 416:
            answer = await _without_range(client, uri, answer)
        response = answer[0]
        file = remote_file(uri, answer)
        body = Body(response, file.host, settings.stall_timeout_s)
        first = b""
        if not file.is_live and not file.is_seekable and may_be_live(response.headers):
            is_live, first = await is_live_stream(body)
            file = dataclasses.replace(file, is_live=is_live)
        elif file.is_live and is_playlist_type(file.content_type) and await _begins_playlist(body, file):
            file = dataclasses.replace(file, is_live=False)  # radio servers have `icy-` headers for their lists, too
        elif await _gives_other_ranges(client, file, answer):
            file = dataclasses.replace(file, is_seekable=True)
    except BaseException:
        answer[0].close()
        raise
    reader: SourceReader
    if file.is_live:
        reader = RadioReader(client, file, settings, body, first)
    else:
        reader = HttpFileReader(client, file, settings, body)
    return OpenedSource(
        uri=file.final_uri,
        reader=reader,
        name=file.name,
        size_bytes=file.size_bytes,
        is_seekable=file.is_seekable,
        is_live=file.is_live,
        content_type=file.content_type,
        station_name=station_name(response) if file.is_live else None,
    )


async def _gives_other_ranges(client: SourceClient, file: RemoteFile, first: Answer) -> bool:
    """Whether a server that gave the whole file for the range of all bytes, as Tornado does, gives smaller ranges."""
    last = (file.size_bytes or 0) - 1
    says_so = media_type(first[0].headers.get("Accept-Ranges")) == "bytes"
    if file.is_live or file.is_seekable or not says_so or last < _LEAST_ASKED_AGAIN_BYTES or is_html(file.content_type):
        return False
    try:
        answer, _ = await client.get(file.final_uri, {"Range": f"bytes={last}-"})
    except PlayError:
        return False
    answer.close()
    return content_range(answer) == ContentRange(last, file.size_bytes)


async def _begins_playlist(body: Body, file: RemoteFile) -> bool:
    """Whether the body begins with a playlist. The bytes are put back into `body`. Raises `PlayError`."""
    parts: list[bytes] = []
    while sum(map(len, parts)) < HEAD_BYTES and (part := await body.read()):
        parts.append(part)
    body.put_back(parts)
    return looks_like_playlist(b"".join(parts)[:HEAD_BYTES], file.name, file.content_type)


async def _without_range(client: SourceClient, uri: SourceUri, refusal: Answer) -> Answer:
    """The answer to a plain request. An empty file has no range from 0; other servers just refuse ranges."""
    response, _ = refusal
    response.close()
    if response.headers.get("Content-Range", "").replace(" ", "").endswith("*/0"):
        raise empty_error(response.url.host or "")
    return await client.get(uri, TITLES_WANTED)


def _single_track() -> PlayError:
    message = "The URI is a single track, not a playlist."
    hint = "Load it with GET /v0/loadtracks, or give it to a player."
    return PlayError.of(FailureCode.NOT_AUDIO, Stage.READ, message, hint)

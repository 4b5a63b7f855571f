"""Opens a URI that may be a page: by the link behind it, as a list of tracks, or directly."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from tonearm.core.errors import LimitReached
from tonearm.core.failure import PlayError
from tonearm.core.opened_source import OPENING, OpenedSource, ReportWait, ignore_wait, is_html
from tonearm.core.play_queue import NothingFound, Playlist, PlaylistEntry
from tonearm.core.source_uri import SourceUri
from tonearm.sources.http.errors import ProxyError
from tonearm.sources.http.settings import PageLink, Renew
from tonearm.sources.resolver.answers import Judge, ResolvedPage
from tonearm.sources.resolver.pages import MAX_LISTED, PageResolver

Fetch: TypeAlias = Callable[
    [SourceUri, PageLink | None, Renew | None, list[SourceUri]], Awaitable[OpenedSource | Playlist]
]
"""Fetches a URI, and adds it and its redirects to the list."""
# A search plays the first permitted result out of this many that can be opened.
_CANDIDATES: Final = 5
MOST_TRIED: Final = 3
_IN_LIST: Final = "&list="  # as YouTube's links have it behind a video

_T = TypeVar("_T")


class PageOpening:
    """Opens a page as the link behind it or as its list, a search as its first result that can be opened, and any other
    URI directly.

    A URI is a page when a permitted extractor is made for it or for where it redirects to, as the short links of share
    buttons do, and, with `generic` permitted, when it is HTML. `judge` is called for each entry of a list.
    """

    def __init__(self, resolver: PageResolver, fetch: Fetch, judge: Judge) -> None:
        self._resolver = resolver
        self._fetch = fetch
        self._judge = judge

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        """Raises `PlayError`."""
        if uri.kind == "search":

            async def resolved(page: SourceUri) -> OpenedSource | Playlist:
                return await self._fetched(page, await self._resolver.resolve(page, report_wait), report_wait)

            return await self._best_match(uri, resolved, report_wait)
        page = await self.open_direct(uri, report_wait)
        if not isinstance(page, SourceUri):
            return page
        opened = await self._resolver.open(page, self._judge, report_wait)
        return opened if isinstance(opened, Playlist) else await self._fetched(page, opened, report_wait)

    async def _fetched(self, page: SourceUri, found: ResolvedPage, report_wait: ReportWait) -> OpenedSource | Playlist:
        """What the link behind `page` leads to. Raises `PlayError`."""

        async def renew() -> PageLink:
            return (await self._resolver.resolve(page)).link

        report_wait(OPENING)
        try:
            fetched = await self._fetch(found.link.uri, found.link, renew, [])
        except ProxyError as error:
            self._resolver.proxy_failed(found.link.proxy, error)
            raise
        return fetched if isinstance(fetched, Playlist) else fetched.found_by(found.facts)

    async def open_direct(
        self, uri: SourceUri, report_wait: ReportWait = ignore_wait
    ) -> OpenedSource | Playlist | SourceUri:
        """As `open`, but returns the URI of a page or of a search, and resolves nothing. Raises `PlayError`.

        If no process says in time whether `uri` is a page, `uri` is opened directly, since most URIs lead to files.
        If the result is no audio, `open_direct` waits for the answer.
        """
        is_page = uri.kind == "search" or await self._resolver.is_page(uri, report_wait)
        if is_page:
            return uri
        report_wait(OPENING)
        hops: list[SourceUri] = []
        try:
            source = await self._fetch(uri, None, None, hops)
        except PlayError:
            # As where a page sends whoever is not signed in elsewhere, or refuses them.
            if (page := await self._first_page(hops if is_page is None else hops[1:], report_wait)) is not None:
                return page
            raise
        if isinstance(source, Playlist) or not is_html(source.content_type):
            return source
        try:
            page = uri if self._resolver.resolves_any_page else await self._first_page(hops, report_wait)
        except BaseException:
            await source.close()
            raise
        if page is None:
            return source
        await source.close()
        return page

    async def _first_page(self, uris: Sequence[SourceUri], report_wait: ReportWait) -> SourceUri | None:
        for uri in uris:
            if await self._resolver.is_page_after_all(uri, report_wait):
                return uri
        return None

    async def open_list(self, uri: SourceUri) -> OpenedSource | Playlist | None:
        """A playlist's file or a page that lists others; None for a page that does not. For a request of a client.

        Raises `PlayError` and `LimitReached`.
        """
        if uri.kind == "search":
            return await self.search(uri, MAX_LISTED)
        source = await self.open_direct(uri)
        if not isinstance(source, SourceUri):
            return source
        opened = await self._resolver.open(source, self._judge, whole=True, for_client=True)
        return opened if isinstance(opened, Playlist) else None

    async def look_up(self, uri: SourceUri) -> PlaylistEntry | Playlist | None:
        """The track or list of a page; None for a URI that is opened directly. For a request of a client. Raises
        `PlayError` and `LimitReached`."""
        source = await self.open_direct(uri)
        if isinstance(source, OpenedSource):
            await source.close()
            return None
        if isinstance(source, Playlist):
            return source
        try:
            opened = await self._resolver.open(source, self._judge, whole=True, for_client=True)
        except PlayError:
            if _IN_LIST not in source.opened:
                raise
            # The list may be private, and the video in it is not.
            opened = await self._resolver.open(source, self._judge, for_client=True)
        return opened if isinstance(opened, Playlist) else _entry(uri, opened)

    async def facts(self, uri: SourceUri) -> PlaylistEntry | None:
        """The metadata of the track that a page plays, without opening the track. None for a list, a search, and a URI
        that is opened directly. For the titles of a queue. Raises `PlayError`, and `LimitReached` when players need the
        processes."""
        if uri.kind == "search" or not await self._resolver.is_page(uri):
            return None
        if not self._resolver.has_room:
            raise LimitReached("The resolver's processes are needed for players.")
        opened = await self._resolver.open(uri, self._judge)
        return None if isinstance(opened, Playlist) else _entry(uri, opened)

    async def search(self, uri: SourceUri, limit: int) -> Playlist:
        """The first `limit` results that this node may play, one at least. For a request of a client.

        Raises `PlayError` and `LimitReached`.
        """
        return await self._resolver.search(uri, self._judge, limit, for_client=True)

    async def find(self, uri: SourceUri, limit: int, report_wait: ReportWait) -> tuple[PlaylistEntry, ...]:
        """As `search`, for a player; empty when there is no result that this node may play."""
        try:
            return (await self._resolver.search(uri, self._judge, limit, report_wait)).entries
        except NothingFound:
            return ()

    async def link_of(self, uri: SourceUri) -> SourceUri:
        """The link behind a page, `uri` itself when it is no page. For a request of a client. Raises `PlayError` and
        `LimitReached`."""
        if uri.kind == "search":

            async def resolved(page: SourceUri) -> SourceUri:
                return (await self._resolver.resolve(page, for_client=True)).link.uri

            return await self._best_match(uri, resolved, for_client=True)
        if not self._resolver.resolves_any_page and not await self._resolver.is_page_after_all(uri):
            return uri  # whether it redirects to a page is found out when it plays
        source = await self.open_direct(uri)
        if isinstance(source, SourceUri):
            return (await self._resolver.resolve(source, for_client=True)).link.uri
        if isinstance(source, OpenedSource):
            await source.close()
        return uri

    async def _best_match(
        self,
        uri: SourceUri,
        opened: Callable[[SourceUri], Awaitable[_T]],
        report_wait: ReportWait = ignore_wait,
        *,
        for_client: bool = False,
    ) -> _T:
        """As `first_opened`, for the results of a search."""
        found = await self._resolver.search(uri, self._judge, _CANDIDATES, report_wait, for_client=for_client)
        return await first_opened(found, opened)


async def first_opened(found: Playlist, opened: Callable[[SourceUri], Awaitable[_T]]) -> _T:
    """What `opened` gives for the first entry, or for one of the next while that fails. Raises `PlayError` with the
    failure of the first entry."""
    problems: list[PlayError] = []
    for entry in found.entries[:MOST_TRIED]:
        try:
            return await opened(entry.uri)
        except PlayError as error:
            problems.append(error)
    raise problems[0]


def _entry(uri: SourceUri, page: ResolvedPage) -> PlaylistEntry:
    facts = page.facts
    return PlaylistEntry(uri, facts.title, facts.author or "", length_ms=facts.length_ms, artwork_url=facts.artwork_url)

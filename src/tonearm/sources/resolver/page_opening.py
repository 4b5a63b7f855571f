"""Opening what may be a page: the link behind it is found anew each time, because such links expire."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from tonearm.core.byte_source import ByteSource, SourceFromPage
from tonearm.core.playlist import Playlist
from tonearm.core.source_uri import SourceUri
from tonearm.sources.link_headers import LinkHeaders
from tonearm.sources.resolver.page_resolver import PageResolver

Fetch: TypeAlias = Callable[[SourceUri, LinkHeaders | None], Awaitable[ByteSource | Playlist]]

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})


class PageOpening:
    """A URI is a page when a permitted extractor is made for it; with `generic` permitted also when it turns out to be
    HTML. Everything else is fetched as it is."""

    def __init__(self, resolver: PageResolver, fetch: Fetch) -> None:
        self._resolver = resolver
        self._fetch = fetch

    async def open(self, uri: SourceUri) -> ByteSource | Playlist:
        """Raises `PlayError`."""
        source = await self._direct_source(uri)
        if source is not None:
            return source
        page = await self._resolver.resolve(uri)
        fetched = await self._fetch(page.link, page.headers)
        return fetched if isinstance(fetched, Playlist) else SourceFromPage(fetched, page.facts)

    async def link_of(self, uri: SourceUri) -> SourceUri:
        """`uri` itself when it is no page. Raises `PlayError`."""
        if not self._resolver.resolves_any_page and not await self._resolver.is_page(uri):
            return uri  # nothing that a look at the source could change
        source = await self._direct_source(uri)
        if source is not None:
            if not isinstance(source, Playlist):
                await source.close()
            return uri
        return (await self._resolver.resolve(uri)).link

    async def _direct_source(self, uri: SourceUri) -> ByteSource | Playlist | None:
        """None for a page."""
        if await self._resolver.is_page(uri):
            return None
        source = await self._fetch(uri, None)
        if isinstance(source, Playlist):
            return source
        if self._resolver.resolves_any_page and _is_html(source.content_type):
            await source.close()
            return None
        return source


def _is_html(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() in _HTML_TYPES

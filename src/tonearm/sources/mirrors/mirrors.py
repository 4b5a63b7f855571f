"""Links of Spotify, Deezer and Apple Music: reads the public data of the service, and finds the same recording on a
site that the node can play.

The service's own audio is never used. A track is looked up when it is opened, and the choice is kept for a day.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, TypeVar

from tonearm.core.errors import RequestError
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.opened_source import RESOLVING, OpenedSource, ReportWait, ignore_wait
from tonearm.core.play_queue import LeftOut, NothingFound, Playlist, PlaylistEntry
from tonearm.core.printable import one_line, text_for_logs
from tonearm.core.recordings import Recording, fitting, nearest
from tonearm.core.service_links import MIRRORED_SEARCHES, Service, ServiceLink, service_link, service_without_mirrors
from tonearm.core.source_uri import SourceUri, joined_uri, parse_source_uri, search_uri, uri_for_logs
from tonearm.core.track_info import Mirror, PageFacts
from tonearm.sources.http.client import HttpClient
from tonearm.sources.mirrors.requests import ServiceClient, ServiceRefused, service_error
from tonearm.sources.mirrors.services import MOST_LISTED, Apple, Deezer, MusicService, RecordingList
from tonearm.sources.mirrors.settings import MirrorSettings
from tonearm.sources.mirrors.spotify import NEEDS_KEYS, Spotify
from tonearm.sources.resolver.answers import Judge
from tonearm.sources.resolver.page_opening import MOST_TRIED, PageOpening, first_opened

log = logging.getLogger(__name__)

THERE_ARE: Final = "Links of Spotify, Deezer and Apple Music are played from a site with the same recording."
_CANDIDATES: Final = 10
_MOST_HOPS: Final = 5
_KEPT_S: Final = 24 * 3600.0
_MOST_KEPT: Final = 4096
_SHOWN_CHARACTERS: Final = 100
_MAX_LOGGED_CHARACTERS: Final = 500
_PLAYS_ALONE: Final = "Give the title and the artist as words, or a link of another site."


_T = TypeVar("_T")
_Way: TypeAlias = Literal["isrc", "words"]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The recordings that were found, in the order of trying, valid until `until_s` of the monotonic clock."""

    facts: Recording
    found: tuple[tuple[PlaylistEntry, _Way], ...]
    until_s: float


class Mirrors:
    """Use it on one event loop. `searches` are what the resolver can search; they are known once it has started.
    `judge` is asked for each track of a list."""

    def __init__(
        self,
        client: HttpClient,
        pages: PageOpening,
        searches: Callable[[], Mapping[str, str]],
        judge: Judge,
        settings: MirrorSettings,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = ServiceClient(client, settings.timeout_s)
        self._pages = pages
        self._searches = searches
        self._judge = judge
        self._settings = settings
        self._now_s = now_s
        self._spotify = Spotify(
            self._client,
            settings.spotify_api_url,
            settings.spotify_token_url,
            settings.spotify_page_url,
            settings.spotify_client_id,
            settings.spotify_client_secret,
        )
        self._services: dict[Service, MusicService] = {
            Service.SPOTIFY: self._spotify,
            Service.DEEZER: Deezer(self._client, settings.deezer_url),
            Service.APPLE: Apple(self._client, settings.itunes_url, settings.country),
        }
        self._chosen: OrderedDict[str, _Chosen] = OrderedDict()  # by the link, the oldest first

    @property
    def searches(self) -> dict[str, str]:
        """The names of the services that can be searched, by the key that precedes the words."""
        if not self._usable:
            return {}
        return {
            key: service.name.lower()  # as a client names the site
            for key, service in MIRRORED_SEARCHES.items()
            if service is not Service.SPOTIFY or self._spotify.can_search
        }

    @property
    def _usable(self) -> tuple[str, ...]:
        return tuple(key for key in self._settings.search if key in self._searches()) if self._settings.enabled else ()

    @property
    def problem(self) -> str:
        """Why no link of a service can be played; empty when they can."""
        if self._usable:
            return ""
        if not self._settings.enabled:
            return "mirror.enabled is false"
        return f"resolver.sites permits none of the searches in mirror.search ({', '.join(self._settings.search)})"

    def warning_of(self, uri: SourceUri) -> str:
        """Why `uri` will not play, if that is known before the look-up; empty otherwise."""
        if not self.is_for(uri):
            return ""
        link, name = service_link(uri), service_without_mirrors(uri)
        if link is None or link.kind == "other":
            return f"{name} plays in its own apps only. {THERE_ARE}" if name else ""
        return f"Links of {link.service} cannot be played on this node: {self.problem}." if self.problem else ""

    def is_for(self, uri: SourceUri) -> bool:
        """Whether `uri` is a link or a search of a service."""
        if uri.kind == "search":
            return uri.search_key in MIRRORED_SEARCHES
        return service_link(uri) is not None or service_without_mirrors(uri) != ""

    async def open(self, uri: SourceUri, report_wait: ReportWait = ignore_wait) -> OpenedSource | Playlist:
        """The recording that a link names, or the tracks of a list; of a search, the first result that can be opened.
        Raises `PlayError`."""
        report_wait(RESOLVING)
        if uri.kind == "search":
            found = await self.search(uri, MOST_TRIED)
            return await first_opened(found, lambda track: self.open(track, report_wait))
        link = await self._link(uri)
        if link.kind != "track":
            return await self._list(link)
        kept, is_new = self._kept(uri), False
        if kept is None:
            kept, is_new = await self._choose(uri, link, report_wait), True
        try:
            return await self._open_first(uri, kept, report_wait)
        except PlayError:
            if is_new:
                raise
            self._chosen.pop(uri.normalised, None)  # another opening may have removed it
        return await self._open_first(uri, await self._choose(uri, link, report_wait), report_wait)

    async def page_of(self, uri: SourceUri) -> SourceUri:
        """The page that plays the recording named by `uri`. Raises `PlayError`."""
        if uri.kind == "search":
            return await first_opened(await self.search(uri, MOST_TRIED), self.page_of)
        link = await self._link(uri)
        if link.kind != "track":
            uri = (await self._list(link)).entries[0].uri
            link = await self._link(uri)
        return (self._kept(uri) or await self._choose(uri, link, ignore_wait)).found[0][0].uri

    async def look_up(self, uri: SourceUri) -> PlaylistEntry | Playlist:
        """The service's metadata for a link, by one request if that is enough. Searches no recording. Raises
        `PlayError`."""
        link = await self._link(uri)
        if link.kind != "track":
            return await self._list(link)
        kept = self._kept(uri)
        return self._entry(kept.facts if kept is not None else await self._facts(link))

    async def search(self, uri: SourceUri, limit: int) -> Playlist:
        """The first tracks that a service finds, at least one. Raises `PlayError`."""
        service = MIRRORED_SEARCHES[uri.search_key]
        found = await self._asked(service, self._services[service].search(uri.path, limit))
        if not found:
            message = f"{service} found nothing for these words."
            raise NothingFound(
                PlayFailure(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, message, "Search for other words."), LeftOut()
            )
        return await self._playlist(service, RecordingList("", "", None, tuple(found), len(found)))

    async def _link(self, uri: SourceUri) -> ServiceLink:
        """The service link that `uri` names, also through a short link. Raises `PlayError` for links without mirror."""
        name = service_without_mirrors(uri)
        link = service_link(uri)
        if link is not None and link.kind == "short":
            link = await self._asked(link.service, self._behind(uri)) or link
        if name or link is None or link.kind in ("other", "short"):
            what = f"{name} plays in its own apps only." if name or link is None else _no_music(link.service)
            raise PlayError.of(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, what, f"{THERE_ARE} {_PLAYS_ALONE}")
        if self.problem:
            message = f"Links of {link.service} cannot be played on this node: {self.problem}."
            raise PlayError.of(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, message, _PLAYS_ALONE)
        return link

    async def _behind(self, uri: SourceUri) -> ServiceLink | None:
        """The link that a short link redirects to; its page is not requested."""
        for _ in range(_MOST_HOPS):
            location = await self._client.redirect(uri.opened)
            try:
                uri = parse_source_uri(joined_uri(uri, location))
            except RequestError:  # such as a link that only an app opens
                raise ServiceRefused("its short link leads to no address of the web") from None
            link = service_link(uri)
            if link is None or link.kind != "short":
                return link
        return None

    async def _facts(self, link: ServiceLink) -> Recording:
        return await self._asked(link.service, self._services[link.service].track(link))

    async def _list(self, link: ServiceLink) -> Playlist:
        listed = await self._asked(link.service, self._services[link.service].tracks(link))
        if not listed.tracks:
            raise service_error(link.service, "the list has no tracks", _PLAYS_ALONE)
        return await self._playlist(link.service, listed)

    async def _asked(self, service: Service, asking: Awaitable[_T]) -> _T:
        try:
            return await asking
        except ServiceRefused as refused:
            is_keyless = service is Service.SPOTIFY and refused.status != 404
            raise service_error(service, refused.reason, NEEDS_KEYS if is_keyless else "") from refused
        except PlayError as error:
            raise service_error(service, error.failure) from error

    async def _playlist(self, service: Service, listed: RecordingList) -> Playlist:
        # In a thread: admitting hundreds of entries takes some ms.
        return await asyncio.to_thread(self._judged, service, listed)

    def _judged(self, service: Service, listed: RecordingList) -> Playlist:
        """Raises `PlayError` when this node may play none of them."""
        entries: list[PlaylistEntry] = []
        reasons: dict[str, None] = {}
        for recording in listed.tracks:
            try:
                entries.append(self._entry(recording))
            except RequestError as error:
                reasons[error.message] = None
        if not entries:
            raise service_error(service, next(iter(reasons)).rstrip("."))
        unknown = listed.total - len(listed.tracks)
        if unknown > 0 and len(listed.tracks) == MOST_LISTED:
            reasons[f"Only the first {MOST_LISTED} tracks are taken."] = None
        elif unknown > 0:
            reasons[f"{service} does not say what {unknown} of the {listed.total} tracks are."] = None
        if listed.may_go_on:
            reasons[listed.may_go_on] = None
        left_out = LeftOut.because(max(listed.total - len(entries), 1), reasons) if reasons else LeftOut()
        if left_out.count:
            told = text_for_logs(" ".join(left_out.reasons))[:_MAX_LOGGED_CHARACTERS]
            log.warning("a list of %s is taken without %d of its tracks: %s", service, left_out.count, told)
        return Playlist(
            tuple(entries),
            left_out,
            listed.name,
            author=listed.author,
            artwork_url=listed.artwork_url,
            total=listed.total,
        )

    def _entry(self, recording: Recording) -> PlaylistEntry:
        """Raises `RequestError` for a link that this node may not play."""
        return PlaylistEntry(
            self._judge(parse_source_uri(recording.uri)),
            recording.title,
            recording.author,
            length_ms=recording.length_ms,
            artwork_url=recording.artwork_url,
            isrc=recording.isrc or None,
        )

    def _kept(self, uri: SourceUri) -> _Chosen | None:
        kept = self._chosen.get(uri.normalised)
        return kept if kept is not None and self._now_s() < kept.until_s else None

    async def _choose(self, uri: SourceUri, link: ServiceLink, report_wait: ReportWait) -> _Chosen:
        """Looks for the recording: by its ISRC, then by artist and title, at each site in turn. Raises `PlayError`."""
        facts = await self._facts(link)
        seen: list[PlaylistEntry] = []
        for key in self._usable:
            for by, words in _ways(facts, by_words=self._settings.by_words):
                found = await self._pages.find(search_uri(key, words), _CANDIDATES, report_wait)
                fits = fitting(facts, found)
                if fits:
                    until_s = self._now_s() + _KEPT_S
                    chosen = _Chosen(facts, tuple((entry, by) for entry in fits[:MOST_TRIED]), until_s)
                    self._keep(uri, chosen)
                    log.info("%s is played from %s", uri_for_logs(uri.given), uri_for_logs(fits[0].uri.given))
                    return chosen
                seen += found
        raise _no_match(facts, nearest(facts, seen))

    def _keep(self, uri: SourceUri, chosen: _Chosen) -> None:
        self._chosen[uri.normalised] = chosen
        self._chosen.move_to_end(uri.normalised)
        if len(self._chosen) > _MOST_KEPT:
            self._chosen.popitem(last=False)

    async def _open_first(self, uri: SourceUri, chosen: _Chosen, report_wait: ReportWait) -> OpenedSource:
        """Opens the first recording whose page plays. Raises `PlayError` with the failure of the first page."""
        problem: PlayError | None = None
        for index, (entry, by) in enumerate(chosen.found):
            try:
                opened = await self._pages.open(entry.uri, report_wait)
            except PlayError as error:
                problem = problem or error
                continue
            if isinstance(opened, Playlist):
                problem = problem or service_error(entry.uri.host or "", "the recording's page is a list", _PLAYS_ALONE)
                continue
            if index:
                self._keep(uri, replace(chosen, found=chosen.found[index:]))
            facts = chosen.facts
            shown = (entry.uri.opened, entry.title or "", entry.author, entry.length_ms)
            return opened.found_by(
                PageFacts(
                    facts.uri,
                    facts.title,
                    facts.author,
                    facts.length_ms or entry.length_ms,
                    facts.artwork_url,
                    isrc=facts.isrc or None,
                    mirror=Mirror(*shown, by, facts.length_ms),
                )
            )
        assert problem is not None, "there is one recording at least"
        raise problem


def _ways(facts: Recording, *, by_words: bool) -> Iterator[tuple[_Way, str]]:
    """What to search for."""
    if facts.isrc:
        yield "isrc", f'"{facts.isrc}"'
    if by_words:
        yield "words", facts.words


def _no_music(service: Service) -> str:
    return f"The link of {service} names no track, album or playlist that can be looked up."


def _no_match(facts: Recording, closest: PlaylistEntry | None) -> PlayError:
    """The error for a recording that was not found. The message names the closest result."""
    wanted = f"'{_short(facts.title)}' by {_short(facts.author) or 'anybody'}{_minutes(facts.length_ms)}"
    message = f"No recording of {wanted} was found"
    if closest is not None:
        message += f"; the nearest is '{_short(closest.title or closest.uri.given)}'{_minutes(closest.length_ms)}"
    return PlayError.of(FailureCode.NO_MATCH, Stage.RESOLVE, f"{message}.", _PLAYS_ALONE)


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 1]}…"


def _minutes(length_ms: int) -> str:
    seconds = round(length_ms / 1000)
    return f" ({seconds // 60}:{seconds % 60:02})" if seconds else ""

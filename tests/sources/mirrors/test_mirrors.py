"""Links of services whose own sound plays in their apps only, played from where the same recording is."""

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

import pytest
from aiohttp import web

from tests.support.fetching import body_of, opener
from tests.support.media_server import MediaServer, Reply, Request, media, redirect
from tests.support.music_services import COVER, KEYS, MusicServices, Song, music_services
from tests.support.resolving import fake_sites, told
from tonearm.config.patterns import compile_pattern
from tonearm.core.errors import BadRequest, SourceBlocked
from tonearm.core.failure import FailureCode, PlayError, PlayFailure
from tonearm.core.play_queue import LeftOut, NothingFound, Playlist
from tonearm.core.service_links import Service
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.core.track_info import Mirror, PageFacts
from tonearm.sources.opener import SourceOpener

BODY: Final = bytes(range(256)) * 100


class Found(NamedTuple):
    """What the search shows: the page `number` of the stand-in."""

    number: int
    title: str
    uploader: str
    duration: float = 244


class Place:
    """A site that can be searched, and the services. `finds` says what the next searches find."""

    def __init__(self, source_opener: SourceOpener, services: MusicServices, site: MediaServer) -> None:
        self.opener = source_opener
        self.services = services
        self.searched: list[str] = []
        self._found: dict[str, Sequence[Found]] = {}  # by a part of the words
        self._site = site
        self.port = site.port  # in the words that are searched: by it the stand-in is found
        site.serve("/api/search", self._search)
        site.serve("/song.mp3", media(BODY))

    def finds(self, *found: Found, words: str = "") -> None:
        self._found[words] = found
        for one in found:
            answer = told(self._site.url("/song.mp3"), id=str(one.number), title=one.title)
            self._site.serve(f"/api/told?v={one.number}", answer)

    def loses(self, number: int) -> None:
        """This page cannot be played any more."""
        self._site.serve(f"/api/told?v={number}", media(b"gone", ranges=False))

    def page(self, number: int) -> str:
        return self._site.url(f"/fake/told?v={number}")

    def knows(self, song: Song, service: Service = Service.DEEZER) -> str:
        """The song's link at a service."""
        self.services.add(replace(song, artists=(f"{song.artists[0]} {self.port}", *song.artists)))
        return self.services.link(service, "track", song.number)

    def uri(self, text: str) -> SourceUri:
        return self.opener.admit(parse_source_uri(text, from_client=True))

    async def plays(self, text: str) -> PageFacts:
        """What is known of what is opened."""
        _, opened = await body_of(self.opener, self.uri(text))
        assert opened.page is not None
        return opened.page

    async def mirror_of(self, text: str) -> str:
        """Where it is played from."""
        return str(getattr((await self.plays(text)).mirror, "uri", None))

    async def fails(self, text: str) -> PlayFailure:
        with pytest.raises(PlayError) as raised:
            await self.opener.open(self.uri(text))
        failure = raised.value.failure
        assert len(failure.message) <= 600
        assert failure.message.isprintable()
        return failure

    async def lists(self, text: str) -> Playlist:
        opened = await self.opener.open(self.uri(text))
        assert isinstance(opened, Playlist)
        return opened

    async def _search(self, request: Request, reply: Reply) -> None:
        words = unquote(request.headers["x-words"])
        self.searched.append(words)
        found = next((found for part, found in self._found.items() if part in words), ())
        entries = [{"_type": "url", "url": self.page(one.number), **one._asdict()} for one in found]
        await media(json.dumps(entries).encode(), ranges=False)(request, reply)


@asynccontextmanager
async def place(**settings: Any) -> AsyncIterator[Place]:
    more = {name: settings.pop(name) for name in ("blocked", "getaddrinfo") if name in settings}
    async with music_services() as services, MediaServer() as site:
        if settings.pop("reads_page", False):
            settings["spotify_page_url"] = services.url
        resolver = fake_sites(mirrors=services.settings(**settings))
        async with opener(resolver=resolver, **more) as source_opener:
            await source_opener.start()
            yield Place(source_opener, services, site)


ITSELF: Final = Found(1, "Nachtfähre", "The Lanterns - Topic")
LIVE: Final = Found(2, "Nachtfähre (Live)", "The Lanterns", 401)
FERRY: Final = Song(1, "Nachtfähre", ("The Lanterns",), 244_000)
SERVICES: Final = (Service.DEEZER, Service.APPLE, Service.SPOTIFY)


@pytest.mark.parametrize("service", SERVICES)
async def test_a_track_keeps_what_its_service_says_and_names_its_mirror(service: Service) -> None:
    async with place(**KEYS) as there:
        song = replace(FERRY, isrc=f"GBX{there.port}")
        link = there.knows(song, service)
        there.finds(LIVE, Found(1, "Nachtfähre", "The Lanterns - Topic", 245.5), words="GBX")
        there.finds(ITSELF)
        page = await there.plays(link)
        by: Literal["isrc", "words"] = "words" if service is Service.APPLE else "isrc"  # Apple tells no ISRC
        length_ms = 244_000 if service is Service.APPLE else 245_500
        assert page.mirror == Mirror(there.page(1), "Nachtfähre", "The Lanterns - Topic", length_ms, by, 244_000)
        assert (page.opened_uri, page.title, page.isrc) == (link, "Nachtfähre", None if by == "words" else song.isrc)
        assert page.author == (" & " if by == "words" else ", ").join(there.services.songs[1].artists)
        assert page.artwork_url == (COVER.replace("100x100", "600x600") if service is Service.APPLE else COVER)
        asked = len(there.services.asked), len(there.searched)
        assert (await there.plays(link)).mirror == page.mirror  # the choice is kept: nobody is asked again
        assert (len(there.services.asked), len(there.searched)) == asked
        assert (await there.opener.direct_uri(there.uri(link))).endswith("/song.mp3")


async def test_what_was_chosen_and_is_gone_is_looked_for_again() -> None:
    async with place() as there:
        link = there.knows(FERRY)
        there.finds(ITSELF, Found(3, "The Lanterns - Nachtfähre", "x"))
        there.loses(1)
        assert await there.mirror_of(link) == there.page(3)  # the next that fits
        there.loses(3)
        there.finds(Found(4, "Nachtfähre", "The Lanterns"))
        assert await there.mirror_of(link) == there.page(4)
        there.loses(4)
        assert (await there.fails(link)).code is FailureCode.RESOLVE_FAILED


async def test_where_nothing_fits_what_came_closest_is_said() -> None:
    async with place(by_words=True) as there:
        link = there.knows(FERRY)
        there.finds(LIVE)
        failure = await there.fails(link)
        assert failure.code is FailureCode.NO_MATCH
        artists = f"The Lanterns {there.port}, The Lanterns"
        nearest = "was found; the nearest is 'Nachtfähre (Live)' (6:41)."
        assert failure.message == f"No recording of 'Nachtfähre' by {artists} (4:04) {nearest}"


@pytest.mark.parametrize("service", SERVICES)
async def test_albums_and_playlists_are_lists_of_links(service: Service) -> None:
    async with place(**KEYS) as there:
        for number in range(1, 121):
            there.knows(Song(number, f"Ferry {number}", ("The Lanterns",), 200_000 + number))
        for kind in ("album",) if service is Service.APPLE else ("album", "playlist"):
            before = len(there.services.asked)
            listed = await there.lists(there.services.link(service, kind, 7))
            assert (listed.name, listed.total, len(listed.entries)) == ("Ferries", 120, 120)
            last = listed.entries[-1]
            assert last.uri.given == there.services.link(service, "track", 120)
            assert (last.title, last.author.startswith("The Lanterns")) == ("Ferry 120", True)
            assert last.length_ms >= 200_000
            assert not there.searched
            pages = {Service.APPLE: 1, Service.DEEZER: 2, Service.SPOTIFY: 3}[service]
            assert len([path for path in there.services.asked[before:] if path != "/token"]) == pages


async def test_services_are_searched_like_sites() -> None:
    async with place(**KEYS) as there:
        there.finds(ITSELF)
        keys = {"deezer": "dzsearch", "apple": "amsearch", "spotify": "spsearch"}
        for service, (site, key) in zip(SERVICES, keys.items(), strict=True):
            link = there.knows(FERRY, service)
            assert there.opener.search_key(site) == key
            found = await there.opener.search(there.uri(f"{key}:a & b"), 5)
            assert [entry.uri.given for entry in found.entries] == [link]
            assert (await there.plays(f"{key}:night ferry")).opened_uri == link
        there.services.songs.clear()
        with pytest.raises(NothingFound):
            await there.opener.search(there.uri("dzsearch:x"), 5)
        there.knows(Song(7, "Another", ("The Lanterns",), 100_000))  # which plays nowhere else
        link = there.knows(replace(FERRY, number=8))
        assert (await there.plays("dzsearch:x")).opened_uri == link
        assert (await there.opener.direct_uri(there.uri("dzsearch:x"))).endswith("/song.mp3")


async def test_short_links_lead_to_what_they_name() -> None:
    def look_up(host: str, port: int, *more: Any, **options: Any) -> Any:
        return socket.getaddrinfo("127.0.0.1" if host.endswith((".link", ".com")) else host, port, *more, **options)

    async with place(getaddrinfo=look_up, blocked=[compile_pattern("/blocked")]) as there, MediaServer() as shortener:
        link = there.knows(FERRY)
        there.finds(ITSELF)
        shortener.serve("/s/a", redirect(f"http://link.deezer.com:{shortener.port}/s/b"))
        shortener.serve("/s/b", redirect(link))
        shortener.serve("/s/circle", redirect("/s/circle"))
        shortener.serve("/s/app", redirect("intent://track/1#Intent;end"))
        short = f"http://spotify.link:{shortener.port}/s"
        assert (await there.plays(f"http://deezer.page.link:{shortener.port}/s/a")).opened_uri == link
        for path, words in {"circle": "names no track", "app": "no address of", "none": "leads nowhere"}.items():
            assert words in (await there.fails(f"{short}/{path}")).message
        with pytest.raises(SourceBlocked):
            there.uri(f"{short}/blocked")


async def test_what_has_no_mirror_is_said_by_name() -> None:
    async with place() as there:
        for link, says in (
            ("https://music.apple.com/us/playlist/x/pl.1", "Apple Music names no track, album or playlist that can be"),
            ("https://www.deezer.com/track/404", "it knows no such track or list."),
            ("https://music.apple.com/us/song/404", "it knows no such track."),
        ):
            assert says in (await there.fails(link)).message
        tidal = "https://tidal.com/browse/track/1"
        failure = await there.fails(tidal)
        assert failure.message.startswith("Tidal plays in its own apps only.")
        assert "Spotify, Deezer and Apple Music" in failure.hint
        assert "Tidal" in there.opener.warning_of(there.uri(tidal))
        failure = await there.fails("https://open.spotify.com/track/404")
        assert "this node has no keys for Spotify." in failure.message
        assert "spotify.client_id" in failure.hint
        assert "mirror.spotify_page_url" in failure.hint


async def test_where_mirrors_are_off_they_say_so() -> None:
    none = "resolver.sites permits none of the searches in mirror.search (ytsearch)"
    for settings, why in (({"enabled": False}, "mirror.enabled is false"), ({"search": ("ytsearch",)}, none)):
        async with place(**settings) as there:
            link = there.knows(FERRY)
            assert why in (await there.fails(link)).message
            assert why in there.opener.warning_of(there.uri(link))
            with pytest.raises(BadRequest, match="has no search"):
                there.uri("dzsearch:x")
            assert there.services.asked == []


async def test_spotifys_page_is_read_where_the_operator_names_it(caplog: pytest.LogCaptureFixture) -> None:
    async with place(reads_page=True) as there:
        link = there.knows(FERRY, Service.SPOTIFY)
        there.finds(ITSELF)
        page = await there.plays(link)
        assert (page.title, page.length_ms, page.artwork_url) == ("Nachtfähre", 244_000, COVER)
        for kind in ("album", "playlist"):
            listed = await there.lists(there.services.link(Service.SPOTIFY, kind, 1))
            (entry,) = listed.entries
            assert (listed.name, entry.uri.given, entry.length_ms) == ("Ferries", link, 244_000)
            assert entry.author.endswith("The Lanterns")
        with pytest.raises(BadRequest, match="has no search"):  # that takes keys
            there.uri("spsearch:x")
        for number in range(1, 121):  # the page never has more than a hundred
            there.knows(replace(FERRY, number=number), Service.SPOTIFY)
        listed = await there.lists(there.services.link(Service.SPOTIFY, "playlist", 1))
        reason = "Spotify's page shows only the first 100 tracks of a list; this one may have more."
        assert (len(listed.entries), listed.left_out) == (100, LeftOut(1, (reason,)))
    async with place(reads_page=True, **KEYS) as there:
        there.services.refuses_keys = True
        there.knows(FERRY)
        for _ in range(2):
            assert (await there.lists(there.services.link(Service.SPOTIFY, "album", 1))).name == "Ferries"
        assert len([one for one in caplog.messages if "spotify.client_id" in one]) == 1
        assert "quiet" not in caplog.text


async def test_a_token_is_kept_until_the_api_refuses_it() -> None:
    async with place(**KEYS) as there:
        there.finds(ITSELF)
        links = [there.knows(replace(FERRY, number=number), Service.SPOTIFY) for number in range(1, 5)]
        await there.plays(links[0])
        await there.plays(links[1])
        there.services.tokens.append("another")  # the one that is kept is worth nothing now
        await there.plays(links[2])
        assert there.services.asked.count("/token") == 2
        there.services.refuses_keys = True
        there.services.tokens.append("yet another")
        assert "spotify.client_id" in (await there.fails(links[3])).message


def _says(text: str | bytes, status: int = 200, **headers: str) -> Any:
    async def answer() -> web.StreamResponse:
        body = text if isinstance(text, bytes) else text.encode()
        return web.Response(body=body, status=status, headers=headers)

    return answer


NO_JSON: Final = "its answer is no JSON"
ANSWERS: Final = (
    *((_says(text), NO_JSON) for text in ("rubbish", b"\xff\xfe\x00", "[" * 100_000, "")),
    (_says("[1]"), "its answer is not what was asked for"),
    (_says("x" * 3_000_000), "its answer has more than 2 MiB"),
    (_says(json.dumps({"id": [], "title": 7, "results": 3, "name": {}, "tracks": []})), ""),
    (_says(json.dumps({"results": [None, [], {"kind": "song"}], "data": [1]})), ""),
    (_says(json.dumps({"error": {"message": "a\u0007\u202e\ud800\n" * 400}})), ""),
    (_says("", 500), "it answered with HTTP status 500"),
    (_says("", 429, **{"Retry-After": "17"}), "it is asked too often by this address; it says to ask again in 17 s"),
)


@pytest.mark.parametrize("service", SERVICES)
async def test_what_a_service_may_answer(service: Service) -> None:
    async with place(**KEYS) as there:
        link = there.knows(FERRY, service)
        for answer, reason in ANSWERS:
            there.services.answers = {f"/{name}/": answer for name in ("deezer", "itunes", "api")}
            for text in (link, there.services.link(service, "album", 1)):
                failure = await there.fails(text)
                assert failure.message.startswith(f"{service} did not say what the link is: ")
                assert reason in failure.message
        there.services.answers = {}
        there.finds(ITSELF)
        await there.plays(link)  # it is asked anew


async def test_a_service_that_says_nothing_is_given_up_and_policy_judges_services_too() -> None:
    async with place(timeout_s=0.3) as there:
        there.services.answers = {"/deezer/": there.services.never}
        assert "it did not answer within 0.3 s" in (await there.fails(there.knows(FERRY))).message
    async with place(blocked=[compile_pattern(".*/deezer/.*")]) as there:
        failure = await there.fails(there.knows(FERRY))
        assert failure.code is FailureCode.SOURCE_BLOCKED
        assert failure.message.startswith("Deezer may not be asked: ")

"""Opening URIs that may be pages: what is fetched, with which headers, and where it is looked for again."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.support.fetching import QUICK, body_of, opener, opening_fails
from tests.support.hls import Cut, LivePlaylist, serve_cut
from tests.support.media_server import Canary, MediaServer, in_turn, media, redirect, status
from tests.support.resolving import fake_sites, html, real_sites, told
from tonearm.config.patterns import compile_pattern
from tonearm.core.errors import BadRequest, SourceBlocked, SourceRefused
from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.play_queue import Playlist, PlaylistEntry
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.opener import SourceOpener
from tonearm.sources.proxied_requests import source_opener

BODY = bytes(range(256)) * 2000


@pytest.fixture
async def opening() -> AsyncIterator[SourceOpener]:
    async with opener(resolver=fake_sites()) as made:
        yield made


async def test_a_page_is_opened_as_its_link_and_all_else_as_it_is(server: MediaServer, opening: SourceOpener) -> None:
    # A signed link is good in no other form.
    song = server.serve("/a%2fb/%7Ea.mp3?Signature=qZ%2Bx%2FPP2g%3D&Key=a%40b%3Ac", media(BODY))
    page = server.serve("/page.html", html("", '<audio src="song.mp3"></audio>'))
    server.serve("/api/told", told(song, uploader="Someone"))
    body, source = await body_of(opening, server.url("/fake/told"))
    assert body == BODY
    assert source.page is not None
    assert (source.page.opened_uri, source.page.title, source.page.author) == (song, "A title", "Someone")
    assert await opening.direct_uri(parse_source_uri(server.url("/fake/told"))) == song
    for uri in (song, page):
        _, source = await body_of(opening, uri)
        assert source.page is None


async def test_a_page_is_opened_as_its_link_also_where_it_was_not_known_in_time(server: MediaServer) -> None:
    """As on a busy machine. What is no page is opened meanwhile."""
    song = server.serve("/song.mp3", media(BODY))
    server.serve("/api/told", told(song))
    page = server.url("/fake/told")
    for as_it_is in (status(404), html("", "Your browser is too old.")):
        server.serve("/fake/told", as_it_is)
        async with opener(resolver=fake_sites(match_timeout_s=0.0)) as opening:
            body, source = await body_of(opening, page)
            assert (body, source.page is not None) == (BODY, True)
        async with opener(resolver=fake_sites(match_timeout_s=0.0)) as opening:
            assert await opening.direct_uri(parse_source_uri(page)) == song
            assert (await body_of(opening, song))[1].page is None
            assert (await opening_fails(opening, server.url("/gone"))).http_status == 404


async def test_a_link_that_redirects_to_a_page_is_the_page(server: MediaServer, opening: SourceOpener) -> None:
    """As the short links of share buttons do."""
    server.serve("/api/told", told(server.serve("/song.mp3", media(BODY))))
    server.serve("/fake/told", html("", "Open it in the app."))
    short = server.serve("/short", redirect("/fake/told"))
    body, source = await body_of(opening, short)
    assert (body, source.page is not None) == (BODY, True)
    entry = await opening.look_up(opening.admit(parse_source_uri(short)))
    assert isinstance(entry, PlaylistEntry)
    assert (entry.uri.given, entry.title) == (short, "A title")
    server.serve("/fake/told", status(403))  # whoever is not signed in
    assert (await body_of(opening, short))[0] == BODY
    server.serve("/short", redirect("/gone"))
    assert (await opening_fails(opening, short)).http_status == 404


async def test_lists_that_are_private_and_videos_that_are_gone(server: MediaServer, opening: SourceOpener) -> None:
    server.serve("/api/told?v=1&list=2", told(server.serve("/song.mp3", media(BODY))))

    async def looked_up(path: str) -> Playlist | PlaylistEntry | None:
        return await opening.look_up(opening.admit(parse_source_uri(server.url(path))))

    entry = await looked_up("/fake/private-list?v=1&list=2")
    assert isinstance(entry, PlaylistEntry)
    assert entry.title == "A title"
    with pytest.raises(PlayError, match="The playlist is private"):
        await looked_up("/fake/private-list")
    listed = await looked_up("/fake/gone-in-it")
    assert isinstance(listed, Playlist)
    assert [entry.uri.given for entry in listed.entries] == [server.url("/fake/told")]


async def test_any_html_is_a_page_when_generic_is_named(server: MediaServer) -> None:
    async with opener(resolver=real_sites(sites=("generic",), timeout_s=60.0)) as opening:
        song = server.serve("/song.mp3", media(BODY))
        page = server.serve("/page", html("<title>T</title>", '<audio src="song.mp3"></audio>'))
        for uri in (page, song):
            body, source = await body_of(opening, uri)
            assert (body, source.page is not None) == (BODY, uri == page)
            assert await opening.direct_uri(parse_source_uri(uri)) == song


def expiring(server: MediaServer, path: str) -> str:
    """A link that is refused once a part of the file came."""
    return server.serve(path, in_turn(media(BODY, cut_after=70_000), status(403)))


def pages_asked(server: MediaServer) -> int:
    return len([request for request in server.requests if request.path == "/api/told"])


@pytest.mark.parametrize("refusal", [400, 410])
async def test_a_link_that_expires_is_asked_for_anew(server: MediaServer, opening: SourceOpener, refusal: int) -> None:
    headers = {"X-Old": "1"}
    sets_cookie = media(BODY, cut_after=70_000, headers="Set-Cookie: a=old; Path=/\r\n")
    first = server.serve("/first.mp3", in_turn(sets_cookie, status(refusal)))
    second = told(server.serve("/second.mp3", media(BODY)), http_headers={"X-New": "1", "Cookie": "a=new"})
    server.serve("/api/told", in_turn(told(first, http_headers=headers), second))
    assert (await body_of(opening, server.url("/fake/told")))[0] == BODY
    assert pages_asked(server) == 2
    last = server.requests[-1]
    assert (last.path, last.range) == ("/second.mp3", "bytes=70000-")
    assert ("x-old" in last.headers, "x-new" in last.headers) == (False, True)
    assert last.headers["cookie"] == "a=new"


async def test_a_live_stream_goes_on_by_a_new_link(server: MediaServer, opening: SourceOpener) -> None:
    pieces = tuple(bytes([number]) * 1000 for number in range(9))
    live = LivePlaylist(serve_cut(server, Cut("ts", pieces)))
    old = server.serve("/hls/old.m3u8", in_turn(live.answer, live.answer, status(403)))
    server.serve("/api/told", in_turn(told(old), told(server.serve("/hls/new.m3u8", live.answer))))
    assert (await body_of(opening, server.url("/fake/told")))[0] == b"".join(pieces[1:])
    assert pages_asked(server) == 2


async def test_who_asks_for_no_link_any_more(server: MediaServer, opening: SourceOpener) -> None:
    """A page is not asked again at once, and a direct link has no page."""
    server.serve("/api/told", told(expiring(server, "/1.mp3")))
    for uri in (server.url("/fake/told"), expiring(server, "/first.mp3")):
        with pytest.raises(PlayError, match="status 403"):
            await body_of(opening, uri)
    assert pages_asked(server) == 2


async def test_where_the_page_gives_no_link_any_more_or_another_file_the_reason_is_told(server: MediaServer) -> None:
    other = told(server.serve("/other.mp3", media(BODY + b"x")))
    for answer, code, words in (
        (status(451), FailureCode.RESOLVE_FAILED, "HTTP Error 451"),
        (other, FailureCode.CONNECTION_LOST, "the file has changed on the server"),
    ):
        server.serve("/api/told", in_turn(told(expiring(server, "/first.mp3")), answer))
        async with opener(resolver=fake_sites()) as opening:
            with pytest.raises(PlayError, match=words) as caught:
                await body_of(opening, server.url("/fake/told"))
        assert caught.value.failure.code == code


async def test_headers_of_the_link_go_to_no_other_host(server: MediaServer, opening: SourceOpener) -> None:
    async with MediaServer() as other:
        song = server.serve("/song.mp3", in_turn(media(BODY, cut_after=70_000), media(BODY)))
        moved = server.serve("/moved.mp3", redirect(other.serve("/song.mp3", media(BODY))))
        headers = {"Referer": "http://page.example/", "User-Agent": "page/1", "Cookie": "a=b", "Range": "bytes=7-"}
        server.serve("/api/told", in_turn(*(told(link, http_headers=headers) for link in (song, moved))))
        for _ in range(2):
            assert (await body_of(opening, server.url("/fake/told")))[0] == BODY
        fetches = [request for request in server.requests if request.path.endswith(".mp3")]
        assert [request.range for request in fetches[:2]] == ["bytes=0-", "bytes=70000-"]
        for request in fetches:
            sent = [request.headers[name] for name in ("referer", "user-agent", "cookie")]
            assert sent == ["http://page.example/", "page/1", "a=b"]
        (fetch,) = other.requests
        assert fetch.headers["user-agent"] == "tonearm-test/1"
        assert not {"referer", "cookie"} & fetch.headers.keys()


async def test_the_link_is_judged_like_any_uri(server: MediaServer) -> None:
    async with Canary() as canary:
        own, blocked = [("127.0.0.1", canary.port)], [compile_pattern("secret")]
        async with opener(resolver=fake_sites(), own_addresses=own, blocked=blocked) as opening:
            page = server.url("/fake/told")
            inside = f"http://localhost:{canary.port}/a.mp3"
            for link in (server.serve("/moved.mp3", redirect(inside)), inside):
                server.serve("/api/told", told(link))
                assert (await opening_fails(opening, page)).code is FailureCode.SOURCE_REFUSED
            with pytest.raises(SourceRefused):
                await opening.direct_uri(parse_source_uri(page))
            server.serve("/api/told", told(server.url("/secret.mp3")))
            refused = await opening_fails(opening, page)
            assert (refused.code, refused.stage) == (FailureCode.SOURCE_BLOCKED, Stage.RESOLVE)
        assert canary.connections == 0


async def test_a_page_of_a_refused_address_is_not_looked_at(server: MediaServer) -> None:
    async with opener(resolver=fake_sites(), private_networks=False) as opening:
        with pytest.raises(SourceRefused):
            opening.admit(parse_source_uri(server.url("/fake/told")))
        assert (await opening_fails(opening, server.url("/fake/told"))).code is FailureCode.SOURCE_REFUSED
        assert server.connections == 0


async def test_a_search_is_its_first_result_of_three_that_opens(server: MediaServer, opening: SourceOpener) -> None:
    song = server.serve("/song.mp3", media(BODY))
    server.serve("/api/told?2", told(server.url("/gone.mp3")))
    server.serve("/api/told?3", told(song))

    def finds(*pages: str) -> None:
        results = [{"_type": "url", "url": server.url(f"/fake/{page}")} for page in pages]
        server.serve("/api/search", media(json.dumps(results).encode(), ranges=False))

    await opening.start()
    search = opening.admit(parse_source_uri(f"fakesearch:{server.port} x", from_client=True))
    finds("gone", "told?2", "told?3")
    assert (await body_of(opening, search))[1].uri.opened == song
    assert await opening.direct_uri(search) == server.url("/gone.mp3")  # which nobody has asked for
    finds("gone", "told?2", "told?2", "told?3")
    with pytest.raises(PlayError, match="This video is private"):
        await opening.open(search)


async def test_direct_uris_and_refusals_of_what_was_given() -> None:
    async with opener(resolver=fake_sites(), blocked=[compile_pattern("secret")]) as opening:
        assert await opening.direct_uri(parse_source_uri("/music/a.mp3")) == "/music/a.mp3"
        assert await opening.direct_uri(parse_source_uri("http://A.example/a b")) == "http://a.example/a%20b"
        with pytest.raises(SourceBlocked):
            await opening.direct_uri(parse_source_uri("http://secret.example/"))
        with pytest.raises(BadRequest):
            await opening.direct_uri(parse_source_uri("ytsearch:x"))


async def test_searches_and_lists_that_came_through_a_proxy_reach_less(server: MediaServer) -> None:
    results = [{"_type": "url", "url": "http://a.example/1"}, {"_type": "url", "url": server.url("/fake/told")}]
    server.serve("/api/search", media(json.dumps(results).encode(), content_type="application/json", ranges=False))
    opening = source_opener(SourcePolicy(), "auto", QUICK, fake_sites())
    try:
        await opening.start()
        search = parse_source_uri(f"fakesearch:{server.port} x", from_client=True)
        direct = await opening.search(opening.admit(search), 10)
        assert [entry.uri.given for entry in direct.entries] == [result["url"] for result in results]
        asked = len(server.requests)
        proxied = opening.admit(replace(search, came_through_proxy=True))
        near = replace(parse_source_uri(server.url("/fake/told")), came_through_proxy=True)
        works = [opening.search(proxied, 10), opening.open_list(proxied), opening.open(proxied), opening.look_up(near)]
        for work in (*works, opening.page_facts(near)):
            with pytest.raises(PlayError) as caught:
                await work
            assert caught.value.failure.code is FailureCode.SOURCE_REFUSED
        assert len(server.requests) == asked
    finally:
        await opening.close()

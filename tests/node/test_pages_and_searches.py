"""Lists on pages and searches through a whole node with a fake site: asked for over HTTP, queued and played."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.audio_files import music, pcm_of, wav
from tests.support.eventually import eventually
from tests.support.media_server import Answer, Canary, MediaServer, in_turn, media, stall
from tests.support.media_server import status as answer_of
from tests.support.node_in_process import Listening, forget_players, padded, running_node
from tests.support.node_over_http import NodeOverHttp, node_over_http
from tests.support.resolving import fake_sites, told
from tonearm.config.patterns import compile_pattern
from tonearm.core.playback_requests import Requests
from tonearm.node.parts import NodeSettings

SETTINGS = NodeSettings(decoder_processes=1, first_listener_wait_ms=60_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def resolving_node() -> AsyncIterator[NodeOverHttp]:
    async with node_over_http(SETTINGS, resolver=fake_sites(), blocked=[compile_pattern("secret")]) as node:
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def node(resolving_node: NodeOverHttp) -> AsyncIterator[NodeOverHttp]:
    """A node without players, as if it were new."""
    yield resolving_node
    await forget_players(resolving_node.node)


def as_json(value: object) -> Answer:
    return media(json.dumps(value).encode(), content_type="application/json", ranges=False)


def list_page(server: MediaServer, *entries: Any, **more: Any) -> str:
    """The address of a page that lists these."""
    server.serve("/api/pages", as_json({"entries": entries, **more}))
    return server.url("/fake/pages")


def searchable(server: MediaServer, *results: Any) -> str:
    """What `fakesearch:` finds there; the beginning of a search."""
    server.serve("/api/search", as_json(results))
    return f"fakesearch:{server.port} "


def page(server: MediaServer, number: int, **more: Any) -> dict[str, Any]:
    """An entry with a page of its own, that of song `number`."""
    return {"_type": "url", "url": server.url(f"/fake/told?{number}"), "id": str(number), "title": f"T{number}", **more}


def serve_songs(server: MediaServer, count: int, seconds: float = 0.3) -> list[bytes]:
    """Serves pages /fake/told?NUMBER from 1 on; returns what is heard of each."""
    songs = [music(seconds, seed=number) for number in range(count)]
    for number, song in enumerate(songs, 1):
        server.serve(f"/api/told?{number}", told(server.serve(f"/{number}.wav", media(wav(song)))))
    return [pcm_of(song) for song in songs]


def resolved(server: MediaServer) -> list[str]:
    """Which pages were resolved so far."""
    return [request.path for request in server.requests if request.path.startswith("/api/told")]


class TestLoadplaylist:
    async def test_a_page_that_lists_others(self, node: NodeOverHttp, server: MediaServer) -> None:
        cover = "http://a.example/cover.jpg"
        more = {
            "duration": 61.5,
            "uploader": "Someone",
            "thumbnails": [{"url": "http://a.example/s.jpg"}, {"url": cover}],
        }
        uri = list_page(server, page(server, 1, **more), page(server, 2), title="All of it")
        answer = await node.get("/v0/loadplaylist", identifier=uri)
        assert answer.status == 200
        found = answer.json()
        assert (found["name"], found["selected"], "leftOut" in found) == ("All of it", -1, False)
        first, second = (track["info"] for track in found["tracks"])
        assert first["identifier"] == first["uri"] == server.url("/fake/told?1")
        assert (first["title"], first["author"], first["length"]) == ("T1", "Someone", 61_500)
        assert (first["artworkUrl"], first["sourceName"]) == (cover, "http")
        assert (second["title"], second["length"], second["artworkUrl"]) == ("T2", 0, None)
        assert resolved(server) == []
        decoded = await node.get("/v0/decodetrack", encodedTrack=found["tracks"][0]["encoded"])
        assert decoded.json()["info"]["identifier"] == first["identifier"]

    async def test_the_entry_that_the_identifier_names_is_selected(
        self, node: NodeOverHttp, server: MediaServer
    ) -> None:
        refused = {"_type": "url", "url": "file:///etc/passwd", "id": "x"}
        server.serve("/api/pages?v=7", as_json({"entries": [refused, page(server, 5), page(server, 7)]}))
        found = (await node.get("/v0/loadplaylist", identifier=server.url("/fake/pages?v=7"))).json()
        assert found["selected"] == 1
        assert found["tracks"][1]["info"]["title"] == "T7"

    async def test_entries_without_a_page_are_items_of_it(self, node: NodeOverHttp, server: MediaServer) -> None:
        link = server.url("/direct.wav")
        uri = list_page(
            server,
            {"id": "1", "title": "One", "url": link, "ext": "wav"},
            {"id": "2", "title": "Two", "url": link, "ext": "wav"},
            {"_type": "url", "url": "some-id", "ie_key": "Fake"},
        )
        found = (await node.get("/v0/loadplaylist", identifier=uri)).json()
        assert [track["info"]["identifier"] for track in found["tracks"]] == [f"{uri}#item={n}" for n in (1, 2, 3)]

    async def test_files_of_playlists(self, node: NodeOverHttp, server: MediaServer) -> None:
        lines = ("#EXTM3U", "#PLAYLIST:Mine", "#EXTINF:3,A - B", "a.wav", "file:///etc/passwd", "b.wav#t=1,2.5")
        m3u = server.serve("/x.m3u", media("\n".join(lines).encode(), content_type="audio/x-mpegurl"))
        found = (await node.get("/v0/loadplaylist", identifier=m3u)).json()
        assert (found["name"], found["selected"]) == ("Mine", -1)
        assert [track["info"]["title"] for track in found["tracks"]] == ["A - B", "b"]
        assert found["tracks"][1]["info"]["identifier"] == server.url("/b.wav#t=1,2.5")
        assert found["leftOut"]["count"] == 1
        assert "http" in found["leftOut"]["reasons"][0]
        pls = server.serve("/some%20songs.pls", media(b"[playlist]\nFile1=a.wav\n", content_type="audio/x-scpls"))
        assert (await node.get("/v0/loadplaylist", identifier=pls)).json()["name"] == "some songs"

    async def test_what_is_none_is_told(self, node: NodeOverHttp, server: MediaServer) -> None:
        serve_songs(server, 1)
        for identifier, status, code, words in (
            (server.url("/1.wav"), 400, "load_failed", "single track"),
            (server.url("/fake/told?1"), 400, "load_failed", "single track"),
            (server.url("/gone.m3u"), 400, "load_failed", "404"),
            (server.url("/fake/gone"), 400, "resolve_failed", "private"),
            (server.url("/secret.m3u"), 403, "source_blocked", "sources.blocked"),
            (list_page(server), 400, "resolve_failed", "empty"),
            ("gopher:x", 400, "bad_request", "scheme"),
            ("ytsearch:x", 400, "bad_request", "fake (fakesearch:)"),
        ):
            answer = await node.get("/v0/loadplaylist", identifier=identifier)
            assert (answer.status, answer.json()["code"]) == (status, code), identifier
            assert words in answer.json()["message"], answer.json()


class TestHostileLists:
    async def test_each_entry_is_judged(self, server: MediaServer) -> None:
        async with Canary() as canary:
            own = [("127.0.0.1", canary.port)]
            blocked = [compile_pattern("secret")]
            async with node_over_http(SETTINGS, resolver=fake_sites(), blocked=blocked, own_addresses=own) as node:
                uri = list_page(
                    server,
                    *({"_type": "url", "url": url} for url in (
                        "file:///etc/passwd",
                        "/etc/passwd",
                        "javascript:alert(1)",
                        "ytsearch:x",
                        "ftp://a.example/x",
                        "http://user:password@a.example/",
                        f"http://127.0.0.1:{canary.port}/v0/players",
                        f"http://0x7f.1:{canary.port}/",
                        server.url("/secret"),
                        "http://a.example/" + "x" * 5000,
                    )),
                    page(server, 1),
                )  # fmt: skip
                found = (await node.get("/v0/loadplaylist", identifier=uri)).json()
            # A path is known by its number on the page, which is opened by the extractor, in its sandbox.
            assert [track["info"]["identifier"] for track in found["tracks"]] == [
                f"{uri}#item=2",
                server.url("/fake/told?1"),
            ]
            assert found["leftOut"]["count"] == 9
            assert 4 <= len(found["leftOut"]["reasons"]) <= 20
            assert canary.connections == 0

    async def test_wrong_types_and_huge_texts(self, node: NodeOverHttp, server: MediaServer) -> None:
        huge = "x" * 200_000
        wrong: list[Any] = [
            {"title": 7, "uploader": [], "duration": "long", "thumbnails": "no", "is_live": "x"},
            {"title": huge, "uploader": huge, "duration": 1e300, "thumbnail": "file:///etc/passwd"},
            {"title": "a\x00b\x1b[31m\u202e", "duration": -5, "thumbnail": "http://a.example/" + huge},
            {"title": None, "duration": True, "thumbnails": [7, {"url": 7}]},
        ]
        uri = list_page(server, *(page(server, 1, **one) for one in wrong), title=huge)
        answer = await node.get("/v0/loadplaylist", identifier=uri)
        assert answer.status == 200
        found = answer.json()
        assert len(answer.body) < 20_000
        infos = [track["info"] for track in found["tracks"]]
        assert [info["length"] for info in infos] == [0, 0, 0, 0]
        assert [info["artworkUrl"] for info in infos] == [None] * 4
        assert max(len(info["title"]) for info in infos) <= 500
        assert not any(ord(letter) < 32 for info in infos for letter in info["title"])

    @pytest.mark.parametrize("what", ["endless", "million"])
    async def test_a_list_without_end_is_cut_by_entries_or_by_bytes(
        self, node: NodeOverHttp, server: MediaServer, what: str
    ) -> None:
        found = (await node.get("/v0/loadplaylist", identifier=server.url(f"/fake/{what}"))).json()
        assert len(found["tracks"]) == 500 if what == "endless" else 100 < len(found["tracks"]) <= 500
        assert found["leftOut"]["count"] == {"endless": 1, "million": 1_000_000 - len(found["tracks"])}[what]
        assert any("500" in reason or "too long" in reason for reason in found["leftOut"]["reasons"])

    async def test_a_list_that_comes_slowly_is_cut_at_its_time(self, server: MediaServer) -> None:
        async with node_over_http(SETTINGS, resolver=fake_sites(timeout_s=5.0)) as node:
            found = (await node.get("/v0/loadplaylist", identifier=server.url("/fake/slow-list"))).json()
        assert 1 <= len(found["tracks"]) <= 14
        assert found["leftOut"]["reasons"] == ["The page takes too long to list all of its entries."]

    async def test_a_list_that_breaks_off_is_what_came_before(self, node: NodeOverHttp, server: MediaServer) -> None:
        found = (await node.get("/v0/loadplaylist", identifier=server.url("/fake/broken-list?3"))).json()
        assert len(found["tracks"]) == 3
        assert found["leftOut"] == {"count": 1, "reasons": ["The rest of the list could not be read."]}
        answer = await node.get("/v0/loadplaylist", identifier=server.url("/fake/broken-list?0"))
        assert (answer.status, answer.json()["code"]) == (400, "resolve_failed")
        assert "The rest is private" in answer.json()["message"]

    async def test_a_page_that_never_answers_is_given_up(self, server: MediaServer) -> None:
        server.serve("/api/pages", stall())
        async with node_over_http(SETTINGS, resolver=fake_sites(timeout_s=2.0)) as node:
            answer = await node.get("/v0/loadplaylist", identifier=server.url("/fake/pages"))
        assert (answer.status, answer.json()["code"]) == (400, "resolve_failed")
        assert "took longer than 2 s" in answer.json()["message"]
        assert "resolver.timeout_ms" in answer.json()["message"]


class TestSearch:
    async def test_finds_tracks_without_resolving_them(self, node: NodeOverHttp, server: MediaServer) -> None:
        words = searchable(server, *(page(server, number) for number in range(1, 31))).partition(":")[2] + "a & b"
        for limit, count in ((None, 10), (3, 3), (100, 30)):
            parameters = {"query": words, "site": "fake"} | ({} if limit is None else {"limit": limit})
            answer = await node.get("/v0/search", **parameters)
            assert answer.status == 200
            assert [track["info"]["title"] for track in answer.json()["tracks"]] == [f"T{n + 1}" for n in range(count)]
        assert resolved(server) == []
        asked = [request for request in server.requests if request.path == "/api/search"]
        assert asked[0].headers["x-words"] == "a & b"

    async def test_what_may_not_be_played_is_left_out(self, node: NodeOverHttp, server: MediaServer) -> None:
        bad = {"_type": "url", "url": server.url("/secret")}
        words = searchable(server, bad, page(server, 1), bad).partition(":")[2] + "x"
        found = (await node.get("/v0/search", query=words, site="fake")).json()
        assert [track["info"]["title"] for track in found["tracks"]] == ["T1"]
        assert found["leftOut"]["count"] == 2
        searchable(server, bad)
        found = (await node.get("/v0/search", query=words, site="fake")).json()
        assert (found["tracks"], found["leftOut"]["count"]) == ([], 1)
        searchable(server)
        assert (await node.get("/v0/search", query=words, site="fake")).json() == {"tracks": []}

    async def test_what_is_wrong_is_told(self, node: NodeOverHttp, server: MediaServer) -> None:
        for parameters, status, code, words in (
            ({}, 400, "bad_request", "`query` is missing"),
            ({"query": "x"}, 400, "bad_request", "cannot search 'youtube'. There are fake (fakesearch:)"),
            ({"query": " ", "site": "fake"}, 400, "bad_request", "no words"),
            ({"query": "a\nb", "site": "fake"}, 400, "bad_request", "control characters"),
            ({"query": "x" * 5000, "site": "fake"}, 400, "bad_request", "4096"),
            ({"query": "x", "site": "fake", "limit": "0"}, 400, "bad_request", "1 to 100"),
            ({"query": "x", "site": "fake", "limit": "101"}, 400, "bad_request", "1 to 100"),
            ({"query": "the secret", "site": "fake"}, 403, "source_blocked", "sources.blocked"),
            ({"query": f"{server.port} x", "site": "fake"}, 400, "resolve_failed", "404"),
        ):
            answer = await node.get("/v0/search", **parameters)
            assert (answer.status, answer.json()["code"]) == (status, code), parameters
            assert words in answer.json()["message"], answer.json()

    async def test_has_half_of_the_places_and_gives_them_back(self, server: MediaServer) -> None:
        songs = serve_songs(server, 1)
        async with (
            MediaServer() as searched,
            node_over_http(SETTINGS, resolver=fake_sites(pages_at_once=2, timeout_s=2.5)) as node,
        ):
            searched.serve("/api/search", stall())
            query = {"query": f"{searched.port} x", "site": "fake"}
            searches = [asyncio.create_task(node.get("/v0/search", **query)) for _ in range(2)]
            await searched.requested(1)
            # A track has a place beside it.
            await node.request("POST", "/v0/players", {"id": "p", "uri": server.url("/fake/told?1")})
            player = Listening(node.node, "p")
            await player.wait_state("idle")
            assert player.listener.pcm == padded(*songs)
            codes = sorted(answer.json()["code"] for answer in await asyncio.gather(*searches))
            assert codes in (["limit_reached", "resolve_failed"], ["resolve_failed", "resolve_failed"])
            # A client that goes away takes its search with it.
            impatient = asyncio.create_task(node.get("/v0/search", **query))
            before = len(searched.requests)
            await eventually(lambda: len(searched.requests) > before, "the search is under way")
            impatient.cancel()
            await searched.all_gone()


class TestPlaying:
    async def test_a_list_page_takes_the_place_of_its_track(self, node: NodeOverHttp, server: MediaServer) -> None:
        songs = serve_songs(server, 3)
        uri = list_page(server, *(page(server, number, duration=9) for number in (1, 2, 3)))
        await node.request("POST", "/v0/players", {"id": "p", "uri": uri, "paused": True})
        player = Listening(node.node, "p")
        await eventually(lambda: player.state["queueLength"] == 2, "the entries wait")
        assert set(resolved(server)) <= {"/api/told?1"}
        waiting = (await node.get("/v0/players/p/queue", details="true")).json()
        assert [(track["uri"], track["title"]) for track in waiting] == [
            (server.url(f"/fake/told?{number}"), f"T{number}") for number in (2, 3)
        ]
        node.node.player("p").do(Requests.play)
        await player.wait_state("idle")
        assert player.listener.pcm == padded(*songs)
        assert resolved(server) == [f"/api/told?{number}" for number in (1, 2, 3)]

    async def test_items_of_a_page_play_one_by_one(self, node: NodeOverHttp, server: MediaServer) -> None:
        songs = serve_songs(server, 2)
        links = [server.url(f"/{number}.wav") for number in (1, 2)]
        uri = list_page(server, *({"id": "x", "title": "T", "url": link, "ext": "wav"} for link in links))
        await node.request("POST", "/v0/players", {"id": "p", "uri": uri})
        player = Listening(node.node, "p")
        await player.wait_state("idle")
        assert player.listener.pcm == padded(*songs)

    async def test_a_list_of_one_is_that_page(self, node: NodeOverHttp, server: MediaServer) -> None:
        serve_songs(server, 1)
        page_uri = server.url("/fake/pages-one?1")
        loaded = (await node.get("/v0/loadtracks", identifier=page_uri)).json()
        assert (loaded["data"]["info"]["identifier"], loaded["data"]["info"]["length"]) == (page_uri, 300)

    async def test_a_search_is_its_best_match_that_may_be_played(self, node: NodeOverHttp, server: MediaServer) -> None:
        songs = serve_songs(server, 2)
        refused = {"_type": "url", "url": server.url("/secret")}
        search = searchable(server, refused, page(server, 2), page(server, 1)) + "some words"
        loaded = (await node.get("/v0/loadtracks", identifier=search)).json()["data"]
        assert (loaded["info"]["identifier"], loaded["info"]["uri"]) == (search, server.url("/2.wav"))
        assert (loaded["info"]["length"], loaded["info"]["title"]) == (300, "A title")
        assert (await node.get("/v0/resolve", url=search)).body.decode() == server.url("/2.wav")
        await node.request("POST", "/v0/players", {"id": "p", "encoded": loaded["encoded"]})
        player = Listening(node.node, "p")
        added = await node.request("POST", "/v0/players/p/queue", {"uri": search})
        assert added.status == 201
        waiting = (await node.get("/v0/players/p/queue", details="true")).json()
        assert waiting == [] or waiting[0]["title"] == f"{server.port} some words"
        await player.wait_state("idle")
        assert player.listener.pcm == padded(songs[1], songs[1])

    async def test_a_search_that_finds_nothing_fails_with_its_reason(
        self, node: NodeOverHttp, server: MediaServer
    ) -> None:
        search = searchable(server) + "x"
        assert (await node.get("/v0/loadtracks", identifier=search)).json() == {"loadType": "empty", "data": {}}
        loaded = (await node.get("/v0/loadtracks", identifier=search, explain="true")).json()
        assert loaded["error"]["code"] == "resolve_failed"
        assert loaded["error"]["message"] == "The search has no result: nothing was found."
        await node.request("POST", "/v0/players", {"id": "p", "uri": search})
        player = Listening(node.node, "p")
        await player.events.wait_for("TrackException", 1)
        assert player.failures == ["resolve_failed"]


async def test_a_page_within_a_page_is_followed_two_levels_deep(server: MediaServer) -> None:
    async with running_node(SETTINGS, resolver=fake_sites()) as node:
        serve_songs(server, 2)
        inner = {"_type": "url", "url": server.url("/fake/pages?9"), "id": "i"}
        uri = list_page(server, page(server, 1), inner, page(server, 2))
        deeper = {"_type": "url", "url": server.url("/fake/pages?10"), "id": "d"}
        for number, entries in ((9, [page(server, 1), deeper]), (10, [page(server, 1), page(server, 2)])):
            server.serve(f"/api/pages?{number}", as_json({"entries": entries}))
        await node.create_player("p", uri, {})
        player = Listening(node, "p")
        await player.wait_state("idle")
        assert player.failures == ["limit_exceeded"]
        assert player.starts == ["A title"] * 3


async def test_a_track_whose_link_expires_goes_on_at_the_same_sample(server: MediaServer) -> None:
    sound = music(4.0)
    song = wav(sound)
    links = (
        server.serve("/old.wav", in_turn(media(song, cut_after=len(song) // 3), answer_of(403))),
        server.serve("/new.wav", media(song)),
    )
    server.serve("/api/told", in_turn(*map(told, links)))
    async with running_node(SETTINGS, resolver=fake_sites()) as node:
        await node.create_player("p", server.url("/fake/told"), {})
        player = Listening(node, "p")
        await player.wait_state("idle")
        assert player.listener.pcm == padded(pcm_of(sound))
        assert player.failures == []
        player.require_no_underrun()
        assert resolved(server) == ["/api/told"] * 2

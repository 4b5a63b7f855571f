"""Lists on pages, searches and whatever somebody types, through a whole node with a fake site and stand-ins of
services: asked for over HTTP, queued and played."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from tests.support.audio_files import music, pcm_of, tone, wav
from tests.support.eventually import eventually
from tests.support.media_server import Answer, MediaServer, media, stall
from tests.support.music_services import KEYS, MusicServices, Song, music_services
from tests.support.node_in_process import Listening, forget_players, padded
from tests.support.node_over_http import NodeOverHttp, node_over_http
from tests.support.resolving import fake_sites, told
from tonearm.config.patterns import compile_pattern
from tonearm.core.playback_requests import Requests
from tonearm.core.service_links import Service
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import TrackInfo
from tonearm.node.parts import NodeSettings

SETTINGS = NodeSettings(decoder_processes=1, first_listener_wait_ms=60_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services() -> AsyncIterator[MusicServices]:
    async with music_services() as services:
        services.add(
            Song(1, "Night Ferry", ("The Lanterns",), 244_000, "GBX1"), Song(2, "Day Ferry", ("Ada",), 100_000)
        )
        yield services


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def resolving_node(services: MusicServices) -> AsyncIterator[NodeOverHttp]:
    resolver = fake_sites(mirrors=services.settings(**KEYS), default_search="fakesearch")
    async with node_over_http(SETTINGS, resolver=resolver, blocked=[compile_pattern("secret")]) as node:
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


async def loaded(node: NodeOverHttp, uri: str) -> Any:
    answer = await node.get("/v0/loadplaylist", identifier=uri)
    assert answer.status == 200
    return answer.json()


class TestLoadplaylist:
    async def test_a_page_that_lists_others(self, node: NodeOverHttp, server: MediaServer) -> None:
        cover = "http://a.example/cover.jpg"
        thumbnails = [{"url": "http://a.example/s.jpg"}, {"url": cover}]
        entries = (
            {"_type": "url", "url": "file:///etc/passwd", "id": "x"},
            page(server, 1, duration=61.5, uploader="Someone", thumbnails=thumbnails),
            page(server, 7),
        )
        server.serve("/api/pages?v=7", as_json({"entries": entries, "title": "All of it"}))
        found = await loaded(node, server.url("/fake/pages?v=7"))
        assert (found["name"], found["selected"], found["leftOut"]["count"]) == ("All of it", 1, 1)
        first, second = (track["info"] for track in found["tracks"])
        assert first["identifier"] == first["uri"] == server.url("/fake/told?1")
        assert (first["title"], first["author"], first["length"]) == ("T1", "Someone", 61_500)
        assert (first["artworkUrl"], first["sourceName"]) == (cover, "http")
        assert (second["title"], second["length"], second["artworkUrl"]) == ("T7", 0, None)
        assert resolved(server) == []
        decoded = await node.get("/v0/decodetrack", encodedTrack=found["tracks"][0]["encoded"])
        assert decoded.json()["info"]["identifier"] == first["identifier"]

    async def test_what_is_none_is_told(self, node: NodeOverHttp, server: MediaServer) -> None:
        serve_songs(server, 1)
        for identifier, status, code, words in (
            (server.url("/1.wav"), 400, "load_failed", "single track"),
            (server.url("/fake/told?1"), 400, "load_failed", "single track"),
            (server.url("/gone.m3u"), 400, "load_failed", "404"),
            (server.url("/fake/gone"), 400, "resolve_failed", "private"),
            (server.url("/fake/broken-list?0"), 400, "resolve_failed", "The rest is private"),
            (server.url("/secret.m3u"), 403, "source_blocked", "sources.blocked"),
            (list_page(server), 400, "resolve_failed", "empty"),
            ("gopher:x", 400, "bad_request", "scheme"),
            ("ytsearch:x", 400, "bad_request", "fake (fakesearch:)"),
        ):
            answer = await node.get("/v0/loadplaylist", identifier=identifier)
            assert (answer.status, answer.json()["code"]) == (status, code), identifier
            assert words in answer.json()["message"], answer.json()

    async def test_each_entry_of_a_hostile_list_is_judged(self, node: NodeOverHttp, server: MediaServer) -> None:
        uri = list_page(
            server,
            *({"_type": "url", "url": url} for url in (
                "file:///etc/passwd",
                "/etc/passwd",
                "javascript:alert(1)",
                "ytsearch:x",
                "ftp://a.example/x",
                "http://user:password@a.example/",
                server.url("/secret"),
                "http://a.example/" + "x" * 5000,
            )),
            page(server, 1, title=7, uploader=[], duration="long", thumbnails="no"),
        )  # fmt: skip
        found = await loaded(node, uri)
        # A path is known by its number on the page, which is opened by the extractor, in its sandbox.
        assert [track["info"]["identifier"] for track in found["tracks"]] == [
            f"{uri}#item=2",
            server.url("/fake/told?1"),
        ]
        assert found["leftOut"]["count"] == 7
        assert 4 <= len(found["leftOut"]["reasons"]) <= 20

    @pytest.mark.parametrize(
        ("what", "most", "left_out", "why"),
        [
            ("endless", 500, 1, "500"),
            ("million", 500, 1_000_000, "too long"),
            ("broken-list?3", 3, 1, "The rest of the list could not be read."),
        ],
    )
    async def test_a_list_is_cut_by_entries_by_bytes_and_where_it_breaks_off(
        self, node: NodeOverHttp, server: MediaServer, what: str, most: int, left_out: int, why: str
    ) -> None:
        found = await loaded(node, server.url(f"/fake/{what}"))
        count = len(found["tracks"])
        assert count == most or (what == "million" and 100 < count < most)
        assert found["leftOut"]["count"] == left_out - (count if what == "million" else 0)
        assert any(why in reason for reason in found["leftOut"]["reasons"])

    async def test_a_list_that_comes_slowly_is_cut_and_a_page_that_never_answers_is_given_up(
        self, server: MediaServer
    ) -> None:
        server.serve("/api/pages", stall())
        async with node_over_http(SETTINGS, resolver=fake_sites(timeout_s=5.0)) as node:
            found, answer = await asyncio.gather(
                loaded(node, server.url("/fake/slow-list")),
                node.get("/v0/loadplaylist", identifier=server.url("/fake/pages")),
            )
        assert 1 <= len(found["tracks"]) <= 14
        assert found["leftOut"]["reasons"] == ["The page takes too long to list all of its entries."]
        assert (answer.status, answer.json()["code"]) == (400, "resolve_failed")
        assert "took longer than 5 s" in answer.json()["message"]
        assert "resolver.timeout_ms" in answer.json()["message"]


class TestSearch:
    async def test_finds_tracks_without_resolving_them_and_leaves_out_what_may_not_be_played(
        self, node: NodeOverHttp, server: MediaServer
    ) -> None:
        bad = {"_type": "url", "url": server.url("/secret")}
        words = searchable(server, bad, *(page(server, number) for number in range(1, 31))).partition(":")[2] + "a & b"
        for limit, count in ((None, 9), (3, 2), (100, 30)):
            parameters = {"query": words, "site": "fake"} | ({} if limit is None else {"limit": limit})
            answer = await node.get("/v0/search", **parameters)
            assert answer.status == 200
            assert [track["info"]["title"] for track in answer.json()["tracks"]] == [f"T{n + 1}" for n in range(count)]
            assert answer.json()["leftOut"]["count"] == 1
        assert resolved(server) == []
        asked = [request for request in server.requests if request.path == "/api/search"]
        assert asked[0].headers["x-words"] == "a & b"
        searchable(server)
        assert (await node.get("/v0/search", query=words, site="fake")).json() == {"tracks": []}

    async def test_what_is_wrong_is_told(self, node: NodeOverHttp, server: MediaServer) -> None:
        for parameters, status, code, words in (
            ({}, 400, "bad_request", "`query` is missing"),
            ({"query": "x"}, 400, "bad_request", "cannot search 'youtube'. There are apple (amsearch:), "),
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
        found = await loaded(node, uri)
        assert [track["info"]["identifier"] for track in found["tracks"]] == [f"{uri}#item={n}" for n in (1, 2)]
        await node.request("POST", "/v0/players", {"id": "p", "uri": uri})
        player = Listening(node.node, "p")
        await player.wait_state("idle")
        assert player.listener.pcm == padded(*songs)
        one = server.url("/fake/pages-one?1")  # a list of one is that page
        info = (await node.get("/v0/loadtracks", identifier=one)).json()["data"]["info"]
        assert (info["identifier"], info["length"]) == (one, 300)

    async def test_a_search_is_its_best_match_that_may_be_played(self, node: NodeOverHttp, server: MediaServer) -> None:
        songs = serve_songs(server, 2)
        refused = {"_type": "url", "url": server.url("/secret")}
        search = searchable(server, refused, page(server, 2), page(server, 1)) + "some words"
        track = (await node.get("/v0/loadtracks", identifier=search)).json()["data"]
        assert (track["info"]["identifier"], track["info"]["uri"]) == (search, server.url("/2.wav"))
        assert (track["info"]["length"], track["info"]["title"]) == (300, "A title")
        assert (await node.get("/v0/resolve", url=search)).body.decode() == server.url("/2.wav")
        await node.request("POST", "/v0/players", {"id": "p", "encoded": track["encoded"]})
        player = Listening(node.node, "p")
        await player.wait_state("idle")
        assert player.listener.pcm == padded(songs[1])
        searchable(server)
        assert (await node.get("/v0/loadtracks", identifier=search)).json() == {"loadType": "empty", "data": {}}
        error = (await node.get("/v0/loadtracks", identifier=search, explain="true")).json()["error"]
        assert (error["code"], error["message"]) == (
            "resolve_failed",
            "The search has no result: nothing was found.",
        )
        await node.request("POST", "/v0/players/p/queue", {"uri": search})
        await player.events.wait_for("TrackException", 1)
        assert player.failures == ["resolve_failed"]


Load: TypeAlias = Callable[..., Awaitable[Any]]


@pytest.fixture
def loads(node: NodeOverHttp) -> Load:
    async def load(identifier: str, status: int = 200, **more: object) -> Any:
        answer = await node.get("/v0/load", identifier=identifier, **more)
        assert answer.status == status
        return answer.json()

    return load


def titles(tracks: list[Any]) -> list[str]:
    return [track["info"]["title"] for track in tracks]


async def test_an_encoded_track_is_read_a_file_is_opened_and_a_folder_is_a_list(loads: Load, tmp_path: Path) -> None:
    encoded = encode_track(TrackInfo("https://radio.example/a.mp3", "https://radio.example/a.mp3", "A", "Ada", 1000))
    loaded = await loads(encoded)
    assert (loaded["loadType"], loaded["data"]["info"]["author"]) == ("track", "Ada")
    assert loaded["data"]["encoded"] == encoded
    for name in ("a b", "c"):
        (tmp_path / f"{name}.wav").write_bytes(wav(tone(400, 1.0)))
    loaded = await loads(f"{tmp_path}/a b.wav")
    assert (loaded["loadType"], loaded["data"]["info"]["length"]) == ("track", 1000)
    loaded = await loads(str(tmp_path))
    assert (loaded["loadType"], titles(loaded["data"]["tracks"])) == ("playlist", ["a b", "c"])
    assert loaded["data"]["info"] == {"name": tmp_path.name, "selectedTrack": -1}
    assert loaded["data"]["pluginInfo"] == {"url": str(tmp_path), "artworkUrl": None, "author": "", "totalTracks": 2}


async def test_links_are_opened_and_pages_are_asked(loads: Load, server: MediaServer) -> None:
    server.serve("/song.wav", media(wav(tone(400, 1.0))))
    server.serve("/api/told", told(server.url("/song.wav"), title="Of the page", duration=7))
    loaded = await loads(server.url("/song.wav"))
    assert (loaded["loadType"], loaded["data"]["info"]["length"]) == ("track", 1000)
    loaded = await loads(server.url("/fake/told").removeprefix("http://"))  # without its scheme
    assert (loaded["loadType"], titles([loaded["data"]])) == ("track", ["Of the page"])
    assert loaded["data"]["info"]["length"] == 7000
    entries = [{"_type": "url", "url": server.url(f"/fake/told?{number}"), "title": f"T{number}"} for number in (1, 2)]
    server.serve("/api/pages", as_json({"entries": entries, "title": "All", "count": 30}))
    loaded = await loads(server.url("/fake/pages"))
    assert (loaded["loadType"], titles(loaded["data"]["tracks"])) == ("playlist", ["T1", "T2"])
    assert loaded["data"]["info"]["name"] == "All"
    assert loaded["data"]["pluginInfo"]["totalTracks"] == 30


@pytest.mark.parametrize("words", ["fakesearch:{} AC/DC Thunderstruck", "AC/DC Thunderstruck {}", "Mr. Brightside {}"])
async def test_words_are_searched(loads: Load, server: MediaServer, words: str) -> None:
    results = [
        {"_type": "url", "url": server.url(f"/fake/told?{number}"), "title": f"T{number}"} for number in range(20)
    ]
    server.serve("/api/search", as_json(results))
    for limit, count in ((None, 10), (3, 3)):
        loaded = await loads(words.format(server.port), **({} if limit is None else {"limit": limit}))
        assert (loaded["loadType"], len(loaded["data"])) == ("search", count)
    server.serve("/api/search", as_json([]))
    assert await loads(words.format(server.port)) == {"loadType": "empty", "data": {}}


@pytest.mark.parametrize("service", list(Service))
async def test_links_of_services_cost_one_request_and_no_search(
    loads: Load, services: MusicServices, service: Service
) -> None:
    await loads("spsearch:token")  # which is asked for once
    services.asked.clear()
    loaded = await loads(services.link(service, "track", 1))
    assert (loaded["loadType"], loaded["data"]["info"]["title"]) == ("track", "Night Ferry")
    assert (loaded["data"]["info"]["length"], loaded["data"]["pluginInfo"]) == (244_000, {})
    assert len(services.asked) == 1
    loaded = await loads(services.link(service, "album", 7))
    assert (loaded["loadType"], titles(loaded["data"]["tracks"])) == ("playlist", ["Night Ferry", "Day Ferry"])
    about = loaded["data"]["pluginInfo"]
    assert (about["author"], about["totalTracks"], about["artworkUrl"][:8]) == ("The Lanterns", 2, "https://")
    assert len(services.asked) == 2
    key = {Service.SPOTIFY: "spsearch", Service.DEEZER: "dzsearch", Service.APPLE: "amsearch"}[service]
    loaded = await loads(f"{key}:ferry")
    assert (loaded["loadType"], titles(loaded["data"])) == ("search", ["Night Ferry", "Day Ferry"])


@pytest.mark.parametrize(
    ("identifier", "code", "severity", "says"),
    [
        ("/no/such/file.mp3", "file_missing", "common", "no such file"),
        ("nosearch:x", "resolve_failed", "common", "fake (fakesearch:)"),
        ("http://127.0.0.1:9/x.mp3", "connect_failed", "suspicious", "127.0.0.1"),
        ("https://tidal.com/track/1", "resolve_failed", "common", "Tidal"),
        ("https://www.deezer.com/track/99", "resolve_failed", "common", "Deezer did not say what the link is"),
    ],
)
async def test_what_cannot_be_loaded_says_why(
    loads: Load, identifier: str, code: str, severity: str, says: str
) -> None:
    loaded = await loads(identifier)
    assert loaded["loadType"] == "error"
    error = loaded["data"]
    assert (error["code"], error["severity"]) == (code, severity)
    assert says in error["message"]
    assert error["hint"]
    assert error["cause"] == f"{code} at {error['stage']}"


async def test_what_is_refused(loads: Load) -> None:
    for identifier in ("", " ", "x" * 4097):
        assert (await loads(identifier, 400))["code"] == "bad_request"
    assert (await loads("https://a.example/secret", 403))["code"] == "source_blocked"


async def test_without_a_resolver_words_say_what_is_missing() -> None:
    async with node_over_http(SETTINGS) as node:
        loaded = (await node.get("/v0/load", identifier="Mr. Brightside")).json()
    assert loaded["loadType"] == "error"
    assert loaded["data"]["message"] == (
        "There is no file 'Mr. Brightside' here, and this node cannot search: resolver.enabled is off."
    )

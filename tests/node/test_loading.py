"""Whatever somebody types, asked for over HTTP of a whole node with a fake site and stand-ins of services."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from tests.support.audio_files import tone, wav
from tests.support.media_server import MediaServer, media
from tests.support.music_services import KEYS, MusicServices, Song, music_services
from tests.support.node_over_http import node_over_http
from tests.support.resolving import fake_sites, told
from tonearm.config.patterns import compile_pattern
from tonearm.core.service_links import Service
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import TrackInfo
from tonearm.node.parts import NodeSettings

Load: TypeAlias = Callable[..., Awaitable[Any]]
SETTINGS = NodeSettings(decoder_processes=1, first_listener_wait_ms=60_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services() -> AsyncIterator[MusicServices]:
    async with music_services() as services:
        services.add(
            Song(1, "Night Ferry", ("The Lanterns",), 244_000, "GBX1"), Song(2, "Day Ferry", ("Ada",), 100_000)
        )
        yield services


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def loads(services: MusicServices) -> AsyncIterator[Load]:
    resolver = fake_sites(mirrors=services.settings(**KEYS), default_search="fakesearch")
    async with node_over_http(SETTINGS, resolver=resolver, blocked=[compile_pattern("secret")]) as node:

        async def load(identifier: str, status: int = 200, **more: object) -> Any:
            answer = await node.get("/v0/load", identifier=identifier, **more)
            assert answer.status == status
            return answer.json()

        yield load


def as_json(value: object) -> Any:
    return media(json.dumps(value).encode(), content_type="application/json", ranges=False)


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

"""Resolving with the real process and yt-dlp: what comes out, and what cannot get out."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.media_server import Canary, MediaServer, media, once_set, redirect, stall
from tests.support.resolving import fake_sites, html, real_sites, told
from tonearm.config.patterns import compile_pattern
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track_info import PageFacts
from tonearm.sources.guard import AddressGuard
from tonearm.sources.http.client import HttpClient
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.resolver.answers import ResolvedPage
from tonearm.sources.resolver.pages import PageResolver, ResolverSettings, ResolverSetupError

GENERIC = real_sites(sites=("generic",), timeout_s=60.0)


class Resolving:
    def __init__(self, settings: ResolverSettings, blocked: str = "") -> None:
        self.guard = AddressGuard(private_networks=True)
        policy = SourcePolicy(blocked=[compile_pattern(blocked)] if blocked else [])
        self.client = HttpClient(self.guard, policy.admit, FetchSettings(connect_timeout_s=5.0))
        self.pages = PageResolver(self.client, policy.admit, settings)

    async def resolve(self, uri: str) -> ResolvedPage:
        return await self.pages.resolve(parse_source_uri(uri))

    async def failure(self, uri: str) -> PlayFailure:
        with pytest.raises(PlayError) as caught:
            await self.resolve(uri)
        assert caught.value.failure.stage is Stage.RESOLVE
        return caught.value.failure


@contextlib.asynccontextmanager
async def resolving(settings: ResolverSettings, **options: Any) -> AsyncIterator[Resolving]:
    made = Resolving(settings, **options)
    try:
        yield made
    finally:
        await made.pages.close()
        await made.client.close()


async def test_pages_in_many_forms(server: MediaServer) -> None:
    song, image = server.url("/song.mp3"), server.url("/cover.png")
    server.serve("/audio", html("<title>A &amp; B</title>", '<audio src="song.mp3"></audio>'))
    metas = f'<meta property="og:audio" content="{song}"><meta property="og:image" content="{image}">'
    server.serve("/og", html(f"<title>C</title>{metas}"))
    server.serve("/none", html("<title>E</title>"))
    async with resolving(GENERIC) as it:
        found = await it.resolve(server.url("/audio"))
        assert (found.facts, found.link.uri.opened) == (PageFacts(song, "A & B"), song)
        assert found.link.headers["Referer"] == server.url("/audio")
        assert (await it.resolve(server.url("/og"))).facts == PageFacts(song, "C", artwork_url=image)
        told = await it.failure(server.url("/none"))
        assert told.message == f"The page was not resolved: Unsupported URL: {server.url('/none')}."


async def test_no_page_leads_to_a_refused_address(server: MediaServer) -> None:
    async with Canary() as canary, resolving(GENERIC) as it:
        it.guard.add_own_address("127.0.0.1", canary.port)  # what must not be reached
        secret = f"http://127.0.0.1:{canary.port}/secret"
        server.serve("/redirect", redirect(secret))
        server.serve("/iframe", html("", f'<meta http-equiv="refresh" content="0; url={secret}">'))
        for path in ("/redirect", "/iframe"):
            refused = await it.failure(server.url(path))
            assert refused.code is FailureCode.SOURCE_REFUSED, path
            assert "own address" in refused.message
        assert canary.connections == 0


async def test_which_uris_are_pages_and_where_none_is_named_all_but_any_html() -> None:
    async with resolving(real_sites(sites=("YouTube", "soundcloud"))) as it:
        await it.pages.start()
        tube = "https://www.youtube.com"
        for uri in (f"{tube}/watch?v=dQw4w9WgXcQ", "https://youtu.be/dQw4w9WgXcQ", "https://soundcloud.com/a/b"):
            assert await it.pages.is_page(parse_source_uri(uri)), uri
        for uri in ("https://vimeo.com/12345", "http://127.0.0.1:1/song.mp3"):
            assert not await it.pages.is_page(parse_source_uri(uri)), uri

    async with resolving(real_sites()) as it:
        await it.pages.start()
        assert await it.pages.is_page(parse_source_uri("https://vimeo.com/12345"))
        assert not await it.pages.is_page(parse_source_uri("https://a.example/page.html"))


async def test_what_cannot_work_is_told() -> None:
    for settings, words in (
        ({"sites": ("youtube", "yuotube")}, r"resolver\.sites: .*'yuotube'"),
        ({"command": ("/bin/false",)}, r"resolver\.enabled"),
    ):
        async with resolving(real_sites(**settings)) as it:
            with pytest.raises(ResolverSetupError, match=words):
                await it.pages.start()
            assert not await it.pages.is_page(parse_source_uri("http://a.example/"))


async def test_no_extractor_reaches_out_past_the_guard(server: MediaServer) -> None:
    async with Canary() as canary, resolving(fake_sites()) as it:
        it.guard.add_own_address("127.0.0.1", canary.port)  # what must not be reached
        for what in ("elsewhere", "tunnel", "ftp", "no-proxy", "socket", "datagram", "lookup"):
            told = await it.failure(server.url(f"/fake/{what}?{canary.port}"))
            is_ours = what in ("elsewhere", "tunnel")  # is asked of the node
            assert told.code is (FailureCode.SOURCE_REFUSED if is_ours else FailureCode.RESOLVE_FAILED), told
        async with MediaServer() as gone:
            pass
        told = await it.failure(server.url(f"/fake/tunnel?{gone.port}"))
        assert "No connection to 127.0.0.1: Connection refused" in told.message
        assert canary.connections == 0


async def test_no_extractor_starts_programs_fills_the_disk_or_takes_the_node_down_with_it(server: MediaServer) -> None:
    async with resolving(fake_sites(timeout_s=20.0)) as it:
        reasons = dict.fromkeys(("program", "shell", "fork", "write", "memory"), "denied|must not|failed")
        reasons |= {"crash": "ended without an answer", "long": "resolved", "local": "not at an http or https"}
        reasons |= {"bug": "IndexError: list index out of range", "gone": "not resolved: This video is private."}
        for what, words in reasons.items():
            failed = await it.failure(server.url(f"/fake/{what}"))
            assert failed.code is FailureCode.RESOLVE_FAILED
            assert re.search(words, failed.message), failed
            assert "Traceback" not in failed.message
        song = server.url("/song.mp3")
        server.serve("/api/told", told(song))
        assert (await it.resolve(server.url("/fake/print"))).link.uri.opened == song


async def test_no_extractor_goes_on_after_its_time_or_loads_without_end(server: MediaServer) -> None:
    async with resolving(fake_sites(timeout_s=3.0)) as it:
        told = await it.failure(server.url("/fake/sleep"))
        assert told.message == "The page was not resolved: it took longer than 3 s."
        assert "resolver.timeout_ms" in told.hint
    async with resolving(fake_sites(traffic_limit_bytes=100_000)) as it:
        server.serve("/api/told", media(b" " * 10_000_000, content_type="application/json", ranges=False))
        assert "load more than it may" in (await it.failure(server.url("/fake/told"))).message


async def test_sound_alone_and_in_one_file_comes_first(server: MediaServer) -> None:
    async with resolving(fake_sites()) as it:

        def form(name: str, codec: str = "none", **more: Any) -> dict[str, Any]:
            link = f"http://a.example/{name}"
            return {"format_id": name, "url": link, "ext": "mp4", "vcodec": codec, "acodec": "aac", **more}

        film, sound = form("film", "h264"), form("sound", abr=64)
        pieces = form("pieces", protocol="http_dash_segments", fragments=[{"url": "x"}])
        list_of_pieces = form("list.m3u8", protocol="m3u8_native")
        formats = [sound, film, list_of_pieces, pieces]
        for number, best in enumerate(("sound", "film", "list.m3u8")):
            server.serve("/api/told", told("", formats=formats[number:][::-1]))
            assert (await it.resolve(server.url("/fake/told"))).link.uri.opened == f"http://a.example/{best}"
        server.serve("/api/told", told("", formats=[pieces]))
        assert "format" in (await it.failure(server.url("/fake/told"))).message.lower()


async def test_four_at_once_and_cancelled_ones_make_room(server: MediaServer) -> None:
    go = asyncio.Event()
    async with resolving(fake_sites()) as it:
        server.serve("/api/told", once_set(go, told(server.url("/song.mp3"))))
        tasks = [asyncio.create_task(it.resolve(server.url("/fake/told"))) for _ in range(6)]
        await eventually(lambda: len(server.requests) == 4, "four ask the site")
        tasks[0].cancel()
        await eventually(lambda: len(server.requests) == 5, "the next takes the place")
        await server.connected(4)
        assert not await it.pages.is_page(parse_source_uri(server.url("/song.mp3")))  # needs no free place
        go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(result, ResolvedPage) for result in results] == [False, *[True] * 5]


async def test_nothing_is_left_after_closing(server: MediaServer) -> None:
    server.serve("/api/told", stall())
    made = Resolving(fake_sites())
    task = asyncio.create_task(made.resolve(server.url("/fake/told")))
    await server.requested(1)
    await made.pages.close()
    with pytest.raises(PlayError):
        await task
    await made.client.close()
    await server.all_gone()

"""Links of services whose own sound plays in their apps only, played from where the same recording is."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pytest
from aiohttp import web

from tests.support.fetching import opener, opening_fails
from tests.support.media_server import MediaServer, Reply, Request, media
from tests.support.music_services import COVER, KEYS, MusicServices, Song, music_services
from tests.support.resolving import fake_sites
from tonearm.config.patterns import compile_pattern
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.opened_source import OpenedSource
from tonearm.core.play_queue import Playlist
from tonearm.core.service_links import Service
from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.opener import SourceOpener

BODY: Final = bytes(range(256)) * 100


@dataclass(frozen=True, slots=True)
class Found:
    """What the search shows: the page `number` of the stand-in."""

    number: int
    title: str
    uploader: str
    length_s: float = 244


class Place:
    """A site that can be searched, and the services. `found` is what a search finds, by a part of its words."""

    def __init__(self, source_opener: SourceOpener, services: MusicServices, site: MediaServer) -> None:
        self.opener = source_opener
        self.services = services
        self.port = int(site.url("/").rsplit(":", 1)[1].rstrip("/"))
        self.searched: list[str] = []
        self._found: list[tuple[str, Sequence[Found]]] = []
        self._site = site
        site.serve("/api/search", self._search)
        site.serve("/song.mp3", media(BODY))

    def finds(self, words: str, *found: Found) -> None:
        self._found.append((words, found))
        for one in found:
            info = {"id": str(one.number), "title": one.title, "url": self._site.url("/song.mp3"), "ext": "mp3"}
            self._site.serve(f"/api/told?v={one.number}", media(json.dumps(info).encode(), ranges=False))

    def loses(self, number: int) -> None:
        """This page cannot be played any more."""
        self._site.serve(f"/api/told?v={number}", media(b"gone", ranges=False))

    def page(self, number: int) -> str:
        return self._site.url(f"/fake/told?v={number}")

    def song(self, title: str = "Night Ferry", *artists: str, length_s: float = 244, isrc: str = "") -> Song:
        """The words that are searched have the port in them, by which the stand-in is found."""
        number = 1 + len(self.services.songs)
        song = Song(
            number, title, (*artists, str(self.port)) if artists else ("The Lanterns",), round(length_s * 1000), isrc
        )
        self.services.add(song)
        return song

    async def open(self, uri: str) -> OpenedSource:
        opened = await self.opener.open(self.opener.admit(parse_source_uri(uri, from_client=True)))
        assert isinstance(opened, OpenedSource)
        await opened.close()
        return opened

    async def _search(self, request: Request, reply: Reply) -> None:
        words = unquote(request.headers["x-words"])
        self.searched.append(words)
        found = next((found for part, found in self._found if part in words), ())
        entries = [
            {
                "_type": "url",
                "url": self.page(one.number),
                "title": one.title,
                "uploader": one.uploader,
                "duration": one.length_s or None,
            }
            for one in found
        ]
        await media(json.dumps(entries).encode(), ranges=False)(request, reply)


@asynccontextmanager
async def place(**settings: Any) -> AsyncIterator[Place]:
    more = {name: settings.pop(name) for name in ("blocked",) if name in settings}
    async with music_services() as services, MediaServer() as site:
        if settings.pop("reads_page", False):
            settings["spotify_page_url"] = services.url
        resolver = fake_sites(mirrors=services.settings(**settings))
        async with opener(resolver=resolver, **more) as source_opener:
            await source_opener.start()
            yield Place(source_opener, services, site)


# A song as its service has it, and what a search shows: traps, and the recording itself as number 1.
NINE: Final[Sequence[tuple[str, tuple[str, ...], float, Sequence[Found]]]] = (
    ("Night Ferry", ("The Lanterns",), 244, (Found(2, "Night Ferry (Live)", "The Lanterns", 246), Found(1, "The Lanterns - Night Ferry (Official Video)", "LanternsVEVO", 246))),
    ("Night Ferry", ("The Lanterns",), 244, (Found(2, "Night Ferry", "Cover Kids"), Found(3, "Night Ferry (The Lanterns cover)", "Ada"), Found(1, "Night Ferry", "The Lanterns - Topic"))),
    ("Night Ferry (feat. Ada Blue)", ("The Lanterns", "Ada Blue"), 200, (Found(2, "Night Ferry (Blue Remix)", "The Lanterns", 200), Found(1, "Night Ferry ft. Ada Blue", "The Lanterns", 201))),
    ("Night Ferry - Live at Home", ("The Lanterns",), 300, (Found(2, "Night Ferry", "The Lanterns", 300), Found(1, "The Lanterns - Night Ferry (Live)", "Fan", 301))),
    ("Hello", ("Another Singer",), 180, (Found(2, "Hello", "First Singer", 180), Found(1, "Another Singer - Hello", "x", 181))),
    ("Live Forever", ("Harbour",), 276, (Found(2, "Harbour - Live Forever (Live)", "Harbour", 276), Found(3, "Live Forever karaoke", "Harbour Sing", 276), Found(1, "Harbour - Live Forever", "HarbourVEVO", 277))),
    ("夜のフェリー", ("灯籠",), 230, (Found(2, "夜のフェリー カラオケ", "灯籠", 230), Found(1, "灯籠 - 夜のフェリー", "灯籠 Official", 231))),
    ("Night Ferry - Remastered 2011", ("The Lanterns",), 244, (Found(2, "Night Ferry (Sped Up)", "The Lanterns", 243), Found(1, "Night Ferry (2011 Remaster)", "The Lanterns"))),
    ("Ночной паром", ("Фонари",), 150, (Found(2, "Фонари - Ночной паром", "x", 170), Found(3, "Ночной паром (кавер)", "Фонари", 150), Found(1, "Фонари — Ночной паром", "Фонари", 150))),
)  # fmt: skip


@pytest.mark.parametrize("service", [Service.DEEZER, Service.APPLE, Service.SPOTIFY])
async def test_nine_songs_with_traps(service: Service) -> None:
    async with place(**KEYS) as there:
        for title, artists, length_s, found in NINE:
            there.services.songs.clear()
            there._found.clear()
            song = there.song(f"{title}", *artists, length_s=length_s)
            there.services.add(Song(1, song.title, (f"{artists[0]} {there.port}", *artists), song.length_ms))
            there.finds("", *found)
            link = there.services.link(service, "track", 1)
            there.opener._mirrors._chosen.clear()  # type: ignore[union-attr]
            page = (await there.open(link)).page
            assert page is not None and page.mirror is not None
            assert (page.title, page.mirror.uri, page.mirror.by) == (title, there.page(1), "words"), title

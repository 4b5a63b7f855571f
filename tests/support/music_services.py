"""A stand-in for Deezer, Apple Music and Spotify on loopback, which knows the songs that a test gives it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from tests.support.serving import serving
from tonearm.core.service_links import Service
from tonearm.sources.mirrors.settings import MirrorSettings

KEYS: Final = {"spotify_client_id": "me", "spotify_client_secret": "quiet"}
_BASIC: Final = "Basic bWU6cXVpZXQ="
COVER: Final = "https://covers.example/100x100bb.jpg"


@dataclass(frozen=True, slots=True)
class Song:
    """`number` is its id at each service."""

    number: int
    title: str
    artists: tuple[str, ...]
    length_ms: int
    isrc: str = ""


@dataclass(slots=True)
class MusicServices:
    """`asked` are the paths of the requests that came, in order. `answers` replaces the answers of paths that begin so.
    `tokens` are those that the API takes, the newest last; none are given out while `refuses_keys`."""

    url: str = ""
    songs: dict[int, Song] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answers: dict[str, Callable[[], Awaitable[web.StreamResponse]]] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    refuses_keys: bool = False

    async def never(self) -> web.StreamResponse:
        """For `answers`: nothing is answered."""
        await asyncio.Event().wait()
        return web.Response()

    def add(self, *songs: Song) -> None:
        self.songs.update((song.number, song) for song in songs)

    def settings(self, **more: Any) -> MirrorSettings:
        """All services at this stand-in, and its search."""
        urls = {"deezer": "deezer", "itunes": "itunes", "spotify_api": "api", "spotify_token": "token"}
        at = {f"{name}_url": f"{self.url}/{path}" for name, path in urls.items()}
        return MirrorSettings(**{"search": ("fakesearch",), **at, **more})

    def link(self, service: Service, kind: str, number: int) -> str:
        hosts = {Service.DEEZER: "www.deezer.com", Service.SPOTIFY: "open.spotify.com"}
        kind = "song" if service is Service.APPLE and kind == "track" else kind
        return f"https://{hosts.get(service, 'music.apple.com/us')}/{kind}/{number}"

    # What they answer

    def _deezer(self, path: str, query: Any) -> Any:
        kind, _, rest = path.partition("/")
        if kind == "search":
            return {"data": [self._of_deezer(song) for song in self.songs.values()][: int(query["limit"])]}
        if kind == "track":
            song = self.songs.get(int(rest))
            missing = {"error": {"type": "DataException", "message": "no data", "code": 800}}
            return self._of_deezer(song) if song else missing
        whole = [self._of_deezer(song) for song in self.songs.values()]
        if rest.endswith("/tracks"):
            begin = int(query["index"])
            return {"data": whole[begin : begin + int(query["limit"])], "total": len(whole)}
        about = {"title": "Ferries", "artist": {"name": "The Lanterns"}, "cover_xl": COVER, "nb_tracks": len(whole)}
        return {**about, "tracks": {"data": whole[:100]}}

    def _of_deezer(self, song: Song) -> Any:
        about = {"id": song.number, "title": song.title, "isrc": song.isrc, "duration": round(song.length_ms / 1000)}
        contributors = [{"name": name} for name in song.artists]
        album = {"title": "Ferries", "cover_xl": COVER}
        return {**about, "artist": contributors[0], "contributors": contributors, "album": album}

    def _itunes(self, path: str, query: Any) -> Any:
        if path == "search":
            found: Sequence[Song] = tuple(self.songs.values())[: int(query["limit"])]
        elif query.get("entity") == "song":
            about = {"wrapperType": "collection", "collectionName": "Ferries", "artistName": "The Lanterns"}
            more = {"artworkUrl100": COVER, "trackCount": len(self.songs)}
            return {"results": [{**about, **more}, *map(self._of_itunes, self.songs.values())]}
        else:
            found = [song for song in (self.songs.get(int(query["id"])),) if song]
        return {"resultCount": len(found), "results": [self._of_itunes(song) for song in found]}

    def _of_itunes(self, song: Song) -> Any:
        about = {"wrapperType": "track", "kind": "song", "trackId": song.number, "trackName": song.title}
        more = {"trackTimeMillis": song.length_ms, "artworkUrl100": COVER}
        return {**about, **more, "artistName": " & ".join(song.artists)}

    def _api(self, path: str, query: Any) -> Any:
        kind, _, rest = path.partition("/")
        whole = [self._of_spotify(song) for song in self.songs.values()]
        if kind == "search":
            return {"tracks": {"items": whole[: int(query["limit"])]}}
        if kind == "tracks":
            return self._of_spotify(self.songs[int(rest)]) if int(rest) in self.songs else None
        is_playlist = kind == "playlists"
        items = [{"item": one} for one in whole] if is_playlist else whole
        if "/" in rest:
            begin = int(query["offset"])
            return {"items": items[begin : begin + int(query["limit"])], "total": len(items)}
        about = {"name": "Ferries", "images": [{"url": COVER}], "artists": [{"name": "The Lanterns"}]}
        return {**about, "tracks": {"items": items[:50], "total": len(items)}}

    def _of_spotify(self, song: Song) -> Any:
        about = {"id": str(song.number), "name": song.title, "duration_ms": song.length_ms}
        more = {"external_ids": {"isrc": song.isrc} if song.isrc else {}, "album": {"images": [{"url": COVER}]}}
        return {**about, **more, "artists": [{"name": name} for name in song.artists]}

    def _page(self, kind: str, number: int) -> str:
        if kind == "track":
            song = self.songs[number]
            entity: Any = {"name": song.title, "artists": [{"name": name} for name in song.artists]}
            entity |= {"duration": song.length_ms, "visualIdentity": {"image": [{"url": COVER}]}}
        else:
            entity = {"name": "Ferries", "trackList": [self._listed(song) for song in self.songs.values()][:100]}
        data = {"props": {"pageProps": {"state": {"data": {"entity": entity}}}}}
        return f'<html><script id="__NEXT_DATA__" type="application/json">{json.dumps(data)}</script></html>'

    def _listed(self, song: Song) -> Any:
        shown = {"uri": f"spotify:track:{song.number}", "title": song.title, "subtitle": ",\u00a0".join(song.artists)}
        return {**shown, "duration": song.length_ms}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        for beginning, planted in self.answers.items():
            if request.path_qs.startswith(beginning):
                return await planted()
        service, _, path = request.path.lstrip("/").partition("/")
        match service:
            case "deezer":
                return web.json_response(self._deezer(path, request.query))
            case "itunes":  # which says so of its JSON
                return web.Response(text=json.dumps(self._itunes(path, request.query)), content_type="text/javascript")
            case "token":
                if self.refuses_keys or request.headers["Authorization"] != _BASIC:
                    return web.json_response({"error": "invalid_client"}, status=400)
                assert await request.text() == "grant_type=client_credentials"
                self.tokens.append(f"token-{len(self.tokens)}")
                return web.json_response({"access_token": self.tokens[-1], "expires_in": 3600})
            case "api":
                if request.headers["Authorization"].removeprefix("Bearer ") not in self.tokens[-1:]:
                    return web.json_response({"error": {"status": 401}}, status=401)
                found = self._api(path, request.query)
                return web.json_response(found or {"error": {"status": 404}}, status=200 if found else 404)
            case "embed":
                kind, _, number = path.partition("/")
                return web.Response(text=self._page(kind, int(number)), content_type="text/html")
        return web.Response(status=404)


@contextlib.asynccontextmanager
async def music_services() -> AsyncIterator[MusicServices]:
    services = MusicServices()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", services.answer)
    async with serving(app) as port:
        services.url = f"http://127.0.0.1:{port}"
        yield services

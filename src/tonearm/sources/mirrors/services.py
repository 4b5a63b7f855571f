"""The public data of Deezer and Apple Music about tracks, albums and playlists, and the results of their searches.

Deezer: https://developers.deezer.com/api. Apple: the iTunes Search API. Both as they answered in November 2026.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import quote, urlencode

from tonearm.core.metadata import Json
from tonearm.core.recordings import Recording
from tonearm.core.service_links import Service, ServiceLink, track_link
from tonearm.sources.mirrors.requests import ServiceClient, ServiceRefused
from tonearm.sources.resolver.answers import artwork_of, milliseconds_of, text_of

MOST_LISTED: Final = 500
_PAGE: Final = 100
_APPLE_PAGE: Final = 200
_NO_DATA: Final = 800  # Deezer's code for missing data
_QUOTA: Final = 4


@dataclass(frozen=True, slots=True)
class RecordingList:
    """An album or a playlist of a service. `total` is how many tracks the service says it has. `may_go_on` is a
    sentence that says why there may be more than that; empty if there are not."""

    name: str
    author: str
    artwork_url: str | None
    tracks: tuple[Recording, ...]
    total: int = field(default=0)
    may_go_on: str = ""


class MusicService(Protocol):
    """One service. All methods raise `ServiceRefused` and `PlayError`."""

    async def track(self, link: ServiceLink) -> Recording: ...

    async def tracks(self, link: ServiceLink) -> RecordingList: ...

    async def search(self, words: str, limit: int) -> list[Recording]: ...


class Deezer:
    """`url` is that of the API."""

    def __init__(self, client: ServiceClient, url: str) -> None:
        self._client = client
        self._url = url

    async def track(self, link: ServiceLink) -> Recording:
        return _required(_deezer_track(await self._ask(f"track/{link.id}")))

    async def tracks(self, link: ServiceLink) -> RecordingList:
        """One request is enough if its answer has all tracks; otherwise further requests get the rest."""
        path = f"{link.kind}/{link.id}"
        about = await self._ask(path)
        cover = artwork_of(about.get("cover_xl") or about.get("picture_xl"))
        total = count_of(about.get("nb_tracks"))
        given = list_of(object_of(about.get("tracks")).get("data"))
        while len(given) < min(total, MOST_LISTED):
            page = await self._ask(f"{path}/tracks?index={len(given)}&limit={_PAGE}")
            more = list_of(page.get("data"))
            if not more:
                break
            given += more
        author = _name(about.get("artist")) or _name(about.get("creator"))
        tracks = _recordings(_deezer_track(object_of(one), cover) for one in given[:MOST_LISTED])
        return RecordingList(text_of(about.get("title")) or "", author, cover, tracks, max(total, len(tracks)))

    async def search(self, words: str, limit: int) -> list[Recording]:
        found = await self._ask(f"search/track?q={quote(words)}&limit={limit}")
        return list(_recordings(_deezer_track(object_of(one)) for one in list_of(found.get("data"))))[:limit]

    async def _ask(self, path: str) -> dict[str, Json]:
        answer = await self._client.json(f"{self._url}/{path}")
        error = answer.get("error")  # with status 200
        if isinstance(error, dict):
            code = error.get("code")
            if code == _NO_DATA:
                raise ServiceRefused("it knows no such track or list", 404)
            if code == _QUOTA:
                raise ServiceRefused("it is asked too often by this address", 429)
            raise ServiceRefused(text_of(error.get("message")) or "it refused without a reason")
        return answer


def _deezer_track(given: dict[str, Json], cover: str | None = None) -> Recording | None:
    number, title = given.get("id"), text_of(given.get("title"))
    if not isinstance(number, int) or title is None:
        return None
    guests = (_name(one) for one in list_of(given.get("contributors")))
    artists = dict.fromkeys(filter(None, (_name(given.get("artist")), *guests)))
    return Recording(
        track_link(Service.DEEZER, str(number)),
        title,
        tuple(artists),
        milliseconds_of(given.get("duration")),
        text_of(given.get("isrc")) or "",
        artwork_of(object_of(given.get("album")).get("cover_xl")) or cover,
    )


class Apple:
    """`url` is that of the iTunes Search API, `country` that of the store where a link names none."""

    def __init__(self, client: ServiceClient, url: str, country: str) -> None:
        self._client = client
        self._url = url
        self._country = country.lower()

    async def track(self, link: ServiceLink) -> Recording:
        found = await self._ask("lookup", link.country, id=link.id)
        return _required(next(iter(_recordings(self._songs(found, link.country))), None))

    async def tracks(self, link: ServiceLink) -> RecordingList:
        found = await self._ask("lookup", link.country, id=link.id, entity="song", limit=_APPLE_PAGE)
        about = next((object_of(one) for one in found if object_of(one).get("wrapperType") == "collection"), {})
        tracks = _recordings(self._songs(found, link.country))
        if not about and not tracks:
            raise ServiceRefused("it knows no such album", 404)
        total = max(count_of(about.get("trackCount")), len(tracks))
        author = text_of(about.get("artistName")) or ""
        return RecordingList(text_of(about.get("collectionName")) or "", author, _apple_cover(about), tracks, total)

    async def search(self, words: str, limit: int) -> list[Recording]:
        found = await self._ask("search", "", term=words, entity="song", limit=limit)
        return list(_recordings(self._songs(found, "")))[:limit]

    async def _ask(self, path: str, country: str, **fields: str | int) -> list[Json]:
        try:
            answer = await self._client.json(
                f"{self._url}/{path}?{urlencode({**fields, 'country': country or self._country})}"
            )
        except ServiceRefused as refused:
            if refused.status == 403:
                raise ServiceRefused("it is asked too often by this address", 429) from None
            raise
        return list_of(answer.get("results"))

    def _songs(self, found: Iterable[Json], country: str) -> Iterable[Recording | None]:
        for one in map(object_of, found):
            number, title, artist = one.get("trackId"), text_of(one.get("trackName")), text_of(one.get("artistName"))
            if one.get("kind") == "song" and isinstance(number, int) and title is not None:
                link = track_link(Service.APPLE, str(number), country or self._country)
                length_ms = milliseconds_of(seconds_of(one.get("trackTimeMillis")))
                yield Recording(link, title, (artist,) if artist else (), length_ms, "", _apple_cover(one))


def _apple_cover(given: Mapping[str, Json]) -> str | None:
    cover = artwork_of(given.get("artworkUrl100"))
    return None if cover is None else cover.replace("100x100bb", "600x600bb")


def _required(recording: Recording | None) -> Recording:
    if recording is None:
        raise ServiceRefused("it knows no such track", 404)
    return recording


def _recordings(given: Iterable[Recording | None]) -> tuple[Recording, ...]:
    return tuple(one for one in given if one is not None)


def object_of(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def list_of(value: Json) -> list[Json]:
    return value[: 2 * MOST_LISTED] if isinstance(value, list) else []


def _name(value: Json) -> str:
    return text_of(object_of(value).get("name")) or ""


def count_of(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0


def seconds_of(value: Json) -> Json:
    return value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) else None

"""Spotify's data about tracks, albums and playlists: from its Web API with the operator's keys, or from the public
pages for embedding, if the operator has allowed that.

API: https://developer.spotify.com/documentation/web-api, as of the changes of February 2026. Page: as read by
microlinkhq/spotify-url-info.
"""

import base64
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

from tonearm.core.metadata import Json
from tonearm.core.recordings import Recording
from tonearm.core.service_links import Service, ServiceLink, track_link
from tonearm.sources.mirrors.requests import ServiceClient, ServiceRefused, json_object
from tonearm.sources.mirrors.services import MOST_LISTED, RecordingList, count_of, list_of, object_of, seconds_of
from tonearm.sources.resolver.answers import artwork_of, milliseconds_of, text_of

log = logging.getLogger(__name__)

_PAGE_TRACKS: Final = 50
_MOST_EMBEDDED: Final = 100  # tracks on the page of a list, which does not say how many there are
_MOST_FOUND: Final = 10  # of one search, since February 2026
_RENEWED_BEFORE_S: Final = 60.0
_WRONG_KEYS: Final = (400, 401)
_DATA: Final = re.compile(r'<script[^>]{0,200}\bid="__NEXT_DATA__"[^>]{0,200}>(.*?)</script>', re.DOTALL)
_TRACK: Final = re.compile(r"spotify:track:([A-Za-z0-9]{1,64})")
NEEDS_KEYS: Final = (
    "Set spotify.client_id and spotify.client_secret to the keys of an app of yours, or mirror.spotify_page_url."
)


class Spotify:
    """With empty `client_id` and `secret`, only the page is read. With an empty `page_url`, only the API is used."""

    def __init__(
        self,
        client: ServiceClient,
        api_url: str,
        token_url: str,
        page_url: str,
        client_id: str,
        secret: str,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._api_url = api_url
        self._token_url = token_url
        self._page_url = page_url
        self._keys = f"{client_id}:{secret}" if client_id else ""
        self._now_s = now_s
        self._token = ""
        self._token_until_s = 0.0
        self._has_warned = False

    @property
    def can_search(self) -> bool:
        return bool(self._keys)

    async def track(self, link: ServiceLink) -> Recording:
        """The track as the API describes it, or the page when the API refuses. Raises as all services."""
        try:
            return _api_track(await self._ask(f"tracks/{link.id}"))
        except ServiceRefused:
            if not self._page_url:
                raise
        entity = await self._page(link)
        names = [text_of(object_of(one).get("name")) for one in list_of(entity.get("artists"))]
        title = text_of(entity.get("name")) or text_of(entity.get("title"))
        if title is None:
            raise ServiceRefused("its page does not name the track")
        covers = list_of(object_of(entity.get("visualIdentity")).get("image"))
        length_ms = milliseconds_of(seconds_of(entity.get("duration")))
        return Recording(_link(link.id), title, tuple(filter(None, names)), length_ms, "", _cover(covers))

    async def tracks(self, link: ServiceLink) -> RecordingList:
        """Raises as `track`."""
        try:
            return await self._api_tracks(link)
        except ServiceRefused:
            if not self._page_url:
                raise
        entity = await self._page(link)
        given = list_of(entity.get("trackList"))
        covers = list_of(object_of(entity.get("coverArt")).get("sources"))
        name = text_of(entity.get("name")) or text_of(entity.get("title")) or ""
        author = text_of(entity.get("subtitle")) or ""
        tracks = tuple(_page_tracks(given))[:MOST_LISTED]
        may_go_on = ""
        if len(given) >= _MOST_EMBEDDED:
            may_go_on = f"Spotify's page shows only the first {len(given)} tracks of a list; this one may have more."
        return RecordingList(name, author, _cover(covers), tracks, len(given), may_go_on)

    async def search(self, words: str, limit: int) -> list[Recording]:
        limit = min(limit, _MOST_FOUND)
        found = await self._ask(f"search?q={quote(words)}&type=track&limit={limit}")
        return [_api_track(one) for one in _tracks_in(list_of(object_of(found.get("tracks")).get("items")))]

    async def _api_tracks(self, link: ServiceLink) -> RecordingList:
        kind = f"{link.kind}s/{link.id}"
        about = await self._ask(kind)
        cover = _cover(list_of(about.get("images")))
        within = object_of(about.get("tracks") or about.get("items"))
        given, total = list_of(within.get("items")), count_of(within.get("total"))
        path = f"{kind}/{'tracks' if link.kind == 'album' else 'items'}"
        while len(given) < min(total, MOST_LISTED):
            page = await self._ask(f"{path}?offset={len(given)}&limit={_PAGE_TRACKS}")
            more = list_of(page.get("items"))
            if not more:
                break
            given += more
        names = [text_of(object_of(one).get("name")) for one in list_of(about.get("artists"))]
        owner = text_of(object_of(about.get("owner")).get("display_name"))
        author = ", ".join(filter(None, names or [owner]))
        tracks = tuple(_api_track(one, cover) for one in _tracks_in(given))[:MOST_LISTED]
        if not tracks:
            raise ServiceRefused("it shows no tracks of this list to your app")
        return RecordingList(text_of(about.get("name")) or "", author, cover, tracks, max(total, len(tracks)))

    async def _ask(self, path: str) -> dict[str, Json]:
        """The API's answer. When the API refuses the token, a new token is requested once."""
        if not self._keys:
            raise ServiceRefused("this node has no keys for Spotify")
        for is_last in (False, True):
            token = await self._current_token()
            try:
                return await self._client.json(f"{self._api_url}/{path}", {"Authorization": f"Bearer {token}"})
            except ServiceRefused as refused:
                if refused.status == 404:
                    raise ServiceRefused("it knows no such track or list", 404) from None
                if refused.status != 401 or is_last:
                    raise
                self._token = ""
        raise AssertionError("the last try returns or raises")

    async def _current_token(self) -> str:
        if self._token and self._now_s() < self._token_until_s:
            return self._token
        basic = base64.b64encode(self._keys.encode()).decode()
        try:
            answer = await self._client.json(
                self._token_url, {"Authorization": f"Basic {basic}"}, body=b"grant_type=client_credentials"
            )
        except ServiceRefused as refused:
            if refused.status not in _WRONG_KEYS:
                raise
            if not self._has_warned:
                self._has_warned = True
                log.warning("Spotify refuses the keys in spotify.client_id and spotify.client_secret; check them")
            raise ServiceRefused("it does not take the keys in spotify.client_id", refused.status) from None
        token, lasts_s = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or len(token) > 4096:
            raise ServiceRefused("it gave no token")
        self._token = token
        self._token_until_s = self._now_s() + (lasts_s if isinstance(lasts_s, int) else 0) - _RENEWED_BEFORE_S
        return token

    async def _page(self, link: ServiceLink) -> dict[str, Json]:
        """The data of the page for embedding about its track or list."""
        page = await self._client.text(f"{self._page_url}/embed/{link.kind}/{link.id}")
        found = _DATA.search(page)
        if found is None:
            raise ServiceRefused("its page has no data")
        value: Json = await json_object(found[1])
        for name in ("props", "pageProps", "state", "data", "entity"):
            value = object_of(value).get(name)
        if not isinstance(value, dict):
            raise ServiceRefused("its page knows no such track or list", 404)
        return value


def _tracks_in(items: list[Json]) -> Iterator[dict[str, Json]]:
    """The tracks of albums and of playlist entries. A playlist entry may no longer have a track."""
    for item in map(object_of, items):
        track = object_of(item.get("item") or item.get("track")) or item
        if isinstance(track.get("id"), str) and text_of(track.get("name")):  # a file of the owner's own has no id
            yield track


def _api_track(given: dict[str, Json], cover: str | None = None) -> Recording:
    names = [text_of(object_of(one).get("name")) for one in list_of(given.get("artists"))]
    title, number = text_of(given.get("name")), given.get("id")
    if title is None or not isinstance(number, str) or not number.isalnum():
        raise ServiceRefused("its answer is not what was asked for")
    images = list_of(object_of(given.get("album")).get("images"))
    return Recording(
        _link(number),
        title,
        tuple(filter(None, names)),
        milliseconds_of(seconds_of(given.get("duration_ms"))),
        text_of(object_of(given.get("external_ids")).get("isrc")) or "",
        _cover(images) or cover,
    )


def _page_tracks(given: list[Json]) -> Iterator[Recording]:
    for one in map(object_of, given):
        found, title = _TRACK.fullmatch(str(one.get("uri"))), text_of(one.get("title"))
        if found is None or title is None:
            continue
        artists = [artist.strip() for artist in (text_of(one.get("subtitle")) or "").split(",")]
        length_ms = milliseconds_of(seconds_of(one.get("duration")))
        yield Recording(_link(found[1]), title, tuple(filter(None, artists)), length_ms)


def _link(track_id: str) -> str:
    return track_link(Service.SPOTIFY, track_id)


def _cover(images: list[Json]) -> str | None:
    """The URL of the largest cover, which comes first."""
    return next(filter(None, (artwork_of(object_of(one).get("url")) for one in images)), None)

"""Parses links of services that play only in their own apps: which track, album or playlist a link names.

The forms are those of topi314/LavaSrc, and of the services' share buttons.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal
from urllib.parse import parse_qs, urlsplit

from tonearm.core.source_uri import SourceUri


class Service(StrEnum):
    """A service, by its usual name."""

    SPOTIFY = "Spotify"
    DEEZER = "Deezer"
    APPLE = "Apple Music"


# The prefix of a search at a service.
MIRRORED_SEARCHES: Final = {"dzsearch": Service.DEEZER, "amsearch": Service.APPLE, "spsearch": Service.SPOTIFY}


@dataclass(frozen=True, slots=True)
class ServiceLink:
    """The content that a link names. `kind` is `short` for a link that redirects to another link. It is `other` for a
    link without music to find elsewhere, such as an artist's page. `country` is that of an Apple Music link,
    in lower case."""

    service: Service
    kind: Literal["track", "album", "playlist", "short", "other"]
    id: str = ""
    country: str = ""


_SPOTIFY: Final = re.compile(
    r"/(?:intl-[a-z-]{2,8}/)?(?:embed/)?(?:user/[^/]{1,100}/)?(?P<kind>track|album|playlist)/(?P<id>[A-Za-z0-9]{1,64})/?"
)
_DEEZER: Final = re.compile(r"/(?:[a-z]{2}/)?(?P<kind>track|album|playlist)/(?P<id>[0-9]{1,20})/?")
_APPLE: Final = re.compile(
    r"/(?:(?P<country>[a-z]{2})/)?(?:(?P<kind>album|song)/(?:[^/]+/)?(?P<id>[0-9]{1,20})|playlist/.{1,400})/?"
)
_SHORT_HOSTS: Final = {
    "spotify.link": Service.SPOTIFY,
    "link.deezer.com": Service.DEEZER,
    "deezer.page.link": Service.DEEZER,
}
_HOSTS: Final = {
    "open.spotify.com": (Service.SPOTIFY, _SPOTIFY),
    "deezer.com": (Service.DEEZER, _DEEZER),
    "www.deezer.com": (Service.DEEZER, _DEEZER),
    "music.apple.com": (Service.APPLE, _APPLE),
    "geo.music.apple.com": (Service.APPLE, _APPLE),
}
# By the host or its suffix.
_WITHOUT_MIRRORS: Final = {"tidal.com": "Tidal", "music.amazon.": "Amazon Music", "qobuz.com": "Qobuz"}


def service_link(uri: SourceUri) -> ServiceLink | None:
    """The content that `uri` names at one of the services; None for any other URI."""
    if uri.kind != "http" or uri.host is None:
        return None
    if uri.host in _SHORT_HOSTS:
        return ServiceLink(_SHORT_HOSTS[uri.host], "short")
    if uri.host not in _HOSTS:
        return None
    service, form = _HOSTS[uri.host]
    found = form.fullmatch(uri.path)
    if found is None or found["id"] is None:
        return ServiceLink(service, "other")
    parts = found.groupdict("")
    kind: Literal["track", "album", "playlist"]
    if service is Service.APPLE:
        song = parse_qs(urlsplit(uri.opened).query).get("i", [""])[-1]
        if parts["kind"] == "album" and re.fullmatch("[0-9]{1,20}", song):
            return ServiceLink(service, "track", song, parts["country"])
        kind = "track" if parts["kind"] == "song" else "album"
    else:
        kind = "playlist" if parts["kind"] == "playlist" else "album" if parts["kind"] == "album" else "track"
    return ServiceLink(service, kind, parts["id"], parts.get("country", ""))


def service_without_mirrors(uri: SourceUri) -> str:
    """The name of a service that plays only in its own apps and whose links are not looked up; empty for others."""
    host = f".{uri.host or ''}"
    return next(
        (
            name
            for end, name in _WITHOUT_MIRRORS.items()
            if host.endswith(f".{end}") or (end.endswith(".") and f".{end}" in host)
        ),
        "",
    )


def track_link(service: Service, track_id: str, country: str = "") -> str:
    """The service's own link of a track."""
    match service:
        case Service.SPOTIFY:
            return f"https://open.spotify.com/track/{track_id}"
        case Service.DEEZER:
            return f"https://www.deezer.com/track/{track_id}"
    return f"https://music.apple.com/{country}/song/{track_id}"

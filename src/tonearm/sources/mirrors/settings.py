"""The settings of mirrors: the sites where recordings are searched, and the addresses of the services."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """`search` names the searches for recordings, in order. `country` is the store of Apple Music for links that name
    no store. `by_words`: recordings are also searched by artist and title, not only by ISRC. `timeout_s` is for one
    request. Without `spotify_client_id`, Spotify's API is not used; without `spotify_page_url`, its pages are not."""

    enabled: bool = True
    search: tuple[str, ...] = ("ytsearch",)
    country: str = "US"
    deezer_url: str = "https://api.deezer.com"
    itunes_url: str = "https://itunes.apple.com"
    spotify_api_url: str = "https://api.spotify.com/v1"
    spotify_token_url: str = "https://accounts.spotify.com/api/token"  # noqa: S105 - an address
    spotify_page_url: str = ""
    spotify_client_id: str = ""
    spotify_client_secret: str = ""
    by_words: bool = True
    timeout_s: float = 20.0

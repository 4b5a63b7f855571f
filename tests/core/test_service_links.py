"""Which track, album or playlist a link of a service names."""

from tonearm.core.service_links import Service, ServiceLink, service_link, service_without_mirrors, track_link
from tonearm.core.source_uri import parse_source_uri

ID = "4uLU6hMCjMI75M1A2tKUQC"


LINKS = {
    f"https://open.spotify.com/track/{ID}?si=x": ServiceLink(Service.SPOTIFY, "track", ID),
    f"https://open.spotify.com/intl-de/album/{ID}": ServiceLink(Service.SPOTIFY, "album", ID),
    f"spotify:track:{ID}": ServiceLink(Service.SPOTIFY, "track", ID),
    f"spotify:user:ada:playlist:{ID}": ServiceLink(Service.SPOTIFY, "playlist", ID),
    "spotify:artist:1": ServiceLink(Service.SPOTIFY, "other"),
    "https://spotify.link/abc": ServiceLink(Service.SPOTIFY, "short"),
    "https://www.deezer.com/de/track/3135556": ServiceLink(Service.DEEZER, "track", "3135556"),
    "https://link.deezer.com/s/abc": ServiceLink(Service.DEEZER, "short"),
    "https://music.apple.com/de/album/night/1440": ServiceLink(Service.APPLE, "album", "1440", "de"),
    f"https://music.apple.com/jp/album/{'夜' * 50}/1440": ServiceLink(Service.APPLE, "album", "1440", "jp"),
    "https://music.apple.com/us/album/x/1440?i=1441": ServiceLink(Service.APPLE, "track", "1441", "us"),
    "https://geo.music.apple.com/us/song/ferry/1441": ServiceLink(Service.APPLE, "track", "1441", "us"),
    "https://music.apple.com/us/playlist/x/pl.abc": ServiceLink(Service.APPLE, "other"),
    "https://open.spotify.com.evil.example/track/1": None,
    "/open.spotify.com/track/1": None,
}


def test_what_a_link_names() -> None:
    assert {text: service_link(parse_source_uri(text)) for text in LINKS} == LINKS


def test_services_that_are_told_by_name() -> None:
    for text, name in (
        ("https://listen.tidal.com/track/1", "Tidal"),
        ("https://music.amazon.co.uk/albums/1", "Amazon Music"),
        ("https://nottidal.com/track/1", ""),
        ("/tidal.com", ""),
    ):
        assert service_without_mirrors(parse_source_uri(text)) == name


def test_a_tracks_own_link_names_it() -> None:
    for service, track_id, country in (
        (Service.SPOTIFY, ID, ""),
        (Service.DEEZER, "1", ""),
        (Service.APPLE, "2", "de"),
    ):
        link = parse_source_uri(track_link(service, track_id, country))
        assert service_link(link) == ServiceLink(service, "track", track_id, country)

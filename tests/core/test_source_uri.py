import contextlib
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonearm.core.errors import BadRequest
from tonearm.core.source_uri import (
    MAX_URI_CHARACTERS,
    hint_for_link,
    initial_track_info,
    item_of_page,
    media_fragment,
    parse_source_uri,
    title_from_uri,
    uri_for_logs,
)
from tonearm.core.track import Track
from tonearm.core.track_info import TrackInfo

NORMALISED = {
    "http://radio.example/a.mp3": "http://radio.example/a.mp3",
    "HTTP://Radio.EXAMPLE./a.mp3": "http://radio.example/a.mp3",
    "http://radio.example": "http://radio.example/",
    "http://radio.example:80/": "http://radio.example/",
    "https://radio.example:80/": "https://radio.example:80/",
    "http://radio.example:08000/": "http://radio.example:8000/",
    " http://radio.example/ ": "http://radio.example/",
    "http://radio.example/a b?c d#e f": "http://radio.example/a%20b?c%20d#e%20f",
    "http://radio.example/%7euser/%41%2f%c3%a4": "http://radio.example/~user/A%2F%C3%A4",
    "http://radio.example/a/%2e%2e/../../b/..": "http://radio.example/",
    "http://radio.example/a\\b": "http://radio.example/a%5Cb",
    "http://radio.example/a?b=http://other.example/../x": "http://radio.example/a?b=http://other.example/../x",
    "http://\uff52\uff41\uff44\uff49\uff4f.example/": "http://radio.example/",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/": "http://127.0.0.1/",
    "http://2130706433/": "http://127.0.0.1/",
    "http://0177.0.0.1/": "http://127.0.0.1/",
    "http://BÜCHER.example/": "http://xn--bcher-kva.example/",
    "http://straße.example/": "http://xn--strae-oqa.example/",
    "http://[2001:DB8:0:0::1]:8000/x": "http://[2001:db8::1]:8000/x",
    "/music/a b.mp3": "file:///music/a%20b.mp3",
    "//music/../x/./a.mp3": "file:///x/a.mp3",
    "file://localhost/music/a.mp3": "file:///music/a.mp3",
    "file:///music/what?#1.mp3": "file:///music/what%3F%231.mp3",
    "file:///music/f%fcr.mp3": "file:///music/f%FCr.mp3",
    "music/a.mp3": "file:music/a.mp3",
    "./12:30.mp3": "file:12:30.mp3",
}


def test_normalised_forms() -> None:
    uris = {text: parse_source_uri(text) for text in NORMALISED}
    assert {text: uri.normalised for text, uri in uris.items()} == NORMALISED
    assert all(uri.given == text for text, uri in uris.items())


REFUSED = {
    "is empty": ["", "   "],
    **{f"scheme '{scheme}' cannot be played": [f"{scheme}:a.mp3"] for scheme in ("ftp", "ytsearch", "data", "C")},
    "no host": [
        *("http:", "http:radio.example", "http:/radio.example/a", "http://", "http:///a.mp3", "http://:80/"),
        *("http://./", "http://?x"),
    ],
    "user name or password": [
        *("http://user@radio.example/", "http://user:secret@radio.example/", "http://good.example\\@bad.example/")
    ],
    "not a valid host name": [
        *("http://radio.example\\.bad.example/", "http://radio..example/", "http://radio example/"),
        *("http://%31%32%37.0.0.1/", "http://ra\u00addio.example/", "http://a℀b.example/"),
        f"http://{'a' * 64}.example/",
    ],
    "host name has at most 253": ["http://" + "a." * 150 + "example/"],
    "not a valid network address": [
        *("http://256.0.0.1/", "http://1.2.3.4.5/", "http://radio.1/", "http://089.0.0.1/", "http://4294967296/"),
        *("http://[::g]/", "http://[fe80::1%25eth0]/"),
    ],
    "not a valid": ["http://[::1/"],
    **{f"port '{port}'": [f"http://radio.example:{port}/"] for port in ("0", "65536", "8o", "\uff18\uff10", "-1")},
    "control characters": [
        *("http://radio.example/a\nb", "/music/a\0.mp3", "/music/\x7f", "/music/\x85", "/music/\ud800.mp3")
    ],
    "not UTF-8": ["/music/f\udcfcr.mp3"],
    "names the host 'server'": ["file://server/share/a.mp3"],
    "absolute path": ["file:a.mp3", "file://"],
    "percent-encoded control characters": ["file:///a%00b", "file:///a%0ab"],
    "at most 4096 characters": ["http://radio.example/" + "a" * MAX_URI_CHARACTERS],
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused_and_why(sentence: str) -> None:
    assert parse_source_uri("/" + "a" * (MAX_URI_CHARACTERS - 1)).kind == "file"  # the longest
    for text in REFUSED[sentence]:
        with pytest.raises(BadRequest) as refusal:
            parse_source_uri(text)
        assert sentence in refusal.value.message, text


def test_parts_of_an_http_uri() -> None:
    uri = parse_source_uri("HTTPS://Radio.example:8443/a%20b.mp3?key=1#part")
    assert (uri.kind, uri.host, uri.port, uri.path) == ("http", "radio.example", 8443, "/a%20b.mp3")
    assert uri.opened == uri.normalised
    assert uri.without_query == "https://radio.example:8443/a%20b.mp3"
    assert parse_source_uri("http://[::1]/").host == "::1"
    assert parse_source_uri("http://radio.example/").port == 80
    assert parse_source_uri("https://radio.example/").port == 443


def test_parts_of_a_file_whose_relative_path_starts_at_the_working_folder() -> None:
    uri = parse_source_uri("../songs/a%20b.mp3").absolute("/srv/node")
    assert (uri.given, uri.normalised) == ("../songs/a%20b.mp3", "file:///srv/songs/a%2520b.mp3")
    uri = parse_source_uri("file:///music/a%20b.mp3")
    assert (uri.kind, uri.host, uri.port, uri.path, uri.opened) == ("file", None, None, "/music/a b.mp3", uri.path)
    assert uri.without_query == uri.normalised
    for unchanged in (parse_source_uri("/a.mp3"), parse_source_uri("http://radio.example/")):
        assert unchanged.absolute("/srv") is unchanged


TITLES = {
    "http://radio.example/music/My%20Song.mp3?x=/y.ogg": "My Song",
    "http://radio.example/a%0Ab.mp3": "ab",
    "http://radio.example/f%FCr.mp3": "für",
    "http://radio.example/Vol.%202": "Vol. 2",
    "http://radio.example/.mp3": ".mp3",
    "http://radio.example/a%2Fb.mp3": "a/b",
    "http://radio.example/": "http://radio.example/",
    "/music/song.tar.gz": "song.tar",
    "/": "/",
}


def test_titles() -> None:
    assert {text: title_from_uri(parse_source_uri(text)) for text in TITLES} == TITLES


def test_a_fragment_names_a_part_of_what_is_opened() -> None:
    assert (media_fragment(0, None), media_fragment(0, 20)) == ("", "#t=0.000,0.020")
    for fragment, start_ms, end_ms in (
        ("#t=10,20", 10_000, 20_000),
        ("#t=,20", 0, 20_000),
        ("#t=1.5,2.0004", 1500, 2000),
        ("#t=npt:3,4.", 3000, 4000),
        *((media_fragment(*part), *part) for part in ((1500, None), (0, 20), (192_493, 240_000))),
    ):
        for whole in ("http://h.example/a.mp3", "http://h.example/a?x=1", "/m/a.flac", "file:///m/a%231.ogg"):
            uri, opened = parse_source_uri(whole + fragment), parse_source_uri(whole)
            assert (uri.given, uri.opened, uri.normalised) == (whole + fragment, opened.opened, opened.normalised)
            track = Track.create("t", uri)
            assert (track.start_ms, track.end_ms, track.info.identifier) == (start_ms, end_ms, whole + fragment)


def test_a_fragment_names_one_of_several_sounds() -> None:
    for text, audio, rest in (
        ("http://h.example/a.mkv?audio=1&x=2#audio=de-AT", "de-AT", ""),
        ("http://h.example/a.mkv#t=10,20&audio=2", "2", "#t=10,20"),
        ("http://h.example/a#item=3&audio=2", "2", "#item=3"),
        ("/m/a.mkv#audio=2", "2", ""),
    ):
        uri, whole = parse_source_uri(text), parse_source_uri(text.partition("#")[0] + rest)
        assert (uri.audio, uri.given) == (audio, text)
        assert (uri.normalised, uri.start_ms, uri.end_ms) == (whole.normalised, whole.start_ms, whole.end_ms)
        assert uri != replace(whole, given=text)


def test_any_other_fragment_names_no_part_and_no_sound() -> None:
    for fragment in (
        *("#t=", "#t=,", "#t=20,10", "#t=5,5", "#t=-1", "#t=1m30s", "#x", "#t=1&x", "#T=1"),
        *("?x=1&audio=2", "#audio=", "#xaudio=2"),
    ):
        uri = parse_source_uri("http://h.example/a.mp3" + fragment)
        assert (uri.start_ms, uri.end_ms, uri.audio) == (0, None, ""), fragment
        assert uri.normalised == "http://h.example/a.mp3" + fragment


def test_links_of_sites_name_a_start_in_their_own_way() -> None:
    for text, start_ms in (
        ("https://youtu.be/X?t=90", 90_000),
        ("https://www.youtube.com/watch?v=X&t=1h2m3s&list=Y", 3_723_000),
        ("https://soundcloud.com/a/b?si=x#t=1%3A02%3A03", 3_723_000),
        ("https://youtu.be/X?t=90#t=5", 5_000),
        ("https://www.youtube.com/playlist?list=Y&t=90", 0),
        *(
            (f"https://youtu.be/X?{none}", 0)
            for none in ("t=", "t=m:", "t=1700000000", "start_radio=1", "xt=9", "t=-9")
        ),
        *((f"{other}?t=90", 0) for other in ("https://youtube.example/X", "https://notyoutube.com/X", "/youtu.be/X")),
    ):
        uri = parse_source_uri(text)
        assert (uri.start_ms, uri.end_ms) == (start_ms, None), text
        assert "?t=90" not in text or uri.opened.endswith("?t=90")


def test_what_a_track_shows_before_it_was_opened() -> None:
    for given_uri, opened, title, source in (
        ("HTTP://Radio.example/a.mp3", "http://radio.example/a.mp3", "a", "http"),
        ("file:///m/b.ogg", "/m/b.ogg", "b", "file"),
    ):
        shown = TrackInfo(given_uri, opened, title, length_ms=0, is_seekable=False, is_stream=False, source_name=source)
        assert initial_track_info(parse_source_uri(given_uri)) == shown


@given(
    st.sampled_from(["", "http://", "https://h/", "http://h?", "file://", "file:///", "/", "./", "http://["]),
    st.text(max_size=60),
)
def test_any_text_is_refused_or_has_a_stable_form(start: str, rest: str) -> None:
    uri = None
    with contextlib.suppress(BadRequest):
        uri = parse_source_uri(start + rest)
    if uri is None:
        return
    assert uri.normalised.isascii()
    assert title_from_uri(uri)
    assert uri.absolute("/").absolute("/srv").path.startswith("/")
    if uri.kind == "http" and len(uri.normalised) <= MAX_URI_CHARACTERS:
        assert parse_source_uri(uri.normalised).normalised == uri.normalised


def test_a_client_names_a_sound_by_its_id_and_nothing_else_leads_to_one() -> None:
    sound = parse_source_uri(" Sound:3FA1#t=1,2 ", from_client=True)
    assert (sound.kind, sound.path, sound.normalised) == ("sound", "3fa1", "sound:3fa1")
    assert (sound.start_ms, sound.end_ms) == (1000, 2000)
    assert not title_from_uri(sound).count("3fa1")
    for text in ("sound:", "sound:xyz", "sound:../3fa1", "sound://3fa1", "sound:3fa1?x"):
        with pytest.raises(BadRequest):
            parse_source_uri(text, from_client=True)
    with pytest.raises(BadRequest):
        parse_source_uri("sound:3fa1")


def test_words_behind_a_key_are_a_search() -> None:
    for text, key, words in (
        ("  YTSearch:  never   gonna ", "ytsearch", "never gonna"),
        ("scsearch:a:b", "scsearch", "a:b"),
        ("ytsearch:http://radio.example/x.m3u#t=1", "ytsearch", "http://radio.example/x.m3u#t=1"),
    ):
        uri = parse_source_uri(text, from_client=True)
        assert (uri.kind, uri.given, uri.search_key, uri.path) == ("search", text, key, words)
        assert uri.normalised == uri.without_query == uri.opened == f"{key}:{words}"
        assert (uri.host, uri.names_track_list, uri.start_ms) == (None, False, 0)
        assert uri.absolute("/srv") is uri
        info = initial_track_info(uri)
        assert (info.identifier, info.title, info.source_name) == (text, words, "http")


def test_other_texts_are_no_search() -> None:
    for text, why in (("ytsearch:  ", "no words"), ("search:x", "scheme"), ("ytsearch5:x", "scheme")):
        with pytest.raises(BadRequest, match=why):
            parse_source_uri(text, from_client=True)
    assert parse_source_uri("1ytsearch:x", from_client=True).kind == "file"


def test_items_of_a_page() -> None:
    for text, page, item in (
        ("http://a.example/p#item=3", "http://a.example/p", 3),
        ("http://a.example/p?a=b#/x&item=12", "http://a.example/p?a=b#/x", 12),
        ("http://a.example/p#item=0", "http://a.example/p#item=0", None),
        ("http://a.example/p?item=3", "http://a.example/p?item=3", None),
    ):
        assert parse_source_uri(text).page == (page, item)
        if item is not None:
            assert item_of_page(parse_source_uri(page), item) == text


HINTS = {
    "youtube.com/watch?v=x": "https://youtube.com/watch?v=x",
    "youtu.be?x=1": "https://youtu.be?x=1",
    "radio.example:8000/live": "http://radio.example:8000/live",
    "localhost:8000": "http://localhost:8000",
    " radio.example/a b?x=1\u00a02": "https://radio.example/a%20b?x=1%202",
    "10:35": None,
    "./radio.example/live": None,
    "C:/song.mp3": None,
    "Best of.com mix/x.mp3": None,
}


def test_what_looks_like_a_host_gets_a_hint() -> None:
    hints = {text: f" If it is meant as a link, write {link}." if link else "" for text, link in HINTS.items()}
    assert {text: hint_for_link(text) for text in HINTS} == hints


TOLD = {
    "http://host/a.mp3?token=abc\u00a0secret": "http://host/a.mp3",
    "http://host/a b.mp3#secret": "http://host/a b.mp3",
    " HTTP://ada:my secret@host/a?secret": "HTTP://host/a",
    "host.example/a b?secret": "host.example/a b",
    "localhost:8000/a b#b?secret": "localhost:8000/a b",
    "file:///music/what? now.mp3": "file:///music/what",
    "/music/why #1? ask=me.mp3": "/music/why #1? ask=me.mp3",
    "ytsearch:what? is #1": "ytsearch:what? is #1",
}


def test_a_link_is_told_without_what_may_be_secret_whatever_blanks_are_in_it() -> None:
    assert {text: uri_for_logs(text) for text in TOLD} == TOLD


def test_a_long_text_is_told_and_a_long_name_of_a_host_refused_in_no_time_to_speak_of() -> None:
    begun_s = time.process_time()
    for text in ("www." * 20_000 + "!", "a." * 20_000 + "!", "www.a:" + "1" * 80_000 + "!"):
        assert uri_for_logs(text) == text
    for host in ("".join(map(chr, range(0x4E00, 0x4E00 + 4000))), "\ufdfa" * 4000, "\ufdfa" * 253):
        for _ in range(20):
            with pytest.raises(BadRequest, match="host"):
                parse_source_uri(f"http://{host}/")
    assert time.process_time() - begun_s < 10

import base64
import contextlib
import struct
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lavalink.utils import decode_track as decode_as_client

from tonearm.core.errors import InvalidIdentifier
from tonearm.core.track_codec import MAX_ENCODED_CHARACTERS, decode_track, encode_track
from tonearm.core.track_info import MAX_LENGTH_MS, TrackInfo

VERSION_2 = (
    "QAAAjQIAJVJpY2sgQXN0bGV5IC0gTmV2ZXIgR29ubmEgR2l2ZSBZb3UgVXAADlJpY2tBc3RsZXlWRVZPAAAAAAADPCAAC2RRdzR3OVdnWGNRAAEA"
    "K2h0dHBzOi8vd3d3LnlvdXR1YmUuY29tL3dhdGNoP3Y9ZFF3NHc5V2dYY1EAB3lvdXR1YmUAAAAAAAAAAA=="
)
VERSION_3 = (
    "QAAA4wMARkJsYWNrc3RyZWV0IC0gTm8gRGlnZ2l0eSAoT2ZmaWNpYWwgTXVzaWMgVmlkZW8pIGZ0LiBEci4gRHJlLCBRdWVlbiBQZW4AC0JsYWNr"
    "c3RyZWV0AAAAAAAEIpgACzNLTDltUnVzMTlvAAEAK2h0dHBzOi8vd3d3LnlvdXR1YmUuY29tL3dhdGNoP3Y9M0tMOW1SdXMxOW8BADRodHRwczov"
    "L2kueXRpbWcuY29tL3ZpLzNLTDltUnVzMTlvL21heHJlc2RlZmF1bHQuanBnAAAHeW91dHViZQAAAAAAAAAA"
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


def as_decoded(info: TrackInfo) -> TrackInfo:
    """A stream has no length and is not seekable. Only our own sources have a probe name."""
    length_ms = 0 if info.is_stream else info.length_ms
    probe_name = info.probe_name if info.source_name in ("http", "file") else ""
    return replace(info, length_ms=length_ms, is_seekable=not info.is_stream, probe_name=probe_name)


NAMES = st.sampled_from(["http", "file", "direct", "youtube"])
OTHERS = {"artwork_url": st.none() | TEXTS, "isrc": st.none() | TEXTS, "source_name": NAMES, "probe_name": TEXTS}
LENGTHS = st.integers(0, MAX_LENGTH_MS)
TRACKS = st.builds(TrackInfo, *(TEXTS,) * 4, LENGTHS, is_stream=st.booleans(), **OTHERS).map(as_decoded)
SONG = TrackInfo("/music/song.mp3", "/music/song.mp3", "Song \0 😀", "Bänd", 5000, True, source_name="file")


def message(body: bytes, header: int | None = None) -> str:
    return base64.b64encode(struct.pack(">I", 0x40000000 | len(body) if header is None else header) + body).decode()


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def body_of(
    version: bytes = b"\x03",
    *,
    length: bytes = bytes(8),
    is_stream: bytes = b"\0",
    nullables: bytes = b"\0\0\0",
    source: bytes = b"\0\4http",
    extras: bytes = b"\0\3mp3",
    position: bytes = bytes(8),
) -> bytes:
    return version + text("t") + text("a") + length + text("id") + is_stream + nullables + source + extras + position


def test_the_known_strings() -> None:
    info = decode_track(VERSION_2)
    assert (info.title, info.author) == ("Rick Astley - Never Gonna Give You Up", "RickAstleyVEVO")
    assert (info.identifier, info.uri) == ("dQw4w9WgXcQ", "https://www.youtube.com/watch?v=dQw4w9WgXcQ")
    assert (info.length_ms, info.is_seekable, info.source_name) == (212_000, True, "youtube")
    assert (info.artwork_url, info.isrc) == (None, None)
    info = decode_track(VERSION_3)
    assert info.title == "Blackstreet - No Diggity (Official Music Video) ft. Dr. Dre, Queen Pen"
    assert info.artwork_url == "https://i.ytimg.com/vi/3KL9mRus19o/maxresdefault.jpg"
    assert encode_track(info) == VERSION_3


@given(TRACKS)
@example(SONG)
def test_what_was_encoded_decodes(info: TrackInfo) -> None:
    assert decode_track(encode_track(info)) == info


@given(TRACKS)
def test_clients_of_the_field_read_our_identifiers(info: TrackInfo) -> None:
    # The client reads these two as plain UTF-8, which differs for NUL and beyond U+FFFF.
    plain = all(0 < ord(c) < 0x10000 for c in info.identifier + info.uri + (info.artwork_url or "") + info.probe_name)
    if not plain or "\0" in (info.isrc or "") or not (info.isrc or "").isascii():
        return
    track = decode_as_client(encode_track(info))
    for name in ("title", "author", "identifier", "uri", "artwork_url", "isrc"):
        assert getattr(track, name) == getattr(info, name)
    assert track.duration == ((1 << 63) - 1 if info.is_stream else info.length_ms)
    assert track.stream == info.is_stream
    assert track.source_name == ("local" if info.source_name == "file" else info.source_name)


def test_version_1_has_no_uri_nor_always_a_version_and_what_is_of_another_node_is_skipped() -> None:
    body = body_of(b"", nullables=b"")
    for encoded in (message(body_of(b"\x01", nullables=b"")), message(body, header=len(body))):
        info = decode_track(encoded)
        assert (info.title, info.identifier, info.uri, info.probe_name) == ("t", "id", "id", "mp3")
    extras = message(body_of(source=text("spotify"), extras=b"\1\0\5album\0\0\0\0\0"))
    assert decode_track(extras).source_name == "spotify"
    assert decode_track(message(body_of(position=struct.pack(">q", 12_345)))).title == "t"


def test_forgiven_writings() -> None:
    padded = encode_track(TrackInfo("i", "u", "t>>>???~~~ÿÿÿ", "~" * 5))
    assert "=" in padded or "+" in padded
    info = decode_track(padded)
    assert decode_track(padded.rstrip("=")) == info
    assert decode_track(padded.replace("+", "-").replace("/", "_")) == info
    assert decode_track(padded.replace("+", " ")) == info


def test_the_older_form_is_a_plain_uri() -> None:
    for plain, title in (
        ("https://radio.example/My%20Song.mp3?key=1", "My Song"),
        ("/music/album/01 Tune.flac", "01 Tune"),
        ("http://radio.example", "http://radio.example"),
    ):
        info = decode_track(base64.b64encode(plain.encode()).decode())
        assert (info.identifier, info.uri, info.title, info.source_name) == (plain, plain, title, "direct")
        assert decode_track(encode_track(info)).source_name == "direct"


def test_anything_else_is_refused() -> None:
    for encoded in (
        *("", "=", "====", "not base64!", "äöü", "QUJ\nD", "QUJDR", "QUJD=", "QU=JD"),
        *(base64.b64encode(text).decode() for text in (b"hello world", b"music/relative.mp3", b"ytsearch:something")),
        *(base64.b64encode(text).decode() for text in (b"http://", b"\xff\xfe\x00", b"/a\0b")),
        "A" * (MAX_ENCODED_CHARACTERS + 1),
        "A" * MAX_ENCODED_CHARACTERS,
        message(b""),
        *(message(body_of(version)) for version in (b"\x00", b"\x04")),
        message(body_of(), header=0xC0000000 | len(body_of())),
        *(message(body_of(), header=(0x40000000 | len(body_of())) + more) for more in (-1, 1)),
        message(body_of(length=b"\xff" * 8)),
        *(message(body_of(source=source)) for source in (b"\xff\xffhttp", b"\0\4ht\xff\xff")),
        *(message(body_of(position=b"\xff" * 8)), message(body_of(is_stream=b"\2"))),
        *(message(body_of(nullables=b"\0\7\0")), message(body_of(extras=b"\0\4mp3")), message(body_of() + b"garbage")),
        VERSION_3 + "AAAA",
    ):
        with pytest.raises(InvalidIdentifier):
            decode_track(encoded)


def test_every_cut_is_refused() -> None:
    whole = base64.b64decode(VERSION_3)
    for size in range(len(whole)):
        cut = whole[:size]
        with pytest.raises(InvalidIdentifier):
            decode_track(base64.b64encode(cut).decode())
        if size > 4:
            with pytest.raises(InvalidIdentifier):
                decode_track(message(cut[4:]))


@given(st.text() | st.binary(max_size=200).map(lambda body: base64.b64encode(body).decode()) | st.binary().map(message))
def test_nothing_raises_anything_else(encoded: str) -> None:
    with contextlib.suppress(InvalidIdentifier):
        decode_track(encoded)


def test_texts_too_long_for_the_format() -> None:
    long = TrackInfo("i", "u" * 70_000, "ö" * 70_000, "a" * 70_000, artwork_url="x" * 70_000, isrc="y" * 70_000)
    info = decode_track(encode_track(long))
    assert info.title == "ö" * 32_767
    assert info.author == "a" * 65_535
    assert (info.uri, info.artwork_url, info.isrc) == ("i", None, None)
    with pytest.raises(ValueError, match="identifier of a track has 70000 bytes"):
        encode_track(TrackInfo("i" * 70_000, "u", "t"))

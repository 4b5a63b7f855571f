"""Which file a name in a local playlist or CUE sheet means, whoever wrote it, and files whose names are no UTF-8."""

import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest

from tests.support.fetching import failure_of, opened, playlist_of
from tonearm.core.failure import FailureCode
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track_codec import decode_track, encode_track

SONG = "CD 1/03 x.mp3"
RUSSIAN = "Юлия.mp3"
JAPANESE = "日本の歌.mp3"

# The list's name and bytes; the file in its folder that is meant, by its bytes; and who reads it so.
Row = tuple[str, bytes | str, bytes | str, str]


def sheet(name: str) -> str:
    return f'FILE "{name}" WAVE\n  TRACK 01 AUDIO\n    TITLE "One"\n    INDEX 01 00:00:00\n'


def xspf(location: str) -> str:
    return f"<playlist><trackList><track><location>{location}</location></track></trackList></playlist>"


def pls(name: str) -> str:
    return f"[playlist]\nFile1={name}\n"


M3U: Sequence[Row] = [
    ("a.m3u", "CD%201/03%20x.mp3", SONG, "VLC writes it: percent-encoded"),
    ("a.m3u", "CD 1\\03 x.mp3", SONG, "Winamp, foobar2000: Windows' slashes"),
    ("a.m3u", "C:\\Music\\CD 1\\03 x.mp3", SONG, "Winamp on another machine: a drive and its folders"),
    ("a.m3u", "C:03 x.mp3", "03 x.mp3", "Windows: a drive without a folder"),
    ("a.m3u", "\\\\nas\\music\\CD 1\\03 x.mp3", SONG, "Windows: a share (UNC)"),
    ("a.m3u", "/home/her/Music/CD 1/03 x.mp3", SONG, "Rhythmbox: absolute, on another machine"),
    ("a.m3u", "file:///C:/Music/CD%201/03%20x.mp3", SONG, "VLC on Windows"),
    ("a.m3u", "cd%201\\03%20X.MP3", SONG, "all of that"),
    ("a.m3u", "Z:\\x\\cd 1\\03 X.flac", SONG, "all of that"),
    ("a.m3u", "#EXTM3U\n#EXTINF:1,T\nCafe\u0301.mp3", "Caf\u00e9.mp3", "macOS: letters and accents apart"),
    ("a.m3u", "100%.mp3", "100%.mp3", "the name as written comes first"),
    ("a.m3u", "a\\b.mp3", "a\\b.mp3", "the name as written comes first, as Linux allows it"),
    ("a.m3u", "take #t=1", "take #t=1", "not even a fragment, where the file has that name"),
    ("a.m3u", "CD 1\\03 x.mp3#t=10", SONG, "a part of the file (W3C Media Fragments), elsewhere written"),
    ("a.xspf", xspf("CD%201/03%20x.mp3"), SONG, "XSPF 1, 4.1.1: a URI"),
    ("a.xspf", xspf("100%25.mp3"), "100%.mp3", "a URI is decoded first"),
]
ENCODINGS: Sequence[Row] = [
    ("a.m3u", RUSSIAN.encode("utf-16"), RUSSIAN, "Windows' Notepad: UTF-16 with a mark, little-endian"),
    ("a.m3u", RUSSIAN.encode("cp1251"), RUSSIAN, "Winamp on Russian Windows"),
    ("a.m3u", b"#EXTM3U\n#EXTENC: windows-1251\n" + RUSSIAN.encode("cp1251"), RUSSIAN, "the list says it"),
    ("a.m3u", "Für Elise.mp3".encode("latin-1"), "Für Elise.mp3", "Latin-1"),
    ("a.m3u", JAPANESE.encode("cp932"), JAPANESE, "Japanese Windows"),
    ("a.cue", sheet("Юлия.wav").encode("cp1251"), RUSSIAN, "EAC on Russian Windows, with another ending"),
    ("a.m3u", b"f\xfcr.mp3", b"f\xfcr.mp3", "a name that is no UTF-8, byte by byte: all players on Linux"),
    ("a.m3u", b"f%FCr.mp3", b"f\xfcr.mp3", "VLC writes it so"),
    ("a.m3u", b"CD \xe4\\f\xfcr.mp3", b"CD \xe4/f\xfcr.mp3", "both are wrong"),
]
SHEETS: Sequence[Row] = [
    ("a.cue", sheet("a.wav"), "a.flac", "EAC: the sheet was written before the file was encoded"),
    ("a.ape.cue", sheet("CDImage.wav"), "a.ape.flac", "foobar2000: the file called as the sheet is"),
    ("My Album.cue", sheet("CDImage.wav"), "my album.ogg", "the same in other case"),
    ("a.cue", sheet("a%20b.flac"), "a%20b.flac", "a name as written comes first"),
]


def make(folder: Path, name: bytes | str) -> bytes:
    path = os.path.join(os.fsencode(folder), name if isinstance(name, bytes) else name.encode())
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"sound")
    return path


@pytest.mark.parametrize(("name", "data", "meant", "who"), [*M3U, *ENCODINGS, *SHEETS])
async def test_the_file_that_is_meant(
    tmp_path: Path, name: str, data: bytes | str, meant: bytes | str, who: str
) -> None:
    path = make(tmp_path, meant)
    make(tmp_path, "another.mp3")
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    for files in (True, (str(tmp_path),)):
        playlist = await playlist_of(str(tmp_path / name), files=files)
        assert [os.fsencode(entry.uri.path) for entry in playlist.entries] == [path], who
        given = playlist.entries[0].uri.given
        given.encode()  # a client gives this text, which is one that JSON can hold
        async with opened(given) as file:
            assert await file.reader.read_at(0, 100) == b"sound"


async def test_names_that_are_not_utf_8_play_from_a_folder_and_by_a_uri_and_have_a_title(tmp_path: Path) -> None:
    path = make(tmp_path, b"M\xfcller/f\xfcr.mp3")
    uri = f"file://{quote_from_bytes(os.path.dirname(path))}"
    told = await failure_of(f"{uri}/none.mp3")
    assert told.hint == f"Check the path; the node looks for it in {tmp_path}/Müller."
    folder = await playlist_of(uri)
    assert folder.name == "Müller"
    assert [entry.uri.given for entry in folder.entries] == [f"file://{quote_from_bytes(path)}"]
    track = folder.tracks(uuid.uuid4)[0]
    assert (track.info.title, track.info.uri) == ("für", track.uri.given)
    assert decode_track(encode_track(track.info)).identifier == track.uri.given
    for uri in (track.uri.given, track.uri.given.lower(), track.info.uri):
        assert os.fsencode(parse_source_uri(uri).path).lower() == path.lower()
    async with opened(track.uri.given) as file:
        assert (file.name, await file.reader.read_at(0, 9)) == ("für.mp3", b"sound")


async def test_what_is_not_found_stays_as_it_was_written(tmp_path: Path) -> None:
    make(tmp_path, "another.mp3")
    (tmp_path / "a.m3u").write_text("CD%201\\x.mp3\nC:\\Music\\x.mp3\n/other/place.mp3\nftp://a/another.mp3")
    playlist = await playlist_of(str(tmp_path / "a.m3u"))
    assert [entry.uri.given for entry in playlist.entries] == [f"{tmp_path}/CD%201\\x.mp3", "/other/place.mp3"]
    drive, scheme = playlist.left_out.reasons
    assert ("drive" in drive, "scheme 'ftp'" in scheme) == (True, True)


async def test_what_the_policy_forbids_is_neither_opened_nor_looked_for(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    make(inside, "own.mp3")
    make(tmp_path, "secret.mp3")
    (inside / "link.mp3").symlink_to(tmp_path / "secret.mp3")
    (inside / "way out").symlink_to(tmp_path)
    forbidden = ["../secret.mp3", "..\\SECRET.wav", "%2e%2e/secret.mp3", "/etc/passwd", "/proc/self/environ"]
    names = [*forbidden, "LINK.mp3", "way out/Secret.mp3", "own.mp3"]
    (inside / "a.m3u").write_text("\n".join(names))
    playlist = await playlist_of(str(inside / "a.m3u"), files=(str(inside),))
    found = [entry.uri.path for entry in playlist.entries]
    assert found[-1] == f"{inside}/own.mp3"
    for path in found[:-1]:
        told = await failure_of(path, files=(str(inside),))
        assert told.code in (FailureCode.SOURCE_REFUSED, FailureCode.FILE_MISSING)
    assert any("sources.files" in reason for reason in playlist.left_out.reasons)


async def test_the_looking_has_an_end(tmp_path: Path) -> None:
    deep = "/".join(f"d{number}" for number in range(1000))
    lines = [f"C:\\{'x' * 200}\\{number}\\{deep}"[:1800] + ".mp3" for number in range(500)]
    lines[0] = "\\".join("a" * 2000)
    (tmp_path / "a.m3u").write_bytes("\n".join(lines).encode() + b"\n\xff.mp3\n")
    make(tmp_path, "x.mp3")
    begun_s = time.process_time()
    playlist = await playlist_of(str(tmp_path / "a.m3u"))
    assert (len(playlist.entries), playlist.left_out.count, len(playlist.left_out.reasons)) == (1, 500, 2)
    assert time.process_time() - begun_s < 10

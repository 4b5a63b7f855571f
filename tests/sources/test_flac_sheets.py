"""The CUE sheet within a FLAC file gives tracks."""

import struct
import time
from pathlib import Path

import pytest

from tests.support.fetching import opener
from tests.support.media_server import MediaServer, media
from tonearm.core.failure import PlayError
from tonearm.core.play_queue import Playlist
from tonearm.core.source_uri import parse_source_uri

RATE_HZ = 44_100
TEXT = """PERFORMER "The Band"
TITLE "The Album"
FILE "CDImage.wav" WAVE
  TRACK 01 AUDIO
    TITLE "One"
    INDEX 01 00:00:00
  TRACK 02 AUDIO
    TITLE "Zwei für Ä"
    PERFORMER "A Guest"
    INDEX 00 00:09:00
    INDEX 01 00:10:00
"""
OF_TEXT = [("One", "The Band", 0, 10_000), ("Zwei für Ä", "A Guest", 10_000, None)]
OF_BLOCK = [("Track 1", "", 0, 10_000), ("Track 2", "", 10_000, 20_500), ("Track 3", "", 20_500, None)]


def block(kind: int, data: bytes, *, is_last: bool = False, size: int | None = None) -> bytes:
    return bytes([kind | 0x80 * is_last]) + (len(data) if size is None else size).to_bytes(3, "big") + data


def stream_info(rate_hz: int = RATE_HZ) -> bytes:
    return block(0, bytes(10) + (rate_hz << 44 | 1 << 41 | 15 << 36).to_bytes(8, "big") + bytes(16))


def comments(*texts: str) -> bytes:
    body = struct.pack("<I", 4) + b"test" + struct.pack("<I", len(texts))
    for text in texts:
        body += struct.pack("<I", len(text.encode())) + text.encode()
    return block(4, body)


def sheet(*tracks: tuple[int, float, float, bool], count: int | None = None) -> bytes:
    """A CUESHEET block: each track's number, where it begins, where its index 1 is behind that, and if it is audio."""
    body = bytes(395) + bytes([len(tracks) if count is None else count])
    for number, start_s, gap_s, is_audio in tracks:
        indices = [] if number > 99 else [0] * (gap_s > 0) + [1]
        body += struct.pack(">QB12sB13xB", int(start_s * RATE_HZ), number, b"", 0 if is_audio else 0x80, len(indices))
        for index in indices:
            body += struct.pack(">QB3x", int(gap_s * RATE_HZ) * index, index)
    return block(5, body)


SHEET = sheet((1, 0, 0, True), (2, 9, 1, True), (3, 20.5, 0, True), (170, 30, 0, True))
END = block(1, bytes(100), is_last=True) + b"\xff\xf8" + bytes(5000)
MANY_INDICES = struct.pack(">QB12sB13xB", 0, 1, b"", 0x80, 255) + bytes(12 * 255)  # of a track of data
PICTURES = b"36 MB of pictures"  # which are put there by the test
WITH_TEXT = b"fLaC" + stream_info() + comments("ALBUM=Other", f"cuesheet={TEXT}") + END


@pytest.mark.parametrize(
    ("file", "tracks"),
    [
        (WITH_TEXT, OF_TEXT),  # foobar2000, MusicBee, Kodi
        (b"fLaC" + stream_info() + SHEET + END, OF_BLOCK),  # ffmpeg: chapters at these times; flac --cuesheet made it
        (b"fLaC" + stream_info() + SHEET + comments(f"CUESHEET={TEXT}") + END, OF_TEXT),  # the one with titles
        (b"fLaC" + stream_info() + PICTURES + SHEET + END, OF_BLOCK),
        (b"ID3\4\0\0\0\0\x10\0" + bytes(2048) + WITH_TEXT, OF_TEXT),  # ffmpeg: ID3 before FLAC is passed over
        (b"fLaC" + stream_info() + sheet((1, 0, 0, True), (2, 5, 0, False), (170, 9, 0, True)) + END,
         [("Track 1", "", 0, 5000)]),  # RFC 9639, 8.7.1: a track of data
        (b"fLaC" + stream_info() + sheet((1, 0, 0, True), (2, 3e14, 0, True)) + END, [("Track 1", "", 0, None)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["file", "ranges", "stream"])
async def test_its_tracks_are_listed(
    tmp_path: Path, server: MediaServer, file: bytes, tracks: list[tuple[str, str, int, int | None]], place: str
) -> None:
    file = file.replace(PICTURES, block(6, bytes(9_000_000)) * 4)
    (tmp_path / "the album.flac").write_bytes(file)
    uri = str(tmp_path / "the album.flac")
    if place != "file":
        uri = server.serve("/the%20album.flac", media(file, content_type="audio/flac", ranges=place == "ranges"))
    if place == "stream" and len(file) > 30_000_000:
        assert await _listed(uri) is None  # too much to pass over
        return
    playlist = await _listed(uri)
    assert playlist is not None
    assert [(e.title, e.author, e.uri.start_ms, e.uri.end_ms) for e in playlist.entries] == tracks
    assert {(e.uri.opened, e.is_part) for e in playlist.entries} == {(uri, True)}
    assert [e.length_ms for e in playlist.entries] == [0 if end is None else end - start for *_, start, end in tracks]
    assert playlist.name == ("The Album" if tracks == OF_TEXT else "the album")


async def _listed(uri: str) -> Playlist | None:
    async with opener() as source_opener:
        try:
            return await source_opener.open_list(source_opener.admit(parse_source_uri(uri)))
        except PlayError as error:
            if "single track" not in error.failure.message:
                raise
            return None


HEAD = b"fLaC" + stream_info()


@pytest.mark.parametrize(
    "file",
    [
        *(HEAD + more for more in (END, block(5, b"short") + END, sheet((1, 0, 0, True), count=255))),
        b"fLaC" + stream_info(0) + SHEET + END,
        HEAD + comments("CUESHEET=" + TEXT + 'FILE "b.wav" WAVE\nTRACK 03 AUDIO\nINDEX 01 00:00:00'),
        b"fLaC" + block(4, struct.pack("<II", 0, 0xFFFFFFFF) + b"\xff" * 1000) + END,
        b"fLaC" + block(4, b"", size=0xFFFFFF),
        b"fLaC" + block(2, b"") * 400_000,
        HEAD + comments(*["x"] * 10_000, f"CUESHEET={TEXT}") + END,  # behind too many others
        HEAD + block(5, bytes(395) + b"\xff" + MANY_INDICES * 255 + bytes(1_300_000)) + END,
        b"fLaC",
        b"ID3\4\0\0\x7f\x7f\x7f\x7f" + bytes(100),
    ],
)
async def test_what_has_none_is_a_single_track(tmp_path: Path, file: bytes) -> None:
    (tmp_path / "a.flac").write_bytes(file)
    begun_s = time.process_time()
    playlist = await _listed(str(tmp_path / "a.flac"))
    assert playlist is None or len(playlist.entries) <= 1
    assert time.process_time() - begun_s < 2


async def test_a_long_sheet_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    sheet_of_many = "CUESHEET=" + "TRACK 01 AUDIO\n" * 100_000
    (tmp_path / "a.flac").write_bytes(b"fLaC" + stream_info() + comments(sheet_of_many) + END)
    of_loop_s, of_all_s = time.thread_time(), time.process_time()
    assert await _listed(str(tmp_path / "a.flac")) is None
    assert time.thread_time() - of_loop_s < (time.process_time() - of_all_s) / 2

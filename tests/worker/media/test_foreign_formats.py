"""What is no sound, or none that is played, is told by its name, and with what to give instead."""

import io
import struct

import pytest

from tests.support.audio_files import id3, music, wav
from tests.support.pictures import png
from tonearm.core.failure import FailureCode, PlayError, PlayFailure
from tonearm.core.opened_source import RESOLVER_HINT, UNRESOLVED_PAGE
from tonearm.worker.media.media import open_media

NO_AUDIO, NO_CODEC = FailureCode.NOT_AUDIO, FailureCode.UNSUPPORTED_CODEC
XML = '<?xml version="1.0" encoding="UTF-8"?>\n<!-- made by hand -->\n'


def failure_of(file: bytes, content_type: str | None = None) -> PlayFailure:
    with pytest.raises(PlayError) as caught:
        open_media(io.BytesIO(file), name="song", content_type=content_type, size_bytes=len(file))
    return caught.value.failure


# What ffmpeg (ffprobe -f of its own choice) says of the same bytes stands behind each.
@pytest.mark.parametrize(
    ("file", "code", "is_what", "instead"),
    [
        (b"DSD " + struct.pack("<QQQ", 28, 5000, 0) + bytes(500), NO_CODEC, "DSD", "FLAC"),  # dsf
        (b"FRM8" + bytes(8) + b"DSD " + bytes(500), NO_CODEC, "DSD", "FLAC"),  # iff
        (b"MAC \x96\x0f\0\0" + bytes(500), NO_CODEC, "Monkey's Audio (APE)", "FLAC"),  # ape
        (id3(texts={"TIT2": b"\0x"}) + b"MAC \x96\x0f" + bytes(500), NO_CODEC, "(APE)", "FLAC"),  # ape
        (b"MPCK" + bytes(500), NO_CODEC, "Musepack", "FLAC"),  # mpc8
        (b"MP+\x07" + bytes(500), NO_CODEC, "Musepack", "FLAC"),  # mpc
        (b"TTA1\x01\0" + bytes(500), NO_CODEC, "True Audio", "FLAC"),  # tta
        (b"tBaK" + bytes(500), NO_CODEC, "TAK", "FLAC"),  # tak
        (b".RMF\0\0\0\x12" + bytes(500), NO_CODEC, "RealMedia", "MP3"),  # rm
        (b"#!AMR\n" + bytes(500), NO_CODEC, "AMR", "MP3"),  # amr
        (b"\0\0\0\x1cftypaax " + bytes(500), NO_CODEC, "Audible", "MP3"),  # aax: asks for a key
        (b"MThd\0\0\0\6\0\1\0\1\0\x60MTrk" + bytes(50), NO_CODEC, "MIDI", "synthesizer"),  # unknown to it
        (b"RIFF\0\1\0\0RMIDdata" + bytes(50), NO_CODEC, "MIDI", "synthesizer"),  # unknown to it
        (b"Extended Module: x" + bytes(500), NO_CODEC, "tracker", "FLAC"),  # libopenmpt, or unknown
        (b"IMPMx" + bytes(500), NO_CODEC, "tracker", "FLAC"),  # the same
        (b"PK\3\4" + bytes(500), NO_AUDIO, "archive", "Unpack"),  # unknown to it, as what follows
        (b"Rar!\x1a\7\1\0" + bytes(500), NO_AUDIO, "archive", "Unpack"),
        (b"7z\xbc\xaf\x27\x1c" + bytes(500), NO_AUDIO, "archive", "Unpack"),
        (b"\x1f\x8b\x08\0" + bytes(500), NO_AUDIO, "archive", "Unpack"),
        (b"%PDF-1.7\n" + bytes(500), NO_AUDIO, "PDF", "audio file"),
        (png(), NO_AUDIO, "picture", "audio file"),  # png_pipe
        (b"d8:announce35:http://tracker.example/announce" + bytes(99), NO_AUDIO, "torrent", "audio file"),
        (b"<!DOCTYPE html>\n<html><head>", NO_AUDIO, "web page", "direct address"),
        (b"\xef\xbb\xbf\n <HTML lang=de>", NO_AUDIO, "web page", "direct address"),
        ((XML + "<html xmlns='x'>").encode(), NO_AUDIO, "web page", "direct address"),
        (b"<script>location='/login'</script>", NO_AUDIO, "web page", "direct address"),
        ((XML + '<opml version="2.0"><body><outline xmlUrl="x"/>').encode(), NO_AUDIO, "OPML", "xmlUrl"),
        ((XML + '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011">').encode(), NO_AUDIO, "DASH", ".m3u8"),  # dash
        ((XML + '<SmoothStreamingMedia MajorVersion="2">').encode(), NO_AUDIO, "Smooth Streaming", ".m3u8"),
        ((XML + '<rss version="2.0"><channel>').encode(), NO_AUDIO, "podcast feed", ".rss"),
        ((XML + '<feed xmlns="http://www.w3.org/2005/Atom">').encode("utf-16"), NO_AUDIO, "podcast feed", ".rss"),
        (b'<ASX VERSION="3.0">', NO_AUDIO, "playlist", ".asx"),
        (b"#EXTM3U\n#EXTINF:1,x\nx.mp3\n", NO_AUDIO, "playlist", ".m3u"),
        (b"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n0.ts\n#EXT-X-ENDLIST\n", NO_AUDIO, "playlist", ".m3u"),  # hls
        (b"[playlist]\nFile1=x\n", NO_AUDIO, "playlist", ".pls"),
        ((XML + "<svg>").encode(), NO_AUDIO, "XML", "audio file"),
        (b'{"error": "not found"}', NO_AUDIO, "JSON", "audio file"),
    ],
)  # fmt: skip
def test_it_is_called_by_its_name(file: bytes, code: FailureCode, is_what: str, instead: str) -> None:
    failure = failure_of(file)
    assert (failure.code, is_what in failure.message, instead in failure.hint) == (code, True, True), failure


def test_a_page_on_a_node_without_a_resolver_names_it() -> None:
    assert failure_of(b"<html>", UNRESOLVED_PAGE).hint == RESOLVER_HINT


@pytest.mark.parametrize(
    "file",
    [
        b"hello " * 100,
        b"ffconcat version 1.0\nfile '/etc/passwd'\n",
        b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\nc=IN IP4 127.0.0.1\r\nm=audio 5004 RTP/AVP 0\r\n",
        bytes(70_000),
        b"\xff",
    ],
)
def test_what_nobody_knows(file: bytes) -> None:
    failure = failure_of(file)
    assert (failure.code, "known audio format" in failure.message) == (NO_AUDIO, True), failure


def test_sound_is_sound_whatever_the_server_says() -> None:
    file = wav(music(0.1))
    for content_type in ("text/html", "application/rss+xml", "application/zip"):
        open_media(io.BytesIO(file), name="x", content_type=content_type, size_bytes=len(file)).close()

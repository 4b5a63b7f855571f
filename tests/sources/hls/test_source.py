"""HLS over real HTTP: what a decoder gets of a stream, live or whole, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.audio_files import Signal, tone
from tests.support.fetching import IMPATIENT, QUICK, opened, parts_of, read_all
from tests.support.hls import Cut, LivePlaylist, fmp4, media_playlist, packed_aac, packed_mp3, serve_cut, serve_text, ts
from tests.support.media_files import UnseekableReader, decode_rest, loudest_hz
from tests.support.media_server import Answer, MediaServer, Reply, Request, in_turn, media, redirect, status
from tonearm.config.patterns import compile_pattern
from tonearm.core.failure import FailureCode, PlayError, PlayFailure
from tonearm.sources.http.settings import FetchSettings
from tonearm.worker.media.media import open_media

SOUND = tone(440, 3.0)
PIECES = [bytes([number]) * 5000 for number in range(1, 13)]


async def read_parts(uri: str, settings: FetchSettings = QUICK, **options: Any) -> list[bytes]:
    async with opened(uri, settings, **options) as source:
        return await parts_of(source)


async def failure_of(uri: str, settings: FetchSettings = QUICK, **options: Any) -> PlayFailure:
    with pytest.raises(PlayError) as caught:
        await read_parts(uri, settings, **options)
    return caught.value.failure


def serve_pieces(server: MediaServer, pieces: list[bytes] = PIECES) -> list[str]:
    names = [f"{number}.ts" for number in range(len(pieces))]
    for name, piece in zip(names, pieces, strict=True):
        server.serve(f"/hls/{name}", media(piece, content_type="video/mp2t"))
    return names


def serve_live(server: MediaServer, playlist: LivePlaylist) -> str:
    return server.serve("/hls/live.m3u8", playlist.answer)


def live_in_turn(server: MediaServer, *windows: tuple[list[str], int]) -> Answer:
    """A live playlist that shows these segments, with the number of the first; each window until its last segment was
    asked for, however fast anybody reads."""
    waiting = list(windows)

    async def answer(request: Request, reply: Reply) -> None:
        if len(waiting) > 1 and waiting[0][0][-1] in asked(server):
            waiting.pop(0)
        names, number = waiting[0]
        text = media_playlist(names, sequence=number, is_complete=len(waiting) == 1, duration_s=0.02)
        await media(text.encode(), etag=None)(request, reply)

    return answer


def asked(server: MediaServer) -> list[str]:
    return [request.path.rpartition("/")[2] for request in server.requests if request.path.endswith(".ts")]


@pytest.mark.parametrize("cut", [ts, packed_aac, packed_mp3, fmp4])
async def test_every_kind_of_segment_plays_through(server: MediaServer, cut: Callable[[Signal, int], Cut]) -> None:
    made = cut(SOUND, 6)
    async with opened(serve_text(server, "/hls/index.m3u8", media_playlist(serve_cut(server, made)))) as source:
        assert (source.is_live, source.is_seekable, source.length_ms) == (False, False, 3000)
        [whole] = await parts_of(source)
    assert whole == made.whole
    samples = decode_rest(open_media(UnseekableReader(whole), name="", content_type=None, size_bytes=None))
    assert len(samples) == pytest.approx(3 * 48_000, abs=3 * 1152 + 1024)
    assert loudest_hz(samples[4800:-9600]) == pytest.approx(440, abs=1)


async def test_a_fragment_of_mp4_that_is_cut_off_ends_a_part(server: MediaServer) -> None:
    """A demuxer would take what follows for the rest of it, to the end of the stream."""
    made = fmp4(SOUND, 6)
    uri = serve_text(server, "/hls/index.m3u8", media_playlist(serve_cut(server, made)))
    half = len(made.segments[2]) // 2
    server.serve("/hls/2.m4s", in_turn(media(made.segments[2], cut_after=half), status(404)))
    assert made.init is not None
    begun = [*made.segments[:2], made.segments[2][:half]]
    assert await read_parts(uri) == [made.init + b"".join(begun), made.init + b"".join(made.segments[3:])]


async def test_master_playlist_redirects_and_relative_references(server: MediaServer) -> None:
    names = [f"../media/{name}" for name in serve_cut(server, Cut("ts", tuple(PIECES)), "/far/away/media")]
    server.serve("/far/away/media/1.ts", redirect("/far/away/media/0.ts"))
    serve_text(server, "/far/away/index/low.m3u8", media_playlist(names))
    serve_text(server, "/far/master.m3u8", "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\naway/index/low.m3u8\n")
    uri = server.serve("/start", redirect("/far/master.m3u8"))
    assert await read_parts(uri) == [b"".join([PIECES[0], PIECES[0], *PIECES[2:]])]


async def test_byte_ranges_of_one_file(server: MediaServer) -> None:
    made = fmp4(SOUND, 4)
    assert made.init is not None
    lines = [f'#EXT-X-MAP:URI="all.mp4",BYTERANGE="{len(made.init)}@0"']
    lines += [f"#EXT-X-BYTERANGE:{len(made.segments[0])}@{len(made.init)}", "all.mp4"]
    for segment in made.segments[1:]:
        lines += [f"#EXT-X-BYTERANGE:{len(segment)}", "all.mp4"]
    uri = serve_text(server, "/hls/index.m3u8", media_playlist(lines))
    for ranges in (True, False):
        server.serve("/hls/all.mp4", media(made.whole, ranges=ranges))
        assert await read_parts(uri) == [made.whole]


async def test_where_something_changes_a_part_ends(server: MediaServer) -> None:
    cuts = {"one": fmp4(SOUND, 2), "two": fmp4(tone(880, 1.0, 44_100), 2, 44_100)}
    names: list[str] = []
    for folder, made in cuts.items():
        init, *segments = serve_cut(server, made, f"/hls/{folder}")
        names += [init.replace('"init', f'"{folder}/init'), *(f"{folder}/{name}" for name in segments)]
    uri = serve_text(server, "/hls/index.m3u8", media_playlist(names))
    assert await read_parts(uri) == [made.whole for made in cuts.values()]


async def test_a_break_and_a_gap_end_a_part(server: MediaServer) -> None:
    a, b, c, d, *_ = serve_pieces(server)
    text = media_playlist([a, "#EXT-X-DISCONTINUITY", b, "#EXT-X-GAP", c, d])
    assert await read_parts(serve_text(server, "/hls/index.m3u8", text)) == [PIECES[0], PIECES[1], PIECES[3]]
    assert "2.ts" not in asked(server)


async def test_only_a_little_is_held_in_memory(server: MediaServer) -> None:
    pieces = [bytes([number]) * 2_000_000 for number in range(1, 4)]
    names = serve_pieces(server, pieces)
    async with opened(serve_text(server, "/hls/index.m3u8", media_playlist(names))) as source:
        await source.reader.read_at(0, 10)
        await server.requested(2)
        assert await server.held_up() < 8_000_000
        assert asked(server) == ["0.ts"]
        assert await read_all(source) == b"".join(pieces)
        place = source.reader.place_before(1_200)
        assert (place.position_ms, await read_all(source, place.offset)) == (1000, pieces[2])


async def test_patterns_and_permitted_folders_judge_each_segment(server: MediaServer, tmp_path: Path) -> None:
    names = serve_pieces(server)
    server.serve("/hls/1.ts", redirect("/secret/1.ts"))
    for lines in ([names[0], "/secret/x.ts"], names):
        uri = serve_text(server, "/hls/index.m3u8", media_playlist(lines))
        told = await failure_of(uri, blocked=[compile_pattern("/secret/")])
        assert told.code == FailureCode.SOURCE_BLOCKED
    assert not [request for request in server.requests if request.path.startswith("/secret")]

    inside = tmp_path / "in"
    inside.mkdir()
    (tmp_path / "0.ts").write_bytes(b"secret")
    (inside / "index.m3u8").write_text(media_playlist(["../0.ts"]))
    told = await failure_of(str(inside / "index.m3u8"), files=(str(inside),))
    assert told.code == FailureCode.SOURCE_REFUSED


async def test_a_live_stream_begins_three_from_the_end_and_goes_on_to_it(server: MediaServer) -> None:
    live = LivePlaylist(serve_pieces(server), window=6)
    async with opened(serve_live(server, live)) as source:
        assert (source.is_live, getattr(source, "length_ms", None)) == (True, 0)
        assert await parts_of(source) == [b"".join(PIECES[3:])]
    assert asked(server) == [f"{number}.ts" for number in range(3, 12)]


async def test_what_was_lost_while_nobody_read_is_left_out(server: MediaServer) -> None:
    pieces = [bytes([number]) * 60_000 for number in range(1, 41)]
    names = serve_pieces(server, pieces)
    live = LivePlaylist(names, window=4)
    async with opened(serve_live(server, live)) as source:
        begun = await source.reader.read_at(0, 60_000)
        await server.requested(3)
        live.told += 20  # time passes
        rest = await read_all(source, len(begun))
        parts = [begun + rest, *(await parts_of(source, len(begun) + len(rest)))]
    heard = [part[at] for part in parts for at in range(0, len(part), 60_000)]
    assert (heard, heard[-1]) == (sorted(set(heard)), 40)
    assert len(parts) > 1
    assert len(heard) < 30


async def test_a_playlist_that_cannot_be_had_for_a_while(server: MediaServer) -> None:
    faults = {2: status(503), 4: status(404), 5: media(b"<html>", content_type="text/html")}
    live = LivePlaylist(serve_pieces(server), fault=faults.get)
    assert (await read_parts(serve_live(server, live)))[-1].endswith(PIECES[-1])


async def test_how_a_live_stream_is_lost(server: MediaServer) -> None:
    names = serve_pieces(server)
    every_segment = LivePlaylist([f"missing{number}.ts" for number in range(9)])
    assert (await failure_of(serve_live(server, every_segment))).http_status == 404
    gone = LivePlaylist(names, fault=lambda number: status(404) if number else None)
    assert (await failure_of(serve_live(server, gone))).http_status == 404
    assert gone.told == 1 + 1 + len(QUICK.live_resume_delays_s)
    told = await failure_of(serve_live(server, LivePlaylist(names[:4], ends=False)), IMPATIENT)
    assert (told.code, "nothing new" in told.message) == (FailureCode.CONNECTION_LOST, True)
    encrypted = LivePlaylist(names, tags={8: '#EXT-X-KEY:METHOD=SAMPLE-AES,URI="k"'})
    assert (await failure_of(serve_live(server, encrypted))).code == FailureCode.UNSUPPORTED_CODEC


async def test_numbers_that_begin_anew_and_a_server_a_little_behind_itself(server: MediaServer) -> None:
    names = serve_pieces(server)
    uri = server.serve("/hls/live.m3u8", live_in_turn(server, (names[:4], 1000), (names[6:10], 0)))
    assert await read_parts(uri) == [b"".join(PIECES[1:4]), b"".join(PIECES[7:10])]
    server.requests.clear()
    windows = [(names[start : start + 4], start) for start in (0, 2, 1, 0, 4, 3, 6, 8)]
    uri = server.serve("/hls/live.m3u8", live_in_turn(server, *windows))
    assert await read_parts(uri) == [b"".join(PIECES[1:])]

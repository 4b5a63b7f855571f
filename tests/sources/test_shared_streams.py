"""One live stream for several readers: real stations on real sockets, and what each reader gets of them."""

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.support.audio_files import Signal, music, opus, tone
from tests.support.fetching import QUICK, opener, parts_of, read_all, read_bytes
from tests.support.hls import Cut, LivePlaylist, packed_aac, packed_mp3, serve_cut, timestamp, ts
from tests.support.media_server import MediaServer, in_turn, media, once_set, status
from tests.support.radio_server import fall_silent, radio
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.opened_source import OpenedSource, TitleAtByte, ignore_wait
from tonearm.core.play_queue import Playlist
from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.opener import SourceOpener
from tonearm.sources.shared_streams import SharingOpener

SOUND: Final = random.Random(3).randbytes(500_000)
PIECE: Final = 10_000


class Sharing:
    """Opens streams for several readers."""

    def __init__(self, opener: SourceOpener) -> None:
        self._shared = SharingOpener(opener)
        self._opened: list[OpenedSource] = []

    async def join(self, uri: str) -> OpenedSource:
        opened = await self._shared.open(parse_source_uri(uri), ignore_wait)
        assert not isinstance(opened, Playlist)
        self._opened.append(opened)
        return opened

    async def close(self, server: MediaServer | None = None) -> None:
        """All readers leave, and with them every connection to `server`."""
        while self._opened:
            await self._opened.pop().close()
        if server is not None:
            await server.all_gone()


@asynccontextmanager
async def sharing(settings: FetchSettings = QUICK) -> AsyncIterator[Sharing]:
    async with opener(settings=settings) as source_opener:
        shared = Sharing(source_opener)
        yield shared
        await shared.close()


async def test_who_opens_one_station_together_needs_one_connection(server: MediaServer) -> None:
    uri = server.serve("/live", radio(SOUND))
    async with sharing() as shared:
        opened = await asyncio.gather(*(shared.join(uri) for _ in range(30)))
        heard = await asyncio.gather(*(read_bytes(one, 5 * PIECE) for one in opened))
        assert all(part == SOUND[: 5 * PIECE] for part in heard)
        assert [one.station_name for one in opened] == ["Test FM"] * 30
        for one in opened[1:]:
            await one.close()
        assert await read_bytes(opened[0], PIECE, 5 * PIECE) == SOUND[5 * PIECE : 6 * PIECE]
        assert server.connections == 1
        await shared.close(server)


async def test_who_comes_later_begins_near_the_newest_bytes_with_the_title_that_is_on(server: MediaServer) -> None:
    station = radio(SOUND, interval=4096, titles={1: "One", 40: "Two", 100: "Three"}.get)
    async with sharing() as shared:
        first = await shared.join(server.serve("/live", station))
        await read_bytes(first, 300_000)
        second = await shared.join(server.serve("/live", station))
        heard = await read_bytes(second, 200_000)
        start = SOUND.find(heard[:100])
        assert 230_000 < start <= 370_000, "at most a piece away from who reads ahead"
        assert heard == (SOUND * 2)[start : start + 200_000]
        titles = [TitleAtByte(0, "Two"), TitleAtByte(101 * 4096 - start, "Three")]
        assert second.reader.take_titles(200_000) == titles
        assert [title.title for title in first.reader.take_titles(1_000_000)] == ["One", "Two", "Three"]
        assert len(server.requests) == 1


async def test_one_that_reads_nothing_stops_nobody_and_goes_on_at_the_newest_bytes(server: MediaServer) -> None:
    async with sharing() as shared:
        uri = server.serve("/live", radio(SOUND))
        first, second = await shared.join(uri), await shared.join(uri)
        await read_bytes(second, PIECE)
        held = 5 * 1024 * 1024
        await read_bytes(first, held)
        behind = await read_bytes(second, PIECE, PIECE)
        assert behind in SOUND * 2
        distance = (SOUND * 2).find(behind) - held % len(SOUND)
        assert -70_000 < distance <= 70_000


async def test_a_later_reader_of_ogg_gets_the_heads_and_whole_pages(server: MediaServer) -> None:
    song = opus(tone(440, 3.0), tags={"title": "One"})
    station = radio(song, content_type="application/ogg", interval=1000)
    async with sharing() as shared:
        uri = server.serve("/live.ogg", station)
        first = await shared.join(uri)
        await read_bytes(first, len(song) * 3 // 4)
        second = await shared.join(uri)
        heard = await read_bytes(second, len(song) // 4)
        pages = [place for place in range(len(song)) if song.startswith(b"OggS", place)]
        head = song[: pages[2]]
        assert heard.startswith(head)
        at = song.find(heard[len(head) : len(head) + 200])
        assert at in pages[2:]
        assert len(server.requests) == 1


async def test_a_stream_that_can_only_be_read_from_its_start_is_opened_again_for_a_later_reader(
    server: MediaServer,
) -> None:
    sound = b"\x1aE\xdf\xa3" + SOUND
    async with sharing() as shared:
        uri = server.serve("/live.webm", radio(sound, content_type="video/webm"))
        first, beside = await shared.join(uri), await shared.join(uri)
        await read_bytes(first, 20 * PIECE)
        later = await shared.join(uri)
        assert len(server.requests) == 1
        assert await read_bytes(later, PIECE) == sound[:PIECE]
        await first.reader.close()  # now nobody reads its connection, and nobody can begin in it
        await server.connected(1)
        assert await read_bytes(beside, PIECE) == sound[:PIECE]
        assert await read_bytes(later, PIECE, PIECE) == sound[PIECE : 2 * PIECE]
        await read_bytes(await shared.join(uri), PIECE)  # of a new connection, which others may share
        assert len(server.requests) == 4
        await shared.close(server)


async def test_who_falls_behind_in_such_a_stream_or_into_another_codec_begins_it_anew(server: MediaServer) -> None:
    sound = b"\x1aE\xdf\xa3" + SOUND
    webm = radio(sound, content_type="video/webm", interval=4096, titles={0: "One"}.get)
    stations = in_turn(radio(SOUND, stop_after=3 * PIECE), radio(SOUND, content_type="audio/aac"))
    async with sharing() as shared:
        for path, station in (("/live.webm", webm), ("/live", stations)):
            uri = server.serve(path, station)
            first, slow = await shared.join(uri), await shared.join(uri)
            await asyncio.gather(read_bytes(first, PIECE), read_bytes(slow, PIECE))
            passed = PIECE if station is webm else PIECE + len(await read_all(first, PIECE))
            await read_bytes(first, 5 * 1024 * 1024, passed)
            assert await slow.reader.read_at(PIECE, PIECE) == b""
            if station is webm:
                assert await read_bytes(slow, PIECE, PIECE) == sound[:PIECE]
                assert slow.reader.take_titles(2 * PIECE) == [TitleAtByte(PIECE + 4096, "One")]


@pytest.mark.parametrize(
    ("pack", "skipped"), [(ts, 0), (packed_aac, len(timestamp(0))), (packed_mp3, len(timestamp(0)))]
)
async def test_a_later_reader_of_hls_begins_with_a_segment(
    server: MediaServer, pack: Callable[[Signal, int], Cut], skipped: int
) -> None:
    made = pack(music(12.0), 20)
    live = LivePlaylist(serve_cut(server, made), window=4, duration_s=0.05)
    async with sharing() as shared:
        uri = server.serve("/hls/live.m3u8", live.answer)
        first = await shared.join(uri)
        await read_bytes(first, sum(map(len, made.segments[:14])))
        heard = await read_bytes(await shared.join(uri), 200)
        assert heard in [segment[skipped:][:200] for segment in made.segments]
        segments = [request.path for request in server.requests if "m3u8" not in request.path]
        assert len(segments) == len(set(segments))


async def test_each_reader_of_hls_gets_the_parts_one_by_one(server: MediaServer) -> None:
    segments = [SOUND[at : at + 20_000] for at in range(0, 200_000, 20_000)]
    names = serve_cut(server, Cut("ts", tuple(segments)))
    live = LivePlaylist(names, tags=dict.fromkeys(range(len(names)), "#EXT-X-DISCONTINUITY"))
    async with sharing() as shared:
        uri = server.serve("/hls/live.m3u8", live.answer)
        first, slow, later = [await shared.join(uri) for _ in range(3)]
        await read_bytes(slow, 1)
        heard = await parts_of(first)
        assert heard == segments[1:]
        assert await parts_of(slow, 1) == [heard[0][1:], *heard[1:]]
        assert await parts_of(later) == segments[-4:]


async def test_who_comes_after_another_codec_gets_nothing_of_the_one_before(server: MediaServer) -> None:
    comes_back = radio(SOUND, content_type="audio/aac", stop_after=PIECE, ends_by=fall_silent)
    async with sharing() as shared:
        uri = server.serve("/live", in_turn(radio(SOUND, stop_after=3 * PIECE), comes_back))
        first = await shared.join(uri)
        assert await read_all(first) == SOUND[: 3 * PIECE]
        assert await read_bytes(first, PIECE, 3 * PIECE) == SOUND[:PIECE]
        assert await read_bytes(await shared.join(uri), PIECE) == SOUND[:PIECE]


async def test_each_gets_the_loss_of_the_station_after_the_bytes_before_it(server: MediaServer) -> None:
    settings = dataclasses.replace(QUICK, live_resume_delays_s=(0.0,))
    stations = in_turn(radio(SOUND, stop_after=3 * PIECE), status(404), radio(SOUND))
    async with sharing(settings) as shared:
        uri = server.serve("/live", stations)
        two = [await shared.join(uri) for _ in range(2)]
        for one in two:
            assert await read_bytes(one, 3 * PIECE) == SOUND[: 3 * PIECE]
        for one in two:
            with pytest.raises(PlayError) as caught:
                await one.reader.read_at(3 * PIECE, PIECE)
            assert caught.value.failure.code is FailureCode.CONNECTION_LOST
        again = await shared.join(uri)  # while the others are still open
        assert await read_bytes(again, PIECE) == SOUND[:PIECE]
        await shared.close(server)


async def test_a_read_that_is_given_up_takes_nothing_from_the_others(server: MediaServer) -> None:
    async with sharing() as shared:
        uri = server.serve("/live", radio(SOUND, stop_after=PIECE, ends_by=fall_silent))
        two = [await shared.join(uri) for _ in range(2)]
        waiting = [asyncio.create_task(read_bytes(one, PIECE + 1)) for one in two]
        await server.held_up()
        waiting[0].cancel()
        await two[0].close()
        assert not waiting[1].done()
        await two[1].close()
        with pytest.raises(PlayError):
            await waiting[1]


async def test_files_are_each_ones_own_and_what_cannot_be_opened_fails_for_all_who_wait(server: MediaServer) -> None:
    async with sharing() as shared:
        uri = server.serve("/song.mp3", media(SOUND))
        for one in await asyncio.gather(*(shared.join(uri) for _ in range(5))):
            assert one.reader.stream is None
            assert await read_bytes(one, PIECE, PIECE) == SOUND[PIECE : 2 * PIECE]
        gone, asked = server.serve("/gone", status(404)), len(server.requests)
        results = await asyncio.gather(*(shared.join(gone) for _ in range(3)), return_exceptions=True)
        assert [isinstance(one, PlayError) and one.failure.code for one in results] == [FailureCode.HTTP_STATUS] * 3
        assert len(server.requests) == asked + 1


async def test_who_gives_up_while_it_is_opened_leaves_it_to_the_others(server: MediaServer) -> None:
    goes_on = asyncio.Event()
    async with sharing() as shared:
        uri = server.serve("/live", once_set(goes_on, radio(SOUND)))
        tasks = [asyncio.create_task(shared.join(uri)) for _ in range(3)]
        await server.requested(1)
        tasks[0].cancel()
        goes_on.set()
        opened = await asyncio.gather(*tasks[1:])
        assert await read_bytes(opened[0], PIECE) == SOUND[:PIECE]
        await shared.close()
        assert len(server.requests) == 1
        goes_on.clear()
        alone = asyncio.create_task(shared.join(uri))
        await server.requested(2)
        alone.cancel()
        await server.all_gone()

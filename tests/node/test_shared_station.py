"""Several players of one live stream: fetched and decoded once, and each with a life of its own."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Final

import numpy as np
import pytest

from tests.support.audio_files import encoded, live_mp3, music, opus, tone, wav
from tests.support.fetching import QUICK
from tests.support.hls import LivePlaylist, serve_cut, ts
from tests.support.media_files import loudest_hz, samples_of
from tests.support.media_server import Answer, MediaServer, in_turn, media, once_set
from tests.support.node_in_process import Listening, listening, loaded, running_node, spare_ready
from tests.support.radio_server import radio
from tests.support.sinks import PacketListener
from tonearm.core.filters import FilterChange
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND, Output
from tonearm.core.playback_requests import Requests
from tonearm.core.track_info import TrackInfo
from tonearm.decoder.pool.pool import SESSIONS_BEFORE_NEXT
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings

BYTES_PER_S: Final = 16_000
BURST_BYTES: Final = 65_536
PASSING: Final = Output("opus", passes_through=True)


@cache
def sound() -> bytes:
    return live_mp3(music(6.0, 44_100))


def is_within(heard: bytes, all_heard: bytes) -> bool:
    """Whether what one heard is in what another one heard, sample for sample."""
    place = all_heard.find(heard)
    while place >= 0 and place % 4:
        place = all_heard.find(heard, place + 1)
    return place >= 0


async def test_players_of_one_process_hear_the_same_samples_each_with_its_own_filters(
    node: Node, server: MediaServer
) -> None:
    uri = server.serve("/live", radio(sound(), titles={1: "Band - One"}.get))
    first = await listening(node, "first", uri)
    await first.listener.wait_frames(60)
    later = await listening(node, "later", uri)
    quiet = await listening(node, "quiet", uri)
    node.player("quiet").do(Requests.change_filters, FilterChange(volume=0.25))
    await later.listener.wait_frames(100)
    await quiet.listener.wait_frames(100)
    await first.more_frames(100)
    assert is_within(later.listener.pcm[: 90 * FRAME_BYTES], first.listener.pcm)
    assert later.state["position"] < first.state["position"] - 500
    level = [float(np.std(samples_of(one.listener.pcm[-80 * FRAME_BYTES :]))) for one in (first, quiet)]
    assert level[1] / level[0] < 0.35
    for player in (first, later, quiet):
        player.require_no_underrun()
        assert player.starts == ["Test FM"]
        assert [event["title"] for event in player.events.named("StreamTitle")] == ["Band - One"]
        assert player.quality["decoderProcess"] == first.quality["decoderProcess"]
    assert server.connections == 1


async def test_one_that_is_paused_holds_nobody_up_and_goes_on_where_it_was(node: Node, server: MediaServer) -> None:
    uri = server.serve("/live", radio(sound(), bytes_per_s=BYTES_PER_S, burst_bytes=64_000))
    witness = await listening(node, "witness", uri)
    player = await listening(node, "player", uri)
    await player.listener.wait_frames(40)
    node.player("player").do(Requests.pause)
    await asyncio.sleep(0)
    await witness.more_frames(10)
    before = len(player.listener)
    await witness.more_frames(100)
    assert len(player.listener) == before
    witness.require_no_underrun()
    node.player("player").do(Requests.play)
    await player.more_frames(60)
    await witness.more_frames(60)
    behind = player.listener.pcm[(before + 5) * FRAME_BYTES : (before + 55) * FRAME_BYTES]
    assert is_within(behind, witness.listener.pcm[: -70 * FRAME_BYTES]), "what the other one has heard long ago"
    assert server.connections == 1


async def test_one_that_is_deleted_or_skips_or_plays_something_else_harms_nobody(
    node: Node, server: MediaServer
) -> None:
    uri = server.serve("/live", radio(sound()))
    other = server.serve("/song.mp3", media(live_mp3(tone(880, 3.0, 44_100))))
    opener_of_it = await listening(node, "opener", uri)
    skipping = await listening(node, "skipping", uri, other)
    witness = await listening(node, "witness", uri)
    await witness.listener.wait_frames(20)
    await node.delete_player(opener_of_it.id)
    node.player("skipping").do(Requests.skip)
    await skipping.events.wait_for("TrackStart", 2)
    await witness.more_frames(120)
    witness.require_no_underrun()
    assert (witness.ends, witness.failures) == ([], [])
    assert skipping.ends == [("Test FM", "skipped")]
    assert server.connections == 2, "the station and the song"


async def test_after_the_death_of_its_process_each_goes_on(server: MediaServer) -> None:
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        uri = server.serve("/live", radio(sound(), titles={1: "Band - One"}.get))
        players = [await listening(node, f"p{number}", uri) for number in range(5)]
        for player in players:
            await player.listener.wait_frames(40)
        assert server.connections == 1, "however many processes decode it"
        killed = players[0].kill_decoder()
        await players[0].moved(killed)
        for player in players:
            await player.more_frames(80)
            assert len(player.starts) == 1
            assert (player.ends, player.failures) == ([], [])
            assert player.quality["decoderProcess"] != killed
        assert server.connections <= 2


def paced(form: str) -> Answer:
    """A station at the pace of its sound, which begins in the middle of a frame, as most do."""
    made = sound() if form == "mp3" else encoded("adts", "aac", music(6.0, 44_100), 44_100, bit_rate=128_000)
    content_type = "audio/mpeg" if form == "mp3" else "audio/aac"
    return radio(made[1001:], content_type=content_type, bytes_per_s=BYTES_PER_S, burst_bytes=BURST_BYTES)


@asynccontextmanager
async def first_process_full(uri: str) -> AsyncIterator[tuple[Node, Listening]]:
    """A node whose next player is in a second process, and one of those who hear the station in the first."""
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        witness = await listening(node, "witness", uri)
        for number in range(SESSIONS_BEFORE_NEXT - 2):  # the stream itself takes a session
            await (await listening(node, f"p{number}", uri)).listener.wait_frames(1)
        await spare_ready(node)
        yield node, witness


# From the middle of a frame on, libav takes 128 KiB to recognise MP3. 64 KiB are there; the others take 4 s.


@pytest.mark.parametrize("form", ["mp3", "adts"])
async def test_who_is_first_in_a_process_hears_a_station_at_once(server: MediaServer, form: str) -> None:
    uri = server.serve("/live", paced(form))
    async with first_process_full(uri) as (node, witness):
        before = len(witness.listener)
        other = await listening(node, "other", uri)
        await other.listener.wait_frames(1)
        assert other.quality["decoderProcess"] != witness.quality["decoderProcess"]
        assert len(witness.listener) - before < FRAMES_PER_SECOND + other.waited_frames
        assert server.connections == 1


async def test_after_the_death_of_its_process_a_station_goes_on_at_once_though_it_sends_in_real_time(
    server: MediaServer,
) -> None:
    uri = server.serve("/live", paced("mp3"))
    async with first_process_full(uri) as (node, witness):
        other = await listening(node, "other", uri)
        await other.listener.wait_frames(1)
        before = len(witness.listener), len(other.listener)
        await other.moved(other.kill_decoder())
        await other.more_frames(60)
        passed, heard = len(witness.listener) - before[0], len(other.listener) - before[1]
        assert passed - heard < FRAMES_PER_SECOND + other.waited_frames
        assert (other.ends, other.failures, len(other.starts)) == ([], [], 1)
        assert server.connections == 1


@pytest.mark.parametrize("form", ["mp3", "adts"])
async def test_a_station_that_begins_in_the_middle_of_a_frame_is_heard_at_once(
    node: Node, server: MediaServer, form: str
) -> None:
    witness = await listening(node, "witness", server.serve("/song.wav", media(wav(music(20.0)))))
    await witness.listener.wait_frames(10)
    player = await listening(node, "player", server.serve("/live", paced(form)))
    await player.listener.wait_frames(1)
    assert len(witness.listener) - 10 < FRAMES_PER_SECOND + player.waited_frames


async def test_a_station_that_stays_away_fails_for_each_and_can_be_played_again(server: MediaServer) -> None:
    fetching = dataclasses.replace(QUICK, live_resume_delays_s=())
    songs = [live_mp3(tone(frequency_hz, 3.0, 44_100)) for frequency_hz in (440, 880)]
    all_are_there = asyncio.Event()
    first = once_set(all_are_there, radio(songs[0], stop_after=16_000))
    async with running_node(fetching=fetching) as node:
        uri = server.serve("/live", in_turn(first, radio(songs[1])))
        players = [await listening(node, f"p{number}", uri, uri) for number in range(3)]
        all_are_there.set()
        for player in players:
            await player.events.wait_for("TrackStart", 2)
            assert player.ends == [("Test FM", "loadFailed")]
            assert player.failures == ["connection_lost"]
            assert len(player.listener) >= 45, "all that came was heard"
            await player.more_frames(40)
            assert 860 < loudest_hz(samples_of(player.listener.pcm[-20 * FRAME_BYTES :])) < 900


async def test_an_opus_station_is_passed_through_to_each(node: Node, server: MediaServer) -> None:
    song = opus(music(15.0), bit_rate=96_000)  # longer than the test: at a join of two parts packets are encoded
    uri = server.serve(
        "/live.ogg", radio(song, content_type="application/ogg", bytes_per_s=BYTES_PER_S, burst_bytes=64_000)
    )
    packets: list[PacketListener] = []
    for number in range(3):
        await node.create_player(f"p{number}", uri, {})
        packets.append(PacketListener(PASSING))
        node.player(f"p{number}").attach(packets[-1])
    for listener in packets:
        await listener.wait_frames(120)
    later = await listening(node, "pcm", uri)
    await later.listener.wait_frames(60)
    await packets[0].wait_frames(200)
    first = b"".join(packets[0].messages)
    for listener in packets[1:]:  # who comes in the middle may get encoded packets for a second
        assert b"".join(listener.messages[70:120]) in first
        assert all(listener.passed[70:120])
    assert float(np.std(samples_of(later.listener.pcm[-40 * FRAME_BYTES :]))) > 500
    assert server.connections == 1


async def test_a_live_playlist_is_read_once_up_to_its_end(node: Node, server: MediaServer) -> None:
    made = ts(tone(440, 3.0), 30)
    live = LivePlaylist(serve_cut(server, made), window=10, duration_s=0.1)
    uri = server.serve("/hls/live.m3u8", live.answer)
    players = [await listening(node, f"p{number}", uri) for number in range(2)]
    for player in players:
        await player.wait_state("idle")
        assert player.failures == []
        assert loudest_hz(samples_of(player.listener.pcm)[9600:48_000]) == 440
    segments = [request.path for request in server.requests if request.path.endswith(".ts")]
    assert len(segments) == len(set(segments))


async def test_who_looks_a_station_up_shares_its_connection(node: Node, server: MediaServer) -> None:
    uri = server.serve("/live", radio(sound(), name="Radio Zürich"))
    player = await listening(node, "p", uri)
    await player.listener.wait_frames(10)
    info = await loaded(node, uri)
    assert isinstance(info, TrackInfo)
    assert (info.title, info.is_stream, info.length_ms) == ("Radio Zürich", True, 0)
    await player.more_frames(20)
    assert server.connections == 1

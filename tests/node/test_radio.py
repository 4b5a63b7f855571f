"""Radio through a whole node: real stations, sound at its real pace, and several players of one station: it is fetched
and decoded once, and each of them has a life of its own."""

import asyncio
import dataclasses
from functools import cache
from typing import Final

import numpy as np
import pytest

from tests.support.audio_files import encoded, live_mp3, music, tone
from tests.support.eventually import PATIENCE_S
from tests.support.fetching import QUICK
from tests.support.media_files import loudest_hz, samples_of
from tests.support.media_server import MediaServer, in_turn, media, once_set
from tests.support.node_in_process import listening, loaded, running_node, spare_ready
from tests.support.radio_server import radio
from tonearm.core.filters import FilterChange
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from tonearm.core.playback_requests import Requests
from tonearm.core.track_info import TrackInfo
from tonearm.decoder.pool.pool import SESSIONS_BEFORE_NEXT
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings

BYTES_PER_S: Final = 16_000
BURST_BYTES: Final = 65_536


@cache
def beep() -> bytes:
    return live_mp3(tone(440, 3.0, 44_100))


async def test_a_station_plays_and_its_titles_are_reported_with_their_sound(node: Node, server: MediaServer) -> None:
    titles = {1: "Band - Öne", 2: "Band - Öne", 4: "It's Two"}
    player = await listening(node, "p", server.serve("/live", radio(beep(), interval=4096, titles=titles.get)))
    pcm = await player.listener.wait_frames(80)
    assert 430 < loudest_hz(samples_of(pcm)) < 450
    assert player.events.named("TrackStart")[0]["track"]["info"] == player.state["track"]["info"] | {
        "title": "Test FM",
        "position": 0,
    }
    assert [event["title"] for event in player.events.named("StreamTitle")] == ["Band - Öne", "It's Two"]
    # The second block stands after 8192 bytes, the fifth one after 20480.
    assert abs(player.frames_before("StreamTitle") - 8192 / BYTES_PER_S * FRAMES_PER_SECOND) < 12
    assert abs(player.frames_before("StreamTitle", 2) - 20_480 / BYTES_PER_S * FRAMES_PER_SECOND) < 12
    info = player.state["track"]["info"]
    assert (info["author"], info["title"]) == ("Test FM", "It's Two")
    assert (info["isStream"], info["isSeekable"], info["length"]) == (True, False, 0)
    assert len(server.requests) == 1


async def test_a_broken_stream_goes_on_as_the_same_track_in_another_codec_too(server: MediaServer) -> None:
    after = encoded("adts", "aac", tone(880, 3.0, 44_100), 44_100, bit_rate=128_000)
    comes_back = radio(after, content_type="audio/aac", titles={2: "Two"}.get)
    goes_on = asyncio.Event()
    station = in_turn(radio(beep(), stop_after=len(beep()) // 3), once_set(goes_on, comes_back))
    fetching = dataclasses.replace(QUICK, live_resume_delays_s=(0.0,), headers_timeout_s=PATIENCE_S)
    async with running_node(fetching=fetching) as node:
        player = await listening(node, "p", server.serve("/live", station))
        await player.listener.wait_frames(1)
        await player.events.wait_for("PlayerUpdate", state="loading")
        goes_on.set()
        await player.events.wait_for("PlayerUpdate", 2, state="playing")
        pcm = samples_of(await player.listener.wait_frames(130))
        assert loudest_hz(pcm[: SAMPLE_RATE_HZ // 2]) == pytest.approx(440, abs=5)
        assert loudest_hz(pcm[2 * SAMPLE_RATE_HZ :]) == pytest.approx(880, abs=5)
        told_at = player.frames_before("StreamTitle")
        assert abs(told_at - (1 + 3 * 3 * 4096 / len(after)) * FRAMES_PER_SECOND) < 15
        assert (len(player.starts), player.ends, player.failures) == (1, [], [])
        assert len(server.requests) == 2


@cache
def sound() -> bytes:
    return live_mp3(music(6.0, 44_100))


def is_within(heard: bytes, all_heard: bytes) -> bool:
    """Whether what one heard is in what another one heard, sample for sample."""
    place = all_heard.find(heard)
    while place >= 0 and place % 4:
        place = all_heard.find(heard, place + 1)
    return place >= 0


async def test_players_of_one_process_hear_the_same_samples_each_with_a_life_of_its_own(
    node: Node, server: MediaServer
) -> None:
    station = radio(sound(), bytes_per_s=BYTES_PER_S, burst_bytes=BURST_BYTES, titles={1: "Band - One"}.get)
    uri, other = server.serve("/live", station), server.serve("/song.mp3", media(live_mp3(tone(880, 3.0, 44_100))))
    first = await listening(node, "first", uri)
    await first.listener.wait_frames(60)
    later = await listening(node, "later", uri)
    quiet = await listening(node, "quiet", uri, other)
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
    # One that is paused holds nobody up, and goes on where it was.
    node.player("later").do(Requests.pause)
    await asyncio.sleep(0)
    await first.more_frames(10)
    before = len(later.listener)
    await first.more_frames(100)
    assert len(later.listener) == before
    node.player("later").do(Requests.play)
    await later.more_frames(60)
    await first.more_frames(60)
    behind = later.listener.pcm[(before + 5) * FRAME_BYTES : (before + 55) * FRAME_BYTES]
    assert is_within(behind, first.listener.pcm[: -70 * FRAME_BYTES]), "what the other one has heard long ago"
    first.require_no_underrun()
    # Nor does one that is deleted or skips, and who looks the station up shares the connection.
    await node.delete_player("first")
    node.player("quiet").do(Requests.skip)
    await quiet.events.wait_for("TrackStart", 2)
    info = await loaded(node, uri)
    assert isinstance(info, TrackInfo)
    assert (info.is_stream, info.length_ms) == (True, 0)
    await later.more_frames(120)
    later.require_no_underrun()
    assert (later.ends, later.failures) == ([], [])
    assert quiet.ends == [("Band - One", "skipped")]
    assert server.connections == 2, "the station and the song"


async def test_in_another_process_and_after_the_death_of_its_process_a_station_is_heard_at_once(
    server: MediaServer,
) -> None:
    """It sends in real time, from the middle of a frame on. From there on libav takes 128 KiB to recognise MP3: 64 KiB
    are there, and the others take 4 s."""
    uri = server.serve("/live", radio(sound()[1001:], bytes_per_s=BYTES_PER_S, burst_bytes=BURST_BYTES))
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, "witness", uri)]
        for number in range(SESSIONS_BEFORE_NEXT - 2):  # the stream itself takes a session
            players.append(await listening(node, f"p{number}", uri))
            await players[-1].listener.wait_frames(1)
        await spare_ready(node)
        witness = players[0]
        before = len(witness.listener)
        other = await listening(node, "other", uri)
        await other.listener.wait_frames(1)
        assert other.quality["decoderProcess"] != witness.quality["decoderProcess"]
        assert len(witness.listener) - before < FRAMES_PER_SECOND + other.waited_frames
        frames = len(witness.listener), len(other.listener)
        await other.moved(other.kill_decoder())
        await other.more_frames(60)
        passed, heard = len(witness.listener) - frames[0], len(other.listener) - frames[1]
        assert passed - heard < FRAMES_PER_SECOND + other.waited_frames
        assert server.connections == 1, "however many processes decode it"
        killed = witness.kill_decoder()
        await witness.moved(killed)
        for player in (*players, other):
            await player.more_frames(80)
            assert (player.ends, player.failures, len(player.starts)) == ([], [], 1)
            assert player.quality["decoderProcess"] != killed
        assert server.connections <= 2

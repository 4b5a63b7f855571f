"""Radio through the whole node: real stations on real sockets, real decoder processes, sound at its real pace."""

import asyncio
import dataclasses
from functools import cache
from typing import Final

import pytest

from tests.support.audio_files import encoded, live_mp3, tone
from tests.support.eventually import PATIENCE_S
from tests.support.fetching import QUICK
from tests.support.media_files import loudest_hz, samples_of
from tests.support.media_server import MediaServer, in_turn, once_set
from tests.support.node_in_process import listening, running_node
from tests.support.radio_server import radio
from tonearm.core.frame import FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from tonearm.node.node import Node

BYTES_PER_S: Final = 16_000


@cache
def sound() -> bytes:
    return live_mp3(tone(440, 3.0, 44_100))


async def test_a_station_plays_and_its_titles_are_reported_with_their_sound(node: Node, server: MediaServer) -> None:
    titles = {1: "Band - Öne", 2: "Band - Öne", 4: "It's Two"}
    player = await listening(node, "p", server.serve("/live", radio(sound(), interval=4096, titles=titles.get)))
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
    station = in_turn(radio(sound(), stop_after=len(sound()) // 3), once_set(goes_on, comes_back))
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

"""Opus sources and Opus listeners of a real node: the very packets, from end to end."""

import numpy as np
import pytest

from tests.support.audio_files import music, opus
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import Listening, state_of
from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.packet_source import packets_in, pcm_in
from tests.support.radio_server import radio
from tests.support.shelf import Shelf, samples
from tests.support.sinks import PacketListener
from tonearm.core.frame import FRAME_SAMPLES, OPUS_LOOKAHEAD_SAMPLES, Output
from tonearm.node.node import Node
from tonearm.worker.packets.passthrough import WAIT_FRAMES

PASSING = Output("opus", passes_through=True)


def song(seconds: float, seed: int = 1, container: str = "ogg") -> bytes:
    return opus(music(seconds, seed=seed) * 0.8, bit_rate=128_000, container=container)


async def listening(node: Node, uri: str) -> tuple[Listening, PacketListener]:
    """A player with an Opus listener beside the PCM listener."""
    await node.create_player("p", uri, {})
    opus = PacketListener(PASSING)
    node.player("p").attach(opus)
    return Listening(node, "p"), opus


@pytest.mark.parametrize(("container", "where"), [("ogg", "pipe"), ("webm", "file"), ("mp4", "server")])
async def test_an_opus_listener_gets_the_packets_of_a_source_and_a_pcm_listener_hears_the_same(
    node: Node, shelf: Shelf, server: MediaServer, container: str, where: str
) -> None:
    file, name = song(1.5, container=container), f"song.{container}"
    is_local = where == "file"
    uri = shelf.put(name, file) if is_local else server.serve(f"/{name}", media(file, ranges=where == "server"))
    player, heard = await listening(node, uri)
    named = PacketListener(Output("opus", 96_000))
    node.player("p").attach(named)
    await player.wait_state("idle")
    assert heard.messages[:74] == packets_in(file)[:74]
    pcm = samples(player.listener.pcm)
    assert np.array_equal(pcm, pcm_in(file))
    assert not any(named.passed)
    assert len(named) == len(heard) == len(player.listener)
    encoded = decoded(named.messages)[OPUS_LOOKAHEAD_SAMPLES:]
    assert segmental_snr_db(pcm.astype(np.float64), encoded) > 15


async def test_a_seek_goes_to_the_frame_and_a_killed_decoder_is_not_heard(node: Node, shelf: Shelf) -> None:
    file = song(6.0)
    packets = packets_in(file)
    player, heard = await listening(node, shelf.put("song.opus", file))
    await player.more_frames(20)
    node.player("p").seek(1_333)
    assert state_of(node, "p")["position"] == 1_320
    await player.more_frames(WAIT_FRAMES + 20)
    assert [event["position"] for event in player.events.named("Seek")] == [1_320]
    assert heard.passed[-1]
    offset = packets.index(heard.messages[-1]) - (len(heard) - 1)
    killed_at = len(heard)
    await player.moved(player.kill_decoder())
    await player.wait_state("idle")
    messages, flags = heard.messages, heard.passed
    assert len(messages) == len(player.listener)
    first = flags.index(False, killed_at)
    again = flags.index(True, first)
    assert again - first <= WAIT_FRAMES + 14
    assert messages[again:-1] == packets[again + offset : len(messages) - 1 + offset]
    after = decoded(messages)[OPUS_LOOKAHEAD_SAMPLES:][killed_at * FRAME_SAMPLES :]
    assert segmental_snr_db(pcm_in(file)[(killed_at + offset) * FRAME_SAMPLES :], after) > 30


async def test_the_packets_of_a_station_are_passed_through(node: Node, server: MediaServer) -> None:
    file = song(5.0)
    station = radio(file, content_type="application/ogg", bytes_per_s=40_000, burst_bytes=20_000)
    player, heard = await listening(node, server.serve("/live.ogg", station))
    await heard.wait_frames(120)
    assert all(heard.passed[1:120])
    assert heard.messages[1:120] == packets_in(file)[1:120]
    assert player.state["track"]["info"]["isStream"]

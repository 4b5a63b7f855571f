"""Opus sources and Opus listeners of a real node: the very packets, from end to end."""

import numpy as np
import pytest

from tests.support.audio_files import music, opus, wav
from tests.support.media_server import Answer, MediaServer, media
from tests.support.node_in_process import Listening, state_of
from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.packet_source import packets_in, pcm_in
from tests.support.radio_server import radio
from tests.support.shelf import Shelf
from tests.support.sinks import PacketListener
from tonearm.core.filters import FilterChange, Limiter, Normalization, Timescale, Tremolo
from tonearm.core.frame import FRAME_MS, FRAME_SAMPLES, OPUS_LOOKAHEAD_SAMPLES, Output
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node
from tonearm.worker.packets.passthrough import WAIT_FRAMES

PASSING = Output("opus", passes_through=True)
NAMED = Output("opus", 96_000)


def song(seconds: float, seed: int = 1, container: str = "ogg") -> bytes:
    return opus(music(seconds, seed=seed) * 0.8, bit_rate=128_000, container=container)


class OpusListening(Listening):
    """A player with an Opus listener beside the PCM listener."""

    def __init__(self, node: Node, player_id: str, output: Output = PASSING) -> None:
        self.opus = PacketListener(output)
        node.player(player_id).attach(self.opus)
        super().__init__(node, player_id)


async def opus_alone(node: Node, uri: str) -> PacketListener:
    await node.create_player("p", uri, {})
    listener = PacketListener(PASSING)
    node.player("p").attach(listener)
    return listener


@pytest.mark.parametrize(
    ("container", "where"),
    [("ogg", "file"), ("webm", "file"), ("mp4", "file"), ("ogg", "server"), ("ogg", "pipe")],
)
async def test_an_opus_listener_gets_the_packets_of_a_source(
    node: Node, shelf: Shelf, server: MediaServer, container: str, where: str
) -> None:
    file, name = song(1.5, container=container), f"song.{container}"
    is_local = where == "file"
    uri = shelf.put(name, file) if is_local else server.serve(f"/{name}", media(file, ranges=where == "server"))
    listener = await opus_alone(node, uri)
    await listener.wait_frames(75)
    assert listener.messages[:74] == packets_in(file)[:74]
    assert np.array_equal(decoded(listener.messages[:74]), decoded(packets_in(file)[:74]))


async def test_pcm_and_opus_listeners_of_one_player_hear_the_same(node: Node, shelf: Shelf) -> None:
    file = song(2.0)
    await node.create_player("p", shelf.put("song.opus", file), {})
    player = OpusListening(node, "p")
    named = PacketListener(output=NAMED)
    node.player("p").attach(named)
    await player.wait_state("idle")
    pcm = np.frombuffer(player.listener.pcm, "<i2").reshape(-1, 2)
    assert np.array_equal(pcm, pcm_in(file))
    assert player.opus.messages[:99] == packets_in(file)[:99]
    assert not any(named.passed)
    assert len(named) == len(player.opus) == len(player.listener)
    heard = decoded(named.messages)[OPUS_LOOKAHEAD_SAMPLES:]
    assert segmental_snr_db(pcm.astype(np.float64), heard) > 15


async def test_filters_there_and_back(node: Node, shelf: Shelf) -> None:
    file = song(4.0)
    await node.create_player("p", shelf.put("song.opus", file), {})
    player = OpusListening(node, "p")
    await player.more_frames(30)
    changed, waited = len(player.opus), player.waited_frames
    node.player("p").do(Requests.change_filters, FilterChange(volume=0.5))
    await player.more_frames(30)
    late = player.waited_frames - waited
    restored = len(player.opus)
    node.player("p").do(Requests.change_filters, FilterChange(volume=1.0))
    await player.wait_state("idle")
    player.require_no_underrun()
    flags = player.opus.passed
    first = flags.index(False)
    assert changed <= first <= changed + 4 + late
    assert not any(flags[first:restored])
    again = flags.index(True, first)
    assert again <= restored + 4 + WAIT_FRAMES + 12 + player.waited_frames - waited
    assert all(flags[again:199])
    assert player.opus.messages[again:199] == packets_in(file)[again:199]
    pcm = np.frombuffer(player.listener.pcm, "<i2").reshape(-1, 2).astype(np.float64)
    assert segmental_snr_db(pcm, decoded(player.opus.messages)[OPUS_LOOKAHEAD_SAMPLES:]) > 20


NEUTRAL_EFFECTS = {
    "timescale": Timescale(),
    "tremolo": Tremolo(depth=0.0),
    "normalization": Normalization(mode="off"),
    "limiter": Limiter(ceiling_db=-2.0),
}


async def test_a_seek_goes_to_the_frame_and_says_so(node: Node, shelf: Shelf) -> None:
    file = song(6.0)
    await node.create_player("p", shelf.put("song.opus", file), {})
    node.player("p").do(Requests.change_filters, FilterChange(effects=NEUTRAL_EFFECTS))
    player = OpusListening(node, "p")
    await player.more_frames(20)
    node.player("p").seek(3_333)
    assert state_of(node, "p")["position"] == 3_320
    await player.more_frames(WAIT_FRAMES + 40)
    assert [event["position"] for event in player.events.named("Seek")] == [3_320]
    messages = player.opus.messages
    packets = packets_in(file)
    assert player.opus.passed[-1]
    assert messages[-1] == packets[packets.index(messages[-1])]
    sought = player.listener.pcm[20 * 3840 :]
    at = packets.index(messages[-1]) * FRAME_SAMPLES
    assert len(sought) // 4 >= at - 3_320 * 48


async def test_a_seek_to_an_end_within_a_frame_ends_the_track(node: Node, shelf: Shelf) -> None:
    await node.create_player("p", shelf.put("song.opus", song(2.01)), {})
    player = OpusListening(node, "p")
    await player.more_frames(20)
    length_ms = state_of(node, "p")["track"]["info"]["length"]
    assert length_ms % FRAME_MS
    node.player("p").do(Requests.pause)
    node.player("p").seek(length_ms)
    assert state_of(node, "p")["state"] == "idle"
    assert [event["reason"] for event in player.events.named("TrackEnd")] == ["finished"]


async def test_a_seek_of_a_track_that_is_encoded_is_exact(node: Node, shelf: Shelf) -> None:
    await node.create_player("p", shelf.put("song.wav", wav(music(4.0) * 0.5)), {})
    player = OpusListening(node, "p")
    await player.more_frames(5)
    node.player("p").seek(3_333)
    assert state_of(node, "p")["position"] == 3_333


async def test_a_killed_decoder_is_not_heard(node: Node, shelf: Shelf) -> None:
    file = song(4.0)
    await node.create_player("p", shelf.put("song.opus", file), {})
    player = OpusListening(node, "p")
    await player.more_frames(40)
    killed = player.kill_decoder()
    await player.moved(killed)
    await player.wait_state("idle")
    assert len(player.opus) == len(player.listener)
    flags = player.opus.passed
    assert all(flags[:40])
    first = flags.index(False)
    again = flags.index(True, first)
    assert again - first <= WAIT_FRAMES + 14
    assert player.opus.messages[again:199] == packets_in(file)[again:199]
    wanted = pcm_in(file)
    assert segmental_snr_db(wanted, decoded(player.opus.messages)[OPUS_LOOKAHEAD_SAMPLES:]) > 30


async def test_the_packets_of_a_station_are_passed_through_with_its_titles(node: Node, server: MediaServer) -> None:
    sounds = [music(2.5 - 100 / 48_000 * number, seed=number) * 0.8 for number in (1, 2)]
    for sound in sounds:
        sound[:2400] = 0
        sound[-4800:] = 0
    files = [opus(sound, bit_rate=128_000, tags={"title": str(at)}) for at, sound in enumerate(sounds)]
    station = radio(b"".join(files), content_type="application/ogg", bytes_per_s=40_000, burst_bytes=20_000)
    player = OpusListening(node, await create_station(node, server, station))
    await player.opus.wait_frames(340)
    messages = player.opus.messages[:340]
    flags = player.opus.passed[:340]
    assert all(flags[1:120]), "the first title"
    # What a station has not sent yet cannot be looked at: so a wait for a packet that may follow ours may be needed.
    assert all(flags[125 + WAIT_FRAMES + 12 : 245]), "the second one"
    assert all(flags[250 + WAIT_FRAMES + 12 :]), "the first one again"
    very_packets = {packet for file in files for packet in packets_in(file)}
    assert all(packet in very_packets for packet, flag in zip(messages, flags, strict=True) if flag)
    titles = [event["title"] for event in player.events.named("StreamTitle")]
    assert titles[:2] == ["1", "0"]
    heard, pcm = decoded(messages)[OPUS_LOOKAHEAD_SAMPLES:], np.frombuffer(player.listener.pcm, "<i2").reshape(-1, 2)
    assert segmental_snr_db(pcm[: 60 * FRAME_SAMPLES].astype(np.float64), heard[: 60 * FRAME_SAMPLES]) > 40
    assert player.state["track"]["info"]["isStream"]


async def create_station(node: Node, server: MediaServer, station: Answer) -> str:
    await node.create_player("p", server.serve("/live.ogg", station), {})
    return "p"

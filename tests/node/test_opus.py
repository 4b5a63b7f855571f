"""Opus listeners of a real node: they hear what PCM listeners hear, as libopus encodes it or in the very packets of the
source, and streams begin with a burst."""

import asyncio

import numpy as np
import pytest

from tests.support.audio_files import music, opus
from tests.support.http_client import WEBSOCKET_HEADERS, websocket
from tests.support.media_files import samples_of
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import Listening, listening, state_of, with_pool
from tests.support.node_over_http import node_over_http
from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.packet_source import packets_in, pcm_in
from tests.support.pcm import channels
from tests.support.radio_server import radio
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryListener, PacketListener
from tonearm.core.filters import BAND_COUNT, FilterChange
from tonearm.core.frame import (
    FRAME_BYTES,
    FRAME_SAMPLES,
    FRAMES_PER_SECOND,
    OPUS_LOOKAHEAD_SAMPLES,
    SILENT_PACKET,
    Output,
)
from tonearm.core.playback_requests import Requests
from tonearm.decoder.pool.pool import DecoderPool
from tonearm.node.node import Node
from tonearm.worker.packets.opus_encoder import OpusEncoder
from tonearm.worker.packets.passthrough import WAIT_FRAMES

OPUS = Output("opus")


def plainly_encoded(pcm: bytes) -> list[bytes]:
    encoder = OpusEncoder(OPUS)
    return [encoder.encode(pcm[start : start + FRAME_BYTES]) for start in range(0, len(pcm), FRAME_BYTES)]


async def test_packets_are_those_of_the_pcm_over_joins_skips_pauses_and_filters(node: Node, shelf: Shelf) -> None:
    """Whoever joins in mid-stream gets a silent packet first."""
    first, *others = (shelf.song(seconds)[0] for seconds in (0.713, 5.0, 0.55))
    opus, late, smaller = (MemoryListener(output=output) for output in (OPUS, OPUS, Output("opus", 32_000)))
    await node.create_player("p", first, {})
    controls = node.player("p")
    controls.attach(opus)
    player = Listening(node, "p")
    await player.enqueue(*others)
    await player.events.wait_for("TrackStart", 2)
    await player.more_frames(7)
    for listener in (late, smaller):
        controls.attach(listener)
    controls.do(Requests.change_filters, FilterChange(volume=0.5))
    await player.more_frames(9)
    controls.do(Requests.change_filters, FilterChange(gains=((2, 9.0), (9, -9.0))))
    await player.more_frames(8)
    controls.do(Requests.pause)
    await asyncio.sleep(0.1)
    controls.do(Requests.play)
    await player.more_frames(11)
    flat = tuple((band, 0.0) for band in range(BAND_COUNT))
    controls.do(Requests.change_filters, FilterChange(volume=1.0, gains=flat))
    await player.more_frames(3)
    controls.do(Requests.skip)
    await player.wait_state("idle")
    pcm, packets = player.listener.pcm, opus.messages
    plain = plainly_encoded(pcm)
    assert len(packets) == len(plain)
    # A plan that came late changed frames of which some had been sent: then it is no plain encode, but as near.
    if packets != plain:
        assert player.quality["latePlans"]
        got, of_plain = (
            segmental_snr_db(channels(pcm).astype(np.float64), decoded(one)[OPUS_LOOKAHEAD_SAMPLES:])
            for one in (packets, plain)
        )
        assert got >= of_plain - 0.5
    assert late.messages[0] == smaller.messages[0] == SILENT_PACKET
    assert late.messages[1:] == packets[-len(late) + 1 :]
    assert len(b"".join(smaller.messages)) < 0.5 * len(b"".join(late.messages))


async def test_a_node_that_cannot_encode_opus_says_so_when_it_starts_and_to_who_asks_for_it(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    class WithoutOpus(DecoderPool):
        opus_problem = "libopus cannot be loaded: no such file"

    async with node_over_http(parts=with_pool(WithoutOpus)) as edge:
        edge.node.announce_processes()
        assert "Opus is not available to listeners: libopus cannot be loaded: no such file" in caplog.messages
        await edge.node.create_player("p", shelf.song(0.5)[0], {})
        for path in ("stream.ogg", "ws?format=opus"):
            refusal = await edge.request("GET", f"/v0/players/p/{path}", headers=WEBSOCKET_HEADERS)
            assert refusal.status == 400
            assert refusal.json()["message"] == (
                "The node cannot encode Opus (libopus cannot be loaded: no such file). Ask for PCM or MP3."
            )
        async with websocket(edge.port, "/v0/players/p/ws"):
            assert edge.node.player("p").status().listeners == 1


async def burst_of(node: Node, player_id: str, bitrate_bps: int) -> int:
    """How many frames come at once to a stream in a form of its own."""
    stream = MemoryListener(output=Output("opus", bitrate_bps=bitrate_bps), burst_ms=2000)
    leave = node.player(player_id).attach(stream)
    await stream.wait_frames(1)
    leave()
    return len(stream)


async def test_from_the_first_stream_on_players_keep_a_whole_burst(node: Node, shelf: Shelf) -> None:
    """Before, players that only sockets hear take a quarter less memory, and have half a second."""
    uri, _ = shelf.song(30.0)
    players = [await listening(node, f"p{number}", uri) for number in range(2)]
    for player in players:
        await player.listener.wait_frames(3 * FRAMES_PER_SECOND)
    first = await burst_of(node, "p0", 64_000)
    assert FRAMES_PER_SECOND // 2 <= first <= 3 * FRAMES_PER_SECOND // 2
    for player in players:
        await player.more_frames(3 * FRAMES_PER_SECOND)
    for player in players:
        assert await burst_of(node, player.id, 96_000) >= 2 * FRAMES_PER_SECOND
        player.require_no_underrun()


PASSING = Output("opus", passes_through=True)


def song(seconds: float, seed: int = 1, container: str = "ogg") -> bytes:
    return opus(music(seconds, seed=seed) * 0.8, bit_rate=128_000, container=container)


async def opus_listening(node: Node, uri: str) -> tuple[Listening, PacketListener]:
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
    player, heard = await opus_listening(node, uri)
    named = PacketListener(Output("opus", 96_000))
    node.player("p").attach(named)
    await player.wait_state("idle")
    assert heard.messages[:74] == packets_in(file)[:74]
    pcm = samples_of(player.listener.pcm)
    assert np.array_equal(pcm, pcm_in(file))
    assert not any(named.passed)
    assert len(named) == len(heard) == len(player.listener)
    encoded = decoded(named.messages)[OPUS_LOOKAHEAD_SAMPLES:]
    assert segmental_snr_db(pcm.astype(np.float64), encoded) > 15


async def test_a_seek_goes_to_the_frame_and_a_killed_decoder_is_not_heard(node: Node, shelf: Shelf) -> None:
    file = song(6.0)
    packets = packets_in(file)
    player, heard = await opus_listening(node, shelf.put("song.opus", file))
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
    player, heard = await opus_listening(node, server.serve("/live.ogg", station))
    await heard.wait_frames(120)
    assert all(heard.passed[1:120])
    assert heard.messages[1:120] == packets_in(file)[1:120]
    assert player.state["track"]["info"]["isStream"]

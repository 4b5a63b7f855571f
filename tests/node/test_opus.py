"""Opus listeners of a real node: they hear what PCM listeners hear, as libopus encodes it, and begin with a burst."""

import asyncio

import numpy as np
import pytest

from tests.support.http_client import WEBSOCKET_HEADERS, websocket
from tests.support.node_in_process import Listening, listening, with_pool
from tests.support.node_over_http import node_over_http
from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.pcm import channels
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryListener
from tonearm.core.filters import BAND_COUNT, FilterChange
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND, OPUS_LOOKAHEAD_SAMPLES, SILENT_PACKET, Output
from tonearm.core.playback_requests import Requests
from tonearm.decoder.pool.pool import DecoderPool
from tonearm.node.node import Node
from tonearm.worker.packets.opus_encoder import OpusEncoder

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

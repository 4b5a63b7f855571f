"""HLS through a whole node: what is heard of it, and what its track tells."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.audio_files import Signal, tone
from tests.support.hls import Cut, LivePlaylist, fmp4, media_playlist, packed_aac, serve_cut, serve_text, ts
from tests.support.media_files import Samples, loudest_hz, samples_of
from tests.support.media_server import MediaServer
from tests.support.node_in_process import listening
from tests.support.opus_listening import decoded
from tests.support.sinks import PacketListener
from tonearm.core.frame import OPUS_LOOKAHEAD_SAMPLES, Output
from tonearm.node.node import Node


def heard_seconds(samples: Samples) -> float:
    """How long it was loud."""
    loud = np.flatnonzero(np.abs(samples[:, 0].astype(int)) > 500)
    return float(loud[-1] - loud[0]) / 48_000 if len(loud) else 0.0


@pytest.mark.parametrize("cut", [ts, packed_aac, fmp4])
async def test_a_whole_stream(node: Node, server: MediaServer, cut: Callable[[Signal, int], Cut]) -> None:
    uri = serve_text(server, "/hls/index.m3u8", media_playlist(serve_cut(server, cut(tone(440, 1.5), 3))))
    player = await listening(node, "p", uri)
    await player.wait_state("idle")
    samples = samples_of(player.listener.pcm)
    assert player.ends == [("index", "finished")]
    assert heard_seconds(samples) == pytest.approx(1.5, abs=0.06)
    assert loudest_hz(samples[4800:62_400]) == pytest.approx(440, abs=2)
    info = player.events.named("TrackStart")[0]["track"]["info"]
    assert (info["length"], info["isStream"], info["isSeekable"]) == (1500, False, False)
    assert (info["uri"], info["sourceName"]) == (uri, "http")
    player.require_no_underrun()


@pytest.mark.parametrize("cut", [ts, fmp4])
async def test_a_whole_stream_of_opus(node: Node, server: MediaServer, cut: Callable[..., Cut]) -> None:
    made = cut(tone(440, 1.5), 3, codec="libopus")
    uri = serve_text(server, "/hls/index.m3u8", media_playlist(serve_cut(server, made)))
    player = await listening(node, "p", uri)
    opus = PacketListener(Output("opus", passes_through=True))
    node.player("p").attach(opus)
    await player.wait_state("idle")
    samples = samples_of(player.listener.pcm)
    assert player.ends == [("index", "finished")]
    assert heard_seconds(samples) == pytest.approx(1.5, abs=0.06)
    assert loudest_hz(samples[4800:62_400]) == pytest.approx(440, abs=2)
    player.require_no_underrun()
    assert sum(opus.passed) >= 70
    heard = decoded(opus.messages)[OPUS_LOOKAHEAD_SAMPLES:].astype(np.int16)
    assert loudest_hz(heard[4800:62_400]) == pytest.approx(440, abs=2)


async def test_what_follows_a_break_in_another_form_is_heard(node: Node, server: MediaServer) -> None:
    """Another rate, another container: nothing of the first demuxer fits."""
    parts = [ts(tone(440, 0.8), 2), ts(tone(880, 0.8, 32_000), 2, 32_000), fmp4(tone(1760, 0.8, 44_100), 2, 44_100)]
    lines: list[str] = []
    for number, part in enumerate(parts):
        names = serve_cut(server, part, f"/hls/{number}")
        names = [name.replace('"init', f'"{number}/init') if name[0] == "#" else f"{number}/{name}" for name in names]
        lines += ["#EXT-X-DISCONTINUITY", *names]
    player = await listening(node, "p", serve_text(server, "/hls/index.m3u8", media_playlist(lines[1:])))
    await player.wait_state("idle")
    samples = samples_of(player.listener.pcm)
    assert player.events.named("TrackException") == []
    assert player.ends == [("index", "finished")]
    assert heard_seconds(samples) == pytest.approx(2.4, abs=0.25)
    for place_s, frequency_hz in ((0.1, 440), (0.95, 880), (1.8, 1760)):
        start = int(place_s * 48_000)
        assert loudest_hz(samples[start : start + 19_200]) == pytest.approx(frequency_hz, abs=5)


@pytest.mark.parametrize("codec", ["aac", "libopus"])
async def test_a_live_stream_up_to_its_end(node: Node, server: MediaServer, codec: str) -> None:
    made = ts(tone(440, 3.0), 30, codec=codec)
    live = LivePlaylist(serve_cut(server, made), window=10, duration_s=0.1)
    player = await listening(node, "p", server.serve("/hls/live.m3u8", live.answer))
    await player.wait_state("idle")
    info = player.events.named("TrackStart")[0]["track"]["info"]
    assert (info["length"], info["isStream"], info["isSeekable"]) == (0, True, False)
    assert heard_seconds(samples_of(player.listener.pcm)) == pytest.approx(2.3, abs=0.2)
    assert player.failures == []

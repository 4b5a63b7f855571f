"""HLS through a whole node: what is heard of it, and what its track tells."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.support.audio_files import Signal, music, tone
from tests.support.hls import Cut, LivePlaylist, fmp4, media_playlist, packed_aac, serve_cut, serve_text, ts
from tests.support.media_files import Samples, loudest_hz, samples_of
from tests.support.media_server import MediaServer
from tests.support.node_in_process import Listening, listening
from tests.support.opus_listening import decoded
from tests.support.sinks import PacketListener
from tonearm.core.frame import OPUS_LOOKAHEAD_SAMPLES, Output
from tonearm.node.node import Node


def heard_seconds(samples: Samples) -> float:
    """How long it was loud."""
    loud = np.flatnonzero(np.abs(samples[:, 0].astype(int)) > 500)
    return float(loud[-1] - loud[0]) / 48_000 if len(loud) else 0.0


@pytest.mark.parametrize(
    "cut", [ts, packed_aac, partial(fmp4, codec="libopus")], ids=["TS", "packed AAC", "Opus in MP4"]
)
async def test_a_whole_stream(node: Node, server: MediaServer, cut: Callable[[Signal, int], Cut]) -> None:
    uri = serve_text(server, "/hls/index.m3u8", media_playlist(serve_cut(server, cut(tone(440, 1.5), 3))))
    player = await listening(node, "p", uri)
    opus = PacketListener(Output("opus", passes_through=True))
    node.player("p").attach(opus)
    await player.wait_state("idle")
    samples = samples_of(player.listener.pcm)
    assert player.ends == [("index", "finished")]
    assert heard_seconds(samples) == pytest.approx(1.5, abs=0.06)
    assert loudest_hz(samples[4800:62_400]) == pytest.approx(440, abs=2)
    info = player.events.named("TrackStart")[0]["track"]["info"]
    assert (info["length"], info["isStream"], info["isSeekable"]) == (1500, False, True)
    assert (info["uri"], info["sourceName"]) == (uri, "http")
    player.require_no_underrun()
    assert (sum(opus.passed) >= 70) == isinstance(cut, partial)
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


async def test_a_live_stream_up_to_its_end(node: Node, server: MediaServer) -> None:
    live = LivePlaylist(serve_cut(server, ts(tone(440, 3.0), 30)), window=10, duration_s=0.1)
    player = await listening(node, "p", server.serve("/hls/live.m3u8", live.answer))
    await player.wait_state("idle")
    info = player.events.named("TrackStart")[0]["track"]["info"]
    assert (info["length"], info["isStream"], info["isSeekable"]) == (0, True, False)
    assert heard_seconds(samples_of(player.listener.pcm)) == pytest.approx(2.3, abs=0.2)
    assert player.failures == []


def place_of(heard: Samples, song: Signal) -> tuple[float, float]:
    """Where in `song` this is heard, in ms, and how much of it that is, from 0 to 1."""
    wanted, whole = heard[:, 0].astype(float), song[:, 0]
    count = len(whole) + len(wanted)
    likeness = np.fft.irfft(np.fft.rfft(whole, count) * np.conj(np.fft.rfft(wanted, count)), count)[: len(whole)]
    at = int(np.argmax(likeness))
    there = whole[at : at + len(wanted)]
    return at / 48, float(likeness[at] / (np.linalg.norm(wanted) * np.linalg.norm(there) or 1))


async def in_a_row(player: Listening, frames: int) -> tuple[Samples, int]:
    """So many frames, of which a late node has left out none, and where the player is then, in ms."""
    left_out = -1
    while left_out != player.quality["lateFrames"]:
        left_out = player.quality["lateFrames"]
        await player.more_frames(frames)
    return samples_of(b"".join(player.listener.messages[-frames:])), player.state["position"]


SONG = music(12.0)


# RFC 8216, 3: timestamps place transport streams and MP4 to the sample; else the lengths in the playlist do, and the
# cuts here are up to a frame beside them. ffmpeg lands at a packet.
@pytest.mark.parametrize(
    ("cut", "count", "length_s", "most_ms"),
    [
        (packed_aac, 12, 1.0, 50),
        (partial(fmp4, codec="libopus"), 12, 1.0, 21),
        (fmp4, 12, 1.0, 1),
        (ts, 12, 1.05, 1),  # lengths are rounded up
        (ts, 1, 12.0, 1),
    ],
)
async def test_seeks(
    node: Node, server: MediaServer, cut: Callable[[Signal, int], Cut], count: int, length_s: float, most_ms: float
) -> None:
    lines = serve_cut(server, cut(SONG, count))
    uri = serve_text(server, "/hls/index.m3u8", media_playlist(lines, duration_s=length_s))
    player = await listening(node, "p", uri)
    await player.more_frames(5)
    heard, position = await in_a_row(player, 5)
    beside = place_of(heard, SONG)[0] - position
    for target_ms in (8_345, 0, 3_999, 9_900):
        node.player("p").seek(target_ms)
        assert player.state["position"] == target_ms
        await player.plays_on(target_ms + 300)
        heard, position = await in_a_row(player, 8)
        at_ms, likeness = place_of(heard, SONG)
        assert likeness > 0.95, target_ms
        assert at_ms + 160 - position - (beside + 100) == pytest.approx(0, abs=most_ms), (at_ms, position)
    assert player.events.named("SeekFailed") == []
    assert player.failures == []


async def test_a_rendition_is_chosen_by_its_language(node: Node, server: MediaServer) -> None:
    lines = ["#EXTM3U"]
    for hz, language in ((440, "en"), (1320, "fr")):
        entries = [f"{language}/{line}" for line in serve_cut(server, ts(tone(hz, 2.0), 2), f"/hls/{language}")]
        serve_text(server, f"/hls/{language}.m3u8", media_playlist(entries))
        lines.append(f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="g",LANGUAGE="{language}",URI="{language}.m3u8"')
    text = "\n".join([*lines, '#EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="g"', "en.m3u8", ""])
    uri = serve_text(server, "/hls/master.m3u8", text)
    player = await listening(node, "p", f"{uri}#t=0.2&audio=fr")
    heard = samples_of(await player.more_frames(30))
    assert loudest_hz(heard[9600:]) == pytest.approx(1320, abs=5)
    assert player.state["source"]["audio"] == {"number": 2, "count": 2, "language": "fr"}

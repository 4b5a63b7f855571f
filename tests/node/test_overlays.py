"""Overlays as a listener hears them, over whatever the player does, and what the events say."""

import numpy as np

from tests.support.audio_files import music, tone, wav
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import Listening, listening
from tests.support.shelf import Shelf, samples
from tonearm.core.filters import FilterChange, Limiter
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.overlays import OverlaySettings
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node
from tonearm.node.tracks import WantedTrack

PLAIN = OverlaySettings(duck_db=0.0, fade_ms=0)
# Without it a sum of two loud sounds is not their sum.
NO_LIMITER = FilterChange(effects={"limiter": Limiter(enabled=False)})


async def playing(node: Node, *uris: str) -> Listening:
    player = await listening(node, "p", *uris)
    node.player("p").do(Requests.change_filters, NO_LIMITER)
    await player.listener.wait_frames(10)
    return player


def add(node: Node, uri: str, settings: OverlaySettings = PLAIN, **part: int) -> str:
    return node.add_overlay("p", WantedTrack(uri, **part), settings)  # type: ignore[arg-type]


def place_of(clip: bytes, heard: np.ndarray, music: np.ndarray) -> int:
    """At which sample of what was heard the clip begins, when the music is `music` there."""
    length = min(len(heard), len(music))
    rest = heard[:length].astype(int) - music[:length].astype(int)
    sound = samples(clip)
    at = int(np.flatnonzero(np.abs(rest).max(axis=1) > 1)[0]) // FRAME_SAMPLES * FRAME_SAMPLES
    count = min(len(sound), length - at)
    wanted = np.clip(music[at : at + count].astype(int) + sound[:count], -32768, 32767)
    assert np.abs(heard[at : at + count] - wanted).max() <= 1
    assert np.abs(rest[at + count :]).max(initial=0) <= 1
    return at


async def test_it_is_heard_over_the_track_from_its_first_sample_to_its_last(node: Node, shelf: Shelf) -> None:
    song, pcm = shelf.song(2.0)
    jingle, clip = shelf.song(0.5)
    player = await playing(node, song)
    before, waited = len(player.listener), player.waited_frames
    overlay = add(node, jingle)
    assert [status.id for status in node.player("p").status().overlays] == [overlay]
    await player.wait_state("idle")
    heard = samples(player.listener.pcm)
    at = place_of(clip, heard, samples(pcm))
    assert at // FRAME_SAMPLES == player.frames_before("OverlayStart")
    assert at // FRAME_SAMPLES - before <= 8 + player.waited_frames - waited
    told = [event for event in player.events.events if event["op"].startswith("Overlay")]
    assert [(event["op"], event["overlayId"]) for event in told] == [("OverlayStart", overlay), ("OverlayEnd", overlay)]
    assert told[1]["reason"] == "finished"
    assert player.ends == [("song1", "finished")]
    assert player.state["overlays"] == []
    player.require_no_underrun()


async def test_those_that_fail_or_hang_end_and_disturb_nothing(node: Node, shelf: Shelf, server: MediaServer) -> None:
    song, pcm = shelf.song(1.5)
    hanging = media(wav(music(4.0, seed=99)), content_type="audio/wav", ranges=False, stall_after=100_000)
    player = await playing(node, song)
    add(node, "/nowhere/at/all.wav")
    add(node, shelf.put("noise.wav", b"this is no sound" * 100))
    add(node, shelf.put("list.m3u", b"noise.wav\nnoise.wav\n"))
    add(node, server.serve("/a.wav", media(wav(music(1.0)), ranges=False)), start_ms=500)
    hangs = add(node, server.serve("/hangs.wav", hanging))
    await player.events.wait_for("OverlayEnd", 4)
    await player.events.wait_for("OverlayStart")
    await player.wait_state("idle")
    heard, track = samples(player.listener.pcm).astype(int), samples(pcm).astype(int)
    started = player.frames_before("OverlayStart") * FRAME_SAMPLES
    silent_from = started + 40 * FRAME_SAMPLES  # 26 frames of it came
    for part in (slice(started), slice(silent_from, len(track))):
        assert np.array_equal(heard[part], track[part])
    player.require_no_underrun()
    node.player("p").remove_overlay(hangs)
    assert [event["reason"] for event in player.events.named("OverlayEnd")] == ["loadFailed"] * 4 + ["stopped"]
    codes = sorted(event["error"]["code"] for event in player.events.named("OverlayException"))
    assert codes[0] == "file_missing"
    assert codes.count("not_audio") == 2


async def test_it_waits_for_the_clock(node: Node, shelf: Shelf) -> None:
    # Silent, so that it may wait for its decoder anywhere: on a busy machine the clip goes on alone meanwhile.
    song, pcm = shelf.put("silence.wav", wav(tone(440, 1.0, level=0.0))), bytes(4 * 48_000)
    jingle, clip = shelf.song(0.4)
    await node.create_player("p", song, {})
    node.player("p").do(Requests.change_filters, NO_LIMITER)
    add(node, jingle)
    await eventually(lambda: node.player("p").status().track.info.length_ms > 0, "the song is opened")
    await eventually(lambda: node.player("p").status().overlays[0].track.info.length_ms > 0, "the clip is opened")
    player = Listening(node, "p")
    await player.wait_state("idle")
    first_frames = samples(player.listener.pcm)[: (8 + player.waited_frames) * FRAME_SAMPLES]
    at = place_of(clip, first_frames, samples(pcm))
    assert at <= (3 + player.waited_frames) * FRAME_SAMPLES

"""What a listener hears of one player: its start, skips, seeks, joins, crossfades and overlays."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tests.support.audio_files import flac, long_book, music, pcm_of, tone, wav
from tests.support.eventually import eventually
from tests.support.media_files import decode_bytes, loudest_hz, samples_of
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import Listening, heard_whole, listening, padded
from tests.support.pcm import without_cuts
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.crossfade import CrossfadeCurve, CrossfadeEdit
from tonearm.core.filters import FilterChange, Limiter
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, samples_of_ms
from tonearm.core.overlays import OverlaySettings
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node
from tonearm.node.tracks import WantedTrack


async def test_track_start_is_reported_before_the_first_frame_and_track_end_after_the_last(
    node: Node, shelf: Shelf
) -> None:
    first, second = shelf.song(0.1), shelf.song(0.1)
    await node.create_player("p", first[0], {})
    told: list[str] = []
    events, listener = MemoryEventClient(), MemoryListener()
    events.on_send = lambda: told.append(events.ops[-1])
    listener.on_write = lambda: told.append("frame")
    node.player("p").subscribe(events, since=None, wants_snapshot=False)
    await node.enqueue("p", second[0], {})
    node.player("p").attach(listener)
    await events.wait_for("TrackEnd", 2)
    kept = [what for what in told if what in ("TrackStart", "TrackEnd", "frame")]
    assert kept == ["TrackStart", *["frame"] * 5, "TrackEnd"] * 2


async def test_what_else_is_asked_gets_its_turn_between_players_that_come_at_once(node: Node) -> None:
    await node.create_player("p0", None, {})
    like = node.player("p0").snapshot()
    created = (node.create_player(f"p{number}", None, {}) for number in range(1, 10))
    taken_over = (node.take_over(replace(like, player_id=f"p{number}")) for number in range(10, 20))
    creating = asyncio.gather(*created, *taken_over)
    turns = 0
    while not creating.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 19
    assert len(list(node.players())) == 20


async def test_a_skip_goes_to_the_first_sample_of_the_next_track(node: Node, shelf: Shelf) -> None:
    songs = [shelf.song(1.0) for _ in range(4)] + [shelf.song(0.2)]
    player = await listening(node, "p", *(uri for uri, _ in songs))
    heard_of: list[int] = []
    for number, wait in enumerate((7, 12, 15, 4)):
        await player.events.wait_for("TrackStart", number + 1)
        await player.listener.wait_frames(sum(heard_of) + wait)
        node.player("p").do(Requests.skip)
        heard_of.append(len(player.listener) - sum(heard_of))
    await player.wait_state("idle")
    expected = [pcm[: frames * FRAME_BYTES] for (_, pcm), frames in zip(songs, heard_of, strict=False)]
    assert without_cuts(player.listener.pcm, [*expected, padded(songs[4][1])]) == b""
    assert [reason for _, reason in player.ends] == ["skipped"] * 4 + ["finished"]


async def test_tracks_of_all_kinds_and_lengths_are_heard_whole_one_after_the_other(
    node: Node, shelf: Shelf, server: MediaServer
) -> None:
    songs = [shelf.song(seconds) for seconds in (0.333, 0.2501, 0.1777, 0.29, 0.0031, 0.2)]
    ranged, unranged = music(0.234, seed=91), music(0.213, seed=92)
    songs[1] = server.serve("/ranged.wav", media(wav(ranged))), pcm_of(ranged)
    songs[3] = server.serve("/unranged.flac", media(flac(unranged), ranges=False)), pcm_of(unranged)
    player = await listening(node, "p", *(uri for uri, _ in songs))
    await player.wait_state("idle")
    assert [reason for _, reason in player.ends] == ["finished"] * 6
    heard_whole(player.listener.pcm, *(pcm for _, pcm in songs))


async def test_a_track_in_a_loop_joins_itself_and_begins_with_its_first_sample_after_a_pause(
    node: Node, shelf: Shelf
) -> None:
    uri, pcm = shelf.song(0.237)
    await node.create_player("p", uri, {})
    node.player("p").do(Requests.set_loop, LoopMode.TRACK)
    node.player("p").do(Requests.pause)
    player = Listening(node, "p")
    await player.wait_state("playing")
    assert len(player.listener) == 0
    node.player("p").do(Requests.play)
    await player.events.wait_for("TrackStart", 4)
    node.player("p").do(Requests.set_loop, LoopMode.NONE)
    await player.wait_state("idle")
    rounds = len(player.starts)
    assert rounds in (4, 5)
    assert player.listener.pcm == padded(*[pcm] * rounds)
    assert {event["track"]["info"]["title"] for event in player.events.named("TrackStart")} == {"song1"}


async def test_in_a_crossfade_the_next_track_comes_in_under_the_end_of_the_one_before(node: Node, shelf: Shelf) -> None:
    (uri, first), (next_uri, second) = shelf.song(1.5), shelf.song(1.5)
    await node.create_player("p", uri, {})
    linear = CrossfadeEdit(duration_ms=500, curve=CrossfadeCurve.LINEAR)
    node.player("p").do(Requests.change_crossfade, linear)
    await node.enqueue("p", next_uri, {})
    player = Listening(node, "p")
    await player.wait_state("idle")
    here, there = samples_of(first).astype(float), samples_of(second).astype(float)
    at, count = samples_of_ms(1_000), samples_of_ms(500)
    share = ((np.arange(count) + 0.5) / count)[:, np.newaxis]
    expected = np.concatenate([here[:at], here[at:] * (1 - share) + there[:count] * share, there[count:]])
    heard = samples_of(player.listener.pcm)
    assert np.abs(heard[: len(expected)] - expected).max() <= 1
    assert not heard[len(expected) :].any()
    ops = [event["op"] for event in player.events.events if event["op"].startswith("Track")]
    assert ops == ["TrackStart", "TrackEnd", "TrackStart", "TrackEnd"]
    assert player.ends == [("song1", "finished"), ("song2", "finished")]
    player.require_no_underrun()


def largest_bend(pcm: bytes) -> int:
    """The largest second difference: what a click is."""
    return int(np.abs(np.diff(samples_of(pcm).astype(np.int64), n=2, axis=0)).max())


async def test_what_is_heard_after_a_seek(node: Node, server: MediaServer) -> None:
    file = flac(music(10.0, rate_hz=44_100), 44_100)
    whole = decode_bytes(file)
    player = await listening(node, "p", server.serve("/a.flac", media(file)))
    await player.more_frames(5)
    for target_ms in (6_345, 3_000, 3_700, 9_001):
        before = len(player.listener)
        node.player("p").seek(target_ms)
        assert player.state["position"] == target_ms
        await player.more_frames(8)
        target = samples_of_ms(target_ms)
        sound = samples_of(b"".join(player.listener.messages[before + 2 : before + 8]))
        # The first frames may hold the end of the sound before; from then on all is as in a continuous decode.
        found = [
            whole[start : start + len(sound)] for start in range(target, target + 3 * FRAME_SAMPLES, FRAME_SAMPLES)
        ]
        assert any(np.array_equal(sound, there) for there in found), target_ms
        heard_ms = (len(player.listener) - before) * 20
        assert abs(player.state["position"] - target_ms - heard_ms) <= 100
    assert largest_bend(player.listener.pcm) <= 1.5 * largest_bend(whole.tobytes())
    assert (player.starts, player.ends) == (["a"], [])


async def test_tracks_cut_from_one_file_are_the_whole_file(node: Node, shelf: Shelf) -> None:
    file = flac(music(4.0, rate_hz=44_100), 44_100)
    path = shelf.put("a.flac", file)
    cuts = ["0,1.234", "1.234,2.1", "2.1,3.333", "3.333"]
    player = await listening(node, "p", *(f"{path}#t={cut}" for cut in cuts))
    await player.wait_state("idle")
    assert player.listener.pcm == padded(decode_bytes(file).tobytes())
    assert [reason for _, reason in player.ends] == ["finished"] * 4
    assert [event["position"] for event in player.events.named("TrackStart")] == [0, 1_234, 2_100, 3_333]


async def test_a_book_of_sixty_hours(node: Node, server: MediaServer) -> None:
    book = long_book(60, index_first=False)
    player = await listening(node, "p", server.serve("/book.m4b", media(book, content_type="audio/mp4")))
    await player.more_frames(10)
    for hour in (59, 30, 0):
        node.player("p").seek((hour * 3600 + 30) * 1000)
        await player.plays_on((hour * 3600 + 31) * 1000)
        heard = samples_of(b"".join(player.listener.messages[-25:]))
        assert loudest_hz(heard) == pytest.approx(300 + 20 * hour, abs=5)
    assert player.failures == []


PLAIN = OverlaySettings(duck_db=0.0, fade_ms=0)
# Without it a sum of two loud sounds is not their sum.
NO_LIMITER = FilterChange(effects={"limiter": Limiter(enabled=False)})


async def playing_alone(node: Node, *uris: str) -> Listening:
    player = await listening(node, "p", *uris)
    node.player("p").do(Requests.change_filters, NO_LIMITER)
    await player.listener.wait_frames(10)
    return player


def add(node: Node, uri: str, settings: OverlaySettings = PLAIN, **part: int) -> str:
    return node.add_overlay("p", WantedTrack(uri, **part), settings)  # type: ignore[arg-type]


def place_of(clip: bytes, heard: np.ndarray, song: np.ndarray) -> int:
    """At which sample of what was heard the clip begins, when the music is `song` there."""
    length = min(len(heard), len(song))
    rest = heard[:length].astype(int) - song[:length].astype(int)
    sound = samples_of(clip)
    at = int(np.flatnonzero(np.abs(rest).max(axis=1) > 1)[0]) // FRAME_SAMPLES * FRAME_SAMPLES
    count = min(len(sound), length - at)
    wanted = np.clip(song[at : at + count].astype(int) + sound[:count], -32768, 32767)
    assert np.abs(heard[at : at + count] - wanted).max() <= 1
    assert np.abs(rest[at + count :]).max(initial=0) <= 1
    return at


async def test_an_overlay_is_heard_over_the_track_from_its_first_sample_to_its_last(node: Node, shelf: Shelf) -> None:
    song, pcm = shelf.song(2.0)
    jingle, clip = shelf.song(0.5)
    player = await playing_alone(node, song)
    before, waited = len(player.listener), player.waited_frames
    overlay = add(node, jingle)
    assert [status.id for status in node.player("p").status().overlays] == [overlay]
    await player.wait_state("idle")
    heard = samples_of(player.listener.pcm)
    at = place_of(clip, heard, samples_of(pcm))
    assert at // FRAME_SAMPLES == player.frames_before("OverlayStart")
    assert at // FRAME_SAMPLES - before <= 8 + player.waited_frames - waited
    told = [event for event in player.events.events if event["op"].startswith("Overlay")]
    assert [(event["op"], event["overlayId"]) for event in told] == [("OverlayStart", overlay), ("OverlayEnd", overlay)]
    assert told[1]["reason"] == "finished"
    assert player.ends == [("song1", "finished")]
    assert player.state["overlays"] == []
    player.require_no_underrun()


async def test_overlays_that_fail_or_hang_end_and_disturb_nothing(
    node: Node, shelf: Shelf, server: MediaServer
) -> None:
    song, pcm = shelf.song(1.5)
    hanging = media(wav(music(4.0, seed=99)), content_type="audio/wav", ranges=False, stall_after=100_000)
    player = await playing_alone(node, song)
    add(node, "/nowhere/at/all.wav")
    add(node, shelf.put("noise.wav", b"this is no sound" * 100))
    add(node, shelf.put("list.m3u", b"noise.wav\nnoise.wav\n"))
    add(node, server.serve("/a.wav", media(wav(music(1.0)), ranges=False)), start_ms=500)
    hangs = add(node, server.serve("/hangs.wav", hanging))
    await player.events.wait_for("OverlayEnd", 4)
    await player.events.wait_for("OverlayStart")
    await player.wait_state("idle")
    heard, track = samples_of(player.listener.pcm).astype(int), samples_of(pcm).astype(int)
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


async def test_an_overlay_waits_for_the_clock(node: Node, shelf: Shelf) -> None:
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
    first_frames = samples_of(player.listener.pcm)[: (8 + player.waited_frames) * FRAME_SAMPLES]
    at = place_of(clip, first_frames, samples_of(pcm))
    assert at <= (3 + player.waited_frames) * FRAME_SAMPLES

"""The whole node without its edge: real files and HTTP, real decoder processes, sound at its real pace."""

import asyncio
import contextlib
import logging
import os
import random
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import pytest_asyncio

from tests.support.audio_files import Signal, flac, mp3, music, pcm_of, tone, video_without_sound, wav
from tests.support.eventually import eventually
from tests.support.fetching import IMPATIENT
from tests.support.media_server import MediaServer, in_turn, media, stall, status
from tests.support.node_in_process import Listening, as_any, listening, padded, running_node
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.audio.broadcast import wrap
from tonearm.audio.sinks import Framing
from tonearm.core.errors import BadRequest, LimitReached, PlayerExists, PlayerNotFound, RequestError, SourceRefused
from tonearm.core.filters import FilterChange
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES
from tonearm.core.track_queue import LoopMode
from tonearm.node import Node, NodeSettings, is_player_id


@pytest_asyncio.fixture
async def node() -> AsyncIterator[Node]:
    async with running_node() as node:
        yield node


@pytest_asyncio.fixture
async def server() -> AsyncIterator[MediaServer]:
    async with MediaServer() as server:
        yield server


@pytest.fixture(autouse=True)
def no_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever happens, the node must not meet an error of its own."""
    yield
    assert not [record.getMessage() for record in caplog.records if record.exc_info]


class Shelf:
    """Songs in a folder, each nowhere the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seed = 0

    def put(self, name: str, data: bytes) -> str:
        path = self._folder / name
        path.write_bytes(data)
        return str(path)

    def song(self, seconds: float, name: str | None = None) -> tuple[str, bytes]:
        """A new WAV file and what is to be heard of it."""
        self._seed += 1
        signal = music(seconds, seed=self._seed)
        return self.put(name or f"song{self._seed}.wav", wav(signal)), pcm_of(signal)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def samples(pcm: bytes) -> npt.NDArray[np.int16]:
    return np.frombuffer(pcm, dtype="<i2").reshape(-1, 2)


# Start


async def test_a_client_that_comes_a_little_later_hears_the_first_sample(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.33)
    await node.create_player("p", uri, {})
    await asyncio.sleep(0.3)
    assert as_any(node.player_state("p"))["position"] == 0
    player = Listening(node, "p")
    await player.events.wait_for("TrackEnd")
    assert player.listener.pcm == padded(pcm)
    assert player.state["state"] == "idle"


async def test_every_kind_of_connection_gets_the_same_sound(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.2)
    player = await listening(node, "p", uri)
    others = {framing: MemoryListener(framing) for framing in Framing}
    for listener in others.values():
        node.attach_listener("p", listener)
    await player.events.wait_for("TrackEnd")
    frames = [padded(pcm)[start : start + FRAME_BYTES] for start in range(0, len(pcm), FRAME_BYTES)]
    for framing, listener in others.items():
        assert listener.messages == [wrap(frame, framing) for frame in frames]


async def test_a_player_without_listeners_starts_after_a_while(shelf: Shelf) -> None:
    uri, _ = shelf.song(0.3)
    async with running_node(NodeSettings(decoder_processes=1, first_listener_wait_ms=100)) as node:
        await node.create_player("p", uri, {})
        events = MemoryEventClient()
        node.subscribe("p", events, since=None, snapshot=False)
        await events.wait_for("TrackEnd", reason="finished")
        assert events.ops[0] == "TrackStart"


async def test_before_the_clock_starts_only_skip_takes_from_the_queue(node: Node, shelf: Shelf) -> None:
    uris = [shelf.song(0.1)[0] for _ in range(3)]
    await node.create_player("p", uris[0], {})
    for uri in uris[1:]:
        await node.enqueue("p", uri, {})
    node.play("p")
    await asyncio.sleep(0.2)
    assert len(node.waiting("p")) == 2
    node.skip("p")
    assert len(node.waiting("p")) == 1


async def test_track_start_is_told_before_the_first_frame_and_track_end_after_the_last(
    node: Node, shelf: Shelf
) -> None:
    first, second = shelf.song(0.1), shelf.song(0.1)
    await node.create_player("p", first[0], {})
    told: list[str] = []
    events, listener = MemoryEventClient(), MemoryListener()
    events.on_send = lambda: told.append(events.ops[-1])
    listener.on_write = lambda: told.append("frame")
    node.subscribe("p", events, since=None, snapshot=False)
    await node.enqueue("p", second[0], {})
    node.attach_listener("p", listener)
    await events.wait_for("TrackEnd", 2)
    kept = [what for what in told if what in ("TrackStart", "TrackEnd", "frame")]
    assert kept == ["TrackStart", *["frame"] * 5, "TrackEnd"] * 2


# Queue, loops, gapless


async def test_three_tracks_join_sample_for_sample(node: Node, shelf: Shelf, server: MediaServer) -> None:
    songs = [shelf.song(seconds) for seconds in (0.333, 0.2501, 0.1777, 0.29, 0.0031, 0.2)]
    ranged, unranged = music(0.234, seed=91), music(0.213, seed=92)
    songs[1] = server.serve("/ranged.wav", media(wav(ranged))), pcm_of(ranged)
    songs[3] = server.serve("/unranged.flac", media(flac(unranged), ranges=False)), pcm_of(unranged)
    player = await listening(node, "p", *(uri for uri, _ in songs))
    await player.wait_state("idle")
    heard, expected = player.listener.pcm, padded(*(pcm for _, pcm in songs))
    assert heard[: len(expected) - FRAME_BYTES * 12] == expected[: len(expected) - FRAME_BYTES * 12]
    assert [reason for _, reason in player.ends] == ["finished"] * 6
    assert len(player.starts) == 6
    assert heard == expected
    assert player.quality["timesRunDry"] == 0


async def test_a_track_in_a_loop_joins_itself(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.237)
    player = await listening(node, "p", uri)
    node.set_loop("p", LoopMode.TRACK)
    await player.events.wait_for("TrackStart", 4)
    node.set_loop("p", LoopMode.NONE)
    await player.wait_state("idle")
    rounds = len(player.starts)
    assert rounds in (4, 5)
    assert player.listener.pcm == padded(*[pcm] * rounds)
    assert {event["track"]["info"]["title"] for event in player.events.named("TrackStart")} == {"song1"}


async def test_a_queue_in_a_loop_goes_round_with_ids_and_metadata(node: Node, shelf: Shelf) -> None:
    (first, first_pcm), (second, second_pcm) = shelf.song(0.15), shelf.song(0.17)
    player = await listening(node, "p", first)
    track_id = await node.enqueue("p", second, {"mine": 2})
    node.set_loop("p", LoopMode.QUEUE)
    await player.events.wait_for("TrackStart", 5)
    assert player.starts == ["song1", "song2", "song1", "song2", "song1"]
    assert node.waiting("p") == [{"id": track_id, "uri": second, "metadata": {"mine": 2}}]
    expected = padded(first_pcm, second_pcm, first_pcm, second_pcm)
    whole = len(expected) // FRAME_BYTES - 1
    assert await player.listener.wait_frames(whole) == expected[: whole * FRAME_BYTES]


async def test_a_change_of_the_queue_in_the_last_moment_is_heard(node: Node, shelf: Shelf) -> None:
    """The next track is joined in what was rendered already when another one is to come next."""
    (first, first_pcm), (second, _) = shelf.song(0.5), shelf.song(0.3)
    player = await listening(node, "p", first, second)
    await player.listener.wait_frames(19)
    node.set_loop("p", LoopMode.TRACK)
    await player.events.wait_for("TrackStart", 2)
    node.set_loop("p", LoopMode.NONE)
    assert player.starts == ["song1", "song1"]
    expected = padded(first_pcm, first_pcm)
    assert await player.listener.wait_frames(40) == expected[: 40 * FRAME_BYTES]


async def test_an_idle_player_plays_again_and_what_is_queued(node: Node, shelf: Shelf) -> None:
    (first, first_pcm), (second, second_pcm) = shelf.song(0.11), shelf.song(0.13)
    player = await listening(node, "p", first)
    await player.wait_state("idle")
    assert player.state["track"]["info"]["title"] == "song1"
    node.play("p")
    await player.events.wait_for("TrackEnd", 2)
    await player.wait_state("idle")
    await player.enqueue(second)
    await player.events.wait_for("TrackEnd", 3)
    assert player.listener.pcm == padded(first_pcm) * 2 + padded(second_pcm)
    assert player.events.seqs == list(range(1, len(player.events.seqs) + 1))


# Pause and skip


async def test_pausing_loses_no_sample(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.6)
    player = await listening(node, "p", uri)
    for frames in (3, 9, 10, 22):
        await player.listener.wait_frames(frames)
        node.pause("p")
        node.pause("p")
        paused_at = len(player.listener)
        assert player.state["paused"]
        await asyncio.sleep(0.1)
        assert len(player.listener) == paused_at
        node.play("p")
    await player.wait_state("idle")
    assert player.listener.pcm == padded(pcm)
    assert len(player.events.named("PlayerPause")) == len(player.events.named("PlayerResume")) == 4


async def test_a_player_paused_from_the_start_begins_with_the_first_sample(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.2)
    await node.create_player("p", uri, {})
    node.pause("p")
    player = Listening(node, "p")
    await asyncio.sleep(0.2)
    assert len(player.listener) == 0
    assert player.events.ops == []
    node.play("p")
    await player.wait_state("idle")
    assert player.listener.pcm == padded(pcm)


async def test_a_skip_goes_to_the_first_sample_of_the_next_track(node: Node, shelf: Shelf) -> None:
    songs = [shelf.song(1.0) for _ in range(4)] + [shelf.song(0.2)]
    player = await listening(node, "p", *(uri for uri, _ in songs))
    heard_of: list[int] = []
    for number, wait in enumerate((7, 12, 15, 4)):
        await player.events.wait_for("TrackStart", number + 1)
        await player.listener.wait_frames(sum(heard_of) + wait)
        node.skip("p")
        heard_of.append(len(player.listener) - sum(heard_of))
    await player.wait_state("idle")
    expected = [pcm[: frames * FRAME_BYTES] for (_, pcm), frames in zip(songs, heard_of, strict=False)]
    assert player.listener.pcm == b"".join(expected) + padded(songs[4][1])
    assert [reason for _, reason in player.ends] == ["skipped"] * 4 + ["finished"]


async def test_skips_in_all_states(node: Node, shelf: Shelf, server: MediaServer) -> None:
    loading = server.serve("/never.mp3", stall())
    song, pcm = shelf.song(0.2)
    player = await listening(node, "p", loading, loading, song)
    node.skip("p")  # opening
    await server.requested(1)
    node.pause("p")
    node.skip("p")  # opening and paused
    assert player.state["track"]["info"]["title"] == "song1"
    node.play("p")
    await player.wait_state("idle")
    node.skip("p")  # nothing to skip
    assert player.ends == [("never", "skipped"), ("never", "skipped"), ("song1", "finished")]
    await player.enqueue("/missing.mp3")
    await player.wait_state("failed")
    node.skip("p")
    assert player.state["state"] == "idle"
    assert player.ends[3:] == [("missing", "loadFailed"), ("missing", "skipped")]
    assert player.listener.pcm == padded(pcm)


# Failures


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "text", "no_sound", "404", "refused", "broken"])
async def test_a_bad_source_is_told_and_the_next_one_plays(
    kind: str, node: Node, shelf: Shelf, server: MediaServer, tmp_path: Path
) -> None:
    uri, code, http_status = {
        "missing": (str(tmp_path / "missing.mp3"), "file_missing", None),
        "folder": (str(tmp_path), "file_unreadable", None),
        "empty": (shelf.put("empty.mp3", b""), "empty", None),
        "text": (shelf.put("text.mp3", b"this is no audio at all\n" * 1000), "not_audio", None),
        "no_sound": (shelf.put("video.mp4", video_without_sound()), "no_audio_stream", None),
        "404": (server.url("/nothing.mp3"), "http_status", 404),
        "refused": ("http://127.0.0.1:1/a.mp3", "connect_failed", None),
        "broken": (shelf.put("broken.flac", flac(music(0.2))[:50]), None, None),
    }[kind]
    song, pcm = shelf.song(0.1)
    player = await listening(node, "p", uri, song)
    await player.wait_state("idle")
    assert [reason for _, reason in player.ends] == ["loadFailed", "finished"]
    assert player.starts == ["song1"]
    assert player.listener.pcm == padded(pcm)
    error = player.events.named("TrackException")[0]["error"]
    assert code is None or error["code"] == code
    assert error.get("httpStatus") == http_status
    assert error["message"].endswith(".")
    assert error["hint"].endswith(".")
    ops = [op for op in player.events.ops if op.startswith("Track")]
    assert ops == ["TrackException", "TrackEnd", "TrackStart", "TrackEnd"]


async def test_a_failure_is_told_when_the_tracks_turn_comes(node: Node) -> None:
    await node.create_player("p", "/missing.mp3", {})
    node.pause("p")
    player = Listening(node, "p")
    await asyncio.sleep(0.2)
    assert player.events.ops == []
    node.play("p")
    await player.wait_state("failed")
    assert player.failures == ["file_missing"]
    assert player.state["track"]["info"]["title"] == "missing"


async def test_five_failures_in_a_row_stop_and_play_goes_on(node: Node, shelf: Shelf) -> None:
    song, pcm = shelf.song(0.1)
    player = await listening(node, "p", *(f"/missing{number}.mp3" for number in range(6)), song)
    await player.wait_state("failed")
    assert player.failures == ["file_missing"] * 5
    assert [track["uri"] for track in as_any(node.waiting("p"))] == ["/missing5.mp3", song]
    node.play("p")
    await player.wait_state("idle")
    assert player.failures == ["file_missing"] * 6
    assert player.listener.pcm == padded(pcm)


async def test_a_source_that_breaks_off_plays_as_far_as_it_came(shelf: Shelf, server: MediaServer) -> None:
    signal = music(3.0)
    body = flac(signal)
    uri = server.serve("/cut.flac", in_turn(media(body, stall_after=len(body) * 2 // 3, ranges=False), status(404)))
    song, pcm = shelf.song(0.1)
    async with running_node(fetching=IMPATIENT) as node:
        player = await listening(node, "p", uri, song)
        await player.wait_state("idle")
        assert [reason for _, reason in player.ends] == ["loadFailed", "finished"]
        assert len(player.failures) == 1
        assert player.starts == ["cut", "song1"]
        heard = player.listener.pcm
        begins = heard.find(pcm)
        assert begins > 0.8 * 48_000 * 4
        kept = begins - FRAME_BYTES  # silence may fill the last frame
        assert heard[:kept] == pcm_of(signal)[:kept]


# Filters


def original(seconds: float) -> tuple[Signal, bytes]:
    signal = tone(1000, seconds)
    return signal, pcm_of(signal)


def sharpest_bend(pcm: bytes) -> int:
    """The largest second difference: 281 for this tone, thousands at a click."""
    return int(np.abs(np.diff(samples(pcm).astype(np.int32), n=2, axis=0)).max())


CALM = 420


async def test_a_filter_is_heard_soon_without_a_click_and_goes_without_a_trace(node: Node, shelf: Shelf) -> None:
    signal, pcm = original(1.6)
    player = await listening(node, "p", shelf.put("tone.wav", wav(signal)))
    changes = [
        (FilterChange(volume=0.25), 10),
        (FilterChange(volume=1.0), 24),
        (FilterChange(gains=((8, -18.0), (9, -12.0))), 38),
        (FilterChange(gains=()), 60),
    ]
    delays: list[int] = []
    for change, at_frame in changes:
        await player.listener.wait_frames(at_frame)
        before = len(player.listener)
        node.change_filters("p", change)
        assert len(player.listener) == before
        delays.append(before)
    await player.wait_state("idle")
    heard = player.listener.pcm
    assert len(heard) == len(padded(pcm))
    assert sharpest_bend(heard) < CALM
    frames = [(heard[i : i + FRAME_BYTES], pcm[i : i + FRAME_BYTES]) for i in range(0, len(pcm), FRAME_BYTES)]
    is_touched = [left != right for left, right in frames]
    assert not any(is_touched[: delays[0]])
    assert is_touched.index(True, delays[0]) - delays[0] <= 8
    for flat_at, changed_at in ((delays[1], delays[2]), (delays[3], len(frames))):
        first_flat = is_touched.index(False, flat_at)
        assert first_flat - flat_at <= 10
        assert not any(is_touched[first_flat:changed_at])
    quiet = samples(heard[(delays[0] + 9) * FRAME_BYTES : delays[1] * FRAME_BYTES])
    assert np.abs(quiet).max() == pytest.approx(16384 * 0.25, abs=2)
    assert [event["filters"]["volume"] for event in player.events.named("FiltersChange")] == [0.25, 1.0, 1.0, 1.0]


async def test_volume_zero_is_silence(node: Node, shelf: Shelf) -> None:
    signal, _ = original(0.4)
    await node.create_player("p", shelf.put("tone.wav", wav(signal)), {})
    node.change_filters("p", FilterChange(volume=0.0))
    player = Listening(node, "p")
    await player.wait_state("idle")
    assert len(player.listener) == 20
    assert np.abs(samples(player.listener.pcm[FRAME_BYTES:])).max() == 0


async def test_a_slider_that_is_dragged_glides(node: Node, shelf: Shelf) -> None:
    signal, pcm = original(1.6)
    player = await listening(node, "p", shelf.put("tone.wav", wav(signal)))
    await player.listener.wait_frames(5)
    for step in range(100):
        node.change_filters("p", FilterChange(volume=1.0 - step / 100))
        await asyncio.sleep(0.01)
    await player.wait_state("idle")
    assert len(player.listener.pcm) == len(padded(pcm))
    assert player.quality["timesRunDry"] == 0
    assert sharpest_bend(player.listener.pcm) < CALM
    last = samples(player.listener.pcm[-5 * FRAME_BYTES :])
    assert np.abs(last).max() == pytest.approx(16384 * 0.01, abs=2)
    levels = [int(np.abs(samples(message)).max()) for message in player.listener.messages]
    assert len(set(levels)) > 20  # it is heard on its way, too


async def test_filters_carry_over_from_track_to_track(node: Node, shelf: Shelf) -> None:
    songs = [shelf.song(0.21), shelf.song(0.22)]
    await node.create_player("p", songs[0][0], {})
    node.change_filters("p", FilterChange(volume=0.5))
    await node.enqueue("p", songs[1][0], {})
    player = Listening(node, "p")
    await player.wait_state("idle")
    expected = samples(padded(songs[0][1], songs[1][1])).astype(np.float64) * 0.5
    heard = samples(player.listener.pcm)
    assert np.abs(heard[FRAME_SAMPLES:] - expected[FRAME_SAMPLES:]).max() <= 0.5


async def test_filters_out_of_range_change_nothing(node: Node, shelf: Shelf) -> None:
    player = await listening(node, "p", shelf.song(0.1)[0])
    with pytest.raises(BadRequest):
        node.change_filters("p", FilterChange(volume=0.5, gains=((0, 3.0), (15, 1.0))))
    assert as_any(node.filters("p"))["volume"] == 1.0
    assert "FiltersChange" not in player.events.ops


# Deaths of decoder processes


def is_opened(player: Listening) -> bool:
    return bool(player.state["track"]["info"]["length"])


def kill(player: Listening, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(player.quality["decoderProcess"], number)


@pytest.mark.parametrize("kind", ["wav file", "flac file", "http with ranges", "http without ranges"])
async def test_after_a_kill_the_sound_goes_on_with_the_right_sample(
    kind: str, node: Node, shelf: Shelf, server: MediaServer
) -> None:
    signal = music(1.3)
    body = flac(signal) if kind == "flac file" else wav(signal)
    if kind.endswith("file"):
        uri = shelf.put("song." + kind[:4].strip(), body)
    else:
        uri = server.serve("/song.wav", media(body, ranges=kind == "http with ranges"))
    player = await listening(node, "p", uri)
    await player.listener.wait_frames(15)
    before = player.quality["decoderProcess"]
    kill(player)
    await player.wait_state("idle")
    assert player.listener.pcm == padded(pcm_of(signal))
    assert player.ends == [("song", "finished")]
    assert len(player.starts) == 1
    assert player.failures == []
    assert player.quality["decoderProcess"] != before


async def test_a_kill_at_any_time_of_a_queue_loses_and_doubles_no_sample(node: Node, shelf: Shelf) -> None:
    songs = [shelf.song(seconds) for seconds in (0.431, 0.367, 0.41, 0.389)]
    player = await listening(node, "p", *(uri for uri, _ in songs))
    for frames in (12, 19, 26, 48):
        await player.listener.wait_frames(frames)
        kill(player)
        killed = player.quality["decoderProcess"]
        await eventually(lambda killed=killed: player.quality["decoderProcess"] != killed, "another process")  # type: ignore[misc]
    await player.wait_state("idle")
    assert player.ends == [(f"song{number}", "finished") for number in range(1, 5)]
    heard = player.listener.pcm
    at = 0
    for _, pcm in songs:  # a join may be missed when its process died: then silence fills the last frame
        found = heard.find(pcm, at)
        assert found - at in range(FRAME_BYTES)
        assert not any(heard[at:found])
        at = found + len(pcm)
    assert not any(heard[at:])


async def test_a_kill_is_not_heard_in_the_other_process(shelf: Shelf) -> None:
    songs = [shelf.song(0.9) for _ in range(6)]
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, f"p{number}", uri) for number, (uri, _) in enumerate(songs)]
        killed = players[0].quality["decoderProcess"]
        spared = [player for player in players if player.quality["decoderProcess"] != killed]
        assert 1 <= len(spared) < len(players)
        await players[0].listener.wait_frames(12)
        kill(players[0])
        await asyncio.gather(*(player.wait_state("idle") for player in players))
        for player, (_, pcm) in zip(players, songs, strict=True):
            assert player.listener.pcm == padded(pcm)
        assert [player.quality["timesRunDry"] for player in spared] == [0] * len(spared)


async def test_a_source_that_crashes_the_decoder_twice_is_not_tried_again(node: Node, shelf: Shelf) -> None:
    uri = shelf.put("bad.flac", flac(music(20.0)))
    failures: set[str] = set()
    for round_number in range(10):
        # So many that the process is at work on it for a while.
        players = [await listening(node, f"p{round_number}.{number}", uri) for number in range(20)]
        await eventually(lambda: any(is_opened(player) or player.failures for player in players), "it is opened")  # noqa: B023
        failures.update(code for player in players for code in player.failures)
        if failures:
            break
        killed = players[0].quality["decoderProcess"]
        os.kill(killed, signal.SIGSEGV)
        await eventually(lambda: players[0].quality["decoderProcess"] != killed, "another process")  # noqa: B023
        for player in players:
            await node.delete_player(player.id)
    assert failures == {"quarantined"}
    last = await listening(node, "last", uri)
    await last.wait_state("failed")
    assert last.failures == ["quarantined"]


async def test_orders_while_the_decoder_is_replaced(node: Node, shelf: Shelf) -> None:
    songs = [shelf.song(0.5) for _ in range(3)]
    player = await listening(node, "p", *(uri for uri, _ in songs))
    gone = await listening(node, "gone", songs[0][0])
    await player.listener.wait_frames(5)
    kill(player)
    await asyncio.sleep(0.01)
    node.skip("p")
    node.pause("p")
    await node.delete_player("gone")
    node.change_filters("p", FilterChange(volume=0.5))
    node.change_filters("p", FilterChange(volume=1.0))
    node.skip("p")
    node.play("p")
    await player.wait_state("idle")
    assert player.ends == [("song1", "skipped"), ("song2", "skipped"), ("song3", "finished")]
    assert player.listener.pcm.endswith(padded(songs[2][1]))
    assert gone.events.ops[-1] == "PlayerDelete"


# What clients see


async def test_positions_follow_what_is_sent(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(5.3)
    player = await listening(node, "p", uri)
    await player.events.wait_for("TrackStart")
    for frames in (1, 7, 30):
        await player.listener.wait_frames(frames)
        assert player.state["position"] == 20 * len(player.listener)
    assert player.state["track"]["info"]["position"] == player.state["position"]
    update = await player.events.wait_for("PlayerUpdate", 2, state="playing", paused=False)
    assert update["position"] == 5000
    assert len(player.listener) == 250


async def test_the_whole_state(node: Node, shelf: Shelf) -> None:
    (uri, _), (other, _) = shelf.song(0.5), shelf.song(0.1)
    await node.create_player("p", uri, {"guild": 1})
    player = Listening(node, "p")
    await player.enqueue(other)
    await player.events.wait_for("TrackStart")
    state = player.state
    assert {
        "id": "p",
        "state": "playing",
        "paused": False,
        "volume": 1.0,
        "loop": "none",
        "queueLength": 1,
        "metadata": {"guild": 1},
        "listeners": 1,
        "seq": player.events.seqs[-1],
    }.items() <= state.items()
    assert len(state["eq"]) == 15
    assert set(state["quality"]) >= {"framesSent", "framesLostByListeners", "timesRunDry", "latePlans"}
    track = state["track"]
    assert track["userData"] == {"guild": 1}
    assert (track["info"]["length"], track["info"]["isSeekable"], track["info"]["isStream"]) == (500, True, False)
    assert track["info"]["sourceName"] == "file"
    assert [entry["id"] for entry in as_any(list(node.list_players()))] == ["p"]


async def test_a_track_before_and_after_it_was_opened(node: Node, shelf: Shelf, server: MediaServer) -> None:
    uri = server.serve("/song.mp3", in_turn(stall(), media(mp3(music(0.3), tags={"title": "A title"}))))
    player = await listening(node, "p", uri)
    info = player.state["track"]["info"]
    assert (info["title"], info["length"], info["isSeekable"], info["isStream"]) == ("song", 0, False, False)
    await server.requested(1)
    node.skip("p")
    await player.enqueue(uri)
    start = await player.events.wait_for("TrackStart")
    assert start["uri"] == uri
    info = start["track"]["info"]
    assert info["title"] == "A title"
    assert info["length"] in range(290, 340)
    assert info["isSeekable"]


async def test_queue_and_metadata(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(0.5)
    await node.create_player("p", uri, {})
    player = Listening(node, "p")
    track_id = await node.enqueue("p", uri, {"a": [1]})
    assert str(uuid.UUID(track_id)) == track_id
    assert node.waiting("p") == [{"id": track_id, "uri": uri, "metadata": {"a": [1]}}]
    node.change_metadata("p", True, {"a": 1, "b": 2})
    node.change_metadata("p", True, {"a": None, "c": "\ud800"})
    assert player.state["metadata"] == {"b": 2, "c": "\ud800"}
    assert player.state["track"]["userData"] == {"b": 2, "c": "\ud800"}
    assert [event["metadata"] for event in player.events.named("MetadataChange")] == [
        {"a": 1, "b": 2},
        {"b": 2, "c": "\ud800"},
    ]


async def test_unknown_players(node: Node) -> None:
    calls: list[Callable[[], object]] = [
        lambda: node.play("x"),
        lambda: node.pause("x"),
        lambda: node.skip("x"),
        lambda: node.waiting("x"),
        lambda: node.filters("x"),
        lambda: node.player_state("x"),
        lambda: node.set_loop("x", LoopMode.NONE),
        lambda: node.attach_listener("x", MemoryListener()),
        lambda: node.subscribe("x", MemoryEventClient(), since=None, snapshot=False),
    ]
    for call in calls:
        with pytest.raises(PlayerNotFound):
            call()
    with pytest.raises(PlayerNotFound):
        await node.delete_player("x")
    assert not node.has_player("x")


@pytest.mark.parametrize("player_id", ["a", "A.b_c~d:e@f+g-h", "...", "0" * 128])
def test_ids_that_can_be_reached(player_id: str) -> None:
    assert is_player_id(player_id)


@pytest.mark.parametrize("player_id", ["", ".", "..", "a/b", "a b", "ä", "a\n", "%41", "0" * 129, "a?b"])
async def test_ids_that_cannot(node: Node, player_id: str, shelf: Shelf) -> None:
    with pytest.raises(BadRequest):
        await node.create_player(player_id, shelf.song(0.1)[0], {})


async def test_of_many_creates_with_one_id_one_succeeds(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(0.1)
    results = await asyncio.gather(*(node.create_player("p", uri, {}) for _ in range(50)), return_exceptions=True)
    assert results.count(None) == 1
    assert sum(isinstance(result, PlayerExists) for result in results) == 49
    await node.delete_player("p")
    await node.create_player("p", uri, {})


@pytest.mark.parametrize("uri", ["", "ftp://x/a", "http://", "http://u:p@h/a", "/dev/zero", "x" * 5000, "a\x00b"])
async def test_what_cannot_be_played_at_all_creates_nothing(node: Node, uri: str) -> None:
    with pytest.raises((BadRequest, SourceRefused)):
        await node.create_player("p", uri, {})
    assert not node.has_player("p")


async def test_limits(shelf: Shelf) -> None:
    uri, _ = shelf.song(0.3)
    settings = NodeSettings(decoder_processes=1, max_players=2, max_waiting_tracks=2, max_listeners=2)
    async with running_node(settings) as node:
        player = await listening(node, "a", uri, uri, uri)
        with pytest.raises(LimitReached):
            await node.enqueue("a", uri, {})
        detach = node.attach_listener("a", MemoryListener())
        with pytest.raises(LimitReached):
            node.attach_listener("a", MemoryListener())
        detach()
        node.attach_listener("a", MemoryListener())
        await node.create_player("b", uri, {})
        with pytest.raises(LimitReached):
            await node.create_player("c", uri, {})
        await node.delete_player("b")
        await node.create_player("c", uri, {})
        assert player.state["queueLength"] == 2


# Deleting and stopping


async def _at_once(player: Listening) -> None: ...


async def _opening(player: Listening) -> None:
    await asyncio.sleep(0.02)


async def _playing(player: Listening) -> None:
    await player.listener.wait_frames(3)


async def _paused(player: Listening) -> None:
    await player.listener.wait_frames(3)
    player.node.pause(player.id)


async def _idle(player: Listening) -> None:
    player.node.skip(player.id)


async def _decoder_killed(player: Listening) -> None:
    await player.listener.wait_frames(3)
    kill(player)
    await asyncio.sleep(0.005)


async def _filters_changing(player: Listening) -> None:
    await player.listener.wait_frames(3)
    player.node.change_filters(player.id, FilterChange(volume=0.3))


MOMENTS = [_at_once, _opening, _playing, _paused, _idle, _decoder_killed, _filters_changing]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_deleting_at_any_moment(moment: Callable[[Listening], Awaitable[None]], node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.3)
    player = await listening(node, "p", uri)
    await moment(player)
    await node.delete_player("p")
    assert player.events.ops[-1] == "PlayerDelete"
    assert [code for code, _ in player.events.closed] == [code for code, _ in player.listener.closed] == [1000]
    if moment is not _idle:
        assert player.ends[-1] == ("song1", "stopped")
    assert not node.has_player("p")
    again = await listening(node, "p", uri)
    await again.wait_state("idle")
    assert again.listener.pcm == padded(pcm)
    assert again.events.seqs[0] == 1


@pytest.mark.parametrize("moment", MOMENTS)
async def test_stopping_at_any_moment_leaves_nothing(
    moment: Callable[[Listening], Awaitable[None]], shelf: Shelf, server: MediaServer
) -> None:
    """`running_node` looks for what is left."""
    song, never = shelf.song(0.5)[0], server.serve("/never.mp3", stall())
    half = server.serve("/half.wav", media(wav(music(10.0)), stall_after=200_000))
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, f"p{number}", song, half, never) for number in range(5)]
        others = [await listening(node, f"q{number}", uri) for number, uri in enumerate((never, half))]
        await moment(players[0])
    for player in (*players, *others):
        assert [code for code, _ in player.listener.closed] == [code for code, _ in player.events.closed] == [1001]
    await server.all_gone()


async def test_a_node_that_was_stopped_or_not_started_may_be_stopped(shelf: Shelf) -> None:
    async with running_node() as node:
        await node.create_player("p", shelf.song(0.1)[0], {})
        await node.stop()
        await node.stop()
        assert not node.has_player("p")


# A soak


class Chaos:
    """Does to a player whatever comes to its mind, and looks whether the player keeps its promises."""

    def __init__(self, player: Listening, uris: list[str], seed: int) -> None:
        self._player = player
        self._uris = uris
        self._random = random.Random(seed)

    async def go_on_for(self, steps: int) -> None:
        for _ in range(steps):
            await self._do_something()
            await asyncio.sleep(self._random.choice((0, 0, 0.001, 0.01, 0.03)))

    async def _do_something(self) -> None:
        node, player_id = self._player.node, self._player.id
        match self._random.choice(("play", "play", "pause", "skip", "loop", "queue", "queue", "filters", "listen")):
            case "play":
                node.play(player_id)
            case "pause":
                node.pause(player_id)
            case "skip":
                node.skip(player_id)
            case "loop":
                node.set_loop(player_id, self._random.choice(list(LoopMode)))
            case "queue":
                await node.enqueue(player_id, self._random.choice(self._uris), {})
            case "filters":
                gains = ((self._random.randrange(15), self._random.uniform(-24, 24)),)
                node.change_filters(player_id, FilterChange(self._random.uniform(0, 2), gains))
            case "listen":
                node.attach_listener(player_id, MemoryListener())()

    async def plays_as_ever(self, uri: str, pcm: bytes) -> None:
        """After all that: everything is taken away, and a song is heard to the sample."""
        node, player = self._player.node, self._player
        node.set_loop(player.id, LoopMode.NONE)
        node.change_filters(player.id, FilterChange(1.0, ()))
        while player.state["queueLength"] or player.state["state"] != "idle":
            node.skip(player.id)
            await asyncio.sleep(0)
        heard_before = len(player.listener)
        node.play(player.id)
        node.skip(player.id)
        await node.enqueue(player.id, uri, {})
        await player.wait_state("idle")
        # In the first frame the sound still glides from the filters of before.
        heard = player.listener.messages[heard_before:]
        assert b"".join(heard[1:]) == padded(pcm)[FRAME_BYTES:]
        assert len(heard[0]) == FRAME_BYTES

    def kept_its_promises(self) -> None:
        events = self._player.events
        assert events.seqs == list(range(1, len(events.seqs) + 1))
        sounding: str | None = None
        for event in events.events:
            if event["op"] == "TrackStart":
                assert sounding is None, "a track started before the other had ended"
                sounding = event["track"]["info"]["title"]
            elif event["op"] == "TrackEnd":
                assert sounding in (None, event["track"]["info"]["title"])
                sounding = None


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_clients_do(
    seed: int, shelf: Shelf, server: MediaServer, caplog: pytest.LogCaptureFixture
) -> None:
    uris = [shelf.song(seconds)[0] for seconds in (0.05, 0.21, 0.37, 1.5)]
    uris.append(server.serve("/web.wav", media(wav(music(0.3)), ranges=False)))
    uris.append(server.serve("/half.wav", media(wav(music(2.0)), stall_after=100_000)))
    uris.append(server.url("/nothing.mp3"))
    uris.append("/missing.mp3")
    last_uri, last_pcm = shelf.song(0.31)
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, f"p{number}", uris[number % len(uris)]) for number in range(6)]
        chaos = [Chaos(player, uris, seed * 100 + number) for number, player in enumerate(players)]
        await asyncio.gather(*(one.go_on_for(200) for one in chaos))
        await asyncio.gather(*(one.plays_as_ever(last_uri, last_pcm) for one in chaos))
        for one in chaos:
            one.kept_its_promises()
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def test_whatever_clients_do_while_decoders_die(shelf: Shelf, server: MediaServer) -> None:
    uris = [shelf.song(seconds)[0] for seconds in (0.05, 0.37, 1.5)]
    uris.append(server.serve("/web.wav", media(wav(music(0.6)))))
    last_uri, last_pcm = shelf.song(0.31)
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, f"p{number}", uris[number % len(uris)]) for number in range(6)]
        chaos = [Chaos(player, uris, number) for number, player in enumerate(players)]

        async def kill_now_and_then() -> None:
            for _ in range(4):
                await asyncio.sleep(0.4)
                process_id = as_any(next(iter(node.list_players())))["quality"]["decoderProcess"]
                if process_id is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process_id, signal.SIGKILL)

        await asyncio.gather(kill_now_and_then(), *(one.go_on_for(200) for one in chaos))
        await asyncio.sleep(1.5)  # the last one that was killed is replaced
        await asyncio.gather(*(one.plays_as_ever(last_uri, last_pcm) for one in chaos))
        for one in chaos:
            one.kept_its_promises()


def test_request_errors_are_what_the_edge_translates() -> None:
    assert issubclass(PlayerNotFound, RequestError)

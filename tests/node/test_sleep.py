"""Players that nobody listens to, with real decoders: what is heard when somebody comes, and what is found then."""

import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import pytest_asyncio

from tests.support.audio_files import flac, mp3, music, opus, pcm_of, tone, wav
from tests.support.eventually import eventually
from tests.support.media_files import Samples, decode_bytes, samples_of
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import decoder_processes, explained_underruns, running_node, state_of
from tests.support.processes import WaitForCpu
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.filters import FilterChange, Timescale
from tonearm.core.frame import FRAME_MS, FRAME_SAMPLES, FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from tonearm.core.overlays import OverlaySettings
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings
from tonearm.node.tracks import WantedTrack

SECONDS = 8.0
HEARD_WITHIN_S = 0.15


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_node() -> AsyncIterator[Node]:
    async with running_node(NodeSettings(decoder_processes=2, first_listener_wait_ms=0)) as node:
        yield node


async def without_listener(node: Node, player_id: str, *uris: str) -> MemoryEventClient:
    await node.create_player(player_id, uris[0], {})
    events = MemoryEventClient()
    node.player(player_id).subscribe(events, since=None, wants_snapshot=False)
    for uri in uris[1:]:
        await node.enqueue(player_id, uri, {})
    await events.wait_for("TrackStart")
    return events


def is_asleep(node: Node, player_id: str) -> bool:
    state = state_of(node, player_id)
    return state["state"] == "playing" and state["quality"]["decoderProcess"] is None


def plays(node: Node, player_id: str, title: str) -> bool:
    return bool(state_of(node, player_id)["track"]["info"]["title"] == title)


async def asleep(node: Node, *player_ids: str) -> None:
    for player_id in player_ids:
        await eventually(partial(is_asleep, node, player_id), f"{player_id} sleeps")


FILES: dict[str, Callable[[int], bytes]] = {
    "wav": lambda seed: wav(music(SECONDS, seed=seed)),
    "flac": lambda seed: flac(music(SECONDS, seed=seed)),
    "mp3": lambda seed: mp3(music(SECONDS, 44_100, seed=seed)),
    "opus": lambda seed: opus(music(SECONDS, seed=seed)),
}


@pytest.mark.timing
async def test_a_listener_hears_the_right_samples_and_exact_joins(node: Node, shelf: Shelf) -> None:
    whole, uris = dict[str, bytes](), dict[str, list[str]]()
    for kind, file in FILES.items():
        data = [file(1), file(2)]
        whole[kind] = b"".join(decode_bytes(part).tobytes() for part in data)
        uris[kind] = [shelf.put(f"{kind}{number}.{kind}", part) for number, part in enumerate(data)]
    wait_from_the_first = WaitForCpu(*decoder_processes(node))
    for kind in FILES:
        await without_listener(node, kind, *uris[kind])
    await asleep(node, *FILES)
    listeners = {kind: MemoryListener() for kind in FILES}
    positions_ms, passed_frames = {}, {}
    for kind, listener in listeners.items():
        wait = WaitForCpu(*decoder_processes(node))
        node.player(kind).attach(listener)
        positions_ms[kind] = node.player(kind).status().position_ms
        began_s = time.monotonic()
        await listener.wait_frames(1)
        passed_s, moved_ms = time.monotonic() - began_s, node.player(kind).status().position_ms - positions_ms[kind]
        waited_s = wait.seconds(*decoder_processes(node))
        assert passed_s < HEARD_WITHIN_S + waited_s
        # The player went on while its source was being opened.
        assert abs(moved_ms - passed_s * 1000) <= 40 + waited_s * 1000
        passed_frames[kind] = math.ceil((passed_s + 0.04) * FRAMES_PER_SECOND)
    for kind, listener in listeners.items():
        await eventually(partial(plays, node, kind, f"{kind}1"), "the next one")
        await listener.wait_frames(len(listener) + 25)
        heard, pcm = listener.pcm, whole[kind]
        waited_s = wait_from_the_first.seconds(*decoder_processes(node))
        assert node.player(kind).status().quality.underruns <= explained_underruns(waited_s)
        first = samples_of(heard)
        reference = samples_of(pcm)
        place = positions_ms[kind] * 48
        lags = range(0, (passed_frames[kind] + 1) * FRAME_SAMPLES, FRAME_SAMPLES)
        beginning = first[: FRAMES_PER_SECOND * FRAME_SAMPLES // 10]  # enough to find it: it is nowhere the same twice
        place += min(lags, key=lambda lag: distance(beginning, reference[place + lag :]))
        # To the sample for what is lossless; libav decodes MP3 and Opus a little differently after a seek.
        most = 64 if kind in ("mp3", "opus") else 0
        assert distance(first, reference[place:]) <= most


def distance(heard: Samples, reference: Samples) -> int:
    """How far the samples are apart where they are furthest."""
    both = min(len(heard), len(reference))
    return int(np.abs(heard[:both].astype(int) - reference[:both]).max())


async def test_a_player_of_another_speed_sleeps_wherever_it_is_put_and_is_heard_where_it_says_that_it_is(
    node: Node, shelf: Shelf
) -> None:
    """The pitch rises with the time, so the pitch that is heard says the place in the file."""
    speed, lowest_hz, hz_per_s = 3.0, 200.0, 50.0
    time_s = np.arange(60 * SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ
    wave = 0.5 * np.sin(2 * np.pi * (lowest_hz * time_s + hz_per_s / 2 * time_s**2))
    await without_listener(node, "p", shelf.put("rising.wav", wav(np.stack((wave, wave), axis=1))))
    player = node.player("p")
    player.do(Requests.change_filters, FilterChange(effects={"timescale": Timescale(speed=speed)}))
    await asleep(node, "p")
    for position_ms in (21_001, 9_358):
        player.seek(position_ms)
        await asleep(node, "p")
    listener = MemoryListener()
    leave = player.attach(listener)
    await listener.wait_frames(30)
    position_s = player.status().position_ms / 1000
    left = samples_of(listener.pcm)[-20 * FRAME_SAMPLES :, 0]
    heard_s = len(left) / SAMPLE_RATE_HZ
    rises = np.count_nonzero((left[:-1] < 0) & (left[1:] >= 0))
    assert (rises / heard_s - lowest_hz) / hz_per_s == pytest.approx(position_s - heard_s * speed / 2, abs=0.1)
    leave()
    await asleep(node, "p")
    await node.take_over(replace(player.snapshot(), position_ms=15_880))
    await asleep(node, "p")


async def test_a_song_of_a_server_is_asked_for_again_by_a_listener_and_not_by_an_overlay_in_its_pause(
    node: Node, server: MediaServer, shelf: Shelf
) -> None:
    signal = music(40.0)
    song = wav(signal)
    events = await without_listener(node, "p", server.serve("/song.wav", media(song)))
    player = node.player("p")
    await asleep(node, "p")
    await server.all_gone()
    listener = MemoryListener()
    leave = player.attach(listener)
    position_ms = player.status().position_ms
    await listener.wait_frames(10)
    reference = samples_of(pcm_of(signal))[position_ms * 48 :]
    # The player went on while its source was being opened, however long that took.
    moved_frames = (player.status().position_ms - position_ms) // FRAME_MS
    lags = range(0, (moved_frames + 1) * FRAME_SAMPLES, FRAME_SAMPLES)
    assert min(distance(samples_of(listener.pcm), reference[lag:]) for lag in lags) == 0
    leave()
    player.do(Requests.pause)
    await asleep(node, "p")
    server.serve("/song.wav", media(song, stall_after=0))
    node.add_overlay("p", WantedTrack(shelf.put("jingle.wav", wav(tone(440, 0.3)))), OverlaySettings())
    await events.wait_for("OverlayEnd")
    assert [op for op in events.ops if op.startswith("Overlay")] == ["OverlayStart", "OverlayEnd"]
    await asleep(node, "p")
    position_ms = player.status().position_ms
    player.do(Requests.play)
    await eventually(lambda: player.status().position_ms > position_ms, "the position moves")
    assert is_asleep(node, "p")

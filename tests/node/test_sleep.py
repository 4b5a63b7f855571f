"""Players that nobody listens to, with real decoders: what is heard when somebody comes, and what is found then."""

import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import pytest_asyncio

from tests.support.audio_files import Signal, flac, mp3, music, opus, pcm_of, tone, wav
from tests.support.eventually import eventually
from tests.support.media_files import Samples, decode_bytes, samples_of
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import decoder_processes, explained_underruns, running_node, state_of
from tests.support.processes import WaitForCpu
from tests.support.radio_server import radio
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.filters import FilterChange, Timescale
from tonearm.core.frame import FRAME_MS, FRAME_SAMPLES, FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from tonearm.core.overlays import OverlaySettings
from tonearm.core.playback_requests import Requests
from tonearm.core.playback_state import FirstSettings
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings
from tonearm.node.tracks import WantedTrack

SECONDS = 8.0
HEARD_WITHIN_S = 0.15


@pytest_asyncio.fixture(loop_scope="module")
async def node() -> AsyncIterator[Node]:
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
        most = {"wav": 0, "flac": 0}.get(kind, 64)
        assert distance(first, reference[place:]) <= most


def distance(heard: Samples, reference: Samples) -> int:
    """How far the samples are apart where they are furthest."""
    both = min(len(heard), len(reference))
    return int(np.abs(heard[:both].astype(int) - reference[:both]).max())


async def test_a_player_of_another_speed_sleeps_too_and_is_heard_where_it_says_that_it_is(
    node: Node, shelf: Shelf
) -> None:
    """The pitch rises with the time, so the pitch that is heard says the place in the file."""
    speed, lowest_hz, hz_per_s = 1.5, 200.0, 50.0
    time_s = np.arange(60 * SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ
    wave = 0.5 * np.sin(2 * np.pi * (lowest_hz * time_s + hz_per_s / 2 * time_s**2))
    await without_listener(node, "p", shelf.put("rising.wav", wav(np.stack((wave, wave), axis=1))))
    player = node.player("p")
    player.do(Requests.change_filters, FilterChange(effects={"timescale": Timescale(speed=speed)}))
    await asleep(node, "p")
    listener = MemoryListener()
    player.attach(listener)
    await listener.wait_frames(30)
    position_s = player.status().position_ms / 1000
    left = samples_of(listener.pcm)[-20 * FRAME_SAMPLES :, 0]
    heard_s = len(left) / SAMPLE_RATE_HZ
    rises = np.count_nonzero((left[:-1] < 0) & (left[1:] >= 0))
    assert (rises / heard_s - lowest_hz) / hz_per_s == pytest.approx(position_s - heard_s * speed / 2, abs=0.1)


@cache
def minute(encode: Callable[[Signal, int], bytes], rate_hz: int) -> bytes:
    return encode(tone(440, 60.0, rate_hz, channels=1), rate_hz)


@pytest.mark.parametrize(
    ("encode", "rate_hz", "setting"),
    [
        (wav, 8_000, Timescale(rate=4.0)),
        (wav, 8_000, Timescale(pitch=0.5)),
        (mp3, 44_100, Timescale(speed=3.0)),
        (flac, 44_100, Timescale(speed=4.0, pitch=0.5)),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_a_player_of_another_speed_goes_on_after_a_seek_when_its_listener_leaves_and_when_it_is_moved(
    node: Node, shelf: Shelf, encode: Callable[[Signal, int], bytes], rate_hz: int, setting: Timescale
) -> None:
    """More of the file passes in its frames, so more of it has to be there before they are made."""
    await without_listener(node, "p", shelf.put("song", minute(encode, rate_hz)))
    player = node.player("p")
    player.do(Requests.change_filters, FilterChange(effects={"timescale": setting}))
    await asleep(node, "p")
    for position_ms in (2_101, 21_001, 9_358):
        player.seek(position_ms)
        await asleep(node, "p")
    listener = MemoryListener()
    leave = player.attach(listener)
    await listener.wait_frames(5)
    leave()
    await asleep(node, "p")
    for position_ms in (3_337, 15_880):
        await node.take_over(replace(node.player("p").snapshot(), position_ms=position_ms))
        await asleep(node, "p")


async def test_a_player_that_falls_asleep_after_an_overlay_in_its_pause_goes_on_when_it_plays(
    node: Node, shelf: Shelf
) -> None:
    events = await without_listener(node, "p", shelf.put("song.wav", wav(tone(440, 60.0, channels=1))))
    await asleep(node, "p")
    player = node.player("p")
    player.do(Requests.pause)
    node.add_overlay("p", WantedTrack(shelf.put("jingle.wav", wav(tone(440, 0.3)))), OverlaySettings())
    await events.wait_for("OverlayEnd")
    position_ms = player.status().position_ms
    await eventually(lambda: state_of(node, "p")["quality"]["decoderProcess"] is None, "it sleeps")
    player.do(Requests.play)
    await eventually(lambda: player.status().position_ms > position_ms, "the position moves")
    assert is_asleep(node, "p")


@pytest.mark.parametrize("has_begun", [False, True])
async def test_an_overlay_in_a_pause_does_not_wait_for_the_music_to_be_opened_again(
    node: Node, server: MediaServer, shelf: Shelf, *, has_begun: bool
) -> None:
    song = wav(tone(440, 60.0, channels=1))
    uri = server.serve("/song.wav", media(song, content_type="audio/wav"))
    if has_begun:
        await without_listener(node, "p", uri)
        node.player("p").do(Requests.pause)
    else:
        await node.create_player("p", uri, {}, settings=FirstSettings(paused=True))
    events = MemoryEventClient()
    node.player("p").subscribe(events, since=None, wants_snapshot=False)
    await asleep(node, "p")
    server.serve("/song.wav", media(song, content_type="audio/wav", stall_after=0))
    node.add_overlay("p", WantedTrack(shelf.put("jingle.wav", wav(tone(440, 0.3)))), OverlaySettings())
    await events.wait_for("OverlayEnd")
    assert [event["op"] for event in events.events if event["op"].startswith("Overlay")] == [
        "OverlayStart",
        "OverlayEnd",
    ]


async def test_live_and_unseekable_sources_and_the_last_minute_of_estimated_lengths_stay_awake(
    node: Node, server: MediaServer
) -> None:
    song = tone(440, 30.0, 44_100, channels=1)
    estimated = mp3(song, options={"write_xing": "0", "id3v2_version": "0"})
    uris = {
        "live": server.serve("/live", radio(mp3(tone(440, 3.0, 44_100)), bytes_per_s=40_000)),
        "unseekable": server.serve("/song.wav", media(wav(song, 44_100), ranges=False, content_type="audio/wav")),
        "guessed": server.serve("/guessed.mp3", media(estimated, content_type="audio/mpeg")),
    }
    for name, uri in uris.items():
        await without_listener(node, name, uri)
    seekable = server.serve("/other.wav", media(wav(song, 44_100), content_type="audio/wav"))
    await without_listener(node, "known", seekable)
    await asleep(node, "known")
    assert not any(is_asleep(node, name) for name in uris)
    assert [state_of(node, name)["state"] for name in uris] == ["playing"] * 3


async def test_a_song_from_a_server_is_asked_for_again_where_the_listener_comes(
    node: Node, server: MediaServer
) -> None:
    signal = music(30.0)
    await without_listener(node, "p", server.serve("/song.wav", media(wav(signal), content_type="audio/wav")))
    await asleep(node, "p")
    await server.all_gone()
    listener = MemoryListener()
    node.player("p").attach(listener)
    position_ms = node.player("p").status().position_ms
    await listener.wait_frames(10)
    reference = samples_of(pcm_of(signal))
    place = position_ms * 48
    # The player went on while its source was being opened, however long that took.
    moved_frames = (node.player("p").status().position_ms - position_ms) // FRAME_MS
    lags = range(0, (moved_frames + 1) * FRAME_SAMPLES, FRAME_SAMPLES)
    assert min(distance(samples_of(listener.pcm), reference[place + lag :]) for lag in lags) == 0

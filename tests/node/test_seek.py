"""Seeks as a listener hears them: from the right sample on, without a click, in every state."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.audio_files import flac, long_book, mp3, music
from tests.support.media_files import decode_bytes, loudest_hz
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import listening, padded
from tests.support.shelf import Shelf, samples
from tonearm.core.frame import FRAME_SAMPLES, samples_of_ms
from tonearm.node.node import Node


def largest_bend(pcm: bytes) -> int:
    """The largest second difference: what a click is."""
    return int(np.abs(np.diff(samples(pcm).astype(np.int64), n=2, axis=0)).max())


@pytest.mark.parametrize(
    ("name", "make", "remote"),
    [
        ("a.flac", lambda: flac(music(10.0, rate_hz=44_100), 44_100), False),
        ("a.mp3", lambda: mp3(music(10.0, rate_hz=44_100)), True),
    ],
)
async def test_what_is_heard_after_a_seek(
    node: Node, shelf: Shelf, server: MediaServer, name: str, make: Callable[[], bytes], remote: bool
) -> None:
    file = make()
    whole = decode_bytes(file)
    uri = server.serve(f"/{name}", media(file)) if remote else shelf.put(name, file)
    player = await listening(node, "p", uri)
    await player.more_frames(5)
    for target_ms in (6_345, 3_000, 3_700, 9_001):
        before = len(player.listener)
        node.player("p").seek(target_ms)
        assert player.state["position"] == target_ms
        await player.more_frames(8)
        target = samples_of_ms(target_ms)
        sound = samples(b"".join(player.listener.messages[before + 2 : before + 8])).astype(int)
        # The first frames may hold the end of the sound before; from then on all is as in a continuous decode.
        found = [
            start
            for start in range(target, target + 3 * FRAME_SAMPLES, FRAME_SAMPLES)
            if np.abs(sound - whole[start : start + len(sound)]).max() <= (3 if name == "a.mp3" else 0)
        ]
        assert found, target_ms
        heard_ms = (len(player.listener) - before) * 20
        assert abs(player.state["position"] - target_ms - heard_ms) <= 100
    assert largest_bend(player.listener.pcm) <= 1.5 * largest_bend(whole.tobytes())
    assert player.starts == ["a"]
    assert player.ends == []


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
        heard = samples(b"".join(player.listener.messages[-25:]))
        assert loudest_hz(heard) == pytest.approx(300 + 20 * hour, abs=5)
    assert player.failures == []

"""How a new player starts: with its first listener, or without one after a while."""

import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.audio_files import pcm_of, wav
from tests.support.e2e_players import create, enqueue, order, state, until_state
from tests.support.e2e_sockets import following, listening
from tests.support.running_node import RunningNode, running_node

NOISE = np.random.default_rng(1).uniform(-0.5, 0.5, (48_000, 2))


def write_songs(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / f"{name}.wav").write_bytes(wav(NOISE))
    return [str(folder / f"{name}.wav") for name in names]


async def test_who_connects_within_a_second_of_creating_hears_the_first_sample(tmp_path: Path) -> None:
    (song,) = write_songs(tmp_path, "song")
    async with running_node(tmp_path) as node:  # with the wait of a fresh installation
        for number in range(20):
            player, begun_s = f"p{number}", time.monotonic()
            await create(node, player, song)
            async with listening(node, player) as ear:
                was_in_time = time.monotonic() - begun_s < 1.0
                await ear.frames_heard(10)
            if was_in_time:
                assert ear.pcm == pcm_of(NOISE)[: len(ear.pcm)]
                return
        pytest.fail("this machine was too slow to connect within a second")


async def test_it_waits_for_its_first_listener_and_play_does_not_end_that(node: RunningNode) -> None:
    (song,) = write_songs(node.folder, "song")
    await create(node, "p", song)
    async with following(node, "p", "?since=0") as tape:
        await order(node, "p", "play", "pause", "play", "play")
        before = await until_state(node, "p", lambda now: now["track"]["info"]["length"])  # it is opened
        assert (before["state"], before["position"], before["paused"]) == ("loading", 0, False)
        paused_and_resumed = ["PlayerPause", "PlayerUpdate loading", "PlayerResume", "PlayerUpdate loading"]
        assert tape.summary() == paused_and_resumed
        async with listening(node, "p") as ear:
            await ear.frames_heard(10)
        assert ear.pcm == pcm_of(NOISE)[: len(ear.pcm)]
        assert tape.summary()[4:6] == ["TrackStart song", "PlayerUpdate playing"]


async def test_without_a_listener_it_starts_after_a_second(tmp_path: Path) -> None:
    song = tmp_path / "song.wav"
    song.write_bytes(wav(np.tile(NOISE, (20, 1))))
    async with running_node(tmp_path) as node:
        created_ms = time.time_ns() // 1_000_000
        await create(node, "p", str(song))
        async with following(node, "p", "?since=0") as tape:
            started = await tape.until("TrackStart")
            assert started["time"] - created_ms >= 1000
            # Whoever comes later hears it from where it is: the wait is once in a player's life.
            async with listening(node, "p") as ear:
                await ear.frames_heard(5)
            assert ear.frames[0] in [pcm_of(NOISE)[start : start + 3840] for start in range(0, 192_000, 3840)]


async def test_a_player_goes_on_when_its_listener_leaves(node: RunningNode) -> None:
    songs = write_songs(node.folder, "one", "two")
    await create(node, "p", songs[0])
    await enqueue(node, "p", songs[1])
    async with listening(node, "p") as ear:
        await ear.frames_heard(3)
    async with following(node, "p", "?since=0") as tape:
        await tape.until("TrackStart")
        two = await tape.until("TrackStart")
        assert two["track"]["info"]["title"] == "two"
        assert (await state(node, "p"))["listeners"] == 0

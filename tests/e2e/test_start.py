"""How a new player starts: with its first listener, or without one after a while."""

import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.audio_files import pcm_of, wav
from tests.support.e2e_players import create
from tests.support.e2e_sockets import listening
from tests.support.running_node import running_node

NOISE = np.random.default_rng(1).uniform(-0.5, 0.5, (48_000, 2))


async def test_who_connects_within_a_second_of_creating_hears_the_first_sample(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(NOISE))
    async with running_node(tmp_path) as node:  # with the wait of a fresh installation
        for number in range(20):
            player, begun_s = f"p{number}", time.monotonic()
            await create(node, player, "song.wav")
            async with listening(node, player) as ear:
                was_in_time = time.monotonic() - begun_s < 1.0
                await ear.frames_heard(10)
            if was_in_time:
                assert ear.pcm == pcm_of(NOISE)[: len(ear.pcm)]
                return
        pytest.fail("this machine was too slow to connect within a second")

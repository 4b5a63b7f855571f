"""Decoder processes that die while they play: nothing is missing."""

import asyncio
import itertools
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

from tests.support.audio_files import flac, pcm_of, wav
from tests.support.e2e_players import PATIENT, create, state
from tests.support.e2e_sockets import listening
from tests.support.node_in_process import BUFFER_S
from tests.support.processes import WaitForCpu
from tests.support.running_node import running_node

NO_GAP_S = 0.06
PLAYERS = 6
UNHEARD = 3


async def test_a_killed_decoder_leaves_no_gap(tmp_path: Path) -> None:
    """Until so many kills were not heard. A busy machine leaves gaps of its own, so it may take more, and one that is
    busy all the time has to account for all of them; but nothing may ever be missing or doubled, though the files
    themselves are gone. Files only: a server would be in this process, which is busy with listening."""
    noise = np.tile(np.random.default_rng(9).uniform(-0.5, 0.5, (48_000 * 3, 2)), (20, 1))
    files = {"file.wav": wav(noise), "file.flac": flac(noise)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    async with (
        running_node(tmp_path, f"{PATIENT}[decoder]\nprocesses = 1\n") as node,
        AsyncExitStack() as stack,
    ):
        await node.decoders_ready(2)
        players = [f"p{number}" for number in range(PLAYERS)]
        for player, uri in zip(players, itertools.cycle(files), strict=False):
            await create(node, player, uri)
        ears = [await stack.enter_async_context(listening(node, player)) for player in players]
        await asyncio.gather(*(ear.frames_heard(25) for ear in ears))
        for name in files:
            (tmp_path / name).unlink()

        async def qualities() -> list[tuple[int | None, int]]:
            """The decoder process of each player, and how often it had no frame."""
            shown = [(await state(node, player))["quality"] for player in players]
            return [(quality["decoderProcess"], quality["timesRunDry"]) for quality in shown]

        unheard = 0
        heard: list[
            tuple[float, int, float]
        ] = []  # the largest gap, how often players had no frame, the machine's wait
        while unheard < UNHEARD and len(heard) < 3 * UNHEARD:
            await node.decoders_ready(2)
            before = await qualities()
            (victim,) = {process for process, _ in before}
            assert victim is not None
            await ears[0].more_frames(
                1 + 3 * (unheard + len(heard))
            )  # Not always as long after a block of frames was rendered.
            last_frames = [len(ear.frames) - 1 for ear in ears]
            wait = WaitForCpu(node.pid, *node.decoder_pids())
            os.kill(victim, signal.SIGKILL)
            await asyncio.gather(*(ear.more_frames(50) for ear in ears))
            after = await qualities()
            assert victim not in {process for process, _ in after}
            gap_s = max(
                later_s - before_s
                for ear, since in zip(ears, last_frames, strict=True)
                for before_s, later_s in itertools.pairwise(ear.arrivals_s[since:])
            )
            dry = sum(times for _, times in after) - sum(times for _, times in before)
            waited_s = wait.seconds(node.pid, *node.decoder_pids())  # all processes together
            if gap_s <= NO_GAP_S and not dry:
                unheard += 1
            else:  # what makes one process wait makes all of its players wait
                heard.append((gap_s, dry, waited_s))
        assert unheard == UNHEARD or all(
            gap_s <= NO_GAP_S + waited_s and dry * BUFFER_S <= waited_s * PLAYERS for gap_s, dry, waited_s in heard
        ), heard
        pcm = pcm_of(noise)
        for ear in ears:
            assert ear.pcm == pcm[: len(ear.pcm)]

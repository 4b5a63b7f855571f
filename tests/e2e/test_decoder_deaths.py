"""Decoder processes that die while they play: nothing is missing."""

import asyncio
import itertools
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.audio_files import flac, pcm_of, wav
from tests.support.e2e_players import PATIENT, create, state
from tests.support.e2e_sockets import Ear, listening
from tests.support.node_in_process import BUFFER_S
from tests.support.processes import WaitForCpu
from tests.support.running_node import running_node

NO_GAP_S = 0.06
PLAYERS_AT_ONCE = 24  # whatever makes one process wait makes all of its players wait
NOISE = np.random.default_rng(9).uniform(-0.5, 0.5, (48_000 * 3, 2))


def decoder(player_state: Any) -> int | None:
    process: int | None = player_state["quality"]["decoderProcess"]
    return process


@dataclass(frozen=True)
class Kill:
    """What was heard of one: the largest gap between two frames, how often players had no frame, and for how long the
    machine made the node, its decoders and the listeners wait meanwhile, all together."""

    gap_s: float
    underruns: int
    waited_s: float

    @property
    def is_unheard(self) -> bool:
        return self.gap_s <= NO_GAP_S and not self.underruns

    @property
    def is_the_machines(self) -> bool:
        """Nothing of what was heard is the node's doing."""
        return self.gap_s <= NO_GAP_S + self.waited_s and self.underruns * BUFFER_S <= self.waited_s * PLAYERS_AT_ONCE


@pytest.mark.parametrize(
    ("processes", "count", "unheard"), [(1, 6, 3), (2, PLAYERS_AT_ONCE, 2)], ids=["six in one process", "many in two"]
)
async def test_a_killed_decoder_leaves_no_gap(tmp_path: Path, processes: int, count: int, unheard: int) -> None:
    """Until so many kills were not heard. A busy machine leaves gaps of its own, so it may take more, and one that is
    busy all the time has to account for all of them; but nothing may ever be missing or doubled, though the files
    themselves are gone. Files only: a server would be in this process, which is busy with listening; with many of
    them it is too busy to tell gaps, and the node tells which players had no frame."""
    noise = np.tile(NOISE, (20, 1))
    files = {"file.wav": wav(noise)} if processes > 1 else {"file.flac": flac(noise), "file.wav": wav(noise)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    config = f"{PATIENT}[decoder]\nprocesses = {processes}\n"
    async with running_node(tmp_path, config) as node, AsyncExitStack() as stack:
        await node.decoders_ready(2)
        players = [f"p{number}" for number in range(count)]
        for player, uri in zip(players, itertools.cycle(files), strict=False):
            await create(node, player, uri)
        ears = [await stack.enter_async_context(listening(node, player)) for player in players]
        await asyncio.gather(*(ear.frames_heard(25) for ear in ears))
        for name in files:
            (tmp_path / name).unlink()
        kills: list[Kill] = []
        while len(kills) < 4 * unheard and sum(kill.is_unheard for kill in kills) < unheard:
            await node.decoders_ready(processes + 1)
            before = [await state(node, player) for player in players]
            ((victim, moved),) = Counter(map(decoder, before)).most_common(1)
            assert victim is not None
            assert moved >= count // processes
            await ears[0].more_frames(1 + 3 * len(kills))  # Not always as long after a block of frames was rendered.
            last_frames = [len(ear.frames) - 1 for ear in ears]
            wait = WaitForCpu(node.pid, *node.decoder_pids())
            os.kill(victim, signal.SIGKILL)
            await asyncio.gather(*(ear.more_frames(50) for ear in ears))
            after = [await state(node, player) for player in players]
            assert victim not in map(decoder, after)
            gap_s = max(largest_gap_s(ear, since) for ear, since in zip(ears, last_frames, strict=True))
            dry = sum(map(underruns, after)) - sum(map(underruns, before))
            waited_s = wait.seconds(node.pid, *node.decoder_pids())
            kills.append(Kill(gap_s if processes == 1 else 0.0, dry, waited_s))
        heard = [kill for kill in kills if not kill.is_unheard]
        assert len(kills) - len(heard) == unheard or all(kill.is_the_machines for kill in heard), kills
        pcm = pcm_of(noise)
        for ear in ears:
            assert ear.pcm == pcm[: len(ear.pcm)]


def underruns(player_state: Any) -> int:
    times: int = player_state["quality"]["timesRunDry"]
    return times


def largest_gap_s(ear: Ear, since: int) -> float:
    arrivals_s = ear.arrivals_s[since:]
    return max(later_s - before_s for before_s, later_s in itertools.pairwise(arrivals_s))

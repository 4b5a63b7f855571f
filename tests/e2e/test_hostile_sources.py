"""A source whose bytes end decoder processes: it costs itself, with an error that says so, and nobody else."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

from tests.support.audio_files import flac, pcm_of, wav
from tests.support.e2e_players import PATIENT, create
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import eventually
from tests.support.hostile import DEADLY, Hostile
from tests.support.running_node import running_node


async def test_a_file_that_ends_each_process_is_quarantined_and_what_played_beside_it_is_not(tmp_path: Path) -> None:
    noise = np.random.default_rng(21).uniform(-0.5, 0.5, (48_000 * 30, 2))
    (tmp_path / "deadly.wav").write_bytes(wav(noise[:9600]) + DEADLY)
    (tmp_path / "good.flac").write_bytes(flac(noise))
    hostile = Hostile(tmp_path / "hostile")
    config = PATIENT + "[decoder]\nprocesses = 1\n"
    async with running_node(tmp_path, config, variables=hostile.variables) as node, AsyncExitStack() as stack:
        good = [f"good{number}" for number in range(3)]
        for player in good:  # their sound has no end, however long the quarantine takes on a busy machine
            await create(node, player, "good.flac", loop="track")
        ears = [await stack.enter_async_context(listening(node, player)) for player in good]
        # It stays so for whoever asks, and in whatever way it is written.
        for player, uri in (("bad", "deadly.wav"), ("again", f"file://{tmp_path}/./deadly.wav")):
            await create(node, player, uri)
            async with following(node, player, "?since=0") as tape, listening(node, player):
                assert (await tape.until("TrackException"))["error"]["code"] == "quarantined"
                await tape.until("TrackEnd", reason="loadFailed")

            def has_seen_all_ends() -> bool:
                return sum("SIGSEGV" in line for line in node.log) == 3

            await eventually(has_seen_all_ends, "two processes ended among players, and one alone")
        # What was played in the same processes is as good as before.
        await asyncio.gather(*(ear.more_frames(10) for ear in ears))
        once = pcm_of(noise)
        for ear in ears:
            assert ear.pcm == (once * (len(ear.pcm) // len(once) + 1))[: len(ear.pcm)]

"""Sources whose bytes end decoder processes: each costs itself, with an error that says so, and nobody else."""

import asyncio
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.support.audio_files import flac, live_mp3, music, pcm_of, wav
from tests.support.e2e_players import PATIENT, at_rest, create, until_state
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import eventually
from tests.support.hostile import DEADLY, Hostile
from tests.support.media_server import MediaServer
from tests.support.radio_server import radio
from tests.support.running_node import RunningNode, running_node

CONFIG = PATIENT + "[decoder]\nprocesses = 1\n"


@cache
def noise() -> npt.NDArray[np.float64]:
    return np.random.default_rng(21).uniform(-0.5, 0.5, (48_000 * 30, 2))


async def create_good(node: RunningNode, player: str) -> None:
    """A player whose sound has no end, however long the others take to be quarantined on a busy machine."""
    await create(node, player, "good.flac", loop="track")


def is_noise(pcm: bytes) -> bool:
    """Whether it is what a player of `create_good` plays, sample for sample."""
    once = pcm_of(noise())
    return pcm == (once * (len(pcm) // len(once) + 1))[: len(pcm)]


async def test_a_station_that_ends_its_process_again_and_again_costs_only_its_own_players(tmp_path: Path) -> None:
    (tmp_path / "good.flac").write_bytes(flac(noise()))
    sound = live_mp3(music(6.0, 44_100))
    hostile = Hostile(tmp_path / "hostile")
    async with (
        MediaServer() as server,
        running_node(tmp_path, CONFIG, variables=hostile.variables) as node,
        AsyncExitStack() as stack,
    ):
        station = server.serve(
            "/deadly.mp3", radio(sound[:48_000] + DEADLY + sound[48_000:], bytes_per_s=16_000, burst_bytes=32_000)
        )
        await node.decoders_ready(2)
        await create_good(node, "steady")
        steady = await stack.enter_async_context(listening(node, "steady"))
        players = [f"p{number}" for number in range(3)]
        for player in players:
            await create(node, player, station)
        ears = [await stack.enter_async_context(listening(node, player)) for player in players]
        tapes = [await stack.enter_async_context(following(node, player, "?since=0")) for player in players]
        for error in await asyncio.gather(*(tape.until("TrackException") for tape in tapes)):
            assert error["error"]["code"] == "quarantined"
        assert await asyncio.gather(*map(at_rest, tapes)) == ["idle"] * len(tapes)
        assert all(len(ear.frames) > 10 for ear in ears), "what came before was heard"
        await steady.more_frames(25)
        assert is_noise(steady.pcm)


async def test_a_file_that_ends_each_process_is_quarantined_and_what_played_beside_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "deadly.wav").write_bytes(wav(noise()[:9600]) + DEADLY)
    (tmp_path / "good.flac").write_bytes(flac(noise()))
    hostile = Hostile(tmp_path / "hostile")
    async with running_node(tmp_path, CONFIG, variables=hostile.variables) as node, AsyncExitStack() as stack:
        good = [f"good{number}" for number in range(3)]
        for player in good:
            await create_good(node, player)
        ears = [await stack.enter_async_context(listening(node, player)) for player in good]
        await create(node, "bad", "deadly.wav")
        async with following(node, "bad", "?since=0") as tape, listening(node, "bad"):
            assert (await tape.until("TrackException"))["error"]["code"] == "quarantined"
            await tape.until("TrackEnd", reason="loadFailed")

        def has_seen_all_ends() -> bool:
            return sum("SIGSEGV" in line for line in node.log) == 3

        await eventually(has_seen_all_ends, "two processes ended among players, and one alone")
        # It stays so for whoever asks, and in whatever way it is written.
        await create(node, "again", f"file://{tmp_path}/./deadly.wav")
        async with following(node, "again", "?since=0") as tape, listening(node, "again"):
            assert (await tape.until("TrackException"))["error"]["code"] == "quarantined"
        assert sum("SIGSEGV" in line for line in node.log) == 3
        # What was played in the same processes is as good as before.
        for player, ear in zip(good, ears, strict=True):
            await ear.more_frames(10)
            await until_state(node, player, lambda now: now["state"] == "playing")
            assert is_noise(ear.pcm)

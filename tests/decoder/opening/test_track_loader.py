"""Opening sources to see what they are: real files and a real server, real decoder processes."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.audio_files import id3, mp3, music, wav
from tests.support.decoder_forks import QuickStarts
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media, stall
from tests.support.player_bench import HandSuspects
from tests.support.processes import descriptors_of, exists
from tests.support.sandboxing import SANDBOX
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.decoder.opening.track_loader import LOADS_AT_ONCE, TrackLoader
from tonearm.decoder.pool.on_demand import OnDemandPool
from tonearm.decoder.pool.starting import DirectStarter
from tonearm.sources.opener import SourceOpener

SONG = wav(music(1.0))


def uri_of(place: Path | str) -> SourceUri:
    return parse_source_uri(str(place))


@asynccontextmanager
async def loading(
    pool: OnDemandPool, suspects: HandSuspects | None = None, *, deadline_s: float = 60.0
) -> AsyncIterator[TrackLoader]:
    opener = SourceOpener(SourcePolicy(), private_networks=True)
    loader = TrackLoader(opener.open, (suspects or HandSuspects()).add, pool, deadline_s=deadline_s)
    try:
        yield loader
    finally:
        await loader.stop()
        await opener.close()


def pool_of_one(**others: Any) -> OnDemandPool:
    return OnDemandPool(1024, starter=DirectStarter(1024, SANDBOX, QuickStarts()), **others)


@pytest.fixture
def pool() -> OnDemandPool:
    return pool_of_one()


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.wav"
    path.write_bytes(SONG)
    return path


async def test_the_process_runs_only_while_it_is_used(song: Path, pool: OnDemandPool) -> None:
    async with loading(pool) as loader:
        assert pool.process_ids == []
        facts = await asyncio.gather(*(loader.load(uri_of(song)) for _ in range(20)))
        assert {one.length_ms for one in facts} == {1000}
        (pid,) = pool.process_ids
    assert not exists(pid)
    idle_pool = pool_of_one(idle_s=0.0)
    async with loading(idle_pool) as loader:
        for _ in range(2):
            assert (await loader.load(uri_of(song))).length_ms == 1000
            await eventually(lambda: not idle_pool.process_ids, "the idle process is ended")


async def test_a_source_that_never_answers_is_given_up(pool: OnDemandPool) -> None:
    async with MediaServer() as server, loading(pool, deadline_s=0.3) as loader:
        for answer in (stall(), media(SONG, stall_after=20)):
            with pytest.raises(PlayError) as caught:
                await loader.load(uri_of(server.serve("/x.wav", answer)))
            assert caught.value.failure.code is FailureCode.TIMEOUT
        await server.all_gone()


async def test_only_so_many_are_open_at_once_until_a_stop(song: Path, pool: OnDemandPool) -> None:
    opener = SourceOpener(SourcePolicy(), private_networks=True)
    async with MediaServer() as server:
        async with loading(pool) as loader:
            uri = uri_of(server.serve("/silent", stall()))
            tasks = [asyncio.create_task(loader.load_in_background(uri, opener.open)) for _ in range(LOADS_AT_ONCE)]
            await server.requested(LOADS_AT_ONCE)
            assert not loader.is_busy
            tasks += [asyncio.create_task(loader.load(uri)) for _ in range(LOADS_AT_ONCE)]
            await server.requested(2 * LOADS_AT_ONCE)
            assert loader.is_busy
            waiting = asyncio.create_task(loader.load(uri_of(song)))
            tasks.append(asyncio.create_task(loader.load(uri)))
            tasks[-2].cancel()
            assert (await waiting).length_ms == 1000
            await server.requested(2 * LOADS_AT_ONCE + 1)
            for task in tasks[:LOADS_AT_ONCE]:
                task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended)
        await server.all_gone()
    await opener.close()


async def test_a_source_in_work_when_the_process_dies_is_a_suspect(song: Path, pool: OnDemandPool) -> None:
    # Its long tag makes opening take a while.
    bad = song.with_name("bad.mp3")
    bad.write_bytes(id3(texts={}, picture=bytes(24 * 1024 * 1024)) + mp3(music(1.0, 44_100)))
    suspects = HandSuspects()
    async with loading(pool, suspects) as loader:
        await loader.load(uri_of(song))  # the process runs
        while not suspects.uris:
            (pid,) = pool.process_ids
            # It tells what a source is before it closes that.
            await eventually(lambda: not _is_working(pid), "it has done with the source before")  # noqa: B023
            task = asyncio.create_task(loader.load(uri_of(bad)))
            while not task.done() and not _is_working(pid):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0)
            os.kill(pid, signal.SIGSEGV)
            assert (await task).length_ms > 0  # one death is not enough to refuse it
            await eventually(lambda: pool.process_ids not in ([], [pid]), "there is another process")  # noqa: B023
        assert set(suspects.uris) == {str(bad)}


def _is_working(pid: int) -> bool:
    """Whether the process has noted a source that it works on, where it would be found after its death."""
    noted = next(number for number, name in descriptors_of(pid).items() if "suspects" in name)
    return any(Path(f"/proc/{pid}/fd/{noted}").read_bytes())

"""Decoder processes, real ones: started with need, watched, replaced, ended."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.audio_files import flac, music
from tests.support.eventually import eventually
from tests.support.processes import environment_of, exists, is_alive, open_descriptors, own_session
from tonearm.core.filters import Filters
from tonearm.decoding.messages import Failed, FromDecoder, Opened, OpenSession, OpenSource
from tonearm.decoding.pool.pool import SESSIONS_BEFORE_NEXT, DecoderPool, PoolSession
from tonearm.decoding.pool.process import Timeouts

MEMORY_MB = 1024


class Owner:
    """A session of the pool, opened again whenever it is lost."""

    def __init__(self, pool: DecoderPool) -> None:
        self._pool = pool
        self.received: list[FromDecoder] = []
        self.losses: list[tuple[int, ...]] = []
        self.session: PoolSession | None = None
        self.open()

    def open(self) -> None:
        self.session = self._pool.open(self)
        if self.session is not None:
            self.session.send(OpenSession(self.session.id, 1, 0, Filters()))

    @property
    def process_id(self) -> int | None:
        return None if self.session is None else self.session.process_id

    def play(self, path: Path, source: int = 1) -> None:
        assert self.session is not None
        order = OpenSource(
            session=self.session.id,
            source=source,
            name=path.name,
            size_bytes=path.stat().st_size,
            is_seekable=True,
            is_live=False,
            content_type=None,
            start_sample=0,
            has_descriptor=True,
        )
        self.session.send(order, os.open(path, os.O_RDONLY))

    def receive(self, message: FromDecoder) -> None:
        self.received.append(message)

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        self.losses.append(suspect_sources)
        self.open()

    @property
    def opened(self) -> int:
        return sum(isinstance(message, Opened) for message in self.received)

    @property
    def failed(self) -> list[Failed]:
        return [message for message in self.received if isinstance(message, Failed)]


@asynccontextmanager
async def running_pool(limit: int = 1, timeouts: Timeouts | None = None) -> AsyncIterator[DecoderPool]:
    """Ends the pool afterwards and sees that nothing of it is left."""
    descriptors, tasks = open_descriptors(), asyncio.all_tasks()
    pool = DecoderPool(limit, MEMORY_MB, timeouts)
    await pool.start()
    try:
        yield pool
    finally:
        process_ids = pool.process_ids
        await pool.stop()
        assert not any(map(exists, process_ids))
        assert asyncio.all_tasks() == tasks
        assert open_descriptors().keys() <= descriptors.keys()


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.flac"
    path.write_bytes(flac(music(0.5)))
    return path


async def test_the_first_process_runs_after_start() -> None:
    async with running_pool(4) as pool:
        (process_id,) = pool.process_ids
        assert is_alive(process_id)
        assert own_session(process_id)


async def test_a_session_hears_from_its_process(song: Path) -> None:
    async with running_pool() as pool:
        owners = [Owner(pool) for _ in range(3)]
        for number, owner in enumerate(owners):
            owner.play(song, source=number + 1)
        await eventually(lambda: all(owner.opened for owner in owners), "three opened sources")
        for number, owner in enumerate(owners):
            (told,) = (message for message in owner.received if isinstance(message, Opened))
            assert told.source == number + 1
            assert told.facts.length_ms == 500


async def test_processes_are_added_with_need_up_to_the_limit() -> None:
    async with running_pool(3) as pool:
        owners = [Owner(pool) for _ in range(SESSIONS_BEFORE_NEXT)]
        assert len(pool.process_ids) == 1
        owners.append(Owner(pool))
        assert len(pool.process_ids) == 2
        assert owners[-1].process_id == pool.process_ids[1]
        owners.extend(Owner(pool) for _ in range(30 - len(owners)))
        assert len(pool.process_ids) == 3
        places = [owner.process_id for owner in owners]
        assert sorted(places.count(process_id) for process_id in pool.process_ids) == [10, 10, 10]


async def test_a_new_session_goes_where_the_fewest_are() -> None:
    async with running_pool(2) as pool:
        owners = [Owner(pool) for _ in range(8)]
        leaving = [owner for owner in owners if owner.process_id == pool.process_ids[0]]
        for owner in leaving:
            assert owner.session is not None
            owner.session.close()
        assert {Owner(pool).process_id for _ in leaving} == {pool.process_ids[0]}


async def test_who_was_closed_hears_nothing_more(song: Path) -> None:
    async with running_pool() as pool:
        closed, open_one = Owner(pool), Owner(pool)
        closed.play(song)
        open_one.play(song)
        assert closed.session is not None
        closed.session.close()
        await eventually(lambda: open_one.opened, "the other session's source")
        assert closed.received == []


async def test_a_killed_process_is_replaced_and_its_sessions_are_housed_again(song: Path) -> None:
    async with running_pool(2) as pool:
        owners = [Owner(pool) for _ in range(8)]
        killed, spared = pool.process_ids
        lost = [owner for owner in owners if owner.process_id == killed]
        kept = [owner for owner in owners if owner.process_id == spared]
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(20):
            await eventually(lambda: all(owner.losses for owner in lost), "the loss was told")
        assert [owner.losses for owner in lost] == [[()]] * 4  # nobody is suspects of a kill
        assert [owner.losses for owner in kept] == [[]] * 4
        assert len(pool.process_ids) == 2
        assert killed not in pool.process_ids
        for owner in owners:
            owner.play(song)
        await eventually(lambda: all(owner.opened for owner in owners), "all eight play again")


async def test_a_session_without_a_process_gets_one_later(song: Path) -> None:
    async with running_pool() as pool:
        first = Owner(pool)
        os.kill(pool.process_ids[0], signal.SIGKILL)
        await eventually(lambda: not pool.process_ids or first.losses, "the process is gone")
        second, third = Owner(pool), Owner(pool)
        pool.forget(third)
        await eventually(lambda: first.session is not None and second.session is not None, "both have a process")
        await eventually(lambda: first.losses, "the loss was told")
        second.play(song)
        await eventually(lambda: second.opened, "the second one plays")
        if third.losses:
            assert third.session is not None  # the new process was there before it asked


async def test_a_crash_counts_against_what_was_being_worked_on(tmp_path: Path) -> None:
    long_song = tmp_path / "long.flac"
    long_song.write_bytes(flac(music(20.0)))
    async with running_pool() as pool:
        busy, waiting = Owner(pool), Owner(pool)
        for source in range(1, 61):
            busy.play(long_song, source)
        await eventually(lambda: busy.opened >= 3, "it works on the sources")
        os.kill(pool.process_ids[0], signal.SIGSEGV)
        await eventually(lambda: busy.losses and waiting.losses, "the loss was told")
        assert waiting.losses == [()]
        (suspects,) = busy.losses
        assert 1 <= len(suspects) <= 3
        assert set(suspects) <= set(range(1, 61))


async def test_a_process_that_hangs_is_ended_by_the_watchdog(song: Path) -> None:
    timeouts = Timeouts(ping_interval_s=0.1, silence_limit_s=1.0)
    async with running_pool(1, timeouts) as pool:
        owner = Owner(pool)
        (hanging,) = pool.process_ids
        os.kill(hanging, signal.SIGSTOP)
        await eventually(lambda: owner.losses, "the loss was told")
        assert owner.losses == [()]  # it worked on nothing
        assert not is_alive(hanging)
        owner.play(song)
        await eventually(lambda: owner.opened, "it plays again")


async def test_the_watchdog_leaves_a_process_that_answers() -> None:
    timeouts = Timeouts(ping_interval_s=0.05, silence_limit_s=1.0)
    async with running_pool(1, timeouts) as pool:
        owner = Owner(pool)
        before = pool.process_ids
        await asyncio.sleep(1.5)
        assert pool.process_ids == before
        assert owner.losses == []


async def test_a_process_that_cannot_be_started_is_tried_again(
    song: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_pool() as pool:
        owner = Owner(pool)
        interpreter = sys.executable
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
        os.kill(pool.process_ids[0], signal.SIGKILL)
        await eventually(lambda: "could not be started" in caplog.text, "a try that failed")
        assert owner.losses == []
        monkeypatch.setattr(sys, "executable", interpreter)
        await eventually(lambda: owner.losses, "the loss was told")
        owner.play(song)
        await eventually(lambda: owner.opened, "it plays again")


async def test_a_process_that_dies_at_once_is_not_started_in_a_rush(
    song: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_pool() as pool:
        owner = Owner(pool)
        interpreter = sys.executable
        monkeypatch.setattr(sys, "executable", "/bin/false")
        os.kill(pool.process_ids[0], signal.SIGKILL)
        await eventually(lambda: caplog.text.count("exited with 1") >= 2, "two that died at once")
        await asyncio.sleep(0.5)
        assert caplog.text.count("exited with 1") <= 5
        monkeypatch.setattr(sys, "executable", interpreter)
        await eventually(lambda: owner.session is not None and is_alive(owner.session.process_id), "a new process")
        deaths = len(owner.losses)
        assert deaths >= 2
        for _ in range(100):
            owner.play(song)
            await asyncio.sleep(0.1)
            if owner.opened:
                break
        assert owner.opened


async def test_no_further_process_means_more_sessions_in_the_others(
    song: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_pool(4) as pool:
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
        owners = [Owner(pool) for _ in range(SESSIONS_BEFORE_NEXT + 1)]
        assert len(pool.process_ids) == 1
        owners[-1].play(song)
        await eventually(lambda: owners[-1].opened, "it plays with the others")
        assert "no further decoder process could be started" in caplog.text


async def test_a_node_without_any_process_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    descriptors = open_descriptors()
    pool = DecoderPool(1, MEMORY_MB)
    with pytest.raises(OSError, match="nonexistent"):
        await pool.start()
    await pool.stop()
    assert open_descriptors().keys() <= descriptors.keys()


async def test_a_session_that_fails_to_take_something_in_harms_no_other(
    song: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_pool() as pool:
        broken, sound = Owner(pool), Owner(pool)

        def fail(message: FromDecoder) -> None:
            raise ZeroDivisionError(str(message))

        broken.receive = fail  # type: ignore[method-assign]
        broken.play(song)
        await eventually(lambda: "could not be taken in" in caplog.text, "the failure is in the log")
        sound.play(song)
        await eventually(lambda: sound.opened, "the other one plays")
        assert any(record.exc_info for record in caplog.records)


async def test_a_session_that_fails_to_move_harms_no_other(song: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_pool() as pool:
        broken, sound = Owner(pool), Owner(pool)

        def fail(suspect_sources: tuple[int, ...]) -> None:
            raise ZeroDivisionError(str(suspect_sources))

        broken.process_lost = fail  # type: ignore[method-assign]
        os.kill(pool.process_ids[0], signal.SIGKILL)
        await eventually(lambda: sound.losses, "the loss was told")
        sound.play(song)
        await eventually(lambda: sound.opened, "the other one plays")
        assert any(record.exc_info for record in caplog.records)


async def _kill(pool: DecoderPool) -> None:
    for process_id in pool.process_ids:
        os.kill(process_id, signal.SIGKILL)


async def _kill_and_wait_a_little(pool: DecoderPool) -> None:
    await _kill(pool)
    await asyncio.sleep(0.003)


async def _stop_signal(pool: DecoderPool) -> None:
    for process_id in pool.process_ids:
        os.kill(process_id, signal.SIGSTOP)


async def _nothing(pool: DecoderPool) -> None: ...


@pytest.mark.parametrize("before", [_nothing, _kill, _kill_and_wait_a_little, _stop_signal])
async def test_stopping_leaves_nothing_whatever_goes_on(
    before: Callable[[DecoderPool], Awaitable[None]], song: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`running_pool` looks for processes, tasks and descriptors that are left."""
    timeouts = Timeouts(kill_after_s=0.2)
    async with running_pool(3, timeouts) as pool:
        owners = [Owner(pool) for _ in range(12)]
        for owner in owners:
            owner.play(song)
        process_ids = pool.process_ids
        await before(pool)
    await eventually(lambda: not any(map(exists, process_ids)), "all processes are gone")
    assert not any(record.exc_info for record in caplog.records)


async def test_descriptors_do_not_pile_up(song: Path) -> None:
    async with running_pool() as pool:
        owner = Owner(pool)
        before = len(open_descriptors())
        for source in range(1, 200):
            owner.play(song, source)
        await eventually(lambda: owner.opened == 199, "all were opened")
        assert len(open_descriptors()) == before


async def test_a_decoder_does_not_hold_the_nodes_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONEARM_SERVER__PASSWORD", "secret")
    async with running_pool() as pool:
        assert not any("secret" in line for line in environment_of(pool.process_ids[0]))


async def test_interrupts_do_not_end_a_decoder(caplog: pytest.LogCaptureFixture) -> None:
    async with running_pool() as pool:
        owner = Owner(pool)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pool.process_ids[0], number)
        await asyncio.sleep(0.2)
        assert owner.losses == []
        assert caplog.records == [] or caplog.records[0].levelno < logging.WARNING

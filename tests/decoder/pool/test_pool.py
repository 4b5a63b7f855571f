"""Decoder processes, real ones: a spare that is always ready, sessions that move, exits, the watchdog, the end."""

import asyncio
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.audio_files import flac, music
from tests.support.decoder_driver import open_order
from tests.support.decoder_forks import QuickStarts
from tests.support.eventually import eventually
from tests.support.hand_time import HandTime
from tests.support.memory_for_sessions import MemoryForSessions
from tests.support.processes import crash_at_work, exists, is_stopped, open_descriptors
from tonearm.core.admission import AVERAGED_REPORTS, Capacity, Claim, Urgency
from tonearm.core.filters import Filters
from tonearm.core.memory_budget import FULL_MEMORY
from tonearm.decoder.messages import FromDecoder, FromNode, Opened, OpenSession, Pong
from tonearm.decoder.pool.pool import MOVED_AT_ONCE, SESSIONS_BEFORE_NEXT, DecoderPool, PoolSession
from tonearm.decoder.pool.process import Timeouts
from tonearm.decoder.pool.starting import DecoderStarter, DecoderTemplate, DirectStarter
from tonearm.sandbox.report import SandboxMode

MEMORY_MB = 1024
# The template belongs to an event loop.
pytestmark = pytest.mark.asyncio(loop_scope="module")

SOON = Timeouts(spare_delay_s=0.0)
WORK = range(1, 301)  # sources, so many that the process still works on them when this one looks
LATER = Timeouts(spare_delay_s=3600.0)  # The spare is started only when a session waits for a process.
NO_SLICES = replace(LATER, move_slice_s=3600.0)  # all sessions move at once
AFTER_REPORTS = partial(Capacity, listeners_at_once=0)  # who is heard waits for the next report, too
NOWHERE = "/nonexistent/python"


class Owner:
    """A session of the pool, opened again whenever it is lost."""

    frames_ahead = 10
    is_silent = False

    def __init__(self, pool: DecoderPool, urgency: Urgency = Urgency.PLAYS) -> None:
        self._pool = pool
        self.claim = Claim(urgency, pool.next_claim())
        self.received: list[FromDecoder] = []
        self.losses: list[tuple[int, ...]] = []
        self.session: PoolSession | None = None
        self.places: list[int | None] = []  # Where it was opened each time; None: nowhere yet.
        self.on_loss: Callable[[Owner], None] = lambda _: None
        self.open()

    def open(self) -> None:
        self.session = self._pool.open(self)
        if self.session is not None:
            self.send(OpenSession(self.id, 1, 0, Filters()))
        self.places.append(self.process_id)

    @property
    def process_id(self) -> int | None:
        return None if self.session is None else self.session.process_id

    @property
    def id(self) -> int:
        assert self.session is not None
        return self.session.id

    def send(self, order: FromNode, descriptor: int | None = None) -> None:
        assert self.session is not None
        self.session.send(order, descriptor)

    def play(self, path: Path, source: int = 1) -> None:
        order = open_order(self.id, source, path.stat().st_size, has_descriptor=True)
        self.send(order, os.open(path, os.O_RDONLY))

    async def plays(self, path: Path) -> None:
        opened = self.opened
        self.play(path)
        await eventually(lambda: self.opened > opened, "it plays")

    def receive(self, message: FromDecoder) -> None:
        self.received.append(message)

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        self.losses.append(suspect_sources)
        self.on_loss(self)
        self.open()

    @property
    def opened(self) -> int:
        return sum(isinstance(message, Opened) for message in self.received)


# Forks the processes of the pools, so that they start in some milliseconds.
template = DecoderTemplate(MEMORY_MB, SandboxMode.AUTO, QuickStarts())


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def one_template() -> AsyncIterator[None]:
    template.load()
    yield
    await template.stop()


@asynccontextmanager
async def running_pool(
    limit: int = 1,
    timeouts: Timeouts = SOON,
    *,
    has_spare: bool = True,
    starter: DecoderStarter = template,
    time: HandTime | None = None,
    **others: Any,
) -> AsyncIterator[DecoderPool]:
    """A pool, with `has_spare` once its spare is ready. Stops it afterwards and sees that nothing of it is left."""
    descriptors, tasks = open_descriptors(), asyncio.all_tasks()
    if time is not None:
        others |= {"now_s": time.now_s, "call_later": time.call_later}
    pool = DecoderPool(limit, MEMORY_MB, timeouts, starter=starter, **others)
    await pool.start()
    try:
        if has_spare:
            await spare_ready(pool)
        yield pool
    finally:
        process_ids = pool.process_ids
        await pool.stop()
        assert not any(map(exists, process_ids))
        assert asyncio.all_tasks() == tasks
        assert open_descriptors().keys() <= descriptors.keys()


def one_by_one(held: int = 0) -> DirectStarter:
    """Without a template: each process is started by itself, which the pool holds for dear. The one with the number
    `held`, counted from 1, does not begin before it gets SIGCONT."""
    return DirectStarter(MEMORY_MB, SandboxMode.AUTO, QuickStarts(held=held))


def first_process_only(timeouts: Timeouts = LATER, **others: Any) -> AbstractAsyncContextManager[DecoderPool]:
    """A pool for tests of one process: none is started to be the spare. (One that is forked would not be put off.)"""
    return running_pool(timeouts=timeouts, has_spare=False, starter=one_by_one(), **others)


async def spare_ready(pool: DecoderPool) -> int:
    """Waits for the spare; the number of its process."""
    await eventually(lambda: pool.has_spare, "a spare is ready")
    return pool.process_ids[-1]


async def being_started(pool: DecoderPool, number: int) -> int:
    """Waits until the last of so many processes is started, which is held."""
    await eventually(lambda: len(pool.process_ids) == number, "the spare is being started")
    assert not pool.has_spare
    await eventually(lambda: is_stopped(pool.process_ids[-1]), "it is held")
    return pool.process_ids[-1]


async def end(process_id: int, *owners: Owner) -> None:
    """Waits until these have lost it."""
    losses = {owner: len(owner.losses) for owner in owners}
    os.kill(process_id, signal.SIGKILL)
    await eventually(lambda: all(len(owner.losses) > before for owner, before in losses.items()), "losses")


async def test_the_spare_is_taken_into_use_with_need_and_replaced_up_to_the_limit() -> None:
    async with running_pool(3) as pool:
        (first,) = pool.process_ids_in_use
        owners = [Owner(pool) for _ in range(SESSIONS_BEFORE_NEXT)]
        assert pool.process_ids_in_use == [first]
        spare = await spare_ready(pool)
        owners.append(Owner(pool))
        assert owners[-1].process_id == spare
        assert pool.process_ids_in_use == [first, spare]
        assert not pool.has_spare
        third = await spare_ready(pool)
        owners.extend(Owner(pool) for _ in range(30 - len(owners)))
        assert pool.process_ids_in_use == [first, spare, third]
        places = [owner.process_id for owner in owners]
        assert sorted(places.count(process_id) for process_id in pool.process_ids_in_use) == [10, 10, 10]
        fourth = await spare_ready(pool)
        assert Owner(pool).process_id != fourth  # It is beyond the limit, and stays the spare.
        assert len(pool.process_ids) == 4


async def test_sessions_of_a_killed_process_are_shared_by_the_others(song: Path) -> None:
    """Though one is new: to open many sources takes long. Those with the fewest frames move first."""
    moved: list[int] = []
    async with running_pool(2) as pool:
        owners = [Owner(pool) for _ in range(32)]
        killed, other = pool.process_ids_in_use
        spare = await spare_ready(pool)
        lost = [owner for owner in owners if owner.process_id == killed]
        assert len(lost) == 16
        for number, owner in enumerate(lost):
            owner.frames_ahead = 7 * number % 16
            owner.on_loss = lambda owner: moved.append(owner.frames_ahead)
        await end(killed, *lost)
        assert moved == [*range(16)]
        assert [owner.losses for owner in lost] == [[()]] * 16  # A kill is no fault of a source.
        assert not any(owner.losses for owner in owners if owner not in lost)
        assert Counter(owner.process_id for owner in lost) == {spare: 8, other: 8}
        assert pool.process_ids_in_use == [other, spare]
        for owner in lost:
            await owner.plays(song)
        # Those that come later go where the fewest are, as ever.
        assert {Owner(pool).process_id for _ in range(16)} == {spare}
        assert await spare_ready(pool) not in (killed, other, spare)


async def test_without_a_spare_sessions_move_to_another_process_or_wait_for_one(song: Path) -> None:
    async with running_pool(2, starter=one_by_one(held=3)) as pool:
        owners = [Owner(pool) for _ in range(2 * SESSIONS_BEFORE_NEXT)]
        killed, spared = pool.process_ids_in_use
        starting = await being_started(pool, 3)
        await end(killed, owners[0])
        assert {owner.process_id for owner in owners} == {spared}
        await end(spared, owners[0])
        owners.append(Owner(pool))
        given_up = Owner(pool)
        assert {owner.process_id for owner in (*owners, given_up)} == {None}
        pool.forget(given_up)
        os.kill(starting, signal.SIGCONT)
        await eventually(lambda: owners[0].process_id is not None, "a process for them")
        assert {owner.process_id for owner in owners} == {starting}
        for owner in owners:
            await owner.plays(song)
        assert (given_up.losses, given_up.session) == ([], None)


async def test_no_session_notices_the_death_of_a_spare(song: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nor the death of the next one while it starts, nor an interrupt."""
    async with running_pool(starter=one_by_one(held=3)) as pool:
        owner = Owner(pool)
        in_use, killed = pool.process_ids
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(in_use, number)
        await owner.plays(song)
        assert all(record.levelno < logging.WARNING for record in caplog.records)
        os.kill(killed, signal.SIGKILL)
        await eventually(lambda: not pool.has_spare, "the spare is gone")
        starting = await being_started(pool, 2)
        os.kill(starting, signal.SIGKILL)
        assert await spare_ready(pool) not in (killed, starting)
        await owner.plays(song)
        assert (owner.process_id, owner.losses) == (in_use, [])


async def test_what_a_crash_counts_against_waits_for_a_spare(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_pool(starter=one_by_one()) as pool:
        other, busy = Owner(pool), Owner(pool)
        order = list[Owner]()
        for owner in (other, busy):
            owner.on_loss = order.append
        first, spare = pool.process_ids
        long_song = tmp_path / "long.flac"
        long_song.write_bytes(flac(music(4.0)))
        for source in WORK:
            busy.play(long_song, source)
        await eventually(lambda: busy.opened >= 3, "the sources are opened")
        await crash_at_work(pool._in_use[0])
        await eventually(lambda: busy.losses and busy.process_id is not None, "it has a process again")
        assert "was ended by SIGSEGV" in caplog.text
        assert order[0] is busy  # It is counted before any source is opened again.
        suspects, *waits = busy.losses
        assert 1 <= len(suspects) <= 3
        assert set(suspects) <= set(WORK)
        assert waits == other.losses == [()]
        assert (busy.places, other.places) == ([first, None, spare], [first, spare])
        assert pool.has_spare


@pytest.mark.parametrize("step_lasts_s", [None, 60.0])
async def test_a_process_whose_step_lasts_is_ended_after_the_limit(step_lasts_s: float | None, song: Path) -> None:
    time, limit = HandTime(), Timeouts()
    async with first_process_only(time=time) as pool:
        owner = Owner(pool)
        (process,) = pool._in_use
        process._ping(process._asked + 1)
        time.stand_still(60.0)  # the node's loop was blocked, and could not read an answer
        time.forward(0.1)
        assert process._ended_for is None
        begun_s = time.now_s() + (step_lasts_s or 0.0)
        while process._ended_for is None:
            time.forward(0.1)
            if step_lasts_s and process._answered < process._asked:
                process._receive(Pong(process._asked, max(0.0, time.now_s() - begun_s)))
        assert 0 <= time.now_s() - begun_s - limit.silence_limit_s <= limit.ping_interval_s + 0.1
        await eventually(lambda: owner.losses, "it is killed")
        assert owner.losses == [()]  # It worked on nothing.
        await eventually(lambda: owner.session is not None, "there is another one")
        await owner.plays(song)


async def test_where_no_process_comes_up_it_is_tried_again(song: Path, caplog: pytest.LogCaptureFixture) -> None:
    start = QuickStarts()
    async with running_pool(starter=DirectStarter(MEMORY_MB, SandboxMode.AUTO, start)) as pool:
        owner = Owner(pool)
        for interpreter, said, least, most in (
            (NOWHERE, "could not be started", 1, 1),
            ("/bin/false", "exited with 1", 2, 5),
        ):
            start.interpreter = interpreter
            for process_id in pool.process_ids:
                os.kill(process_id, signal.SIGKILL)
            await eventually(lambda: caplog.text.count(said) >= least, "tries that failed")  # noqa: B023
            await asyncio.sleep(0.5)
            assert caplog.text.count(said) <= most
            assert owner.session is None  # It was put into none of them.
            start.interpreter = None
            await eventually(lambda: owner.session is not None, "it has a process again")
            await owner.plays(song)
            await spare_ready(pool)


async def test_a_pool_whose_first_process_exits_does_not_start() -> None:
    descriptors, start = open_descriptors(), QuickStarts(interpreter="/bin/false")
    pool = DecoderPool(1, MEMORY_MB, starter=DirectStarter(MEMORY_MB, SandboxMode.AUTO, start))
    with pytest.raises(OSError, match="it exited with 1"):
        await pool.start()
    await pool.stop()
    assert open_descriptors().keys() <= descriptors.keys()


async def test_a_session_with_errors_of_its_own_harms_no_other(song: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_pool() as pool:
        broken, sound = Owner(pool), Owner(pool)

        def fail(told: object) -> None:
            raise ZeroDivisionError(str(told))

        for method in ("receive", "process_lost"):
            setattr(broken, method, fail)
        broken.play(song)
        await eventually(lambda: "could not be processed" in caplog.text, "the failure is in the log")
        await sound.plays(song)
        await end(pool.process_ids[0], sound)
        await sound.plays(song)
        assert [bool(record.exc_info) for record in caplog.records].count(True) >= 2


async def test_many_sessions_move_in_slices_that_let_the_event_loop_go_on() -> None:
    turn, moved_in = 0, Counter[int]()

    async def turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def take_a_while(_: Owner) -> None:
        began_s = time.monotonic()
        while time.monotonic() < began_s + SOON.move_slice_s / 4:
            pass
        moved_in[turn] += 1

    async with running_pool() as pool:
        turning = asyncio.create_task(turns())
        owners = [Owner(pool) for _ in range(40)]
        for owner in owners:
            owner.on_loss = take_a_while
        dead = owners[0].process_id
        assert dead is not None
        *moving, closed = [owner for owner in owners if owner.process_id == dead]
        assert len(moving) >= 11
        os.kill(dead, signal.SIGKILL)
        await eventually(lambda: moved_in, "the first ones move")
        pool.forget(closed)  # its player was deleted meanwhile
        await eventually(lambda: all(owner.losses for owner in moving), "all others have moved")
        assert max(moved_in.values()) <= MOVED_AT_ONCE
        assert not closed.losses
        assert dead not in {owner.process_id for owner in moving}
        turning.cancel()
        await asyncio.wait([turning])


@pytest.mark.parametrize("number", [None, signal.SIGKILL, signal.SIGSTOP])
async def test_stopping_leaves_nothing(
    number: signal.Signals | None, song: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`running_pool` looks for processes, tasks and descriptors that are left."""
    async with running_pool(3, Timeouts(kill_after_s=0.2, spare_delay_s=0.0)) as pool:
        for owner in [Owner(pool) for _ in range(12)]:
            owner.play(song)
        process_ids = pool.process_ids
        for process_id in process_ids:
            if number is not None:
                os.kill(process_id, number)
    await eventually(lambda: not any(map(exists, process_ids)), "all processes are gone")
    assert not any(record.exc_info for record in caplog.records)


# More than they can do


def report(pool: DecoderPool, busy: float, made_s: float = 100.0, late_s: float = 0.0, memory: float = 0.0) -> None:
    """Each process has this much to do, and says so for two seconds."""
    for process in pool._in_use:
        process._node_late_s = 0.0  # whatever this test waits for
        for _ in range(AVERAGED_REPORTS):
            process._ping(process._asked + 1)
            process._receive(Pong(process._asked, 0.0, 0.5, busy / 2, busy / 2, made_s / 2, late_s, memory))


@pytest.mark.parametrize("urgency", [Urgency.STARTS, Urgency.PLAYS])
async def test_without_memory_who_is_heard_takes_the_place_of_the_newest_that_is_not(urgency: Urgency) -> None:
    async with first_process_only() as pool:
        unheard = [Owner(pool, Urgency.UNHEARD) for _ in range(5)]
        report(pool, 0.1, memory=FULL_MEMORY)
        assert Owner(pool, Urgency.UNHEARD).process_id is None
        guest = Owner(pool, urgency)
        assert guest.process_id == unheard[0].process_id is not None
        assert [owner.process_id is None for owner in unheard] == [False] * 4 + [True]
        assert unheard[-1].losses == [()]
        report(pool, 0.1, memory=0.1)
        await eventually(lambda: unheard[-1].process_id is not None, "it comes back when there is memory")


@pytest.mark.parametrize("urgency", [Urgency.STARTS, Urgency.UNHEARD])
async def test_who_waits_for_room_comes_into_the_spare_once_it_is_ready(urgency: Urgency) -> None:
    often = Timeouts(spare_delay_s=0.0, busy_ping_interval_s=0.05)
    capacity = MemoryForSessions(SESSIONS_BEFORE_NEXT - 1).capacity
    async with running_pool(2, often, has_spare=False, starter=one_by_one(held=2), capacity=capacity) as pool:
        spare = await being_started(pool, 2)
        players = [Owner(pool) for _ in range(SESSIONS_BEFORE_NEXT - 1)]
        waiting = Owner(pool, urgency)
        assert waiting.process_id is None
        os.kill(spare, signal.SIGCONT)
        await eventually(lambda: waiting.process_id == spare, "it has come into the spare")
        assert not any(player.losses for player in players)


async def test_who_plays_comes_at_once_who_is_heard_with_the_next_report_and_the_others_evenly_after_it() -> None:
    time = HandTime()
    async with first_process_only(NO_SLICES, time=time, capacity=AFTER_REPORTS) as pool:
        players = [Owner(pool) for _ in range(5)]
        (process,) = pool.process_ids_in_use
        report(pool, 1.0, made_s=5.0, late_s=0.1)
        unheard = [Owner(pool, Urgency.UNHEARD) for _ in range(40)]
        heard = [Owner(pool, Urgency.STARTS) for _ in range(10)]

        def let_in() -> int:
            return sum(player.process_id == process for player in unheard)

        assert not any(player.process_id for player in (*heard, *unheard))
        assert pool.waited_s(heard[0]) == 0.0
        assert Owner(pool).process_id == process
        report(pool, 0.1)
        assert {player.process_id for player in heard} == {process}
        assert pool.waited_s(heard[0]) is None
        before = let_in()
        assert before <= AVERAGED_REPORTS
        pool.forget(unheard[-1])  # its player was deleted meanwhile
        time.forward(0.25)
        assert let_in() == pytest.approx(before + (len(unheard) - before) / 2, abs=2)
        time.forward(0.25)
        assert [player.process_id is not None for player in unheard] == [True] * 39 + [False]
        assert not any(player.losses for player in players)


async def test_the_newest_leave_a_process_that_stays_late(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    time = HandTime()
    async with first_process_only(NO_SLICES, time=time) as pool:
        players = [Owner(pool) for _ in range(30)]
        report(pool, 1.0, made_s=30.0)
        report(pool, 1.0, made_s=15.0, late_s=1.0)
        assert all(player.process_id is not None for player in players)  # who begins costs more at first
        time.forward(6.0)
        report(pool, 1.0, made_s=15.0, late_s=1.0)
        carried = [player.process_id is not None for player in players]
        assert 1 <= carried.count(False) < 15
        assert carried == sorted(carried, reverse=True)  # the oldest are left
        time.forward(4.0)
        report(pool, 0.95, made_s=30.0)
        overload_s, waiting = pool.overload
        assert overload_s == pytest.approx(4.0)
        assert waiting == carried.count(False)
        for _ in range(10):  # a few at a time
            time.forward(2.0)
            report(pool, 0.2, made_s=30.0)
        assert all(player.process_id is not None for player in players)
        lines = [record.message for record in caplog.records if "overload" in record.message]
        assert len(lines) == 2
        assert "the node has been overloaded" in lines[0]
        assert "passed" in lines[1]
        assert pool.overload == (0.0, 0)

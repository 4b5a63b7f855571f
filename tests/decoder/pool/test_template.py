"""Decoder processes that are forked from a template, real ones: what they are and hold, and who sees them end."""

import asyncio
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.decoder.pool.test_pool import MEMORY_MB, SOON, Owner, end, spare_ready
from tests.support.decoder_forks import QuickStarts
from tests.support.environment import variables
from tests.support.eventually import eventually
from tests.support.processes import (
    children,
    descriptors_of,
    environment_of,
    exists,
    is_alive,
    kind_of,
    open_descriptors,
    own_session,
)
from tests.support.sandboxing import SANDBOX
from tonearm.decoder.pool.pool import DecoderPool
from tonearm.decoder.pool.starting import ChildProcess, DecoderTemplate, StartInterpreter, start_interpreter
from tonearm.sandbox.report import decoder_supervision

AS_INTERPRETERS = "each decoder process is started as a new interpreter"


@asynccontextmanager
async def templated_pool(
    start: StartInterpreter | None = None, **others: Any
) -> AsyncIterator[tuple[DecoderPool, DecoderTemplate]]:
    """A pool with a spare that is ready, and its template. Nothing of both may be left afterwards.

    With `start_interpreter` the template is one of its own, and no fork that has loaded before what a template loads.
    """
    descriptors, tasks = open_descriptors(), asyncio.all_tasks()
    template = DecoderTemplate(MEMORY_MB, SANDBOX, start or QuickStarts(), **others)
    pool = DecoderPool(1, MEMORY_MB, SOON, sandbox=decoder_supervision(SANDBOX), starter=template)
    try:
        await pool.start()
        await spare_ready(pool)
        yield pool, template
    finally:
        process_ids = [*pool.process_ids, *([] if template.pid is None else [template.pid])]
        await pool.stop()
        await template.stop()
        assert not any(map(exists, process_ids))
        assert asyncio.all_tasks() == tasks
        assert open_descriptors().keys() <= descriptors.keys()


def pid_of(template: DecoderTemplate) -> int:
    assert template.pid is not None
    return template.pid


async def keeps_only_its_own(template: DecoderTemplate) -> None:
    """The three standard descriptors, its socket and its statm. It tells of a start before it closes what is the
    fork's."""
    await eventually(lambda: len(descriptors_of(pid_of(template))) == 5, "the template has closed what is not its own")


async def another_template(template: DecoderTemplate, than: int) -> int:
    await eventually(lambda: template.pid not in (None, than), "there is another template")
    return pid_of(template)


async def test_the_processes_of_a_template_are_those_that_are_started_alone(song: Path, tmp_path: Path) -> None:
    """Children of the node in sessions of their own, with their own descriptors and no others and nothing of the node's
    settings or of its working folder, confined and limited."""
    # The folder of a bot may have a `queue.py` of its own, and a folder of strangers' music anything.
    (tmp_path / "queue.py").write_text("raise SystemExit('it was imported')\n")

    def system_state(process_id: int) -> list[str]:
        kept = ("NoNewPrivs", "Seccomp", "Seccomp_filters", "SigIgn", "SigCgt", "SigBlk", "Threads")
        status = Path(f"/proc/{process_id}/status").read_text().splitlines()
        limits = Path(f"/proc/{process_id}/limits").read_text().splitlines()
        return [line for line in status if line.split(":")[0] in kept] + limits

    with variables(TONEARM_SERVER__PASSWORD="secret", BOT_TOKEN="secret"), chdir(tmp_path):
        async with templated_pool(start=start_interpreter) as (pool, template):
            assert children() >= {pid_of(template), *pool.process_ids}
            assert [kind_of(pid) for pid in (pid_of(template), *pool.process_ids)] == ["template", "decoder", "decoder"]
            assert all(own_session(process_id) for process_id in (pid_of(template), *pool.process_ids))
            for process_id in pool.process_ids:
                null, also_null, _, *others = descriptors_of(process_id).values()
                assert (null, also_null) == ("/dev/null", "/dev/null")
                kinds = sorted(other.split(":")[0] for other in others)
                assert kinds == ["/memfd", f"/proc/{process_id}/statm", "socket"]
            await keeps_only_its_own(template)
            alone = DecoderPool(1, MEMORY_MB, SOON, keeps_spare=False, sandbox=decoder_supervision(SANDBOX))
            await alone.start()
            try:
                (report,) = (process.sandbox for process in alone._processes)
                assert report is not None
                assert report.seccomp
                assert [process.sandbox for process in pool._processes] == [report, report]
                for process_id in pool.process_ids:
                    assert system_state(process_id) == system_state(alone.process_ids[0])
                    assert set(environment_of(process_id)) == set(environment_of(alone.process_ids[0]))
                    assert not any("secret" in line for line in environment_of(process_id))
                    limit = MEMORY_MB * 1024 * 1024
                    assert resource.prlimit(process_id, resource.RLIMIT_AS) == (limit, limit)
            finally:
                await alone.stop()
            await Owner(pool).plays(song)


async def test_the_death_of_the_template_is_not_noticed(song: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with templated_pool() as (pool, template):
        owner = Owner(pool)
        before, killed = pool.process_ids, pid_of(template)
        os.kill(killed, signal.SIGKILL)
        await another_template(template, killed)
        assert "it is started again" in caplog.text
        await owner.plays(song)
        assert (pool.process_ids, owner.losses) == (before, [])
        # A process that was forked from the one is replaced by the other.
        await end(before[0], owner)
        assert kind_of(await spare_ready(pool)) == "decoder"
        all_killed = (pid_of(template), *pool.process_ids)
        for process_id in all_killed:
            os.kill(process_id, signal.SIGKILL)
        await eventually(lambda: owner.process_id not in (None, *all_killed), "it has a process again")
        await owner.plays(song)
        await spare_ready(pool)


async def test_a_template_that_does_not_answer_is_killed(song: Path) -> None:
    async with templated_pool(answer_limit_s=2.0) as (pool, template):
        owner = Owner(pool)
        stopped = pid_of(template)
        os.kill(stopped, signal.SIGSTOP)
        os.kill(pool.process_ids[-1], signal.SIGKILL)
        await eventually(lambda: not is_alive(stopped), "it is killed")
        assert kind_of(await spare_ready(pool)) != "decoder"  # which is the last word of forked ones
        await owner.plays(song)
        assert owner.losses == []


@pytest.mark.parametrize("script", ["exit 3", f'"{sys.executable}" "$@"'], ids=["none starts", "not as a child"])
async def test_where_no_template_starts_there_are_interpreters(
    script: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, song: Path
) -> None:
    """Nor where the node would not be the parent of what it forks: a script starts the interpreter."""
    caplog.set_level("INFO")
    shell = tmp_path / "python"
    shell.write_text(f"#!/bin/sh\n{script}\n")
    shell.chmod(0o755)
    by_shell, others = QuickStarts(interpreter=str(shell)), QuickStarts()

    def start(arguments: tuple[object, ...], descriptors: tuple[int, ...]) -> ChildProcess:
        return (by_shell if arguments[-1] == "template" else others)(arguments, descriptors)

    async with templated_pool(start=start) as (pool, template):
        assert template.pid is None
        assert caplog.text.count(AS_INTERPRETERS) == 1
        owner = Owner(pool)
        await end(pool.process_ids[0], owner)
        await spare_ready(pool)
        await owner.plays(song)
        assert caplog.text.count(AS_INTERPRETERS) == 1


@pytest.mark.parametrize("turns", range(6))
async def test_a_start_that_is_given_up_leaves_no_process(turns: int) -> None:
    """Before the order is sent, after that, and after the answer."""
    async with templated_pool() as (_, template):
        before = children()
        with ends_of_a_start() as (connection, memory):
            starting = asyncio.create_task(ended_start(template, connection, memory))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            starting.cancel()
            await asyncio.wait([starting])
        await eventually(lambda: children() == before, "what came of it is gone")


async def test_many_starts_and_kills_leave_nothing_nor_does_a_template_that_is_killed_while_it_forks() -> None:
    async with templated_pool() as (_, template):
        before, descriptors = children(), len(open_descriptors())
        for _ in range(30):
            with ends_of_a_start() as (connection, memory):
                await ended_start(template, connection, memory)
        assert (children(), len(open_descriptors())) == (before, descriptors)
        await keeps_only_its_own(template)
        before -= {pid_of(template)}
        for after_s in (0.0, 0.0003, 0.0006, 0.001, 0.0015, 0.002, 0.003, 0.005):
            with ends_of_a_start() as (connection, memory):
                await ended_start(template, connection, memory)  # when the template is loaded
                killed = pid_of(template)
                starting = asyncio.create_task(ended_start(template, connection, memory))
                await asyncio.sleep(after_s)
                os.kill(killed, signal.SIGKILL)
                await starting  # from the template, or directly
            await another_template(template, killed)
        await eventually(lambda: children() - before == {template.pid}, "there is nothing but the template")


async def ended_start(template: DecoderTemplate, connection: int, memory: int) -> None:
    process = await template.start(connection, memory)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.kill()  # It is gone, and nobody else is hit.


@contextmanager
def ends_of_a_start() -> Iterator[tuple[int, int]]:
    """What a decoder process is started with: a socket, of which the other end stays open, and memory."""
    node_end, decoder_end = socket.socketpair()
    memory = os.memfd_create("suspects")
    os.ftruncate(memory, 4096)
    with node_end, decoder_end:
        try:
            yield decoder_end.fileno(), memory
        finally:
            os.close(memory)

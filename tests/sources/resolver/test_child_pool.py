"""Resolving processes as the node handles them: how many, for how long, and what is left of them."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process, create_subprocess_exec
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.processes import exists, is_alive
from tonearm.sources.resolver.children import ChildBroken, ChildPool, child_environment
from tonearm.sources.resolver.pages import COMMAND
from tonearm.sources.resolver.scripts import PREPARER

# Answers each line with what Python makes of the request's "do".
PROGRAM = """
import json, os, sys, time
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return "{}"
for line in sys.stdin:
    print(eval(json.loads(line)["do"]), flush=True)
"""
PID = "json.dumps({'pid': os.getpid()})"


@asynccontextmanager
async def pool(**options: Any) -> AsyncIterator[ChildPool]:
    made = ChildPool((sys.executable, "-S", "-c", PROGRAM), **{"at_most": 1, "idle_s": 60.0, **options})
    try:
        yield made
    finally:
        await made.close()


async def pid_of(children: ChildPool) -> int:
    answer = await children.ask({"do": PID}, 30.0)
    assert isinstance(answer["pid"], int)
    return answer["pid"]


async def gone(pid: int) -> None:
    await eventually(lambda: not exists(pid), "the process is gone")


async def test_one_process_serves_many_until_it_dies_and_leads_its_own_group() -> None:
    async with pool() as children:
        pid = await pid_of(children)
        assert await pid_of(children) == pid == os.getpgid(pid)
        os.kill(pid, 9)
        await gone(pid)
        await asyncio.sleep(0.01)  # the loop reads the end of its pipe
        following = await pid_of(children)
        assert following != pid
    assert not exists(following)


async def test_a_process_that_gives_no_answer_is_replaced() -> None:
    answers = ("'garbage'", "'[1]'", "'{\"a\": NaN}'", "'[' * 100000", "''", "'x' * 400000", "os._exit(3)", "'\\ud800'")
    async with pool() as children:
        for answer in answers:
            pid = await pid_of(children)
            with pytest.raises(ChildBroken):
                await children.ask({"do": answer}, 30.0)
            assert await pid_of(children) != pid
            await gone(pid)


async def test_a_late_one_is_killed_with_all_that_it_started() -> None:
    async with pool() as children:
        pid = await pid_of(children)
        start = "json.dumps({'pid': os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '600')})"
        grandchild = (await children.ask({"do": start}, 30.0))["pid"]
        assert isinstance(grandchild, int)
        with pytest.raises(TimeoutError):
            await children.ask({"do": "time.sleep(600)"}, 0.1)
        await gone(pid)
        await eventually(lambda: not is_alive(grandchild), "what it started is gone")
        following = await pid_of(children)
        assert following != pid
        asking = asyncio.create_task(children.ask({"do": "time.sleep(600)"}, 600.0))
        await asyncio.sleep(0)
        asking.cancel()  # who gives up waiting ends the work, too
        with pytest.raises(asyncio.CancelledError):
            await asking
        await gone(following)


async def test_idle_processes_are_sent_home_but_the_last_one_where_that_is_asked_for(tmp_path: Path) -> None:
    async with pool(at_most=2, idle_s=0.0, keeps_one=True) as children:
        go = tmp_path / "go"
        asking = [asyncio.create_task(children.ask({"do": f"(wait_for({str(go)!r}), {PID})[1]"}, 30.0)) for _ in "12"]
        go.touch()
        pids = {(await one)["pid"] for one in asking}
        assert len(pids) == 2
        await eventually(lambda: len([pid for pid in pids if exists(int(str(pid)))]) == 1, "one is gone")
        assert await pid_of(children) in pids
    async with pool(idle_s=0.0) as children:
        pid = await pid_of(children)
        await gone(pid)


async def test_a_start_that_nobody_waits_for_is_ended_with_the_pool(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    warm_up = {"do": f"(os.symlink(str(os.getpid()), {str(begun)!r}), time.sleep(600))"}
    async with pool(warm_up=warm_up) as children:
        asking = asyncio.create_task(children.ask({"do": PID}, 30.0))
        await eventually(begun.is_symlink, "it has begun to start")
        asking.cancel()
        await asyncio.wait([asking])
    assert not exists(int(os.readlink(begun)))
    with pytest.raises(ChildBroken, match="shutting down"):
        await children.ask({"do": PID}, 30.0)
    with pytest.raises(ChildBroken, match="could not be started"):
        await ChildPool(("/nonexistent/python",), at_most=1, idle_s=60.0).ask({}, 30.0)


@pytest.mark.parametrize("command", [(*COMMAND, "1024", "off", "false"), (*PREPARER, "512", "off")])
async def test_a_signal_to_all_processes_of_a_service_ends_none_of_these(command: tuple[str, ...]) -> None:
    started: list[Process] = []

    async def start(*words: str, **options: Any) -> Process:
        started.append(await create_subprocess_exec(*words, **options))
        return started[-1]

    children = ChildPool(command, at_most=1, idle_s=60.0, start_process=start)
    await children.ask({"op": ""}, 60.0)
    started[0].send_signal(signal.SIGTERM)
    await children.ask({"op": ""}, 60.0)
    assert len(started) == 1
    await children.close()


def test_the_environment_holds_no_settings_of_the_user() -> None:
    given = {"PATH": "/bin", "HTTPS_PROXY": "http://p", "HOME": "/root", "TONEARM_SERVER__PASSWORD": "x", "LANG": "C"}
    kept = child_environment(given)
    assert kept == {"PATH": "/bin", "LANG": "C", "YTDLP_NO_PLUGINS": "1", "PYTHONUTF8": "1"}

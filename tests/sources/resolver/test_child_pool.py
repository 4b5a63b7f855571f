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
from tests.support.hand_time import LoopTime
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
async def pool(program: str = PROGRAM, **options: Any) -> AsyncIterator[ChildPool]:
    made = ChildPool((sys.executable, "-S", "-c", program), **{"at_most": 1, "idle_s": 60.0, **options})
    try:
        yield made
    finally:
        await made.close()


async def pid_of(children: ChildPool) -> int:
    answer = await children.ask({"do": PID}, 30.0)
    assert isinstance(answer["pid"], int)
    return answer["pid"]


async def test_one_process_serves_many_and_leads_its_own_group() -> None:
    async with pool() as children:
        pid = await pid_of(children)
        assert await pid_of(children) == pid
        assert os.getpgid(pid) == pid
    assert not exists(pid)


@pytest.mark.parametrize(
    "answer",
    ["'garbage'", "'[1]'", "'{\"a\": NaN}'", "'[' * 100000", "''", "'x' * 400000", "os._exit(3)", "1/0", "'\\ud800'"],
)
async def test_a_process_that_gives_no_answer_is_replaced(answer: str) -> None:
    async with pool() as children:
        pid = await pid_of(children)
        with pytest.raises(ChildBroken):
            await children.ask({"do": answer}, 30.0)
        assert await pid_of(children) != pid
        await eventually(lambda: not exists(pid), "the broken process is gone")


async def test_a_late_one_is_killed_with_all_that_it_started() -> None:
    async with pool() as children:
        pid = await pid_of(children)
        started = await children.ask(
            {"do": "json.dumps({'pid': os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '600')})"}, 30
        )
        grandchild = started["pid"]
        assert isinstance(grandchild, int)
        with pytest.raises(TimeoutError):
            await children.ask({"do": "time.sleep(600)"}, 0.1)
        await eventually(lambda: not exists(pid), "the late process is gone")
        await eventually(lambda: not is_alive(grandchild), "what it started is gone")
        assert await pid_of(children) != pid


async def test_who_gives_up_waiting_ends_the_work() -> None:
    async with pool() as children:
        pid = await pid_of(children)
        asking = asyncio.create_task(children.ask({"do": "time.sleep(600)"}, 600.0))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await eventually(lambda: not exists(pid), "the process is gone")


def begun(folder: Path) -> int:
    return len(list(folder.glob("begun-*")))


async def test_so_many_at_once_and_the_others_wait(tmp_path: Path) -> None:
    async with pool(at_most=4) as children:
        asking = []
        for number in range(6):
            begin, go = str(tmp_path / f"begun-{number}"), str(tmp_path / "go")
            work = f"(open({begin!r}, 'w').close(), wait_for({go!r}))[1]"
            asking.append(asyncio.create_task(children.ask({"do": work}, 30.0)))
        await eventually(lambda: begun(tmp_path) == 4, "four are at work")
        (tmp_path / "go").touch()
        await asyncio.gather(*asking)
        assert begun(tmp_path) == 6


async def test_an_idle_process_is_sent_home() -> None:
    async with pool(idle_s=0.0) as children:
        pid = await pid_of(children)
        await eventually(lambda: not exists(pid), "the idle process is gone")


async def test_the_last_one_stays_where_that_is_asked_for(tmp_path: Path) -> None:
    async with pool(at_most=2, idle_s=0.0, keeps_one=True) as children:
        go = tmp_path / "go"
        asking = [asyncio.create_task(children.ask({"do": f"(wait_for({str(go)!r}), {PID})[1]"}, 30.0)) for _ in "12"]
        go.touch()
        pids = {(await one)["pid"] for one in asking}
        assert len(pids) == 2
        await eventually(lambda: len([pid for pid in pids if exists(int(str(pid)))]) == 1, "one is gone")
        assert await pid_of(children) in pids


def slow_start(folder: Path) -> dict[str, str]:
    """A warm-up that goes on once `go` is in the folder; it leaves its process id there."""
    begin, go = f"{folder}/begun-", str(folder / "go")
    return {"do": f"(open({begin!r} + str(os.getpid()), 'w').close(), wait_for({go!r}))[1]"}


async def start_and_give_up(children: ChildPool, folder: Path) -> int:
    """Asks until a process has begun to start, which is returned, and waits no longer."""
    asking = asyncio.create_task(children.ask({"do": PID}, 30.0))
    await eventually(lambda: begun(folder) == 1, "a process has begun to start")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    (name,) = os.listdir(folder)
    return int(name.removeprefix("begun-"))


async def test_a_start_goes_on_for_the_next_one_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    async with pool(warm_up=slow_start(tmp_path)) as children:
        (pid,) = {await start_and_give_up(children, tmp_path) for _ in range(3)}
        asking = asyncio.create_task(children.ask({"do": PID}, 30.0))
        (tmp_path / "go").touch()
        assert await asking == {"pid": pid}
        assert begun(tmp_path) == 1


async def test_a_start_that_nobody_waits_for_leaves_an_idle_process(tmp_path: Path) -> None:
    async with pool(warm_up=slow_start(tmp_path), idle_s=0.0) as children:
        pid = await start_and_give_up(children, tmp_path)
        (tmp_path / "go").touch()
        await eventually(lambda: not exists(pid), "the idle process is gone")


async def test_a_start_that_nobody_waits_for_is_ended_with_the_pool(tmp_path: Path) -> None:
    async with pool(warm_up=slow_start(tmp_path)) as children:
        pid = await start_and_give_up(children, tmp_path)
    assert not exists(pid)


async def test_one_that_died_while_idle_is_not_asked() -> None:
    async with pool() as children:
        pid = await pid_of(children)
        os.kill(pid, 9)
        await eventually(lambda: not exists(pid), "it is dead")
        await asyncio.sleep(0.01)  # the loop reads the end of its pipe
        assert await pid_of(children) != pid


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


async def test_a_process_is_warmed_up_once_and_not_at_the_cost_of_who_asks(tmp_path: Path) -> None:
    go, begin = tmp_path / "go", str(tmp_path / "begun-0")
    warm_up = {"do": f"(open({begin!r}, 'w').close(), wait_for({str(go)!r}), globals().update(warm=7))[1]"}
    async with pool(warm_up=warm_up, start_s=600.0) as children:
        time = LoopTime()
        asking = asyncio.create_task(children.ask({"do": "json.dumps({'warm': warm})"}, 30.0))
        await eventually(lambda: begun(tmp_path) == 1, "it is being warmed up")
        time.forward(31.0)
        go.touch()
        assert await asking == {"warm": 7}
        assert await children.ask({"do": "json.dumps({'warm': warm})"}, 30.0) == {"warm": 7}


async def test_closing_ends_the_work() -> None:
    async with pool() as children:
        pid = await pid_of(children)
        asking = asyncio.create_task(children.ask({"do": "time.sleep(600)"}, 600.0))
        await asyncio.sleep(0)
        await children.close()
        assert not exists(pid)
        with pytest.raises(ChildBroken):
            await asking
        with pytest.raises(ChildBroken):
            await children.ask({"do": PID}, 30.0)


async def test_a_command_that_is_none() -> None:
    children = ChildPool(("/nonexistent/python",), at_most=1, idle_s=60.0)
    with pytest.raises(ChildBroken, match="could not be started"):
        await children.ask({}, 30.0)


def test_the_environment_holds_no_settings_of_the_user() -> None:
    given = {"PATH": "/bin", "HTTPS_PROXY": "http://p", "HOME": "/root", "TONEARM_SERVER__PASSWORD": "x", "LANG": "C"}
    kept = child_environment(given)
    assert kept == {"PATH": "/bin", "LANG": "C", "YTDLP_NO_PLUGINS": "1", "PYTHONUTF8": "1"}

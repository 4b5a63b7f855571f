"""A cluster of an engine and nodes, and the faults that can be made in it."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.support.processes import WaitForCpu, standing_still
from tests.support.running_cluster import LEASE_S, Cuttable, Engine, RunningCluster
from tests.support.running_node import RunningNode, start_node

NODES: Final = "abc"
STOPS_WITHIN_S: Final = 20.0
OF_A_NODE: Final = (("Tonearm-Hop", "1"),)  # so another node asks, and is told what a node itself has


class World:
    """`nodes` are those that run, by name. What is `wrong` are sentences."""

    def __init__(self, folder: Path) -> None:
        (folder / "engine").mkdir()
        self.engine = Engine(folder / "engine")
        self.cluster = RunningCluster(folder, self.engine)
        self.nodes = self.cluster.nodes
        self.ways = {name: Cuttable(self.engine) for name in NODES}
        self._ports: dict[str, int] = {}
        self.started: list[tuple[str, RunningNode]] = []
        self.ended: set[int] = set()  # processes that were killed or told to end
        self.wrong: list[str] = []
        self.is_alone = True  # one fault, not two

    def blame(self, text: str) -> None:
        if text not in self.wrong:
            print(f"WRONG  {text}", flush=True)
            self.wrong.append(text)

    def limit(self, seconds: float) -> Callable[[], bool]:
        """Says whether so long has passed, and what this process and the nodes waited for a core meanwhile."""
        pids = [node.pid for node in self.nodes.values()]
        begun_s, waited = time.monotonic(), WaitForCpu(*pids)
        return lambda: time.monotonic() - begun_s > seconds + waited.seconds(*pids)

    async def are_one(self) -> bool:
        shown = [await node.request("GET", "/v0/nodes/self") for node in self.nodes.values()]
        return all(one.json()["reachesEngine"] for one in shown) and await self.cluster.all_are_one()

    async def start(self, name: str) -> None:
        """A node that finds no engine ends, and is started again, as systemd does it."""
        (folder := self.cluster.folder / name).mkdir(exist_ok=True)
        config = self.cluster.node_config(name).replace(self.engine.url, self.ways[name].url)
        while name not in self.nodes:
            # Below what the system gives to connections, so that it is still free for the next one.
            port = self._ports.setdefault(name, random.randrange(20_000, 30_000))
            try:
                self.nodes[name] = await asyncio.to_thread(start_node, folder, config, ("--port", str(port)))
            except AssertionError as error:
                if "its engine is not there" not in str(error):
                    raise
        self.started.append((name, self.nodes[name]))

    async def stop(self, *names: str) -> None:
        """SIGTERM to all at once."""
        nodes, is_late = {name: self.nodes.pop(name) for name in names}, self.limit(STOPS_WITHIN_S)
        for node in nodes.values():
            self.ended.add(node.pid)
            node.process.send_signal(signal.SIGTERM)
        ending = {name: asyncio.create_task(node.ended()) for name, node in nodes.items()}
        while not all(task.done() for task in ending.values()) and not is_late():
            await asyncio.wait(ending.values(), timeout=0.1)
        for name, task in ending.items():
            if not task.done():
                self.blame(f"{name} did not stop in {STOPS_WITHIN_S:g} s after SIGTERM")
                await asyncio.to_thread(nodes[name].kill)
            elif await task:
                self.blame(f"{name} ended with {task.result()} after SIGTERM")


@asynccontextmanager
async def running_world(folder: Path) -> AsyncIterator[World]:
    world = World(folder)
    try:
        await asyncio.to_thread(world.engine.start)
        await asyncio.gather(*(way.begin() for way in world.ways.values()))
        await asyncio.gather(*map(world.start, NODES))
        yield world
    finally:
        for _, node in world.started:
            await asyncio.to_thread(node.kill)
        await asyncio.gather(*(way.end() for way in world.ways.values()))
        await asyncio.to_thread(world.engine.kill)


async def restart(world: World, name: str, dice: random.Random, *, by: signal.Signals) -> None:
    if by is signal.SIGTERM:
        await world.stop(name)
    else:
        world.ended.add(world.nodes[name].pid)
        await world.cluster.kill(name)
        await asyncio.sleep(dice.uniform(0.0, 2 * LEASE_S))
    await world.start(name)


async def stop_still(world: World, name: str, dice: random.Random, *, least_s: float, most_s: float) -> None:
    with standing_still(world.nodes[name].pid):
        await asyncio.sleep(dice.uniform(least_s, most_s))


async def cut_off(world: World, name: str, dice: random.Random) -> None:
    world.ways[name].cut()
    await asyncio.sleep(dice.uniform(1.0, LEASE_S + 5.0))
    world.ways[name].mend()


async def drain(world: World, name: str, _: random.Random) -> None:
    node, is_late = world.nodes[name], world.limit(STOPS_WITHIN_S)
    answer = await node.request("POST", "/v0/nodes/self/drain")
    while (await node.request("GET", "/v0/players", headers=OF_A_NODE)).json() and not is_late():
        await asyncio.sleep(0.05)
    if world.is_alone and (answer.status != 204 or is_late()):
        world.blame(f"{name} was to drain, answered {answer.status}, and still has players")
    await node.request("DELETE", "/v0/nodes/self/drain")


async def move(world: World, name: str, dice: random.Random) -> None:
    """Some players, one after the other, to this node."""
    for player in dice.sample(["s0", "s1", "s2", "m0"], 3):
        answer = await world.nodes[name].request("POST", f"/v0/players/{player}/move", {"node": name})
        if answer.status != 204 and world.is_alone:
            world.blame(f"{player} is not moved to {name}: {answer.status} {answer.body.decode()}")


async def take_engine(world: World, _: str, dice: random.Random, *, how: str) -> None:
    engine = world.engine
    stop, go_on = partial(engine.signal, signal.SIGSTOP), partial(engine.signal, signal.SIGCONT)
    await asyncio.to_thread(stop if how == "still" else engine.kill)
    if how == "emptied":
        engine.lose_disk()
    await asyncio.sleep(dice.uniform(0.0, 2 * LEASE_S))
    await asyncio.to_thread(go_on if how == "still" else engine.start)


@dataclass(frozen=True, slots=True)
class Fault:
    """`inflict` does it to a node, or with `of_engine` to the engine, and ends when it is over. `is_heard`: by who
    listens at other nodes, for up to a lease."""

    kind: str
    inflict: Callable[[World, str, random.Random], Awaitable[None]]
    is_heard: bool = False
    of_engine: bool = False
    is_alone: bool = False


FAULTS: Final = (
    Fault("killed", partial(restart, by=signal.SIGKILL), is_heard=True),
    Fault("standing still", partial(stop_still, least_s=LEASE_S + 0.5, most_s=LEASE_S + 4.0), is_heard=True),
    Fault("gets players", move),
    Fault("engine killed", partial(take_engine, how="killed"), of_engine=True),
    Fault("cut off", cut_off, is_heard=True),
    Fault("drained", drain),
    # Alone, since what only the memory of a node has is lost with the node.
    Fault("engine emptied", partial(take_engine, how="emptied"), of_engine=True, is_alone=True),
    Fault("restarted", partial(restart, by=signal.SIGTERM)),
    Fault("engine standing still", partial(take_engine, how="still"), of_engine=True),
    Fault("standing still shortly", partial(stop_still, least_s=0.5, most_s=LEASE_S), is_heard=True),
)

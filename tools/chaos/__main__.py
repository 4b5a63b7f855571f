"""Makes faults in a cluster, one after the other and then two at a time. Each limit is extended by the time for which
processes had to wait for a core.
"""

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any, Final

import aiohttp
from tests.support.audio_files import tone, wav
from tests.support.eventually import eventually
from tests.support.processes import WaitForCpu
from tests.support.running_cluster import LEASE_S

from tools.chaos.clients import Clients
from tools.chaos.listening import Listener, Watch
from tools.chaos.world import FAULTS, NODES, OF_A_NODE, Fault, World, running_world

BACK_WITHIN_S: Final = 8.0 + LEASE_S
UNHEARD_S: Final = 2.0  # what nobody hears may be late


class Chaos:
    def __init__(self, world: World, http: aiohttp.ClientSession, song: str, seed: int) -> None:
        self._world, self._http, self._dice = world, http, random.Random(seed)
        self._clients = Clients(world, http, song, seed)
        names, streams = [player.id for player in self._clients.players], ("wav", "ogg", "mp3")
        forms = [(*place, form) for place in product(names, NODES) for form in ("socket", self._dice.choice(streams))]
        self._listeners = [Listener(world, *one) for one in forms]
        self._watches = [Watch(world, name) for name in names]
        self._deck, self._lag_s = [*reversed(FAULTS)], 0.0
        self.figures: dict[str, list[tuple[float, float]]] = {}

    async def run(self, seconds: float, song: str) -> None:
        world, clients, begun_s = self._world, self._clients, time.monotonic()
        await eventually(world.are_one, "all nodes are one")
        for player in clients.players:
            body = {"id": player.id, "uri": song, "loop": "track"}
            while (await clients.ask("POST", "/v0/players", body, allowed=409))[0] not in (201, 409):
                await asyncio.sleep(0.1)
        async with asyncio.TaskGroup() as group:
            beside = [self._measure_lag(), *(one.listen(self._http) for one in self._listeners)]
            beside += [watch.watch(self._http, name) for watch in self._watches for name in NODES]
            tasks = [group.create_task(one) for one in beside]
            await self._heard_again(time.monotonic())
            async with asyncio.TaskGroup() as changing:
                for work in (*map(clients.change, clients.players), clients.visit()):
                    changing.create_task(work)
                while time.monotonic() - begun_s < seconds:
                    await self._round(f"{time.monotonic() - begun_s:6.1f} s")
                clients.is_over = True
            await self._judge_end()
            for task in tasks:
                task.cancel()
        await world.stop(*NODES)
        for name, node in world.started:
            if "Traceback" in (log := "".join(node.log)):
                world.blame(f"the log of {name} has a traceback:\n{log[max(0, log.index('Traceback') - 500) :][:3000]}")

    async def _round(self, when: str) -> None:
        world, faults = self._world, self._drawn()
        world.is_alone = len(faults) == 1
        owner = await world.cluster.owner(self._dice.choice(self._clients.players).id)  # of whom something is heard
        names = sorted(self._dice.sample(NODES, len(NODES)), key=lambda name: name != owner)
        works = [*zip(faults, names, strict=False)]
        what = " + ".join(fault.kind if fault.of_engine else f"{name} {fault.kind}" for fault, name in works)
        for one in self._listeners:
            one.silence_s = 0.0
        waited, self._lag_s, at_s = WaitForCpu(*(node.pid for node in world.nodes.values())), 0.0, time.monotonic()
        dice = [random.Random(self._dice.random()) for _ in works]
        await asyncio.gather(*(fault.inflict(world, name, one) for (fault, name), one in zip(works, dice, strict=True)))
        over_s = time.monotonic()
        await self._heard_again(over_s)
        lasted_s, back_s = over_s - at_s, time.monotonic() - over_s
        late_s = self._lag_s + waited.seconds(*(node.pid for node in world.nodes.values()))
        hit = {name for fault, name in works if not fault.of_engine}
        silence_s = max(one.silence_s for one in self._listeners if one.name not in hit and one.player != "m0")
        print(f"{when}  {what}: {lasted_s:.1f} s, silence {silence_s:.2f} s, heard after {back_s:.2f} s", flush=True)
        most_s = BACK_WITHIN_S if faults[0].is_heard else UNHEARD_S
        if silence_s > late_s + (most_s if world.is_alone else BACK_WITHIN_S + lasted_s):
            world.blame(f"{what}: {silence_s:.1f} s of silence")
        if back_s > BACK_WITHIN_S + late_s:
            world.blame(f"{what}: heard by all again {back_s:.1f} s later")
        await self._clients.compare(BACK_WITHIN_S)
        for watch in self._watches:
            watch.judge(self._lag_s)
        self.figures.setdefault(faults[0].kind if world.is_alone else "two at a time", []).append((silence_s, back_s))

    def _drawn(self) -> Sequence[Fault]:
        """Each kind once, in their order, then as the dice fall, and now and then two."""
        is_first = not self.figures.keys() >= {fault.kind for fault in FAULTS}
        self._deck = self._deck or self._dice.sample(FAULTS, len(FAULTS))
        fault = self._deck.pop()
        if is_first or fault.is_alone or self._dice.random() > 0.4:
            return [fault]
        others = [one for one in FAULTS if not one.is_alone and not (one.of_engine and fault.of_engine)]
        return [fault, self._dice.choice(others)]

    async def _heard_again(self, since_s: float) -> None:
        """By all whose player is not paused."""
        paused = {player.id for player in self._clients.players if True in player.may_be["paused"]}
        waiting = [one for one in self._listeners if one.player not in paused]
        await eventually(
            lambda: all(one.last_s > since_s for one in waiting),
            lambda: f"{', '.join(one.who for one in waiting if one.last_s <= since_s)} hear something",
        )
        await eventually(self._world.are_one, "all nodes are one again")

    async def _judge_end(self) -> None:
        """Each node is ready, all show the players that there must be, and each of these is at one node."""
        wanted, nodes = sorted(await self._clients.end()), self._world.nodes.values()
        said: list[Any] = []

        async def is_well() -> bool:
            ready = [(await node.request("GET", "/readyz")).json() for node in nodes]
            asked = [await node.request("GET", "/v0/players", headers=by) for by in ((), OF_A_NODE) for node in nodes]
            shown = [sorted(player["id"] for player in answer.json()) for answer in asked]
            said[:] = *ready, *shown
            by_all = [{"status": "ready"}] * len(nodes), [wanted] * len(nodes)
            return (ready, shown[: len(nodes)]) == by_all and sorted(chain(*shown[len(nodes) :])) == wanted

        await eventually(is_well, lambda: f"all nodes have {wanted}, not {said}")
        await self._clients.compare(BACK_WITHIN_S)

    async def _measure_lag(self) -> None:
        while True:
            due_s = time.monotonic() + 0.02
            await asyncio.sleep(0.02)
            self._lag_s = max(self._lag_s, time.monotonic() - due_s)

    def table(self) -> str:
        lines = [f"{'fault':24} {'times':>5} {'most silence, s':>16} {'most until all hear again, s':>30}"]
        for kind, found in self.figures.items():
            lines.append(f"{kind:24} {len(found):5} {max(s for s, _ in found):16.2f} {max(b for _, b in found):30.2f}")
        return "\n".join([*lines, f"answers by status: {dict(sorted(self._clients.answers.items()))}"])


async def run(folder: Path, seconds: float, seed: int) -> list[str]:
    """What was wrong."""
    (folder / "song.wav").write_bytes(wav(tone(440, 10.0)))
    connections = aiohttp.TCPConnector(limit=0)
    patience = aiohttp.ClientTimeout(total=None, sock_connect=5)
    async with running_world(folder) as world, aiohttp.ClientSession(connector=connections, timeout=patience) as http:
        http._retry_connection = False  # a DELETE that was done would be sent again, and be answered with 404
        song = str(folder / "song.wav")
        chaos = Chaos(world, http, song, seed)
        try:
            await chaos.run(seconds, song)
        except* AssertionError as failures:
            world.blame(f"{failures.exceptions}")
        print(chaos.table())
        for number, (name, node) in enumerate(world.started):
            (folder / f"{number}-{name}.log").write_text("".join(node.log))
    return world.wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__package__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"The same again: make chaos SECONDS={options.seconds:g} SEED={options.seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    if wrong := asyncio.run(run(folder, options.seconds, options.seed)):
        print(f"{len(wrong)} things were wrong; the logs of the nodes are in {folder}.")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

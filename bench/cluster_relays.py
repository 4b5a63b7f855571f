"""What listeners at a node cost that has not got their player, and the gaps that they hear when it moves or is lost.

`python -m bench.cluster_relays [SECONDS]` starts a NATS server and three nodes here, and prints for 0, 50 and 300
listeners at one node the share of a core that the player's node and that one use, without their decoder processes.
"""

import asyncio
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from tests.support.audio_files import tone, wav
from tests.support.running_cluster import LEASE_S, running_cluster
from tests.support.running_node import RunningNode

from bench.listeners import Listener

COUNTS = (0, 50, 300)
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_MOVES = 5


def cpu_s(node: RunningNode) -> float:
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


async def listen(node: RunningNode, form: str, count: int) -> list[Listener]:
    path = f"/v0/players/p/ws?format={form}"

    def connect() -> list[Listener]:
        listeners = [Listener("127.0.0.1", node.port, path, is_opus=form == "opus") for _ in range(count)]
        for listener in listeners:
            listener.be_answered()
        return listeners

    return await asyncio.to_thread(connect)


async def read(listeners: list[Listener], seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for listener in listeners:
            listener.read()
        await asyncio.sleep(0.005 if len(listeners) == 1 else 0.1)


async def measure(seconds: float, folder: Path) -> None:
    song = wav(tone(440, 600.0))

    def prepare(inside: Path) -> None:
        (inside / "song.wav").write_bytes(song)

    async with running_cluster(folder, "a", "b", "c", prepare=prepare) as cluster:
        a, b, _ = cluster.nodes.values()
        await b.request("POST", "/v0/players", {"id": "p", "uri": "song.wav", "node": "a"})
        for form in ("pcm", "opus"):
            for count in COUNTS:
                listeners = await listen(b, form, count)
                await read(listeners, 2.0)
                begun_s, before = time.monotonic(), (cpu_s(a), cpu_s(b))
                await read(listeners, seconds)
                passed_s = time.monotonic() - begun_s
                shares = [100 * (cpu_s(node) - was) / passed_s for node, was in zip((a, b), before, strict=True)]
                print(f"{form} {count:4} listeners: player's node {shares[0]:5.1f} %, theirs {shares[1]:5.1f} %")
                for listener in listeners:
                    listener.socket.close()
                await asyncio.sleep(3)
        (listener,) = await listen(b, "pcm", 1)
        for move in range(_MOVES):
            await read([listener], 2.0)
            moving = asyncio.create_task(b.request("POST", "/v0/players/p/move", {"node": "ca"[move % 2]}))
            print(f"a move: {await gap_ms(listener, 2.0):.0f} ms without a frame")
            await moving
        if (owner := await cluster.owner("p")) != "b":
            await cluster.kill(owner)
            print(f"kill -9, a lease of {LEASE_S} s: {await gap_ms(listener, 15.0):.0f} ms without a frame")


async def gap_ms(listener: Listener, seconds: float) -> float:
    first = len(listener.arrivals_s)
    await read([listener], seconds)
    return 1000 * max(after - one for one, after in pairwise(listener.arrivals_s[first - 1 :]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0, Path(folder)))

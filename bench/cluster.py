"""Measures a cluster of three real nodes and a real NATS server: its costs and its speed.

`python -m bench.cluster [PART …]` measures the parts, all by default (under ten minutes), and prints each as it is
measured. `--quick` takes smaller numbers (two minutes).
"""

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import aiohttp
import uvloop
from tests.support.audio_files import tone, wav

from bench import processes
from bench.cluster_engine import measure_engine
from bench.cluster_nodes import cluster, create, engine, node
from bench.evenness import FRAME_S
from bench.limits import raise_file_limit
from bench.listeners import Listener, Reader
from bench.order_pipe import order_pipe
from bench.spread import percentile
from bench.subjects import HOST, Audio, TonearmNode
from tonearm.node.garbage_collection import GIVE_BACK_INTERVAL_S

SONG_S: Final = 600.0
_LISTENED: Final = 50  # players of a lost node that have listeners; of the others events tell
_SETTLE_S: Final = 2.0
_FIRST: Final = 50
_TAKEN_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Sizes:
    requests: int = 1000
    listeners: Sequence[int] = (0, 50, 300)
    window_s: float = 5.0
    moves: int = 10
    lost_players: Sequence[int] = (50, 300, 1000)
    engine_nodes: Sequence[int] = (1, 10, 50)
    players_at_rest: int = 500


QUICK: Final = Sizes(200, (0, 50), 2.0, 3, (50,), (1, 10), 100)


def say(text: str) -> None:
    print(text, flush=True)


async def measure_requests(folder: Path, song: Path, sizes: Sizes) -> None:
    """The same request at the owner and at another node, in turn, over kept connections."""
    async with cluster(folder, song) as nodes, aiohttp.ClientSession() as session:
        await create(session, nodes["a"], ["p"], "a")
        for method, path, body in (
            ("GET", "/v0/players/p", None),
            ("PATCH", "/v0/players/p/filters", {"volume": 0.5}),
        ):
            took_ms: dict[str, list[float]] = {"a": [], "b": []}
            for number in range(2 * sizes.requests + 20):
                name = "ab"[number % 2]
                begun_s = time.perf_counter()
                await nodes[name].request(session, method, path, body)
                took_ms[name].append(1000 * (time.perf_counter() - begun_s))
            own, other = (sorted(times[10:]) for times in took_ms.values())
            more_ms = median(other) - median(own)
            say(
                f"requests, {method}: {median(own):.2f} ms at the owner (p99 {percentile(own, 99):.1f}), "
                f"{median(other):.2f} at another node (p99 {percentile(other, 99):.1f}): {more_ms:.2f} more"
            )


async def heard(node: TonearmNode, paths: Sequence[str], reader: Reader) -> list[Listener]:
    """Listeners that have begun to hear."""

    def connect() -> list[Listener]:
        begun = [Listener(HOST, node.port, path, is_opus=False) for path in paths]
        for listener in begun:
            listener.be_answered()
            reader.add(listener)
        return begun

    return await asyncio.to_thread(connect)


def longest_gap_ms(arrivals_s: Sequence[float]) -> float:
    return 1000 * max((after - one for one, after in itertools.pairwise(arrivals_s)), default=0.0)


async def measure_relays(folder: Path, song: Path, sizes: Sizes) -> None:
    async with cluster(folder, song) as nodes, aiohttp.ClientSession() as session:
        a, b = nodes["a"], nodes["b"]
        await create(session, a, ["p"], "a")
        reader = Reader()
        try:
            (own,) = await heard(a, [a.path("p")], reader)
            (other,) = await heard(b, [b.path("p")], reader)
            await asyncio.sleep(_SETTLE_S)
            own.arrivals_s.clear()
            other.arrivals_s.clear()
            await asyncio.sleep(sizes.window_s)
        finally:
            reader.close()
        # The same frame at both is the one that comes nearest: a relay takes less than half of a frame's time.
        added_ms = sorted(1000 * nearest(arrival, own.arrivals_s) for arrival in other.arrivals_s)
        say(
            f"relays: a frame comes {median(added_ms):.2f} ms later than at the owner "
            f"(p99 {percentile(added_ms, 99):.1f}); longest gap {longest_gap_ms(other.arrivals_s):.0f} ms, "
            f"at the owner {longest_gap_ms(own.arrivals_s):.0f}"
        )
        forms: tuple[Audio, ...] = ("pcm", "opus")
        for form in forms:
            for count in sizes.listeners:
                async with order_pipe("bench.listeners") as pipe:
                    paths = [b.path("p", form)] * count
                    await pipe.order(do="listen", host=HOST, port=b.port, paths=paths, is_opus=form == "opus")
                    await asyncio.sleep(_SETTLE_S)
                    before = [await cpu_s(one, own_only=True) for one in (a, b)]
                    begun_s = time.monotonic()
                    await pipe.order(do="begin")
                    await asyncio.sleep(sizes.window_s)
                    report = await pipe.order(do="end")
                    passed_s = time.monotonic() - begun_s
                    after = [await cpu_s(one, own_only=True) for one in (a, b)]
                shares = [100 * (now - was) / passed_s for was, now in zip(before, after, strict=True)]
                each_us = shares[1] * 1e4 * FRAME_S / count if count else 0.0
                say(
                    f"relays, {form}, {count} listeners at one node: the player's node {shares[0]:.1f} % of a core, "
                    f"theirs {shares[1]:.1f} %: {each_us:.1f} µs a frame and listener, who got "
                    f"{report['worst_share']:.1%} or more"
                    if count
                    else f"relays, {form}, nobody: {shares[0]:.1f} and {shares[1]:.1f} % of a core"
                )
                await asyncio.sleep(_SETTLE_S + 1)


def nearest(moment_s: float, sorted_s: Sequence[float]) -> float:
    """From the nearest of these times to the moment."""
    at = bisect(sorted_s, moment_s)
    return min((moment_s - found for found in sorted_s[max(0, at - 1) : at + 1]), key=abs)


async def cpu_s(node: TonearmNode, *, own_only: bool = False) -> float:
    return time.clock_gettime((~node.pid << 3) | 2) if own_only else await asyncio.to_thread(node.cpu_s)


async def measure_moves(folder: Path, song: Path, sizes: Sizes) -> None:
    async with cluster(folder, song) as nodes, aiohttp.ClientSession() as session:
        await create(session, nodes["a"], ["p"], "a")
        reader = Reader()
        gaps_ms, answers_ms = [], []
        try:
            (listener,) = await heard(nodes["b"], [nodes["b"].path("p")], reader)
            for number in range(sizes.moves):
                await asyncio.sleep(1.0)
                first = len(listener.arrivals_s)
                begun_s = time.monotonic()
                move = {"node": "ca"[number % 2]}
                await nodes["b"].request(session, "POST", "/v0/players/p/move", move)
                answers_ms.append(1000 * (time.monotonic() - begun_s))
                await asyncio.sleep(1.0)
                gaps_ms.append(longest_gap_ms(listener.arrivals_s[first - 1 :]))
        finally:
            reader.close()
    say(
        f"moves, {sizes.moves}: a relayed listener hears nothing for {median(gaps_ms):.0f} ms "
        f"(at most {max(gaps_ms):.0f}); the answer takes {median(answers_ms):.0f} ms (at most {max(answers_ms):.0f})"
    )


async def measure_takeover(folder: Path, song: Path, sizes: Sizes) -> None:
    for count in sizes.lost_players:
        (folder / str(count)).mkdir()
        await _lose_a_node(folder / str(count), song, count)


async def _lose_a_node(folder: Path, song: Path, count: int) -> None:
    """Kills a node with so many players. Some of them have listeners at another node; of all the events tell who goes
    on where."""
    async with cluster(folder, song) as nodes, aiohttp.ClientSession() as session:
        ids = [f"p{number}" for number in range(count)]
        begun_s = time.monotonic()
        await create(session, nodes["a"], ids, "a")
        created_s = time.monotonic() - begun_s
        reader = Reader()
        taken_s: dict[str, float] = {}
        try:
            listened = ids[:: -(-count // _LISTENED)]
            listeners = await heard(nodes["b"], [nodes["b"].path(player_id) for player_id in listened], reader)
            async with AsyncExitStack() as stack:
                for name in "bc":
                    events = await stack.enter_async_context(session.ws_connect(f"{nodes[name].url}/v0/events"))
                    following = asyncio.create_task(follow(events, taken_s))
                    stack.callback(following.cancel)
                await asyncio.sleep(_SETTLE_S)
                os.kill(nodes["a"].pid, 9)
                lost_s = time.monotonic()
                while time.monotonic() < lost_s + _TAKEN_WITHIN_S and (
                    len(taken_s) < count or any(listener.arrivals_s[-1] < lost_s + 1 for listener in listeners)
                ):
                    await asyncio.sleep(0.1)
        finally:
            reader.close()
        begun_s_of = [
            next((arrival for arrival in listener.arrivals_s if arrival > lost_s + 1), None) for listener in listeners
        ]
        sounds_s = sorted(arrival - lost_s for arrival in begun_s_of if arrival is not None)
        moved_s = sorted(moment - lost_s for moment in taken_s.values())
        for one in nodes.values():
            if one is not nodes["a"]:
                os.kill(one.pid, 9)  # draining a thousand players takes long
        say(
            f"takeover, {count} players (created in {created_s:.1f} s): {len(moved_s)} taken after "
            f"{median(moved_s or [0]):.1f} s, at most {max(moved_s, default=0):.1f}; frames of {len(sounds_s)} of "
            f"{len(listened)} listened ones after {median(sounds_s or [0]):.1f} s, "
            f"at most {max(sounds_s, default=0):.1f}"
        )


async def follow(events: aiohttp.ClientWebSocketResponse, taken_s: dict[str, float]) -> None:
    async for message in events:
        event = message.json()
        if event["op"] == "PlayerMoved":
            taken_s.setdefault(event["id"], time.monotonic())


async def measure_rest(folder: Path, song: Path, sizes: Sizes) -> None:
    """A node that nothing is asked of, alone and in a cluster of three, side by side."""
    async with AsyncExitStack() as stack:
        alone_folder, there_folder = folder / "alone", folder / "there"
        alone_folder.mkdir()
        there_folder.mkdir()
        alone = await stack.enter_async_context(node(alone_folder, "a", "", song))
        there = (await stack.enter_async_context(cluster(there_folder, song)))["a"]
        session = await stack.enter_async_context(aiohttp.ClientSession())
        count = sizes.players_at_rest
        empty_mb = await memory_mb(alone), await memory_mb(there)
        first_mb = (0.0, 0.0)
        for some in (range(_FIRST), range(_FIRST, _FIRST + count)):  # the first ones load what all have need of
            ids = ["gone", *(f"p{number}" for number in some)]
            await create(session, alone, ids)
            await create(session, there, ids, "a")
            for one in (alone, there):  # a node gives back what it has freed when a player was deleted
                await one.request(session, "DELETE", "/v0/players/gone")
            await asyncio.sleep(GIVE_BACK_INTERVAL_S + _SETTLE_S)
            if some[0] == 0:
                first_mb = await memory_mb(alone), await memory_mb(there)
        full_mb = await memory_mb(alone), await memory_mb(there)
        before = await cpu_s(alone), await cpu_s(there)
        begun_s = time.monotonic()
        await asyncio.sleep(4 * sizes.window_s)
        after = await cpu_s(alone), await cpu_s(there)
        shares = [100 * (now - was) / (time.monotonic() - begun_s) for was, now in zip(before, after, strict=True)]
        grown = [1000 * (full - first) / count for full, first in zip(full_mb, first_mb, strict=True)]
        say(
            f"at rest, without players: {empty_mb[0]:.1f} MB alone, {empty_mb[1]:.1f} in a cluster: "
            f"{empty_mb[1] - empty_mb[0]:.1f} more; with {_FIRST} {first_mb[0]:.1f} and {first_mb[1]:.1f}"
        )
        say(
            f"at rest, {count} players: {grown[0]:.1f} kB each alone, {grown[1]:.1f} in a cluster: "
            f"{grown[1] - grown[0]:.1f} more; {shares[0]:.2f} and {shares[1]:.2f} % of a core: "
            f"{shares[1] - shares[0]:.2f} more"
        )


async def memory_mb(node: TonearmNode) -> float:
    """Of the node's own process: decoder processes know nothing of a cluster."""
    return await asyncio.to_thread(processes.pss_mb_of, node.pid)


async def measure_operations(folder: Path, song: Path, sizes: Sizes) -> None:
    async with engine(folder) as (url, pid):
        for count in sizes.engine_nodes:
            say(await measure_engine(url, pid, count, sizes.window_s))


PARTS: Final[dict[str, Callable[[Path, Path, Sizes], Awaitable[None]]]] = {
    "requests": measure_requests,
    "relays": measure_relays,
    "moves": measure_moves,
    "takeover": measure_takeover,
    "engine": measure_operations,
    "rest": measure_rest,
}


async def measure(parts: Sequence[str], sizes: Sizes, folder: Path) -> None:
    song = folder / "song.wav"
    song.write_bytes(wav(tone(440, SONG_S)))
    for part in parts:
        (folder / part).mkdir()
        begun_s = time.monotonic()
        try:
            await PARTS[part](folder / part, song, sizes)
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            say(f"{part}: failed: {type(error).__name__}: {error}")
        say(f"({part}: {time.monotonic() - begun_s:.0f} s, load {os.getloadavg()[0]:.1f})")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="smaller numbers")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        sys.exit(f"There is no part {', '.join(unknown)}; there are {', '.join(PARTS)}.")
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="tonearm-bench-") as folder:
        uvloop.run(measure(options.parts or list(PARTS), QUICK if options.quick else Sizes(), Path(folder)))


if __name__ == "__main__":
    main()

"""The parts of the benchmark. Each takes the plan and adds its figures."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from bench import media
from bench.control import control_p99_ms, filter_heard_ms, first_frame_ms
from bench.fanout import bare_write_us
from bench.figures import Figures
from bench.served import served
from bench.streaming import Streaming, measure_streaming
from bench.subjects import floor_us_a_frame, listeners, relay, tonearm_node

COST_PLAYERS: Final = 50
GROWTH_PLAYERS: Final = (1, 20, 50, 100, 200, 300)
CAPACITY_STEP: Final = 25
CONTROL_PLAYERS: Final = 100
FANOUT_LISTENERS: Final = 10


@dataclass(frozen=True)
class Plan:
    """Where the files are made, how often and how long to measure, and which formats."""

    folder: Path
    rounds: int
    seconds: float
    formats: tuple[str, ...]


async def cost_by_format(plan: Plan, figures: Figures) -> None:
    """CPU µs a frame at 50 players: floor, node flat, node with 5 bands, relay; for each format."""
    for name in plan.formats:
        path = media.make_file(plan.folder, name)
        uri = str(path)
        for _ in range(plan.rounds):
            figures.add(f"{name}: floor, µs a frame", floor_us_a_frame(path, media.LENGTH_S))
            flat = await _node(plan, uri, COST_PLAYERS, bands=False)
            _add_streaming(figures, f"{name}: node flat", flat)
            bands = await _node(plan, uri, COST_PLAYERS, bands=True)
            _add_streaming(figures, f"{name}: node 5 bands", bands)
            async with relay(uri) as subject:
                _add_streaming(
                    figures,
                    f"{name}: relay",
                    await measure_streaming(subject, uri, COST_PLAYERS, plan.seconds, bands=False),
                )
        for kind in ("node flat", "node 5 bands", "relay"):
            figures.add_ratio(f"{name}: {kind} / floor", f"{name}: {kind}, µs a frame", f"{name}: floor, µs a frame")
        figures.add_ratio(f"{name}: node flat / relay", f"{name}: node flat, µs a frame", f"{name}: relay, µs a frame")


async def growth(plan: Plan, figures: Figures) -> None:
    """How CPU a frame and memory grow with the number of players."""
    uri = str(media.make_file(plan.folder, "mp3"))
    for _ in range(plan.rounds):
        async with tonearm_node(plan.folder) as node:
            figures.add("memory without players, MB", node.cost().pss_mb)
            figures.add("processes without players", node.cost().processes)
        for players in GROWTH_PLAYERS:
            _add_streaming(figures, f"{players} players", await _node(plan, uri, players, bands=False))
    figures.add_ratio("growth: µs a frame, 200 / 20", "200 players, µs a frame", "20 players, µs a frame")
    many, few = GROWTH_PLAYERS[-2], GROWTH_PLAYERS[2]
    more_mb = figures.median(f"{many} players, MB") - figures.median(f"{few} players, MB")
    figures.add(f"memory a player ({few} to {many}), MB", more_mb / (many - few))


async def capacity(plan: Plan, figures: Figures) -> None:
    """The most players that are all served evenly; found by doubling, then by halving the interval."""
    uri = str(media.make_file(plan.folder, "mp3"))
    for _ in range(plan.rounds):

        async def node_is_even(players: int) -> bool:
            return (await _node(plan, uri, players, bands=False)).is_even

        async def relay_is_even(players: int) -> bool:
            async with relay(uri) as subject:
                return (await measure_streaming(subject, uri, players, plan.seconds, bands=False)).is_even

        figures.add("capacity: node, players", await served(node_is_even, CAPACITY_STEP, start=100))
        figures.add("capacity: relay, players", await served(relay_is_even, CAPACITY_STEP, start=50))
    figures.add_ratio("capacity: node / relay", "capacity: node, players", "capacity: relay, players")


async def control(plan: Plan, figures: Figures) -> None:
    """First frame, filter heard and control requests, alone and while 100 players stream."""
    uri = str(media.make_file(plan.folder, "mp3"))
    tone = str(media.make_tone(plan.folder))
    for _ in range(plan.rounds):
        async with tonearm_node(plan.folder) as node, aiohttp.ClientSession() as session, listeners() as side:
            async with media.http_server(plan.folder) as base:
                for number in range(20):
                    figures.add("first frame, file, ms", await first_frame_ms(node, session, uri, f"f{number}"))
                    web_uri = f"{base}/{Path(uri).name}"
                    figures.add("first frame, HTTP, ms", await first_frame_ms(node, session, web_uri, f"h{number}"))
            for taken in await filter_heard_ms(node, session, tone, 20):
                figures.add("filter heard, 1 player, ms", taken)
            for number in range(CONTROL_PLAYERS):
                await node.add(session, f"p{number}", uri, bands=False)
                await side.order(do="listen", url=node.url, path=node.path, ids=[f"p{number}"])
            await side.order(do="measure", seconds=2.0)
            for taken in await filter_heard_ms(node, session, tone, 20):
                figures.add(f"filter heard, {CONTROL_PLAYERS} players, ms", taken)
            figures.add("control request p99, 100 players, ms", await control_p99_ms(node, session, 300))
            ticker = await side.order(do="measure", seconds=2.0)
            figures.add("ticker p99 beside it, ms", ticker["ticker_p99_ms"])
    heard = sorted(figures.rounds[f"filter heard, {CONTROL_PLAYERS} players, ms"])
    figures.add(f"filter heard, {CONTROL_PLAYERS} players, p95 ms", heard[int(len(heard) * 0.95)])


async def fanout(plan: Plan, figures: Figures) -> None:
    """What a further listener of one player costs, beside a bare write to a transport."""
    uri = str(media.make_file(plan.folder, "mp3"))
    for _ in range(plan.rounds):
        costs = {}
        for count in (1, FANOUT_LISTENERS):
            async with tonearm_node(plan.folder) as node, aiohttp.ClientSession() as session, listeners() as side:
                for number in range(20):
                    await node.add(session, f"p{number}", uri, bands=False)
                    await side.order(do="listen", url=node.url, path=node.path, ids=[f"p{number}"] * count)
                await side.order(do="measure", seconds=1.5)
                before = node.cost()
                report = await side.order(do="measure", seconds=plan.seconds)
                ticks = report["frames"] / count
                costs[count] = (node.cost().cpu_s - before.cpu_s) * 1e6 / ticks
        figures.add("further listener, µs a frame", (costs[FANOUT_LISTENERS] - costs[1]) / (FANOUT_LISTENERS - 1))
        figures.add("bare write, µs", await bare_write_us(plan.seconds))
    figures.add_ratio("further listener / bare write", "further listener, µs a frame", "bare write, µs")


async def unheard(plan: Plan, figures: Figures) -> None:
    """CPU a frame's time of players that nobody listens to, with filters set."""
    uri = str(media.make_file(plan.folder, "mp3"))
    for _ in range(plan.rounds):
        async with tonearm_node(plan.folder) as node, aiohttp.ClientSession() as session, listeners() as side:
            for number in range(COST_PLAYERS):
                await node.add(session, f"p{number}", uri, bands=True)
            await side.order(do="measure", seconds=2.0)
            before = node.cost()
            await side.order(do="measure", seconds=plan.seconds)
            frames = COST_PLAYERS * plan.seconds * 50
            figures.add("unheard, 5 bands, µs a frame", (node.cost().cpu_s - before.cpu_s) * 1e6 / frames)


async def startup(plan: Plan, figures: Figures) -> None:
    """From the command to a node that answers, beside the time of its imports alone."""
    for _ in range(max(5, plan.rounds)):
        begun = time.monotonic()
        subprocess.run([sys.executable, "-c", "import tonearm"], check=True)
        figures.add("start: import tonearm, ms", (time.monotonic() - begun) * 1000)
        begun = time.monotonic()
        subprocess.run([sys.executable, "-c", "import tonearm.serve, uvloop"], check=True)
        figures.add("start: imports of serve, ms", (time.monotonic() - begun) * 1000)
        begun = time.monotonic()
        async with tonearm_node(plan.folder):
            figures.add("start: node listens, ms", (time.monotonic() - begun) * 1000)
    figures.add_ratio("start: node / its imports", "start: node listens, ms", "start: imports of serve, ms")


async def _node(plan: Plan, uri: str, players: int, *, bands: bool) -> Streaming:
    async with tonearm_node(plan.folder) as node:
        return await measure_streaming(node, uri, players, plan.seconds, bands=bands)


def _add_streaming(figures: Figures, name: str, result: Streaming) -> None:
    figures.add(f"{name}, µs a frame", result.cpu_us_a_frame)
    figures.add(f"{name}, MB", result.pss_mb)
    figures.add(f"{name}, late p99 ms", result.late_p99_ms)
    if result.is_noisy:
        figures.note(f"{name}: noisy, the bare ticker's own p99 was {result.ticker_p99_ms:.1f} ms")
    if result.worst_share <= 0.999:
        figures.note(f"{name}: the worst listener got {result.worst_share:.2%} of its frames")

"""The cost of metrics for a node with 200 players: Prometheus, which reads them, and the counters of each tick."""

import timeit
from functools import partial
from typing import Final

from bench.parts.window import add_window
from bench.plan import MAIN_FORMAT, Run
from bench.streaming import Streaming, streaming
from bench.subjects import tonearm_node
from tonearm.core.figures import Lateness
from tonearm.core.frame import FRAMES_PER_SECOND
from tonearm.player.clock import PHASE_MEMBERS

PLAYERS: Final = 200
PATHS: Final = {"metrics": "/metrics", "stats": "/v0/stats"}
READS: Final = 50
READ_EVERY_S: Final = 15.0  # Prometheus is set up so as a rule
_TICKS_A_SECOND: Final = FRAMES_PER_SECOND * PLAYERS // PHASE_MEMBERS
_COUNTED: Final = 100_000


async def watching(run: Run) -> None:
    """Reading is measured while the players sleep: it costs the same, and nothing else costs much."""
    async with streaming(tonearm_node(run.folder), run.uri(MAIN_FORMAT)) as node:
        await node.grow_to(PLAYERS, has_listeners=False)
        read_ms = {}
        for name, path in PATHS.items():
            read_ms[name], ticker_p99_ms = await run.ticker.quiet(partial(_ms_a_read, node, path))
            run.figures.add(f"watching/{name}/ms", read_ms[name], ticker_p99_ms)
        await node.listen_to(range(PLAYERS))
        streamed = await add_window(run, node, f"watching/{PLAYERS}")
    counting_us = timeit.timeit(partial(Lateness().add, 0.0004, PHASE_MEMBERS), number=_COUNTED) / _COUNTED * 1e6
    run.figures.add("watching/counting/us_a_tick", counting_us)
    figures_s = read_ms["metrics"] / 1000 / READ_EVERY_S + counting_us / 1e6 * _TICKS_A_SECOND
    run.figures.add("watching/share_percent", 100 * figures_s / (streamed.cpu_s / run.plan.seconds))


async def _ms_a_read(node: Streaming, path: str) -> float:
    before_s = node.subject.cpu_s()
    for _ in range(READS):
        async with node.session.get(node.subject.url + path, raise_for_status=True) as answer:
            await answer.read()
    return (node.subject.cpu_s() - before_s) / READS * 1000

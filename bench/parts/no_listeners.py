"""Players without listeners, with and without filters: no filter may run and nothing may be sent."""

from functools import partial
from typing import Final

from bench.plan import MAIN_FORMAT, Run
from bench.processes import written_bytes
from bench.streaming import streaming
from bench.subjects import tonearm_node

PLAYERS: Final = 50
FRAMES_A_SECOND: Final = 50


async def no_listeners(run: Run) -> None:
    uri = run.uri(MAIN_FORMAT)
    for kind in ("flat", "bands"):
        async with streaming(tonearm_node(run.folder), uri, bands=kind == "bands") as node:
            await node.grow_to(PLAYERS, has_listeners=False)
            pid = node.subject.pid
            (streamed, before, after), ticker_p99_ms = await run.ticker.quiet(
                partial(node.window_between, run.plan.seconds, partial(written_bytes, pid))
            )
            frames = PLAYERS * run.plan.seconds * FRAMES_A_SECOND
            run.figures.add(f"no_listeners/{kind}/us_a_frame", streamed.cpu_s * 1e6 / frames, ticker_p99_ms)
            run.figures.add(f"no_listeners/{kind}/sent_bytes_a_frame", (after - before) / frames)

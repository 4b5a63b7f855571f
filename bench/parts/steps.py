"""Where a node's CPU time goes, by its threads."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from bench.plan import MAIN_FORMAT, Run
from bench.processes import ThreadTime, thread_times
from bench.streaming import streaming
from bench.subjects import tonearm_node

PLAYERS: Final = 50
ROLES: Final = ("node_main", "node_others", "decoder_main", "decoder_reader", "decoder_sources")

Times = Mapping[tuple[int, int], ThreadTime]


async def steps(run: Run) -> None:
    uri = run.uri(MAIN_FORMAT)
    for kind in ("flat", "bands"):
        async with streaming(tonearm_node(run.folder), uri, bands=kind == "bands") as node:
            await node.grow_to(PLAYERS)
            pid = node.subject.pid
            (streamed, before, after), ticker_p99_ms = await run.ticker.quiet(
                partial(node.window_between, run.plan.seconds, partial(thread_times, pid))
            )
        frames = max(1, streamed.evenness.frames)
        for role, spent in by_role(pid, before, after).items():
            run.figures.add(f"steps/{kind}/{role}/us_a_frame", spent.cpu_ns / 1000 / frames)
            run.figures.add(f"steps/{kind}/{role}/switches_a_second", spent.switches / run.plan.seconds)
        run.figures.add(f"steps/{kind}/ticker_p99_ms", ticker_p99_ms, ticker_p99_ms)


def by_role(node_pid: int, before: Times, after: Times) -> dict[str, ThreadTime]:
    """What was spent between two readings, for each of `ROLES`; a thread that is new counts from nothing.

    A decoder's main thread renders and writes; of its others the first is the one that reads the socket.
    """
    readers = {pid: min((tid for own, tid in after if own == pid and tid != pid), default=0) for pid, _ in after}
    totals = dict.fromkeys(ROLES, ThreadTime(0, 0))
    for (pid, tid), now in after.items():
        if pid == node_pid:
            role = "node_main" if tid == pid else "node_others"
        elif tid == pid:
            role = "decoder_main"
        else:
            role = "decoder_reader" if tid == readers[pid] else "decoder_sources"
        then, total = before.get((pid, tid), ThreadTime(0, 0)), totals[role]
        totals[role] = ThreadTime(
            total.cpu_ns + now.cpu_ns - then.cpu_ns, total.switches + now.switches - then.switches
        )
    return totals

"""How late the node is, with time turned by hand; how many cores it has, and a node that can start nothing."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.decoder_forks import QuickStarts
from tests.support.eventually import eventually
from tests.support.fetching import opener
from tests.support.node_in_process import running_node, spare_ready
from tests.support.processes import open_descriptors
from tonearm.node.load import INTERVAL_S, WINDOW_S, LoadWatch, usable_cores
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings, usual_parts


class Loop:
    """An event loop that comes to its calls `late_s` after they are due."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.late_s = 0.0
        self.due: tuple[float, Callable[[], None]] | None = None
        self.watch = LoadWatch(self.call_later, lambda: self.now_s)
        self.watch.start()

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.due = self.now_s + delay_s, call

    def run_for(self, seconds: float, late_s: float = 0.0) -> None:
        end_s = self.now_s + seconds
        while self.due is not None and self.due[0] + late_s <= end_s + 1e-9:
            (due_s, call), self.due = self.due, None
            self.now_s = due_s + late_s
            call()


@pytest.mark.parametrize(
    ("group", "quotas", "most"),
    [
        ("/", {}, None),
        ("/", {"": "max 100000"}, None),
        ("/", {"": "1000 100000"}, 1),
        ("/a.slice/b.service", {"a.slice": "max 100000", "a.slice/b.service": "50000 100000"}, 1),
        ("/a.slice/b.service", {"a.slice": "100000 100000", "a.slice/b.service": "max 100000"}, 1),
        ("/a.slice/b.service", {"a.slice": "999999999 100000"}, None),
        (None, {}, None),
    ],
)
def test_a_quota_leaves_fewer_cores(
    tmp_path: Path, group: str | None, quotas: dict[str, str], most: int | None
) -> None:
    """None: without cgroup v2, as on RHEL 8, and as many as the affinity."""
    (tmp_path / "cgroup").write_text("1:cpu:/other\n" + ("" if group is None else f"0::{group}\n"))
    for place, quota in quotas.items():
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores(tmp_path, tmp_path) == (most or len(os.sched_getaffinity(0)))


def test_the_load_is_the_share_of_the_last_ten_seconds_in_which_it_was_late() -> None:
    loop = Loop()
    assert loop.watch.late_share == 0.0
    loop.run_for(2 * WINDOW_S, late_s=0.015)
    assert loop.watch.late_share == 0.0
    loop.run_for(3.0, late_s=0.03)
    assert loop.watch.late_share == pytest.approx(0.3, abs=0.01)
    loop.run_for(20.0, late_s=0.03)
    assert loop.watch.late_share == 1.0
    loop.run_for(4.0)
    assert loop.watch.late_share == pytest.approx(0.6, abs=0.01)
    loop.run_for(WINDOW_S)
    assert loop.watch.late_share == 0.0
    loop.run_for(5.0 + INTERVAL_S, late_s=4.99)  # one long standstill
    assert loop.watch.late_share == pytest.approx(0.5, abs=0.01)
    loop.watch.stop()
    loop.run_for(1.0)
    assert loop.due is None


async def test_a_node_that_was_late_has_a_load_and_one_with_as_many_players_as_it_may_have_is_full() -> None:
    """So that new players of a cluster go to another one. Without a limit of the load none is refused for that."""
    async with running_node(NodeSettings(decoder_processes=1, max_players=1)) as node:
        await spare_ready(node)
        asyncio.get_running_loop().call_soon(time.sleep, 0.1)  # the event loop stands still
        await eventually(lambda: 0 < node.load < 1, "the node has been late")
        await node.create_player("p", None, None)
        assert node.load == 1


async def test_a_node_that_cannot_start_a_decoder_leaves_nothing() -> None:
    """No other node runs beside it, so nothing else opens descriptors."""
    start = QuickStarts(interpreter="/nonexistent/python")
    async with opener() as source_opener:
        descriptors = open_descriptors()  # the first opener of a run starts what later ones are forked from
        node = Node(usual_parts(source_opener, settings := NodeSettings(), start), settings)
        with pytest.raises(OSError, match="nonexistent"):
            await node.start()
        await node.stop()
        assert open_descriptors().keys() <= descriptors.keys()

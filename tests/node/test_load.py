"""How late the node is, with time turned by hand; how many cores it has, and a node that can start nothing."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.support.decoder_forks import QuickStarts
from tests.support.eventually import eventually
from tests.support.fetching import opener
from tests.support.hand_time import HandTime
from tests.support.node_in_process import running_node, spare_ready
from tests.support.processes import open_descriptors
from tonearm.node.load import INTERVAL_S, WINDOW_S, LoadWatch, usable_cores
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings, usual_parts


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
    time = HandTime()
    watch = LoadWatch(time.call_later, time.now_s)
    watch.start()
    for seconds, late_s, share in (
        (0.0, 0.0, 0.0),
        (2 * WINDOW_S, 0.015, 0.0),
        (3.0, 0.03, 0.3),
        (20.0, 0.03, 1.0),
        (4.0, 0.0, 0.6),
        (WINDOW_S, 0.0, 0.0),
        (5.0 + INTERVAL_S, 4.99, 0.5),  # one long standstill
    ):
        time.forward(seconds, late_s)
        assert watch.late_share == pytest.approx(share, abs=0.01)
    watch.stop()
    time.forward(1.0)
    assert not time.waiting_timers


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

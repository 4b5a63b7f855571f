"""How many decoder processes a node may have, and one that can start none. No other node runs beside it, so nothing
else opens descriptors."""

import os

import pytest

from tests.support.decoder_forks import QuickStarts
from tests.support.fetching import opener
from tests.support.processes import open_descriptors
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings, usual_parts


async def test_a_node_that_cannot_start_a_decoder_leaves_nothing() -> None:
    start = QuickStarts(interpreter="/nonexistent/python")
    async with opener() as source_opener:
        descriptors = open_descriptors()  # the first opener of a run starts what later ones are forked from
        node = Node(usual_parts(source_opener, settings := NodeSettings(), start), settings)
        with pytest.raises(OSError, match="nonexistent"):
            await node.start()
        await node.stop()
        assert open_descriptors().keys() <= descriptors.keys()


async def test_a_node_has_a_decoder_process_for_each_core_that_it_may_use() -> None:
    """As `docker run --cpuset-cpus` and `AllowedCPUs=` of systemd have it, however many the machine has."""
    cores = os.sched_getaffinity(0)
    async with opener() as source_opener:
        os.sched_setaffinity(0, {min(cores)})
        try:
            assert not usual_parts(source_opener, NodeSettings()).has_several_processes
        finally:
            os.sched_setaffinity(0, cores)

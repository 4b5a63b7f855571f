"""A node whose decoder processes cannot be started. No other node runs beside it, so nothing else opens descriptors."""

import pytest

from tests.support.decoder_forks import QuickStarts
from tests.support.fetching import opener
from tests.support.processes import open_descriptors
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings, usual_parts


async def test_a_node_that_cannot_start_a_decoder_leaves_nothing() -> None:
    descriptors = open_descriptors()
    start = QuickStarts(interpreter="/nonexistent/python")
    async with opener() as source_opener:
        node = Node(usual_parts(source_opener, settings := NodeSettings(), start), settings)
        with pytest.raises(OSError, match="nonexistent"):
            await node.start()
        await node.stop()
    assert open_descriptors().keys() <= descriptors.keys()

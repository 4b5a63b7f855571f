from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.edge import running_edge
from tests.support.fake_node import FakeNode


@pytest.fixture
def node() -> FakeNode:
    """A node with one player, `p`."""
    node = FakeNode()
    node.add_player("p")
    return node


@pytest_asyncio.fixture
async def port(node: FakeNode) -> AsyncIterator[int]:
    """The port of an open edge in front of `node`."""
    async with running_edge(node) as port:
        yield port

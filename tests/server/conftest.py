from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.edge import StillNode, running_edge, still_node


@pytest_asyncio.fixture
async def node() -> AsyncIterator[StillNode]:
    """A node with one idle player, `p`."""
    async with still_node() as node:
        yield node


@pytest_asyncio.fixture
async def port(node: StillNode) -> AsyncIterator[int]:
    """The port of an open edge in front of `node`."""
    async with running_edge(node) as port:
        yield port

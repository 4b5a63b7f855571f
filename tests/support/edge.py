"""Starting the real edge on a real port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.fake_node import FakeNode
from tonearm.server.app import EdgeSettings, build_app, serve


@asynccontextmanager
async def running_edge(node: FakeNode, settings: EdgeSettings | None = None) -> AsyncIterator[int]:
    """The port of an edge in front of `node`, which listens on 127.0.0.1 while this lasts."""
    server = await serve(build_app(node.as_node(), settings or EdgeSettings()), "127.0.0.1", 0)
    try:
        yield server.port
    finally:
        await server.close()

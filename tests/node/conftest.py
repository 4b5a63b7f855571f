"""A real node that the tests of a module share, and for each test a web server and a shelf of songs."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support import resolver_forks
from tests.support.media_server import MediaServer
from tests.support.node_in_process import forget_players, running_node
from tests.support.shelf import Shelf
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is shared has to live in one event loop."""
    folder = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(folder) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_node() -> AsyncIterator[Node]:
    # A player waits for its listener as long as a slow machine needs to connect it.
    settings = NodeSettings(decoder_processes=1, first_listener_wait_ms=60_000)
    resolver_forks.load()  # else a test's first one opens a descriptor that this node would seem to have left
    async with running_node(settings) as node:
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared_node: Node) -> AsyncIterator[Node]:
    """A node without players, as if it were new."""
    yield shared_node
    await forget_players(shared_node)


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[MediaServer]:
    async with MediaServer() as server:
        yield server


@pytest.fixture(autouse=True)
def no_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever happens, the node must not meet an error of its own."""
    yield
    messages = [record.getMessage() for record in caplog.records]
    assert not [message for message, record in zip(messages, caplog.records, strict=True) if record.exc_info]
    assert not [message for message in messages if "SIGSYS" in message]  # see tests/support/sandboxing.py


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)

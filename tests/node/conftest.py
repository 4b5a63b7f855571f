"""A real node, a web server and a shelf of songs for each test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.media_server import MediaServer
from tests.support.node_in_process import running_node
from tests.support.shelf import Shelf
from tonearm.node import Node, NodeSettings


@pytest_asyncio.fixture
async def node() -> AsyncIterator[Node]:
    # A player waits for its listener as long as a slow machine needs to connect it.
    async with running_node(NodeSettings(decoder_processes=1, first_listener_wait_ms=60_000)) as node:
        yield node


@pytest_asyncio.fixture
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

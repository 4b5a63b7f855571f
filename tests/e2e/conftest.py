"""A whole node that the tests of this folder share, as long as they need no configuration of their own."""

import socket
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.e2e_players import IMPATIENT, PATIENT
from tests.support.running_node import RunningNode, shared_node


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with shared_node(tmp_path_factory.mktemp("shared"), PATIENT) as node:
        yield node


@pytest.fixture(scope="session")
def shared_impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with shared_node(tmp_path_factory.mktemp("impatient"), IMPATIENT) as node:
        yield node


@pytest.fixture
def refusing_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses every connection: taken, so that nobody else gets it, and without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest_asyncio.fixture
async def node(shared: RunningNode) -> AsyncIterator[RunningNode]:
    """A node without players whose folder is empty, in both of which the test may do what it likes."""
    async for lent in _lent(shared):
        yield lent


@pytest_asyncio.fixture
async def impatient_node(shared_impatient: RunningNode) -> AsyncIterator[RunningNode]:
    """The same, of a node whose players do not wait for a listener."""
    async for lent in _lent(shared_impatient):
        yield lent


async def _lent(shared: RunningNode) -> AsyncIterator[RunningNode]:
    logged = len(shared.log)
    yield shared
    await shared.forget_all()
    assert "Traceback" not in "".join(shared.log[logged:])

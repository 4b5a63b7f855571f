"""A whole node that the tests of this folder share, as long as they need no configuration of their own."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.e2e_players import PATIENT
from tests.support.running_node import RunningNode, shared_node


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with shared_node(tmp_path_factory.mktemp("shared"), PATIENT) as node:
        yield node


@pytest_asyncio.fixture
async def node(shared: RunningNode) -> AsyncIterator[RunningNode]:
    """A node without players whose folder is empty, in both of which the test may do what it likes."""
    logged = len(shared.log)
    yield shared
    await shared.forget_all()
    assert "Traceback" not in "".join(shared.log[logged:])

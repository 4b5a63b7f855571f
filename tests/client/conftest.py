"""A node that the tests of this folder share, and a client of it."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.audio_files import music, wav
from tests.support.e2e_players import PATIENT
from tests.support.running_node import RunningNode, shared_node
from tonearm.client import Node


@pytest.fixture(scope="session")
def shared_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with shared_node(tmp_path_factory.mktemp("client"), PATIENT) as node:
        yield node


@pytest_asyncio.fixture
async def process(shared_process: RunningNode) -> AsyncIterator[RunningNode]:
    """A node without players, with `song.wav` of three seconds and `clip.wav` of a fifth of one."""
    (shared_process.folder / "song.wav").write_bytes(wav(music(3.0)))
    (shared_process.folder / "clip.wav").write_bytes(wav(music(0.2)))
    yield shared_process
    await shared_process.forget_all()


@pytest_asyncio.fixture
async def node(process: RunningNode) -> AsyncIterator[Node]:
    async with Node(process.url) as client:
        yield client

"""A node that may dial a voice server on this machine, for the tests of a module."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.audio_files import music, opus
from tests.support.certificate import make_certificate
from tests.support.running_node import RunningNode, shared_node
from tests.support.voice_players import CONFIG, secrets_in


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate") / "voice.pem")


@pytest.fixture(scope="module")
def voice_node(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[RunningNode]:
    variables = {"SSL_CERT_FILE": str(certificate), "TONEARM_LOGGING__LEVEL": "debug"}
    with shared_node(tmp_path_factory.mktemp("voice"), CONFIG, variables) as node:
        yield node
    assert not secrets_in("".join(node.log))


@pytest.fixture(scope="session")
def song() -> bytes:
    return opus(music(60.0))


@pytest_asyncio.fixture
async def node(voice_node: RunningNode, song: bytes) -> AsyncIterator[RunningNode]:
    (voice_node.folder / "song.opus").write_bytes(song)
    yield voice_node
    await voice_node.forget_all()

"""A minute of `make chaos`: each fault once, the same ones each time."""

from pathlib import Path

import pytest
from tools.chaos.__main__ import run

from tests.support.running_cluster import nats_server


@pytest.mark.timeout(600)
async def test_nothing_is_lost_and_nobody_plays_twice_whatever_happens(tmp_path: Path) -> None:
    nats_server()
    assert not await run(tmp_path, seconds=60.0, seed=1)

from collections.abc import AsyncIterator

import pytest

from tests.support.media_server import MediaServer


@pytest.fixture
async def server() -> AsyncIterator[MediaServer]:
    async with MediaServer() as server:
        yield server

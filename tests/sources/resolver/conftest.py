from collections.abc import Iterator

import pytest

from tests.support.resolver_forks import quick_resolvers


@pytest.fixture(scope="module")
def quick_pages() -> Iterator[None]:
    """To load yt-dlp takes a third of a second of each start."""
    with quick_resolvers():
        yield

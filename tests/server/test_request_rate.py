"""Which requests count, where only so many may come from one address."""

import pytest

from tests.support.edge import StillNode, running_edge
from tests.support.http_client import request
from tonearm.server.app import EdgeSettings

ONE_IN_AN_HOUR = 1 / 3600


@pytest.mark.parametrize("open_paths", [(), ("/healthz", "/readyz")])
async def test_a_flood_costs_no_supervisor_its_answer(node: StillNode, open_paths: tuple[str, ...]) -> None:
    settings = EdgeSettings(password="right", open_paths=open_paths, requests_per_second=ONE_IN_AN_HOUR)
    headers = () if open_paths else (("Authorization", "right"),)
    async with running_edge(node, settings) as port:

        async def answered(path: str, password: str) -> int:
            return (await request(port, "GET", path, headers=(("Authorization", password),))).status

        for method in ("GET", "HEAD"):
            for path in ("/healthz", "/readyz"):
                assert (await request(port, method, path, headers=headers)).status in (200, 503)
        assert [await answered("/metrics", "right") for _ in range(2)] == [200, 429]
        for path in ("/healthz", "/readyz"):
            assert (await request(port, "GET", path, headers=headers)).status in (200, 503)


async def test_a_password_is_guessed_nowhere_for_free(node: StillNode) -> None:
    settings = EdgeSettings(password="right", requests_per_second=ONE_IN_AN_HOUR)
    async with running_edge(node, settings) as port:
        guesses = [await request(port, "GET", "/healthz", headers=(("Authorization", f"{n}"),)) for n in range(3)]
        assert [answer.status for answer in guesses] == [401, 429, 429]

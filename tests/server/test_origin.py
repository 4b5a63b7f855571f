import pytest

from tests.support.edge import running_edge
from tests.support.fake_node import FakeNode
from tests.support.http_client import WEBSOCKET_HEADERS, Headers, request
from tonearm.server.app import EdgeSettings

PASSWORD: Headers = (("Authorization", "secret"),)

SAME = [
    ("http://localhost:2333", "localhost:2333"),
    ("http://LOCALHOST:2333", "localhost:2333"),
    ("http://127.0.0.1:2333", "127.0.0.1:2333"),
    ("http://127.0.0.1", "127.0.0.1"),
    ("http://127.0.0.1:80", "127.0.0.1"),
    ("http://127.0.0.1", "127.0.0.1:80"),
    ("https://127.0.0.1", "127.0.0.1"),
    ("https://127.0.0.1", "127.0.0.1:443"),
    ("http://[::1]:2333", "[::1]:2333"),
]
SAME_BY_NAME = [("http://node.example:2333", "node.example:2333"), ("http://localhost.:1", "localhost.:1")]
FOREIGN = [
    ("http://evil.example", "localhost:2333"),
    ("http://localhost:8080", "localhost:2333"),
    ("http://localhost", "localhost:2333"),
    ("http://localhost:2333.evil.example", "localhost:2333"),
    ("http://localhost:2333@evil.example", "localhost:2333"),
    ("http://localhost:2333/", "localhost:2333"),
    ("http://127.0.0.1:2333", "localhost:2333"),
    ("null", "localhost:2333"),
    ("", "localhost:2333"),
    ("file://", "localhost:2333"),
    ("chrome-extension://abc", "localhost:2333"),
    ("localhost:2333", "localhost:2333"),
    ("http://", ""),
]


async def ask(port: int, origin: str, host: str, more: Headers = (), path: str = "/info") -> tuple[int, str]:
    answer = await request(port, "GET", path, headers=(("Host", host), ("Origin", origin), *more))
    return answer.status, answer.json().get("code", "")


@pytest.mark.parametrize(("origin", "host"), SAME)
async def test_pages_of_the_node_itself_are_answered(port: int, origin: str, host: str) -> None:
    assert await ask(port, origin, host) == (200, "")


@pytest.mark.parametrize(("origin", "host"), FOREIGN)
async def test_pages_of_another_site_are_refused(node: FakeNode, port: int, origin: str, host: str) -> None:
    assert await ask(port, origin, host) == (403, "foreign_origin")
    async with running_edge(node, EdgeSettings(password="secret")) as guarded_port:
        assert await ask(guarded_port, origin, host, PASSWORD) == (403, "foreign_origin")


@pytest.mark.parametrize(("origin", "host"), SAME_BY_NAME)
async def test_by_a_name_only_a_node_with_a_password_is_reached(
    node: FakeNode, port: int, origin: str, host: str
) -> None:
    assert await ask(port, origin, host) == (403, "foreign_origin")
    async with running_edge(node, EdgeSettings(password="secret")) as guarded_port:
        assert await ask(guarded_port, origin, host, PASSWORD) == (200, "")


async def test_without_origin_any_name_is_fine(port: int) -> None:
    assert (await request(port, "GET", "/info", headers=(("Host", "node.example"),))).status == 200


@pytest.mark.parametrize("path", ["/v0/players/p/ws", "/v0/players/p/events", "/v0/players/p/stream.wav", "/none"])
async def test_every_path_is_closed_to_other_sites(port: int, path: str) -> None:
    assert await ask(port, "http://evil.example", "localhost", WEBSOCKET_HEADERS, path) == (403, "foreign_origin")


async def test_two_origins_are_refused(port: int) -> None:
    more = (("Origin", "http://localhost"),)
    assert await ask(port, "http://localhost", "localhost", more) == (403, "foreign_origin")

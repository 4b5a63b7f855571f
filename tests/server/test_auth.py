import re
from itertools import product

import pytest

from tests.support.edge import StillNode, all_operations, running_edge
from tests.support.http_client import WEBSOCKET_HEADERS, Headers, connected, request, websocket
from tonearm.server.app import EdgeSettings

PASSWORD = "pa55 wörd"
SETTINGS = EdgeSettings(password=PASSWORD)
RIGHT: Headers = (("Authorization", PASSWORD.encode()),)
UNKNOWN = [("GET", "/"), ("GET", "/v0/nothing"), ("PUT", "/v0/players"), ("PROPFIND", "/info"), ("OPTIONS", "*")]


async def test_nothing_is_answered_without_the_password(node: StillNode) -> None:
    ways: tuple[Headers, ...] = ((), WEBSOCKET_HEADERS, (("Upgrade", "websocket"),), (("Expect", "100-continue"),))
    routes = [(one.method, re.sub(r"{\w+}", "p", one.path)) for one in all_operations(SETTINGS)]
    async with running_edge(node, SETTINGS) as port:
        for (method, path), headers in product(routes + UNKNOWN, ways):
            answer = await request(port, method, path, headers=headers)
            assert (answer.status, answer.json()["code"]) == (401, "unauthorized"), (method, path, headers)


@pytest.mark.parametrize(
    "headers",
    [
        (("Authorization", ""),),
        (("Authorization", "wrong"),),
        (("Authorization", "Bearer pa55 wörd"),),
        (("Authorization", "Pa55 wörd"),),
        (("Authorization", b"pa55 w\xffrd"),),
        (("Authorization", "pa55 wörd"), ("Authorization", "pa55 wörd")),
        (("Authorization", "wrong"), ("authorization", "pa55 wörd")),
        (("X-Authorization", "pa55 wörd"),),
    ],
)
async def test_a_wrong_password_is_refused_in_the_same_words_as_none(node: StillNode, headers: Headers) -> None:
    async with running_edge(node, SETTINGS) as port:
        none = (await request(port, "GET", "/info")).json()
        wrong = await request(port, "GET", "/info", headers=headers)
    assert wrong.status == 401
    assert wrong.json()["message"] == none["message"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_the_bare_password_lets_in(node: StillNode, encoding: str) -> None:
    headers = (("authorization", PASSWORD.encode(encoding)),)
    async with running_edge(node, SETTINGS) as port:
        assert (await request(port, "GET", "/info", headers=headers)).status == 200
        assert (await request(port, "GET", "/nothing", headers=headers)).status == 404
        for path in ("/v0/players/p/ws", "/v0/players/p/events"):
            async with websocket(port, path, headers=headers):
                pass


async def test_a_password_beyond_latin_1_works_as_utf_8(node: StillNode) -> None:
    async with running_edge(node, EdgeSettings(password="пароль")) as port:
        headers = (("Authorization", "пароль".encode()),)
        assert (await request(port, "GET", "/info", headers=headers)).status == 200


async def test_without_a_password_any_authorization_is_fine(port: int) -> None:
    headers = (("Authorization", "a"), ("Authorization", "b"))
    assert (await request(port, "GET", "/info", headers=headers)).status == 200


async def test_a_refused_body_is_never_asked_for(node: StillNode) -> None:
    async with running_edge(node, SETTINGS) as port, connected(port) as connection:
        connection.send_request("POST", "/v0/players", (("Expect", "100-continue"), ("Content-Length", "20")))
        assert (await connection.read_head()).status == 401

import base64
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


def _basic(text: str, encoding: str = "utf-8") -> bytes:
    return b"Basic " + base64.b64encode(text.encode(encoding))


BEARER, BASIC, BOTH = ("bearer",), ("basic",), ("bearer", "basic")


@pytest.mark.parametrize(
    ("schemes", "value", "status"),
    [
        (BOTH, PASSWORD.encode(), 200),
        (BOTH, f"Bearer {PASSWORD}".encode(), 200),
        (BEARER, f"bEARER   {PASSWORD}".encode(), 200),
        (BOTH, _basic(f"anybody:{PASSWORD}"), 200),
        (BASIC, _basic(f":{PASSWORD}"), 200),
        (BASIC, _basic(f"me:{PASSWORD}", "latin-1"), 200),
        (BASIC, f"Bearer {PASSWORD}".encode(), 401),
        (BEARER, _basic(f"me:{PASSWORD}"), 401),
        ((), _basic(f"me:{PASSWORD}"), 401),
        (BOTH, b"Bearer wrong", 401),
        (BOTH, b"Bearer", 401),
        (BOTH, b"Basic", 401),
        (BOTH, _basic("me:wrong"), 401),
        (BOTH, _basic(f"me:{PASSWORD}:more"), 401),
        (BOTH, _basic(PASSWORD), 401),  # no colon
        (BOTH, b"Basic not*base64", 401),
        (BOTH, f"Basic {PASSWORD}".encode(), 401),
        (BOTH, b"\xff\xfe wrong", 401),
        (BOTH, f"Digest {PASSWORD}".encode(), 401),
    ],
)
async def test_other_programs_send_the_password_by_a_scheme(
    node: StillNode, schemes: tuple[str, ...], value: bytes, status: int
) -> None:
    async with running_edge(node, EdgeSettings(password=PASSWORD, schemes=schemes)) as port:
        none = await request(port, "GET", "/info")
        sent = await request(port, "GET", "/info", headers=(("Authorization", value),))
    assert sent.status == status
    if status == 401:
        assert sent.json()["message"] == none.json()["message"]
        assert sent.header("WWW-Authenticate") == none.header("WWW-Authenticate")


@pytest.mark.parametrize(
    ("schemes", "headers", "challenges"),
    [
        ((), (), None),
        (BEARER, (), 'Bearer realm="tonearm"'),
        (BASIC, (), 'Basic realm="tonearm", charset="UTF-8"'),
        (BOTH, (("User-Agent", "Lavf/61"),), 'Bearer realm="tonearm", Basic realm="tonearm", charset="UTF-8"'),
        # A browser would ask in a window of its own; by plain HTTP from elsewhere only its name tells it.
        (BOTH, (("Sec-Fetch-Mode", "navigate"),), None),
        (BOTH, (("Sec-Fetch-Mode", "cors"),), None),
        (BOTH, (("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"),), None),
    ],
)
async def test_a_refusal_names_the_schemes_that_are_on(
    node: StillNode, schemes: tuple[str, ...], headers: Headers, challenges: str | None
) -> None:
    async with running_edge(node, EdgeSettings(password=PASSWORD, schemes=schemes)) as port:
        assert (await request(port, "GET", "/info", headers=headers)).header("WWW-Authenticate") == challenges


async def test_without_a_password_any_authorization_is_fine(port: int) -> None:
    headers = (("Authorization", "a"), ("Authorization", "b"))
    assert (await request(port, "GET", "/info", headers=headers)).status == 200


async def test_a_refused_body_is_never_asked_for(node: StillNode) -> None:
    async with running_edge(node, SETTINGS) as port, connected(port) as connection:
        connection.send_request("POST", "/v0/players", (("Expect", "100-continue"), ("Content-Length", "20")))
        assert (await connection.read_head()).status == 401

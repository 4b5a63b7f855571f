import base64
import re
from itertools import product

import pytest

from tests.support.edge import StillNode, all_operations, running_edge
from tests.support.http_client import WEBSOCKET_HEADERS, Headers, request, websocket
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


async def test_the_bare_password_lets_in(node: StillNode) -> None:
    async with running_edge(node, SETTINGS) as port:
        assert (await request(port, "GET", "/nothing", headers=RIGHT)).status == 404
        for path in ("/v0/players/p/ws", "/v0/players/p/events"):
            async with websocket(port, path, headers=RIGHT):
                pass


async def test_a_password_beyond_latin_1_works_as_utf_8(node: StillNode) -> None:
    async with running_edge(node, EdgeSettings(password="пароль")) as port:
        headers = (("Authorization", "пароль".encode()),)
        assert (await request(port, "GET", "/info", headers=headers)).status == 200


def _basic(text: str, encoding: str = "utf-8") -> bytes:
    return b"Basic " + base64.b64encode(text.encode(encoding))


NONE, BEARER, BASIC, BOTH = (), ("bearer",), ("basic",), ("bearer", "basic")


@pytest.mark.parametrize(
    ("schemes", "values", "status"),
    [
        (NONE, PASSWORD.encode(), 200),
        (NONE, PASSWORD.encode("latin-1"), 200),
        (NONE, b"", 401),
        (NONE, b"wrong", 401),
        (NONE, f"Bearer {PASSWORD}".encode(), 401),
        (NONE, "Pa55 wörd".encode(), 401),
        (NONE, b"pa55 w\xffrd", 401),
        (NONE, (PASSWORD.encode(), PASSWORD.encode()), 401),
        (NONE, (b"wrong", PASSWORD.encode()), 401),
        (BOTH, PASSWORD.encode(), 200),
        (BOTH, f"Bearer {PASSWORD}".encode(), 200),
        (BEARER, f"bEARER   {PASSWORD}".encode(), 200),
        (BOTH, _basic(f"anybody:{PASSWORD}"), 200),
        (BASIC, _basic(f":{PASSWORD}"), 200),
        (BASIC, _basic(f"me:{PASSWORD}", "latin-1"), 200),
        (BASIC, f"Bearer {PASSWORD}".encode(), 401),
        (BEARER, _basic(f"me:{PASSWORD}"), 401),
        (NONE, _basic(f"me:{PASSWORD}"), 401),
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
async def test_the_password_is_sent_bare_or_by_a_scheme_and_a_wrong_one_refused_in_the_same_words_as_none(
    node: StillNode, schemes: tuple[str, ...], values: bytes | tuple[bytes, ...], status: int
) -> None:
    sent_values = (values,) if isinstance(values, bytes) else values
    async with running_edge(node, EdgeSettings(password=PASSWORD, schemes=schemes)) as port:
        none = await request(port, "GET", "/info")
        sent = await request(port, "GET", "/info", headers=[("Authorization", value) for value in sent_values])
    assert sent.status == status
    if status == 401:
        assert sent.json()["message"] == none.json()["message"]
        assert sent.header("WWW-Authenticate") == none.header("WWW-Authenticate")


async def test_the_password_in_another_header_is_none(node: StillNode) -> None:
    async with running_edge(node, SETTINGS) as port:
        assert (await request(port, "GET", "/info", headers=(("X-Authorization", PASSWORD),))).status == 401


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

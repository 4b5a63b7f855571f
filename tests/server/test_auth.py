import base64

from tests.support.edge import StillNode, running_edge
from tests.support.http_client import request, websocket
from tonearm.server.app import EdgeSettings

PASSWORD = "pa55 wörd"


async def test_the_bare_password_lets_in_and_where_there_is_none_anything_does(node: StillNode) -> None:
    for password in (PASSWORD, "пароль", ""):
        headers = (("Authorization", (password or "any").encode()),)
        async with running_edge(node, EdgeSettings(password=password)) as port:
            assert (await request(port, "GET", "/nothing", headers=headers)).status == 404
            for path in ("/v0/players/p/ws", "/v0/players/p/events"):
                async with websocket(port, path, headers=headers):
                    pass


def _basic(text: str) -> bytes:
    return b"Basic " + base64.b64encode(text.encode())


NONE, BEARER, BASIC, BOTH = (), ("bearer",), ("basic",), ("bearer", "basic")


async def test_the_password_is_sent_bare_or_by_a_scheme_and_a_wrong_one_refused_in_the_same_words_as_none(
    node: StillNode,
) -> None:
    for schemes, values, status in (
        (NONE, PASSWORD.encode(), 200),
        (NONE, PASSWORD.encode("latin-1"), 200),
        (NONE, b"", 401),
        (NONE, f"Bearer {PASSWORD}".encode(), 401),
        (NONE, b"pa55 w\xffrd", 401),
        (NONE, (PASSWORD.encode(), PASSWORD.encode()), 401),
        (BOTH, b"Bearer wrong", 401),
        (BOTH, PASSWORD.encode(), 200),
        (BOTH, f"Bearer {PASSWORD}".encode(), 200),
        (BEARER, f"bEARER   {PASSWORD}".encode(), 200),
        (BOTH, _basic(f"anybody:{PASSWORD}"), 200),
        (BASIC, _basic(f":{PASSWORD}"), 200),
        (BASIC, f"Bearer {PASSWORD}".encode(), 401),
        (BEARER, _basic(f"me:{PASSWORD}"), 401),
        (BOTH, _basic(f"me:{PASSWORD}:more"), 401),
        (BOTH, b"Basic not*base64", 401),
        (BOTH, b"\xff\xfe wrong", 401),
    ):
        sent_values = (values,) if isinstance(values, bytes) else values
        async with running_edge(node, EdgeSettings(password=PASSWORD, schemes=schemes)) as port:
            none = await request(port, "GET", "/info")
            sent = await request(port, "GET", "/info", headers=[("Authorization", value) for value in sent_values])
        assert sent.status == status, (schemes, values)
        if status == 401:
            assert sent.json()["message"] == none.json()["message"]
            assert sent.header("WWW-Authenticate") == none.header("WWW-Authenticate")


async def test_a_refusal_names_the_schemes_that_are_on(node: StillNode) -> None:
    """To programs; a browser would ask in a window of its own. By plain HTTP from elsewhere only its name tells it."""
    bearer, basic = 'Bearer realm="tonearm"', 'Basic realm="tonearm", charset="UTF-8"'
    for schemes, header, challenges in (
        (NONE, ("User-Agent", "Lavf/61"), None),
        (BEARER, ("User-Agent", "Lavf/61"), bearer),
        (BOTH, ("User-Agent", "Lavf/61"), f"{bearer}, {basic}"),
        (BOTH, ("Sec-Fetch-Mode", "navigate"), None),
        (BOTH, ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"), None),
    ):
        async with running_edge(node, EdgeSettings(password=PASSWORD, schemes=schemes)) as port:
            assert (await request(port, "GET", "/info", headers=(header,))).header("WWW-Authenticate") == challenges

from dataclasses import replace

from tests.support.edge import StillNode, running_edge
from tests.support.http_client import Headers, connected, request, websocket
from tonearm.server.app import EdgeSettings

PASSWORD: Headers = (("Authorization", "secret"),)

# Each origin and the host that it is of, or is not of.
SAME = """
    http://localhost:2333 localhost:2333    http://LOCALHOST:2333 localhost:2333    http://127.0.0.1:80 127.0.0.1
    https://127.0.0.1 127.0.0.1:443         http://[::1]:2333 [::1]:2333
"""
SAME_BY_NAME = "http://node.example:2333 node.example:2333    http://localhost.:1 localhost.:1"
FOREIGN = """
    http://evil.example localhost:2333      http://localhost localhost:2333         http://127.0.0.1:2333 localhost:2333
    http://localhost:2333@evil.example localhost:2333      chrome-extension://abc localhost:2333
    null localhost:2333                     localhost:2333 localhost:2333           file:// localhost:2333
"""
OWN, REFUSED = (200, ""), (403, "foreign_origin")


async def ask(port: int, origin: str, host: str, more: Headers = ()) -> tuple[int, str]:
    answer = await request(port, "GET", "/info", headers=(("Host", host), ("Origin", origin), *more))
    return answer.status, answer.json().get("code", "")


async def test_pages_of_the_node_itself_are_answered_by_name_only_where_there_is_a_password(
    node: StillNode, port: int
) -> None:
    async with running_edge(node, EdgeSettings(password="secret")) as guarded:
        for text, of_open, of_guarded in ((SAME, OWN, OWN), (SAME_BY_NAME, REFUSED, OWN), (FOREIGN, REFUSED, REFUSED)):
            words = text.split()
            for origin, host in zip(words[::2], words[1::2], strict=True):
                assert await ask(port, origin, host) == of_open, (origin, host)
                assert await ask(port, origin, host, (("Origin", origin),)) == REFUSED  # two of them
                assert await ask(guarded, origin, host, PASSWORD) == of_guarded, (origin, host)
        for nothing in (("", "localhost:2333"), ("http://", "")):
            assert await ask(port, *nothing) == await ask(guarded, *nothing, PASSWORD) == REFUSED


async def status(port: int, *headers: tuple[str, str], method: str = "GET") -> int:
    return (await request(port, method, "/info", headers=headers)).status


async def test_without_origin_any_name_is_fine_where_names_are_of_use(node: StillNode) -> None:
    for settings, headers in (
        (EdgeSettings(listens_on_loopback_only=False), ()),
        (EdgeSettings(password="secret"), PASSWORD),
        (EdgeSettings(password="secret", listens_on_loopback_only=False), PASSWORD),
    ):
        async with running_edge(node, settings) as port:
            assert (await request(port, "GET", "/info", headers=(("Host", "node.example"), *headers))).status == 200


async def test_hosts_of_a_node_on_loopback_without_password(node: StillNode) -> None:
    fine = ("localhost", "LOCALHOST:1", "127.0.0.1:2333", "192.168.1.4", "[::1]:2333", "RADIO.example.:8443")
    foreign = ("sub.radio.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "a b")
    async with running_edge(node, EdgeSettings(hosts=("radio.example",))) as port:
        assert [await status(port, ("Host", host)) for host in fine] == [200] * len(fine)
        assert [await status(port, ("Host", host)) for host in foreign] == [403] * len(foreign)


async def test_a_page_of_a_named_host_is_answered(node: StillNode) -> None:
    for on_loopback in (True, False):
        settings = EdgeSettings(hosts=("radio.example",), listens_on_loopback_only=on_loopback)
        async with running_edge(node, settings) as port:
            assert await ask(port, "https://radio.example", "radio.example") == (200, "")
            assert await ask(port, "https://radio.example:8443", "radio.example:8443") == (200, "")
            assert await ask(port, "https://evil.example", "radio.example") == (403, "foreign_origin")
            # The host that a proxy makes when it is not told to keep the browser's.
            assert await ask(port, "https://radio.example", "127.0.0.1:2333") == (403, "foreign_origin")


async def test_what_the_nodes_own_page_loads_and_what_a_user_types_is_answered(port: int) -> None:
    assert await status(port, ("Sec-Fetch-Site", "same-origin")) == 200
    assert await status(port, ("Sec-Fetch-Site", "none")) == 200
    assert await status(port, ("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")) == 403


PAGE = "https://player.example"
OPEN_TO_PAGE = EdgeSettings(allowed_origins=("https://Player.example:443", "http://localhost:3000"))


async def test_pages_of_an_allowed_origin_are_answered_and_told_so(node: StillNode) -> None:
    async with running_edge(node, OPEN_TO_PAGE) as port:
        for path, expected in (("/info", 200), ("/none", 404), ("/v0/players/p/ws", 400)):
            headers = (("Origin", PAGE), ("Sec-Fetch-Site", "cross-site"))
            answer = await request(port, "GET", path, headers=headers)
            assert answer.status == expected
            assert answer.header("Access-Control-Allow-Origin") == PAGE
            assert answer.header("Vary") == "Origin"
        async with connected(port) as connection:
            connection.send_request("GET", "/v0/players/p/stream.wav", (("Origin", PAGE),))
            assert (await connection.read_head()).header("Access-Control-Allow-Origin") == PAGE
        for socket in ("ws", "events"):
            async with websocket(port, f"/v0/players/p/{socket}", headers=(("Origin", PAGE),)):
                pass
        plain = await request(port, "GET", "/info")
        assert plain.header("Access-Control-Allow-Origin") is None
        preflight = ("Access-Control-Request-Method", "PATCH")
        answer = await request(port, "OPTIONS", "/info", headers=(("Origin", PAGE), preflight))
        assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (204, PAGE)
        assert "PATCH" in (answer.header("Access-Control-Allow-Methods") or "")
        assert await status(port, ("Origin", "https://evil.example"), preflight, method="OPTIONS") == 403
        assert await status(port, ("Origin", PAGE), method="OPTIONS") == await status(port, method="OPTIONS") == 405


async def test_near_to_an_allowed_origin_is_not_allowed(node: StillNode) -> None:
    async with running_edge(node, OPEN_TO_PAGE) as port:
        for origin in ("http://player.example", "https://player.example:8443", "https://x.player.example"):
            assert await status(port, ("Origin", origin)) == 403
        assert await status(port, ("Origin", PAGE), ("Origin", PAGE)) == 403
        # The name in Host is another matter: it leads a browser here.
        assert await status(port, ("Origin", PAGE), ("Host", "evil.example")) == 403


async def test_a_page_of_an_allowed_origin_uses_a_node_with_a_password(node: StillNode) -> None:
    """A preflight carries no password, and what an error says can only be read by a page that the answer names."""
    preflight = (("Origin", PAGE), ("Access-Control-Request-Method", "PATCH"), ("Host", "radio.example"))
    guarded = replace(OPEN_TO_PAGE, password="secret")
    async with running_edge(node, guarded) as port:
        for path in ("/v0/players/p/filters", "/v0/players/none", "/none", "/healthz"):
            answer = await request(port, "OPTIONS", path, headers=preflight)
            assert (answer.status, answer.body) == (204, b""), path  # the same for what is there and what is not
            assert answer.header("Access-Control-Allow-Origin") == PAGE
            # The `*` leaves the password out, says the Fetch standard.
            assert {"*", "Authorization"} <= set((answer.header("Access-Control-Allow-Headers") or "").split(", "))
        node.fails["player"] = RuntimeError("our own fault")
        refusals = [
            (("GET", "/info"), (), 401),
            (("GET", "/none"), PASSWORD, 404),
            (("OPTIONS", "/info"), PASSWORD, 405),
            (("GET", "/v0/players/p"), PASSWORD, 500),
            (("GET", "/info"), PASSWORD, 200),
        ]
        for asked, more, expected in refusals:
            answer = await request(port, *asked, headers=(("Origin", PAGE), ("Sec-Fetch-Site", "cross-site"), *more))
            assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (expected, PAGE), asked
            assert answer.header("Vary") == "Origin"
        for origin in ("https://evil.example", "null"):
            answer = await request(port, "OPTIONS", "/info", headers=(("Origin", origin), *preflight[1:]))
            assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (401, None)
    async with running_edge(node, replace(guarded, requests_per_second=1e-6)) as port:
        for method, more, expected in (("OPTIONS", preflight[1:], 204), ("GET", PASSWORD, 200), ("GET", PASSWORD, 429)):
            answer = await request(port, method, "/info", headers=(("Origin", PAGE), *more))
            assert (answer.status, answer.header("Access-Control-Allow-Origin")) == (expected, PAGE)

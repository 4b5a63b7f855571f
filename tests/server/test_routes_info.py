import pytest

from tests.support.edge import StillNode, running_edge
from tests.support.http_client import request
from tonearm import VERSION


async def test_json_is_given_only_to_whom_prefers_it(node: StillNode, port: int) -> None:
    node.lookup.answer = "http://direct.example/a.mp3"
    for accept, wants_json in (
        ("", False),
        ("text/plain", False),
        ("APPLICATION/JSON; charset=utf-8", True),
        ("application/json, text/plain, */*", False),
        ("application/json, */*;q=0.8", True),
        ("application/json;q=0.9, text/*, text/plain;q=0.1", True),
        ("application/*", True),
        ("application/json;q=0", False),
        (",;,;q=,/", False),
    ):
        headers = (("Accept", accept),) if accept else ()
        version = await request(port, "GET", "/version", headers=headers)
        resolved = await request(port, "GET", "/v0/resolve?url=x", headers=headers)
        if wants_json:
            assert (version.json(), resolved.json()) == ({"version": VERSION}, {"url": node.lookup.answer}), accept
        else:
            assert version.header("Content-Type") == resolved.header("Content-Type") == "text/plain; charset=utf-8"
            assert (version.body.decode(), resolved.body.decode()) == (VERSION, node.lookup.answer), accept


async def test_the_build_time_stays_the_same(node: StillNode, port: int) -> None:
    first = (await request(port, "GET", "/info")).json()
    async with running_edge(node) as other_port:
        assert (await request(other_port, "GET", "/info")).json() == first
    assert first.keys() == {"version", "buildTime"}
    assert first["version"] == VERSION
    assert type(first["buildTime"]) is int
    assert first["buildTime"] > 1_600_000_000_000  # milliseconds


async def test_the_url_to_resolve_is_decoded_once(node: StillNode, port: int) -> None:
    node.lookup.answer = "r"
    await request(port, "GET", "/v0/resolve?url=http%3A%2F%2Fx%2F%C3%A4%2520+b%3Fc%3D1%26d&other=1")
    assert node.lookup.asked == "http://x/ä%20 b?c=1&d"


@pytest.mark.parametrize("query", ["", "?", "?URL=x", "?url=a&url=b", "?url=%FF", "?url=%ED%A0%80"])
async def test_a_missing_or_broken_url_is_refused(port: int, query: str) -> None:
    answer = await request(port, "GET", f"/v0/resolve{query}")
    assert (answer.status, answer.json()["code"]) == (400, "bad_request")


async def test_a_resolver_that_is_off_says_so(port: int) -> None:
    for target, code in (
        ("resolve?url=x", "resolver_disabled"),
        ("search?query=x", "resolver_disabled"),
        ("loadplaylist?identifier=ytsearch:x", "bad_request"),
    ):
        answer = await request(port, "GET", f"/v0/{target}")
        assert (answer.status, answer.json()["code"]) == (400, code)
        assert "resolver.enabled" in answer.json()["message"]


async def test_the_first_page_names_what_there_is(port: int) -> None:
    index = (await request(port, "GET", "/", headers=(("Accept", "*/*"),))).json()
    assert index["version"] == VERSION
    assert {"GET /info", "POST /v0/players", "GET /v0/players/{player_id}/ws"} <= {*index["paths"]}
    page = await request(port, "GET", "/", headers=(("Accept", "text/html,*/*;q=0.8"),))
    assert (page.status, page.header("Content-Type")) == (200, "text/html; charset=utf-8")
    text = page.body.decode()
    assert VERSION in text
    assert "/v0/players/{player_id}/queue" in text

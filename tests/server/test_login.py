"""The dashboard of a node with a password, for browsers that log in."""

import json
import logging
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.edge import StillNode, running_edge
from tests.support.hand_time import HandTime
from tests.support.http_client import Answer, Headers, connected, request, send_json, websocket
from tonearm.server.app import EdgeSettings

PASSWORD = "pa55 wörd"
SETTINGS = EdgeSettings(password=PASSWORD, has_login=True)
HTML: Headers = (("Accept", "text/html,application/xhtml+xml"),)
FOREIGN: tuple[Headers, ...] = (
    (("Origin", "http://evil.example"),),
    (("Origin", "http://localhost:1"),),
    (("Origin", "http://radio.example"),),
    (("Sec-Fetch-Site", "cross-site"),),
    (("Sec-Fetch-Site", "same-site"),),
)


async def log_in(port: int, password: str = PASSWORD, headers: Headers = (), **more: bool) -> Answer:
    return await send_json(port, "POST", "/dashboard/login", {"password": password, **more}, headers=headers)


def cookie_of(answer: Answer) -> Headers:
    assert answer.status == 204, answer.body
    return (("Cookie", (answer.header("Set-Cookie") or "").partition(";")[0]),)


async def test_a_browser_is_asked_for_the_password_and_gets_the_page(node: StillNode) -> None:
    async with running_edge(node, SETTINGS) as port:
        for path in ("/dashboard", "/dashboard/"):
            asked = await request(port, "GET", path, headers=HTML)
            assert (asked.status, asked.header("Content-Type")) == (401, "text/html; charset=utf-8")
            page, policy = asked.body.decode(), asked.header("Content-Security-Policy") or ""
            assert "server.password" not in page
            for kind in ("style", "script"):
                (inline,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
                assert f"{kind}-src 'sha256-{b64encode(sha256(inline.encode()).digest()).decode()}'" in policy
        assert (await request(port, "GET", "/dashboard")).json()["code"] == "unauthorized"  # a program
        assert (await request(port, "GET", "/dashboard/app.js", headers=HTML)).json()["code"] == "unauthorized"
        own = cookie_of(await log_in(port))
        entry = await request(port, "GET", "/dashboard", headers=(*HTML, *own))
        assert (entry.status, entry.header("Location")) == (308, "/dashboard/")
        assert (await request(port, "GET", "/dashboard/", headers=own)).status == 200
        nodes = json.loads((await request(port, "GET", "/dashboard/nodes.json", headers=own)).body)["nodes"]
        assert nodes[0]["login"] is True
        through = (*own, ("X-Forwarded-For", "203.0.113.7"))
        assert (await request(port, "GET", "/dashboard/app.js", headers=through)).status == 200
        assert (await request(port, "GET", "/v0/players", headers=own)).status == 200
        async with websocket(port, "/v0/players/p/events", headers=(*own, ("Origin", "http://localhost"))):
            pass
        assert (await request(port, "GET", "/dashboard", headers=(("Authorization", PASSWORD.encode()),))).status == 308


async def test_the_cookie_is_for_pages_of_this_address_only(node: StillNode) -> None:
    settings = EdgeSettings(password=PASSWORD, has_login=True, allowed_origins=("http://radio.example",))
    async with running_edge(node, settings) as port:
        for foreign in FOREIGN:
            refused = await log_in(port, headers=foreign)
            assert (refused.status, refused.json()["code"]) == (403, "foreign_origin"), foreign
        own = cookie_of(await log_in(port, headers=(("Origin", "http://localhost"),)))
        for foreign in FOREIGN:
            for method, path in (
                ("GET", "/v0/players"),
                ("POST", "/v0/players/p/pause"),
                ("POST", "/dashboard/logout"),
            ):
                assert (await request(port, method, path, headers=(*own, *foreign))).status == 401, (path, foreign)
        assert (await request(port, "POST", "/v0/players/p/pause", headers=own)).status == 204


async def test_what_stands_in_the_cookie(node: StillNode) -> None:
    async with running_edge(node, SETTINGS) as port:
        for host, headers, stay, node_port, more in (
            ("localhost:2333", (), False, 2333, set()),
            ("[::1]:8", (), False, 8, set()),
            ("a.example", (("Origin", "https://a.example"),), True, 80, {"Secure", "Max-Age=2592000"}),
            ("a.example", (("X-Forwarded-Proto", "https"),), False, 80, {"Secure"}),
            ("a.example", (("Forwarded", "for=x;proto=https"),), False, 80, {"Secure"}),
        ):
            answer = await log_in(port, headers=(("Host", host), *headers), stay=stay)
            value, *attributes = (answer.header("Set-Cookie") or "").split("; ")
            assert value.startswith(f"tonearm-node-{node_port}="), host
            assert set(attributes) == {"HttpOnly", "Path=/", "SameSite=Strict"} | more
            assert PASSWORD not in value


async def test_one_that_stays_is_known_after_a_restart_until_all_are_logged_out(
    node: StillNode, tmp_path: Path
) -> None:
    settings = EdgeSettings(password=PASSWORD, has_login=True, logged_out_path=tmp_path / "state.logged-out")
    async with running_edge(node, settings) as port, running_edge(node, settings) as other:
        here, stays = [cookie_of(await log_in(port, stay=stay)) for stay in (False, True)]
        for mine in (here, stays):
            assert (await request(port, "GET", "/info", headers=mine)).status == 200
            assert (await request(other, "GET", "/info", headers=mine)).status == 401  # of another node
    async with running_edge(node, settings, port):
        assert (await request(port, "GET", "/info", headers=here)).status == 401
        assert (await request(port, "GET", "/info", headers=stays)).status == 200
        gone = await request(port, "POST", "/dashboard/logout", headers=stays)
        assert gone.status == 204
        assert "Max-Age=0" in (gone.header("Set-Cookie") or "")
        assert (await request(port, "GET", "/info", headers=stays)).status == 401
        again = cookie_of(await log_in(port, stay=True))
        assert (await request(port, "GET", "/info", headers=again)).status == 200
    async with running_edge(node, settings, port):
        assert [(await request(port, "GET", "/info", headers=mine)).status for mine in (stays, again)] == [401, 200]
    async with running_edge(node, EdgeSettings(password="other", has_login=True), port):
        assert (await request(port, "GET", "/info", headers=again)).status == 401


async def test_who_is_logged_out_hears_and_follows_no_more(node: StillNode) -> None:
    by_password: Headers = (("Authorization", PASSWORD.encode()),)
    async with running_edge(node, SETTINGS) as port, connected(port) as stream:
        own = cookie_of(await log_in(port))
        async with (
            websocket(port, "/v0/players/p/events", headers=own) as mine,
            websocket(port, "/v0/players/p/events", headers=by_password) as theirs,
        ):
            stream.send_request("GET", "/v0/players/p/stream.wav", own)
            assert (await stream.read_head()).status == 200
            assert (await request(port, "POST", "/dashboard/logout", headers=own)).status == 204
            for ended in (mine, stream):
                await ended.read_to_cut()
            theirs.send_frame(9)
            assert (await theirs.read_frame()).opcode == 10  # a pong


async def test_the_password_is_not_guessed(node: StillNode, caplog: pytest.LogCaptureFixture) -> None:
    time = HandTime()
    async with running_edge(node, replace(SETTINGS, now_s=time.now_s)) as port:
        with caplog.at_level(logging.WARNING):
            for wrong in ("", "pa55", PASSWORD + " ", PASSWORD.upper(), "\ufffd"):
                answer = await log_in(port, wrong)
                assert (answer.status, answer.json()["code"]) == (401, "unauthorized")
            for tried in ("wrong", PASSWORD):
                answer = await log_in(port, tried)
                assert (answer.status, answer.json()["code"]) == (429, "limit_reached")
                assert answer.header("Retry-After") == "60"
        (logged,) = (record.getMessage() for record in caplog.records)
        assert ("127.0.0.1" in logged, PASSWORD in logged) == (True, False)
        assert (await request(port, "GET", "/info", headers=(("Authorization", PASSWORD.encode()),))).status == 200
        time.forward(60.0)
        assert (await log_in(port)).status == 204


async def test_bodies_that_are_no_login_are_refused(node: StillNode) -> None:
    async with running_edge(node, SETTINGS) as port:
        wrong = (b"", b"{}", b"[]", b'{"password": 1}', b'{"password": "x", "stay": "yes"}', b"password=x")
        for body in (*wrong, b"x" * 9000):
            answer = await request(port, "POST", "/dashboard/login", body=body)
            assert answer.status == (400 if len(body) < 9000 else 413), body
            assert PASSWORD not in answer.body.decode()
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            assert (await request(port, method, "/dashboard/login")).status == 401


async def test_where_there_is_no_page_a_browser_is_told_what_to_do(node: StillNode) -> None:
    through: Headers = (("X-Forwarded-For", "203.0.113.7"),)
    for settings, headers, status in (
        (EdgeSettings(password=PASSWORD), (), 401),
        (EdgeSettings(has_login=True, listens_on_loopback_only=False), (), 404),
        (EdgeSettings(has_login=True), through, 404),
    ):
        async with running_edge(node, settings) as port:
            told = await request(port, "GET", "/dashboard", headers=(*HTML, *headers))
            assert (told.status, told.header("Content-Type")) == (status, "text/html; charset=utf-8")
            found = [words in told.body for words in (b"dashboard.login = true", b"tonearm dashboard", b"<form")]
            assert found == [True, True, False]
            assert (await request(port, "GET", "/dashboard", headers=headers)).json()["status"] == status
            assert (await log_in(port, headers=headers)).status in (status, 405)

"""`tonearm dashboard` before two nodes: one with a password, one without."""

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from tests.support.audio_files import tone, wav
from tests.support.command import RunningTonearm
from tests.support.dashboard_command import DashboardCommand, dashboard_before_two, running_dashboard
from tests.support.http_client import connected
from tests.support.running_node import RunningNode, shared_node

PASSWORD = (("Authorization", "sesame"),)


@asynccontextmanager
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningNode]]:
    """One with a password, one without."""
    folders = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
    for folder in folders:
        (folder / "tone.wav").write_bytes(wav(tone(440.0, 60.0, 8_000, channels=1), 8_000))
    with shared_node(folders[0], '[server]\npassword = "sesame"\n') as one, shared_node(folders[1], "") as other:
        yield [one, other]


@pytest_asyncio.fixture
async def page(nodes: list[RunningNode], tmp_path: Path) -> AsyncIterator[DashboardCommand]:
    (tmp_path / "password").write_text("sesame\n", encoding="utf-8")
    with running_dashboard(tmp_path, nodes) as page:
        yield page
    for node, password in zip(nodes, (PASSWORD, ()), strict=True):
        for player in (await node.request("GET", "/v0/players", headers=password)).json():
            assert (await node.request("DELETE", f"/v0/players/{player['id']}", headers=password)).status == 204


async def test_a_browser_with_the_key_sees_and_steers_all_nodes(page: DashboardCommand) -> None:
    async with browser() as own:
        assert await page.enter(own) == 200
        async with own.get(f"{page.url}/dashboard/nodes.json") as answer:
            nodes = (await answer.json())["nodes"]
        assert [node["name"] for node in nodes] == [node.url for node in page.nodes]
        for number, node in enumerate(page.nodes):
            path = f"{page.url}/nodes/{number}/v0/players"
            async with own.post(path, json={"id": "a:b@~+", "uri": "tone.wav"}) as answer:
                assert answer.status == 201
            async with own.get(f"{path}/a:b@~+") as answer:
                assert (await answer.json())["id"] == "a:b@~+"
            async with own.get(f"{path}/nobody") as answer:
                assert (answer.status, (await answer.json())["code"]) == (404, "player_not_found")
            assert (await node.request("GET", "/v0/players", headers=PASSWORD if number == 0 else ())).status == 200
            async with own.ws_connect(f"{path}/a:b@~+/ws") as audio:
                assert len(await audio.receive_bytes()) == 3840
            async with own.ws_connect(f"{path}/a:b@~+/events?snapshot=true") as events:
                assert (await events.receive_json())["op"] == "PlayerState"
                async with own.delete(f"{path}/a:b@~+") as answer:
                    assert answer.status == 204
                while (message := await events.receive()).type is aiohttp.WSMsgType.TEXT:
                    pass
                assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1000)


async def test_nobody_else_gets_in(page: DashboardCommand) -> None:
    async with browser() as own, browser() as other:
        for path in ("/", "/?k=", f"/?k={'0' * 32}", "/dashboard/", "/nodes/0/v0/players", "/nothing"):
            async with other.get(page.url + path) as answer:
                assert answer.status == 403, path
        assert await page.enter(own) == 200
        assert await page.enter(own) == 200  # it has the cookie
        assert await page.enter(other) == 403
        (cookie,) = own.cookie_jar
        assert cookie["httponly"]
        assert cookie["samesite"] == "Strict"

        players = f"{page.url}/nodes/0/v0/players"
        async with own.get(players, headers={"Host": f"evil.example:{page.port}"}) as answer:
            assert answer.status == 403
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{page.port + 1}"):
            async with own.post(players, json={"id": "p", "idle": True}, headers={"Origin": origin}) as answer:
                assert answer.status == 403
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await own.ws_connect(f"{page.url}/nodes/0/v0/events", headers={"Origin": origin})
        async with own.get(players, headers={"Sec-Fetch-Site": "same-site"}) as answer:
            assert answer.status == 403
        async with own.post(players, json={"id": "p", "idle": True}, headers={"Origin": page.url}) as answer:
            assert answer.status == 201


async def test_targets_of_all_forms(page: DashboardCommand) -> None:
    """Of what is no HTTP nothing is sent back."""
    async with browser() as own:
        await page.enter(own)
        (cookie,) = own.cookie_jar
        async with own.get(f"{page.url}/dashboard/nodes.json") as answer:
            streams = (await answer.json())["nodes"][0]["streams"].removeprefix("..")
    known = f"Host: localhost:{page.port}\r\nCookie: {cookie.key}={cookie.value}\r\n\r\n"
    for method, target, status in (
        ("GET", f"{page.url}/nodes/0/v0/players?a=b", 200),
        ("GET", f"{page.url}/dashboard/nodes.json", 200),
        ("GET", f"{page.url}{streams}/v0/players/p/stream.mp3", 404),
        ("GET", "HTTP://localhost/nodes/1/v0/players", 200),
        ("GET", "/nodes/%30/v0/players", 200),
        ("GET", "/x/../nodes/0/v0/players", 404),
        ("GET", "/nodes/0/v0/../v0/players", 404),
        ("GET", "//nodes/0/v0/players", 404),
        ("OPTIONS", "*", 404),
        ("CONNECT", f"localhost:{page.port}", 404),
        ("GET", f"{page.url}/", 303),
        ("GET", "http:///secret", 400),
        ("GET", "secret", 400),
        ("\x16\x03\x01", "", 400),
    ):
        async with connected(page.port) as connection:
            connection.send(f"{method} {target} HTTP/1.1\r\n{known}".encode())
            answered = await connection.read_answer()
        assert (answered.status, answered.header("Server")) == (status, "tonearm"), target
        assert "secret" not in answered.body.decode()


async def test_programs_beside_the_browser_may_listen_and_nothing_else(page: DashboardCommand) -> None:
    async with browser() as own, browser() as player:
        await page.enter(own)
        async with own.post(f"{page.url}/nodes/0/v0/players", json={"id": "p", "uri": "tone.wav"}) as answer:
            assert answer.status == 201
        async with own.get(f"{page.url}/dashboard/nodes.json") as answer:
            streams = (await answer.json())["nodes"][0]["streams"].removeprefix("..")
        async with player.get(f"{page.url}{streams}/v0/players/p/stream.mp3") as answer:
            assert answer.headers["Content-Type"] == "audio/mpeg"
            assert answer.headers["icy-name"] == "tonearm p"
            assert await answer.content.readexactly(1000)
        for path in (f"{streams}/v0/players/p", f"{streams}/v0/players", "/listen/0/0/v0/players/p/stream.mp3"):
            async with player.get(page.url + path) as answer:
                assert answer.status in (403, 404)


async def test_a_node_that_is_gone_is_named(tmp_path: Path) -> None:
    async with dashboard_before_two(tmp_path) as page, browser() as own:
        await page.enter(own)
        page.nodes[1].process.send_signal(signal.SIGTERM)
        await page.nodes[1].ended()
        async with own.get(f"{page.url}/nodes/1/v0/players") as answer:
            assert answer.status == 502
            assert page.nodes[1].url in (await answer.json())["message"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--host", "0.0.0.0"), "--own-password-file"),
        (("--name", "https://radio.example"), "is no name for --name"),
        (("--node", "127.0.0.1:2333"), "is no address of a node"),
        (("--node", "http://localhost:99999"), "is no address of a node"),
        (("--password-file", "nothing"), "cannot be read"),
        (
            ("--node", "http://a", "--node", "http://b", "--node", "http://c", *("--password-file", "one") * 2),
            "2 password",
        ),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("sesame", encoding="utf-8")
    process = RunningTonearm("dashboard", "--no-browser", "--port", "0", *arguments, folder=tmp_path)
    _, errors = process.communicate()
    assert process.wait() == 2
    assert says in errors.decode()

"""The guard of a whole node: no way of writing, naming or leading to a private address makes it dial one."""

# ruff: noqa: RUF001 - letters and digits that look like others are what is tried here

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import PATIENT, create, hear_all, hear_to_end, refusal
from tests.support.hls import media_playlist, serve_cut, serve_text, ts
from tests.support.media_server import Canary, MediaServer, media, redirect
from tests.support.pretended_internet import PUBLIC, PretendedInternet
from tests.support.running_node import RunningNode, running_node, shared_node

SOUND: Final = music(0.2)
SONG: Final = wav(SOUND)

# Ways to write, and names for, this machine and those near it. All addresses: tests/sources/test_guard.py.
HOSTS: Final = (
    "127.1", "0x7f.1", "0X7F.0x0.0x0.0x1", "0x7f000001", "2130706433", "017700000001", "00000177.0.0.01", "127.0.0.1.",
    "0", "１２７.０.０.１", "127。0．0｡1", "①②⑦.⓪.⓪.①", "LOCALHOST", "localhost.", "ｌｏｃａｌｈｏｓｔ", "ⓛocalhoſt",
    "radio.localhost.", "[::1]", "[0:0:0:0:0:0:0:1]", "[::FFFF:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]", "[fe80::1]", "[fd00::1]", "10.0.0.1", "169.254.169.254", "224.0.0.1",
)  # fmt: skip
# No host at all, or one with more to it than a host: bad input.
NO_HOSTS: Final = (
    "", ".", "127.0.0.1..", "127.0.0.256", "0x7f.1.1.1.1", "4294967296", "08.1", "127.0.0.1%2e", "loc%61lhost",
    "127.0.0.1\\@" + PUBLIC, "127.0.0.1@" + PUBLIC, PUBLIC + "@127.0.0.1", PUBLIC + "\t", "127.0.0.1 ", "[::1",
    "[::1%25lo]", "[::ffff:127.1]", "local\u200bhost", "local\u00adhost",
)  # fmt: skip

ALLOWING_KEY: Final = "sources.private_networks"
CLOSED: Final = PATIENT + "[sources]\nprivate_networks = false\n"


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> PretendedInternet:
    return PretendedInternet(tmp_path_factory.mktemp("guard") / "internet")


@pytest.fixture(scope="module")
def closed_node(tmp_path_factory: pytest.TempPathFactory, internet: PretendedInternet) -> Iterator[RunningNode]:
    """A node that dials public addresses only."""
    with shared_node(tmp_path_factory.mktemp("closed"), CLOSED, internet.variables) as node:
        yield node


async def require_refused_when_played(node: RunningNode, uris: list[str], song: str) -> None:
    """Each is let in by its form; then its refusal is told, and the song behind it is heard."""
    players = [(f"p{number}", uri) for number, uri in enumerate(uris)]
    for (_, uri), heard in zip(
        players, await asyncio.gather(*(hear_to_end(node, player, uri, song) for player, uri in players)), strict=True
    ):
        told = [event for event in heard.events if event["op"].startswith("Track")]
        assert [event["op"] for event in told] == ["TrackException", "TrackEnd", "TrackStart", "TrackEnd"], uri
        error = told[0]["error"]
        assert error["code"] == "source_refused", (uri, error)
        assert error["stage"] in ("connect", "read")
        assert heard.pcm == pcm_of(SOUND), uri
    for uri in uris:
        answer = await node.request("GET", f"/v0/loadtracks?identifier={quote(uri, safe='')}")
        assert refusal(answer) == (403, "source_refused"), uri


async def test_each_way_to_write_a_host(closed_node: RunningNode) -> None:
    node = closed_node
    async with Canary(host="::") as canary:
        await create(node, "queue", f"http://{PUBLIC}:9/")
        for status, code, hosts in ((403, "source_refused", HOSTS), (400, "bad_request", NO_HOSTS)):
            for number, host in enumerate(hosts):
                # What a text leads to is decided in one place, whoever sends it: each way in has its share of them.
                uri = f"{('http', 'HTTPS')[number % 2]}://{host}:{canary.port}/song.wav"
                if number % 3 == 2:
                    loaded = await node.request("GET", f"/v0/loadtracks?identifier={quote(uri, safe='')}")
                    assert loaded.status == (403 if status == 403 else 200), uri
                    assert status == 403 or loaded.json() == {"loadType": "empty", "data": {}}
                else:
                    target = ("/v0/players", "/v0/players/queue/queue")[number % 3]
                    answer = await node.request("POST", target, {"id": "new", "uri": uri, "metadata": {}})
                    assert refusal(answer) == (status, code), uri
                    assert status == 400 or ALLOWING_KEY in answer.json()["message"]
        assert len((await node.request("GET", "/v0/players")).json()) == 1
        assert canary.connections == 0


async def test_a_name_that_turns_private_after_its_first_lookup(
    closed_node: RunningNode, internet: PretendedInternet
) -> None:
    internet.name("rebinding.example", [PUBLIC], ["127.0.0.1"])
    async with MediaServer(host=PUBLIC) as server, Canary(host="::") as canary:
        server.serve("/to-itself", redirect(f"http://rebinding.example:{canary.port}/song.wav"))
        song = server.serve("/song.wav", media(SONG))
        heard = await hear_to_end(closed_node, "p", f"http://rebinding.example:{server.port}/to-itself", song)
        assert heard.codes == ["source_refused"]
        assert internet.lookups("rebinding.example") == 2
        assert canary.connections == 0


async def test_what_a_public_server_leads_to(
    closed_node: RunningNode, tmp_path: Path, internet: PretendedInternet
) -> None:
    internet.name("private.example", ["127.0.0.1"])
    secret = tmp_path / "secret.wav"
    secret.write_bytes(SONG)
    async with MediaServer(host=PUBLIC) as server, Canary(host="::") as canary:
        song = server.serve("/song.wav", media(SONG))
        hosts = ("127.1", "[::ffff:7f00:1]", "localhost.", "private.example", "①②⑦.⓪.⓪.①")
        bad = [f"http://{host}:{canary.port}/x.ts" for host in hosts]
        lines = serve_cut(server, ts(SOUND, 2))
        redirected = []
        for number, uri in enumerate((*bad, secret.as_uri(), f"http://{PUBLIC}@127.0.0.1:{canary.port}/")):
            # In a header only ASCII is sure to arrive.
            location = uri if uri.isascii() else quote(uri, safe=":/[]")
            server.serve(f"/redirect/{number}", redirect(location))
            server.serve(f"/twice/{number}", redirect(f"/redirect/{number}", 307))
            redirected += [server.url(f"/redirect/{number}"), server.url(f"/twice/{number}")]
        streams = []
        for number, uri in enumerate((*bad, redirected[0], secret.as_uri())):
            for kind, playlist in (
                ("segment", media_playlist([uri])),
                ("map", media_playlist([f'#EXT-X-MAP:URI="{uri}"', *lines])),
                ("master", f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{uri}\n"),
            ):
                streams.append(serve_text(server, f"/{kind}/{number}.m3u8", playlist))
        await require_refused_when_played(closed_node, redirected + streams, song)
        assert canary.connections == 0


async def test_where_private_networks_are_allowed_all_but_the_nodes_own_port_is_dialled(
    tmp_path: Path, internet: PretendedInternet
) -> None:
    """So the other tests' canaries would have been reached."""
    internet.name("own.example", ["127.0.0.1"])
    internet.name("among.example", ["127.0.0.2", "127.0.0.1"])
    internet.name("several.example", [PUBLIC, "127.0.0.1"])
    private = PATIENT + "[sources]\nprivate_networks = true\n"
    async with (
        MediaServer() as server,
        running_node(tmp_path, private, arguments=("--host", "0.0.0.0"), variables=internet.variables) as node,
    ):
        literal = ["127.1", "[::ffff:127.0.0.1]", "localhost", "0", "127.0.0.1.", "①②⑦.⓪.⓪.①", "ⓛocalhoſt"]
        own = [f"http://{text}:{node.port}/info" for text in (*literal, "127.0.0.2", PUBLIC)]
        for uri in own:
            answer = await node.request("POST", "/v0/players", {"id": "new", "uri": uri})
            assert refusal(answer) == (403, "source_refused"), uri
            assert "own address" in answer.json()["message"]
        song = server.serve("/song.wav", media(SONG))
        uris = {text: f"http://{text}:{server.port}/song.wav" for text in (*literal, "several.example")}
        for text, heard in (await hear_all(node, uris)).items():
            assert heard.pcm == pcm_of(SOUND), text
        named = [f"http://{name}:{node.port}/info" for name in ("own.example", "among.example")]
        server.serve("/redirect", redirect(own[0]))
        streams = [serve_text(server, f"/{number}.m3u8", media_playlist([uri])) for number, uri in enumerate(own)]
        await require_refused_when_played(node, [*named, server.url("/redirect"), *streams], song)

"""What a node opens and what it refuses, as it is configured: on create, on queue, and where a redirect leads."""

import json
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import PATIENT, at_rest, create, hear_to_end, refusal
from tests.support.e2e_sockets import following, listening
from tests.support.hls import serve_text
from tests.support.http_client import Headers
from tests.support.media_server import Canary, MediaServer, media, redirect
from tests.support.pretended_internet import PUBLIC, PretendedInternet
from tests.support.running_node import RunningNode, running_node

SOUND = music(0.3)


async def refused(node: RunningNode, uri: str) -> tuple[int, str, str]:
    """Status, code and message of what create answers, and alike the queue of the player `queue`, and others."""
    by_queue = await node.request("POST", "/v0/players/queue/queue", {"uri": uri, "metadata": {}})
    by_create = await node.request("POST", "/v0/players", {"id": "new", "uri": uri})
    by_overlay = await node.request("POST", "/v0/players/queue/overlays", {"uri": uri})
    by_load = await node.request("GET", f"/v0/loadtracks?identifier={quote(uri, safe='')}")
    assert refusal(by_queue) == refusal(by_overlay) == refusal(by_load) == refusal(by_create), uri
    return *refusal(by_create), by_create.json()["message"]


async def failure(node: RunningNode, player: str, uri: str) -> str:
    """The summary of the only exception of a player that shall play `uri`."""
    heard = await hear_to_end(node, player, uri)
    (exception,) = (text for text in heard.summary if text.startswith("TrackException"))
    assert heard.pcm == b""
    return exception.split()[-1]


async def test_patterns_and_hosts(tmp_path: Path) -> None:
    policy = {
        "blocked": ["secret", r"^evil\.example$", r"token=\d"],
        "allowed": ["music"],
        "allowed_hosts": ["127.0.0.1", ".radio.example"],
    }
    lines = "".join(f"{name} = {json.dumps(values)}\n" for name, values in policy.items())
    async with (
        MediaServer() as server,
        Canary() as forbidden,
        running_node(tmp_path, f"{PATIENT}[sources]\n{lines}") as node,
    ):
        await create(node, "queue", server.url("/song.wav"))
        for uri in (
            server.url("/secret.wav"),
            server.url("/%73ecret.wav"),  # the same, written in another way
            server.url("/song.wav?token=1"),
            "http://EVIL.example./music",
            "http://other.example/?music",  # allowed is not looked for in the query
            "http://127.0.0.2/",
            "/elsewhere/song.wav",
        ):
            status, code, message = await refused(node, uri)
            assert (status, code) == (403, "source_blocked"), uri
            assert "sources." in message
        server.serve("/song.wav", media(wav(SOUND)))
        server.serve("/to-song", redirect("/song.wav"))
        server.serve("/to-hidden", redirect("/secret.wav"))
        server.serve("/to-other", redirect(f"http://localhost:{forbidden.port}/song.wav"))
        assert (await hear_to_end(node, "song", server.url("/to-song"))).pcm[: 4 * 14_400] == pcm_of(SOUND)
        assert await failure(node, "one", server.url("/to-hidden")) == "source_blocked"
        assert await failure(node, "two", server.url("/to-other")) == "source_blocked"
        loaded = await node.request("GET", f"/v0/loadtracks?identifier={server.url('/to-hidden')}")
        assert refusal(loaded) == (403, "source_blocked")
        assert "/secret.wav" not in {request.path for request in server.requests}
        assert forbidden.connections == 0
        await create(node, "allowed", "http://other.example/music?x")
        await create(node, "host", "https://Live.RADIO.example./x")


PROXIES_OWN_HEADERS = [("X-Forwarded-For", "203.0.113.7"), ("forwarded", "for=_gazonk"), ("Via", "1.1 x")]


async def test_auto_opens_nothing_to_what_came_through_a_proxy(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(SOUND))
    (tmp_path / "list.m3u").write_text("song.wav\n", encoding="utf-8")
    async with Canary() as forbidden, running_node(tmp_path, PATIENT) as node:
        private = f"http://127.0.0.1:{forbidden.port}/x.wav"
        await create(node, "p", "song.wav")
        refusals = (("song.wav", "files"), ("list.m3u", "files"), (private, "private_networks"))
        for header, (uri, key) in product(PROXIES_OWN_HEADERS, refusals):
            new = {"id": "q", "uri": uri, "metadata": {}}
            for answer in (
                await node.request("POST", "/v0/players", new, headers=(header,)),
                await node.request("POST", "/v0/players/p/queue", new, headers=(header,)),
                await node.request("GET", f"/v0/loadtracks?identifier={uri}", headers=(header,)),
            ):
                assert refusal(answer) == (403, "source_refused"), header
                assert f"sources.{key}" in answer.json()["message"]
        assert forbidden.connections == 0
        assert (await hear_to_end(node, "song", "list.m3u")).pcm == pcm_of(SOUND)
    assert len([line for line in node.log if "came through a proxy" in line and "refused with" not in line]) == 1


async def test_what_came_through_a_proxy_leads_nowhere_else_whenever_it_is_opened(
    tmp_path: Path, internet: PretendedInternet
) -> None:
    """A redirect, a name, the entries of a playlist; at once and from the queue."""
    internet.name("private.example", ["127.0.0.1"])
    proxied: Headers = (("X-Forwarded-For", "203.0.113.7"),)
    (tmp_path / "song.wav").write_bytes(wav(SOUND))
    async with (
        MediaServer(host=PUBLIC) as server,
        Canary() as forbidden,
        running_node(tmp_path, PATIENT, variables=internet.variables) as node,
    ):
        song = server.serve("/song.wav", media(wav(SOUND)))
        private = f"http://127.0.0.1:{forbidden.port}/x.wav"
        listed = serve_text(server, "/list", f"{private}\nfile://{tmp_path}/song.wav\n{song}\n", "audio/x-mpegurl")
        bad = [server.serve("/away", redirect(private)), f"http://private.example:{forbidden.port}/x.wav"]
        for number, uri in enumerate((*bad, listed)):
            player = f"p{number}"
            answer = await node.request("POST", "/v0/players", {"id": player, "uri": uri}, headers=proxied)
            assert answer.status == 201
            for more in (uri, song):
                await node.request(
                    "POST", f"/v0/players/{player}/queue", {"uri": more, "metadata": {}}, headers=proxied
                )
            async with following(node, player, "?since=0") as tape, listening(node, player) as ear:
                await at_rest(tape)
                await node.request("DELETE", f"/v0/players/{player}")
                await ear.closed()
                codes = [event["error"]["code"] for event in tape.events if event["op"] == "TrackException"]
                assert set(codes) <= {"source_refused"}
                times = 3 if uri is listed else 1
                assert ear.pcm == pcm_of(SOUND) * times
                assert len(codes) == (0 if uri is listed else 2)
        assert forbidden.connections == 0


@pytest.fixture
def internet(tmp_path: Path) -> PretendedInternet:
    return PretendedInternet(tmp_path / "internet")

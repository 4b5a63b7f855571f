"""What a node opens and what it refuses, as it is configured: on create, on queue, and where a redirect leads."""

import json
from pathlib import Path
from urllib.parse import quote

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import PATIENT, at_rest, create, hear_to_end, refusal
from tests.support.e2e_sockets import following, listening
from tests.support.hls import serve_text
from tests.support.http_client import Headers
from tests.support.media_server import Canary, MediaServer, media, redirect
from tests.support.pretended_internet import PUBLIC, PretendedInternet
from tests.support.running_node import RunningNode, running_node

SOUND = music(0.3)


async def refused(node: RunningNode, uri: str, headers: Headers = ()) -> tuple[int, str, str]:
    """Status, code and message of what create answers, and alike the queue of the player `queue`, and others."""
    by_create = await node.request("POST", "/v0/players", {"id": "new", "uri": uri}, headers=headers)
    for by_other in (
        await node.request("POST", "/v0/players/queue/queue", {"uri": uri, "metadata": {}}, headers=headers),
        await node.request("POST", "/v0/players/queue/overlays", {"uri": uri}, headers=headers),
        await node.request("GET", f"/v0/loadtracks?identifier={quote(uri, safe='')}", headers=headers),
    ):
        assert refusal(by_other) == refusal(by_create), uri
    return *refusal(by_create), by_create.json()["message"]


async def test_patterns_and_hosts(tmp_path: Path) -> None:
    policy = {
        "blocked": ["secret", r"^evil\.example$"],
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
            server.url("/%73ecret.wav"),  # secret, written in another way
            "http://EVIL.example./music",
            "http://other.example/?music",  # allowed is not looked for in the query
        ):
            status, code, message = await refused(node, uri)
            assert (status, code) == (403, "source_blocked"), uri
            assert "sources." in message
        song = server.serve("/song.wav", media(wav(SOUND)))
        server.serve("/to-song", redirect("/song.wav"))
        for uri in (
            server.serve("/to-hidden", redirect("/secret.wav")),
            server.serve("/to-other", redirect(f"http://localhost:{forbidden.port}/song.wav")),
        ):
            heard = await hear_to_end(node, "p", uri, song)
            assert heard.codes == ["source_blocked"]
            assert heard.pcm == pcm_of(SOUND)
            assert refusal(await node.request("GET", f"/v0/loadtracks?identifier={uri}")) == (403, "source_blocked")
        assert (await hear_to_end(node, "song", server.url("/to-song"))).pcm == pcm_of(SOUND)
        assert "/secret.wav" not in {request.path for request in server.requests}
        assert forbidden.connections == 0
        await create(node, "allowed", "http://other.example/music?x")
        await create(node, "host", "https://Live.RADIO.example./x")


async def test_auto_opens_nothing_to_what_came_through_a_proxy_whenever_it_is_opened(tmp_path: Path) -> None:
    """By itself, by a redirect, a name, the entries of a playlist; at once and from the queue."""
    internet = PretendedInternet(tmp_path / "internet")
    internet.name("private.example", ["127.0.0.1"])
    proxied: Headers = (("X-Forwarded-For", "203.0.113.7"),)
    (tmp_path / "song.wav").write_bytes(wav(SOUND))
    (tmp_path / "list.m3u").write_text("song.wav\n", encoding="utf-8")
    async with (
        MediaServer(host=PUBLIC) as server,
        Canary() as forbidden,
        running_node(tmp_path, PATIENT, variables=internet.variables) as node,
    ):
        await create(node, "queue", "song.wav")
        private = f"http://127.0.0.1:{forbidden.port}/x.wav"
        for header in (*proxied, ("forwarded", "for=_gazonk"), ("Via", "1.1 x")):
            for uri, key in (("song.wav", "files"), ("list.m3u", "files"), (private, "private_networks")):
                status, code, message = await refused(node, uri, (header,))
                assert (status, code) == (403, "source_refused"), header
                assert f"sources.{key}" in message
        song = server.serve("/song.wav", media(wav(SOUND)))
        listed = serve_text(server, "/list", f"{private}\nfile://{tmp_path}/song.wav\n{song}\n", "audio/x-mpegurl")
        bad = [server.serve("/away", redirect(private)), f"http://private.example:{forbidden.port}/x.wav"]
        for number, uri in enumerate((*bad, listed)):
            player = f"p{number}"
            answer = await node.request("POST", "/v0/players", {"id": player, "uri": uri}, headers=proxied)
            assert answer.status == 201
            for more in (uri, song):
                body = {"uri": more, "metadata": {}}
                await node.request("POST", f"/v0/players/{player}/queue", body, headers=proxied)
            async with following(node, player, "?since=0") as tape, listening(node, player) as ear:
                await at_rest(tape)
                await node.request("DELETE", f"/v0/players/{player}")
                await ear.closed()
                codes = [event["error"]["code"] for event in tape.events if event["op"] == "TrackException"]
                assert codes == ([] if uri is listed else ["source_refused"] * 2)
                assert ear.pcm == pcm_of(SOUND) * (3 if uri is listed else 1)
        assert forbidden.connections == 0
        assert (await hear_to_end(node, "song", "list.m3u")).pcm == pcm_of(SOUND)
    assert len([line for line in node.log if "came through a proxy" in line and "refused with" not in line]) == 1

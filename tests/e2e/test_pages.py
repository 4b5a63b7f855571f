"""Pages against a whole node: played, loaded, resolved, and what clients read when that fails."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.audio_files import mp3, tone
from tests.support.command import run_tonearm
from tests.support.e2e_sockets import following
from tests.support.media_server import Canary, MediaServer, media, redirect
from tests.support.resolving import html
from tests.support.running_node import RunningNode, running_node

GENERIC = '[resolver]\nenabled = true\nsites = ["generic"]\ntimeout_ms = 60000\n'


async def resolve(node: RunningNode, url: str, accept: str = "*/*") -> Any:
    return await node.request("GET", f"/v0/resolve?url={quote(url, safe='')}", headers=(("Accept", accept),))


async def test_what_loadtracks_and_resolve_tell(tmp_path: Path) -> None:
    async with (
        MediaServer() as server,
        Canary() as canary,
        running_node(tmp_path, GENERIC + '[sources]\nblocked = ["secret"]\n') as node,
    ):
        song = server.serve("/song.mp3", media(mp3(tone(440, 2.0, 44_100), tags={"artist": "A band"})))
        page = server.serve("/page", html("<title>A page</title>", '<audio src="song.mp3"></audio>'))
        empty = server.serve("/empty", html("<title>Nothing</title>"))
        loaded = (await node.request("GET", f"/v0/loadtracks?identifier={quote(page, safe='')}")).json()["data"]["info"]
        assert (loaded["identifier"], loaded["uri"]) == (page, song)
        assert (loaded["title"], loaded["author"]) == ("A page", "A band")

        answer = await resolve(node, page)
        assert (answer.status, answer.body.decode()) == (200, song)
        assert (await resolve(node, page, "application/json")).json() == {"url": song}
        assert (await resolve(node, song)).body.decode() == song
        assert (await resolve(node, str(tmp_path / "a.mp3"))).body.decode() == str(tmp_path / "a.mp3")

        failed = await resolve(node, empty)
        assert (failed.status, failed.json()["code"]) == (400, "resolve_failed")
        assert "Unsupported URL" in failed.json()["message"]
        await node.request("POST", "/v0/players", {"id": "p", "uri": empty})
        async with following(node, "p", "?since=0") as tape:
            error = (await tape.until("TrackException"))["error"]
        assert (error["code"], error["stage"]) == ("resolve_failed", "resolve")
        assert "Unsupported URL" in error["message"]
        for url, code in (
            (server.url("/secret"), "source_blocked"),
            (server.serve("/to-secret", redirect("/secret")), "source_blocked"),
            (server.serve("/to-node", redirect(f"{node.url}/v0/players")), "source_refused"),
        ):
            refused = await resolve(node, url)
            assert (refused.status, refused.json()["code"]) == (403, code), url
        for target in ("/v0/resolve", "/v0/resolve?url=ytsearch%3Ax"):
            bad = await node.request("GET", target)
            assert (bad.status, bad.json()["code"]) == (400, "bad_request")
        assert canary.connections == 0


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("check-config",)], ids=lambda command: command[0])
def test_a_site_that_is_none_keeps_the_node_from_starting(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "tonearm.toml").write_text('[resolver]\nenabled = true\nsites = ["yuotube"]\n')
    ended = run_tonearm(*command, folder=tmp_path)
    assert ended.returncode == 2
    assert "tonearm.toml: resolver.sites: yt-dlp has no extractor named 'yuotube'" in ended.stderr
    assert "Traceback" not in ended.stderr

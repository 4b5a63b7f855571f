"""Pages against a whole node: played, loaded, resolved, and what clients read when that fails."""

from pathlib import Path
from urllib.parse import quote

from tests.support.audio_files import mp3, tone
from tests.support.e2e_players import create, refusal
from tests.support.e2e_sockets import following
from tests.support.http_client import Answer
from tests.support.media_server import MediaServer, media, redirect
from tests.support.resolving import html
from tests.support.running_node import running_node

GENERIC = '[resolver]\nenabled = true\nsites = ["generic"]\ntimeout_ms = 60000\n'


async def test_what_loadtracks_and_resolve_tell(tmp_path: Path) -> None:
    config = GENERIC + '[sources]\nblocked = ["secret"]\n'
    async with MediaServer() as server, running_node(tmp_path, config) as node:

        async def resolve(url: str, accept: str = "*/*") -> Answer:
            return await node.request("GET", f"/v0/resolve?url={quote(url, safe='')}", headers=(("Accept", accept),))

        song = server.serve("/song.mp3", media(mp3(tone(440, 2.0, 44_100), tags={"artist": "A band"})))
        page = server.serve("/page", html("<title>A page</title>", '<audio src="song.mp3"></audio>'))
        empty = server.serve("/empty", html("<title>Nothing</title>"))
        loaded = (await node.request("GET", f"/v0/loadtracks?identifier={quote(page, safe='')}")).json()["data"]["info"]
        assert (loaded["identifier"], loaded["uri"]) == (page, song)
        assert (loaded["title"], loaded["author"]) == ("A page", "A band")
        for url, found in ((page, song), (song, song), (str(tmp_path / "a.mp3"), str(tmp_path / "a.mp3"))):
            answer = await resolve(url)
            assert (answer.status, answer.body.decode()) == (200, found)
        assert (await resolve(page, "application/json")).json() == {"url": song}

        failed = await resolve(empty)
        assert refusal(failed) == (400, "resolve_failed")
        assert "Unsupported URL" in failed.json()["message"]
        await create(node, "p", empty)
        async with following(node, "p", "?since=0") as tape:
            error = (await tape.until("TrackException"))["error"]
        assert (error["code"], error["stage"]) == ("resolve_failed", "resolve")
        assert "Unsupported URL" in error["message"]
        for url, refused in (
            (server.serve("/to-secret", redirect("/secret")), (403, "source_blocked")),
            (server.serve("/to-node", redirect(f"{node.url}/v0/players")), (403, "source_refused")),
            ("ytsearch:x", (400, "bad_request")),
        ):
            assert refusal(await resolve(url)) == refused

"""Links and requests may hold passwords and tokens, which not all who read the log may know."""

from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.e2e_players import PATIENT, until_state
from tests.support.e2e_sockets import listening
from tests.support.http_client import websocket
from tests.support.media_server import MediaServer, media
from tests.support.running_node import running_node

LINKS = (
    "/a.mp3?token=abc SECRET",
    "/a b.mp3?SECRET",
    "/a b.mp3#SECRET",
    "/a.mp3?token=a\u2003SECRET",
)
NO_LINKS = ("radio.example/a b?token=abc SECRET", "http://no host/a b?token=abc SECRET")
DEBUG = '[logging]\nlevel = "debug"\n'


@pytest.mark.parametrize("files", ["true", "false"])
async def test_links_are_logged_without_what_may_be_secret_whatever_blanks_are_in_them(
    tmp_path: Path, files: str
) -> None:
    config = f"{PATIENT}{DEBUG}[sources]\nfiles = {files}\n"
    async with MediaServer() as server, running_node(tmp_path, config) as node:
        links = (*map(server.url, LINKS), *NO_LINKS)
        listed = "\n".join((*links, *LINKS))
        (tmp_path / "list.m3u").write_text(f"#EXTM3U\n{listed}\n", encoding="utf-8")
        server.serve("/list.m3u?token=abc%20SECRET", media(f"#EXTM3U\n{listed}\nfile:///a b?SECRET\n".encode()))
        for number, link in enumerate(links):
            await node.request("GET", f"/v0/loadtracks?identifier={quote(link)}")
            answer = await node.request("POST", "/v0/players", {"id": f"p{number}", "uri": link})
            if answer.status == 201:
                await node.request("POST", f"/v0/players/p{number}/overlays", {"uri": link})
                async with listening(node, f"p{number}"):
                    await until_state(node, f"p{number}", lambda state: state["state"] == "failed")
        for number, listing in enumerate((server.url("/list.m3u?token=abc SECRET"), "list.m3u")):
            await node.request("POST", "/v0/players", {"id": f"list{number}", "uri": listing})
        # A page may put a secret into a subprotocol.
        async with websocket(node.port, "/v0/events", headers=(("Sec-WebSocket-Protocol", "SECRET"),)):
            pass
        named = server.url("/a b.mp3")
    assert any(f"track failed (http_status): {named}: " in line for line in node.log)
    assert any("an entry of a playlist is left out: " in line for line in node.log)
    assert not [line for line in node.log if "SECRET" in line]

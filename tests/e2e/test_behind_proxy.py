"""A node behind a real nginx and a real Caddy, configured as docs/proxies.md says."""

import asyncio
import contextlib
import io
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.certificate import certificate_file, trusting_client
from tests.support.e2e_players import PATIENT, create, hear_to_end
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.media_server import MediaServer, media
from tests.support.missing_programs import skip_for_want_of
from tests.support.readme import REPOSITORY, blocks
from tests.support.running_node import running_node

# Debian keeps servers where only root's PATH leads.
PATH: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


class ReverseProxy(NamedTuple):
    """`around` is the whole file about `@documented`, and `here` says what stands in it for what the page has; the
    program with `arguments` stays in the foreground and logs to stderr."""

    name: str
    block: str
    here: Mapping[str, str]
    around: str
    arguments: tuple[str, ...]


NGINX: Final = ReverseProxy(
    "nginx",
    "nginx",
    {
        "listen 443 ssl;": "listen 127.0.0.1:@port ssl;",
        "/etc/ssl/radio.example.pem": "@certificate",
        "/etc/ssl/radio.example.key": "@certificate",
    },
    f"{'user root;' if os.geteuid() == 0 else ''}daemon off; pid @folder/pid; error_log stderr warn;\nevents {{}}\n"
    "http {\naccess_log off;\nclient_body_temp_path @folder/body; proxy_temp_path @folder/proxy;\n"
    "fastcgi_temp_path @folder/f; uwsgi_temp_path @folder/u; scgi_temp_path @folder/s;\n@documented}\n",
    ("-p", "@folder", "-c", "@folder/proxy.conf", "-e", "stderr"),
)
CADDY: Final = ReverseProxy(
    "caddy",
    "caddyfile",
    {"radio.example {": "https://:@port {\nbind 127.0.0.1\ntls @certificate @certificate"},
    "{\nadmin off\nauto_https off\nskip_install_trust\nstorage file_system @folder\n}\n@documented",
    ("run", "--adapter", "caddyfile", "--config", "@folder/proxy.conf"),
)


@asynccontextmanager
async def running_proxy(
    proxy: ReverseProxy, folder: Path, node_port: int, in_location: str = "", **headers: str
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of `proxy`, which passes everything on to the node on `node_port`. `in_location` are further lines for
    nginx. Skips the test when the program is not installed."""
    program = shutil.which(proxy.name, path=PATH)
    if program is None:
        skip_for_want_of(proxy.name)
    os.makedirs(folder, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    (documented,) = blocks(proxy.block, (REPOSITORY / "docs" / "proxies.md").read_text(encoding="utf-8"))
    for written, meant in {**proxy.here, "127.0.0.1:2333": f"127.0.0.1:{node_port}"}.items():
        assert documented.count(written) == 1, written
        documented = documented.replace(written, meant)
    documented = documented.replace("location / {", "location / {\n" + in_location)

    def filled(text: str) -> str:
        for name, value in (("port", port), ("certificate", certificate_file(folder)), ("folder", folder)):
            text = text.replace(f"@{name}", str(value))
        return text

    (folder / "proxy.conf").write_text(filled(proxy.around.replace("@documented", documented)), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(program, *map(filled, proxy.arguments)),
        env={**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )

    async def listens() -> bool:
        assert process.returncode is None, "the proxy did not start"
        with contextlib.suppress(OSError):
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
            return True
        return False

    try:
        await eventually(listens, "the proxy listens")
        connector = aiohttp.TCPConnector(ssl=trusting_client())
        async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", headers=headers, connector=connector) as client:
            yield client
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def status(client: aiohttp.ClientSession, method: str, path: str, **more: Any) -> int:
    async with client.request(method, path, **more) as answer:
        return answer.status


@pytest.mark.parametrize("proxy", [NGINX, CADDY], ids=lambda proxy: proxy.name)
async def test_a_browser_hears_through_it_and_opens_no_files_and_no_private_addresses(
    proxy: ReverseProxy, tmp_path: Path
) -> None:
    sound = music(1.0)
    (tmp_path / "song.wav").write_bytes(wav(sound))
    browser = {"Host": "radio.example", "Origin": "https://radio.example", "Sec-Fetch-Site": "same-origin"}
    async with (
        running_node(tmp_path, f'[server]\nhosts = ["radio.example"]\n{PATIENT}') as node,
        running_proxy(proxy, tmp_path / "proxy", node.port, **browser) as client,
        MediaServer() as server,
    ):
        foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert await status(client, "GET", "/v0/players", headers=foreign) == 403
        assert await status(client, "GET", "/v0/players", headers={"Host": "evil.example"}) == 403
        named = r"request \w+ refused with 403 foreign_origin: GET /v0/players from 127\.0\.0\.1 for 127\.0\.0\.1: "
        await eventually(lambda: any(re.search(named, line) for line in node.log), "the refusal names the client")

        await create(node, "a:b~c", "song.wav")
        player, song = "/v0/players/a:b~c", server.serve("/song.wav", media(wav(sound)))
        for uri, key in (("song.wav", "sources.files"), (song, "sources.private_networks")):
            for path, body in (("/v0/players", {"id": "q", "uri": uri}), (f"{player}/queue", {"uri": uri})):
                async with client.post(path, json=body) as answer:
                    refusal = await answer.json()
                    assert (answer.status, refusal["code"]) == (403, "source_refused")
                    assert key in refusal["message"]
        assert not server.requests
        # To programs on this machine they stay open.
        assert (await hear_to_end(node, "link", song, "song.wav")).pcm == pcm_of(sound) * 2

        metadata = {"value": {"text": "ü" * 1000}}
        assert await status(client, "PATCH", f"{player}/metadata", json=metadata) == 204
        async with client.ws_connect(f"{player}/events?since=0") as events, client.ws_connect(f"{player}/ws") as audio:
            heard = b""
            while len(heard) < len(pcm_of(sound)):
                heard += await audio.receive_bytes()
            assert heard[: len(pcm_of(sound))] == pcm_of(sound)
            async with asyncio.timeout(PATIENCE_S):
                while (await events.receive_json())["op"] != "TrackEnd":
                    pass
            async with client.get(f"{player}/stream.wav") as stream:
                assert stream.headers["Content-Type"] == "audio/wav"
                assert len(await stream.content.readexactly(44 + 50 * 3840)) == 44 + 50 * 3840
            assert await status(client, "DELETE", player) == 204
            assert (await audio.receive()).data == 1000
        # The node's own words, not the proxy's.
        async with client.post("/v0/players", data=io.BytesIO(bytes(1024 * 1024 + 1))) as answer:
            assert (answer.status, (await answer.json())["code"]) == (413, "body_too_large")
    (line,) = (line for line in node.log if '"auto"' in line)
    assert "sources.files" in line
    assert "sources.private_networks" in line


async def test_nginx_may_ask_for_passwords_of_its_own(tmp_path: Path) -> None:
    (users := tmp_path / "users").write_text("ada:{PLAIN}hush\n", encoding="utf-8")
    (lines,) = blocks("nginx", (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8"))
    lines = lines.replace("/etc/nginx/tonearm.users", str(users))
    async with (
        running_node(tmp_path, '[server]\npassword = "sesame"\n') as node,
        running_proxy(NGINX, tmp_path / "proxy", node.port) as open_client,
        running_proxy(NGINX, tmp_path / "asking", node.port, lines) as client,
    ):
        for password, answer in (("wrong", 401), ("sesame", 200)):  # of the node, which is passed on
            assert await status(open_client, "GET", "/info", headers={"Authorization": password}) == answer
        assert await status(client, "GET", "/v0/players") == 401
        for password, answer in (("sesame", 401), ("hush", 200)):
            headers = {"Authorization": aiohttp.encode_basic_auth("ada", password)}
            assert await status(client, "GET", "/v0/players", headers=headers) == answer

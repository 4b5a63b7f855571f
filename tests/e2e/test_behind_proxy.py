"""A node behind a real nginx and a real Caddy, configured as docs/proxies.md says."""

import asyncio
import contextlib
import io
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import aiohttp
import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.certificate import certificate_file, trusting_client
from tests.support.e2e_players import PATIENT, create, hear_to_end
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.media_server import MediaServer, media
from tests.support.missing_programs import skip_for_want_of
from tests.support.readme import REPOSITORY, blocks
from tests.support.running_node import RunningNode, running_node

# Debian keeps servers where only root's PATH leads.
_PATH: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


@dataclass(frozen=True)
class ReverseProxy:
    """`configuration(folder, documented)` is the whole file; `here(port, certificate)` what stands in it for what the
    page has; `arguments(folder, file)` begin the program, which stays in the foreground and logs to stderr.
    """

    name: str
    block: str
    here: Callable[[int, Path], Mapping[str, str]]
    configuration: Callable[[Path, str], str]
    arguments: Callable[[Path, Path], Sequence[str]]

    @property
    def program(self) -> str | None:
        return shutil.which(self.name, path=_PATH)


def _nginx_file(folder: Path, documented: str) -> str:
    temporary = "\n".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    return (
        f"{'user root;' if os.geteuid() == 0 else ''}daemon off; pid {folder}/pid; error_log stderr warn;\n"
        "events {}\n"
        f"http {{\naccess_log off;\nclient_body_temp_path {folder}/body;\n{temporary}\n{documented}}}\n"
    )


PROXIES: Final[Mapping[str, ReverseProxy]] = MappingProxyType(
    {
        "nginx": ReverseProxy(
            "nginx",
            "nginx",
            lambda port, certificate: {
                "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
                "/etc/ssl/radio.example.pem": str(certificate),
                "/etc/ssl/radio.example.key": str(certificate),
            },
            _nginx_file,
            lambda folder, file: ("-p", str(folder), "-c", str(file), "-e", "stderr"),
        ),
        "caddy": ReverseProxy(
            "caddy",
            "caddyfile",
            lambda port, certificate: {
                "radio.example {": f"https://:{port} {{\nbind 127.0.0.1\ntls {certificate} {certificate}"
            },
            lambda folder, documented: (
                f"{{\nadmin off\nauto_https off\nskip_install_trust\nstorage file_system {folder}\n}}\n{documented}"
            ),
            lambda folder, file: ("run", "--adapter", "caddyfile", "--config", str(file)),
        ),
    }
)


def documented_configuration(block: str) -> str:
    """The configuration in the code block of this kind in docs/proxies.md."""
    text = (REPOSITORY / "docs" / "proxies.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{block}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


@asynccontextmanager
async def running_proxy(proxy: ReverseProxy, folder: Path, node_port: int, in_location: str = "") -> AsyncIterator[int]:
    """The TLS port of `proxy` on 127.0.0.1, which passes everything on to the node on `node_port`. `in_location` are
    further lines for nginx.

    Skips the test when the program is not installed.
    """
    if proxy.program is None:
        skip_for_want_of(proxy.name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    file = _write_configuration(proxy, folder, port, node_port, in_location)
    process = await asyncio.create_subprocess_exec(
        *(proxy.program, *proxy.arguments(folder, file)),
        env={**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await asyncio.wait_for(_listens(port, process), PATIENCE_S)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


def _write_configuration(proxy: ReverseProxy, folder: Path, port: int, node_port: int, in_location: str) -> Path:
    folder.mkdir(exist_ok=True)
    documented = documented_configuration(proxy.block).replace("location / {", "location / {\n" + in_location)
    here = {**proxy.here(port, certificate_file(folder)), "127.0.0.1:2333": f"127.0.0.1:{node_port}"}
    for written, meant in here.items():
        assert documented.count(written) == 1, written
        documented = documented.replace(written, meant)
    file = folder / "proxy.conf"
    file.write_text(proxy.configuration(folder, documented), encoding="utf-8")
    return file


async def _listens(port: int, process: asyncio.subprocess.Process) -> None:
    while True:
        assert process.returncode is None, "the proxy did not start"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


SOUND: Final = music(1.0)
NAMED: Final = '[server]\nhosts = ["radio.example"]\n'


@pytest.fixture(params=PROXIES)
def proxy(request: pytest.FixtureRequest) -> ReverseProxy:
    return PROXIES[request.param]


@asynccontextmanager
async def proxied(
    proxy: ReverseProxy, folder: Path, config: str
) -> AsyncIterator[tuple[RunningNode, aiohttp.ClientSession]]:
    """A node, and a browser-like client that knows the proxy in front of it as https://radio.example."""
    (folder / "song.wav").write_bytes(wav(SOUND))
    async with (
        running_node(folder, config + PATIENT) as node,
        running_proxy(proxy, folder / "proxy", node.port) as port,
        aiohttp.ClientSession(
            f"https://127.0.0.1:{port}",
            headers={"Host": "radio.example", "Origin": "https://radio.example", "Sec-Fetch-Site": "same-origin"},
            connector=aiohttp.TCPConnector(ssl=trusting_client()),
        ) as client,
    ):
        yield node, client


async def status(client: aiohttp.ClientSession, method: str, path: str, **more: Any) -> int:
    async with client.request(method, path, **more) as answer:
        return answer.status


async def test_a_browser_gets_through_once_the_name_is_known(proxy: ReverseProxy, tmp_path: Path) -> None:
    async with proxied(proxy, tmp_path, "") as (_, client), client.get("/v0/players") as answer:
        assert answer.status == 403
        refusal = await answer.json()
        assert refusal["code"] == "foreign_origin"
        assert "server.hosts" in refusal["message"]
    async with proxied(proxy, tmp_path, NAMED) as (_, client):
        assert await status(client, "GET", "/v0/players") == 200
        foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert await status(client, "GET", "/v0/players", headers=foreign) == 403
        assert await status(client, "GET", "/v0/players", headers={"Host": "evil.example"}) == 403


async def test_everything_works_through_it(proxy: ReverseProxy, tmp_path: Path) -> None:
    async with proxied(proxy, tmp_path, f'{NAMED}[sources]\nfiles = ["{tmp_path}"]\n') as (node, client):
        new = {"id": "a:b~c", "uri": "song.wav", "metadata": {"text": "ü" * 1000}}
        assert await status(client, "POST", "/v0/players", json=new) == 201
        player = "/v0/players/a:b~c"
        async with client.ws_connect(f"{player}/events?since=0") as events, client.ws_connect(f"{player}/ws") as audio:
            heard = b""
            while len(heard) < len(pcm_of(SOUND)):
                heard += (await audio.receive_bytes())[:3840]
            assert heard[: len(pcm_of(SOUND))] == pcm_of(SOUND)
            kinds = []
            while "TrackEnd" not in kinds:
                kinds.append((await events.receive_json())["op"])
            async with client.get(f"{player}/stream.wav") as stream:
                assert stream.headers["Content-Type"] == "audio/wav"
                assert len(await stream.content.readexactly(44 + 50 * 3840)) == 44 + 50 * 3840
            assert await status(client, "DELETE", player) == 204
            assert (await audio.receive()).data == 1000
        # The node's own words, not the proxy's.
        async with client.post("/v0/players", data=io.BytesIO(bytes(1024 * 1024 + 1))) as answer:
            assert (answer.status, (await answer.json())["code"]) == (413, "body_too_large")
        async with client.get("/v0/decodetrack", params={"encodedTrack": "L2E=+"}) as answer:
            assert answer.status in (200, 400)
        await create(node, "direct", "song.wav")  # and it is there for others, too


async def test_what_comes_through_it_opens_no_files_and_no_private_addresses(
    proxy: ReverseProxy, tmp_path: Path
) -> None:
    async with MediaServer() as server, proxied(proxy, tmp_path, NAMED) as (node, client):
        song = server.serve("/song.wav", media(wav(SOUND)))
        await create(node, "p", "song.wav")
        for uri, key in (("song.wav", "sources.files"), (song, "sources.private_networks")):
            for path, body in (("/v0/players", {"id": "q", "uri": uri}), ("/v0/players/p/queue", {"uri": uri})):
                async with client.post(path, json=body) as answer:
                    assert answer.status == 403
                    refusal = await answer.json()
                    assert refusal["code"] == "source_refused"
                    assert key in refusal["message"]
        assert not server.requests
        # To programs on this machine they stay open.
        assert (await hear_to_end(node, "file", "song.wav")).pcm == pcm_of(SOUND)
        assert (await hear_to_end(node, "link", song)).pcm == pcm_of(SOUND)
    (line,) = (line for line in node.log if '"auto"' in line)
    assert "sources.files" in line
    assert "sources.private_networks" in line


async def test_a_password_is_passed_on_and_a_refusal_names_the_client(proxy: ReverseProxy, tmp_path: Path) -> None:
    async with proxied(proxy, tmp_path, '[server]\npassword = "sesame"\n') as (node, client):
        assert await status(client, "GET", "/info") == 401
        assert await status(client, "GET", "/info", headers={"Authorization": "sesame"}) == 200
        named = r"request \w+ refused with 401 unauthorized: GET /info from 127\.0\.0\.1 for 127\.0\.0\.1: "
        await eventually(lambda: any(re.search(named, line) for line in node.log), "the refusal is logged")


async def test_nginx_may_ask_for_passwords_of_its_own(tmp_path: Path) -> None:
    (users := tmp_path / "users").write_text("ada:{PLAIN}hush\n", encoding="utf-8")
    (lines,) = blocks("nginx", (REPOSITORY / "docs" / "operating.md").read_text(encoding="utf-8"))
    lines = lines.replace("/etc/nginx/tonearm.users", str(users))
    async with (
        running_node(tmp_path, '[server]\npassword = "sesame"\n') as node,
        running_proxy(PROXIES["nginx"], tmp_path / "proxy", node.port, lines) as port,
        aiohttp.ClientSession(
            f"https://127.0.0.1:{port}", connector=aiohttp.TCPConnector(ssl=trusting_client())
        ) as client,
    ):
        assert await status(client, "GET", "/v0/players") == 401
        for password, answer in (("sesame", 401), ("hush", 200)):
            headers = {"Authorization": aiohttp.encode_basic_auth("ada", password)}
            assert await status(client, "GET", "/v0/players", headers=headers) == answer

"""A real nginx or Caddy in front of a node, configured as docs/proxies.md says."""

import asyncio
import contextlib
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.support.certificate import certificate_file
from tests.support.eventually import PATIENCE_S
from tests.support.missing_programs import skip_for_want_of
from tests.support.readme import REPOSITORY

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
async def running_proxy(proxy: ReverseProxy, folder: Path, node_port: int) -> AsyncIterator[int]:
    """The TLS port of `proxy` on 127.0.0.1, which passes everything on to the node on `node_port`.

    Skips the test when the program is not installed.
    """
    if proxy.program is None:
        skip_for_want_of(proxy.name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    file = _write_configuration(proxy, folder, port, node_port)
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


def _write_configuration(proxy: ReverseProxy, folder: Path, port: int, node_port: int) -> Path:
    folder.mkdir(exist_ok=True)
    documented = documented_configuration(proxy.block)
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

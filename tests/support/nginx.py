"""A real nginx in front of a node, configured as docs/proxies.md says."""

import asyncio
import contextlib
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.certificate import certificate_file
from tests.support.command import PATIENCE_S
from tests.support.readme import REPOSITORY

# Debian keeps it where only root's PATH leads.
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

_MAIN = """\
{user}daemon off;
pid {folder}/nginx.pid;
error_log stderr warn;
worker_processes 1;
events {{}}
http {{
access_log off;
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi;
scgi_temp_path {folder}/scgi;
{documented}
}}
"""


def documented_configuration() -> str:
    """The configuration that docs/proxies.md gives for nginx."""
    text = (REPOSITORY / "docs" / "proxies.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```nginx\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(block)


def _write_configuration(folder: Path, port: int, node_port: int) -> Path:
    folder.mkdir(exist_ok=True)
    certificate = certificate_file(folder)
    documented = documented_configuration()
    for written, here in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("127.0.0.1:2333", f"127.0.0.1:{node_port}"),
        ("/etc/ssl/radio.example.pem", str(certificate)),
        ("/etc/ssl/radio.example.key", str(certificate)),
    ):
        assert documented.count(written) == 1, written
        documented = documented.replace(written, here)
    configuration = folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""
    configuration.write_text(_MAIN.format(user=user, folder=folder, documented=documented), encoding="utf-8")
    return configuration


@asynccontextmanager
async def running_nginx(folder: Path, node_port: int) -> AsyncIterator[int]:
    """The TLS port of an nginx on 127.0.0.1 that passes everything on to the node on `node_port`."""
    assert NGINX is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    configuration = _write_configuration(folder, port, node_port)
    process = await asyncio.create_subprocess_exec(
        *(NGINX, "-p", str(folder), "-c", str(configuration), "-e", "stderr"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await asyncio.wait_for(_listens(port, process), PATIENCE_S)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        _, log = await process.communicate()
    assert b"[emerg]" not in log, log.decode()
    assert b"[error]" not in log, log.decode()


async def _listens(port: int, process: asyncio.subprocess.Process) -> None:
    while True:
        assert process.returncode is None, "nginx did not start"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return

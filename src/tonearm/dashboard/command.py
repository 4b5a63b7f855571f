"""`tonearm dashboard`: the page for nodes with passwords or on other machines, served to this machine's browser.

The password goes from this process to the node, and never into the page or an address.
"""

import asyncio
import os
import signal
import sys
import webbrowser
from collections.abc import Sequence

from aiohttp import web

from tonearm.core.source_uri import in_url, is_loopback
from tonearm.dashboard.page_files import ShownNode, page_files
from tonearm.dashboard.page_server import PageRunner, PageServer, Visitors, is_host_header
from tonearm.dashboard.passing_on import KnownNode, PassingOn, is_node_address
from tonearm.process import ExitCode

_SHUTDOWN_PATIENCE_S = 0.5
_ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


class WrongOptions(Exception):
    """The options cannot be used. The message says what to change."""


def dashboard(
    urls: Sequence[str],
    passwords: Sequence[str],
    *,
    host: str,
    port: int,
    own_password: str | None,
    names: Sequence[str] = (),
    opens_browser: bool,
) -> int:
    """Serves until SIGTERM or Ctrl-C, and returns the exit code.

    `passwords` is one for all nodes, or one for each of `urls` in their order, "" for none; `own_password` that of the
    page itself, if any. `names` are those of a proxy with TLS in front of it.
    """
    try:
        nodes = _known_nodes(urls, passwords)
        if not is_loopback(host) and not own_password:
            raise WrongOptions(
                f"at {host} other machines can reach the dashboard, and with it the nodes; give it a password "
                "of its own with --own-password-file, or reach this machine by `ssh -L 2334:localhost:2334`"
            )
        for name in names:
            if not is_host_header(name):
                raise WrongOptions(f"{name} is no name for --name; it looks like radio.example, or radio.example:8443")
        visitors = Visitors(host, own_password or "", names=names)
        address = f"https://{names[0]}" if names else ""
        return asyncio.run(_serve(visitors, nodes, host, port, address, opens_browser))
    except WrongOptions as error:
        sys.stderr.write(f"tonearm: {error}\n")
        return ExitCode.WRONG_USE


def _known_nodes(urls: Sequence[str], passwords: Sequence[str]) -> list[KnownNode]:
    """Each node with its password. Raises `WrongOptions`."""
    for url in urls:
        if not is_node_address(url):
            raise WrongOptions(f"{url} is no address of a node; it looks like http://127.0.0.1:2333")
    if len(passwords) not in (1, len(urls)):
        raise WrongOptions(
            f"there are {len(urls)} nodes and {len(passwords)} password files; give one for all, or one each"
        )
    each = [*passwords] if len(passwords) > 1 else [*passwords] * len(urls)
    return [KnownNode(url, password) for url, password in zip(urls, each, strict=True)]


async def _serve(
    visitors: Visitors, nodes: Sequence[KnownNode], host: str, port: int, address: str, opens_browser: bool
) -> int:
    """`address` is that of a proxy through which the browser reaches the page; empty without a proxy."""
    stop = asyncio.Event()
    for stopping in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stopping, stop.set)
    shown = [
        ShownNode(node.url, f"../nodes/{number}", stream_path=f"../listen/{visitors.stream_key}/{number}")
        for number, node in enumerate(nodes)
    ]
    async with PassingOn(nodes) as passing_on:
        server = PageServer(visitors, page_files(shown), passing_on)
        runner = PageRunner(server.application(), shutdown_timeout=_SHUTDOWN_PATIENCE_S)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port)
            try:
                await site.start()
            except OSError as error:
                # The system's own words repeat the address; a name's look-up has a negative number.
                reason = (
                    os.strerror(error.errno).lower() if error.errno is not None and error.errno > 0 else error.strerror
                )
                raise WrongOptions(f"cannot listen on {host}:{port}: {reason}; choose another --port") from error
            name = "localhost" if is_loopback(host) or host in _ALL_ADDRESSES else in_url(host)
            own_address = f"http://{name}:{site.port}"
            url = f"{address or own_address}/?k={visitors.first_key}"
            listens = f"The proxy reaches the dashboard at {own_address}.\n" if address else ""
            sys.stdout.write(f"Open {url}\n{listens}It works once, in one browser; Ctrl-C ends the dashboard.\n")
            sys.stdout.flush()
            for problem in filter(None, await asyncio.gather(*map(passing_on.refusal, range(len(nodes))))):
                sys.stderr.write(f"tonearm: {problem}\n")
            if opens_browser and _has_display():
                await asyncio.to_thread(webbrowser.open, url)
            await stop.wait()
        finally:
            await runner.cleanup()
    return ExitCode.OK


def _has_display() -> bool:
    """Whether there is a screen. Without one a browser in the terminal would be opened."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))

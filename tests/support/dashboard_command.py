"""`tonearm dashboard` as a running command, before two nodes: one with a password, one without."""

import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp

from tests.support.audio_files import tone, wav
from tests.support.command import RunningTonearm
from tests.support.running_node import RunningNode, running_node


class DashboardCommand:
    """The command with what it printed. `url` is without the key."""

    def __init__(self, process: RunningTonearm, nodes: list[RunningNode]) -> None:
        line = process.stdout.readline().decode()
        found = re.fullmatch(r"Open http://localhost:(\d+)/\?k=([0-9a-f]{32})\n", line)
        assert found is not None, line
        self.port, self.key = int(found[1]), found[2]
        self.url = f"http://localhost:{self.port}"
        self.nodes = nodes

    async def enter(self, browser: aiohttp.ClientSession) -> int:
        """The status of the page for a browser that was given the address."""
        async with browser.get(f"{self.url}/?k={self.key}") as answer:
            return answer.status


@asynccontextmanager
async def dashboard_before_two(tmp_path: Path) -> AsyncIterator[DashboardCommand]:
    """Both nodes have a `tone.wav` of 440 Hz in their folders."""
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
        (folder / "tone.wav").write_bytes(wav(tone(440.0, 60.0)))
    (tmp_path / "password").write_text("sesame\n", encoding="utf-8")
    async with running_node(folders[0], '[server]\npassword = "sesame"\n') as one, running_node(folders[1]) as other:
        with running_dashboard(tmp_path, [one, other]) as page:
            yield page


@contextmanager
def running_dashboard(folder: Path, nodes: list[RunningNode]) -> Iterator[DashboardCommand]:
    """The password of the first node stands in the file `password` of `folder`."""
    process = RunningTonearm(
        *("dashboard", "--no-browser", "--port", "0", "--password-file", str(folder / "password")),
        *(word for node in nodes for word in ("--node", node.url)),
        folder=folder,
    )
    try:
        yield DashboardCommand(process, nodes)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.end()

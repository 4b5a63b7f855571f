"""Which URIs are pages: what an open waits for that at most, whatever becomes of the process that knows."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.support.eventually import PATIENCE_S, eventually
from tonearm.core.source_uri import parse_source_uri
from tonearm.sources.guard import AddressGuard
from tonearm.sources.http.client import HttpClient
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.resolver.pages import PageResolver, ResolverSettings

# Notes each URL that it is asked for. For "/hang" it answers never, for "/die" it ends, and "/page" is a page.
PROGRAM = """
import json, os, sys, time
asked, go = sys.argv[1:3]
with open(os.path.join(os.path.dirname(go), "started"), "a") as file:
    file.write("x")
for line in sys.stdin:
    request = json.loads(line)
    url = request.get("url", "")
    if request["op"] == "sites":
        while not os.path.exists(go):
            time.sleep(0.01)
    else:
        with open(asked, "a") as file:
            file.write(url + chr(10))
    if "/hang" in url:
        time.sleep(600)
    if "/die" in url:
        os._exit(3)
    print(json.dumps({"unknown": [], "searches": {}, "extractor": "fake" if "/page" in url else None}), flush=True)
"""


class Matching:
    """A resolver with this program, which is ready as soon as `go` is there."""

    def __init__(self, folder: Path, *, limit_s: float) -> None:
        self.asked_file, self.go = folder / "asked", folder / "go"
        self.asked_file.touch()
        self.go.touch()
        command = (sys.executable, "-S", "-c", PROGRAM, str(self.asked_file), str(self.go))
        settings = ResolverSettings(command=command, match_timeout_s=limit_s)
        client = HttpClient(AddressGuard(private_networks=True), lambda uri: uri, FetchSettings())
        self.pages = PageResolver(client, lambda uri: uri, settings)

    async def is_page(self, path: str) -> bool | None:
        return await self.pages.is_page(parse_source_uri(f"http://a.example{path}"))

    @property
    def asked(self) -> list[str]:
        return [url.removeprefix("http://a.example") for url in self.asked_file.read_text().split()]


async def test_what_is_known_is_not_asked_again(tmp_path: Path) -> None:
    it = Matching(tmp_path, limit_s=30.0)
    for _ in range(3):
        assert await it.is_page("/page")
        assert not await it.is_page("/song.mp3")
    assert it.asked == ["/page", "/song.mp3"]
    assert not await it.is_page("/die")
    assert await it.is_page("/page/after")
    await it.pages.close()


async def test_who_hangs_holds_nobody_up_for_longer_than_the_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    it = Matching(tmp_path, limit_s=3.0)
    await it.pages.start()
    await eventually(lambda: it.is_page("/page/first"), "a process is ready")
    async with asyncio.timeout(20.0):  # one after the other they would take 150 s
        paths = [f"/{'hang' if number % 2 else 'song'}/{number}" for number in range(100)]
        assert not any(await asyncio.gather(*map(it.is_page, paths)))
    # One line for each that hung, none for those that only waited.
    hung = sum("/hang" in path for path in it.asked)
    assert len(caplog.records) == hung <= 4
    assert "opened as it is: http://a.example/hang/" in caplog.text
    await eventually(lambda: it.is_page("/page"), "another process is ready")
    await it.pages.close()


async def test_a_process_that_starts_slowly_is_not_waited_for_and_starts_all_the_same(tmp_path: Path) -> None:
    it = Matching(tmp_path, limit_s=0.2)
    it.go.unlink()
    assert [await it.is_page("/page") for _ in range(3)] == [None] * 3
    it.go.touch()
    async with asyncio.timeout(PATIENCE_S):
        while not await it.is_page("/page"):
            pass
    assert it.asked_file.with_name("started").read_text() == "x"
    await it.pages.close()

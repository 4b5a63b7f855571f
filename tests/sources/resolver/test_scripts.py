"""Scripts of pages: solved in the resolving process, prepared once by another, kept, and what comes of bad ones."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sources.resolver.test_page_resolver import resolving
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media
from tests.support.player_script import player_script
from tests.support.resolving import fake_sites
from tests.support.sandboxing import SANDBOX
from tonearm.core.failure import PlayFailure
from tonearm.core.opened_source import PREPARING_SCRIPT, Wait
from tonearm.core.source_uri import parse_source_uri
from tonearm.sandbox.report import SandboxMode, resolver_supervision
from tonearm.sources.resolver import javascript
from tonearm.sources.resolver.javascript import ScriptError, prepare, solve
from tonearm.sources.resolver.messages import Message
from tonearm.sources.resolver.pages import ResolverSettings
from tonearm.sources.resolver.scripts import PREPARER, PreparedScripts

# Notes that it was started, waits for leave, and then is the real one.
NOTING = """
import os, sys, time
started, go, *rest = sys.argv[1:]
open(started, "a").write("x")
while not os.path.exists(go):
    time.sleep(0.01)
os.execv(rest[0], rest)
"""


class Preparers:
    def __init__(self, folder: Path, *, may_work: bool = True) -> None:
        self._started, self.go = folder / "started", folder / "go"
        self._started.touch()
        if may_work:
            self.go.touch()
        self.command = (sys.executable, "-S", "-c", NOTING, str(self._started), str(self.go), *PREPARER)

    @property
    def started(self) -> int:
        return len(self._started.read_text())


def settings(preparers: Preparers, **more: Any) -> ResolverSettings:
    """The sandbox is required: what a process cannot do in it fails here."""
    sandbox = SANDBOX if SANDBOX.needs_seccomp else SandboxMode.REQUIRED
    return fake_sites(sites=("fake", "youtube"), preparer=preparers.command, sandbox=sandbox, **more)


def serve(server: MediaServer, script: str, number: int = 1) -> str:
    """The page that has the script run."""
    answer = media(script.encode(), content_type="text/javascript; charset=utf-8", ranges=False)
    server.serve(f"/s/player/{number:08}/player_ias.vflset/en_US/base.js", answer)
    return server.url(f"/fake/script?{number}")


async def test_a_script_is_prepared_once_for_all_that_wait_and_for_the_next_start(
    server: MediaServer, tmp_path: Path
) -> None:
    folder, preparers = tmp_path / "state-scripts", Preparers(tmp_path, may_work=False)
    page = serve(server, player_script(100_000, mark="!"))
    waits: list[Wait] = []
    async with resolving(settings(preparers, scripts_folder=folder, pages_at_once=2)) as it:
        reporting = asyncio.create_task(it.pages.resolve(parse_source_uri(page), waits.append))
        parsed = parse_source_uri(page)
        others = [asyncio.create_task(it.pages.resolve(parsed, for_client=number > 2)) for number in range(5)]
        await eventually(lambda: preparers.started == 1, "it is being prepared")
        await eventually(lambda: waits[-1:] == [PREPARING_SCRIPT], "that is what is waited for")
        # Nobody else waits: those who do have no process meanwhile.
        await eventually(lambda: it.pages.figures.working == it.pages.figures.waiting == 0, "the places are free")
        other = serve(server, player_script(1000, mark="?"), 2)
        server.serve("/api/told", media(b'{"id": "1", "title": "t", "url": "http://a.example/x", "ext": "mp3"}'))
        told = parse_source_uri(server.url("/fake/told"))
        assert (await it.pages.resolve(told, for_client=True)).facts.title == "t"
        preparers.go.touch()
        for found in await asyncio.gather(reporting, *others):
            assert found.facts.title == "cba! zyx"
        assert preparers.started == 1
        assert (await it.resolve(other)).facts.title == "cba? zyx"
        assert (await it.resolve(page)).facts.title == "cba! zyx"
        assert preparers.started == 2
    _, two = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    assert folder.stat().st_mode & 0o777 == 0o700
    two.write_bytes(two.read_bytes()[:-1])  # damaged
    (folder / "rest.part").write_bytes(b"x")
    async with resolving(settings(preparers, scripts_folder=folder)) as it:
        assert (await it.resolve(page)).facts.title == "cba! zyx"
        assert preparers.started == 2
        assert (await it.resolve(other)).facts.title == "cba? zyx"
        assert preparers.started == 3


def check_told(told: PlayFailure, words: str) -> None:
    assert re.search(words, told.message), told
    assert "script" in told.message
    assert "yt-dlp-ejs" in told.message
    assert "yt-dlp-ejs" in told.hint
    assert "browser" not in told.message + told.hint
    assert len(told.message) <= 600


async def test_a_script_that_does_not_work_fails_with_its_name(server: MediaServer, tmp_path: Path) -> None:
    preparers = Preparers(tmp_path)
    bad = {
        "this is {{ none": "SyntaxError",
        player_script(runs="throw new Error('\\u202eoh\\nno')"): r"breaks off: Error: \S* ?oh",
        player_script(runs="var a=[];for(;;)a.push(new Array(1e5))"): "too much memory",
        player_script() + " " * 9_000_000: "more than 8 MiB",
    }
    async with resolving(settings(preparers)) as it:
        for number, (script, words) in enumerate(bad.items(), 1):
            page = serve(server, script, number)
            check_told(await it.failure(page), words)
            started = preparers.started
            check_told(await it.failure(page), words)
            assert preparers.started == started, "what failed is not tried for each page"
        # What can be prepared, and solves nothing: that the page's own process finds.
        page = serve(server, player_script().replace('"alr"', '"alt"'), 9)
        check_told(await it.failure(page), "no solutions")
    dying = (sys.executable, "-c", "import sys; sys.stdin.readline(); print('{}', flush=True); sys.stdin.readline()")
    async with resolving(fake_sites(sites=("fake", "youtube"), preparer=dying)) as it:
        check_told(await it.failure(serve(server, player_script())), "the process that prepares it failed")
    async with resolving(settings(preparers, javascript=False)) as it:
        check_told(await it.failure(serve(server, player_script())), "resolver.javascript is false")


def test_what_a_script_may_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "_PREPARING", (64, 1))
    monkeypatch.setattr(javascript, "_SOLVING", (64, 1))
    for runs, words in (
        ("for(;;);", "longer than 1 s"),
        ("/(a+)+$/.test('a'.repeat(40)+'b')", "longer than 1 s"),
        ("(function f(){f()})()", "stack size"),
        ("'x'.repeat(2**29).split('')", "memory"),
        ("throw {toString(){throw 1}}", "breaks off"),
    ):
        with pytest.raises(ScriptError, match=words):
            prepare(player_script(runs=runs))
    # What is slow only when it solves.
    slow = prepare(player_script().replace("this.p[k]=v}", "this.p[k]=v;for(;;);}"))
    with pytest.raises(ScriptError, match="longer than 1 s"):
        solve(slow, [{"type": "n", "challenges": ["abc"]}])
    with pytest.raises(ScriptError, match="no answer"):
        solve(prepare(player_script()), [{"type": "other", "challenges": ["abc"]}])


def test_what_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "wanted_solver", lambda: "0.8.3")
    for solver, engine, told in (
        ("0.8.0", "0.17.0", ""),
        ("0.7.9", "0.17.0", "this yt-dlp wants yt-dlp-ejs 0.8.3, not 0.7.9"),
        ("", "0.17.0", "yt-dlp-ejs is not installed"),
        ("", "", "yt-dlp-ejs and quickjs-ng are not installed"),
    ):
        monkeypatch.setattr(javascript, "installed", {"yt-dlp-ejs": solver, "quickjs-ng": engine}.get)
        assert javascript.problem() == told


async def test_eight_are_kept_and_their_files(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    echo = f"""
import json, os, sys, time
for line in sys.stdin.buffer:
    size = json.loads(line).get("bytes", 0)
    body = sys.stdin.buffer.read(size)
    while os.path.exists({str(closed)!r}):
        time.sleep(0.01)
    sys.stdout.buffer.write(b'{{"bytes": %d}}\\n' % size + body if size else b"{{}}\\n")
    sys.stdout.buffer.flush()
"""
    kept = PreparedScripts(tmp_path / "s", resolver_supervision(), (sys.executable, "-S", "-c", echo))

    bodies = [b"%d" % number * 10 for number in range(10)]
    for body in bodies:
        reply, preparing = await kept.prepare(body)
        assert reply == Message({"pending": True})
        assert preparing is not None
        await preparing
    keys = [javascript.script_key(javascript.installed(javascript.SOLVER), body) for body in bodies]
    assert [(await kept.reply(key))[0].head for key in keys[:2]] == [{"unknown": True}] * 2
    assert [(await kept.reply(key))[0].body for key in keys[2:]] == bodies[2:]
    assert len(list((tmp_path / "s").iterdir())) == 8
    closed.touch()
    begun = [await kept.prepare(b"%d" % number * 20) for number in range(20)]
    assert [reply.head for reply, _ in begun[16:]] == [{"error": "too many others are being prepared"}] * 4
    closed.unlink()
    await asyncio.gather(*(preparing for _, preparing in begun if preparing is not None))
    await kept.close()

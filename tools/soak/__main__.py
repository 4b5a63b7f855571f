"""Runs the soak and writes its report. The exit code is 1 if something was wrong."""

import argparse
import asyncio
import contextlib
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
from tests.support.media_server import MediaServer
from tests.support.processes import children_of, kind_of, waited_for_cpu_s
from tests.support.running_node import RunningNode, start_node

from tonearm.core.frame import FRAMES_PER_SECOND
from tools.soak.clients import Client, Remembered, churn, end_everything
from tools.soak.levels import Level, Memory, level_of
from tools.soak.listeners import Heard, listen_steadily
from tools.soak.report import Finding, report_html
from tools.soak.sources import STEADY_S, Sources, steady_file

FORMS: Final = ("pcm", "opus", "mp3", "ogg")
CONFIG: Final = '[state]\npath = "state.sqlite"\n[logging]\nlevel = "warning"\n[sources]\nstart_timeout_s = 5\n'
FRAMES_LOST_AT_MOST: Final = 0.001
SAMPLE_S: Final = 2.0
DECODER_KILLED_EVERY_S: Final = 20.0
CALM_S: Final = 30.0
BETWEEN_KILLS_S: Final = 5.0
LEFT_BEHIND_AT_MOST: Final = 1.3  # times what the players that are left need in a new process
IDLE_S: Final = 3.0  # connections of this process, so that they are gone when it is calm
# Until which share of the time players come and go, and how the node ends then. The last node is looked at twice when
# it has calmed down: what it took to grow warm is no leak.
STORY: Final[tuple[tuple[float, signal.Signals | None], ...]] = (
    (0.15, signal.SIGTERM),
    (0.3, signal.SIGKILL),
    (0.4, signal.SIGKILL),
    (0.55, None),
    (0.95, None),
)


class Calm(NamedTuple):
    """Levels of a node that has calmed down: in decoders that had carried more, and in new ones."""

    used: list[Level]
    fresh: list[Level]


class Soak:
    """One run. `node` is the one that runs now; each start is another process on another port."""

    def __init__(self, folder: Path, seconds: float, steady: int, churners: int, seed: int) -> None:
        self._folder = folder
        self._seconds = seconds
        self._steady = steady
        self._churners = churners
        self._seed = seed
        self._dice = random.Random(seed)
        self._begin_s = time.monotonic()
        self._levels: list[Level] = []
        self._moments: list[tuple[float, str]] = []
        self._life = 0
        self._left_out = self._sent = self._decoder_exits = 0
        self._waited_s = 0.0  # nodes, for a core
        self._log: list[str] = []
        self._node = self._start()

    async def run(self) -> tuple[list[Finding], str]:
        """What was found, and the report."""
        heard: list[Heard] = []
        no_limits = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S)
        async with MediaServer() as server, aiohttp.ClientSession(connector=no_limits) as http:
            client = Client(http, lambda: self._node.url)
            sources = Sources(self._folder, server, self._seed)
            uri = steady_file(self._folder)
            sampling = asyncio.create_task(self._sample())
            listening = [
                asyncio.create_task(self._listen(client, number, uri, heard)) for number in range(self._steady)
            ]
            remembered = Remembered(client, uri)
            for share, restart in STORY[:-1]:
                await self._live(client, sources, remembered, share)
                if restart is not None:
                    await self._restart(restart, client, remembered)
            before = await self._calm(client)
            await self._live(client, sources, remembered, STORY[-1][0])
            after = await self._calm(client)
            await self._count(client)
            await _cancel([sampling, *listening])
        await asyncio.to_thread(self._stop, signal.SIGTERM)
        findings = [
            *self._of_listeners(heard),
            Finding(
                "state",
                f"{remembered.changes} changes acknowledged, {remembered.unsaved} of them told as not saved "
                f"yet; lost: {remembered.lost[:3] or 'none'}",
                bool(remembered.lost),
            ),
            *_of_levels(before, after),
            *_of_decoders("before", before),
            *_of_decoders("after", after),
            Finding("answers", f"by status: {dict(sorted(client.statuses.items()))}"),
            *(Finding("answers", text, True) for text in client.failures[:10]),
            *self._of_log(),
        ]
        players = f"{self._steady} steady players, {self._churners} that come and go"
        title = f"Soak of {self._seconds / 60:.3g} minutes: {players}"
        return findings, report_html(f"{title} (seed {self._seed})", findings, self._levels, self._moments)

    async def _live(self, client: Client, sources: Sources, remembered: Remembered, until_share: float) -> None:
        """Players come and go, and decoders are killed, until this share of the time is over."""
        self._life += 1
        lives = [
            churn(client, sources, f"{self._life}-{number}", self._dice.randrange(10**9))
            for number in range(self._churners)
        ]
        tasks = [asyncio.create_task(life) for life in (*lives, self._kill_decoders(), remembered.grow())]
        await asyncio.sleep(max(0.0, self._begin_s + self._seconds * until_share - time.monotonic()))
        await _cancel(tasks)

    async def _restart(self, number: signal.Signals, client: Client, remembered: Remembered) -> None:
        """While one more change after the other is asked for."""
        self._tell(f"the node gets {number.name}")
        await self._count(client)
        growing = asyncio.create_task(remembered.grow())
        await asyncio.sleep(self._dice.uniform(0.1, 0.5))
        await asyncio.to_thread(self._stop, number)
        await _cancel([growing])
        self._node = await asyncio.to_thread(self._start)
        await remembered.compare()

    async def _calm(self, client: Client) -> Calm:
        """The levels when only the steady players are left, at first in the decoders that carried the others, too, then
        in new ones."""
        await end_everything(client)
        self._tell("only steady players are left")
        used = await self._levels_when_calm()
        for pid in self._decoders():
            self._tell("a decoder is killed")
            _kill(pid)
            await asyncio.sleep(BETWEEN_KILLS_S)
        return Calm(used, await self._levels_when_calm())

    async def _levels_when_calm(self) -> list[Level]:
        """Over a turn of the players' loops: for half of it each has its next turn open beside the one that sounds."""
        await asyncio.sleep(min(CALM_S, self._seconds / 10))
        first = len(self._levels)
        await asyncio.sleep(STEADY_S)
        return self._levels[first:]

    async def _listen(self, client: Client, number: int, uri: str, heard: list[Heard]) -> None:
        player = f"steady-{number}"
        await client.ask("POST", "/v0/players", {"id": player, "uri": uri, "loop": "track"})
        mine = [Heard(form) for form in FORMS[: 1 + number % len(FORMS)]]
        heard += mine
        base = lambda: f"{self._node.url}/v0/players/{player}"  # noqa: E731
        await asyncio.gather(*(listen_steadily(client.http, base, one) for one in mine))

    async def _kill_decoders(self) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(0.5, 1.5) * DECODER_KILLED_EVERY_S)
            if decoders := self._decoders():
                self._tell("a decoder is killed")
                _kill(self._dice.choice(decoders))

    def _decoders(self) -> list[int]:
        return [pid for pid in children_of(self._node.pid) if kind_of(pid) == "decoder"]

    async def _sample(self) -> None:
        while True:
            level = await asyncio.to_thread(level_of, self._node.pid, self._begin_s)
            self._levels += [level] if level else []
            await asyncio.sleep(SAMPLE_S)

    async def _count(self, client: Client) -> None:
        """Adds up the figures of a node that is about to end."""
        status, stats, _ = await client.ask("GET", "/v0/stats")
        if status == 200:
            self._left_out += stats["framesLeftOut"]
            self._sent += stats["framesSent"]
            self._decoder_exits += stats["decoderExits"]
            self._waited_s += waited_for_cpu_s(self._node.pid)

    def _tell(self, what: str) -> None:
        at_s = time.monotonic() - self._begin_s
        self._moments.append((at_s, what))
        print(f"{at_s:6.0f} s  {what}", file=sys.stderr, flush=True)

    def _start(self) -> RunningNode:
        return start_node(self._folder, CONFIG, variables={"TONEARM_LOGGING__LEVEL": "info"})

    def _stop(self, number: signal.Signals) -> None:
        self._node.process.send_signal(number)
        code = self._node.process.wait()
        if number is signal.SIGTERM and code:
            self._log.append(f"Traceback: the node exited with {code}")
        self._node.kill()
        self._log += self._node.log

    def _of_listeners(self, heard: Sequence[Heard]) -> list[Finding]:
        found = []
        for form in FORMS:
            those = [one for one in heard if one.form == form]
            frames, missing = sum(one.frames for one in those), sum(one.missing for one in those)
            text = f"{len(those)} steady ones of {form}, {sum(one.connections for one in those)} connections: "
            if form in ("pcm", "opus"):
                clicks = sum(one.clicks for one in those)
                text += f"{frames} frames, {missing} missing, {clicks} with a click"
                is_wrong = not frames or missing > FRAMES_LOST_AT_MOST * frames or bool(clicks)
            else:
                text += f"{sum(one.bytes for one in those)} bytes"
                is_wrong = bool(those) and not all(one.bytes for one in those)
            found.append(Finding("listeners", text, is_wrong))
        # What a node left out while others had its core is the machine's doing, and no more than that.
        excused = self._waited_s * FRAMES_PER_SECOND * (self._steady + self._churners)
        is_late = self._left_out > FRAMES_LOST_AT_MOST * max(1, self._sent) + excused
        text = f"{self._sent} frames sent to all, {self._left_out} left out because the node was late"
        found.append(Finding("clock", text, is_late))
        text = (
            f"nodes waited {self._waited_s:.1f} s for a core, the process of the listeners "
            f"{waited_for_cpu_s(os.getpid()):.1f} s; at the end its load was {os.getloadavg()[1]:.1f} on "
            f"{os.cpu_count()} cores. Where others work, too, frames go missing by themselves"
        )
        found.append(Finding("machine", text))
        found.append(Finding("decoders", f"{self._decoder_exits} ended, most of them killed by the soak"))
        return found

    def _of_log(self) -> list[Finding]:
        tracebacks = [number for number, line in enumerate(self._log) if "Traceback" in line]
        shown = ["".join(self._log[number : number + 30])[:3000] for number in tracebacks[:3]]
        errors = [line for line in self._log if re.search(r" ERROR ", line)]
        return [
            Finding(
                "log", f"{len(self._log)} lines, {len(errors)} errors, {len(tracebacks)} tracebacks", bool(tracebacks)
            ),
            *(Finding("log", text, True) for text in shown),
            *(Finding("log", line.strip()[:300]) for line in errors[:10]),
        ]


def _of_levels(before: Calm, after: Calm) -> list[Finding]:
    """Whether the last node, when it had calmed down and had new decoders, held what it had held when it did so before:
    in memory the least of each time counts; of the others the least now and the most then, for listeners may come back
    in that time."""
    if not before.fresh or not after.fresh:
        return [Finding("levels", "the node was gone", True)]
    found = []
    for name, room in (("node_mb", 15), ("descriptors", 12), ("sockets", 8), ("threads", 6), ("processes", 1)):
        (begin, most_before), (end, most) = (_range(levels, name) for levels in (before.fresh, after.fresh))
        text = f"{name}: {begin:.4g} to {most_before:.4g} before, {end:.4g} to {most:.4g} after"
        allowed = begin * 1.1 if name == "node_mb" else most_before
        found.append(Finding("levels", text, end > allowed + room))
    begun, ended = _memory(before.fresh), _memory(after.fresh)
    for kind in sorted({*begun, *ended}):
        text = f"{kind}: {begun.get(kind, Memory())} before, {ended.get(kind, Memory())} after"
        found.append(Finding("memory", text))
    return found


def _of_decoders(when: str, calm: Calm) -> list[Finding]:
    """Whether decoders gave back what the players took who have gone."""
    if not calm.used or not calm.fresh:
        return []
    used, fresh = (_memory(levels).get("decoder", Memory()) for levels in calm)
    text = f"{when}: {used} in those that had carried more, {fresh} in new ones"
    return [Finding("decoders", text, used.private_mb > fresh.private_mb * LEFT_BEHIND_AT_MOST)]


def _memory(levels: Sequence[Level]) -> Mapping[str, Memory]:
    """The least there was."""
    return min(levels, key=lambda level: level.memory_mb).memory


def _range(levels: Sequence[Level], name: str) -> tuple[float, float]:
    values = [getattr(level, name) for level in levels]
    return min(values), max(values)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__package__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--steady", type=int, default=12, help="players with steady listeners")
    parser.add_argument("--churn", type=int, default=8, help="players that come and go at a time")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--report", type=Path, default=Path("soak.html"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), options.minutes * 60, options.steady, options.churn, options.seed)
        findings, report = asyncio.run(soak.run())
    options.report.write_text(report, encoding="utf-8")
    for finding in findings:
        print(f"{'WRONG' if finding.is_wrong else 'ok   '} {finding.subject:10} {finding.text}")
    print(f"The report is in {options.report}; the seed was {options.seed}.")
    return int(any(finding.is_wrong for finding in findings))


if __name__ == "__main__":
    raise SystemExit(main())

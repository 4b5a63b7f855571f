"""Makes one fault after the other in a node, and prints the table. The exit code is 1 if something was wrong.

Node, listeners and bad clients share the machine. A frame that was late by no more than its sender or its listener had
to wait for a core is not the fault's doing; the table shows how long the node waited.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
from bench.limits import raise_file_limit
from tests.support.audio_files import mp3, music
from tests.support.media_server import MediaServer, media
from tests.support.processes import children_of, waited_for_cpu_s
from tests.support.radio_server import radio
from tests.support.running_node import RunningNode, start_node
from tests.support.slow_requests import PLAYLIST, TRACKS, playlist, slow_requests

from tonearm.core.frame import FRAME_MS
from tonearm.player.clock import CATCH_UP_FRAMES
from tools.faults import attack
from tools.faults.node import BLOCKED_S
from tools.faults.steady import Steady
from tools.soak.sources import STEADY_S, steady_file

FRAMES_A_SECOND: Final = 1000 // FRAME_MS
STEADY_US: Final = int(STEADY_S * 1e6)
STATION_BYTES_A_SECOND: Final = 24_000
OPUS_OF: Final = 5  # every fifth listener wants Opus
POSITION_OFF_MS: Final = 500
# Between two frames, when one did not come in time: two ticks, less what the frame before was late itself.
HOLE_S: Final = 1.5 * FRAME_MS / 1000
LATE_S: Final = (CATCH_UP_FRAMES + 1) * FRAME_MS / 1000  # the node makes up for as much, and tells it as lateness
WARM_UP_S: Final = 3.0
REQUEST_S: Final = 2.0  # so long one of the slowest requests is sent again and again
CONFIG: Final = """
[state]
path = "state.sqlite"
[player]
first_listener_wait_ms = 0
max_players = 20000
[sources]
private_networks = true
"""
BEFORE_S: Final = 0.5  # so that it is seen how long they hear nothing


@dataclass(frozen=True, slots=True)
class Fault:
    """`inflict` does it for some seconds and returns in words what was done. `standstill_s`: how long the node cannot
    send meanwhile, which its figures must tell. `seconds`: how long it lasts, when that is not for the user to say.
    `holds_nothing`: no frame may be later than a tick by it."""

    name: str
    inflict: Callable[[RunningNode, float], Awaitable[str]]
    standstill_s: float = 0.0
    seconds: float | None = None
    holds_nothing: bool = False


async def nothing(_: RunningNode, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "for comparison"


async def stop(node: RunningNode, seconds: float, *, stopped_s: float, whole: bool) -> str:
    pids = [node.pid, *(children_of(node.pid) if whole else ())]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(stopped_s)
    for pid in reversed(pids):
        os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(seconds)
    return f"SIGSTOP to {len(pids)} processes, SIGCONT after {stopped_s:g} s"


async def hold_up(node: RunningNode, seconds: float) -> str:
    node.process.send_signal(signal.SIGUSR1)
    await asyncio.sleep(BLOCKED_S + seconds)
    return f"the event loop blocked for {BLOCKED_S * 1000:g} ms"


async def jump(node: RunningNode, seconds: float) -> str:
    for _ in range(2):
        node.process.send_signal(signal.SIGUSR2)
        await asyncio.sleep(seconds / 2)
    return "the time of day an hour forth and back"


async def beside(node: RunningNode, seconds: float, *, kind: str) -> str:
    async with attack.attacking(kind, node.port, seconds) as process:
        told, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the client for {kind} failed")
    return told.decode().strip()


FAULTS: Final = (
    Fault("nothing", nothing),
    Fault("a blocked loop", hold_up, BLOCKED_S),
    Fault("a stopped node", partial(stop, stopped_s=10.0, whole=False), 10.0),
    Fault("all processes stopped", partial(stop, stopped_s=10.0, whole=True), 10.0),
    Fault("a jump of the time of day", jump),
    Fault("listeners that never read", partial(beside, kind="never")),
    Fault("listeners at half speed", partial(beside, kind="half")),
    Fault("connections reset", partial(beside, kind="reset")),
    Fault("a flood of messages", partial(beside, kind="messages")),
    Fault("a flood of tiny messages", partial(beside, kind="small")),
    Fault("a flood of pings", partial(beside, kind="pings")),
    Fault("1000 event sockets", partial(beside, kind="events")),
    Fault("1000 requests a second", partial(beside, kind="requests")),
    *(
        Fault(one.name, partial(beside, kind=attack.SLOW + one.name), seconds=REQUEST_S, holds_nothing=True)
        for one in slow_requests()
    ),
    Fault("10,000 players are read", partial(beside, kind="players"), seconds=REQUEST_S, holds_nothing=True),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a fault. `wrong`: what should not have been."""

    fault: str
    done: str
    frames: int
    missing: int
    most_in_a_second: int
    longest_silence_s: float
    late: int
    left_out: int
    waited_s: float
    wrong: Sequence[str]

    def line(self) -> str:
        return (
            f"{self.fault:40} {self.frames:7} {self.missing:7} {self.most_in_a_second:9} "
            f"{self.longest_silence_s * 1000:10.0f} {self.late:10} {self.left_out:9} {self.waited_s * 1000:10.0f}  "
            f"{'; '.join(self.wrong) or 'ok'}  ({self.done})"
        )


HEAD: Final = (
    f"{'fault':40} {'frames':>7} {'missing':>7} {'most in':>9} {'longest':>10} {'late over':>10} {'left out':>9} "
    f"{'waited for':>10}\n"
    f"{'':40} {'':7} {'':7} {'a second':>9} {'silence ms':>10} {'a tick':>10} {'by clock':>9} {'a core, ms':>10}"
)


class Trial:
    """A node with its listeners."""

    def __init__(self, node: RunningNode, http: aiohttp.ClientSession, listeners: Sequence[Steady]) -> None:
        self._node = node
        self._http = http
        self._listeners = listeners

    async def carry_out(self, fault: Fault, seconds: float) -> Row:
        before, qualities = await self._get("/v0/stats"), await self._qualities()
        node_before_s, own_before_s = self._waited_s()
        for one in self._listeners:
            one.begin_anew()
        await asyncio.sleep(BEFORE_S)
        done = await fault.inflict(self._node, seconds)
        wrong = [text for text in [await self._wrong_positions()] if text]
        after = await self._get("/v0/stats")
        node_s, own_s = self._waited_s()
        waited_s, own_wait_s = node_s - node_before_s, own_s - own_before_s
        left_out = after["framesLeftOut"] - before["framesLeftOut"]
        late = after["framesLate"]["over20ms"] - before["framesLate"]["over20ms"]
        frames, missing = self._sum("frames"), self._sum("missing")
        most = max(one.most_in_a_second for one in self._listeners)
        for name, text in (
            ("missing", "frames are missing"),
            ("clicks", "frames with a click"),
            ("wrong_positions", "frames with a wrong position"),
            ("cut_off", "listeners were cut off"),
        ):
            wrong += [f"{count} {text}" for count in [self._sum(name)] if count]
        if most > FRAMES_A_SECOND * (2 + own_wait_s):
            wrong.append("a burst of over a second")
        silent = [one for one in self._listeners if one.frames < seconds * FRAMES_A_SECOND / 2]
        wrong += [f"{len(silent)} listeners heard less than half"] if silent else []
        run_dry = after["timesRunDry"]["clock"] - before["timesRunDry"]["clock"]
        wrong += self._wrong_figures(fault, left_out, run_dry, waited_s)
        players = len({one.player for one in self._listeners})
        if fault.holds_nothing and late > waited_s * FRAMES_A_SECOND * players:
            wrong.append(f"{late} frames were late by more than a tick")
        wrong += self._wrong_qualities(qualities, await self._qualities(), waited_s + own_wait_s)
        silence_s = max(one.longest_silence_s for one in self._listeners)
        return Row(fault.name, done, frames, missing, most, silence_s, late, left_out, waited_s, wrong)

    def _wrong_figures(self, fault: Fault, left_out: int, run_dry: int, waited_s: float) -> list[str]:
        """What the node's figures should have said, or should not."""
        players = len({one.player for one in self._listeners})
        least = int((fault.standstill_s * FRAMES_A_SECOND - CATCH_UP_FRAMES - 2) * players)
        if not fault.standstill_s:
            is_own_fault = left_out > waited_s * FRAMES_A_SECOND * players
            return [f"the node left out {left_out} frames, being late"] if is_own_fault else []
        found = [f"the figures tell {left_out} frames that were left out, not {least}"] if left_out < least else []
        return found + ([f"the figures tell {run_dry} players that ran dry"] if run_dry < players else [])

    def _wrong_qualities(self, before: Mapping[str, Any], after: Mapping[str, Any], waited_s: float) -> list[str]:
        """Players of which the node tells a hole that none of their listeners heard, and those of which it tells none
        though one heard it."""
        told = {
            player: quality["timesRunDry"] + quality["lateFrames"]
            > before[player]["timesRunDry"] + before[player]["lateFrames"]
            for player, quality in after.items()
        }
        heard_s = {one.player: 0.0 for one in self._listeners}
        for one in self._listeners:
            heard_s[one.player] = max(heard_s[one.player], one.longest_silence_s)
        unheard = [
            f"{player} (at most {heard_s[player] * 1000:.0f} ms between frames)"
            for player, is_told in told.items()
            if is_told and heard_s[player] < HOLE_S
        ]
        untold = [player for player, is_told in told.items() if not is_told and heard_s[player] > LATE_S + waited_s]
        return [
            *([f"the figures tell holes of {', '.join(unheard)} that nobody heard"] if unheard else []),
            *([f"the figures tell nothing of the holes of {', '.join(untold)}"] if untold else []),
        ]

    async def _qualities(self) -> dict[str, Any]:
        """Of the players that somebody hears."""
        heard = {one.player for one in self._listeners}
        return {name: (await self._get(f"/v0/players/{name}"))["quality"] for name in sorted(heard)}

    async def _wrong_positions(self) -> str:
        """Positions that the node tells, against the last frames heard."""
        off = 0
        for one in self._listeners:
            told_ms = (await self._get(f"/v0/players/{one.player}"))["position"]
            apart_ms = abs(told_ms - one.position_us / 1000)
            off += min(apart_ms, abs(STEADY_S * 1000 - apart_ms)) > POSITION_OFF_MS
        return f"{off} positions are wrong" if off else ""

    def _waited_s(self) -> tuple[float, float]:
        """For a core: the node, and this process."""
        return waited_for_cpu_s(self._node.pid), waited_for_cpu_s(os.getpid())

    def _sum(self, name: str) -> int:
        return sum(getattr(one, name) for one in self._listeners)

    async def _get(self, path: str) -> Any:
        async with self._http.get(self._node.url + path) as answer:
            return await answer.json()


@asynccontextmanager
async def trial(folder: Path, players: int, listeners: int) -> AsyncIterator[Trial]:
    """Most players play a file, every fifth one over HTTP, one a station."""
    node = await asyncio.to_thread(
        start_node,
        folder,
        CONFIG,
        variables={"PYTHONPATH": str(Path(__file__).parents[2])},
        program="tools.faults.node",
    )
    try:
        async with (
            MediaServer() as server,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), raise_for_status=True) as http,
        ):
            file = steady_file(folder)
            (folder / PLAYLIST).write_text(playlist(TRACKS))
            remote = server.serve("/steady.wav", media(Path(file).read_bytes()))
            station = server.serve("/station", radio(mp3(music(40.0)), bytes_per_s=STATION_BYTES_A_SECOND))
            for number in range(players):
                uri = station if number == players - 1 else remote if number % 5 == 4 else file
                body = {"id": f"p{number}", "uri": uri, "loop": "track"}
                await (await http.post(f"{node.url}/v0/players", json=body)).read()
            steady = []
            for number in range(listeners):
                player = number % players
                length_us = None if player == players - 1 else STEADY_US
                steady.append(Steady(f"p{player}", "opus" if number % OPUS_OF == 0 else "pcm", length_us))
            listening = [asyncio.create_task(one.listen(http, node.url)) for one in steady]
            await asyncio.sleep(WARM_UP_S)
            yield Trial(node, http, steady)
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)
        await asyncio.to_thread(node.stop)
    finally:
        node.kill()
        sys.stderr.write("".join(line for line in node.log if "ERROR" in line or "Traceback" in line))


async def run(options: argparse.Namespace) -> bool:
    """Whether all was well."""
    print(f"{options.listeners} steady listeners of {options.players} players, {options.seconds:g} s a fault")
    print(HEAD)
    is_well = True
    with tempfile.TemporaryDirectory() as folder:
        async with trial(Path(folder), options.players, options.listeners) as node:
            for fault in FAULTS:
                if options.only in fault.name:
                    row = await node.carry_out(fault, fault.seconds or options.seconds)
                    print(row.line(), flush=True)
                    is_well &= not row.wrong
    print(f"The machine's load was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    return is_well


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__package__)
    parser.add_argument("--listeners", type=int, default=50, help="steady ones (50)")
    parser.add_argument("--players", type=int, default=25, help="that they listen to, at least 5 (25)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a fault lasts, or is listened after (10)")
    parser.add_argument("--only", default="", help="faults with this in their name")
    options = parser.parse_args()
    raise_file_limit()
    with contextlib.suppress(KeyboardInterrupt):
        return int(not asyncio.run(run(options)))
    return 1


if __name__ == "__main__":
    raise SystemExit(main())

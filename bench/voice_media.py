"""`python -m bench.voice_media`: what the packets of voice connections cost from the player's hand to the network, how
late they leave, and what a connection takes of memory.

No player and no gateway: this process hands packets over as the clock of players does, so that what is counted is the
voice path alone, in both processes; what the same loop costs without it is taken off. The times of arrival are the
kernel's, read by an ear in a process of its own.
"""

import argparse
import asyncio
import gc
import os
import secrets
import socket
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import dave
import uvloop
from tests.support.dave_group import ExternalSender, split_commit_and_welcome

from bench.evenness import FRAME_S
from bench.limits import raise_file_limit
from bench.processes import cpu_s, pss_mb_of
from bench.spread import percentile
from bench.text_table import number, text_table
from tonearm.core.voice import DaveStatus, PacketCounts, VoiceSettings
from tonearm.core.voice_gateway import MODES
from tonearm.player.clock import PHASE_MEMBERS, PHASES
from tonearm.sandbox.report import SandboxMode
from tonearm.voice.media import Media, VoiceProcesses
from tonearm.voice.messages import MediaSetting

PACKET_BYTES: Final = 160  # of 64 kbit/s
USER_ID: Final = 3
# Writes the kernel's time of each packet of RTP, of all connections, and which connection it is of.
_EAR: Final = """
import signal, socket, struct, sys
ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
ear.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
ear.bind(("127.0.0.1", 0))
print(ear.getsockname()[1], flush=True)
heard = []
try:
    while True:
        packet, ancillary, _, _ = ear.recvmsg(2048, 64)
        if packet == b"end":
            break
        if len(packet) > 12:
            heard.append((packet[8:12], ancillary[0][2]))
except KeyboardInterrupt:
    pass
sys.stdout.buffer.write(b"".join(ssrc + time[:16] for ssrc, time in heard))
"""
_HEARD: Final = struct.Struct("<4sqq")


class Connection:
    """One media, and the call that it is in."""

    def __init__(self, index: int, mode: str, *, members: int, is_large: bool = False) -> None:
        self.ssrc = index + 1
        channel_id = 1000 + index
        self.setting = MediaSetting(
            mode, secrets.token_bytes(32), self.ssrc, USER_ID, channel_id, int(members > 1), is_large
        )
        self.media: Media
        self.ready = asyncio.Event()
        self.key_package: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._channel_id = channel_id

    async def open(self, processes: VoiceProcesses, port: int) -> None:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setblocking(False)
        udp.connect(("127.0.0.1", port))
        self.media = await processes.open(self.setting, udp, self)

    async def welcome(self, members: int) -> "Callable[[], None]":
        """Founds a group of so many, bot included. What comes back lets the bot in."""
        sender = ExternalSender(self._channel_id)
        users = [str(100 + user) for user in range(members - 1)]
        sessions = [_member(user, self._channel_id, sender) for user in users]
        packages = [cast(bytes, session.get_marshalled_key_package()) for session in sessions[1:]]
        proposals = sender.proposals(0, add=(*packages, await self.key_package))
        answer = sessions[0].process_proposals(proposals, {*users, str(USER_ID)})
        assert answer is not None
        _, welcome = split_commit_and_welcome(answer)
        assert welcome is not None
        media = self.media
        media.gateway(11, {"user_ids": users})
        media.gateway(25, sender.package)

        def let_in() -> None:
            media.gateway(30, b"\0\0" + welcome)

        return let_in

    # What is reported

    def say(self, message: bytes | tuple[int, Mapping[str, Any]]) -> None:
        if isinstance(message, bytes) and message[0] == 26 and not self.key_package.done():
            self.key_package.set_result(message[1:])

    def dave_changed(self, status: DaveStatus) -> None:
        if status.ready:
            self.ready.set()

    def silent(self, frames: int) -> None:
        """Nothing follows."""

    def counted(self, packets: PacketCounts) -> None:
        """They are counted by the ear."""

    def process_lost(self) -> None:
        sys.exit("a voice process has ended")


def _member(user: str, channel_id: int, sender: ExternalSender) -> dave.Session:
    session = dave.Session(None)
    session.init(1, channel_id, user, None)
    session.set_external_sender(sender.package)
    return session


@dataclass(frozen=True)
class Result:
    packets: int
    missing: int
    node_us: float  # CPU for a packet, of this process
    process_us: float  # of the voice processes
    late_p50_ms: float
    late_p99_ms: float
    late_most_ms: float
    base_mb: float  # a voice process without connections
    connection_kb: float  # of the voice processes
    node_connection_kb: float
    longest_mls_ms: float


class Ear:
    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", _EAR], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._out = self._process.stdout
        self.port = int(self._out.readline())

    def end(self) -> dict[int, list[float]]:
        """The times of arrival in s since 1970, by SSRC."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"end", ("127.0.0.1", self.port))
        arrivals: dict[int, list[float]] = {}
        for ssrc, seconds, nanoseconds in _HEARD.iter_unpack(self._out.read()):
            arrivals.setdefault(int.from_bytes(ssrc, "big"), []).append(seconds + nanoseconds / 1e9)
        self._process.wait()
        return arrivals


Give: TypeAlias = Callable[[bytes], None]


async def play(groups: Sequence[Sequence[Give]], seconds: float) -> list[float]:
    """Gives each of them a packet in each 20 ms, `PHASES` groups one after the other. When each group's first one was
    due, in s since 1970."""
    packet = bytes(PACKET_BYTES)
    ticks = int(seconds / FRAME_S) * PHASES
    step_s = FRAME_S / PHASES
    begin_s = time.monotonic() + step_s
    wall_s = time.time() - time.monotonic()
    for tick in range(ticks):
        await asyncio.sleep(max(0.0, begin_s + tick * step_s - time.monotonic()))
        for give in groups[tick % PHASES]:
            give(packet)
    return [wall_s + begin_s + phase * step_s for phase in range(PHASES)]


async def measure(count: int, mode: str, seconds: float, *, members: int, large_members: int) -> Result:
    """`count` connections that play, each in a call of so many. `large_members`: of a further call, in which the bot
    arrives in the middle."""
    phases = min(PHASES, -(-count // PHASE_MEMBERS))  # as the clock of players fills them
    ear = Ear()
    processes = VoiceProcesses(VoiceSettings(), SandboxMode.AUTO)
    processes.prepare()
    first = Connection(count, mode, members=1)
    await first.open(processes, ear.port)
    await asyncio.sleep(0.5)
    base_mb = _processes_mb(processes)
    node_mb = pss_mb_of(os.getpid())
    connections = [Connection(index, mode, members=members) for index in range(count)]
    for connection in connections:
        await connection.open(processes, ear.port)
    if members > 1:
        for connection in connections:
            (await connection.welcome(members))()
            await connection.ready.wait()
    let_in = None
    if large_members:
        large = Connection(count + 1, mode, members=large_members, is_large=True)
        await large.open(processes, ear.port)
        let_in = await large.welcome(large_members)
    gives: list[Give] = [each.media.frame for each in connections]
    groups = [gives[phase::phases] if phase < phases else [] for phase in range(PHASES)]
    await play(groups, 1.0)
    gc.collect()
    pids = [process.pid for process in processes.figures().processes]
    idle_s = await _own_cpu(lambda: play([[_nothing] * len(group) for group in groups], seconds))
    before_s = sum(map(cpu_s, pids))
    if let_in is not None:
        asyncio.get_running_loop().call_later(seconds / 2, let_in)
    due: list[float] = []

    async def measured() -> None:
        due.extend(await play(groups, seconds))

    node_s = await _own_cpu(measured) - idle_s
    process_s = sum(map(cpu_s, pids)) - before_s
    memory_mb = _processes_mb(processes)
    node_memory_mb = pss_mb_of(os.getpid()) - node_mb
    await asyncio.sleep(0.3)
    if let_in is not None:
        await large.ready.wait()
    longest_mls_ms = processes.figures().longest_mls_ms
    arrivals = ear.end()
    await processes.stop()
    late = array("d")
    packets = int(seconds / FRAME_S)
    missing = 0
    for connection in connections:
        begin_s = due[(connection.ssrc - 1) % phases]
        times = [at_s for at_s in arrivals.get(connection.ssrc, []) if at_s >= begin_s - FRAME_S / 2][:packets]
        missing += packets - len(times)
        late.extend((at_s - begin_s - tick * FRAME_S) * 1000 for tick, at_s in enumerate(times))
    sent = packets * count
    return Result(
        sent, missing, node_s * 1e6 / sent, process_s * 1e6 / sent,
        percentile(late, 50), percentile(late, 99), max(late), base_mb,
        (memory_mb - base_mb) * 1024 / count, node_memory_mb * 1024 / count, longest_mls_ms,
    )  # fmt: skip


def _nothing(packet: bytes) -> None:
    """Instead of a media."""


async def _own_cpu(work: Callable[[], Any]) -> float:
    before_s = time.process_time()
    await work()
    return time.process_time() - before_s


def _processes_mb(processes: VoiceProcesses) -> float:
    return sum(pss_mb_of(process.pid) for process in processes.figures().processes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.voice_media", description=__doc__)
    parser.add_argument("--connections", type=int, nargs="+", default=[100, 300])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--members", type=int, default=1, help="of each call; from 2 on it is encrypted end to end")
    parser.add_argument("--large-members", type=int, default=0, help="of a further call that the bot comes into")
    options = parser.parse_args()
    raise_file_limit()
    rows = []
    for mode in options.modes:
        for count in options.connections:
            result = uvloop.run(
                measure(count, mode, options.seconds, members=options.members, large_members=options.large_members)
            )
            values = (
                result.node_us + result.process_us, result.node_us, result.process_us,
                result.late_p50_ms, result.late_p99_ms, result.late_most_ms,
                result.connection_kb, result.node_connection_kb, result.base_mb, result.longest_mls_ms,
            )  # fmt: skip
            rows.append([f"{mode.split('_')[1]} {count}", str(result.missing), *map(number, values)])
    head = [
        "connections", "missing", "µs a packet", "node", "processes", "late p50 ms", "p99", "most", "kB each",
        "in the node", "empty MB", "longest MLS ms",
    ]  # fmt: skip
    sys.stdout.write(text_table("Packets of voice connections", head, rows) + "\n")


if __name__ == "__main__":
    main()

"""`python -m bench.voice`: what a bot and a channel wait for, with a whole node and the voice server of the tests.

`python -m bench.voice --minutes 30` is a soak instead: a hundred players in channels, of which each second one is
closed, cut, moved, paused or joined by somebody. At the end every channel must hear its player, and the memory of the
node's processes is compared with that of the second minute. It exits with 1 when a channel hears nothing.

`python -m bench.voice --connections 500` has so many players speak, of which nobody reads a packet, and says how late
the node was with them, by its own figures.

The times are those at which this process reads the packets, so a busy machine makes them longer.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from tests.support.audio_files import music, opus
from tests.support.certificate import make_certificate
from tests.support.e2e_players import create, delete, done
from tests.support.eventually import eventually
from tests.support.processes import children_of
from tests.support.running_node import RunningNode, running_node
from tests.support.voice_players import CONFIG, until_voice, voice, voice_processes
from tests.support.voice_server import VoiceServer, VoiceSession, voice_server

from bench.processes import cpu_s, pss_mb_of
from tonearm.voice.discovery import drop_what_comes

ROUNDS: Final = 20
PLAYERS: Final = 100
ENCRYPTED: Final = 10  # of them
LARGE_CALL: Final = 99
_DEED_WITHIN_S: Final = 30.0
_CAPACITY_S: Final = 20.0


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def first_packet_ms(node: RunningNode, certificate: Path) -> float:
    """From PUT to the first packet, in a call of two."""
    async with voice_server(certificate, ears=(5,)) as server:
        await create(node, "p", "song.opus")
        begun_s = now_s()
        await done(node, "PUT", "/v0/players/p/voice", voice(server))
        session = await server.session(1)
        await session.until(lambda: session.sounds, "a packet")
        await delete(node, "p")
        return (session.sounds[0].at_s - begun_s) * 1000


async def move_gap_ms(node: RunningNode, certificate: Path, channel_id: int) -> float:
    """Between the last packet at the old server and the first at the new one."""
    async with (
        voice_server(certificate, ears=(5,)) as old,
        voice_server(certificate, ears=(6,), channel_id=channel_id) as new,
    ):
        await create(node, "p", "song.opus")
        await done(node, "PUT", "/v0/players/p/voice", voice(old))
        before = await old.session(1)
        await before.heard(25)
        await done(node, "PUT", "/v0/players/p/voice", voice(new, channelId=str(channel_id)))
        after = await new.session(1)
        await after.heard(5, more=False)
        await before.until(lambda: before.closed_with, "the end of the old one")
        await delete(node, "p")
        return (after.sounds[0].at_s - before.sounds[-1].at_s) * 1000


async def missing_after_a_cut(node: RunningNode, certificate: Path) -> float:
    """Packets that are missing where the control connection was cut and resumed."""
    async with voice_server(certificate, ears=(5,)) as server:
        await create(node, "p", "song.opus")
        await done(node, "PUT", "/v0/players/p/voice", voice(server))
        session = await server.session(1)
        await session.heard(10)
        session.cut()
        await session.until(lambda: session.resumed == 1, "a resume")
        await session.heard(50)
        await delete(node, "p")
        numbers = [packet.sequence for packet in session.packets]
        return float(((numbers[-1] - numbers[0]) & 0xFFFF) + 1 - len(numbers))


async def silence_after_a_kill_ms(node: RunningNode, certificate: Path) -> float:
    """Without a packet, where the process that sends was killed."""
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        await done(node, "PUT", "/v0/players/p/voice", voice(server))
        session = await server.session(1)
        await session.heard(25)
        for pid in voice_processes(node):
            os.kill(pid, signal.SIGKILL)
        again = await server.session(2)
        await again.heard(5, more=False)
        await delete(node, "p")
        return (again.sounds[0].at_s - session.sounds[-1].at_s) * 1000


async def figures_of(node: RunningNode) -> Any:
    return (await node.request("GET", "/v0/stats")).json()["voice"]


def late_between(before: Any, after: Any) -> dict[str, int]:
    """Packets, by how late they were at least."""
    return {name: after["packetsLate"][name] - before["packetsLate"][name] for name in after["packetsLate"]}


async def join_as(node: RunningNode, number: int, server: VoiceServer, **more: object) -> None:
    """Has the player `p` and its number speak, as a bot and in a guild of its own."""
    ids = {"guildId": str(number + 1), "userId": str(number + 10_000), "sessionId": f"session-{number}"}
    await done(node, "PUT", f"/v0/players/p{number}/voice", voice(server, **ids, **more))
    await until_voice(node, f"p{number}", "connected")


async def late_beside_a_large_call(node: RunningNode, certificate: Path) -> str:
    """Packets of ten other channels that were late, while the bot joined a call of 99 and somebody joined it after."""
    async with voice_server(certificate) as others, voice_server(certificate, ears=tuple(range(10, 109))) as large:
        for number in range(10):
            await create(node, f"other-{number}", "song.opus")
            await done(
                *(node, "PUT", f"/v0/players/other-{number}/voice"),
                voice(others, guildId=str(100 + number)),
            )
        await others.changes.until(lambda: sum(one.count > 50 for one in others.sessions) == 10, "ten channels")
        before = await figures_of(node)
        await create(node, "p", "song.opus")
        await done(node, "PUT", "/v0/players/p/voice", voice(large))
        session = await large.session(1)
        await session.heard(5, more=False)
        assert large.call is not None
        await large.call.join(500)
        await session.heard(50)
        after = await figures_of(node)
        late = late_between(before, after)
        for number in range(10):
            await delete(node, f"other-{number}")
        await delete(node, "p")
        return (
            f"{late} of {after['packets']['sent'] - before['packets']['sent']}, longest step {after['longestMlsMs']} ms"
        )


async def measure(node: RunningNode, certificate: Path) -> None:
    trials: dict[str, tuple[Callable[[], Awaitable[float]], int]] = {
        "PUT to first packet, ms": (lambda: first_packet_ms(node, certificate), ROUNDS),
        "gap at a move to another server, ms": (lambda: move_gap_ms(node, certificate, 2), ROUNDS),
        "gap at a move to another channel, ms": (lambda: move_gap_ms(node, certificate, 4), ROUNDS),
        "packets missing after a cut": (lambda: missing_after_a_cut(node, certificate), ROUNDS // 2),
        "silence after a killed process, ms": (lambda: silence_after_a_kill_ms(node, certificate), ROUNDS // 4),
    }
    for name, (trial, rounds) in trials.items():
        found = [await trial() for _ in range(rounds)]
        print(f"{name:40} median {statistics.median(found):7.1f}   worst {max(found):7.1f}   of {rounds}", flush=True)
    print(f"late beside a call of {LARGE_CALL}: {await late_beside_a_large_call(node, certificate)}", flush=True)


async def capacity(node: RunningNode, certificate: Path, connections: int) -> None:
    async with voice_server(certificate) as server:
        for number in range(connections):
            name = f"p{number}"
            await create(node, name, "song.opus", loop="track")
            await join_as(node, number, server)
            if not number:  # what was heard so far shows that it works
                await server.sessions[0].heard(10)
                server.keeps_packets = False
        drop_what_comes(server.socket)
        await asyncio.sleep(5)
        before, cpu_before_s = await figures_of(node), cpu_s(node.pid)
        await asyncio.sleep(_CAPACITY_S)
        after = await figures_of(node)
        sent = after["packets"]["sent"] - before["packets"]["sent"]
        late = late_between(before, after)
        dropped = after["packets"]["dropped"] - before["packets"]["dropped"]
        cores = (cpu_s(node.pid) - cpu_before_s) / _CAPACITY_S
        shares = ", ".join(f"{name} {count / sent:.3%}" for name, count in late.items())
        print(f"{connections} connections: {sent} packets in {_CAPACITY_S:g} s, {dropped} dropped; {shares}")
        print(f"processor time of all processes: {cores:.2f} cores")


class Soak:
    """A hundred players in channels of a few servers."""

    def __init__(self, node: RunningNode, certificate: Path) -> None:
        self._node = node
        self._certificate = certificate
        self._server_of: dict[str, VoiceServer] = {}
        self._done: Counter[str] = Counter()
        self._failed: list[str] = []
        self._newcomers = 1000

    async def run(self, minutes: float) -> None:
        async with AsyncExitStack() as stack:
            plain = await stack.enter_async_context(voice_server(self._certificate))
            other = await stack.enter_async_context(voice_server(self._certificate))
            for server in (plain, other):
                server.keeps_packets = False
            for number in range(PLAYERS):
                name, server = f"p{number}", plain
                if number < ENCRYPTED:
                    server = await stack.enter_async_context(
                        voice_server(self._certificate, ears=(5, 6), bot_id=number + 10_000)
                    )
                    server.keeps_packets = False
                await create(self._node, name, "song.opus", loop="track")
                await self._put(name, server)
            begun_s, early = time.monotonic(), 0.0
            while time.monotonic() - begun_s < minutes * 60:
                await asyncio.sleep(1)
                name = random.choice(list(self._server_of))
                try:
                    async with asyncio.timeout(_DEED_WITHIN_S):
                        await self._disturb(name, (plain, other))
                except (ConnectionError, AssertionError, TimeoutError) as error:
                    self._failed.append(f"{name}: {str(error)[:200] or type(error).__name__}")
                if not early and time.monotonic() - begun_s > min(120, minutes * 12):
                    early = self._memory_mb()
            silent = await self._silent()
            stats = await figures_of(self._node)
            print(f"done: {dict(self._done)}; went otherwise: {self._failed}")
            print(f"silent at the end: {silent or 'none'}")
            print(
                f"memory of all processes: {early:.0f} MB in the second minute, {self._memory_mb():.0f} MB at the end"
            )
            print(f"figures: {stats}", flush=True)
            if silent:
                raise SystemExit(1)

    def _memory_mb(self) -> float:
        return sum(pss_mb_of(pid) for pid in (self._node.pid, *children_of(self._node.pid)))

    async def _put(self, name: str, server: VoiceServer, **more: object) -> None:
        self._server_of[name] = server
        await join_as(self._node, int(name[1:]), server, **more)

    def _session(self, name: str) -> VoiceSession:
        user = str(int(name[1:]) + 10_000)
        return [each for each in self._server_of[name].sessions if each.identity["user_id"] == user][-1]

    async def _disturb(self, name: str, servers: tuple[VoiceServer, VoiceServer]) -> None:
        server = self._server_of[name]
        deeds = ["close", "cut", "pause", "move"] if server.call is None else ["join", "leave", "cut", "pause"]
        deed = random.choice(deeds)
        self._done[deed] += 1
        if deed == "close":
            await self._session(name).close(random.choice([4015, 4006, 4014]))
            await asyncio.sleep(0.2)
            await self._put(name, server)
        elif deed == "cut" and not self._session(name).socket.closed:
            self._session(name).cut()
        elif deed == "pause":
            await done(self._node, "POST", f"/v0/players/{name}/pause")
            await asyncio.sleep(0.3)
            await done(self._node, "POST", f"/v0/players/{name}/play")
        elif deed == "move":
            there = servers[1] if server is servers[0] else servers[0]
            await self._put(name, there, channelId=str(random.randrange(10, 10_000)))
        elif server.call is not None and deed == "join" and len(server.call.ears) < 8:
            self._newcomers += 1
            await server.call.join(self._newcomers)
        elif server.call is not None and len(server.call.ears) > 1:
            await server.call.leave(next(iter(server.call.ears)))

    async def _silent(self) -> list[str]:
        """Players whose channel hears nothing."""
        before = {name: (session := self._session(name), session.count) for name in self._server_of}

        def silent() -> list[str]:
            now = {name: self._session(name) for name in before}
            heard = {name: now[name].count - (count if now[name] is session else 0)
                     for name, (session, count) in before.items()}  # fmt: skip
            return [name for name, count in heard.items() if count <= 10]

        with contextlib.suppress(AssertionError):
            await eventually(lambda: not silent(), "all are heard")
        return silent()


async def run(minutes: float, connections: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        certificate = make_certificate(Path(folder) / "voice.pem")
        (Path(folder) / "song.opus").write_bytes(opus(music(60.0)))
        variables: dict[str, Any] = {"SSL_CERT_FILE": str(certificate)}
        async with running_node(Path(folder), CONFIG, variables=variables) as node:
            if connections:
                await capacity(node, certificate, connections)
            else:
                await (Soak(node, certificate).run(minutes) if minutes else measure(node, certificate))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=0.0, help="a soak of so many minutes")
    parser.add_argument("--connections", type=int, default=0, help="so many players that speak")
    options = parser.parse_args()
    asyncio.run(run(options.minutes, options.connections))

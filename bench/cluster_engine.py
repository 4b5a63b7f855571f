"""Measures the load that nodes put on their NATS server, without nodes: leases and changes, written as the real store
does.

Each node has a real connection that writes. The server is asked for what a node watches, but a bare socket reads it,
because the watchers of fifty nodes in one interpreter would distort the measurement.
"""

import asyncio
import json
import random
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median
from typing import Final
from urllib.parse import urlsplit

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from bench import processes
from bench.spread import percentile
from tonearm.cluster.engine import Bucket, Conflict, Engine, EngineLost, EngineSettings

CHANGES_A_SECOND: Final = 10.0  # of a node: 500 players, each of them changed every 50 s
_PLAYERS: Final = 50  # keys of a node that are written in turn
_RECORD: Final = json.dumps({"owner": "node", "epoch": 1, "token": "0" * 16}).encode() + b"\n" + b"r" * 1500
_AT_ONCE: Final = 16  # as `engine_saving`
_LEASE: Final = json.dumps({"address": "http://127.0.0.1:2333", "players": 500, "load": 0.5}).encode()


class Watcher:
    """A socket that takes what the server sends, as a node's client would, and keeps nothing."""

    def __init__(self, url: str, subject: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0))
        self._socket.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
        self._socket.sendall(f"SUB {subject} 1\r\n".encode())
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while data := self._socket.recv(1 << 18):
            if data.endswith(b"PING\r\n"):
                self._socket.sendall(b"PONG\r\n")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


class NodesWorth:
    """What one node writes: its lease each second, and records of players."""

    def __init__(self, leases: Bucket, players: Bucket, name: str) -> None:
        self._leases, self._players, self._name = leases, players, name
        self._lease_revision = 0
        self._revisions: dict[str, int] = {}
        self.took_ms: list[float] = []
        self.failed = 0

    async def begin(self) -> None:
        self._lease_revision = await self._leases.create(self._name, _LEASE)
        for number in range(_PLAYERS):
            player_id = f"{self._name}-{number}"
            self._revisions[player_id] = await self._players.create(player_id, _RECORD)

    async def renew(self) -> None:
        self._lease_revision = await self._timed(self._leases, self._name, _LEASE, self._lease_revision)

    async def change(self, player_id: str) -> None:
        self._revisions[player_id] = await self._timed(self._players, player_id, _RECORD, self._revisions[player_id])

    async def _timed(self, bucket: Bucket, key: str, value: bytes, last: int) -> int:
        begun_s = time.perf_counter()
        try:
            revision = await bucket.update(key, value, last)
        except (EngineLost, Conflict):
            self.failed += 1
            found = await bucket.get(key)
            return found.revision if found else 0
        self.took_ms.append(1000 * (time.perf_counter() - begun_s))
        return revision

    async def paced(self, until_s: float) -> None:
        async def leases() -> None:
            await asyncio.sleep(random.random())
            while time.monotonic() < until_s:
                begun_s = time.monotonic()
                await self.renew()
                await asyncio.sleep(max(0.0, min(begun_s + 1, until_s) - time.monotonic()))

        async def changes() -> None:
            due_s = time.monotonic() + random.random() / CHANGES_A_SECOND
            ids = list(self._revisions)
            number = 0
            while due_s < until_s:
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                await self.change(ids[number % len(ids)])
                due_s, number = due_s + 1 / CHANGES_A_SECOND, number + 1

        await asyncio.gather(leases(), changes())

    async def flat_out(self, until_s: float) -> None:
        async def one(ids: Sequence[str]) -> None:
            while time.monotonic() < until_s:
                for player_id in ids:
                    await self.change(player_id)

        ids = list(self._revisions)
        await asyncio.gather(*(one(ids[first::_AT_ONCE]) for first in range(_AT_ONCE)))


@asynccontextmanager
async def _nodes_worths(url: str, count: int, name: str) -> AsyncIterator[list[NodesWorth]]:
    """With their watchers."""
    async with AsyncExitStack() as stack:
        asking = await nats.connect(url)
        stack.push_async_callback(asking.close)
        worths = []
        for number in range(count):
            own = Engine(EngineSettings(url))
            await own.connect()
            stack.push_async_callback(own.close)
            leases, players = await own.bucket(f"ta_{name}_nodes"), await own.bucket(f"ta_{name}_players")
            worths.append(NodesWorth(leases, players, f"node-{number}"))
        for _ in range(count):
            for bucket in (f"ta_{name}_nodes", f"ta_{name}_players"):
                subject = f"_WATCH.{secrets.token_hex(8)}"
                stack.callback(Watcher(url, subject).close)
                config = ConsumerConfig(
                    deliver_subject=subject,
                    filter_subject=f"$KV.{bucket}.>",
                    deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
                    ack_policy=AckPolicy.NONE,
                    mem_storage=True,
                )
                await asyncio.sleep(0.01)  # the server has its subscription first
                await asking.jetstream().add_consumer(f"KV_{bucket}", config)
        await asyncio.gather(*(worth.begin() for worth in worths))
        yield worths


async def measure_engine(url: str, pid: int, count: int, seconds: float) -> str:
    """A line on what so many nodes' worth takes, at their pace and as fast as it goes."""
    async with _nodes_worths(url, count, f"b{count}") as worths:
        server_s, own_s, begun_s = processes.cpu_s(pid), time.process_time(), time.monotonic()
        await asyncio.gather(*(worth.paced(begun_s + seconds) for worth in worths))
        passed_s = time.monotonic() - begun_s
        server_share = 100 * (processes.cpu_s(pid) - server_s) / passed_s
        own_share = 100 * (time.process_time() - own_s) / passed_s
        took_ms = sorted(took for worth in worths for took in worth.took_ms)
        wanted = count * (1 + CHANGES_A_SECOND)
        failed = sum(worth.failed for worth in worths)
        memory_mb = processes.pss_mb_of(pid)
        paced = (
            f"{len(took_ms) / passed_s:.0f} of {wanted:.0f} operations a second, {median(took_ms):.2f} ms each "
            f"(p99 {percentile(took_ms, 99):.1f}), {failed} failed; the server {server_share:.0f} % of a core and "
            f"{memory_mb:.0f} MB, the writers {own_share:.0f} %"
        )
        before = len(took_ms)
        begun_s = time.monotonic()
        await asyncio.gather(*(worth.flat_out(begun_s + seconds) for worth in worths))
        most = (sum(len(worth.took_ms) for worth in worths) - before) / (time.monotonic() - begun_s)
    return f"engine, {count} nodes' worth: {paced}; as fast as it goes {most:.0f} a second"

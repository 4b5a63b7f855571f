"""`python -m tools.faults.attack KIND PORT SECONDS`: clients that misbehave. They run in a process of their own, so
that they do not delay the listeners. The process prints one line that says what they did.
"""

import asyncio
import contextlib
import itertools
import json
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeAlias

from bench.limits import raise_file_limit
from tests.support.http_client import PING, TEXT, Connection, connected, websocket
from tests.support.slow_requests import slow_requests

PLAYERS: Final = ("p0", "p1", "p2", "p3")  # of those that others listen to
Attack: TypeAlias = Callable[[int, float], Coroutine[None, None, str]]
SMALL_BUFFER: Final = 4096
PIECE_BYTES: Final = 65_536
PCM_BYTES_A_SECOND: Final = 192_000


async def never_read(port: int, seconds: float) -> str:
    async with AsyncExitStack() as stack:
        for number in range(30):
            target = f"/v0/players/{PLAYERS[number % len(PLAYERS)]}/ws"
            await stack.enter_async_context(websocket(port, target, receive_buffer_bytes=SMALL_BUFFER))
        await asyncio.sleep(seconds)
    return "30 listeners that read nothing"


async def read_at_half_speed(port: int, seconds: float) -> str:
    end_s = time.monotonic() + seconds

    async def listen(player: str) -> int:
        read, begin_s = 0, time.monotonic()
        async with websocket(port, f"/v0/players/{player}/ws", receive_buffer_bytes=SMALL_BUFFER) as connection:
            while time.monotonic() < end_s:
                read += len(await connection.reader.read(SMALL_BUFFER))
                await asyncio.sleep(max(0.0, begin_s + read / (PCM_BYTES_A_SECOND / 2) - time.monotonic()))
        return read

    read = await asyncio.gather(*(listen(PLAYERS[number % len(PLAYERS)]) for number in range(30)))
    return f"30 listeners that read {sum(read) / len(read) / 1e6:.2f} MB each"


async def go_with_a_reset(port: int, seconds: float) -> str:
    end_s = time.monotonic() + seconds

    async def visit(player: str) -> int:
        count = 0
        while time.monotonic() < end_s:
            async with websocket(port, f"/v0/players/{player}/ws", receive_buffer_bytes=SMALL_BUFFER) as connection:
                await asyncio.sleep(0.1)
                raw = connection.writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            count += 1
        return count

    return f"{sum(await asyncio.gather(*map(visit, PLAYERS * 4)))} listeners that reset their connections"


def flood(opcode: int, payload: bytes, what: str) -> Attack:
    """Frames in pieces of 64 KiB, masked with zeros, which leaves them as they are."""
    frame = bytes((0x80 | opcode, 0x80 | len(payload))) + bytes(4) + payload
    count = PIECE_BYTES // len(frame)

    async def attack(port: int, seconds: float) -> str:
        end_s = time.monotonic() + seconds

        async def send(player: str) -> int:
            sent = 0
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with websocket(port, f"/v0/players/{player}/events") as connection:
                    while True:
                        connection.send(frame * count)
                        async with asyncio.timeout(max(0.0, end_s - time.monotonic())):
                            await connection.writer.drain()
                        sent += count
            return sent

        return f"{sum(await asyncio.gather(*map(send, PLAYERS * 3)))} {what} from {len(PLAYERS) * 3} clients"

    return attack


async def follow_events(port: int, seconds: float) -> str:
    """A thousand sockets, while a player tells something ten times a second."""
    async with AsyncExitStack() as stack:
        for _ in range(1000):
            await stack.enter_async_context(websocket(port, f"/v0/players/{PLAYERS[0]}/events"))
        end_s, changes = time.monotonic() + seconds, 0
        async with connected(port) as connection:
            while time.monotonic() < end_s:
                changes += 1
                await ask(connection, "PATCH", f"/v0/players/{PLAYERS[0]}/metadata", {"value": changes})
                await asyncio.sleep(0.1)
    return f"1000 event sockets, {changes} events"


async def ask_a_thousand_times_a_second(port: int, seconds: float) -> str:
    requests: tuple[tuple[str, str, object], ...] = (
        ("GET", "/info", None),
        ("GET", "/v0/players", None),
        ("GET", f"/v0/players/{PLAYERS[1]}", None),
        ("PATCH", f"/v0/players/{PLAYERS[2]}/metadata", {"value": 1}),
        ("PATCH", f"/v0/players/{PLAYERS[3]}/loop", {"mode": "track"}),
    )
    begin_s, connections = time.monotonic(), 20
    end_s = begin_s + seconds

    async def client() -> int:
        async with connected(port) as connection:
            for count in itertools.count():
                if time.monotonic() >= end_s:
                    return count
                await ask(connection, *requests[count % len(requests)])
                await asyncio.sleep(max(0.0, begin_s + count * connections / 1000 - time.monotonic()))
        raise AssertionError("never reached")

    answered = sum(await asyncio.gather(*(client() for _ in range(connections))))
    return f"{answered / (time.monotonic() - begin_s):.0f} requests answered a second"


async def ask(connection: Connection, method: str, target: str, value: object) -> None:
    """Sent as bytes: an answer that is checked against the models would cost more than the node spends on it."""
    body = b"" if value is None else json.dumps(value).encode()
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.send(head.encode() + body)
    await connection.read_answer(method)


MOST_PLAYERS: Final = 10_000
SLOW: Final = "slow "


async def create_idle(port: int, names: Iterable[str]) -> None:
    async with connected(port) as connection:
        for name in names:
            await ask(connection, "POST", "/v0/players", {"id": name, "idle": True})


async def answered(port: int, request: bytes) -> str:
    """The status."""
    async with connected(port) as connection:
        connection.send(request)
        return (await connection.read_to_end())[9:12].decode()


def slow_request(name: str) -> Attack:
    """One of the slowest requests, again and again."""
    (request,) = (one for one in slow_requests() if one.name == name)

    async def attack(port: int, seconds: float) -> str:
        await create_idle(port, ("p", "fat"))
        data, end_s, statuses = request.as_bytes(), time.monotonic() + seconds, list[str]()
        while not statuses or time.monotonic() < end_s:
            statuses.append(await answered(port, data))
            await asyncio.sleep(0.1)
        return f"{len(statuses)} times, {len(data)} bytes, {', '.join(sorted({*statuses}))}"

    return attack


async def read_all_players(port: int, seconds: float) -> str:
    await asyncio.gather(
        *(create_idle(port, (f"idle{number}" for number in range(first, MOST_PLAYERS, 8))) for first in range(8))
    )
    end_s, count = time.monotonic() + seconds, 0
    while not count or time.monotonic() < end_s:
        for path in ("/v0/state", "/v0/players", "/v0/stats", "/metrics"):
            await answered(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        count += 1
    return f"all records, states and figures of {MOST_PLAYERS} players, {count} times"


KINDS: Final[dict[str, Attack]] = {
    "never": never_read,
    "half": read_at_half_speed,
    "reset": go_with_a_reset,
    "messages": flood(TEXT, b"x" * 100, "messages"),
    "small": flood(TEXT, b"", "messages of no length"),
    "pings": flood(PING, b"x" * 100, "pings"),
    "events": follow_events,
    "requests": ask_a_thousand_times_a_second,
    "players": read_all_players,
}


def attack_of(kind: str) -> Attack:
    """What a kind means: a name of `KINDS`, or `SLOW` and the name of a request."""
    return slow_request(kind.removeprefix(SLOW)) if kind.startswith(SLOW) else KINDS[kind]


@asynccontextmanager
async def attacking(kind: str, port: int, seconds: float) -> AsyncIterator[asyncio.subprocess.Process]:
    """Runs one; its standard output is to be read to the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __spec__.name, kind, str(port), str(seconds)), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


if __name__ == "__main__":
    raise_file_limit()
    _, kind, port, seconds = sys.argv
    print(asyncio.run(attack_of(kind)(int(port), float(seconds))))

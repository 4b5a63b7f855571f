"""Whatever clients send on a connection, to upgrade it or as frames of a socket, a listener beside them loses no frame,
and the node logs no error of its own.

80 clients by default; the variables say otherwise (`make fuzz`): FUZZ_SOCKETS says how many, and FUZZ_SEED which is
the first.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import create, patch
from tests.support.eventually import PATIENCE_S
from tests.support.examples import SEED
from tests.support.http_client import connected
from tests.support.running_node import running_node
from tests.support.strange.client_bytes import Visit, visit
from tests.support.strange.ears import socket_ear

CLIENTS: Final = int(os.environ.get("FUZZ_SOCKETS") or 80)
AT_ONCE: Final = 8


async def pay(port: int, paid: Visit) -> None:
    """A client that sends what it has and reads meanwhile. When it has sent all, the node must let it go."""
    async with connected(port) as connection:
        answered = asyncio.Event()

        async def read() -> None:
            with contextlib.suppress(ConnectionError):
                while await connection.reader.read(65_536):
                    answered.set()
            answered.set()

        reading = asyncio.create_task(read())
        try:
            with contextlib.suppress(OSError):  # the node was the first to close
                for number, piece in enumerate(paid.pieces):
                    connection.send(piece)
                    await connection.writer.drain()
                    if number == 0 and paid.waits_for_upgrade:
                        async with asyncio.timeout(PATIENCE_S):
                            await answered.wait()
                if paid.resets:
                    return connection.reset()
                connection.writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                await reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.timeout(86400 if os.environ.get("FUZZ_SOCKETS") else 120)
async def test_strange_clients_cost_a_listener_no_frame(tmp_path: Path) -> None:
    (tmp_path / "steady.wav").write_bytes(wav(tone(500, 2.0)))
    async with running_node(tmp_path) as node, aiohttp.ClientSession() as session:
        await create(node, "steady", "steady.wav")
        await patch(node, "steady", "loop", {"mode": "track"})
        async with socket_ear(session, node, "steady") as ear:
            await ear.more_frames(1)
            for first in range(SEED, SEED + CLIENTS, AT_ONCE):
                last = min(first + AT_ONCE, SEED + CLIENTS)
                try:
                    await asyncio.gather(*(pay(node.port, visit(seed)) for seed in range(first, last)))
                    ear.check()
                    assert (await node.request("GET", "/info")).status == 200
                    assert not [line for line in node.log if "Traceback" in line or " ERROR " in line], node.log
                except BaseException as error:
                    again = f"make fuzz SEED={first} SOCKETS={last - first}"
                    raise AssertionError(f"clients {first} to {last - 1}: {error!r}. Again: {again}") from error
            await ear.more_frames(10)
            ear.check()
            print(  # noqa: T201 - of a long run
                f"{CLIENTS} clients of sockets from seed {SEED}: {ear.checked_frames} frames beside them, none lost"
            )

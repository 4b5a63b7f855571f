"""Whatever clients send on a connection, to upgrade it or as frames of a socket, and however slowly they read: a
listener beside them loses no frame, and the node logs no error of its own.

80 clients by default; the variables say otherwise (`make fuzz`): FUZZ_SOCKETS says how many, and FUZZ_SEED which is
the first.
"""

import asyncio
import contextlib
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import PATIENT, create, state
from tests.support.eventually import PATIENCE_S
from tests.support.examples import SEED
from tests.support.http_client import connected, websocket
from tests.support.node_in_process import explained_underruns
from tests.support.processes import WaitForCpu
from tests.support.running_node import running_node
from tests.support.strange.client_bytes import Visit, visit
from tests.support.strange.ears import socket_ear
from tonearm.core.frame import FRAME_BYTES, FRAME_S

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


async def listen_at_half_speed(port: int) -> None:
    """A listener that takes half of what it is sent, and loses the rest."""
    async with websocket(port, "/v0/players/steady/ws", receive_buffer_bytes=4096) as connection:
        while True:
            await connection.reader.read(FRAME_BYTES // 2)
            await asyncio.sleep(FRAME_S)


async def ask_without_end(port: int) -> None:
    """Requests one behind the other on one connection, whose answers nobody reads."""
    with contextlib.suppress(ConnectionError):
        async with connected(port) as connection:
            for _ in range(500):
                connection.send_request("GET", "/info")
                await asyncio.sleep(0)


@pytest.mark.timeout(86400 if os.environ.get("FUZZ_SOCKETS") else 120)
async def test_strange_and_slow_clients_cost_a_listener_no_frame(tmp_path: Path) -> None:
    sound = pcm_of(music(2.0))
    (tmp_path / "steady.wav").write_bytes(wav(music(2.0)))
    async with (
        running_node(tmp_path, PATIENT) as node,
        aiohttp.ClientSession() as session,
        AsyncExitStack() as stack,
    ):
        await create(node, "steady", "steady.wav", loop="track")
        wait = WaitForCpu(node.pid, *node.decoder_pids())
        ear = await stack.enter_async_context(socket_ear(session, node, "steady"))
        for kind in ["ws"] * 10 + ["events"] * 100:  # never read
            target = f"/v0/players/steady/{kind}"
            await stack.enter_async_context(websocket(node.port, target, receive_buffer_bytes=4096))
        half_as_fast = [asyncio.create_task(listen_at_half_speed(node.port)) for _ in range(5)]
        asking = [asyncio.create_task(ask_without_end(node.port)) for _ in range(5)]

        def check() -> None:
            for frame in ear.check():
                at = frame.position_us * 48 // 1000 * 4
                assert frame.payload == (sound + sound)[at : at + FRAME_BYTES], frame[:3]

        for first in range(SEED, SEED + CLIENTS, AT_ONCE):
            last = min(first + AT_ONCE, SEED + CLIENTS)
            try:
                await asyncio.gather(*(pay(node.port, visit(seed)) for seed in range(first, last)))
                check()
                assert (await node.request("GET", "/info")).status == 200
                assert not [line for line in node.log if "Traceback" in line or " ERROR " in line], node.log
            except BaseException as error:
                again = f"make fuzz SEED={first} SOCKETS={last - first}"
                raise AssertionError(f"clients {first} to {last - 1}: {error!r}. Again: {again}") from error
        await asyncio.gather(*asking)
        await ear.more_frames(100)
        check()
        quality = (await state(node, "steady"))["quality"]
        # Nothing, unless the machine itself let the node, its decoders and these clients wait for so long.
        assert quality["timesRunDry"] <= explained_underruns(wait.seconds(node.pid, *node.decoder_pids()))
        assert quality["framesLostByListeners"] > 0
        for listener in half_as_fast:
            listener.cancel()
        print(  # noqa: T201 - of a long run
            f"{CLIENTS} clients of sockets from seed {SEED}: {ear.checked_frames} frames beside them, none lost"
        )

"""Clients that take nothing, flood, or ask without end, beside those who listen: these lose not one frame."""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import PATIENT, create, state
from tests.support.e2e_sockets import listening
from tests.support.http_client import Connection, connected, websocket
from tests.support.node_in_process import explained_underruns
from tests.support.processes import WaitForCpu
from tests.support.running_node import running_node
from tonearm.core.frame import FRAME_BYTES, FRAME_S

PING = 0x9
TEXT = 0x1
FLOODERS = 5
FRAMES_A_FLOODER = 2000


async def flood(connection: Connection, opcode: int) -> None:
    """Sends as fast as the node takes it, and reads nothing. The node may close the connection."""
    with contextlib.suppress(ConnectionError):
        for _ in range(FRAMES_A_FLOODER):
            connection.send_frame(opcode, b"x" * 100)
            await asyncio.sleep(0)


async def ask_without_end(port: int) -> None:
    """Requests one behind the other on one connection, whose answers nobody reads before all are sent."""
    with contextlib.suppress(ConnectionError):
        async with connected(port) as connection:
            for _ in range(500):
                connection.send_request("GET", "/info")
                await asyncio.sleep(0)


async def listen_and_reset(port: int) -> None:
    """A listener that goes away without a word, with what it did not read."""
    for _ in range(5):
        async with websocket(port, "/v0/players/p/ws", receive_buffer_bytes=4096) as connection:
            await asyncio.sleep(0)
            connection.reset()


async def listen_at_half_speed(port: int) -> None:
    """A listener that takes half of what it is sent, and loses the rest."""
    async with websocket(port, "/v0/players/p/ws", receive_buffer_bytes=4096) as connection:
        while True:
            await connection.reader.read(FRAME_BYTES // 2)
            await asyncio.sleep(FRAME_S)


async def test_who_listens_loses_nothing_to_floods_and_to_those_who_read_too_slowly(tmp_path: Path) -> None:
    sound = music(4.0)
    (tmp_path / "song.wav").write_bytes(wav(sound))
    async with running_node(tmp_path, PATIENT) as node, AsyncExitStack() as stack:
        await create(node, "p", "song.wav")
        for _ in range(100):
            await stack.enter_async_context(websocket(node.port, "/v0/players/p/events"))
        wait = WaitForCpu(node.pid, *node.decoder_pids())
        ear = await stack.enter_async_context(listening(node, "p"))
        for _ in range(10):  # never read
            await stack.enter_async_context(websocket(node.port, "/v0/players/p/ws", receive_buffer_bytes=4096))
        flooding = []
        for number in range(2 * FLOODERS):
            connection = await stack.enter_async_context(websocket(node.port, "/v0/players/p/ws"))
            flooding.append(flood(connection, PING if number % 2 else TEXT))
        half_as_fast = [asyncio.create_task(listen_at_half_speed(node.port)) for _ in range(FLOODERS)]
        asking = [ask_without_end(node.port) for _ in range(FLOODERS)]
        resetting = [listen_and_reset(node.port) for _ in range(FLOODERS)]
        await asyncio.gather(*flooding, *asking, *resetting, ear.frames_heard(200))
        assert ear.pcm[: len(pcm_of(sound))] == pcm_of(sound)
        quality = (await state(node, "p"))["quality"]
        # Nothing, unless the machine itself let the node, its decoders and these clients wait for so long.
        assert quality["timesRunDry"] <= explained_underruns(wait.seconds(node.pid, *node.decoder_pids()))
        assert quality["framesLostByListeners"] > 0
        for listener in half_as_fast:
            listener.cancel()
    assert not [line for line in node.log if "ERROR" in line]

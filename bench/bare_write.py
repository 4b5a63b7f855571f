"""The bare write to a transport, with which the cost of a further listener is compared."""

import asyncio
import socket
import subprocess
import sys
import time
from typing import Final, cast

from bench.evenness import FRAME_S
from bench.frame_stream import MESSAGE_BYTES

_CONNECTIONS: Final = 200
_DRAIN: Final = """
import asyncio, sys, uvloop
async def main():
    async def one():
        reader, _ = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]), limit=1 << 20)
        while await reader.read(1 << 16): pass
    await asyncio.gather(*(one() for _ in range(int(sys.argv[2]))))
uvloop.run(main())
"""


async def bare_write_us(seconds: float) -> float:
    """CPU µs of this process for one write of a frame's message to a loopback transport that another process reads.

    Paced like the node: to every connection once in 20 ms. The loop's own wake-ups are counted with it.
    """
    import uvloop

    return await asyncio.to_thread(lambda: uvloop.run(_measure(seconds)))


async def _measure(seconds: float) -> float:
    transports: list[asyncio.Transport] = []

    class Accept(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport = cast(asyncio.Transport, transport)  # uvloop's are none by class
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transports.append(transport)

    server = await asyncio.get_running_loop().create_server(Accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    drain = subprocess.Popen([sys.executable, "-c", _DRAIN, str(port), str(_CONNECTIONS)])
    try:
        while len(transports) < _CONNECTIONS:
            await asyncio.sleep(0.01)
        message = bytes(MESSAGE_BYTES)
        ticks = int(seconds / FRAME_S)
        deadline, before = time.monotonic(), time.thread_time()
        for _ in range(ticks):
            for transport in transports:
                transport.write(message)
            deadline += FRAME_S
            await asyncio.sleep(max(0.0, deadline - time.monotonic()))
        return (time.thread_time() - before) * 1e6 / (ticks * _CONNECTIONS)
    finally:
        drain.kill()
        drain.wait()
        server.close()

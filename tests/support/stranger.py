"""A server that is no node."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stranger(answer: bytes, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of a server, in a thread, that answers this to whatever it is sent; with TLS if it has a context."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(reply, sock=listening, ssl=context)
        async with server:
            await asyncio.to_thread(over.wait)

    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        thread.join()

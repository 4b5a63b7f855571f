"""A relay in front of a port, whose connections a test cuts as a network does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Cuttable:
    """Listens on `port` of 127.0.0.1 and passes everything on to `target`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """All connections that there are, without a word to either side."""
        for writer in self._writers:
            writer.transport.abort()

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, back}
        with suppress(ConnectionError):
            await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        self._writers -= {writer, back}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def cuttable(target: int) -> AsyncIterator[Cuttable]:
    relay = Cuttable(target)
    server = await asyncio.start_server(relay.relay, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        relay.cut()

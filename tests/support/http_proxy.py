"""A proxy for HTTP and, by tunnels, for HTTPS, which may want a login and may refuse."""

import asyncio
import contextlib
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit


@dataclass
class HttpProxy:
    login: str = ""  # "NAME:PASSWORD"
    refuses_with: int = 0
    asked: list[str] = field(default_factory=list)  # where it was asked to go
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for writer in tuple(self._writers):
            writer.close()

    @property
    def url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        return f"http://{self.login}{'@' if self.login else ''}127.0.0.1:{port}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ExceptionGroup):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes requests without a body, all of one connection to one server."""
        back: asyncio.StreamWriter | None = None
        async with asyncio.TaskGroup() as passing:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, target, _ = head.partition("\r\n")[0].split(" ")
                self.asked.append(target)
                wanted = b64encode(self.login.encode()).decode()
                if self.refuses_with or (self.login and f"Proxy-Authorization: Basic {wanted}" not in head):
                    writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % (self.refuses_with or 407))
                    continue
                parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
                if back is None:
                    there, back = await asyncio.open_connection(parts.hostname, parts.port)
                    self._writers.add(back)
                    passing.create_task(_pass_on(there, writer))
                if method == "CONNECT":
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    await _pass_on(reader, back)
                    return
                path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
                lines = [f"{method} {path} HTTP/1.1", *head.split("\r\n")[1:-2], "", ""]
                back.write("\r\n".join(line for line in lines if not line.startswith("Proxy-")).encode("latin-1"))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()

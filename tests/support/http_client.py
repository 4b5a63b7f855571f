"""An HTTP client that sends exactly the bytes it is given and shows exactly what comes back.

Client libraries normalise paths, merge headers and answer pings by themselves; tests of the edge need none of it.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.support.eventually import eventually
from tests.support.wire_check import check_reply

Headers: TypeAlias = Sequence[tuple[str, str | bytes]]

_KEY = "dGhlIHNhbXBsZSBub25jZQ=="
_UPGRADE: Headers = (("Connection", "Upgrade"), ("Upgrade", "websocket"))
WEBSOCKET_HEADERS: Headers = (*_UPGRADE, ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", _KEY))

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA


@dataclass(frozen=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def json(self) -> Any:
        assert self.header("Content-Type") == "application/json"
        return json.loads(self.body)


@dataclass(frozen=True)
class Frame:
    opcode: int
    payload: bytes
    head: bytes

    def close_code(self) -> int:
        assert self.opcode == CLOSE
        return int.from_bytes(self.payload[:2])


class Connection:
    """One TCP connection to the node under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._asked: deque[tuple[str, str]] = deque()  # the requests that were not answered yet

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def send_request(self, method: str, target: str | bytes, headers: Headers = (), body: bytes | None = None) -> None:
        """Adds Host, when `headers` have none, and Content-Length for a body."""
        raw_target = target.encode() if isinstance(target, str) else target
        self._asked.append((method, raw_target.decode("latin-1")))
        lines = [b"%s %s HTTP/1.1" % (method.encode(), raw_target)]
        names = {name.lower() for name, _ in headers}
        if "host" not in names:
            lines.append(b"Host: localhost")
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            lines.append(b"Content-Length: %d" % len(body))
        for name, value in headers:
            lines.append(name.encode() + b": " + (value.encode() if isinstance(value, str) else value))
        self.send(b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""))

    async def read_by_node(self) -> None:
        """Waits until the node has read what has come to it so far on this connection, by what Linux knows of that."""
        ports = [self.writer.get_extra_info(name)[1] for name in ("peername", "sockname")]
        ends = [f"0100007F:{port:04X}" for port in ports]  # of 127.0.0.1

        def is_read() -> bool:
            for line in Path("/proc/net/tcp").read_text().splitlines():
                _, local, remote, _, queues, *rest = line.split()
                if [local, remote] == ends:
                    is_accepted = rest[4] != "0"  # it has an inode
                    return is_accepted and int(queues.partition(":")[2], 16) == 0
            return False

        await eventually(is_read, "the node reads what it was sent")

    async def read_head(self) -> Answer:
        """Status and headers; the body stays to be read."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status_line, *lines = head.split("\r\n")[:-2]
        headers = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
        return Answer(int(status_line.split()[1]), headers, b"")

    async def read_answer(self, method: str = "GET") -> Answer:
        head = await self.read_head()
        if method == "HEAD" or head.status == 204:
            if self._asked:
                self._asked.popleft()
            return head
        if head.header("Transfer-Encoding") == "chunked":
            body = b"".join([chunk async for chunk in self.chunks()])
        else:
            body = await self.reader.readexactly(int(head.header("Content-Length") or 0))
        if self._asked:
            check_reply(*self._asked.popleft(), head.status, head.header("Content-Type"), body)
        return Answer(head.status, head.headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a chunked body, to its last one."""
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        assert await self.reader.readline() == b"\r\n"

    def send_frame(self, opcode: int, payload: bytes = b"") -> None:
        """A masked client frame of up to 65535 bytes."""
        size = len(payload)
        length = bytes((0x80 | size,)) if size <= 125 else bytes((0x80 | 126,)) + size.to_bytes(2)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        self.send(bytes((0x80 | opcode,)) + length + mask + masked)

    async def read_frame(self) -> Frame:
        head = await self.reader.readexactly(2)
        size = head[1]
        extended_bytes = {126: 2, 127: 8}.get(size, 0)
        if extended_bytes:
            extended = await self.reader.readexactly(extended_bytes)
            head, size = head + extended, int.from_bytes(extended)
        return Frame(head[0] & 0x0F, await self.reader.readexactly(size), head)

    async def read_to_end(self) -> bytes:
        return await self.reader.read()

    async def read_to_cut(self) -> bytes:
        """The same, of a connection that may end with a reset."""
        with contextlib.suppress(ConnectionResetError):
            return await self.read_to_end()
        return b""

    def reset(self) -> None:
        """Ends the connection without a word, with what was not read (RST)."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def connected(port: int, *, receive_buffer_bytes: int | None = None) -> AsyncIterator[Connection]:
    """A connection to 127.0.0.1, cut at the end. A small receive buffer makes a client that is soon full."""
    client = socket.socket()
    if receive_buffer_bytes is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    client.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    except OSError:
        client.close()
        raise
    reader, writer = await asyncio.open_connection(sock=client, limit=receive_buffer_bytes or 2**20)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()
        # The transport's end is told one turn of the loop later.
        await asyncio.sleep(0)


async def request(
    port: int, method: str, target: str | bytes, *, headers: Headers = (), body: bytes | None = None
) -> Answer:
    """One request on a connection of its own."""
    async with connected(port) as connection:
        connection.send_request(method, target, headers, body)
        return await connection.read_answer(method)


async def send_json(port: int, method: str, target: str, value: object, *, headers: Headers = ()) -> Answer:
    return await request(port, method, target, headers=headers, body=json.dumps(value).encode())


@contextlib.asynccontextmanager
async def websocket(
    port: int, target: str, *, headers: Headers = (), receive_buffer_bytes: int | None = None
) -> AsyncIterator[Connection]:
    """A connection whose upgrade was answered with 101."""
    async with connected(port, receive_buffer_bytes=receive_buffer_bytes) as connection:
        connection.send_request("GET", target, (*WEBSOCKET_HEADERS, *headers))
        head = await connection.read_head()
        assert head.status == 101, head
        yield connection

"""A real HTTP server on loopback that serves media well or badly, as a test asks for.

async with MediaServer() as server:
    server.serve("/song.mp3", media(body))
    server.serve("/bad.mp3", in_turn(status(503), media(body, cut_after=1000)))
    ... server.url("/song.mp3") ... server.requests
"""

import asyncio
import contextlib
import re
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from tests.support.eventually import Changes, eventually

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """`headers` has its names in lower case."""

    path: str
    headers: dict[str, str]

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass(slots=True)
class Reply:
    """Where an answer writes. `sent_bytes` counts what the client's side has taken or buffered."""

    writer: asyncio.StreamWriter
    sent_bytes: int = 0
    keeps_alive: bool = True

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), _BLOCK_BYTES):
            block = data[start : start + _BLOCK_BYTES]
            self.writer.write(block)
            await self.writer.drain()
            self.sent_bytes += len(block)

    def cut(self) -> None:
        """Ends the connection in the middle."""
        self.keeps_alive = False
        self.writer.transport.close()

    def reset(self) -> None:
        """Ends the connection with a TCP reset."""
        self.keeps_alive = False
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Answer: TypeAlias = Callable[[Request, Reply], Awaitable[None]]


def media(
    body: bytes,
    *,
    ranges: bool = True,
    etag: str | None = '"one"',
    content_type: str = "audio/mpeg",
    chunked: bool = False,
    length: int | None = None,
    cut_after: int | None = None,
    stall_after: int | None = None,
    at_most: int | None = None,
    headers: str = "",
) -> Answer:
    """A file. `length` is a wrong Content-Length; `cut_after` and `stall_after` count body bytes of the response;
    `at_most` limits what one range response carries; `headers` are further lines, each with its line end."""

    async def answer(request: Request, reply: Reply) -> None:
        start, end = 0, len(body)
        found = _RANGE.fullmatch(request.range or "") if ranges else None
        if found and request.headers.get("if-range", etag) == etag:
            start, end = int(found[1]), min(end, int(found[2]) + 1 if found[2] else end)
            if start >= len(body):
                await reply.send(_header(416, f"Content-Range: bytes */{len(body)}\r\nContent-Length: 0\r\n"))
                return
            end = min(end, start + at_most) if at_most else end
        else:
            found = None
        lines = f"Content-Type: {content_type}\r\n{headers}"
        lines += f"ETag: {etag}\r\n" if etag else ""
        lines += f"Content-Range: bytes {start}-{end - 1}/{len(body)}\r\n" if found else ""
        lines += "Transfer-Encoding: chunked\r\n" if chunked else f"Content-Length: {length or end - start}\r\n"
        await reply.send(_header(206 if found else 200, lines))
        part = body[start:end]
        stop = min(len(part) if cut_after is None else cut_after, len(part) if stall_after is None else stall_after)
        await (_send_chunked(reply, part[:stop]) if chunked else reply.send(part[:stop]))
        if stall_after is not None and stall_after < len(part):
            await asyncio.Event().wait()
        if (cut_after is not None and cut_after < len(part)) or length:
            reply.cut()
        elif chunked:
            await reply.send(b"0\r\n\r\n")

    return answer


def status(code: int, headers: str = "") -> Answer:
    """An answer without a useful body."""

    async def answer(_: Request, reply: Reply) -> None:
        await reply.send(_header(code, f"{headers}Content-Length: 4\r\n") + b"nope")

    return answer


def redirect(location: str, code: int = 302) -> Answer:
    return status(code, f"Location: {location}\r\n")


def raw(data: bytes) -> Answer:
    """Exactly these bytes, then the end of the connection."""

    async def answer(_: Request, reply: Reply) -> None:
        await reply.send(data)
        reply.cut()

    return answer


def drip(data: bytes, every_s: float, *, head: bytes = b"") -> Answer:
    """These bytes one by one, after a head that comes at once."""

    async def answer(_: Request, reply: Reply) -> None:
        await reply.send(head)
        for byte in data:
            await reply.send(bytes((byte,)))
            await asyncio.sleep(every_s)
        reply.cut()

    return answer


def stall() -> Answer:
    """Takes the request and never says anything."""

    async def answer(_: Request, __: Reply) -> None:
        await asyncio.Event().wait()

    return answer


def reset() -> Answer:
    """Resets the connection instead of an answer."""

    async def answer(_: Request, reply: Reply) -> None:
        reply.reset()

    return answer


def once_set(event: asyncio.Event, answer: Answer) -> Answer:
    """Takes the request, and answers when `event` is set."""

    async def later(request: Request, reply: Reply) -> None:
        await event.wait()
        await answer(request, reply)

    return later


def in_turn(*answers: Answer) -> Answer:
    """The first request gets the first answer, and so on; the last answer is for all that follow."""
    waiting = list(answers)

    async def answer(request: Request, reply: Reply) -> None:
        await (waiting.pop(0) if len(waiting) > 1 else waiting[0])(request, reply)

    return answer


@dataclass
class MediaServer:
    """`requests` and `replies` are the log, in the order of arrival."""

    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    requests: list[Request] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changes = Changes()
        self._open_count = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, 0, ssl=self.tls, backlog=1000)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def serve(self, path: str, answer: Answer) -> str:
        """Gives `path` an answer; returns its URL."""
        self._answers[path] = answer
        return self.url(path)

    def url(self, path: str) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{self.host}:{self.port}{path}"

    @property
    def ranges(self) -> list[str | None]:
        """The Range header of every request so far."""
        return [request.range for request in self.requests]

    async def all_gone(self) -> None:
        """Waits until no client is connected any more."""
        await self.connected(0)

    async def connected(self, count: int) -> None:
        """Waits until so many connections are open."""
        await self._changes.until(
            lambda: self._open_count == count, lambda: f"{count} open connections; {self._open_count}"
        )

    async def requested(self, count: int) -> None:
        """Waits until so many requests have come."""
        await self._changes.until(lambda: len(self.requests) >= count, lambda: f"{count} requests; {self.requests}")

    async def held_up(self) -> int:
        """Waits until who asked last takes no more. How many bytes were sent then."""
        sent: list[int] = []

        def stands() -> bool:
            sent.append(self.replies[-1].sent_bytes)
            return len(sent) > 50 and sent[-50] == sent[-1] > 0

        await eventually(stands, "the server can send no more")
        return sent[-1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        self._open_count += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            await self._converse(reader, writer)
        writer.transport.abort()
        self._open_count -= 1
        self._changes.tell()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun = b""
        while True:
            head = (begun + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in head[1:] if line)
            request = Request(head[0].split(" ")[1], {name.lower(): value.strip() for name, _, value in pairs})
            reply = Reply(writer)
            self.requests.append(request)
            self.replies.append(reply)
            self._changes.tell()
            answering = asyncio.ensure_future(self._answers.get(request.path, status(404))(request, reply))
            # The next byte is the next request's first, or tells that the client left.
            listening = asyncio.ensure_future(reader.read(1))
            try:
                await asyncio.wait((answering, listening), return_when=asyncio.FIRST_COMPLETED)
                if answering.done():
                    await answering
                    if not reply.keeps_alive:
                        return
                begun = await listening
                if not begun:
                    return
                await answering
            finally:
                answering.cancel()
                listening.cancel()
                await asyncio.gather(answering, listening, return_exceptions=True)


@dataclass
class Canary:
    """A listener that must stay alone: counts who connects. The host "::" is every address, of IPv4 too."""

    host: str = "127.0.0.1"
    connections: int = 0

    async def __aenter__(self) -> Self:
        if self.host == "::":
            has_ipv6 = socket.has_dualstack_ipv6()
            family, host = (socket.AF_INET6, "::") if has_ipv6 else (socket.AF_INET, "0.0.0.0")
            everywhere = socket.create_server((host, 0), family=family, dualstack_ipv6=has_ipv6)
            self._server = await asyncio.start_server(self._accept, sock=everywhere)
        else:
            self._server = await asyncio.start_server(self._accept, self.host, 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()

    async def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.transport.abort()


def _header(code: int, lines: str) -> bytes:
    return f"HTTP/1.1 {code} Whatever\r\n{lines}\r\n".encode("latin-1")


async def _send_chunked(reply: Reply, data: bytes) -> None:
    for start in range(0, len(data), 1000):
        part = data[start : start + 1000]
        await reply.send(b"%x\r\n%s\r\n" % (len(part), part))

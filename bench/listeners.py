"""The listeners' side, in a process of its own: connects, notes when frames come, reports how evenly they did.

`python -m bench.listeners` reads one JSON order a line from stdin and answers each with one JSON line:
{"do": "listen", "host": …, "port": …, "paths": […], "is_opus": …}, {"do": "hear_all", "limit_s": …},
{"do": "begin"}, {"do": "end"}.

A client library would cost more than the node does: the handshake is a real one, but frames are only counted.
"""

import asyncio
import base64
import dataclasses
import hashlib
import json
import os
import sys
import time
from typing import Final, cast

from bench.evenness import evenness
from bench.frame_stream import FrameStream, PacketStream

_CONNECT_LIMIT_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.05
_ACCEPT_KEY: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455


class Listener(asyncio.Protocol):
    """One connection. `arrivals_s` grows by the time of each frame."""

    def __init__(self, address: str, path: str, *, is_opus: bool) -> None:
        self.arrivals_s: list[float] = []
        self.stream = PacketStream() if is_opus else FrameStream()
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_lost = False
        self._key = base64.b64encode(os.urandom(16))
        self._request = (
            f"GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {self._key.decode()}\r\n\r\n"
        )
        self._answer: bytes | None = b""  # None once it was read whole

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by class
        self._transport.write(self._request.encode())

    def data_received(self, data: bytes) -> None:
        if self._answer is not None:
            data = self._read_answer(data)
        frames = self.stream.feed(data)
        if frames == 1:
            self.arrivals_s.append(time.monotonic())
        elif frames:
            self.arrivals_s.extend([time.monotonic()] * frames)
        if self.stream.pings:
            self._answer_pings()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if not self.answered.done():
            self.answered.set_exception(exc or ConnectionError("closed before the handshake was answered"))

    def _read_answer(self, data: bytes) -> bytes:
        """Takes the handshake's answer and returns what came after it."""
        assert self._answer is not None
        head, end, rest = (self._answer + data).partition(b"\r\n\r\n")
        if not end:
            self._answer = head
            return b""
        self._answer = None
        accepted = base64.b64encode(hashlib.sha1(self._key + _ACCEPT_KEY).digest())
        if head.startswith(b"HTTP/1.1 101") and accepted in head:
            self.answered.set_result(None)
        else:
            self.answered.set_exception(ConnectionError(head.partition(b"\r\n")[0].decode("latin-1")))
        return rest

    def _answer_pings(self) -> None:
        for payload in self.stream.pings:
            self._transport.write(b"\x8a" + bytes([0x80 | len(payload)]) + bytes(4) + payload)  # masked with zeros
        self.stream.pings.clear()


class Side:
    """All listeners of this process, and the window in which their frames count."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._begun_s = 0.0

    async def listen(self, host: str, port: int, paths: list[str], is_opus: bool) -> dict[str, object]:
        loop = asyncio.get_running_loop()
        for path in paths:
            listener = Listener(f"{host}:{port}", path, is_opus=is_opus)
            await asyncio.wait_for(self._connect(loop, listener, host, port), _CONNECT_LIMIT_S)
            self._listeners.append(listener)
        return {"listening": len(self._listeners)}

    async def hear_all(self, limit_s: float) -> dict[str, object]:
        """Waits until every listener has had a frame, but no longer than `limit_s`."""
        deadline_s = time.monotonic() + limit_s
        while (silent := self._silent()) and time.monotonic() < deadline_s:
            await asyncio.sleep(_LOOK_AGAIN_S)
        return {"silent": silent}

    def begin(self) -> dict[str, object]:
        for listener in self._listeners:
            listener.arrivals_s.clear()
        self._begun_s = time.monotonic()
        return {}

    def end(self) -> dict[str, object]:
        window_s = time.monotonic() - self._begun_s
        report = dataclasses.asdict(evenness([listener.arrivals_s for listener in self._listeners], window_s))
        report["strays"] = sum(listener.stream.strays for listener in self._listeners)
        report["lost"] = sum(listener.is_lost or listener.stream.is_closed for listener in self._listeners)
        return report

    def _silent(self) -> int:
        return sum(not listener.arrivals_s for listener in self._listeners)

    async def _connect(self, loop: asyncio.AbstractEventLoop, listener: Listener, host: str, port: int) -> None:
        await loop.create_connection(lambda: listener, host, port)
        await listener.answered


async def main() -> None:
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    side = Side()
    while line := await reader.readline():
        order = json.loads(line)
        try:
            match order.pop("do"):
                case "listen":
                    answer = await side.listen(**order)
                case "hear_all":
                    answer = await side.hear_all(**order)
                case "begin":
                    answer = side.begin()
                case _:
                    answer = side.end()
        except (OSError, TimeoutError) as error:
            answer = {"error": f"a listener could not connect: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main())

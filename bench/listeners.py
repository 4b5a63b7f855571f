"""The listeners' side, in a process of its own: connects, notes when frames come, reports how evenly they did.

`python -m bench.listeners` reads one JSON order a line from stdin and answers each with one JSON line:
{"do": "listen", "host": …, "port": …, "paths": […], "is_opus": …}, {"do": "hear_all", "limit_s": …},
{"do": "begin"}, {"do": "end"}.

A client library would cost more than the node does, and an event loop half as much: the handshake is a real one, but
then one thread asks the kernel which sockets have something, and only counts frames.
"""

import base64
import dataclasses
import hashlib
import json
import os
import select
import socket
import sys
import threading
import time
from typing import Final

from bench.evenness import evenness
from bench.frame_stream import FrameStream, PacketStream

_CONNECT_LIMIT_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.05
_READ_BYTES: Final = 8192  # two frames of PCM
_ACCEPT_KEY: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455


class Listener:
    """One connection, which begins with `be_answered`. `arrivals_s` grows by the time of each frame. Raises `OSError`
    when it cannot connect."""

    def __init__(self, host: str, port: int, path: str, *, is_opus: bool) -> None:
        self.arrivals_s: list[float] = []
        self.stream = PacketStream() if is_opus else FrameStream()
        self.is_lost = False
        self._key = base64.b64encode(os.urandom(16))
        self.socket = socket.create_connection((host, port), _CONNECT_LIMIT_S)
        request = (
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {self._key.decode()}\r\n\r\n"
        )
        self.socket.sendall(request.encode())

    def be_answered(self) -> None:
        """Waits for the answer of the handshake."""
        after = self._read_answer()
        self.socket.setblocking(False)
        if after:
            self._take(after)

    def read(self) -> bool:
        """Reads what has come. False when nothing will come any more."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            self.is_lost = True
            return False
        self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        frames = self.stream.feed(data)
        if frames == 1:
            self.arrivals_s.append(time.monotonic())
        elif frames:
            self.arrivals_s.extend([time.monotonic()] * frames)
        if self.stream.pings:
            for payload in self.stream.pings:
                self.socket.send(b"\x8a" + bytes([0x80 | len(payload)]) + bytes(4) + payload)  # masked with zeros
            self.stream.pings.clear()

    def _read_answer(self) -> bytes:
        """Returns what came after it."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = self.socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionError("closed before the handshake was answered")
            answer += data
        head, _, rest = answer.partition(b"\r\n\r\n")
        accepted = base64.b64encode(hashlib.sha1(self._key + _ACCEPT_KEY).digest())
        if not head.startswith(b"HTTP/1.1 101") or accepted not in head:
            raise ConnectionError(head.partition(b"\r\n")[0].decode("latin-1"))
        return rest


class Reader:
    """Reads all connections in one thread."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._by_number: dict[int, Listener] = {}
        self._end = os.eventfd(0)
        self._epoll.register(self._end, select.EPOLLIN)
        self._thread = threading.Thread(target=self._read_all)
        self._thread.start()

    def add(self, listener: Listener) -> None:
        number = listener.socket.fileno()
        self._by_number[number] = listener
        self._epoll.register(number, select.EPOLLIN)

    def close(self) -> None:
        os.eventfd_write(self._end, 1)
        self._thread.join()
        self._epoll.close()
        os.close(self._end)
        for listener in self._by_number.values():
            listener.socket.close()

    def _read_all(self) -> None:
        while True:
            for number, _ in self._epoll.poll():
                if number == self._end:
                    return
                if not self._by_number[number].read():
                    self._epoll.unregister(number)


class Side:
    """All listeners of this process, and the window in which their frames count."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._reader = Reader()
        self._begun_s = 0.0
        self._cpu_s = 0.0

    def listen(self, host: str, port: int, paths: list[str], is_opus: bool) -> dict[str, object]:
        begun = [Listener(host, port, path, is_opus=is_opus) for path in paths]
        try:
            for listener in begun:
                listener.be_answered()
                self._reader.add(listener)
        except OSError:
            for listener in begun:
                listener.socket.close()
            raise
        self._listeners += begun
        return {"listening": len(self._listeners)}

    def hear_all(self, limit_s: float) -> dict[str, object]:
        """Waits until every listener has had a frame, but no longer than `limit_s`."""
        deadline_s = time.monotonic() + limit_s
        while (silent := self._silent()) and time.monotonic() < deadline_s:
            time.sleep(_LOOK_AGAIN_S)
        return {"silent": silent}

    def begin(self) -> dict[str, object]:
        for listener in self._listeners:
            listener.arrivals_s.clear()
        self._begun_s, self._cpu_s = time.monotonic(), time.process_time()
        return {}

    def end(self) -> dict[str, object]:
        window_s, cpu_s = time.monotonic() - self._begun_s, time.process_time() - self._cpu_s
        arrivals_s = [list(listener.arrivals_s) for listener in self._listeners]
        report = dataclasses.asdict(evenness(arrivals_s, window_s))
        report["strays"] = sum(listener.stream.strays for listener in self._listeners)
        report["lost"] = sum(listener.is_lost or listener.stream.is_closed for listener in self._listeners)
        report["listening_cpu_s"] = cpu_s
        return report

    def close(self) -> None:
        self._reader.close()

    def _silent(self) -> int:
        return sum(not listener.arrivals_s for listener in self._listeners)


def main() -> None:
    side = Side()
    try:
        _obey(side)
    finally:
        side.close()


def _obey(side: Side) -> None:
    for line in sys.stdin:
        order = json.loads(line)
        try:
            match order.pop("do"):
                case "listen":
                    answer = side.listen(**order)
                case "hear_all":
                    answer = side.hear_all(**order)
                case "begin":
                    answer = side.begin()
                case _:
                    answer = side.end()
        except OSError as error:
            answer = {"error": f"a listener could not connect: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

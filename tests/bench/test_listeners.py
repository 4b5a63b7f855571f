"""The bench's own listeners, at a server that sends what a node would."""

import base64
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from bench.frame_stream import HEAD
from bench.listeners import Side

from tests.support.eventually import eventually

FRAME = HEAD + bytes(3840)
PACKET = b"\x82\x7e\x00\x80" + bytes(128)
PING = b"\x89\x02hi"


class Server:
    """Takes one connection, answers the handshake, sends `data` right behind it and keeps what the listener sends."""

    def __init__(self, data: bytes, status: str = "101 Switching Protocols") -> None:
        self.received = b""
        self._data = data
        self._status = status
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for open_socket in (self.connection, self._socket):
            if open_socket is not None:
                open_socket.close()

    def _serve(self) -> None:
        self.connection, _ = self._socket.accept()
        request = self.connection.recv(4096)
        key = next(line.split()[1] for line in request.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key"))
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())  # noqa: S324
        head = f"HTTP/1.1 {self._status}\r\nSec-WebSocket-Accept: ".encode() + accept
        self.connection.sendall(head + b"\r\n\r\n" + self._data)
        while data := self.connection.recv(4096):
            self.received += data


@pytest.fixture
def side() -> Iterator[Side]:
    side = Side()
    yield side
    side.close()


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Callable[..., Server]:
    def start(data: bytes, **rest: str) -> Server:
        server = Server(data, **rest)
        request.addfinalizer(server.close)
        return server

    return start


async def test_frames_are_counted_from_the_first_on_and_pings_answered(
    side: Side, serve: Callable[..., Server]
) -> None:
    server = serve(FRAME + PING + FRAME)
    assert side.listen("127.0.0.1", server.port, ["/"], is_opus=False) == {"listening": 1}
    assert side.hear_all(5.0) == {"silent": 0}
    await eventually(lambda: server.received.endswith(b"\x8a\x82" + bytes(4) + b"hi"), "the ping is answered")
    side.begin()
    assert server.connection is not None
    server.connection.sendall(FRAME * 3)
    assert side.hear_all(5.0) == {"silent": 0}
    await eventually(lambda: side.end()["frames"] == 3, "three frames were counted")
    assert side.end()["lost"] == side.end()["strays"] == 0


async def test_packets_are_frames_of_those_who_asked_for_opus_and_a_lost_listener_is_reported(
    side: Side, serve: Callable[..., Server]
) -> None:
    server = serve(PACKET)
    side.listen("127.0.0.1", server.port, ["/"], is_opus=True)
    assert side.hear_all(5.0) == {"silent": 0}
    assert side.end()["strays"] == 0
    assert server.connection is not None
    server.connection.shutdown(socket.SHUT_RDWR)
    await eventually(lambda: side.end()["lost"] == 1, "one listener is lost")


def test_a_refusal_is_an_error(side: Side, serve: Callable[..., Server]) -> None:
    with pytest.raises(ConnectionError, match="404"):
        side.listen("127.0.0.1", serve(b"", status="404 Not Found").port, ["/"], is_opus=False)

"""How a resolver process gets its connections: it cannot make any, and asks the node for each.

The node dials its own proxy and hands the connected socket over. Both ends use a socket pair that keeps messages apart.
A request is one byte; the answer is a byte 0 with a descriptor, or a byte with the number of an error.
"""

import asyncio
import contextlib
import errno
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

Dial: TypeAlias = Callable[[], Awaitable[socket.socket]]

PROXY_HOST: Final = "127.0.0.1"

_ASKING: Final = b"?"
_HERE_IT_IS: Final = b"\0"
_LONGEST_WAIT_S: Final = 10.0


class Door:
    """The node's end, for one resolver process, on the event loop. `dial` gives a connection to the proxy, or raises
    `OSError`. One is dialled at a time. `process_end` is for the process, and closed by whoever started it.
    """

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._loop = asyncio.get_running_loop()
        self._socket, self.process_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._answering: asyncio.Task[None] | None = None
        self._loop.add_reader(self._socket, self._read)

    def close(self) -> None:
        """Ends the door. May be called more than once."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        if self._answering is not None:
            self._answering.cancel()

    def _read(self) -> None:
        try:
            asked = self._socket.recv(1)
        except BlockingIOError:
            return
        except OSError:
            asked = b""
        # The next request is read after this one is answered: a process that asks without end fills its own queue.
        self._loop.remove_reader(self._socket)
        if asked:
            self._answering = self._loop.create_task(self._answer())

    async def _answer(self) -> None:
        try:
            connection = await self._dial()
        except OSError as error:
            number = error.errno or errno.ECONNREFUSED
            with contextlib.suppress(OSError):
                self._socket.send(bytes([number if 0 < number < 256 else errno.ECONNREFUSED]))
        else:
            with connection, contextlib.suppress(OSError):
                socket.send_fds(self._socket, [_HERE_IT_IS], [connection.fileno()])
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._read)


class DoorKnocker:
    """The process's end. `install` puts it under all of Python's sockets."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.settimeout(_LONGEST_WAIT_S)
        self._lock = threading.Lock()

    def install(self) -> None:
        """From now on a socket that connects becomes a connection to the proxy, whatever the address.

        The audit hook is asked before, as for any connection, and lets through the proxy's address only.
        """
        knocker = self

        def connect(self: socket.socket, address: Any) -> None:
            sys.audit("socket.connect", self, address)
            connected = knocker._connected()
            try:
                os.dup2(connected, self.fileno(), inheritable=False)
            finally:
                os.close(connected)
            self.settimeout(self.gettimeout())  # whether it blocks was a property of the replaced socket

        def connect_ex(self: socket.socket, address: Any) -> int:
            try:
                connect(self, address)
            except OSError as error:
                return error.errno or errno.ECONNREFUSED
            return 0

        sockets: Any = socket.socket
        sockets.connect, sockets.connect_ex = connect, connect_ex

    def _connected(self) -> int:
        """The descriptor of a connection to the proxy. Raises `OSError`."""
        with self._lock:
            self._socket.send(_ASKING)
            answer, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        if descriptors:
            return descriptors[0]
        number = answer[0] if answer else errno.ECONNREFUSED
        raise OSError(number, os.strerror(number))

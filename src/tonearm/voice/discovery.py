"""The UDP socket of a voice connection, and the address at which the voice server sees it.

A packet of IP Discovery (docs.discord.com, "Voice Connections") has 74 bytes, big-endian. Its fields are the type (1 is
a request, 2 an answer), the length of the rest, SSRC, the address as text that ends with zeros, and the port.
"""

import asyncio
import contextlib
import ctypes
import random
import socket
import struct
from ipaddress import ip_address
from typing import Final

from tonearm.core.voice import VoiceSettings

_PACKET: Final = struct.Struct(">HHI64sH")
_ASKS, _ANSWERS = 1, 2
_LENGTH: Final = 70
_TRIES: Final = 5
_TRY_S: Final = 0.5
_PORT_TRIES: Final = 200
_SO_ATTACH_FILTER: Final = getattr(socket, "SO_ATTACH_FILTER", 26)
_RETURN_NOTHING: Final = struct.pack("=HBBI", 0x06, 0, 0, 0)  # linux/filter.h: BPF_RET | BPF_K, 0 bytes are kept
_LITTLE_BUFFER_BYTES: Final = 4096


class NoAnswer(Exception):
    """The server does not answer: UDP does not get through."""


def open_udp(host: str, port: int, settings: VoiceSettings, own_port: int = 0) -> socket.socket:
    """A socket that is connected to this address, which the caller has checked. When no port of `settings.udp_ports` is
    free, it shares `own_port`, that of an earlier socket of the same voice. Raises `OSError`, also when there is no
    such port, and ValueError when `host` is not an address."""
    family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    try:
        udp.setblocking(False)
        if settings.udp_bind or settings.udp_ports is not None:
            _bind(udp, settings, own_port)
        udp.connect((host, port))
    except BaseException:
        udp.close()
        raise
    return udp


def _bind(udp: socket.socket, settings: VoiceSettings, own_port: int) -> None:
    address = settings.udp_bind or ("::" if udp.family == socket.AF_INET6 else "0.0.0.0")  # noqa: S104 - as without bind
    ports = settings.udp_ports
    if ports is None:
        udp.bind((address, 0))
        return
    for port in random.sample(ports, min(len(ports), _PORT_TRIES)):
        with contextlib.suppress(OSError):
            udp.bind((address, port))
            break
    else:
        if not own_port:
            raise OSError("no port of voice.udp_ports is free")
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        udp.bind((address, own_port))
    # A later socket of the same voice may share the port: each gets what its own server sends.
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)


async def discover(udp: socket.socket, ssrc: int) -> tuple[str, int]:
    """The address and port of this machine as the server sees them. Afterwards the kernel drops all incoming packets.
    Raises `NoAnswer`."""
    loop = asyncio.get_running_loop()
    for _ in range(_TRIES):
        ends_s = loop.time() + _TRY_S
        with contextlib.suppress(OSError):  # the error may be of an earlier packet
            udp.send(_PACKET.pack(_ASKS, _LENGTH, ssrc, b"", 0))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(ends_s):
                while True:
                    try:
                        found = _read(await loop.sock_recv(udp, _PACKET.size + 1), ssrc)
                    except OSError:  # apparently the port is closed
                        await asyncio.sleep(_TRY_S)
                    else:
                        if found is not None:
                            drop_what_comes(udp)
                            return found
    raise NoAnswer


def _read(packet: bytes, ssrc: int) -> tuple[str, int] | None:
    if len(packet) != _PACKET.size:
        return None
    kind, _, its_ssrc, text, port = _PACKET.unpack(packet)
    try:
        address = str(ip_address(text.partition(b"\0")[0].decode("ascii")))
    except ValueError:
        return None
    return (address, port) if kind == _ANSWERS and its_ssrc == ssrc and port else None


class _Filter(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))


def drop_what_comes(udp: socket.socket) -> None:
    """Drops incoming packets, because nobody reads the socket any more. If the kernel takes no filter, the small buffer
    fills up."""
    with contextlib.suppress(OSError):
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LITTLE_BUFFER_BYTES)
        program = ctypes.create_string_buffer(_RETURN_NOTHING)
        udp.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, bytes(_Filter(1, ctypes.addressof(program))))

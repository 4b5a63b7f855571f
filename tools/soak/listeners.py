"""Listeners: steady ones, which count every frame and every click, and misbehaving ones."""

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import aiohttp
import numpy as np
from tests.support.audio_files import s16, tone

from tonearm.protocol.framing import HEADER, FrameFlag
from tools.soak.sources import STEADY_HZ, STEADY_LEVEL

# Between two samples of the steady tone, and half as much again.
CLICK: Final = 1.5 * float(np.abs(np.diff(s16(tone(STEADY_HZ, 0.1, level=STEADY_LEVEL))[:, 0].astype(np.int32))).max())
_GONE: Final = (aiohttp.ClientError, OSError, TimeoutError)
_PAUSE_S: Final = 0.2


@dataclass
class Heard:
    """What one steady listener got."""

    form: str
    frames: int = 0
    missing: int = 0
    clicks: int = 0
    connections: int = 0
    bytes: int = 0


async def listen_steadily(http: aiohttp.ClientSession, base: Callable[[], str], heard: Heard) -> None:
    """Listens for ever, over every restart of the node. `base` is the player's address now."""
    while True:
        with contextlib.suppress(*_GONE):
            if heard.form in ("pcm", "opus"):
                await _listen_to_socket(http, f"{base()}/ws?header=1&format={heard.form}", heard)
            else:
                await _listen_to_stream(http, f"{base()}/stream.{heard.form}", heard)
        await asyncio.sleep(_PAUSE_S)


async def _listen_to_socket(http: aiohttp.ClientSession, url: str, heard: Heard) -> None:
    number, last = 0, None
    async with http.ws_connect(url) as socket_:
        heard.connections += 1
        async for message in socket_:
            _, flags, _, its_number, _ = HEADER.unpack_from(message.data)
            payload = message.data[HEADER.size :]
            heard.frames += 1
            heard.missing += max(0, its_number - number - 1) if number else 0
            number = its_number
            if heard.form == "pcm":
                left = np.frombuffer(payload, np.int16)[::2].astype(np.int32)
                joined = left if last is None or flags & FrameFlag.DISCONTINUITY else np.concatenate(((last,), left))
                heard.clicks += bool(np.abs(np.diff(joined)).max() > CLICK)
                last = left[-1]


async def _listen_to_stream(http: aiohttp.ClientSession, url: str, heard: Heard) -> None:
    async with http.get(url, timeout=aiohttp.ClientTimeout(total=None, sock_read=10)) as answer:
        heard.connections += 1
        async for data in answer.content.iter_any():
            heard.bytes += len(data)


async def listen_badly(http: aiohttp.ClientSession, base: str, dice: random.Random) -> None:
    """One visit of a listener as they come: it reads all, half as fast, nothing, or goes with a reset."""
    form = dice.choice(
        ("ws", "ws?format=opus", "ws?format=opus&bitrate=32000", "stream.mp3", "stream.ogg", "stream.wav")
    )
    habit = dice.choice(("reads", "reads", "half", "nothing", "resets"))
    with contextlib.suppress(*_GONE):
        async with asyncio.timeout(dice.uniform(0.5, 8.0)):
            if form.startswith("ws"):
                async with http.ws_connect(f"{base}/{form}", max_msg_size=0) as connection:
                    if habit == "nothing":
                        await asyncio.Event().wait()
                    async for _ in connection:
                        await asyncio.sleep(0.04 if habit == "half" else 0)
                        if habit == "resets" and dice.random() < 0.02:
                            _reset(connection.get_extra_info("socket"))
            else:
                async with http.get(f"{base}/{form}") as answer:
                    if habit == "nothing":
                        await asyncio.Event().wait()
                    async for data in answer.content.iter_any():
                        await asyncio.sleep(len(data) / 8000 if habit == "half" else 0)


def _reset(connection: socket.socket | None) -> None:
    """Has the next close end the connection with RST (SO_LINGER with no time)."""
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise ConnectionResetError

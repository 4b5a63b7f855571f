"""The listeners of a sound check: each records the audio of one player, with the times at which it arrived."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tonearm.protocol.framing import HEADER


@dataclass(frozen=True, slots=True)
class HeardFrame:
    """One message of an audio socket: when it came (seconds, monotonic), its header's fields, its payload."""

    at_s: float
    flags: int
    number: int
    position_us: int
    payload: bytes


@dataclass(slots=True)
class Recording:
    """What one listener got: frames of a socket, or the bytes of a stream with the times at which they came."""

    name: str
    frames: list[HeardFrame] = field(default_factory=list)
    stream: bytearray = field(default_factory=bytearray)
    came: list[tuple[float, int]] = field(default_factory=list)
    """Time, and how many bytes of the stream there were by then."""
    closed_with: int | None = None


@dataclass(frozen=True, slots=True)
class HeardEvent:
    at_s: float
    fields: dict[str, Any]


async def record_socket(http: aiohttp.ClientSession, url: str, recording: Recording) -> None:
    """Records an audio socket with headers until the node closes it."""
    async with http.ws_connect(url, max_msg_size=0) as socket:
        async for message in socket:
            _, flags, size, number, position_us = HEADER.unpack_from(message.data)
            payload = message.data[HEADER.size :]
            assert size == len(payload), f"the header says {size} bytes, {len(payload)} came"
            recording.frames.append(HeardFrame(time.monotonic(), flags, number, position_us, payload))
        recording.closed_with = socket.close_code


async def record_stream(http: aiohttp.ClientSession, url: str, recording: Recording) -> None:
    """Records an endless HTTP stream until the node ends it."""
    async with http.get(url, timeout=aiohttp.ClientTimeout(total=None)) as reply:
        reply.raise_for_status()
        try:
            async for data in reply.content.iter_any():
                recording.stream += data
                recording.came.append((time.monotonic(), len(recording.stream)))
        except (aiohttp.ClientPayloadError, ConnectionResetError):
            pass


async def record_events(http: aiohttp.ClientSession, url: str, events: list[HeardEvent]) -> None:
    async with http.ws_connect(url) as socket:
        async for message in socket:
            fields = json.loads(message.data)
            events.append(HeardEvent(time.monotonic(), fields))


async def until(condition: Any, timeout_s: float = 10.0) -> bool:
    """Waits until `condition()` is true; says whether it came to be."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        await asyncio.sleep(0.01)
    return True

"""Single reactions of a node, timed by one client."""

import asyncio
import time
from statistics import median

import aiohttp
import numpy as np

from bench.subjects import TonearmNode


async def first_frame_ms(node: TonearmNode, session: aiohttp.ClientSession, uri: str, player_id: str) -> float:
    """From sending the create request to the first frame at a listener that connects right after the answer."""
    begun = time.monotonic()
    await node.request(session, "POST", "/v0/players", {"id": player_id, "uri": uri})
    async with session.ws_connect(node.url + node.path(player_id), max_msg_size=0) as socket:
        await socket.receive_bytes()
        taken_ms = (time.monotonic() - begun) * 1000
    await node.request(session, "DELETE", f"/v0/players/{player_id}")
    return taken_ms


async def filter_heard_ms(
    node: TonearmNode, session: aiohttp.ClientSession, tone_uri: str, changes: int
) -> list[float]:
    """From the 204 to the first frame wholly at the new volume, on a steady tone, for each change."""
    player_id = "filter-bench"
    await node.add(session, player_id, tone_uri, bands=False)
    heard: list[float] = []
    async with session.ws_connect(node.url + node.path(player_id), max_msg_size=0) as socket:
        steady = [_level(await socket.receive_bytes()) for _ in range(40)][-1]
        for number in range(changes):
            volume = 0.25 if number % 2 == 0 else 1.0
            listening = asyncio.create_task(_until_level(socket, steady * volume))
            await asyncio.sleep(0.2 + 0.013 * (number % 7))
            await node.request(session, "PATCH", f"/v0/players/{player_id}/filters", {"volume": volume})
            answered = time.monotonic()
            heard.append((await listening - answered) * 1000)
    await node.request(session, "DELETE", f"/v0/players/{player_id}")
    return heard


async def control_requests_ms(node: TonearmNode, session: aiohttp.ClientSession, requests: int) -> list[float]:
    """GETs of and PATCHes on the streaming player p0, one after the other."""
    taken = []
    for number in range(requests):
        begun = time.monotonic()
        if number % 2:
            await node.request(session, "GET", "/v0/players/p0")
        else:
            await node.request(session, "PATCH", "/v0/players/p0/metadata", {"value": {"n": number}})
        taken.append((time.monotonic() - begun) * 1000)
    return taken


async def _until_level(socket: aiohttp.ClientWebSocketResponse, level: float) -> float:
    while True:
        frame = await socket.receive_bytes()
        arrived = time.monotonic()
        if abs(_level(frame) - level) < 0.02 * level:
            return arrived


def _level(frame: bytes) -> float:
    samples = np.frombuffer(frame, np.int16).astype(np.float64)
    # Whole frame at one setting: both halves must have the same level.
    halves = [float(np.sqrt(np.mean(half**2))) for half in np.split(samples, 2)]
    return median(halves) if abs(halves[0] - halves[1]) < 0.02 * max(*halves, 1) else -1.0

"""Single reactions of a node, timed by one client."""

import asyncio
import time
from statistics import median
from typing import Final

import aiohttp
import numpy as np

from bench import media
from bench.opus import OpusDecoder, Samples
from bench.subjects import Audio, TonearmNode

_FAR_STEPS: Final = 7  # has no divisor in common with their number: each seek is of a minute or more


async def first_frame_ms(
    node: TonearmNode, session: aiohttp.ClientSession, uri: str, player_id: str, audio: Audio = "pcm"
) -> float:
    """From sending the create request to the first frame at a listener that connects right after the answer."""
    begun = time.monotonic()
    await node.request(session, "POST", "/v0/players", {"id": player_id, "uri": uri})
    async with session.ws_connect(node.url + node.path(player_id, audio), max_msg_size=0) as socket:
        await socket.receive_bytes()
        taken_ms = (time.monotonic() - begun) * 1000
    await node.request(session, "DELETE", f"/v0/players/{player_id}")
    return taken_ms


async def filter_heard_ms(
    node: TonearmNode, session: aiohttp.ClientSession, tone_uri: str, changes: int, audio: Audio = "pcm"
) -> list[float]:
    """From the 204 to the first frame wholly at the new volume, on a steady tone, for each change.

    Of Opus what comes out of a decoder counts, which is 6.5 ms behind.
    """
    player_id = "filter-bench"
    await node.add(session, player_id, tone_uri, bands=False)
    heard: list[float] = []
    async with session.ws_connect(node.url + node.path(player_id, audio), max_msg_size=0) as socket:
        sound = _Sound(socket, audio)
        steady = [_level(await sound.frame()) for _ in range(40)][-1]
        for number in range(changes):
            volume = 0.25 if number % 2 == 0 else 1.0
            listening = asyncio.create_task(_until_level(sound, steady * volume))
            await asyncio.sleep(0.2 + 0.013 * (number % 7))
            await node.request(session, "PATCH", f"/v0/players/{player_id}/filters", {"volume": volume})
            answered = time.monotonic()
            heard.append((await listening - answered) * 1000)
    await node.request(session, "DELETE", f"/v0/players/{player_id}")
    return heard


async def seek_heard_ms(node: TonearmNode, session: aiohttp.ClientSession, steps_uri: str, seeks: int) -> list[float]:
    """From the 204 to the first frame of the new position, for each of `seeks` far jumps, forwards and back."""
    player_id = "seek-bench"
    await node.add(session, player_id, steps_uri, bands=False)
    heard: list[float] = []
    async with session.ws_connect(node.url + node.path(player_id), max_msg_size=0) as socket:
        sound = _Sound(socket, "pcm")
        for _ in range(25):
            await sound.frame()
        for number in range(1, seeks + 1):
            step = number * _FAR_STEPS % media.STEPS
            listening = asyncio.create_task(_until_tone(sound, media.step_hz(step)))
            await asyncio.sleep(0.2 + 0.013 * (number % 7))
            position = {"position": media.step_middle_ms(step)}
            await node.request(session, "PATCH", f"/v0/players/{player_id}/position", position)
            answered = time.monotonic()
            heard.append((await listening - answered) * 1000)
    await node.request(session, "DELETE", f"/v0/players/{player_id}")
    return heard


async def overlay_heard_ms(
    node: TonearmNode, session: aiohttp.ClientSession, uri: str, clip_uri: str, overlays: int
) -> list[float]:
    """From the 201 to the first frame with an overlay in it, over a player whose volume is 0, for each overlay."""
    player_id = "overlay-bench"
    path = f"/v0/players/{player_id}"
    await node.add(session, player_id, uri, bands=False)
    await node.request(session, "PATCH", f"{path}/filters", {"volume": 0})
    heard: list[float] = []
    async with session.ws_connect(node.url + node.path(player_id), max_msg_size=0) as socket:
        for number in range(overlays):
            await _until_sound(socket, is_there=False)
            listening = asyncio.create_task(_until_sound(socket, is_there=True))
            await asyncio.sleep(0.2 + 0.013 * (number % 7))
            await node.request(session, "POST", f"{path}/overlays", {"uri": clip_uri})
            answered = time.monotonic()
            heard.append((await listening - answered) * 1000)
    await node.request(session, "DELETE", path)
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


class _Sound:
    """The frames of a socket, decoded where they are packets. `tolerance`: by how much the level of a steady tone may
    be off."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, audio: Audio) -> None:
        self._socket = socket
        self._decoder = OpusDecoder() if audio == "opus" else None
        self.tolerance = 0.05 if audio == "opus" else 0.02
        self.arrived_s = 0.0  # when the last one came

    async def frame(self) -> Samples:
        """960 by 2, in units of 16 bits."""
        data = await self._socket.receive_bytes()
        self.arrived_s = time.monotonic()
        if self._decoder is not None:
            return self._decoder.decoded(data)
        return np.frombuffer(data, np.int16).astype(np.float64).reshape(-1, 2)


async def _until_level(sound: _Sound, level: float) -> float:
    while abs(_level(await sound.frame(), sound.tolerance) - level) >= sound.tolerance * level:
        pass
    return sound.arrived_s


async def _until_sound(socket: aiohttp.ClientWebSocketResponse, *, is_there: bool) -> float:
    while any(await socket.receive_bytes()) is not is_there:
        pass
    return time.monotonic()


def _level(samples: Samples, tolerance: float = 0.05) -> float:
    # Whole frame at one setting: both halves must have the same level.
    halves = [float(np.sqrt(np.mean(half**2))) for half in np.split(samples, 2)]
    return median(halves) if abs(halves[0] - halves[1]) < tolerance * max(*halves, 1) else -1.0


async def _until_tone(sound: _Sound, hertz: int) -> float:
    """The first frame of which nearly everything is this tone."""
    while True:
        energy = np.abs(np.fft.rfft((await sound.frame())[:, 0])) ** 2  # of 50 Hz each
        if energy[hertz // 50 - 1 : hertz // 50 + 2].sum() > 0.8 * energy.sum() > 0:
            return sound.arrived_s

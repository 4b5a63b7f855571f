"""Listeners at every node, and watchers that record which node sends."""

import asyncio
import contextlib
import time
from collections import deque
from itertools import combinations
from typing import Final

import aiohttp
from aiohttp import WSMsgType

from tonearm.protocol.framing import HEADER, CloseCode
from tools.chaos.world import OF_A_NODE, World

_AGAIN_AFTER_S: Final = 0.1
_TOGETHER_S: Final = 0.15  # two nodes may seem to send, by how they are read
_ON_THEIR_WAY: Final = 3  # frames that a node was about to send when it was stopped, and sends when it goes on
GONE: Final = (aiohttp.ClientError, OSError, TimeoutError)


class Listener:
    """One of `player` at the node `name`, for ever: to a socket, or to the stream of a `form`."""

    def __init__(self, world: World, player: str, name: str, form: str) -> None:
        self._world, self.player, self.name, self._form = world, player, name, form
        self.who = f"who listens to {player} at {name} ({form})"
        self.last_s, self.silence_s, self._how = time.monotonic(), 0.0, ""

    async def listen(self, http: aiohttp.ClientSession) -> None:
        while True:
            node = self._world.nodes.get(self.name)
            with contextlib.suppress(*GONE):
                is_right = node is None or await self._ended(http, f"{node.url}/v0/players/{self.player}")
                if node is not None and not is_right and node.pid not in self._world.ended:
                    self._world.blame(f"{self.who} was cut off {self._how}")
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def _ended(self, http: aiohttp.ClientSession, url: str) -> bool:
        """Whether it was to end: the node has given the player up, to whose own listeners it belonged."""
        if self._form == "socket":
            async with http.ws_connect(f"{url}/ws?header=1&maxLatencyMs=20000") as socket:
                last = 0
                async for message in socket:
                    number = HEADER.unpack_from(message.data)[3]
                    if number <= last:
                        self._world.blame(f"{self.who} got frame {number} after {last}")
                    last = number
                    self._heard()
                self._how = f"with {socket.close_code}"
                return "Tonearm-Node" in socket._response.headers and socket.close_code == CloseCode.MOVED
        async with http.get(f"{url}/stream.{self._form}") as answer:
            with contextlib.suppress(*GONE):
                async for _ in answer.content.iter_any():
                    self._heard()
            return "Tonearm-Node" in answer.headers or answer.status != 200

    def _heard(self) -> None:
        now_s = time.monotonic()
        self.silence_s, self.last_s = max(self.silence_s, now_s - self.last_s), now_s


class Watch:
    """Who sends frames of `player`: each node is asked as another node asks it, and gives what it plays itself."""

    def __init__(self, world: World, player: str) -> None:
        self._world, self._player = world, player
        # Of each connection the node, and when its first frame came, and its last ones.
        self._reigns: list[tuple[str, float, deque[float]]] = []

    async def watch(self, http: aiohttp.ClientSession, name: str) -> None:
        path = f"/v0/players/{self._player}/ws?format=pcm&stream=0"
        while True:
            node = self._world.nodes.get(name)
            if node is not None:
                with contextlib.suppress(*GONE):
                    async with http.ws_connect(node.url + path, headers=dict(OF_A_NODE)) as socket:
                        last_s = deque[float](maxlen=1 + _ON_THEIR_WAY)
                        async for message in socket:
                            if message.type is WSMsgType.BINARY:
                                if not last_s:
                                    self._reigns.append((name, time.monotonic(), last_s))
                                last_s.append(time.monotonic())
            await asyncio.sleep(_AGAIN_AFTER_S)

    def judge(self, lag_s: float) -> None:
        for (one, one_first_s, one_last_s), (other, first_s, last_s) in combinations(self._reigns, 2):
            both_s = min(one_last_s[0], last_s[0]) - max(one_first_s, first_s)
            if one != other and both_s > _TOGETHER_S + lag_s:
                self._world.blame(f"{one} and {other} both sent frames of {self._player}, for {both_s:.2f} s")
        del self._reigns[:-30]

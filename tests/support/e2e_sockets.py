"""Clients of a running node's two sockets that keep all they get, made with an ordinary client library.

async with listening(node, "p") as ear, following(node, "p") as tape:
    await ear.frames_heard(50); ear.pcm; await tape.until("TrackEnd"); await ear.closed()
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import aiohttp

from tests.support.eventually import Changes
from tests.support.running_node import RunningNode
from tests.support.wire_check import check_event

EventFields: TypeAlias = dict[str, Any]


class SocketReader:
    """Reads a socket to its end."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._changes = Changes()
        self._reading = asyncio.create_task(self._read())
        self._has_ended = False
        self.close_code: int | None = None

    async def closed(self) -> int | None:
        """The code with which the node closes the socket; 1006 when it is cut."""
        await self._changes.until(lambda: self._has_ended, "the node closes the socket")
        return self.close_code

    async def stop(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def until_there(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        """Waits for messages until `condition` holds, which no longer can when the socket is closed."""

        def holds_or_cannot() -> bool:
            holds = condition()
            assert holds or not self._has_ended, f"the node closed the socket with {self.close_code}; {what()}"
            return holds

        await self._changes.until(holds_or_cannot, what)

    async def _read(self) -> None:
        async for message in self._socket:
            self._take(message)
            self._changes.tell()
        self.close_code = self._socket.close_code
        self._has_ended = True
        self._changes.tell()

    def _take(self, message: aiohttp.WSMessage) -> None:
        raise NotImplementedError


_Reader = TypeVar("_Reader", bound=SocketReader)


class Ear(SocketReader):
    """What comes on an audio socket. `arrivals_s` are the times of the frames, by the loop's clock."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.frames: list[bytes] = []
        self.arrivals_s: list[float] = []
        super().__init__(socket)

    @property
    def pcm(self) -> bytes:
        return b"".join(self.frames)

    async def frames_heard(self, count: int) -> None:
        """Waits until `count` frames have come since the socket was opened."""
        await self.until_there(lambda: len(self.frames) >= count, lambda: f"{count} frames; {len(self.frames)} came")

    async def more_frames(self, count: int) -> bytes:
        """The next `count` frames from now on."""
        start = len(self.frames)
        await self.frames_heard(start + count)
        return b"".join(self.frames[start : start + count])

    def _take(self, message: aiohttp.WSMessage) -> None:
        assert message.type is aiohttp.WSMsgType.BINARY, message
        assert len(message.data) == 3840
        self.frames.append(message.data)
        self.arrivals_s.append(asyncio.get_running_loop().time())


class Tape(SocketReader):
    """What comes on an event socket. `events` holds all; `until` walks through them."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.events: list[EventFields] = []
        self._seen = 0
        super().__init__(socket)

    async def until(self, op: str, **fields: object) -> EventFields:
        """The next event of this kind with these fields; what came before it is passed over."""
        found: list[EventFields] = []

        def is_there() -> bool:
            while self._seen < len(self.events) and not found:
                event = self.events[self._seen]
                self._seen += 1
                if event["op"] == op and fields.items() <= event.items():
                    found.append(event)
            return bool(found)

        await self.until_there(
            is_there, lambda: f"{op} with {fields}; what came is {[event['op'] for event in self.events]}"
        )
        return found[0]

    def _take(self, message: aiohttp.WSMessage) -> None:
        assert message.type is aiohttp.WSMsgType.TEXT, message
        check_event(message.data)
        self.events.append(json.loads(message.data))


def listening(node: RunningNode, player: str) -> AbstractAsyncContextManager[Ear]:
    """A listener on `/ws`, from its upgrade on."""
    return _reading(Ear, f"{node.url}/v0/players/{player}/ws")


def following(node: RunningNode, player: str, query: str = "") -> AbstractAsyncContextManager[Tape]:
    """A client on `/events`, from its upgrade on."""
    return _reading(Tape, f"{node.url}/v0/players/{player}/events{query}")


def following_all(node: RunningNode) -> AbstractAsyncContextManager[Tape]:
    """A client of all players' events, from its upgrade on."""
    return _reading(Tape, f"{node.url}/v0/events")


@asynccontextmanager
async def _reading(kind: type[_Reader], url: str) -> AsyncIterator[_Reader]:
    async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as socket:
        reader = kind(socket)
        try:
            yield reader
        finally:
            await reader.stop()

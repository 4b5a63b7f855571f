"""The connections that stay open: sockets and HTTP audio."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

_GOING_AWAY: Final = 1001


class OpenStream(Protocol):
    def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None: ...


class OpenStreams:
    """Knows them all, to end them when the node stops."""

    def __init__(self) -> None:
        self._streams: set[OpenStream] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    @contextmanager
    def kept(self, stream: OpenStream) -> Iterator[None]:
        """`stream` is open while this lasts."""
        self._streams.add(stream)
        self._empty.clear()
        try:
            yield
        finally:
            self._streams.discard(stream)
            if not self._streams:
                self._empty.set()

    async def close_all(self, patience_s: float) -> None:
        """Closes every stream that is not closing yet, gives all of them `patience_s` to end, and cuts the rest."""
        for stream in tuple(self._streams):
            stream.close(_GOING_AWAY, "The node is shutting down.")
        try:
            await asyncio.wait_for(self._empty.wait(), patience_s)
        except TimeoutError:
            for stream in tuple(self._streams):
                stream.abort()

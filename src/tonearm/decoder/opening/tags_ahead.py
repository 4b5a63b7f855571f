"""Reads the tags of waiting tracks ahead, so that a queue can be shown with titles and lengths.

One source at a time, in the process that plays nothing, and only while the node has time: nothing that plays waits for
it, and neither does a client that has something loaded. A source that fails is not tried again; when its turn comes,
its failure is reported. A client may wait until titles are known.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final, Protocol

from tonearm.core.failure import PlayError
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.opening.source_input import Opener
from tonearm.decoder.opening.track_loader import TrackLoader

PAUSE_S: Final = 0.25  # before each source; where it becomes so much longer that it counts as late, nothing is read

log = logging.getLogger(__name__)


class QueueOwner(Protocol):
    """A player, as far as its queue goes."""

    def unread_track(self, depth: int, first: int = 0) -> Track | None:
        """The first of `depth` waiting tracks, from the index `first` on, of which nothing is known."""
        ...

    def has_unread(self, depth: int, first: int = 0) -> bool:
        """Whether more may still be found out of these waiting tracks before they play."""
        ...

    def tags_read(self, track_id: str, facts: SourceFacts | None) -> None:
        """What was read of a track that may still wait; None when it could not be read."""
        ...


@dataclass(eq=False, slots=True)
class _Wait:
    """A client waits until of these tracks of a player all is known that can be."""

    player: QueueOwner
    first: int
    count: int
    known: asyncio.Future[None]

    @property
    def is_over(self) -> bool:
        return self.known.done() or not self.player.has_unread(self.count, self.first)


class TagsAhead:
    """For one event loop, until `stop`. Of each player the next `depth` waiting tracks are read; 0: none.

    `opener` opens what is to be read, and refuses what would cost too much.
    """

    def __init__(
        self, loader: TrackLoader, opener: Opener, depth: int, *, late_s: float, pause_s: float = PAUSE_S
    ) -> None:
        self._loader = loader
        self._opener = opener
        self._depth = depth
        self._late_s = late_s
        self._pause_s = pause_s
        self._players: dict[QueueOwner, None] = {}  # those to look at, in turn
        self._waits: list[_Wait] = []  # oldest first
        self._reading: asyncio.Task[None] | None = None

    def look_at(self, player: QueueOwner) -> None:
        """The player's queue has changed."""
        if not self._depth or player.unread_track(self._depth) is None:
            return
        self._players[player] = None
        self._go_on()

    async def known(self, player: QueueOwner, first: int, count: int) -> None:
        """Returns when of `count` waiting tracks of `player`, from the index `first` on, all is known that can be known
        before they play. While somebody waits for them they are read, however far behind they wait."""
        wait = _Wait(player, first, count, asyncio.get_running_loop().create_future())
        if not self._depth or wait.is_over:
            return
        self._waits.append(wait)
        self._go_on()
        try:
            await wait.known
        finally:
            wait.known.cancel()

    async def stop(self) -> None:
        self._depth = 0
        self._players.clear()
        for wait in self._waits:
            wait.known.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def _go_on(self) -> None:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_all())

    async def _read_all(self) -> None:
        try:
            while self._players or self._waits:
                await self._idle()
                await self._read_one()
                self._answer()
        finally:
            self._reading = None

    def _answer(self) -> None:
        for wait in self._waits:
            if wait.is_over and not wait.known.done():
                wait.known.set_result(None)
        self._waits = [wait for wait in self._waits if not wait.known.done()]

    async def _idle(self) -> None:
        while True:
            begun_s = time.monotonic()
            await asyncio.sleep(self._pause_s)
            if time.monotonic() - begun_s - self._pause_s < self._late_s and not self._loader.is_busy:
                return

    async def _read_one(self) -> None:
        player, track = self._next_wanted()
        if player is None or track is None:
            return
        facts: SourceFacts | None = None
        try:
            facts = await self._loader.load(track.uri, self._opener)
        except (PlayError, OSError, TimeoutError):
            pass
        except Exception:
            log.exception("reading the tags of a waiting track failed")
        player.tags_read(track.id, facts)
        self._players[player] = None  # behind all others

    def _next_wanted(self) -> tuple[QueueOwner | None, Track | None]:
        """What a client waits for goes first; else the players take turns."""
        for wait in self._waits:
            track = None if wait.known.done() else wait.player.unread_track(wait.count, wait.first)
            if track is not None:
                return wait.player, track
        player = next(iter(self._players), None)
        if player is None:
            return None, None
        del self._players[player]
        return player, player.unread_track(self._depth)

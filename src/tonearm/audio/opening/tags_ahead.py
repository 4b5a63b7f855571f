"""Reads the tags of waiting tracks ahead, so that a queue can be shown with titles and lengths.

One source at a time, in the process that plays nothing, and only while the node has time: nothing that plays waits for
it, and neither does a client that has something loaded. A source that fails is not tried again; when its turn comes,
its failure is reported.
"""

import asyncio
import logging
import time
from typing import Final, Protocol

from tonearm.audio.load import LATE_S
from tonearm.audio.opening.source_input import Opener
from tonearm.audio.opening.track_loader import TrackLoader
from tonearm.core.failure import PlayError
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

PAUSE_S: Final = 0.25  # before each source; where it becomes so much longer that it counts as late, nothing is read

log = logging.getLogger(__name__)


class QueueOwner(Protocol):
    """A player, as far as its queue goes."""

    def unread_track(self, depth: int) -> Track | None:
        """The first of the next `depth` waiting tracks of which nothing is known; None without one."""
        ...

    def tags_read(self, track_id: str, facts: SourceFacts | None) -> None:
        """What was read of a track that may still wait; None when it could not be read."""
        ...


class TagsAhead:
    """For one event loop, until `stop`. Of each player the next `depth` waiting tracks are read; 0: none.

    `opener` opens what is to be read, and refuses what would cost too much.
    """

    def __init__(self, loader: TrackLoader, opener: Opener, depth: int, *, pause_s: float = PAUSE_S) -> None:
        self._loader = loader
        self._opener = opener
        self._depth = depth
        self._pause_s = pause_s
        self._players: dict[QueueOwner, None] = {}  # those to look at, in turn
        self._reading: asyncio.Task[None] | None = None

    def look_at(self, player: QueueOwner) -> None:
        """The player's queue has changed."""
        if not self._depth or player.unread_track(self._depth) is None:
            return
        self._players[player] = None
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_all())

    async def stop(self) -> None:
        self._depth = 0
        self._players.clear()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read_all(self) -> None:
        try:
            while self._players:
                await self._idle()
                await self._read_one()
        finally:
            self._reading = None

    async def _idle(self) -> None:
        while True:
            begun_s = time.monotonic()
            await asyncio.sleep(self._pause_s)
            if time.monotonic() - begun_s - self._pause_s < LATE_S and not self._loader.is_busy:
                return

    async def _read_one(self) -> None:
        player = next(iter(self._players), None)
        if player is None:
            return
        del self._players[player]
        track = player.unread_track(self._depth)
        if track is None:
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

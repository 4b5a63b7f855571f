"""Reads the tags of waiting tracks ahead, so that a queue can be shown with titles and lengths.

Sources are read one at a time, in a process that plays nothing, and only while the node is neither late nor loading
anything for a client. For pages and links of services it asks the resolver for their facts, in its free places, and
opens no sound. A source that fails is not tried again; its failure is reported when the track is to be played. A client
may wait until titles are known.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tonearm.core.errors import LimitReached
from tonearm.core.failure import PlayError
from tonearm.core.play_queue import PlaylistEntry
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.opening.source_input import OpenUri
from tonearm.decoder.opening.track_loader import TrackLoader
from tonearm.node.load import LOOP_LATE_S
from tonearm.player.player import Player

PAUSE_S: Final = 0.25  # before each source; when the event loop ends this pause late, nothing is read

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _WaitForTags:
    """A client waits until the tags of these tracks of a player are read."""

    player: Player
    first: int
    count: int
    known: asyncio.Future[None]

    @property
    def is_over(self) -> bool:
        return self.known.done() or not self.player.has_unread(self.count, self.first)


class TagsAhead:
    """Reads the tags of the next `depth` waiting tracks of each player, until `stop`; with 0 it reads none.
    `open_source` refuses sources that would cost too much. `page_facts` gives what pages say, and None for what is no
    page; it raises `LimitReached` when it is to be asked later."""

    def __init__(
        self,
        loader: TrackLoader,
        open_source: OpenUri,
        page_facts: Callable[[SourceUri], Awaitable[PlaylistEntry | None]],
        depth: int,
    ) -> None:
        self._loader = loader
        self._open_source = open_source
        self._page_facts = page_facts
        self._depth = depth
        self._players: dict[Player, None] = {}  # players whose queues may have unread tracks; the first player is next
        self._waits: list[_WaitForTags] = []  # oldest first
        self._reading: asyncio.Task[None] | None = None

    def queue_changed(self, player: Player) -> None:
        """The player's queue has changed."""
        if not self._depth or player.unread_track(self._depth) is None:
            return
        self._players[player] = None
        self._go_on()

    def player_deleted(self, player: Player) -> None:
        self._players.pop(player, None)
        self._answer()

    async def known(self, player: Player, first: int, count: int) -> None:
        """Returns when the tags of `count` waiting tracks of `player`, from the index `first` on, are read or cannot be
        read. While a client waits, its tracks are read wherever they are in the queue."""
        wait = _WaitForTags(player, first, count, asyncio.get_running_loop().create_future())
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
                try:
                    await self._read_one()
                except Exception:
                    log.exception("the tags of a waiting track could not be applied")
                    self._answer_all()  # clients may be waiting for that track
                self._answer()
        finally:
            self._reading = None

    def _answer(self) -> None:
        for wait in self._waits:
            if wait.is_over and not wait.known.done():
                wait.known.set_result(None)
        self._waits = [wait for wait in self._waits if not wait.known.done()]

    def _answer_all(self) -> None:
        for wait in self._waits:
            if not wait.known.done():
                wait.known.set_result(None)

    async def _idle(self) -> None:
        while True:
            begun_s = time.monotonic()
            await asyncio.sleep(PAUSE_S)
            if time.monotonic() - begun_s - PAUSE_S < LOOP_LATE_S and not self._loader.is_busy:
                return

    async def _read_one(self) -> None:
        player, track = self._next_wanted()
        if player is None or track is None:
            return
        facts: SourceFacts | None = None
        try:
            facts = await self._facts_of(track.uri)
        except LimitReached:
            self._players[player] = None  # behind the other players, here and among those that clients wait for
            self._waits.sort(key=lambda wait: wait.player is player)
            return
        except (PlayError, OSError, TimeoutError):
            pass
        except Exception:
            log.exception("reading the tags of a waiting track failed")
        player.tags_read(track.id, facts)
        self.queue_changed(player)  # the player comes again after all others

    async def _facts_of(self, uri: SourceUri) -> SourceFacts:
        """Raises as `_page_facts` and the loader do."""
        page = await self._page_facts(uri)
        if page is None:
            return await self._loader.load_in_background(uri, self._open_source)
        return SourceFacts(
            length_ms=page.length_ms, title=page.title, author=page.author, artwork_url=page.artwork_url, isrc=page.isrc
        )

    def _next_wanted(self) -> tuple[Player | None, Track | None]:
        """The player and track to read next: first what clients wait for, then one track of each player after the
        other."""
        for wait in self._waits:
            track = None if wait.known.done() else wait.player.unread_track(wait.count, wait.first)
            if track is not None:
                return wait.player, track
        player = next(iter(self._players), None)
        if player is None:
            return None, None
        del self._players[player]
        return player, player.unread_track(self._depth)

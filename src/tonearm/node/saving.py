"""Saves the players of a node: what is written when, and which answers wait for it.

The event loop takes a snapshot of each changed player, which costs some µs. Changes that gather during a write are
written next; changes that an answer waits for come first. A position is written with every change; while a player plays
evenly, its position follows from the last one written. `file_saving` and `cluster.engine_saving` do the writing itself.
"""

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple, Protocol

from tonearm.core.events import (
    Event,
    ListenersChange,
    OverlayEnd,
    OverlayException,
    OverlayStart,
    PlayerState,
    PlayerUpdate,
    QueueDetails,
    TrackStuck,
)
from tonearm.core.figures import StateFigures
from tonearm.core.snapshot import PlayerSnapshot, Resume
from tonearm.node.changes import Change

ANSWER_PATIENCE_S: Final = 0.02
_TURNS_TO_NOTICE: Final = 3  # of the event loop, because a late loop learns late what the disk did in time
PLAYERS_A_BATCH: Final = 100
SIGN_OF_LIFE_S: Final = 5.0
LONGEST_STEP_S: Final = 10.0  # from one write to the next, of a node that runs evenly
DRIFT_MS: Final = 500  # of a position from what follows from the last one that was written
_RETRY_S: Final = 1.0
_NO_TRACKS: Final = frozenset[str]()  # once, because each empty set has 216 bytes
PLAYERS_TOLD: Final = 5

log = logging.getLogger(__name__)

# A restart forgets these, so they are not worth a write.
_MOMENTS: Final = (ListenersChange, OverlayStart, OverlayEnd, OverlayException, TrackStuck)


class PlayerToSave(Protocol):
    """One of the node's players."""

    def snapshot(self) -> PlayerSnapshot: ...


class _Taken(NamedTuple):
    """What a player's position follows from since the player was last taken: `rate` ms of its file in each ms. `place`
    orders players by creation. A node has one of these for each player, so it keeps no snapshot."""

    place: int
    taken_ms: int
    state: PlayerState
    paused: bool
    position_ms: int
    rate: float


class Saving(ABC):
    """From `open` to `stop`; on one event loop. `players` are the node's, in the order of their creation.

    `sign_of_life_s`: after so long without a change a sign of life is written. An answer waits `patience_s` for what it
    changed.
    """

    def __init__(
        self,
        players: Mapping[str, PlayerToSave],
        wall_ms: Callable[[], int],
        *,
        sign_of_life_s: float = SIGN_OF_LIFE_S,
        patience_s: float = ANSWER_PATIENCE_S,
    ) -> None:
        self._sign_of_life_s = sign_of_life_s
        self._patience_s = patience_s
        self._players = players
        self._wall_ms = wall_ms
        self._last_ms: int | None = None  # the time of day of the last write
        self._taken: dict[str, _Taken] = {}  # of what is written, or on the way to it
        # Players that have changed since they were last taken, and those that are being written; set when that is done.
        self._dirty: dict[str, asyncio.Event] = {}
        self._writing: dict[str, asyncio.Event] = {}
        self._touched: dict[str, set[str]] = {}  # tracks of the dirty ones that wait, and of which more is known now
        self._awaited: dict[str, None] = {}  # the dirty ones that an answer waits for
        self._unkept: dict[str, str] = {}  # players whose last change could not be kept, and why
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writing_since_s: float | None = None
        self._failure = ""
        self._next_place = 0
        self._writes = self._unsaved_answers = 0
        self._write_s = 0.0

    def changed(self, player_id: str) -> None:
        """The player was created, deleted or changed."""
        if player_id not in self._dirty:
            self._dirty[player_id] = asyncio.Event()
            self._wake.set()

    def told(self, player_id: str, events: Sequence[Event]) -> None:
        """Takes the events of a player as its clients get them."""
        for event in events:
            if isinstance(event, PlayerUpdate):
                if not self._follows(self._taken.get(player_id), event):
                    self.changed(player_id)
            elif not isinstance(event, _MOMENTS):
                self.changed(player_id)
                if isinstance(event, QueueDetails):
                    self._touched.setdefault(player_id, set()).update(event.track_ids)

    async def saved(self, player_id: str) -> bool:
        """Waits for a limited time until all changes of the player are written. Returns whether they are."""
        is_saved = await self._is_written(player_id) and player_id not in self._unkept
        self._unsaved_answers += not is_saved
        return is_saved

    @property
    def figures(self) -> StateFigures:
        return StateFigures(bool(self.degraded), self._writes, self._write_s, self._unsaved_answers)

    # Implementation

    async def _is_written(self, player_id: str) -> bool:
        """Waits for a limited time until no change of the player has to be written. Returns whether none has."""
        written = self._dirty.get(player_id) or self._writing.get(player_id)
        if written is None:
            return True
        if not self.trouble:
            if player_id in self._dirty:
                self._awaited[player_id] = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    await written.wait()
                    return True
            for _ in range(_TURNS_TO_NOTICE):
                await asyncio.sleep(0)
                if written.is_set():
                    return True
        return False

    def _follows(self, taken: _Taken | None, update: PlayerUpdate) -> bool:
        """Whether the player's position follows from what is written already."""
        if taken is None or (taken.state, taken.paused) != (update.state, update.paused):
            return False
        expected_ms = taken.position_ms + (self._wall_ms() - taken.taken_ms) * taken.rate
        return abs(expected_ms - update.position_ms) < DRIFT_MS

    @abstractmethod
    async def open(self) -> None:
        """To be called first. Raises where nothing can be kept."""

    @abstractmethod
    async def read(self, resume: Resume) -> list[PlayerSnapshot]:
        """The players that are kept, as they are to begin again."""

    @abstractmethod
    async def keep(self) -> None:
        """From now on the players are kept. To be called when they are restored."""

    @abstractmethod
    async def stop(self) -> None:
        """Writes where all players are. Players that are deleted from now on stay kept."""

    @property
    @abstractmethod
    def trouble(self) -> str:
        """Why changes are not saved now; empty when they are."""

    @property
    @abstractmethod
    def degraded(self) -> str:
        """The trouble now or since the start; empty without any."""

    @abstractmethod
    async def _put(self, batch: Sequence[Change], sign_ms: int | None) -> None:
        """Writes the changes, and a sign of life of this time. Raises what the store raises: all are written again."""

    @abstractmethod
    async def _after_writing(self, now_ms: int, *, is_quiet: bool) -> None:
        """`is_quiet`: nothing had changed for a while."""

    @abstractmethod
    def _report(self, error: Exception) -> None:
        """Writing has failed, and is tried again."""

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._sign_of_life_s):
                    await self._wake.wait()
            is_quiet = not self._wake.is_set()
            try:
                now_ms = await self._write_some()
                await self._after_writing(now_ms, is_quiet=is_quiet)
            except Exception as error:  # noqa: BLE001  # the store's, or one of ours: players play on all the same
                self._report(error)
                await asyncio.sleep(_RETRY_S)
                self._wake.set()

    async def _write_some(self, *, gives_sign: bool = True) -> int:
        """Writes as many players that have changed as one batch takes, and a sign of life while there are players.
        Returns its time.

        A sign of life says that players have gone on since they were taken. So after a jump of the time of day, or a
        time in which the node stood still, all players are taken anew and written with it.
        """
        now_ms, most = self._wall_ms(), PLAYERS_A_BATCH
        if self._last_ms is not None and not 0 <= now_ms - self._last_ms <= LONGEST_STEP_S * 1000:
            for player_id in self._players:
                self.changed(player_id)
            most = 2 * len(self._dirty)  # those that an answer waits for are named twice
        self._last_ms = now_ms
        some = dict.fromkeys(islice(chain(self._awaited, self._dirty), most))
        self._writing = {player_id: self._dirty.pop(player_id) for player_id in some}
        for player_id in some:
            self._awaited.pop(player_id, None)
        if not self._dirty:
            self._wake.clear()
        batch = [*self._taken_now(some, now_ms)]
        try:
            await self._timed(self._put(batch, now_ms if gives_sign and self._players else None))
        except BaseException:
            self._dirty = self._writing | self._dirty
            for change in batch:
                self._touched.setdefault(change.player_id, set()).update(change.touched)
            self._wake.set()
            raise
        else:
            for written in self._writing.values():
                written.set()
        finally:
            self._writing = {}
        if self._failure:
            log.info("the state can be written again")
            self._failure = ""
        return now_ms

    def _all_taken_now(self, now_ms: int) -> list[Change]:
        """The last changes: of all players, and of those that are gone."""
        gone = self._dirty.keys() - self._players.keys()
        return [*self._taken_now((*self._players, *gone), now_ms)]

    def _taken_now(self, player_ids: Iterable[str], now_ms: int) -> Iterator[Change]:
        """The changes of these players. The record of a player whose state cannot be taken stays as it was, and the
        player's next change is tried again."""
        for player_id in player_ids:
            before, player = self._taken.get(player_id), self._players.get(player_id)
            try:
                now = None if player is None else player.snapshot()
            except Exception as error:
                if player_id not in self._unkept:
                    log.exception("the state of player %s cannot be saved", player_id)
                self._unkept[player_id] = f"the node failed when it took its state ({type(error).__name__})"
                continue
            self._unkept.pop(player_id, None)
            place = self._next_place if before is None else before.place
            self._next_place += before is None
            if now is None:
                self._taken.pop(player_id, None)
            else:
                rate = now.position_rate if now.moves and not now.is_resuming else 0.0
                self._taken[player_id] = _Taken(place, now_ms, now.state, now.paused, now.position_ms, rate)
            yield Change(player_id, now, now_ms, place, self._touched.pop(player_id, _NO_TRACKS))

    def _told_unkept(self) -> Iterator[str]:
        for player_id, why in islice(self._unkept.items(), PLAYERS_TOLD):
            yield f"Player {player_id} is not kept: {why}."
        if len(self._unkept) > PLAYERS_TOLD:
            yield f"Nor are {len(self._unkept) - PLAYERS_TOLD} more."

    async def _timed(self, work: Awaitable[None]) -> None:
        self._writing_since_s = time.monotonic()
        try:
            await work
            self._writes += 1
        finally:
            self._write_s += time.monotonic() - self._writing_since_s
            self._writing_since_s = None

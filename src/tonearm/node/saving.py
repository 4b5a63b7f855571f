"""Keeps the players of a node in its state file: what is written when, and who waits for it.

The event loop takes a snapshot of each player that has changed, which costs some µs, and a thread writes them, all that
have gathered while it wrote the last ones; those that an answer waits for come first. A position is written with every
change; while a player plays evenly, it follows from that.
"""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final, Protocol

from tonearm.core.errors import BadRequest
from tonearm.core.events import (
    Event,
    ListenersChange,
    OverlayEnd,
    OverlayException,
    OverlayStart,
    PlayerUpdate,
    QueueDetails,
    TrackStuck,
)
from tonearm.core.figures import StateFigures
from tonearm.core.metadata import MAX_PLAYER_ID_CHARACTERS
from tonearm.core.printable import text_for_logs
from tonearm.core.snapshot import PlayerSnapshot, Resume, played_on, resumed
from tonearm.node.changes import Change
from tonearm.node.state_file import StateFile, StateFileError
from tonearm.protocol.saved_state import read_state
from tonearm.sources.detached_threads import DetachedThreads

ANSWER_PATIENCE_S: Final = 0.02
_TURNS_TO_NOTICE: Final = 3  # of the event loop: one that is late does not know yet what the disk did in time
PLAYERS_A_BATCH: Final = 100
SIGN_OF_LIFE_S: Final = 5.0
LONGEST_STEP_S: Final = 10.0  # from one write to the next, of a node that runs evenly
DRIFT_MS: Final = 500  # of a position from what follows from the last one that was written
# A node that was away for longer goes on where it was, not where it would be: nobody has heard what lies between.
LONGEST_ABSENCE_S: Final = 60.0
_RETRY_S: Final = 1.0
_CLOSE_PATIENCE_S: Final = 2.0
_NAMES_TOLD: Final = 5

log = logging.getLogger(__name__)

# What a restart forgets, so that it is not worth a write.
_MOMENTS: Final = (ListenersChange, OverlayStart, OverlayEnd, OverlayException, TrackStuck)


class PlayerToSave(Protocol):
    """One of the node's players."""

    def snapshot(self) -> PlayerSnapshot: ...


class Saving:
    """From `open` to `stop`; on one event loop. `players` are the node's, in the order of their creation.

    `sign_of_life_s`: after so long without a change the file is told that the node lives.
    """

    def __init__(
        self,
        file: StateFile,
        players: Mapping[str, PlayerToSave],
        wall_ms: Callable[[], int],
        *,
        sign_of_life_s: float = SIGN_OF_LIFE_S,
    ) -> None:
        self._file = file
        self._sign_of_life_s = sign_of_life_s
        self._players = players
        self._wall_ms = wall_ms
        self._last_ms: int | None = None  # the time of day of the last write
        self._threads = DetachedThreads(1)
        self._taken: dict[str, Change] = {}  # what is in the file, or on the way to it
        # Players that have changed since they were last taken, and those that are being written; set when that is done.
        self._dirty: dict[str, asyncio.Event] = {}
        self._writing: dict[str, asyncio.Event] = {}
        self._touched: dict[str, set[str]] = {}  # tracks of the dirty ones that wait, and of which more is known now
        self._awaited: dict[str, None] = {}  # the dirty ones that an answer waits for
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._writing_since_s: float | None = None
        self._failure = ""
        self._has_proof = False  # which is not in the file yet
        self._unread: dict[str, None] = {}  # players in the file whose records are damaged
        self._told_unfit = ""  # of records that nobody could ask for
        self._next_place = 0
        self._writes = self._unsaved_answers = 0
        self._write_s = 0.0

    async def open(self) -> None:
        """Opens the file. Raises `StateFileError`."""
        await self._threads.run(self._file.open)
        if self._file.set_aside:
            log.error("%s", self._file.set_aside)

    async def read(self, resume: Resume) -> list[PlayerSnapshot]:
        """The players that the file holds, as they are to begin again. Raises `StateFileError`."""
        await self._threads.run(self._file.begin)
        try:
            return await self._threads.run(partial(self._read, resume))
        except sqlite3.Error as error:
            raise StateFileError(f"{self._file.path} cannot be read ({error}); look at its disk") from error

    async def keep(self) -> None:
        """From now on the players are kept. To be called when they are restored: what was in the file has not ended the
        node."""
        self._has_proof = True
        for player_id in self._players:
            self.changed(player_id)
        try:
            await self._write_proof()
            while self._dirty:  # who is still as the last node left it has not gone on since
                await self._write_some(gives_sign=False)
            await self._write_some()
        except (sqlite3.Error, OSError) as error:
            self._report(error)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Writes where all players are, and closes the file. Players that are deleted from now on stay in it."""
        if not self._file.is_open:  # the start found out that it cannot be used
            return
        changes: list[Change] | None = None  # a start that failed has restored nobody
        now_ms = self._wall_ms()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            gone = self._dirty.keys() - self._players.keys()
            changes = [self._taken_now(player_id, now_ms) for player_id in (*self._players, *gone)]
        try:
            async with asyncio.timeout(_CLOSE_PATIENCE_S):
                await self._threads.run(partial(self._close, changes, now_ms))
        except (TimeoutError, sqlite3.Error, StateFileError, OSError) as error:
            log.error("the state could not be written to its end: %s", str(error) or "the disk takes too long")

    def changed(self, player_id: str) -> None:
        """The player was created, deleted or changed."""
        self._unread.pop(player_id, None)  # the new one takes its place in the file
        if player_id not in self._dirty:
            self._dirty[player_id] = asyncio.Event()
            self._wake.set()

    def told(self, player_id: str, events: Sequence[Event]) -> None:
        """What has happened to a player, as its clients are told."""
        for event in events:
            if isinstance(event, PlayerUpdate):
                if not self._follows(self._taken.get(player_id), event):
                    self.changed(player_id)
            elif not isinstance(event, _MOMENTS):
                self.changed(player_id)
                if isinstance(event, QueueDetails):
                    self._touched.setdefault(player_id, set()).update(event.track_ids)

    async def saved(self, player_id: str) -> bool:
        """Waits until all that has happened to the player is in the file, but not for long. Returns whether it is."""
        written = self._dirty.get(player_id) or self._writing.get(player_id)
        if written is None:
            return True
        if not self.trouble:
            if player_id in self._dirty:
                self._awaited[player_id] = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_PATIENCE_S):
                    await written.wait()
                    return True
            for _ in range(_TURNS_TO_NOTICE):
                await asyncio.sleep(0)
                if written.is_set():
                    return True
        self._unsaved_answers += 1
        return False

    @property
    def trouble(self) -> str:
        """Why what happens now is not kept; empty when it is."""
        if self._writing_since_s is not None:
            since_s = time.monotonic() - self._writing_since_s
            if since_s > self._sign_of_life_s:
                return f"The state's disk has not answered for {since_s:.0f} s."
        return self._failure

    @property
    def degraded(self) -> str:
        """What is wrong with the state, now or since the start; empty when nothing is."""
        all_told = (self.trouble, self._file.set_aside, self._told_unfit, self._told_unread())
        return " ".join(told for told in all_told if told)

    @property
    def figures(self) -> StateFigures:
        return StateFigures(bool(self.degraded), self._writes, self._write_s, self._unsaved_answers)

    # How it is done

    def _told_unread(self) -> str:
        if not self._unread:
            return ""
        return (
            f"The records of these players in {self._file.path} are damaged, and the players are missing: "
            f"{_some(self._unread)}. The log says what is wrong; a player that is created anew replaces its record."
        )

    def _follows(self, taken: Change | None, update: PlayerUpdate) -> bool:
        """Whether the file says already where the player is."""
        if taken is None or taken.snapshot is None:
            return False
        before = taken.snapshot
        if (before.state, before.paused) != (update.state, update.paused):
            return False
        moves = before.moves and not before.is_resuming
        passed_ms = (self._wall_ms() - taken.taken_ms) * before.position_rate if moves else 0
        return abs(before.position_ms + passed_ms - update.position_ms) < DRIFT_MS

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._sign_of_life_s):
                    await self._wake.wait()
            is_quiet = not self._wake.is_set()
            try:
                await self._write_proof()
                now_ms = await self._write_some()
                if is_quiet or self._file.is_long:
                    await self._in_thread(partial(self._file.shorten, now_ms))
            except Exception as error:  # noqa: BLE001  # the disk's, or one of ours: players play on all the same
                self._report(error)
                await asyncio.sleep(_RETRY_S)
                self._wake.set()

    async def _write_proof(self) -> None:
        if self._has_proof:
            await self._in_thread(self._file.prove)
            self._has_proof = False

    async def _write_some(self, *, gives_sign: bool = True) -> int:
        """Writes as many players that have changed as one batch takes, at least the sign of life. Returns its time.

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
        batch = [self._taken_now(player_id, now_ms) for player_id in some]
        try:
            await self._in_thread(partial(self._file.write, batch, now_ms if gives_sign else None))
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
            log.info("the state is written again")
            self._failure = ""
        return now_ms

    def _taken_now(self, player_id: str, now_ms: int) -> Change:
        before, player = self._taken.get(player_id), self._players.get(player_id)
        place = self._next_place if before is None else before.place
        self._next_place += before is None
        touched = self._touched.pop(player_id, frozenset[str]())
        change = Change(player_id, None if player is None else player.snapshot(), now_ms, place, touched)
        if change.snapshot is None:
            self._taken.pop(player_id, None)
        else:
            self._taken[player_id] = change
        return change

    async def _in_thread(self, call: Callable[[], None]) -> None:
        self._writing_since_s = time.monotonic()
        try:
            await self._threads.run(call)
            self._writes += 1
        finally:
            self._write_s += time.monotonic() - self._writing_since_s
            self._writing_since_s = None

    def _report(self, error: Exception) -> None:
        is_of_disk = isinstance(error, sqlite3.Error | OSError)
        failure = f"The state cannot be written: {error}. Make room for {self._file.path}, or look at its disk."
        if failure != self._failure:
            log.error("%s Players play on, and a restart would lose what they do.", failure, exc_info=not is_of_disk)
        self._failure = failure

    def _read(self, resume: Resume) -> list[PlayerSnapshot]:
        alive_at_ms, now_ms = self._file.alive_at_ms(), self._wall_ms()
        if not 0 <= now_ms - alive_at_ms <= LONGEST_ABSENCE_S * 1000:
            now_ms = alive_at_ms
        if unfit := self._file.put_unfit_away():
            self._told_unfit = (
                f"Records in {self._file.path} that bear ids which no player may have were set aside as "
                f"{unfit.kept_as}: {_some(unfit.names)}."
            )
            log.error("%s", self._told_unfit)
        found = []
        for player_id, value in self._file.players():
            try:
                taken_ms, snapshot = read_state(value)
                if snapshot.player_id != player_id:
                    raise BadRequest("Its record is that of another player.")
            except BadRequest as error:
                self._unread[player_id] = None
                log.error("player %s cannot be restored, and stays in the state's file: %s", player_id, error.message)
                continue
            if snapshot.is_resuming:
                taken_ms = max(taken_ms, alive_at_ms)  # its position stood for as long as the node lived
            found.append(resumed(played_on(snapshot, taken_ms, now_ms), resume))
        return found

    def _close(self, changes: Sequence[Change] | None, now_ms: int) -> None:
        try:
            if changes is not None:
                self._file.write(changes, now_ms)
        finally:
            with contextlib.suppress(sqlite3.Error):  # what could not be written is worth more than the proof
                self._file.prove()
            self._file.close()


def _some(names: Collection[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return ", ".join(text_for_logs(name)[:MAX_PLAYER_ID_CHARACTERS] for name in islice(names, _NAMES_TOLD)) + more

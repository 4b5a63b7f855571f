"""Keeps the players of a node in its state file, which a thread writes."""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from tonearm.core.errors import BadRequest
from tonearm.core.metadata import MAX_PLAYER_ID_CHARACTERS
from tonearm.core.printable import text_for_logs
from tonearm.core.snapshot import PlayerSnapshot, Resume, played_on, resumed
from tonearm.node.changes import Change
from tonearm.node.saving import PLAYERS_TOLD, SIGN_OF_LIFE_S, PlayerToSave, Saving
from tonearm.node.state_file import StateFile, StateFileError
from tonearm.protocol.saved_state import read_state
from tonearm.sources.detached_threads import DetachedThreads

# After a longer absence players go on where they were, not where they would be now: nobody heard the time between.
LONGEST_ABSENCE_S: Final = 60.0
_CLOSE_PATIENCE_S: Final = 2.0

log = logging.getLogger(__name__)


class FileSaving(Saving):
    """As `Saving`, in `file`."""

    def __init__(
        self,
        file: StateFile,
        players: Mapping[str, PlayerToSave],
        wall_ms: Callable[[], int],
        *,
        sign_of_life_s: float = SIGN_OF_LIFE_S,
    ) -> None:
        super().__init__(players, wall_ms, sign_of_life_s=sign_of_life_s)
        self._file = file
        self._threads = DetachedThreads(1)
        self._has_proof = False  # which is not in the file yet
        self._has_changes = False  # in the log, beside signs of life
        self._unread: dict[str, None] = {}  # players in the file whose records are damaged
        self._told_unfit = ""  # about records that no request could name

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
            while self._dirty:  # a player that has not changed since the last node ended has not gone on since
                await self._write_some(gives_sign=False)
            await self._write_some()
        except (sqlite3.Error, OSError) as error:
            self._report(error)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Writes where all players are, and closes the file. Players that are deleted from now on stay in it."""
        if not self._file.is_open:  # the start failed because the file cannot be used
            return
        changes: list[Change] | None = None  # a start that failed has restored no player
        now_ms = self._wall_ms()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            changes = self._all_taken_now(now_ms)
        try:
            async with asyncio.timeout(_CLOSE_PATIENCE_S):
                await self._threads.run(partial(self._close, changes, now_ms))
        except (TimeoutError, sqlite3.Error, StateFileError, OSError) as error:
            log.error("the state could not be written to its end: %s", str(error) or "the disk takes too long")

    def changed(self, player_id: str) -> None:
        self._unread.pop(player_id, None)  # the new one takes its place in the file
        super().changed(player_id)

    @property
    def trouble(self) -> str:
        """Why changes are not saved now; empty when they are."""
        if self._writing_since_s is not None:
            since_s = time.monotonic() - self._writing_since_s
            if since_s > self._sign_of_life_s:
                return f"The state's disk has not answered for {since_s:.0f} s."
        return self._failure

    @property
    def degraded(self) -> str:
        """What is wrong with the state, now or since the start; empty when nothing is."""
        all_told = (self.trouble, self._file.set_aside, self._told_unfit, self._told_unread(), *self._told_unkept())
        return " ".join(told for told in all_told if told)

    async def _put(self, batch: Sequence[Change], sign_ms: int | None) -> None:
        await self._threads.run(partial(self._file.write, batch, sign_ms))
        self._has_changes |= bool(batch)

    async def _after_writing(self, now_ms: int, *, is_quiet: bool) -> None:
        await self._write_proof()
        if (is_quiet and self._has_changes) or self._file.is_long:
            await self._timed(self._threads.run(partial(self._file.shorten, now_ms)))
            self._has_changes = False

    def _told_unread(self) -> str:
        if not self._unread:
            return ""
        return (
            f"The records of these players in {self._file.path} are damaged, and the players are missing: "
            f"{_some(self._unread)}. The log says what is wrong; a player that is created anew replaces its record."
        )

    async def _write_proof(self) -> None:
        if self._has_proof:
            await self._timed(self._threads.run(self._file.prove))
            self._has_proof = False

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
                taken_ms = max(taken_ms, alive_at_ms)  # its position did not move while the node lived
            found.append(resumed(played_on(snapshot, taken_ms, now_ms), resume))
        return found

    def _close(self, changes: Sequence[Change] | None, now_ms: int) -> None:
        try:
            if changes is not None:
                self._file.write(changes, now_ms)
        finally:
            with contextlib.suppress(sqlite3.Error):  # the error of the write matters more than the proof
                self._file.prove()
            self._file.close()


def _some(names: Collection[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - PLAYERS_TOLD} more" if len(names) > PLAYERS_TOLD else ""
    return ", ".join(text_for_logs(name)[:MAX_PLAYER_ID_CHARACTERS] for name in islice(names, PLAYERS_TOLD)) + more

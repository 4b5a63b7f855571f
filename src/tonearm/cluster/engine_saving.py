"""Saves the players of a node in the cluster's engine, where another node finds them when this node is lost."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from tonearm.cluster.engine import EngineLost
from tonearm.cluster.ownership import Ownership, RecordTooLarge
from tonearm.core.errors import RequestError
from tonearm.core.snapshot import PlayerSnapshot, Resume, played_on, resumed
from tonearm.node.changes import Change
from tonearm.node.saving import PlayerToSave, Saving
from tonearm.server.records import record_slices, stored_record

_AT_ONCE: Final = 16
_IN_THREAD_FROM_TRACKS: Final = 50
_PATIENCE_S: Final = 0.5
_CLOSE_PATIENCE_S: Final = 3.0
# After a longer absence players go on where they were, as with the state file.
_LONGEST_ABSENCE_MS: Final = 60_000

log = logging.getLogger(__name__)


class EngineSaving(Saving):
    """As `Saving`, in the engine. `last_alive_ms`: the time of day at which this node was last known to live."""

    def __init__(
        self,
        ownership: Ownership,
        players: Mapping[str, PlayerToSave],
        wall_ms: Callable[[], int],
        last_alive_ms: int,
    ) -> None:
        super().__init__(players, wall_ms, patience_s=_PATIENCE_S)
        self._ownership = ownership
        self._last_alive_ms = last_alive_ms
        self._ended_in: dict[str, int | None] = {}  # the epochs of deleted players; None for those that were given up
        self._foreign: set[str] = set()  # players that were not this node's when they were to be written

    async def open(self) -> None:
        await self._ownership.start()

    async def read(self, resume: Resume) -> list[PlayerSnapshot]:
        """The players that this node had and that no other node has taken since. Those that an engine which is lost
        meanwhile does not give are taken later."""
        alive_ms, now_ms = self._last_alive_ms, self._wall_ms()
        until_ms = now_ms if 0 <= now_ms - alive_ms <= _LONGEST_ABSENCE_MS else min(alive_ms, now_ms)
        read = partial(read_record, until_ms=until_ms)
        own = self._ownership.own
        found: list[PlayerSnapshot] = []
        try:
            for player_id in self._ownership.players_of(own):
                snapshot = await self._ownership.take(player_id, own, read)
                if snapshot is not None:
                    found.append(resumed(snapshot, resume))
        except EngineLost as error:
            log.warning("the cluster's engine was lost while the players were read: %s", error)
        return found

    def changed(self, player_id: str) -> None:
        if player_id in self._players:
            self._ended_in.pop(player_id, None)
        else:  # a later write finds out if it was taken again
            self._ended_in[player_id] = self._ownership.epoch_of(player_id)
        super().changed(player_id)

    async def saved(self, player_id: str) -> bool:
        return await super().saved(player_id) and player_id not in self._foreign

    async def claim(self, player_id: str) -> bool:
        """As `Ownership.claim`, and after a player of this id that was deleted here is gone from the engine. Otherwise
        the old player's end would be that of the new one."""
        if self._ended_in.get(player_id) is not None and not await super().saved(player_id):
            raise EngineLost(f"the deletion of the player {player_id} is not written yet")
        return await self._ownership.claim(player_id)

    async def keep(self) -> None:
        for player_id in self._players:
            self.changed(player_id)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            try:
                async with asyncio.timeout(_CLOSE_PATIENCE_S):
                    await self._put(self._all_taken_now(self._wall_ms()), None)
            except (TimeoutError, EngineLost) as error:
                log.error("the players could not be written to the cluster's engine: %s", str(error) or "it is slow")
        await self._ownership.stop()

    @property
    def trouble(self) -> str:
        return self._failure

    @property
    def degraded(self) -> str:
        return " ".join((self.trouble, *self._told_unkept())).strip()

    async def _put(self, batch: Sequence[Change], sign_ms: int | None) -> None:
        places = asyncio.Semaphore(_AT_ONCE)

        async def put(change: Change) -> None:
            async with places:
                await self._put_one(change)

        for result in await asyncio.gather(*map(put, batch), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _put_one(self, change: Change) -> None:
        self._foreign.discard(change.player_id)
        if change.snapshot is None:
            epoch = self._ended_in.get(change.player_id)
            if epoch is None or not await self._ownership.remove(change.player_id, epoch):
                self._foreign.add(change.player_id)
            if self._ended_in.get(change.player_id) == epoch:
                self._ended_in.pop(change.player_id, None)
            return
        record = await record_of(change.snapshot, change.taken_ms)
        try:
            if not await self._ownership.write(change.player_id, record):
                self._foreign.add(change.player_id)
        except RecordTooLarge as error:
            self._unkept[change.player_id] = str(error)
            log.error("player %s cannot be saved: %s", change.player_id, error)

    async def _after_writing(self, now_ms: int, *, is_quiet: bool) -> None:
        """Nothing: the node's lease is its sign of life."""

    def _report(self, error: Exception) -> None:
        failure = f"The cluster's engine cannot be written: {error}."
        if failure != self._failure:
            is_foreseen = isinstance(error, EngineLost)
            log.error("%s Players play on; what they do is written when it is back.", failure, exc_info=not is_foreseen)
        self._failure = failure


def read_record(
    player_id: str, record: bytes, *, until_ms: int | None = None, passed_ms: int | None = None
) -> PlayerSnapshot | None:
    """The player of a record, as it is at the time of day `until_ms`, or `passed_ms` after it was written, or as it was
    then; None for a record that is none of it, or of a newer version. A thread is to call it: it may take long."""
    try:
        taken_ms, snapshot = stored_record(record)
    except RequestError as error:
        log.debug("the record of player %s: %s", player_id, error.message)
        return None
    if snapshot.player_id != player_id:
        return None
    until_ms = until_ms if passed_ms is None else taken_ms + passed_ms
    return snapshot if until_ms is None else played_on(snapshot, taken_ms, until_ms)


async def record_of(snapshot: PlayerSnapshot, taken_ms: int) -> bytes:
    """A `SavedPlayer` as JSON; a long one is made in a thread."""
    if len(snapshot.queue) < _IN_THREAD_FROM_TRACKS:
        return b"".join(record_slices(snapshot, taken_ms))
    return await asyncio.to_thread(lambda: b"".join(record_slices(snapshot, taken_ms)))

"""Which node has which player, and each player's record, in the engine. Each player has one key, created once and
written only over the revision that its owner wrote last.

A value is a line of JSON, `{"owner", "epoch", "token", "packed"}`, and behind it the record (`protocol.saved_state`),
zlib-packed where it is long. `epoch` grows with each owner. `token` is of the owner's process, which knows by both its
own write, of which the acknowledgement was lost.
"""

import asyncio
import contextlib
import json
import logging
import secrets
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonearm.cluster.engine import Bucket, Conflict, EngineLost, Entry
from tonearm.core.cluster import is_node_name
from tonearm.core.errors import PlayerExists
from tonearm.core.metadata import is_player_id
from tonearm.core.printable import text_for_logs
from tonearm.core.snapshot import PlayerSnapshot

_HEAD_BYTES: Final = 512  # of a value, at most
_PACKED_FROM_BYTES: Final = 4096
_LARGEST_RECORD_BYTES: Final = 64 * 1024 * 1024
_WATCH_AGAIN_S: Final = 1.0
_WRITTEN_ANEW_WITHIN_S: Final = 5.0  # so long after the engine lost its disk each node writes its players again
_LARGEST_EPOCH: Final = 2**53
_LOGGED_CHARACTERS: Final = 128

log = logging.getLogger(__name__)


ReadRecord: TypeAlias = Callable[[str, bytes], PlayerSnapshot | None]  # in a thread
"""The player of this id, of its record; None for a record that is none of it."""


class RecordTooLarge(Exception):
    """The value is larger than the engine accepts."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The owner of a player, as the engine told or took it. `changed_s`: when this node saw it change, by its own
    clock; None when it was so before this node joined."""

    owner: str
    epoch: int
    revision: int
    changed_s: float | None = None


class Ownership:
    """The ownership of players, for the node `own`. `lost` is called with a player of this node that another node has
    taken."""

    def __init__(
        self,
        bucket: Bucket,
        own: str,
        largest_bytes: int,
        *,
        watch_again_s: float = _WATCH_AGAIN_S,
        written_anew_within_s: float = _WRITTEN_ANEW_WITHIN_S,
    ) -> None:
        self._bucket = bucket
        self.own: Final = own
        self._token = secrets.token_hex(8)
        self._largest_bytes = largest_bytes
        self.lost: Callable[[str, str], None] = lambda *_: None
        self._watch_again_s, self._written_anew_within_s = watch_again_s, written_anew_within_s
        self._owners: dict[str, Owned] = {}
        self._players: dict[str, dict[str, Owned]] = {}  # the same by node
        self._mine: dict[str, Owned] = {}
        # Players that the engine told of before, and not since the watch began anew. Their owners write them again.
        self._missing: set[str] = set()
        self._unread: dict[str, int] = {}  # the revisions of records that cannot be read
        self._has_all = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when all owners are known."""
        self._watching = asyncio.create_task(self._watch())
        await self._has_all.wait()

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    @property
    def is_watching(self) -> bool:
        """Whether `players_of` is as new as the engine."""
        return self._has_all.is_set()

    def nodes(self) -> list[str]:
        """All nodes that have players."""
        return [*self._players]

    def players_of(self, node: str) -> dict[str, Owned]:
        return dict(self._players.get(node, {}))

    def unwritten(self) -> list[str]:
        """Players of this node whose records the engine has lost, or has from a node that took the id since. The next
        write decides whose they are."""
        owners = self._owners
        return [
            player_id
            for player_id in self._mine
            if player_id in self._missing or ((known := owners.get(player_id)) is not None and known.owner != self.own)
        ]

    def epoch_of(self, player_id: str) -> int | None:
        """Of a player of this node; None for others."""
        mine = self._mine.get(player_id)
        return None if mine is None else mine.epoch

    async def owner_of(self, player_id: str, *, asks: bool = False) -> str | None:
        """The owner of a player. Asks the engine when the watch has not reported the player, or if it `asks` anyway.
        Raises `EngineLost`."""
        if player_id in self._mine:
            return self.own
        known = None if asks else self._owners.get(player_id)
        if known is None:
            known = self._read(await self._bucket.get(player_id))
        return None if known is None else known.owner

    async def is_there(self, player_id: str) -> bool:
        """Whether the engine has the player. It may have lost it, maybe with its whole disk. Raises `EngineLost`."""
        return await self._bucket.get(player_id) is not None

    async def claim(self, player_id: str) -> bool:
        """Takes the id for a player that is about to be created here. Returns False when this node had it already.
        Raises `PlayerExists` and `EngineLost`."""
        if player_id in self._mine:
            return False
        if player_id in self._missing:
            raise PlayerExists.of(player_id)
        if player_id in self._owners and not self.is_watching:  # the engine may have lost it with its disk
            raise EngineLost("which players there are is not known yet")
        try:
            revision = await self._bucket.create(player_id, self._value(1, b""))
        except Conflict:
            raise PlayerExists.of(player_id) from None
        self._mine[player_id] = Owned(self.own, 1, revision)
        return True

    async def take(
        self, player_id: str, owner: str, read: ReadRecord | PlayerSnapshot, epoch: int | None = None
    ) -> PlayerSnapshot | None:
        """Takes a player that `owner` had, as it was handed over or as `read` makes it of its record; None where
        another node has it by now, or none, or the record cannot be read, which then stays as it is. `epoch`: the one
        in which the owner had it; one that has taken it again since has another. Raises `EngineLost`."""
        entry = await self._bucket.get(player_id)
        known = self._read(entry)
        if entry is None or known is None or known.owner != owner or epoch not in (None, known.epoch):
            return None
        if player_id in self._mine:  # made or taken here meanwhile
            return None
        snapshot = read if isinstance(read, PlayerSnapshot) else await self._read_of(entry, read)
        if snapshot is None:
            return None
        try:
            revision = await self._bucket.update(player_id, self._passed_on(entry, known.epoch), entry.revision)
        except Conflict:
            return None
        self._mine[player_id] = Owned(self.own, known.epoch + 1, revision)
        return snapshot

    async def _read_of(self, entry: Entry, read: ReadRecord) -> PlayerSnapshot | None:
        """The player of a record; None where it cannot be read, or where there is none, which is cleared away."""
        if not entry.body:  # its node was lost while it made the player
            with contextlib.suppress(Conflict):
                await self._bucket.delete(entry.key, entry.revision)
            return None

        def unpacked_and_read() -> PlayerSnapshot | None:
            record = _record_in(entry)
            return None if record is None else read(entry.key, record)

        snapshot = await asyncio.to_thread(unpacked_and_read)
        if snapshot is None:
            if self._unread.get(entry.key) != entry.revision:
                log.error("the record of player %s cannot be read, and stays in the engine as it is", entry.key)
            self._unread[entry.key] = entry.revision
        return snapshot

    async def hand_back(self, player_id: str, owner: str) -> None:
        """Makes `owner` the owner of a player that this node has taken and cannot play. Raises `EngineLost`."""
        mine = self._mine.pop(player_id, None)
        entry = await self._bucket.get(player_id)
        if mine is None or entry is None or not self._is_own_write(entry, mine):
            return
        with contextlib.suppress(Conflict):
            await self._bucket.update(player_id, self._passed_on(entry, mine.epoch, owner), entry.revision)

    async def write(self, player_id: str, record: bytes) -> bool:
        """Writes the record of a player of this node. Returns False when the player is not this node's any more. Calls
        `lost` when another node has it. Raises `EngineLost` and `RecordTooLarge`."""
        mine = self._mine.get(player_id)
        if mine is None:
            return False
        packed = len(record) >= _PACKED_FROM_BYTES
        if packed:
            record = await asyncio.to_thread(zlib.compress, record, 1)
        value = self._value(mine.epoch, record, packed=packed)
        if len(value) > self._largest_bytes:
            raise RecordTooLarge(f"its record has {len(value)} bytes, and the engine's max_payload is less")
        try:
            revision = await self._bucket.update(player_id, value, mine.revision)
        except Conflict:
            again = await self._after_conflict(player_id, mine, value)
            if again is None:
                return False
            revision = again
        if self._mine.get(player_id) is not mine:  # moved away meanwhile, and maybe taken again
            return False
        self._mine[player_id] = Owned(self.own, mine.epoch, revision)
        return True

    async def remove(self, player_id: str, epoch: int | None = None) -> bool:
        """The player of this node is deleted, which had it in this `epoch`. Returns whether it is: not where the player
        is not this node's any more, or was taken anew. Raises `EngineLost`."""
        mine = self._mine.get(player_id)
        if mine is None or epoch not in (None, mine.epoch):
            return False
        try:
            await self._bucket.delete(player_id, mine.revision)
        except Conflict:
            entry = await self._bucket.get(player_id)
            if entry is not None and self._is_own_write(entry, mine):
                await self._bucket.delete(player_id, entry.revision)
            elif entry is not None:
                self.let_go(player_id)
                return False
        self._mine.pop(player_id, None)
        self._forget(player_id)
        return True

    def let_go(self, player_id: str) -> None:
        """Gives up the ownership here: the player goes on at another node, or may."""
        self._mine.pop(player_id, None)

    async def _after_conflict(self, player_id: str, mine: Owned, value: bytes) -> int | None:
        """The revision when the write succeeded after all; None for a player that another node has."""
        entry = await self._bucket.get(player_id)
        if entry is None:  # the engine has lost it, maybe with its whole disk
            try:
                return await self._bucket.create(player_id, value)
            except Conflict:
                entry = await self._bucket.get(player_id)
        if entry is not None and self._is_own_write(entry, mine):
            try:
                return await self._bucket.update(player_id, value, entry.revision)
            except Conflict:
                pass
        if self._mine.get(player_id) is not mine:
            return None
        self.let_go(player_id)
        known = self._read(entry)
        self.lost(player_id, "" if known is None else known.owner)
        return None

    def _is_own_write(self, entry: Entry, mine: Owned) -> bool:
        fields = entry.fields
        return (fields.get("token"), fields.get("epoch")) == (self._token, mine.epoch)

    async def _watch(self) -> None:
        while True:
            seen: set[str] = set()
            try:
                async for entry in self._bucket.watch(_HEAD_BYTES):
                    if entry is None:
                        self._missing = (self._owners.keys() | self._mine.keys()) - seen
                        if self._mine.keys() & self._missing:
                            log.warning("the cluster's engine has lost players of this node, which writes them again")
                        later = asyncio.get_running_loop().call_later
                        later(self._written_anew_within_s, self._forget_missing, self._missing)
                        self._has_all.set()
                    else:
                        if not self._has_all.is_set():
                            seen.add(entry.key)
                        self._saw(entry)
            except EngineLost:
                pass
            except Exception:
                log.exception("the engine's report about players could not be read")
            self._has_all.clear()
            await asyncio.sleep(self._watch_again_s)

    def _forget_missing(self, missing: set[str]) -> None:
        """Forgets players that are still missing: a missing key may be a deletion, or the engine lost its disk."""
        if missing is self._missing:  # the watch has not begun anew since
            for player_id in missing:
                self._forget(player_id)
            missing.clear()

    def _saw(self, entry: Entry) -> None:
        self._missing.discard(entry.key)
        found = self._read(entry, time.monotonic() if self._has_all.is_set() else None)
        if found is None:
            self._forget(entry.key)
            return
        before = self._owners.get(entry.key)
        if before is not None and before.revision == found.revision:
            return
        self._forget(entry.key)
        self._owners[entry.key] = found
        self._players.setdefault(found.owner, {})[entry.key] = found
        mine = self._mine.get(entry.key)
        if mine is not None and found.owner != self.own and found.epoch > mine.epoch:
            self.let_go(entry.key)
            self.lost(entry.key, found.owner)

    def _forget(self, player_id: str) -> None:
        if (known := self._owners.pop(player_id, None)) is not None:
            of_node = self._players[known.owner]
            del of_node[player_id]
            if not of_node:
                del self._players[known.owner]

    def _read(self, entry: Entry | None, changed_s: float | None = None) -> Owned | None:
        """None without an entry, and for one that is not a player's."""
        if entry is None:
            return None
        match entry.fields:
            case {"owner": str(owner), "epoch": int(epoch)} if is_player_id(entry.key) and is_node_name(owner):
                if 0 < epoch < _LARGEST_EPOCH:
                    # One text for all players of a node.
                    return Owned(sys.intern(owner), epoch, entry.revision, changed_s)
        if entry.value:
            log.debug(
                "the engine's entry %s is not the record of a player", text_for_logs(entry.key)[:_LOGGED_CHARACTERS]
            )
        return None

    def _passed_on(self, entry: Entry, epoch: int, owner: str = "") -> bytes:
        """The value of the next owner after this `epoch`, who is this node without `owner`."""
        return self._value(epoch + 1, entry.body, packed=bool(entry.fields.get("packed")), owner=owner)

    def _value(self, epoch: int, body: bytes, *, packed: bool = False, owner: str = "") -> bytes:
        head = {"owner": owner or self.own, "epoch": epoch, "token": self._token, "packed": packed}
        return json.dumps(head).encode() + b"\n" + body


def _record_in(entry: Entry) -> bytes | None:
    """The record of a player, unpacked; None for rubbish."""
    if not entry.fields.get("packed"):
        return entry.body
    try:
        unpacker = zlib.decompressobj()
        record = unpacker.decompress(entry.body, _LARGEST_RECORD_BYTES)
    except zlib.error:
        return None
    return None if unpacker.unconsumed_tail else record

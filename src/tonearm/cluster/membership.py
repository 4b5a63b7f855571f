"""The membership of a cluster: which nodes there are, which are alive, this node's lease, and what this node may do
without the engine.

Each node writes its record every second over the revision that it wrote last. The rules are those of `core.cluster`.
"""

import asyncio
import contextlib
import json
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from yarl import URL

from tonearm.cluster.engine import Bucket, Conflict, EngineLost
from tonearm.core.cluster import RENEW_EVERY_S, Lease, Members, NodeRecord, is_node_name
from tonearm.core.metadata import JsonObject

_STOOD_STILL_S: Final = 1.0  # after so late a turn the others cannot be judged yet: their records are not read
_DOUBT_AFTER_S: Final = 0.4  # an engine that does not answer for so long may be lost
_WATCH_AGAIN_S: Final = 1.0
_BACK_WITHIN_S: Final = 0.3  # a turn waits so long for its record to come back, so that a lost node is noticed at once
_LONGEST_RECORD_BYTES: Final = 4096
_LONGEST_ADDRESS: Final = 500
_BOUND: Final = 2**53  # of each number in a record: every JSON reader keeps these exact

log = logging.getLogger(__name__)


class NameTaken(Exception):
    """Another live node of the cluster has this node's name."""


class Membership:
    """From `join` to `leave`. `reaches_engine` asks the node at an address whether it reaches the engine: False when it
    does not, or is not there; True when it does, or says nothing. `lapsed` is called when the lease has ended, and
    `allowed` with the time until which the node may play."""

    def __init__(
        self,
        bucket: Bucket,
        own: str,
        lease_s: float,
        own_record: Callable[[], NodeRecord],
        reaches_engine: Callable[[str], Awaitable[bool]],
        wall_ms: Callable[[], int],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bucket = bucket
        self.own_record: Final = own_record
        self._reaches_engine = reaches_engine
        self.allowed: Callable[[float], None] = lambda _: None
        self.lapsed: Callable[[], None] = lambda: None
        self._wall_ms = wall_ms
        self._now_s = now_s
        self.members: Final = Members(own, lease_s, known_to_s=-math.inf)
        self.lease = Lease(lease_s)
        self.last_alive_ms = 0  # when this node was last known to live before it joined
        self._instance = secrets.token_hex(8)
        self._revision = 0
        self._sent_s = 0.0  # when the newest own record was sent
        self._has_come_back = asyncio.Event()
        self._told_s = now_s()  # when the watch last began, or told of an own record
        self._has_lapsed = True
        self.lapses = 0
        self._has_watch = False
        self._watching: asyncio.Task[None] | None = None
        self._turn_s = now_s()

    @property
    def reaches(self) -> bool:
        """Whether this node reaches the engine."""
        return self.members.reached_since_s is not None

    async def join(self) -> None:
        """Writes the first record. Raises `NameTaken` and `EngineLost`."""
        before = await self._bucket.get(self.members.own)
        if before is not None:
            await asyncio.sleep(self.lease.length_s)  # a live node writes in this time, and another one falls silent
            now = await self._bucket.get(self.members.own)
            if now is not None and now.revision != before.revision:
                raise NameTaken
            alive_ms = before.fields.get("aliveAt")
            self.last_alive_ms = alive_ms if isinstance(alive_ms, int) and 0 <= alive_ms < _BOUND else 0
            before = now  # None where the other one has left meanwhile
        self._watch_anew()
        try:
            sent_s = self._now_s()
            if before is None:
                self._revision = await self._bucket.create(self.members.own, self._value())
            else:
                self._revision = await self._bucket.update(self.members.own, self._value(), before.revision)
        except Conflict:
            raise NameTaken from None
        self._renewed(sent_s)

    async def leave(self) -> None:
        """Deletes the record, so that other nodes need not wait for the lease to end."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        try:
            await self._bucket.delete(self.members.own, self._revision)
        except (EngineLost, Conflict) as error:
            log.debug("this node could not tell the cluster that it leaves: %s", error)

    async def turn(self) -> None:
        """To be called every second: writes the record, or asks the others. Raises `NameTaken`."""
        now_s = self._now_s()
        stood_still, self._turn_s = now_s - self._turn_s > RENEW_EVERY_S + _STOOD_STILL_S, now_s
        if stood_still and self.members.reached_since_s is not None:
            self.members.reached_since_s = now_s
        self.check()  # before any write: the end of a lease must be noticed before a new lease begins
        try:
            self._revision = await self._written_or_asked()
        except EngineLost as error:
            if self.members.reached_since_s is not None:
                log.warning("the cluster's engine cannot be reached: %s", error)
            self.members.reached_since_s = None
            await self._ask_others()
        else:
            self.check()  # the lease may have ended while the engine did not answer, so that another node took players
            await asyncio.sleep(0)  # these are given up before the new lease begins
            self._renewed(now_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BACK_WITHIN_S):
                    await self._has_come_back.wait()
            if self._has_watch and now_s - self._told_s > self.lease.length_s:
                log.warning("the cluster's engine accepts writes, but reports no changes; this node watches it anew")
                self._watch_anew()
        self.check()

    async def forget_lost(self, owners: Collection[str]) -> None:
        """Deletes the records of nodes that were lost long ago, except those of `owners`. Raises `EngineLost`."""
        for name, revision in self.members.long_lost(self._now_s()).items():
            if name in owners:
                continue
            if not revision:
                self.members.gone(name)
                continue
            with contextlib.suppress(Conflict):  # it is back, or another node was faster
                await self._bucket.delete(name, revision)

    async def look(self) -> None:
        """Answers another node that asks whether this node reaches the engine. An engine that does not answer soon
        counts as not reached, and this node's observation of others starts anew. So the answer no is a promise,
        whenever this node would have noticed by itself."""
        try:
            async with asyncio.timeout(_DOUBT_AFTER_S):
                await self._bucket.get(self.members.own)
        except (EngineLost, TimeoutError):
            self.members.reached_since_s = None

    def check(self) -> None:
        """Notices that the lease has ended."""
        if not self._has_lapsed and self._now_s() >= self.lease.plays_until_s:
            self.lapse()

    def lapse(self) -> None:
        """Ends the lease: this node is silent, and takes no player, until it begins another one."""
        self._has_lapsed = True
        self.lapses += 1
        self.allowed(-math.inf)
        self.lapsed()

    @property
    def may_play(self) -> bool:
        return not self._has_lapsed and self._now_s() < self.lease.plays_until_s

    async def _written_or_asked(self) -> int:
        """As `_written`. While the engine does not answer, this node asks the others, because a short lease ends
        soon."""
        writing = asyncio.ensure_future(self._written())
        try:
            if not (await asyncio.wait([writing], timeout=_DOUBT_AFTER_S))[0]:
                await self._ask_others()
            return await writing
        finally:
            writing.cancel()

    async def _written(self) -> int:
        """The new revision of the record. Raises `EngineLost` and `NameTaken`."""
        try:
            return await self._bucket.update(self.members.own, self._value(), self._revision)
        except Conflict:
            there = await self._bucket.get(self.members.own)
        if there is None:  # the engine has lost the key, maybe with its whole disk
            try:
                return await self._bucket.create(self.members.own, self._value())
            except Conflict:
                raise NameTaken from None
        if there.fields.get("instance") != self._instance:
            raise NameTaken
        return there.revision  # this node's own write, whose acknowledgement was lost

    def _renewed(self, sent_s: float) -> None:
        self.lease = self.lease.renewed(sent_s)
        self._has_lapsed = False
        if self.members.reached_since_s is None and self._has_watch:
            log.info("the cluster's engine is reached")
            self.members.reached_since_s = self._now_s()
        self.allowed(self.lease.plays_until_s)

    async def _ask_others(self) -> None:
        asked_s = self._now_s()
        others = [record.address for name, record in self.members.records().items() if name != self.members.own]
        answers = await asyncio.gather(*(self._reaches_engine(address) for address in others if address))
        if not any(answers):
            self.lease = self.lease.unopposed(asked_s)
            self.allowed(self.lease.plays_until_s)

    def _watch_anew(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._forget_watch()
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                async for entry in self._bucket.watch(_LONGEST_RECORD_BYTES):
                    if entry is None:
                        self._has_watch, self._told_s = True, self._now_s()
                    elif not entry.value:
                        self.members.gone(entry.key)
                    elif is_node_name(entry.key) and (record := record_of(fields := entry.fields)):
                        self.members.saw(entry.key, record, entry.revision, self._now_s())
                        if fields.get("instance") == self._instance:
                            self._came_back(fields.get("sentAt"))
            except EngineLost:
                pass
            except Exception:
                log.exception("the engine's report about nodes could not be read")
            self._forget_watch()
            await asyncio.sleep(_WATCH_AGAIN_S)

    def _forget_watch(self) -> None:
        self._has_watch = False
        self.members.reached_since_s = None
        self.members.forget_revisions()

    def _came_back(self, sent_s: object) -> None:
        """This node's own record came back, so all that was written before it has come, too. `sent_s` is the time in
        the record; only this node reads it."""
        if isinstance(sent_s, float) and sent_s <= self._sent_s:
            self.members.known_to_s, self._told_s = sent_s, self._now_s()
            if sent_s == self._sent_s:
                self._has_come_back.set()

    def _value(self) -> bytes:
        record = self.own_record()
        self._sent_s = self._now_s()
        self._has_come_back.clear()
        fields: JsonObject = {
            "address": record.address,
            "version": record.version,
            "players": record.players,
            "load": round(record.load, 4),
            "draining": record.is_draining,
            "instance": self._instance,
            "sentAt": self._sent_s,  # by this node's clock; only this node reads it
            "aliveAt": self._wall_ms(),
        }
        return json.dumps(fields).encode()


def record_of(fields: Mapping[str, object]) -> NodeRecord | None:
    """None for an invalid record, because any client of the engine can write there."""
    match fields:
        case {"address": str(address), "players": int(players), "load": int() | float() as load}:
            if not _is_address_or_none(address):
                return None
            if not (0 <= load < _BOUND and 0 <= players < _BOUND):  # no NaN, and none too large
                return None
            version = fields.get("version")
            return NodeRecord(
                address,
                version[:50] if isinstance(version, str) else "",
                int(players),
                float(load),
                fields.get("draining") is True,
            )
    return None


def _is_address_or_none(text: str) -> bool:
    """Whether this is an address for requests, or empty: a node has no address before it listens."""
    try:
        url = URL(text)
        is_whole = url.scheme in ("http", "https") and bool(url.host) and url.port is not None
        return not text or (is_whole and len(text) <= _LONGEST_ADDRESS and "?" not in text and "#" not in text)
    except ValueError:
        return False

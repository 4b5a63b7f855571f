"""Who may write a player's record, and take it, on an engine that is held in memory."""

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.support.eventually import eventually
from tests.support.hand_time import LoopTime
from tonearm.cluster.engine import Bucket, Conflict, EngineLost, Entry
from tonearm.cluster.membership import Membership
from tonearm.cluster.ownership import Ownership
from tonearm.core.cluster import FORGOTTEN_AFTER_S, SILENT_BEFORE_S, NodeRecord
from tonearm.core.errors import PlayerExists
from tonearm.core.snapshot import PlayerSnapshot

LEASE_S = 3.0


@dataclass
class HeldBucket:
    """As `Bucket`. While it `is_frozen` nothing is answered; while it `is_mute` nothing is told of what was written."""

    entries: dict[str, Entry] = field(default_factory=dict)
    revision: int = 0
    is_frozen: bool = False
    is_mute: bool = False
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    written: asyncio.Event = field(default_factory=asyncio.Event)

    async def _answered(self) -> None:
        if self.is_frozen:
            await self.answers.wait()
            raise EngineLost("it does not answer")

    async def get(self, key: str) -> Entry | None:
        await self._answered()
        return self.entries.get(key)

    async def create(self, key: str, value: bytes) -> int:
        await self._answered()
        if key in self.entries:
            raise Conflict
        return self._put(key, value)

    async def update(self, key: str, value: bytes, last: int) -> int:
        await self._answered()
        if key not in self.entries or self.entries[key].revision != last:
            raise Conflict
        return self._put(key, value)

    async def delete(self, key: str, last: int) -> None:
        await self._answered()
        if key not in self.entries or self.entries[key].revision != last:
            raise Conflict
        self.entries.pop(key, None)

    async def watch(self, value_bytes: int | None = None) -> AsyncIterator[Entry | None]:
        told = 0
        for entry in tuple(self.entries.values()):
            yield entry
            told = max(told, entry.revision)
        yield None
        while True:
            newest = self.revision  # maybe of what is deleted by now
            for entry in sorted(self.entries.values(), key=lambda entry: entry.revision):
                if entry.revision > told:
                    told = entry.revision
                    yield entry
            told = max(told, newest)
            while self.revision <= told or self.is_mute:
                self.written.clear()
                await self.written.wait()

    def _put(self, key: str, value: bytes) -> int:
        self.revision += 1
        self.entries[key] = Entry(key, value, self.revision)
        self.written.set()
        return self.revision


def ownership(bucket: HeldBucket, own: str, lost: list[str]) -> Ownership:
    owned = Ownership(cast(Bucket, bucket), own, 1_000_000)
    owned.lost = lambda player_id, _: lost.append(player_id)
    return owned


def read(*_: object) -> PlayerSnapshot:
    return cast(PlayerSnapshot, "the player")


async def test_a_node_that_wakes_up_late_does_not_take_what_its_owner_took_back() -> None:
    bucket, lost = HeldBucket(), list[str]()
    a, b = ownership(bucket, "a", lost), ownership(bucket, "b", lost)
    await a.claim("p")
    assert await a.write("p", b"{}")
    epoch = a.epoch_of("p")
    a.let_go("p")
    assert await a.take("p", "a", read, epoch) is not None
    assert await b.take("p", "a", read, epoch) is None
    assert await a.write("p", b"{}")
    assert await b.take("p", "a", read, a.epoch_of("p")) is not None


async def test_a_player_that_is_handed_back_is_its_former_owners_and_of_nobody_who_comes_late() -> None:
    bucket, lost = HeldBucket(), list[str]()
    a, b, c = (ownership(bucket, name, lost) for name in "abc")
    await a.claim("p")
    assert await a.write("p", b'{"n": 1}')
    epoch = a.epoch_of("p")
    a.let_go("p")
    assert await b.take("p", "a", read, epoch) is not None
    await b.hand_back("p", "a")
    assert b.epoch_of("p") is None
    assert not await b.write("p", b"{}")
    assert await c.take("p", "a", read, epoch) is None
    taken: object = await a.take("p", "a", lambda _, record: cast(PlayerSnapshot, record))
    assert taken == b'{"n": 1}'
    await b.hand_back("p", "a")  # which it does not have any more
    assert await a.write("p", b"{}")


async def test_two_nodes_at_once_clear_away_an_id_whose_player_was_never_made() -> None:
    bucket, lost = HeldBucket(), list[str]()
    a, b, c = (ownership(bucket, name, lost) for name in "abc")
    await a.claim("p")  # and is lost
    plain = bucket.get

    async def slow(key: str) -> Entry | None:
        entry = await plain(key)
        await asyncio.sleep(0)
        return entry

    bucket.get = slow  # type: ignore[method-assign]
    assert not any(await asyncio.gather(b.take("p", "a", read), c.take("p", "a", read)))
    assert not bucket.entries


async def test_an_id_is_not_cleared_away_that_is_claimed_here_meanwhile() -> None:
    bucket = HeldBucket()
    a = ownership(bucket, "a", [])
    plain = bucket.get

    async def get(key: str) -> Entry | None:
        await a.claim("p")  # the engine told of this claim before it acknowledged it
        return await plain(key)

    bucket.get = get  # type: ignore[method-assign]
    assert await a.take("p", "a", read) is None
    assert "p" in bucket.entries


async def test_what_is_written_of_a_player_that_is_not_ones_own_is_not_kept() -> None:
    bucket, lost = HeldBucket(), list[str]()
    a, b = ownership(bucket, "a", lost), ownership(bucket, "b", lost)
    await a.claim("p")
    assert await a.write("p", b"{}")
    assert await b.take("p", "a", read) is not None
    assert not await a.write("p", b'{"changed": 1}')
    assert not await a.write("p", b'{"changed": 2}')
    assert lost == ["p"]


async def test_a_write_that_was_under_way_while_a_player_was_given_up_and_taken_again_ends_nothing() -> None:
    bucket, lost = HeldBucket(), list[str]()
    a = ownership(bucket, "a", lost)
    await a.claim("p")
    assert await a.write("p", b"{}")
    plain = bucket.update

    async def slow(key: str, value: bytes, last: int) -> int:
        bucket.update = plain  # type: ignore[method-assign]
        a.let_go("p")
        assert await a.take("p", "a", read) is not None
        return await plain(key, value, last)

    bucket.update = slow  # type: ignore[method-assign]
    assert not await a.write("p", b"{}")
    assert lost == []
    assert await a.write("p", b"{}")


async def test_a_player_whose_record_went_with_the_disk_of_the_engine_is_its_owners_still() -> None:
    bucket, told = HeldBucket(), asyncio.Semaphore(0)

    async def watch(value_bytes: int | None = None) -> AsyncIterator[Entry | None]:
        for entry in tuple(bucket.entries.values()):
            yield entry
        yield None
        await told.acquire()  # then the connection breaks

    bucket.watch = watch  # type: ignore[method-assign]
    a, b = (Ownership(cast(Bucket, bucket), name, 1000, watch_again_s=0.0, written_anew_within_s=0.2) for name in "ab")
    for player_id in ("p", "q"):
        await a.claim(player_id)
    await b.start()
    bucket.entries.clear()
    told.release()
    await asyncio.sleep(0.05)
    assert b.is_watching
    assert await b.owner_of("p") == "a"
    with pytest.raises(PlayerExists):
        await b.claim("p")
    assert await a.write("p", b"{}")  # its owner notices, and writes it again
    told.release()

    async def is_forgotten() -> bool:
        return await b.owner_of("q") is None

    await eventually(is_forgotten, "what nobody writes again is forgotten")
    assert await b.owner_of("p") == "a"
    await b.claim("q")
    await b.stop()


async def test_an_id_is_not_given_away_before_it_is_known_what_the_engine_has_lost() -> None:
    bucket = HeldBucket()

    async def watch(value_bytes: int | None = None) -> AsyncIterator[Entry | None]:
        for entry in tuple(bucket.entries.values()):
            yield entry
        yield None  # then the connection breaks

    bucket.watch = watch  # type: ignore[method-assign]
    a, b = (ownership(bucket, name, []) for name in "ab")
    await a.claim("p")
    await b.start()
    bucket.entries.clear()
    with pytest.raises(EngineLost):
        await b.claim("p")
    assert await b.claim("q")
    await b.stop()


async def test_an_id_that_another_node_took_from_an_emptied_engine_is_played_by_one_node() -> None:
    bucket, lost = HeldBucket(), list[str]()
    watched = asyncio.Event()

    async def watch(value_bytes: int | None = None) -> AsyncIterator[Entry | None]:
        await watched.wait()
        for entry in tuple(bucket.entries.values()):
            yield entry
        yield None
        await asyncio.Event().wait()

    bucket.watch = watch  # type: ignore[method-assign]
    a, b = ownership(bucket, "a", lost), ownership(bucket, "b", [])
    await a.claim("p")
    await a.claim("q")
    assert await a.write("q", b"{}")
    del bucket.entries["p"]
    await b.claim("p")
    watched.set()
    await a.start()
    assert a.unwritten() == ["p"]
    assert not await a.write("p", b"{}")
    assert lost == ["p"]
    assert a.unwritten() == []
    assert await b.write("p", b"{}")
    await a.stop()


def membership(bucket: HeldBucket, own: str, others: dict[str, Membership], now: list[float], ended: list[str]) -> Any:
    """It asks the `others` itself, by their addresses."""

    async def reaches_engine(address: str) -> bool:
        other = others[address.removeprefix("http://").removesuffix(":1")]
        await other.look()
        return other.reaches

    record = NodeRecord(f"http://{own}:1")
    found = Membership(cast(Bucket, bucket), own, LEASE_S, lambda: record, reaches_engine, lambda: 0, lambda: now[0])
    found.lapsed = lambda: ended.append(own)
    return found


async def test_a_node_joins_by_the_name_of_a_lost_one_when_that_is_silent() -> None:
    bucket, now = HeldBucket(), [100.0]
    lost, again = (membership(bucket, "a", {}, now, []) for _ in range(2))
    await lost.join()
    time = LoopTime(stands=True)
    joining = asyncio.create_task(again.join())
    for forward_s, is_joined in ((0.0, False), (LEASE_S - SILENT_BEFORE_S, False), (SILENT_BEFORE_S, True)):
        time.forward(forward_s)
        for _ in range(20):
            await asyncio.sleep(0)
        assert joining.done() is is_joined
    lost._watching.cancel()
    again._watching.cancel()


async def test_a_node_joins_by_the_name_of_one_that_leaves_meanwhile() -> None:
    bucket = HeldBucket()
    leaving, joins = (membership(bucket, "a", {}, [100.0], []) for _ in range(2))
    await leaving.join()
    time = LoopTime()
    joining = asyncio.create_task(joins.join())
    await asyncio.sleep(0)  # it waits
    await leaving.leave()
    time.forward(LEASE_S)
    await joining
    assert bucket.entries["a"].fields["instance"] == joins._instance
    joins._watching.cancel()


async def test_no_node_falls_silent_for_an_engine_that_froze_and_has_not_refused_anything_yet() -> None:
    bucket, now, ended = HeldBucket(), [100.0], list[str]()
    nodes: dict[str, Membership] = {}
    for name in ("a", "b"):
        nodes[name] = membership(bucket, name, nodes, now, ended)
        await nodes[name].join()
    for node in nodes.values():
        for other in nodes:
            node.members.saw(other, NodeRecord(f"http://{other}:1"), 1, now[0])
        await asyncio.sleep(0)  # its watch has begun
        await node.turn()
        assert node.reaches
    bucket.is_frozen = True
    now[0] += 2.0  # `b` has written nothing since, and believes that all is well
    turning = asyncio.create_task(nodes["a"].turn())
    await eventually(lambda: nodes["a"].lease.unopposed_s == 102.0, "it knows that nobody can take its players")
    assert not nodes["b"].reaches
    now[0] += 1.0
    nodes["a"].check()
    assert ended == []
    bucket.answers.set()
    await turning
    for node in nodes.values():
        assert node._watching is not None
        node._watching.cancel()


async def test_a_lease_that_ends_before_its_renewal_is_acknowledged_has_ended() -> None:
    bucket, now = HeldBucket(), [100.0]
    node = membership(bucket, "a", {}, now, [])
    await node.join()
    plain = bucket.update

    async def slow(key: str, value: bytes, last: int) -> int:
        now[0] += 1.0  # in which others may have taken its players
        return await plain(key, value, last)

    bucket.update = slow  # type: ignore[method-assign]
    told = list[object]()
    node.allowed = told.append
    node.lapsed = lambda: asyncio.get_running_loop().call_soon(told.append, "its players are given up")
    now[0] = node.lease.plays_until_s - 0.1
    await node.turn()
    assert told == [-math.inf, "its players are given up", node.lease.plays_until_s]
    assert node.may_play, "it may take them again"
    node._watching.cancel()


async def test_an_engine_that_takes_records_and_tells_none_makes_nobody_look_dead() -> None:
    bucket, now = HeldBucket(), [100.0]
    nodes: dict[str, Membership] = {}
    for name in ("a", "b"):
        nodes[name] = membership(bucket, name, nodes, now, [])
        await nodes[name].join()

    async def pass_s(seconds: int, *names: str) -> None:
        for _ in range(seconds):
            now[0] += 1.0
            for name in names:
                await nodes[name].turn()

    watching = nodes["a"]._watching
    await pass_s(5, "a", "b")
    bucket.is_mute = True
    await pass_s(4, "a", "b")
    assert nodes["a"].members.is_alive("b", now[0])
    assert nodes["a"]._watching is not watching  # it asks anew
    bucket.is_mute = False
    await pass_s(3, "a", "b")
    assert nodes["a"].members.is_alive("b", now[0])
    await pass_s(4, "a")
    assert not nodes["a"].members.is_alive("b", now[0])
    for node in nodes.values():
        assert node._watching is not None
        node._watching.cancel()


async def test_a_node_that_does_not_come_back_is_forgotten_when_it_has_no_players() -> None:
    bucket, now = HeldBucket(), [100.0]
    nodes: dict[str, Membership] = {}
    for name in ("a", "b"):
        nodes[name] = membership(bucket, name, nodes, now, [])
        await nodes[name].join()
    await asyncio.sleep(0)  # their watches have begun
    now[0] += FORGOTTEN_AFTER_S
    for _ in range(5):
        now[0] += 1.0
        await nodes["a"].turn()
        await nodes["a"].forget_lost(["b"])
    assert "b" in bucket.entries, "it has players"
    await nodes["a"].forget_lost([])
    assert "b" not in bucket.entries
    await nodes["b"].turn()
    assert "b" in bucket.entries, "it came back all the same"
    await nodes["a"].turn()
    await nodes["a"].forget_lost([])
    assert bucket.entries.keys() == {"a", "b"}
    for node in nodes.values():
        assert node._watching is not None
        node._watching.cancel()


@pytest.mark.parametrize("is_frozen", [False, True])
async def test_who_is_asked_looks_whether_the_engine_answers(is_frozen: bool) -> None:
    bucket = HeldBucket()
    node = membership(bucket, "a", {}, [100.0], [])
    await node.join()
    await asyncio.sleep(0)
    await node.turn()
    bucket.is_frozen = is_frozen
    await node.look()
    assert node.reaches is not is_frozen
    node._watching.cancel()

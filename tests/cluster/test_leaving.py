"""What a node that stops does with players that it could not give to others."""

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from tests.cluster.test_ownership import HeldBucket, ownership, read
from tests.support.eventually import eventually
from tests.support.playback_log import playing_player
from tests.support.tracks import make_status
from tonearm.cluster.engine_saving import record_of
from tonearm.cluster.moving import Moving
from tonearm.cluster.nodes import Joined
from tonearm.cluster.ownership import Ownership
from tonearm.cluster.taking import Taking
from tonearm.cluster.together import AllPlayers
from tonearm.core.cluster import Members, NodeRecord
from tonearm.core.errors import NodeUnreachable, PlayerNotFound
from tonearm.core.player_status import PlayerStatus
from tonearm.core.snapshot import PlayerSnapshot


@dataclass
class StoppingPlayer:
    player_id: str

    def snapshot(self) -> PlayerSnapshot:
        return self.record()

    def record(self) -> PlayerSnapshot:
        return replace(playing_player("a").playback.snapshot(), player_id=self.player_id)

    def status(self) -> PlayerStatus:
        return make_status(self.player_id)


class StoppingNode:
    """It has `players`. While it makes one it calls `meanwhile`."""

    def __init__(self, players: dict[str, Any]) -> None:
        self._players = players
        self.given_up = 0
        self.is_stopped = False
        self.meanwhile: Callable[[], None] = lambda: None

    def find(self, player_id: str) -> StoppingPlayer | None:
        found: StoppingPlayer | None = self._players.get(player_id)
        return found

    async def give_up(self, player_id: str, reason: str, client: str = "") -> PlayerSnapshot:
        self.given_up += 1
        record: PlayerSnapshot = self._players.pop(player_id).record()
        return record

    async def take_over(self, snapshot: PlayerSnapshot, **_: object) -> bool:
        assert not self.is_stopped
        self.meanwhile()
        self._players[snapshot.player_id] = StoppingPlayer(snapshot.player_id)
        return False

    def players(self) -> list[StoppingPlayer]:
        return [*self._players.values()]


@dataclass
class Leaving:
    """The node a, which has `players`, and b, which answers once for each of `answers`: it takes the player, or not."""

    joined: Joined
    moving: Moving
    bucket: HeldBucket
    ownership: Ownership
    players: dict[str, Any]
    node: StoppingNode
    asked: asyncio.Event
    answers: asyncio.Semaphore


async def leaving(*player_ids: str, takes: bool = False, are_saved: bool = True) -> Leaving:
    asked, answers = asyncio.Event(), asyncio.Semaphore(0)

    async def ask(*_: object) -> None:
        asked.set()
        await answers.acquire()
        if not takes:
            raise aiohttp.ClientError("no room")

    bucket = HeldBucket()
    owned = ownership(bucket, "a", [])
    for player_id in player_ids:
        await owned.claim(player_id)
        if are_saved:
            await owned.write(player_id, b"{}")
    members = SimpleNamespace(living=lambda _: {"a": NodeRecord("http://a:1"), "b": NodeRecord("http://b:1")})
    players: dict[str, Any] = {player_id: StoppingPlayer(player_id) for player_id in player_ids}
    node = StoppingNode(players)
    membership, forwarding = (
        SimpleNamespace(
            members=members, reaches=True, may_play=True, lapses=0, own_record=lambda: NodeRecord("http://a:1")
        ),
        SimpleNamespace(ask=ask),
    )
    nobody = cast(Any, None)
    joined = Joined("a", nobody, cast(Any, membership), owned, cast(Any, forwarding), lambda: 0)
    moving = Moving(joined, cast(Any, node), players)
    return Leaving(joined, moving, bucket, owned, players, node, asked, answers)


async def test_a_node_that_stops_begins_no_move_after_its_drain() -> None:
    found = await leaving("p")
    found.answers.release()
    await found.moving.leave(1.0)
    assert found.node.given_up == 1
    assert found.ownership.epoch_of("p"), "it stays here, as nobody takes it"
    await asyncio.wait([found.moving.all()])  # as each turn does
    assert found.node.given_up == 1


async def test_a_node_that_stops_while_it_drains_moves_all_that_it_has() -> None:
    found = await leaving(*(f"p{n}" for n in range(9)), takes=True)
    found.moving.is_draining = True
    found.moving.all()
    await found.asked.wait()
    leaving_now = asyncio.create_task(found.moving.leave(60.0))
    await asyncio.sleep(0)
    found.players["late"] = StoppingPlayer("late")
    await found.ownership.claim("late")
    for _ in range(10):
        found.answers.release()
    await leaving_now
    assert not found.players


async def test_a_node_that_stops_takes_nothing_back() -> None:
    found = await leaving("p")
    moving = asyncio.create_task(found.moving.one("p", "b"))
    await found.asked.wait()
    await found.moving.leave(1.0)
    found.node.is_stopped = True
    found.answers.release()
    with pytest.raises(NodeUnreachable):
        await moving
    assert found.ownership.epoch_of("p") is None, "others find it in the engine"


async def test_a_player_of_which_the_engine_has_no_record_is_not_lost_by_a_move() -> None:
    """As one whose record is too large for it."""
    found = await leaving("p", are_saved=False)
    found.answers.release()
    with pytest.raises(NodeUnreachable, match="it goes on here"):
        await found.moving.one("p", "b")
    assert found.players.keys() == {"p"}
    assert found.ownership.epoch_of("p")
    snapshot = StoppingPlayer("p").record()
    assert await ownership(found.bucket, "b", []).take("p", "a", snapshot, found.ownership.epoch_of("p")) is snapshot


@pytest.mark.parametrize("takes", [True, False])
async def test_a_player_that_an_emptied_engine_does_not_have_yet_is_not_lost_by_a_move(takes: bool) -> None:
    found = await leaving("p", takes=takes)
    found.bucket.entries.clear()
    moving = asyncio.create_task(found.moving.one("p", "b"))
    await found.asked.wait()
    entry = found.bucket.entries["p"]
    assert entry.fields["owner"] == "a", "so b can take it"
    assert entry.body
    found.answers.release()
    with contextlib.suppress(NodeUnreachable):
        await moving
    assert found.players.keys() == (set() if takes else {"p"})


@pytest.mark.parametrize("what", ["the lease ends", "another node takes it"])
async def test_a_player_that_is_lost_while_it_is_being_made_is_not_kept(what: str) -> None:
    found = await leaving()
    other = ownership(found.bucket, "c", [])
    await other.claim("p")
    assert await other.write("p", b"{}")
    taking = Taking(found.joined, cast(Any, found.node), found.players, found.moving)

    def meanwhile() -> None:
        if what == "the lease ends":
            cast(Any, found.joined.membership).lapses += 1
        else:
            found.ownership.let_go("p")

    found.node.meanwhile = meanwhile
    await taking.handed_over("p", await record_of(StoppingPlayer("p").record(), 0), "c", other.epoch_of("p") or 0)
    assert found.players == {}
    assert found.ownership.epoch_of("p") is None


async def test_a_node_that_has_just_come_is_not_lost_because_its_record_comes_late() -> None:
    found = await leaving()
    members = Members("a", 3.0, reached_since_s=-math.inf, known_to_s=time.monotonic())
    cast(Any, found.joined.membership).members = members
    taking = Taking(found.joined, cast(Any, found.node), found.players, found.moving)
    await found.ownership.start()
    newcomer = ownership(found.bucket, "z", [])
    await newcomer.claim("p")
    assert await newcomer.write("p", await record_of(StoppingPlayer("p").record(), 0))
    await eventually(lambda: found.ownership.nodes() == ["z"], "the engine tells of its player")
    await taking.look_for_players()
    assert not taking._work
    members.known_to_s = math.inf  # and it is not there
    await taking.look_for_players()
    await eventually(lambda: "p" in found.players, "the player is taken")
    await found.ownership.stop()


async def test_a_node_that_drains_takes_its_own_player_back_when_nobody_plays_it() -> None:
    found = await leaving("p", are_saved=False)
    await found.ownership.write("p", await record_of(StoppingPlayer("p").record(), 0))
    await found.ownership.start()
    cast(Any, found.joined.membership).members = Members("a", 3.0)
    taking = Taking(found.joined, cast(Any, found.node), found.players, found.moving)
    found.moving.is_draining = True
    found.ownership.let_go("p")
    await found.node.give_up("p", "")
    await taking.look_for_players()
    await eventually(lambda: "p" in found.players, "the player is taken, so that it can be moved")
    await found.ownership.stop()


async def test_a_player_that_another_node_takes_while_this_one_restores_it_does_not_stay_at_both() -> None:
    found = await leaving("p")
    await found.ownership.start()
    snapshot = found.players.pop("p").record()
    assert await ownership(found.bucket, "c", []).take("p", "a", snapshot) is snapshot
    await eventually(lambda: found.ownership.nodes() == ["c"], "the engine tells of it")
    found.players["p"] = StoppingPlayer("p")  # as `Node.start` makes it at last
    cast(Any, found.joined.membership).members = Members("a", 3.0)
    taking = Taking(found.joined, cast(Any, found.node), found.players, found.moving)
    await taking.look_for_players()
    await eventually(lambda: not found.players, "the player is given up")
    await found.ownership.stop()


async def test_a_node_whose_lease_has_ended_is_handed_nothing() -> None:
    found = await leaving()
    cast(Any, found.joined.membership).may_play = False
    taking = Taking(found.joined, cast(Any, found.node), found.players, found.moving)
    with pytest.raises(NodeUnreachable, match="lease has ended"):
        await taking.handed_over("p", await record_of(StoppingPlayer("p").record(), 0), "c", 1)


@pytest.mark.parametrize("name", ["b", "c"])
async def test_a_move_that_is_done_late_is_done(name: str) -> None:
    found = await leaving("p")
    other, epoch = ownership(found.bucket, name, []), found.ownership.epoch_of("p")
    moving = asyncio.create_task(found.moving.one("p", "b"))
    await found.asked.wait()
    assert await other.take("p", "a", read, epoch) is not None
    found.answers.release()
    if name == "b":
        await moving
    else:
        with pytest.raises(PlayerNotFound, match="not this node's any more"):
            await moving
    assert not found.players


async def test_a_player_that_the_other_node_has_not_taken_yet_is_in_each_list() -> None:
    found = await leaving("p")
    node = cast(Any, found.node)
    going = found.moving.on_their_way
    all_players = AllPlayers(found.joined, node, going)

    async def listed() -> tuple[list[str], list[str]]:
        request = cast(Any, SimpleNamespace(method="GET"))
        states = cast(Any, await all_players.states(request, of_all=False))
        records = cast(Any, await all_players.records(request, of_all=False))
        return (
            [player["id"] for player in json.loads(states.body)],
            [player["id"] for player in json.loads(records.body)["players"]],
        )

    assert await listed() == (["p"], ["p"])
    moving = asyncio.create_task(found.moving.one("p", "b"))
    await found.asked.wait()
    assert node.players() == []
    assert await listed() == (["p"], ["p"])
    found.answers.release()
    with pytest.raises(NodeUnreachable, match="it goes on here"):
        await moving
    assert await listed() == (["p"], ["p"])

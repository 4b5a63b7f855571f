"""What a node that stops does with players that it could not give to others."""

import asyncio
import json
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from tests.cluster.test_ownership import HeldBucket, ownership
from tests.support.playback_log import playing_player
from tests.support.tracks import make_status
from tonearm.cluster.moving import Moving
from tonearm.cluster.ownership import Ownership
from tonearm.cluster.together import AllPlayers
from tonearm.core.cluster import NodeRecord
from tonearm.core.errors import NodeUnreachable
from tonearm.core.player_status import PlayerStatus
from tonearm.core.snapshot import PlayerSnapshot


class StoppingPlayer:
    player_id = "p"

    def record(self) -> PlayerSnapshot:
        return replace(playing_player("a").playback.snapshot(), player_id="p")

    def status(self) -> PlayerStatus:
        return make_status("p")


class StoppingNode:
    """It has a player, which no other node takes."""

    def __init__(self, players: dict[str, Any]) -> None:
        self._players = players
        self.given_up = 0
        self.is_stopped = False

    async def give_up(self, player_id: str, reason: str, client: str = "") -> PlayerSnapshot:
        self.given_up += 1
        record: PlayerSnapshot = self._players.pop(player_id).record()
        return record

    async def take_over(self, snapshot: PlayerSnapshot, client: str = "") -> bool:
        assert not self.is_stopped
        self._players["p"] = StoppingPlayer()
        return False

    def players(self) -> list[StoppingPlayer]:
        return [*self._players.values()]


@dataclass
class Leaving:
    """The node a, which has the player p, and b, which says for each of `answers` that it does not take it."""

    moving: Moving
    ownership: Ownership
    node: StoppingNode
    asked: asyncio.Event
    answers: asyncio.Semaphore


async def leaving() -> Leaving:
    asked, answers = asyncio.Event(), asyncio.Semaphore(0)

    async def ask(*_: object) -> None:
        asked.set()
        await answers.acquire()
        raise aiohttp.ClientError("no room")

    owned = ownership(HeldBucket(), "a", [])
    await owned.claim("p")
    await owned.write("p", b"{}")
    members = SimpleNamespace(living=lambda _: {"a": NodeRecord("http://a:1"), "b": NodeRecord("http://b:1")})
    players: dict[str, Any] = {"p": StoppingPlayer()}
    node = StoppingNode(players)
    membership, forwarding = SimpleNamespace(members=members, reaches=True), SimpleNamespace(ask=ask)
    moving = Moving("a", cast(Any, node), players, cast(Any, membership), owned, cast(Any, forwarding), lambda: 0)
    return Leaving(moving, owned, node, asked, answers)


async def test_a_node_that_stops_begins_no_move_after_its_drain() -> None:
    found = await leaving()
    found.answers.release()
    await found.moving.leave(1.0)
    assert found.node.given_up == 1
    assert found.ownership.is_mine("p"), "it stays here, as nobody takes it"
    await asyncio.wait_for(found.moving.all(), 1.0)  # as each turn does
    assert found.node.given_up == 1


async def test_a_node_that_stops_takes_nothing_back() -> None:
    found = await leaving()
    moving = asyncio.create_task(found.moving.one("p", "b"))
    await found.asked.wait()
    await found.moving.leave(1.0)
    found.node.is_stopped = True
    found.answers.release()
    with pytest.raises(NodeUnreachable):
        await moving
    assert not found.ownership.is_mine("p"), "others find it in the engine"


async def test_a_player_that_the_other_node_has_not_taken_yet_is_in_each_list() -> None:
    found = await leaving()
    node, nobody = cast(Any, found.node), cast(Any, None)
    going = found.moving.on_their_way
    all_players = AllPlayers("a", node, nobody, nobody, found.ownership, going, lambda: 0)

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

"""What a node that stops does with players that it could not give to others."""

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from tests.cluster.test_ownership import HeldBucket, ownership
from tests.support.playback_log import playing_player
from tonearm.cluster.cluster import Cluster
from tonearm.cluster.engine import EngineSettings
from tonearm.core.cluster import NodeRecord
from tonearm.core.errors import NodeUnreachable


class StoppingNode:
    """It has a player, which no other node takes."""

    settings, totals = None, None

    def __init__(self, players: dict[str, Any]) -> None:
        self._players = players
        self.given_up = 0
        self.is_stopped = False

    async def give_up(self, player_id: str, reason: str, client: str) -> Any:
        self.given_up += 1
        return self._players.pop(player_id).snapshot()

    async def take_over(self, snapshot: Any, **_: Any) -> None:
        assert not self.is_stopped
        self._players["p"] = playing_player("a").playback


@dataclass
class Leaving:
    """The node a, which has the player p, and b, which says for each of `answers` that it does not take it."""

    cluster: Cluster
    node: StoppingNode
    asked: asyncio.Event
    answers: asyncio.Semaphore


async def leaving() -> Leaving:
    asked, answers = asyncio.Event(), asyncio.Semaphore(0)

    async def ask(*_: object) -> None:
        asked.set()
        await answers.acquire()
        raise aiohttp.ClientError("no room")

    cluster = Cluster(EngineSettings("nats://nowhere"), "test", "a", 3.0, "", lambda: 0)
    cluster.ownership = ownership(HeldBucket(), "a", [])
    await cluster.ownership.claim("p")
    await cluster.ownership.write("p", b"{}")
    members = SimpleNamespace(living=lambda _: {"a": NodeRecord("http://a:1"), "b": NodeRecord("http://b:1")})
    lease = SimpleNamespace(plays_until_s=0)
    membership = SimpleNamespace(members=members, reaches=True, lease=lease, last_alive_ms=0)
    cluster.membership, cluster._forwarding = cast(Any, membership), cast(Any, SimpleNamespace(ask=ask))
    cluster.nodes = cast(Any, None)  # nobody asks for them
    players: dict[str, Any] = {"p": playing_player("a").playback}
    node = StoppingNode(players)
    cluster.saving(players)
    cluster.attach(cast(Any, node), lambda _: None)
    return Leaving(cluster, node, asked, answers)


async def test_a_node_that_stops_begins_no_move_after_its_drain() -> None:
    found = await leaving()
    found.answers.release()
    await found.cluster.drain(1.0)
    assert found.node.given_up == 1
    assert found.cluster.ownership.is_mine("p"), "it stays here, as nobody takes it"
    await asyncio.wait_for(found.cluster._move_all(), 1.0)  # as each turn does
    assert found.node.given_up == 1


async def test_a_node_that_stops_takes_nothing_back() -> None:
    found = await leaving()
    moving = asyncio.create_task(found.cluster._move("p", "b"))
    await found.asked.wait()
    await found.cluster.drain(1.0)
    found.node.is_stopped = True
    found.answers.release()
    with pytest.raises(NodeUnreachable):
        await moving
    assert not found.cluster.ownership.is_mine("p"), "others find it in the engine"

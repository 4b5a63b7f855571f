"""What clients see of players, and what they may ask for."""

import asyncio

import pytest

from tests.support.node_in_process import listening, running_node
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryListener
from tonearm.core.errors import LimitReached, PlayerExists
from tonearm.core.play_queue import LeftOut
from tonearm.node.node import Node, NodeSettings


async def test_of_many_creates_with_one_id_one_succeeds(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(0.1)
    results = await asyncio.gather(*(node.create_player("p", uri, {}) for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(result, LeftOut) for result in results) == 1
    assert sum(isinstance(result, PlayerExists) for result in results) == 49
    await node.delete_player("p")
    await node.create_player("p", uri, {})


async def test_limits(shelf: Shelf) -> None:
    uri, _ = shelf.song(0.3)
    settings = NodeSettings(decoder_processes=1, max_players=2, max_waiting_tracks=2, max_listeners=2)
    async with running_node(settings) as node:
        player = await listening(node, "a", uri, uri, uri)
        with pytest.raises(LimitReached):
            await node.enqueue("a", uri, {})
        detach = node.player("a").attach(MemoryListener())
        with pytest.raises(LimitReached):
            node.player("a").attach(MemoryListener())
        detach()
        node.player("a").attach(MemoryListener())
        await node.create_player("b", uri, {})
        with pytest.raises(LimitReached):
            await node.create_player("c", uri, {})
        await node.delete_player("b")
        await node.create_player("c", uri, {})
        assert player.state["queueLength"] == 2

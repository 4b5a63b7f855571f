"""Players that nobody needs any more, on a node that is told to delete them."""

import asyncio

from tests.support.eventually import eventually
from tests.support.node_in_process import Listening, running_node
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.node.node import NodeSettings

EXPIRE_S = 1.2


async def test_players_that_nobody_listens_or_speaks_to_are_deleted(shelf: Shelf) -> None:
    uri, _ = shelf.song(30.0)
    async with running_node(NodeSettings(decoder_processes=1, expire_s=EXPIRE_S)) as node:
        for name in ("forgotten", "heard", "followed", "asked"):
            await node.create_player(name, uri, {})
        node.player("heard").attach(MemoryListener())
        node.player("followed").subscribe(MemoryEventClient(), since=None, wants_snapshot=False)

        async def ask() -> None:
            while True:
                node.player("asked").status()
                await asyncio.sleep(EXPIRE_S / 4)

        asking = asyncio.create_task(ask())
        await eventually(lambda: not node.has_player("forgotten"), "the forgotten player is deleted")
        await asyncio.sleep(EXPIRE_S)
        assert [node.has_player(name) for name in ("heard", "followed", "asked")] == [True] * 3
        asking.cancel()
        await eventually(lambda: not node.has_player("asked"), "the player that is not asked any more is deleted")
        await node.create_player("forgotten", uri, {})


async def test_the_last_event_says_that_the_player_expired(shelf: Shelf) -> None:
    uri, _ = shelf.song(30.0)
    async with running_node(NodeSettings(decoder_processes=1, expire_s=EXPIRE_S)) as node:
        await node.create_player("p", uri, {})
        player = node.player("p")
        await eventually(lambda: not node.has_player("p"), "the player is deleted")
        events = MemoryEventClient()
        player.subscribe(events, since=0, wants_snapshot=False)
        assert events.named("PlayerDelete")[0]["reason"] == "expired"


async def test_without_the_key_no_player_expires_and_no_reason_is_given(shelf: Shelf) -> None:
    uri, _ = shelf.song(30.0)
    async with running_node(NodeSettings(decoder_processes=1)) as node:
        await node.create_player("p", uri, {})
        player = Listening(node, "p")
        await node.delete_player("p")
        assert "reason" not in player.events.named("PlayerDelete")[0]

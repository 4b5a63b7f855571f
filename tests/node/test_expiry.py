"""Players that nobody needs any more, on a node that is told to delete them."""

import asyncio
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.node_in_process import Listening, running_node
from tests.support.planted_faults import OUR_FAULT, BrokenCompanion, BrokenDelete, events_not_emitted
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.node.parts import NodeSettings

EXPIRE_S = 1.2


@pytest.mark.timing
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
        forgotten, events = next(node.players()), MemoryEventClient()
        await eventually(lambda: node.find("forgotten") is None, "the forgotten player is deleted")
        forgotten.subscribe(events, since=0, wants_snapshot=False)
        assert events.named("PlayerDelete")[0]["reason"] == "expired"
        await asyncio.sleep(EXPIRE_S)
        assert [node.find(name) is not None for name in ("heard", "followed", "asked")] == [True] * 3
        asking.cancel()
        await eventually(lambda: node.find("asked") is None, "the player that is not asked any more is deleted")
        await node.create_player("forgotten", uri, {})


async def test_a_delete_that_fails_ends_neither_the_look_for_others_nor_the_stop(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    uri, _ = shelf.song(30.0)
    # `running_node` looks whether a process, a task or a descriptor is left.
    async with running_node(NodeSettings(decoder_processes=1, expire_s=EXPIRE_S)) as node:
        await node.create_player("broken", uri, {})
        broken = BrokenDelete(node._players["broken"])
        await eventually(lambda: broken.has_failed, "the delete of a player fails")
        await node.create_player("forgotten", uri, {})
        await eventually(lambda: node.find("forgotten") is None, "the next forgotten player is deleted")
        for name in ("first", "second"):
            await node.create_player(name, uri, {})
        broken = BrokenDelete(node._players["first"])
        closed = Listening(node, "second").listener.closed
    assert broken.has_failed
    assert closed == [(1001, "the node is shutting down")]
    failures = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in failures] == [
        "player broken, which is not used any more, could not be deleted properly",
        "a player could not be stopped properly",
    ]


async def test_an_end_and_a_companion_that_fail_cost_neither_their_player_nor_others_an_orderly_end(
    tmp_path: Path,
) -> None:
    async with running_node(NodeSettings(decoder_processes=1, state_path=tmp_path / "state")) as node:
        for name in ("failing", "first", "second"):
            await node.create_player(name, None, {})
        node._players["first"].accompany("broken", BrokenCompanion())
        players = [Listening(node, player.status().player_id) for player in node.players()]
        with events_not_emitted(), pytest.raises(LookupError, match=OUR_FAULT):
            await node.delete_player("failing")
        assert node.find("failing") is None
    assert [player.listener.closed for player in players] == [
        [(1000, "the player was deleted")],
        *[[(1001, "the node is shutting down")]] * 2,
    ]

"""A player whose record is put over one that is there: at every moment there is one of the two, also in the file."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.node_in_process import listening, running_node
from tests.support.planted_faults import players_closed_later
from tests.support.playback_log import playing_player
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.errors import LimitReached
from tonearm.core.events import PlayerMoved
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings


def saved_metadata(path: Path, folder: Path) -> dict[str, object]:
    """Of each player that a node would have that is killed now and started again."""
    folder.mkdir()
    for part in path.parent.glob(f"{path.name}*"):
        shutil.copy(part, folder)
    with closing(sqlite3.connect(folder / path.name)) as database:
        return {
            player_id: json.loads(head)["metadata"]
            for player_id, head in database.execute("SELECT id, head FROM players")
        }


async def test_what_is_taken_over_and_given_up_is_in_the_file_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    may_close = asyncio.Event()
    async with running_node(NodeSettings(decoder_processes=1, state_path=path)) as node:
        await node.create_player("p", None, "old")
        await eventually(lambda: node.saved("p"), "the old player is in the file")
        told = MemoryEventClient()
        node.follow_all(told)
        with players_closed_later(may_close):
            taking_over = asyncio.create_task(node.take_over(replace(node.player("p").snapshot(), metadata="new")))
            await told.wait_for("PlayerDelete")
            await eventually(lambda: node.saved("p"), "what happened is in the file")
            assert saved_metadata(path, tmp_path / "taken over") == {"p": "new"}
            may_close.set()
            assert await taking_over
        record = await node.give_up("p", "it moves")
        await eventually(lambda: node.saved("p"), "what happened is in the file")
        assert saved_metadata(path, tmp_path / "given up") == {}
        assert told.ops == ["PlayerDelete", "PlayerCreate"]
        assert node.find("p") is None
        assert not await node.take_over(record)
        assert node.player("p").status().metadata == "new"


async def test_a_player_stays_as_it_is_when_the_one_of_the_record_cannot_be_made(node: Node) -> None:
    await node.create_player("p", None, "old")
    old = node.player("p")
    of_no_player: Any = object()
    with pytest.raises(AttributeError):
        await node.take_over(replace(old.snapshot(), metadata="new", filters=of_no_player))
    assert node.player("p") is old


class Claims:
    """Of this node, in a cluster."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    async def claim(self, player_id: str) -> bool:
        is_new = player_id not in self.ids
        self.ids.add(player_id)
        return is_new

    async def unclaim(self, player_id: str) -> None:
        self.ids.discard(player_id)


async def test_a_player_that_comes_from_another_node_is_not_refused_for_its_queue_and_never_lost() -> None:
    claims = Claims()
    settings = NodeSettings(decoder_processes=1, max_players=1, max_waiting_tracks=1)
    async with running_node(settings, parts={"claims": claims}) as node:
        await node.create_player("p", None, None)
        queue = playing_player("abc").playback.snapshot().queue
        record = replace(await node.give_up("p", "it moves"), queue=queue)
        moved = PlayerMoved("b", "a")
        taking_over = asyncio.create_task(node.take_over(record, moved=moved))
        await asyncio.sleep(0)
        taking_over.cancel()
        await asyncio.wait([taking_over])
        assert node.find("p") is None
        assert "p" in claims.ids
        with pytest.raises(LimitReached, match="max_waiting_tracks"):
            await node.take_over(record)
        assert "p" in claims.ids
        assert not await node.take_over(record, moved=moved)
        record = await node.give_up("p", "it moves")
        await node.create_player("q", None, None)
        assert not await node.take_over(record, comes_back=True)
        assert [player.status().queue_length for player in node.players()] == [0, 2]
        # Nor is it by its own record, for tracks that have sounded and were put back.
        assert await node.take_over(replace(record, queue=tuple(replace(track, gave_audio=True) for track in queue)))
        assert node.player("p").status().queue_length == 2


async def test_a_player_that_goes_on_from_its_own_record_is_not_deleted_and_nothing_is_heard_twice(
    node: Node, shelf: Shelf
) -> None:
    uri, song = shelf.song(30.0)
    player = await listening(node, "p", uri)
    await player.listener.wait_frames(FRAMES_PER_SECOND)
    record = node.player("p").record()
    await player.more_frames(FRAMES_PER_SECOND)  # a client takes a second
    assert record.handover is not None
    told = MemoryEventClient()
    node.follow_all(told)
    assert await node.take_over(record)
    assert told.ops == ["PlayerCreate"]
    assert ("PlayerDelete" in player.events.ops, [code for code, _ in player.events.closed]) == (False, [1012])
    heard = player.listener.pcm
    assert song.startswith(heard)
    after = MemoryListener()
    node.player("p").attach(after)
    pcm = await after.wait_frames(FRAMES_PER_SECOND)
    assert song.find(pcm[FRAME_BYTES:]) >= len(heard)
    before = replace(node.player("p").record(), position_ms=100)
    assert await node.take_over(before)
    assert node.player("p").status().position_ms < 2_000, "another place was asked for"
    told.events.clear()
    assert await node.take_over(before), "of another life than that of the player that is there by now"
    assert told.ops[-2:] == ["PlayerDelete", "PlayerCreate"]

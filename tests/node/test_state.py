"""What clients see of players, and what they may ask for."""

import asyncio
import uuid

import pytest

from tests.support.node_in_process import Listening, listening, queue_of, running_node
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryListener
from tonearm.core.errors import BadRequest, LimitReached, PlayerExists, SourceRefused
from tonearm.core.play_queue import LeftOut
from tonearm.node.node import Node, NodeSettings


async def test_positions_follow_what_is_sent(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(5.3)
    player = await listening(node, "p", uri)
    frames_at_events = [0] * len(player.events.events)
    player.events.on_send = lambda: frames_at_events.append(len(player.listener))
    await player.events.wait_for("TrackStart")
    for frames in (1, 7, 30):
        await player.listener.wait_frames(frames)
        assert player.state["position"] == 20 * len(player.listener)
    assert player.state["track"]["info"]["position"] == player.state["position"]
    update = await player.events.wait_for("PlayerUpdate", 2, state="playing", paused=False)
    assert update["position"] == 5000
    assert frames_at_events[player.events.events.index(update)] == 250


async def test_the_whole_state(node: Node, shelf: Shelf) -> None:
    (uri, _), (other, _) = shelf.song(0.5), shelf.song(0.1)
    await node.create_player("p", uri, {"guild": 1})
    player = Listening(node, "p")
    await player.enqueue(other)
    await player.events.wait_for("TrackStart")
    state = player.state
    assert {
        "id": "p",
        "state": "playing",
        "paused": False,
        "volume": 1.0,
        "loop": "none",
        "queueLength": 1,
        "metadata": {"guild": 1},
        "listeners": 1,
        "seq": player.events.seqs[-1],
    }.items() <= state.items()
    assert len(state["eq"]) == 15
    assert set(state["quality"]) >= {"framesSent", "framesLostByListeners", "timesRunDry", "latePlans"}
    track = state["track"]
    assert track["userData"] == {"guild": 1}
    assert (track["info"]["length"], track["info"]["isSeekable"], track["info"]["isStream"]) == (500, True, False)
    assert track["info"]["sourceName"] == "file"
    assert [player.status().player_id for player in node.players()] == ["p"]


async def test_queue_and_metadata(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(0.5)
    await node.create_player("p", uri, {})
    player = Listening(node, "p")
    [track_id] = await node.enqueue("p", uri, {"a": [1]})
    assert str(uuid.UUID(track_id)) == track_id
    assert queue_of(node, "p") == [{"id": track_id, "uri": uri, "metadata": {"a": [1]}}]
    node.player("p").change_metadata(True, {"a": 1, "b": 2})
    node.player("p").change_metadata(True, {"a": None, "c": "\ud800"})
    assert player.state["metadata"] == {"b": 2, "c": "\ud800"}
    assert player.state["track"]["userData"] == {"b": 2, "c": "\ud800"}
    assert [event["metadata"] for event in player.events.named("MetadataChange")] == [
        {"a": 1, "b": 2},
        {"b": 2, "c": "\ud800"},
    ]


async def test_of_many_creates_with_one_id_one_succeeds(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(0.1)
    results = await asyncio.gather(*(node.create_player("p", uri, {}) for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(result, LeftOut) for result in results) == 1
    assert sum(isinstance(result, PlayerExists) for result in results) == 49
    await node.delete_player("p")
    await node.create_player("p", uri, {})


async def test_what_cannot_be_played_at_all_creates_nothing(node: Node) -> None:
    for uri in ("", "ftp://x/a", "http://", "http://u:p@h/a", "/dev/zero", "x" * 5000, "a\x00b"):
        with pytest.raises((BadRequest, SourceRefused)):
            await node.create_player("p", uri, {})
        assert not node.has_player("p")


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

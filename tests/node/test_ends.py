"""Players are deleted, expire and fail at their end, and nodes are stopped at any moment, and nothing is left."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.audio_files import music, wav
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media, stall
from tests.support.node_in_process import Listening, listening, padded, running_node
from tests.support.planted_faults import OUR_FAULT, break_delete, broken_companion, events_not_emitted
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.filters import FilterChange
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings

# After how many frames, and what is done then.
MOMENTS: Mapping[str, tuple[int, Callable[[Listening], object]]] = {
    "at-once": (0, lambda player: None),
    "playing": (3, lambda player: None),
    "paused": (3, lambda player: player.node.player(player.id).do(Requests.pause)),
    "idle": (0, lambda player: player.node.player(player.id).do(Requests.skip)),
    "filters": (3, lambda player: player.node.player(player.id).do(Requests.change_filters, FilterChange(volume=0.3))),
    "killed": (3, Listening.kill_decoder),
}


async def reached(player: Listening, moment: str) -> None:
    frames, do = MOMENTS[moment]
    await player.listener.wait_frames(frames)
    do(player)
    await asyncio.sleep(0.005 if frames else 0)


async def test_deleting_at_any_moment(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(60.0)  # it must not end before its player is deleted
    short, pcm = shelf.song(0.3)

    async def create_and_delete(moment: str) -> None:
        player = await listening(node, moment, uri)
        await reached(player, moment)
        await node.delete_player(moment)
        assert player.events.ops[-1] == "PlayerDelete"
        assert [code for code, _ in player.events.closed] == [code for code, _ in player.listener.closed] == [1000]
        assert moment == "idle" or player.ends[-1] == ("song1", "stopped")
        assert node.find(moment) is None

    *others, killed = MOMENTS
    await asyncio.gather(*map(create_and_delete, others))
    await create_and_delete(killed)
    again = await listening(node, killed, short)
    await again.wait_state("idle")
    assert again.listener.pcm == padded(pcm)
    assert again.events.seqs[0] == 1


@pytest.mark.parametrize("moment", ["at-once", "playing", "killed"])
async def test_stopping_at_any_moment_leaves_nothing(moment: str, shelf: Shelf, server: MediaServer) -> None:
    """`running_node` looks for what is left, and stops the node once more."""
    song, never = shelf.song(0.5)[0], server.serve("/never.mp3", stall())
    half = server.serve("/half.wav", media(wav(music(10.0)), stall_after=200_000))
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, f"p{number}", song, half, never) for number in range(5)]
        players += [await listening(node, f"q{number}", uri) for number, uri in enumerate((never, half))]
        node.player("p1").do(Requests.pause)
        node.player("p2").do(Requests.skip)
        await reached(players[0], moment)
        await node.stop()
    for player in players:
        assert [code for code, _ in player.listener.closed] == [code for code, _ in player.events.closed] == [1001]
    await server.all_gone()


EXPIRE_S = 1.2


async def test_players_that_nobody_listens_or_speaks_to_are_deleted(shelf: Shelf) -> None:
    uri, _ = shelf.song(30.0)
    async with running_node(NodeSettings(decoder_processes=1, expire_s=EXPIRE_S)) as node:
        for name in ("heard", "followed", "forgotten"):
            await node.create_player(name, uri, {})
            if name == "heard":
                leave = node.player(name).attach(MemoryListener())
            elif name == "followed":
                node.player(name).subscribe(MemoryEventClient(), since=None, wants_snapshot=False)
        *_, forgotten = node.players()
        await eventually(lambda: node.find("forgotten") is None, "the forgotten player is deleted")
        events = MemoryEventClient()
        forgotten.subscribe(events, since=0, wants_snapshot=False)
        assert events.named("PlayerDelete")[0]["reason"] == "expired"
        leave()
        await eventually(lambda: node.find("heard") is None, "the player that is not heard any more is deleted")
        assert node.find("followed") is not None
        await node.create_player("forgotten", uri, {})


async def test_a_delete_that_fails_ends_neither_the_look_for_others_nor_the_stop(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    uri, _ = shelf.song(30.0)
    # `running_node` looks whether a process, a task or a descriptor is left.
    async with running_node(NodeSettings(decoder_processes=1, expire_s=EXPIRE_S)) as node:
        await node.create_player("broken", uri, {})
        break_delete(node._players["broken"])
        await eventually(lambda: "could not be deleted" in caplog.text, "the delete of a player fails")
        await node.create_player("forgotten", uri, {})
        await eventually(lambda: node.find("forgotten") is None, "the next forgotten player is deleted")
        for name in ("first", "second"):
            await node.create_player(name, uri, {})
        break_delete(node._players["first"])
        closed = Listening(node, "second").listener.closed
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
        node._players["first"].accompany("broken", broken_companion())
        players = [Listening(node, player.status().player_id) for player in node.players()]
        with events_not_emitted(), pytest.raises(LookupError, match=OUR_FAULT):
            await node.delete_player("failing")
        assert node.find("failing") is None
    assert [player.listener.closed for player in players] == [
        [(1000, "the player was deleted")],
        *[[(1001, "the node is shutting down")]] * 2,
    ]

"""Players are deleted and nodes stopped at any moment, and nothing is left."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.support.audio_files import music, wav
from tests.support.media_server import MediaServer, media, stall
from tests.support.node_in_process import Listening, listening, padded, running_node
from tests.support.shelf import Shelf
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

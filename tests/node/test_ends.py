"""Players are deleted and nodes stopped at any moment, and nothing is left."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.support.audio_files import music, wav
from tests.support.media_server import MediaServer, media, stall
from tests.support.node_in_process import Listening, listening, padded, running_node
from tests.support.shelf import Shelf
from tonearm.core.filters import FilterChange
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings


async def _at_once(player: Listening) -> None: ...


async def _opening(player: Listening) -> None:
    await asyncio.sleep(0.02)


async def _playing(player: Listening) -> None:
    await player.listener.wait_frames(3)


async def _paused(player: Listening) -> None:
    await player.listener.wait_frames(3)
    player.node.player(player.id).do(Requests.pause)


async def _idle(player: Listening) -> None:
    player.node.player(player.id).do(Requests.skip)


async def _decoder_killed(player: Listening) -> None:
    await player.listener.wait_frames(3)
    player.kill_decoder()
    await asyncio.sleep(0.005)


async def _filters_changing(player: Listening) -> None:
    await player.listener.wait_frames(3)
    player.node.player(player.id).do(Requests.change_filters, FilterChange(volume=0.3))


async def test_deleting_at_any_moment(node: Node, shelf: Shelf) -> None:
    uri, _ = shelf.song(60.0)  # it must not end before its player is deleted
    short, pcm = shelf.song(0.3)

    async def create_and_delete(player_id: str, moment: Callable[[Listening], Awaitable[None]]) -> None:
        player = await listening(node, player_id, uri)
        await moment(player)
        await node.delete_player(player_id)
        assert player.events.ops[-1] == "PlayerDelete"
        assert [code for code, _ in player.events.closed] == [code for code, _ in player.listener.closed] == [1000]
        if moment is not _idle:
            assert player.ends[-1] == ("song1", "stopped")
        assert node.find(player_id) is None

    moments = (_at_once, _opening, _playing, _paused, _idle, _filters_changing)
    await asyncio.gather(*(create_and_delete(moment.__name__, moment) for moment in moments))
    await create_and_delete("p", _decoder_killed)
    again = await listening(node, "p", short)
    await again.wait_state("idle")
    assert again.listener.pcm == padded(pcm)
    assert again.events.seqs[0] == 1


@pytest.mark.parametrize("moment", [_at_once, _playing, _decoder_killed])
async def test_stopping_at_any_moment_leaves_nothing(
    moment: Callable[[Listening], Awaitable[None]], shelf: Shelf, server: MediaServer
) -> None:
    """`running_node` looks for what is left."""
    song, never = shelf.song(0.5)[0], server.serve("/never.mp3", stall())
    half = server.serve("/half.wav", media(wav(music(10.0)), stall_after=200_000))
    async with running_node(NodeSettings(decoder_processes=2)) as node:
        players = [await listening(node, f"p{number}", song, half, never) for number in range(5)]
        others = [await listening(node, f"q{number}", uri) for number, uri in enumerate((never, half))]
        node.player("p1").do(Requests.pause)
        node.player("p2").do(Requests.skip)
        await moment(players[0])
    for player in (*players, *others):
        assert [code for code, _ in player.listener.closed] == [code for code, _ in player.events.closed] == [1001]
    await server.all_gone()


async def test_a_node_that_was_stopped_or_not_started_may_be_stopped(shelf: Shelf) -> None:
    async with running_node() as node:
        await node.create_player("p", shelf.song(0.1)[0], {})
        await node.stop()
        await node.stop()
        assert node.find("p") is None

"""Pause loses nothing, skip mixes nothing."""

from tests.support.node_in_process import Listening, listening, padded
from tests.support.pcm import without_cuts
from tests.support.shelf import Shelf
from tonearm.core.frame import FRAME_BYTES
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node


async def test_a_player_paused_from_the_start_begins_with_the_first_sample(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.2)
    await node.create_player("p", uri, {})
    node.player("p").do(Requests.pause)
    player = Listening(node, "p")
    await player.opened()
    witness = await listening(node, "witness", shelf.song(5.0)[0])
    await witness.more_frames(5)
    assert len(player.listener) == 0
    assert player.events.ops == ["ListenersChange", "PlayerUpdate"]
    assert (player.state["state"], player.state["paused"]) == ("playing", True)
    node.player("p").do(Requests.play)
    await player.wait_state("idle")
    assert player.listener.pcm == padded(pcm)


async def test_a_skip_goes_to_the_first_sample_of_the_next_track(node: Node, shelf: Shelf) -> None:
    songs = [shelf.song(1.0) for _ in range(4)] + [shelf.song(0.2)]
    player = await listening(node, "p", *(uri for uri, _ in songs))
    heard_of: list[int] = []
    for number, wait in enumerate((7, 12, 15, 4)):
        await player.events.wait_for("TrackStart", number + 1)
        await player.listener.wait_frames(sum(heard_of) + wait)
        node.player("p").do(Requests.skip)
        heard_of.append(len(player.listener) - sum(heard_of))
    await player.wait_state("idle")
    expected = [pcm[: frames * FRAME_BYTES] for (_, pcm), frames in zip(songs, heard_of, strict=False)]
    assert without_cuts(player.listener.pcm, [*expected, padded(songs[4][1])]) == b""
    assert [reason for _, reason in player.ends] == ["skipped"] * 4 + ["finished"]

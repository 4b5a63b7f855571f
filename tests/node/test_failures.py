"""Bad sources are told, and the next track plays."""

from tests.support.audio_files import flac, music, pcm_of
from tests.support.fetching import IMPATIENT
from tests.support.media_server import MediaServer, in_turn, media, status
from tests.support.node_in_process import Listening, listening, running_node
from tests.support.shelf import Shelf
from tonearm.core.frame import FRAME_BYTES
from tonearm.node.node import Node


async def test_a_failure_is_reported_when_the_tracks_turn_comes(node: Node) -> None:
    await node.create_player("p", "/missing.mp3", {})
    node.player("p").pause()
    player = Listening(node, "p")
    # By the time that another player has told its failure, this one had every occasion to.
    await (await listening(node, "witness", "/missing.mp3")).wait_state("failed")
    assert player.events.ops == ["ListenersChange"]
    node.player("p").play()
    await player.wait_state("failed")
    assert player.failures == ["file_missing"]
    assert player.state["track"]["info"]["title"] == "missing"


async def test_an_interrupted_source_plays_as_far_as_it_came(shelf: Shelf, server: MediaServer) -> None:
    signal = music(3.0)
    body = flac(signal)
    uri = server.serve("/cut.flac", in_turn(media(body, stall_after=len(body) * 2 // 3, ranges=False), status(404)))
    song, pcm = shelf.song(0.1)
    async with running_node(fetching=IMPATIENT) as node:
        player = await listening(node, "p", uri, song)
        await player.wait_state("idle")
        assert [reason for _, reason in player.ends] == ["loadFailed", "finished"]
        assert len(player.failures) == 1
        assert player.starts == ["cut", "song1"]
        heard = player.listener.pcm
        begins = heard.find(pcm)
        assert begins > 0.8 * 48_000 * 4
        kept = begins - FRAME_BYTES  # silence may fill the last frame
        assert heard[:kept] == pcm_of(signal)[:kept]

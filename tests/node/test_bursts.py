"""What a stream begins with that is the first one in its form, with real decoders."""

from tests.support.node_in_process import listening
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryListener
from tonearm.core.frame import FRAMES_PER_SECOND, Output
from tonearm.node.node import Node


async def burst_of(node: Node, player_id: str, bitrate_bps: int) -> int:
    """How many frames come at once to a stream in a form of its own."""
    stream = MemoryListener(output=Output("opus", bitrate_bps=bitrate_bps), burst_ms=2000)
    leave = node.player(player_id).attach(stream)
    await stream.wait_frames(1)
    leave()
    return len(stream)


async def test_from_the_first_stream_on_players_keep_a_whole_burst(node: Node, shelf: Shelf) -> None:
    """Before, players that only sockets hear take a quarter less memory, and have half a second."""
    uri, _ = shelf.song(30.0)
    players = [await listening(node, f"p{number}", uri) for number in range(2)]
    for player in players:
        await player.listener.wait_frames(3 * FRAMES_PER_SECOND)
    first = await burst_of(node, "p0", 64_000)
    assert FRAMES_PER_SECOND // 2 <= first <= 3 * FRAMES_PER_SECOND // 2
    for player in players:
        await player.more_frames(3 * FRAMES_PER_SECOND)
    for player in players:
        assert await burst_of(node, player.id, 96_000) >= 2 * FRAMES_PER_SECOND
        player.require_no_underrun()

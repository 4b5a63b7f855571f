"""A player starts: the order of events and frames."""

from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.node.node import Node


async def test_track_start_is_reported_before_the_first_frame_and_track_end_after_the_last(
    node: Node, shelf: Shelf
) -> None:
    first, second = shelf.song(0.1), shelf.song(0.1)
    await node.create_player("p", first[0], {})
    told: list[str] = []
    events, listener = MemoryEventClient(), MemoryListener()
    events.on_send = lambda: told.append(events.ops[-1])
    listener.on_write = lambda: told.append("frame")
    node.player("p").subscribe(events, since=None, wants_snapshot=False)
    await node.enqueue("p", second[0], {})
    node.player("p").attach(listener)
    await events.wait_for("TrackEnd", 2)
    kept = [what for what in told if what in ("TrackStart", "TrackEnd", "frame")]
    assert kept == ["TrackStart", *["frame"] * 5, "TrackEnd"] * 2

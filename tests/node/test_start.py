"""A player starts: first samples, the wait for the first listener, the order of events and frames."""

from tests.support.eventually import eventually
from tests.support.node_in_process import Listening, listening, padded, state_of
from tests.support.shelf import Shelf
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.frame import FRAME_BYTES
from tonearm.node.node import Node
from tonearm.protocol.framing import Framing, Stamp, as_message, framed


async def test_a_client_that_comes_a_little_later_hears_the_first_sample(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.33)
    await node.create_player("p", uri, {})
    await eventually(lambda: state_of(node, "p")["track"]["info"]["length"], "the track is opened")
    assert state_of(node, "p")["position"] == 0
    player = Listening(node, "p")
    await player.events.wait_for("TrackEnd")
    assert player.listener.pcm == padded(pcm)
    assert player.state["state"] == "idle"


async def test_every_kind_of_connection_gets_the_same_sound(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.2)
    player = await listening(node, "p", uri)
    others = {framing: MemoryListener(framing) for framing in Framing}
    for listener in others.values():
        node.player("p").attach(listener)
    await player.events.wait_for("TrackEnd")
    frames = [padded(pcm)[start : start + FRAME_BYTES] for start in range(0, len(pcm), FRAME_BYTES)]
    del others[Framing.WEBSOCKET_WITH_HEADER]  # its messages differ from each other
    for framing, listener in others.items():
        assert listener.messages == [framed(as_message(frame), framing, Stamp(1, 0)) for frame in frames]


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

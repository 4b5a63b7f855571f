"""What clients get on `/events`: every kind, in order. Each tape holds their fields against the models."""

import time

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, delete, enqueue, order, patch
from tests.support.e2e_sockets import following, listening
from tests.support.running_node import RunningNode

OPS = {
    *("TrackStart", "TrackEnd", "TrackException", "PlayerUpdate", "PlayerPause", "PlayerResume", "QueueUpdate"),
    *("LoopModeChange", "FiltersChange", "MetadataChange", "ListenersChange", "PlayerDelete"),
}


async def test_every_kind_once_and_in_order(node: RunningNode) -> None:
    (node.folder / "one.wav").write_bytes(wav(music(20.0)))
    before_ms = time.time_ns() // 1_000_000
    await create(node, "the:player", "one.wav")
    async with following(node, "the:player", "?since=0") as tape, listening(node, "the:player"):
        await tape.until("TrackStart")
        await order(node, "the:player", "pause", "play")
        await patch(node, "the:player", "loop", {"mode": "queue"})
        await patch(node, "the:player", "loop", {"mode": "none"})
        await patch(node, "the:player", "filters", {"volume": 0.5})
        await patch(node, "the:player", "metadata", {"value": {"a": 1}})
        await enqueue(node, "the:player", "missing.wav")
        await order(node, "the:player", "skip")
        await tape.until("PlayerUpdate", state="failed")
        # Said again, nothing has changed, and nothing is told.
        await patch(node, "the:player", "loop", {"mode": "none"})
        await patch(node, "the:player", "filters", {"volume": 0.5})
        await patch(node, "the:player", "metadata", {"value": {"a": 1}})
        await delete(node, "the:player")
        assert await tape.closed() == 1000
    after_ms = time.time_ns() // 1_000_000
    assert {event["op"] for event in tape.events} == OPS
    assert tape.events[-1]["op"] == "PlayerDelete"
    assert [event["seq"] for event in tape.events] == list(range(1, len(tape.events) + 1))
    times = [event["time"] for event in tape.events]
    assert times == sorted(times)
    assert before_ms <= times[0] <= times[-1] <= after_ms
    assert {event["id"] for event in tape.events} == {"the:player"}
    for op in ("LoopModeChange", "FiltersChange", "MetadataChange", "PlayerPause", "PlayerResume"):
        assert sum(event["op"] == op for event in tape.events) == (2 if op == "LoopModeChange" else 1)
    (start,) = (event for event in tape.events if event["op"] == "TrackStart")
    assert start["uri"] == start["track"]["info"]["uri"]


async def test_events_show_the_metadata_of_their_moment_and_changes_only(node: RunningNode) -> None:
    for name, seconds in (("one", 20.0), ("two", 0.3)):
        (node.folder / f"{name}.wav").write_bytes(wav(music(seconds)))
    await create(node, "p", "one.wav", metadata={"of": "player"})
    await enqueue(node, "p", "two.wav", {"of": "two"})
    async with following(node, "p") as tape, listening(node, "p"):
        started = await tape.until("TrackStart")
        assert started["track"]["userData"] == {"of": "player"}
        await patch(node, "p", "metadata", {"value": {"more": 1}})
        assert (await tape.until("MetadataChange"))["metadata"] == {"of": "player", "more": 1}
        await patch(node, "p", "metadata", {"value": {"more": 1}})  # no change, no event
        await order(node, "p", "skip")
        ended = await tape.until("TrackEnd")
        assert ended["track"]["userData"] == {"of": "player", "more": 1}
        assert (await tape.until("TrackStart"))["track"]["userData"] == {"of": "two"}
        assert sum(event["op"] == "MetadataChange" for event in tape.events) == 1

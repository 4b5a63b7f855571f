"""What clients get on `/events`: every kind with its fields, in order."""

import time

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, delete, enqueue, order, patch
from tests.support.e2e_sockets import EventFields, following, listening
from tests.support.running_node import RunningNode

FIELDS = {
    "TrackStart": {"track", "uri", "trackId", "position"},
    "TrackEnd": {"track", "reason", "trackId", "position", "playedMs"},
    "TrackException": {"track", "error", "trackId", "position"},
    "PlayerUpdate": {"state", "paused", "position", "positionRate"},
    "PlayerPause": {"position"},
    "PlayerResume": {"position"},
    "QueueUpdate": {"length", "version"},
    "LoopModeChange": {"mode"},
    "FiltersChange": {"filters"},
    "MetadataChange": {"metadata"},
    "ListenersChange": {"listeners"},
    "PlayerDelete": set(),
}
TRACK_INFO = {
    "identifier": str,
    "isSeekable": bool,
    "author": str,
    "length": int,
    "isStream": bool,
    "position": int,
    "title": str,
    "uri": str,
    "artworkUrl": str | None,
    "isrc": str | None,
    "sourceName": str,
}


def require_track_out(track: EventFields) -> None:
    assert set(track) == {"encoded", "info", "pluginInfo", "userData"}
    assert track["pluginInfo"] == {}
    assert set(track["info"]) == set(TRACK_INFO)
    for name, kind in TRACK_INFO.items():
        assert isinstance(track["info"][name], kind), name
        assert kind is not int or not isinstance(track["info"][name], bool)


async def test_every_kind_with_all_its_fields(node: RunningNode) -> None:
    (node.folder / "one.wav").write_bytes(wav(music(0.5)))
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
        await tape.until("PlayerUpdate", state="failed")
        # Said again, nothing has changed, and nothing is told.
        await patch(node, "the:player", "loop", {"mode": "none"})
        await patch(node, "the:player", "filters", {"volume": 0.5})
        await patch(node, "the:player", "metadata", {"value": {"a": 1}})
        await delete(node, "the:player")
        assert await tape.closed() == 1000
    after_ms = time.time_ns() // 1_000_000
    assert {event["op"] for event in tape.events} == set(FIELDS)
    assert tape.events[-1]["op"] == "PlayerDelete"
    assert [event["seq"] for event in tape.events] == list(range(1, len(tape.events) + 1))
    times = [event["time"] for event in tape.events]
    assert times == sorted(times)
    assert before_ms <= times[0] <= times[-1] <= after_ms
    for event in tape.events:
        assert set(event) == {"op", "id", "seq", "time", "life"} | FIELDS[event["op"]]
        assert event["id"] == "the:player"
        if "track" in event:
            require_track_out(event["track"])
    for op in ("LoopModeChange", "FiltersChange", "MetadataChange", "PlayerPause", "PlayerResume"):
        assert sum(event["op"] == op for event in tape.events) == (2 if op == "LoopModeChange" else 1)
    (start,) = (event for event in tape.events if event["op"] == "TrackStart")
    assert start["uri"] == start["track"]["info"]["uri"]

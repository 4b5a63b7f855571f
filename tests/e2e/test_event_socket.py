"""What clients get on `/events`: every kind with its fields, in order, without a gap, also when they come back."""

import json
import time

import pytest

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, delete, enqueue, order, patch, refusal, state
from tests.support.e2e_sockets import EventFields, following, listening
from tests.support.eventually import eventually
from tests.support.http_client import CLOSE, WEBSOCKET_HEADERS, connected, websocket
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


async def test_coming_back(node: RunningNode) -> None:
    await create(node, "p", "x.wav")

    async def first_of(query: str, count: int) -> list[EventFields]:
        async with following(node, "p", query) as tape:
            await eventually(lambda: len(tape.events) >= count, "what was asked for")
            # The next change is the message after what the client asked for.
            await patch(node, "p", "metadata", {"merge": False, "value": query})
            await tape.until("MetadataChange", metadata=query)
            assert len(tape.events) == count + 1
            return tape.events[:count]

    assert await first_of("", 0) == []
    for number in range(9):
        await patch(node, "p", "metadata", {"value": number})
    assert [event["seq"] for event in await first_of("?since=0", 10)] == list(range(1, 11))
    assert [event["seq"] for event in await first_of("?since=8", 3)] == [9, 10, 11]
    assert await first_of("?since=12", 0) == []
    life = (await state(node, "p"))["life"]
    # What was missed comes first, and a snapshot only where that is not possible.
    for query, seqs in ((f"?since={life}.12", [13]), (f"?since={life}.12&snapshot=true", [13, 14])):
        assert [event["seq"] for event in await first_of(query, len(seqs))] == seqs

    (snapshot,) = await first_of("?snapshot=true", 1)
    assert (snapshot["op"], snapshot["id"], snapshot["seq"]) == ("PlayerState", "p", 15)
    assert set(snapshot) == {"op", "time", *await state(node, "p")}
    assert snapshot["metadata"] == snapshot["track"]["userData"] == f"?since={life}.12&snapshot=true"
    require_track_out(snapshot["track"])
    assert "lost" not in snapshot

    # Beyond the last, or of another life of the player.
    for since in ("18", f"{life}.1000", "1000&snapshot=true", "0123456789abcdef.3"):
        (lost,) = await first_of(f"?since={since}", 1)
        assert (lost["op"], lost["lost"], lost["state"], lost["life"]) == ("PlayerState", True, "loading", life)
    for wrong in (f"{life}.", f".{life}", f"{life}.x", f"{life}-3", "abc.3"):
        answer = await node.request("GET", f"/v0/players/p/events?since={wrong}", headers=WEBSOCKET_HEADERS)
        assert refusal(answer) == (400, "bad_request"), wrong

    for number in range(256):
        await patch(node, "p", "metadata", {"value": number})
    last = (await state(node, "p"))["seq"]
    kept = await first_of(f"?since={last - 256}", 256)
    assert [event["seq"] for event in kept] == list(range(last - 255, last + 1))
    (lost,) = await first_of("?since=0", 1)
    assert (lost["op"], lost["lost"], lost["seq"]) == ("PlayerState", True, last + 1)


@pytest.mark.timing
async def test_a_client_that_is_256_events_behind_is_closed(node: RunningNode) -> None:
    await create(node, "p", "x.wav")
    async with (
        websocket(node.port, "/v0/players/p/events", receive_buffer_bytes=4096) as stuck,
        following(node, "p") as tape,
        connected(node.port) as asking,
    ):
        # More than the kernel keeps for it, and little enough to be read before the closing connection is cut, a second
        # after it is too far behind. So they come one right after the other.
        filling = "x" * 6_000
        for number in range(320):
            change = json.dumps({"merge": False, "value": f"{number} {filling}"})
            asking.send_request("PATCH", "/v0/players/p/metadata", body=change.encode())
        for _ in range(320):
            assert (await asking.read_answer("PATCH")).status == 204
        seqs = []
        while (frame := await stuck.read_frame()).opcode != CLOSE:
            seqs.append(json.loads(frame.payload)["seq"])
        assert frame.close_code() == 1013
        await tape.until("MetadataChange", metadata=f"319 {filling}")
    assert seqs == list(range(1, len(seqs) + 1))
    assert 256 <= len(seqs) < 320
    assert [event["seq"] for event in tape.events] == list(range(1, 321))

"""Seeking, replacing and going back on a running node: answers, states and events."""

import base64
from typing import Any

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, enqueue, order, patch, refusal, state, until_state
from tests.support.e2e_sockets import EventFields, following, listening
from tests.support.running_node import RunningNode

PLAYER = "/v0/players/p"


def write_clips(node: RunningNode, seconds: float, *names: str) -> None:
    for name in names:
        (node.folder / f"{name}.wav").write_bytes(wav(music(seconds)))


def facts(event: EventFields, *names: str) -> dict[str, Any]:
    return {name: event[name] for name in names}


async def put(node: RunningNode, body: object) -> Any:
    answer = await node.request("PUT", f"{PLAYER}/track", body)
    assert answer.status == 201, answer.body
    return answer.json()


async def played(node: RunningNode) -> list[tuple[str, str]]:
    answer = await node.request("GET", f"{PLAYER}/history")
    assert answer.status == 200
    assert all(set(entry) == {"id", "uri", "metadata", "endedAt", "reason"} for entry in answer.json())
    return [(entry["uri"].removesuffix(".wav"), entry["reason"]) for entry in answer.json()]


# Creating


async def test_a_player_begins_with_what_it_is_given(node: RunningNode) -> None:
    write_clips(node, 1.0, "a")
    filters = {"volume": 3, "eq": [{"band": 2, "gain_db": 6}]}
    await create(node, "p", "a.wav", paused=True, volume=0.5, filters=filters, loop="queue", metadata={"room": 1})
    now = await state(node, "p")
    assert facts(now, "paused", "volume", "loop", "metadata", "error") == {
        "paused": True,
        "volume": 0.5,
        "loop": "queue",
        "metadata": {"room": 1},
        "error": None,
    }
    assert now["eq"][2]["gain_db"] == 6.0
    assert now["crossfade"] == {"durationMs": 0, "curve": "equalPower", "onSkip": False}
    async with following(node, "p", "?since=0") as tape:
        await patch(node, "p", "metadata", {"value": {"room": 2}})
        await tape.until("MetadataChange")
        assert "FiltersChange" not in {event["op"] for event in tape.events}


async def test_an_encoded_track_is_as_good_as_its_uri(node: RunningNode) -> None:
    write_clips(node, 1.0, "a", "b")
    uri = str(node.folder / "a.wav")
    encoded = (await node.request("GET", f"/v0/loadtracks?identifier={uri}")).json()["data"]["encoded"]
    answer = await node.request("POST", "/v0/players", {"id": "p", "encoded": encoded, "paused": True})
    assert (answer.status, answer.json()) == (201, {"id": "p"})
    now = await until_state(node, "p", lambda now: now["track"]["info"]["isSeekable"])
    assert (now["track"]["info"]["identifier"], now["track"]["info"]["length"]) == (uri, 1000)
    plain = base64.b64encode(str(node.folder / "b.wav").encode()).decode()
    added = await put(node, {"encoded": plain})
    now = await state(node, "p")
    assert (now["trackId"], now["track"]["info"]["title"]) == (added["trackId"], "b")
    # Beside a URI it is one of the fields that are ignored.
    await put(node, {"uri": "a.wav", "encoded": "!"})
    for body, code in (({"encoded": "!"}, "invalid_identifier"), ({}, "bad_request"), ({"encoded": 5}, "bad_request")):
        assert refusal(await node.request("PUT", f"{PLAYER}/track", body)) == (400, code)
        assert refusal(await node.request("POST", "/v0/players", {"id": "q", **body})) == (400, code)


# Seeking


async def opened(node: RunningNode, *, seconds: float = 5.0) -> None:
    """A paused player with a clip that was opened, and one that waits."""
    write_clips(node, seconds, "a", "b")
    await create(node, "p", "a.wav")
    async with following(node, "p") as tape, listening(node, "p"):
        await tape.until("TrackStart")
        await order(node, "p", "pause")
    await enqueue(node, "p", "b.wav")


async def test_a_seek_shows_at_once_and_has_one_event(node: RunningNode) -> None:
    await opened(node)
    before = await state(node, "p")
    async with following(node, "p") as tape:
        await patch(node, "p", "position", {"position": 3000})
        now = await state(node, "p")
        assert facts(now, "position", "paused", "trackId") == {
            "position": 3000,
            "paused": True,
            "trackId": before["trackId"],
        }
        sought = await tape.until("Seek")
        assert facts(sought, "from", "position", "trackId", "life") == {
            "from": before["position"],
            "position": 3000,
            "trackId": before["trackId"],
            "life": before["life"],
        }
        await patch(node, "p", "position", {"offset": -1000})
        assert (await state(node, "p"))["position"] == 2000
        await patch(node, "p", "position", {"offset": -60_000})
        assert (await state(node, "p"))["position"] == 0
        assert not {"TrackStart", "TrackEnd"} & {event["op"] for event in tape.events}


async def test_bodies_of_a_seek_that_make_no_sense(node: RunningNode) -> None:
    await opened(node)
    bodies: tuple[object, ...] = (
        {},
        {"position": 1, "offset": 1},
        {"position": 1.5},
        {"position": "1"},
        {"position": None},
        {"offset": True},
        [],
    )
    for body in bodies:
        assert refusal(await node.request("PATCH", f"{PLAYER}/position", body)) == (400, "bad_request")
    assert (await state(node, "p"))["position"] < 1000


# Replacing


async def test_a_track_takes_the_place_of_the_current_one(node: RunningNode) -> None:
    await opened(node)
    await patch(node, "p", "loop", {"mode": "queue"})
    write_clips(node, 0.2, "x")
    before = await state(node, "p")
    async with following(node, "p") as tape:
        added = await put(node, {"uri": "x.wav", "metadata": {"mine": 1}, "startMs": 20, "endMs": 120})
        now = await state(node, "p")
        assert (now["trackId"], now["paused"], now["queueLength"]) == (added["trackId"], True, 1)
        assert now["track"]["userData"] == {"mine": 1}
        end = await tape.until("TrackEnd")
        assert (end["reason"], end["trackId"]) == ("replaced", before["trackId"])
        assert sum(event["op"] == "TrackEnd" for event in tape.events) == 1
    assert refusal(await node.request("PUT", f"{PLAYER}/track", {"uri": "ftp://x/"})) == (400, "bad_request")
    assert (await state(node, "p"))["trackId"] == added["trackId"]


# Going back


async def test_going_back(node: RunningNode) -> None:
    write_clips(node, 0.2, "a", "b")
    write_clips(node, 5.0, "c")
    await create(node, "p", "a.wav")
    assert refusal(await node.request("POST", f"{PLAYER}/previous")) == (409, "no_previous")
    ids = [await enqueue(node, "p", uri) for uri in ("b.wav", "missing.wav", "c.wav")]
    async with following(node, "p") as tape, listening(node, "p"):
        await tape.until("TrackStart", trackId=ids[-1])
        await order(node, "p", "pause")
        assert await played(node) == [("missing", "loadFailed"), ("b", "finished"), ("a", "finished")]
        await order(node, "p", "previous")
        assert (await state(node, "p"))["trackId"] == ids[0]
        end = await tape.until("TrackEnd", reason="replaced")
        assert end["trackId"] == ids[-1]
        await order(node, "p", "previous")
        assert (await state(node, "p"))["track"]["info"]["title"] == "a"
        assert await played(node) == [("missing", "loadFailed")]
        assert refusal(await node.request("POST", f"{PLAYER}/previous")) == (409, "no_previous")
        queue = (await node.request("GET", f"{PLAYER}/queue")).json()
        assert [entry["id"] for entry in queue] == [ids[0], ids[-1]]

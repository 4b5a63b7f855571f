import json
import random
from urllib.parse import quote

import pytest

from tests.support.edge import StillNode
from tests.support.http_client import Answer, request, send_json
from tests.support.sinks import MemoryEventClient
from tests.support.tracks import make_track
from tonearm.core.errors import ErrorCode
from tonearm.core.metadata import MAX_NESTING, Json
from tonearm.core.playback_requests import Requests
from tonearm.server.routes_node import status_of_code


@pytest.mark.parametrize("player_id", ["azAZ09._~:@+-", "...", "a+b", "x" * 128])
async def test_every_accepted_id_is_reachable_raw_and_escaped(node: StillNode, port: int, player_id: str) -> None:
    created = await send_json(port, "POST", "/v0/players", {"id": player_id, "uri": "clip.mp3"})
    assert (created.status, created.json()) == (201, {"id": player_id})
    escaped = "".join(f"%{byte:02X}" for byte in player_id.encode())
    for form in (player_id, quote(player_id, safe=""), escaped, escaped.lower()):
        state = await request(port, "GET", f"/v0/players/{form}")
        assert (state.status, state.json()["id"]) == (200, player_id)
        assert (await request(port, "POST", f"/v0/players/{form}/play?x=1")).status == 204
    assert (await request(port, "DELETE", f"/v0/players/{escaped}")).status == 204
    assert node.find(player_id) is None


async def test_any_other_id_is_a_player_that_is_not_there(port: int) -> None:
    forms = ("p%20", "%20p", "p%2F", "%70%2e", ".", "..", "%2e%2E", "p%00", "%FF", "%", "p%zz", "y" * 5000, "%C3%A9")
    for form in forms:
        answer = await request(port, "DELETE", f"/v0/players/{form}")
        assert (answer.status, answer.json()["code"]) == (404, "player_not_found"), form


async def test_a_player_is_made_listed_and_deleted(node: StillNode, port: int) -> None:
    body = {"id": "new", "uri": "clip.mp3", "metadata": {"ü": [1, None]}, "unknown": 1}
    assert (await send_json(port, "POST", "/v0/players", body)).status == 201
    listed = await request(port, "GET", "/v0/players")
    assert [player["id"] for player in listed.json()] == ["p", "new"]
    assert listed.json()[1]["metadata"] == {"ü": [1, None]}
    deleted = await request(port, "DELETE", "/v0/players/new")
    assert (deleted.status, deleted.body, deleted.header("Content-Type")) == (204, b"", None)
    assert [player["id"] for player in (await request(port, "GET", "/v0/players")).json()] == ["p"]


async def test_an_answer_tells_that_its_own_player_is_not_saved_yet(node: StillNode, port: int) -> None:
    async def is_unsaved(method: str, path: str, body: Json = None) -> bool:
        return (await send_json(port, method, path, body)).header("Tonearm-Unsaved") == "true"

    node.unsaved = {"new"}
    assert not await is_unsaved("POST", "/v0/players/p/play")
    assert not await is_unsaved("POST", "/v0/players", {"id": "other", "uri": "clip.mp3"})
    assert await is_unsaved("POST", "/v0/players", {"id": "new", "uri": "clip.mp3"})
    assert await is_unsaved("POST", "/v0/players/new/play")
    assert not await is_unsaved("GET", "/v0/players/new")
    assert await is_unsaved("DELETE", "/v0/players/new")


async def test_absent_metadata_is_an_object_and_any_that_is_given_is_itself(node: StillNode, port: int) -> None:
    await node.enqueue("p", "now.mp3", {})
    given: list[Json] = [None, "x", "", 0, False, []]
    bodies: list[dict[str, Json]] = [{"metadata": value} for value in given]
    for body in ({}, *bodies):
        metadata = body.get("metadata", {})
        answer = await send_json(port, "POST", "/v0/players/p/queue", {"uri": "a.mp3", **body})
        assert answer.status == 201
        waiting = (await request(port, "GET", "/v0/players/p/queue")).json()
        assert waiting[-1] == {"id": answer.json()["trackId"], "uri": "a.mp3", "metadata": metadata}
        assert (await send_json(port, "POST", "/v0/players", {"id": "new", "uri": "a.mp3", **body})).status == 201
        new = (await request(port, "GET", "/v0/players/new")).json()
        shown = [waiting[-1]["metadata"], new["metadata"], new["track"]["userData"]]
        assert json.dumps(shown) == json.dumps([metadata] * 3)  # 0 == False
        await node.delete_player("new")


async def test_the_record_of_a_long_queue_with_metadata_is_taken(node: StillNode, port: int) -> None:
    await node.enqueue("p", "now.mp3", {})
    record = (await request(port, "GET", "/v0/players/p/state")).json()
    metadata = {f"field {number}": number for number in range(17)}
    waiting = [{"id": f"t{number}", "uri": "a.mp3", "metadata": metadata} for number in range(2_500)]
    waiting[900]["metadata"] = {"numbers": [0] * 49_000}  # before a part of 20 000 values is full
    record["queue"], record["tracks"] = [track["id"] for track in waiting], record["tracks"] + waiting
    assert (await send_json(port, "PUT", "/v0/players/q/state", record)).status == 201
    again = (await request(port, "GET", "/v0/players/q/state")).json()
    assert (again["queue"], again["tracks"][0]["metadata"]) == (record["queue"], metadata)
    assert (await send_json(port, "PUT", "/v0/players/q/state", again)).status == 200


async def test_the_deepest_metadata_that_a_player_has_is_in_a_record_that_is_taken(node: StillNode, port: int) -> None:
    metadata = json.loads("[" * (MAX_NESTING - 1) + "]" * (MAX_NESTING - 1))
    assert (await send_json(port, "PATCH", "/v0/players/p/metadata", {"value": metadata})).status == 204
    assert (await send_json(port, "PUT", "/v0/players/p/track", {"uri": "a.mp3", "metadata": metadata})).status == 201
    record = (await request(port, "GET", "/v0/players/p/state")).json()
    assert (await send_json(port, "PUT", "/v0/players/q/state", record)).status == 201
    assert node.player("q").status().track.metadata == node.player("q").status().metadata == metadata
    record["tracks"][0]["metadata"] = [metadata]
    refused = await send_json(port, "PUT", "/v0/players/q/state", record)
    assert (refused.status, refused.json()["code"]) == (400, "bad_request")
    assert "nested deeper" in refused.json()["message"]


async def send(port: int, route: str, body: object) -> Answer:
    """`route` is a method and what follows the path of the player `p`; a method alone is for all players."""
    method, _, path = route.partition(" ")
    return await send_json(port, method, f"/v0/players/p/{path}" if path else "/v0/players", body)


@pytest.mark.parametrize(
    ("route", "body", "event"),
    [
        ("POST pause", None, {"op": "PlayerPause"}),
        ("PATCH position", {"position": 700}, {"op": "Seek", "from": 3000, "position": 700}),
        ("PATCH position", {"offset": -1000}, {"op": "Seek", "from": 3000, "position": 2000}),
        ("POST skip", None, {"op": "TrackEnd", "reason": "skipped"}),
        ("POST skip", {"to": "c"}, {"op": "QueueUpdate", "length": 0}),
        ("PUT track", {"uri": "x.mp3"}, {"op": "TrackEnd", "reason": "replaced"}),
        ("DELETE track", None, {"op": "TrackEnd", "reason": "stopped"}),
        ("POST queue", {"uri": "x.mp3", "index": 1}, {"op": "QueueUpdate", "length": 3}),
        ("POST queue", {"tracks": [{"uri": "x"}, {"uri": "y"}]}, {"op": "QueueUpdate", "length": 4}),
        ("DELETE queue", None, {"op": "QueueUpdate", "length": 0}),
        ("DELETE queue/b", None, {"op": "QueueUpdate", "length": 1}),
        ("PATCH queue/c", {"index": 0}, {"op": "QueueUpdate", "length": 2}),
        ("POST queue/shuffle", None, {"op": "QueueUpdate", "length": 2}),
        ("PATCH loop", {"mode": "queue"}, {"op": "LoopModeChange", "mode": "queue"}),
        ("PATCH crossfade", {"durationMs": 9}, {"op": "CrossfadeChange"}),
        ("PATCH filters", {"volume": 2}, {"op": "FiltersChange"}),
        ("PATCH metadata", {"value": 5}, {"op": "MetadataChange", "metadata": 5}),
    ],
)
async def test_an_order_is_done_and_told(
    node: StillNode, port: int, route: str, body: object, event: dict[str, object]
) -> None:
    random.seed(0)  # of which two tracks in a queue change their places
    follower = MemoryEventClient()
    player = node.player("p")
    player.do(Requests.enqueue, *map(make_track, "0abc"))
    player.do(Requests.skip)
    player.seek(3000)
    player.subscribe(follower, since=None, wants_snapshot=False)
    assert (await send(port, route, body)).status in (201, 204)
    assert any(event.items() <= told.items() for told in follower.events)


A = {"uri": "a"}


@pytest.mark.parametrize(
    ("route", "body", "code", "words"),
    [
        ("POST", {"id": "a b", **A}, "bad_request", "id"),
        ("POST", {"id": "x", "uri": "ftp://x/a"}, "bad_request", "ftp"),
        ("POST", {"id": "x", "idle": False}, "bad_request", "`uri` is missing; `encoded`, `track` or `idle: true`"),
        ("POST", {"id": "x", "idle": True, **A}, "bad_request", "`uri` and `idle` exclude each other"),
        ("POST", {"id": "x", "track": A, **A}, "bad_request", "`uri` and `track` exclude each other"),
        ("POST", {"id": "x", "encoded": "!"}, "invalid_identifier", ""),
        ("POST queue", {**A, "index": -1}, "bad_request", "index"),
        ("POST queue", {**A, "endMs": 10**30}, "bad_request", "Ms"),
        ("POST queue", {**A, "startMs": 5, "endMs": 4}, "bad_request", "Ms"),
        ("POST queue", {"tracks": []}, "bad_request", "The field `tracks` must not be empty."),
        ("POST queue", {"tracks": [A, {"uri": " "}]}, "bad_request", "Track 1 (counted from 0)"),
        ("POST queue", {"tracks": [A, {}]}, "bad_request", "`tracks.1.uri` is missing"),
        ("POST queue", {"tracks": [A], "index": -1}, "bad_request", "index"),
        ("POST queue", {"tracks": [A] * 1001}, "body_too_large", ""),
        ("POST queue", {"tracks": [A, {"encoded": "!"}]}, "invalid_identifier", ""),
        ("PUT track", {"encoded": "!"}, "invalid_identifier", ""),
        ("PATCH position", {}, "bad_request", "position"),
        ("PATCH position", {"position": 1, "offset": 1}, "bad_request", "offset"),
        ("POST overlays", {**A, "volume": 5.1}, "bad_request", "`volume` must lie"),
        ("POST overlays", {**A, "startMs": 5, "endMs": 5}, "bad_request", "endMs"),
        ("POST overlays", {"encoded": "///"}, "invalid_identifier", ""),
        ("POST overlays", {"overlays": [A, {**A, "volume": 6}]}, "bad_request", "`overlays.1.volume`"),
        ("POST overlays", {"overlays": [A] * 101}, "bad_request", "`overlays`"),
        ("POST overlays", {"overlays": []}, "bad_request", "`overlays` must not be empty"),
        ("POST overlays", {"overlays": [A] * 9}, "limit_reached", ""),
        ("PATCH loop", {"mode": "all"}, "bad_request", "'none', 'track' or 'queue'"),
        ("PATCH filters", {"volume": 10**400}, "bad_request", "`volume` must be a number"),
        ("PATCH filters", {"eq": [{"band": 1}]}, "bad_request", "`eq.0.gain_db` is missing"),
        ("DELETE queue/t", None, "track_not_found", ""),
        ("PATCH queue/t", {"index": 0}, "track_not_found", ""),
        ("POST skip", {"to": "t"}, "track_not_found", ""),
    ],
)
async def test_what_cannot_be_done_is_refused_as_a_whole_and_named(
    node: StillNode, port: int, route: str, body: object, code: ErrorCode, words: str
) -> None:
    answer = await send(port, route, body)
    assert (answer.status, answer.json()["code"]) == (status_of_code()[code], code)
    assert words in answer.json()["message"]
    assert node.player("p").status().last_seq == 0


async def test_head_answers_as_get_without_the_body(port: int) -> None:
    for path in ("/info", "/version", "/v0/players", "/v0/players/p", "/v0/players/p/queue", "/v0/players/p/filters"):
        got, head = await request(port, "GET", path), await request(port, "HEAD", path)
        assert (head.status, head.header("Content-Length")) == (200, str(len(got.body)))


@pytest.mark.parametrize("body", [{"to": 5}, {"to": None}, {}, [], "x", None])
async def test_a_skip_that_names_no_track_goes_to_the_next(node: StillNode, port: int, body: object) -> None:
    node.player("p").do(Requests.enqueue, *map(make_track, "ab"))
    assert (await send_json(port, "POST", "/v0/players/p/skip", body)).status == 204
    assert node.player("p").status().track.id == "b"


async def test_a_track_that_is_put_shows_its_part_and_its_metadata(port: int) -> None:
    track = {"uri": "x.mp3", "metadata": {"mine": 1}, "startMs": 20, "endMs": 120}
    added = (await send_json(port, "PUT", "/v0/players/p/track", track)).json()
    now = (await request(port, "GET", "/v0/players/p")).json()
    assert (now["trackId"], now["startMs"], now["endMs"]) == (added["trackId"], 20, 120)
    assert now["track"]["userData"] == {"mine": 1}


async def test_a_link_to_a_page_that_will_not_play_is_said_when_it_is_added(port: int) -> None:
    page, other = "https://www.youtube.com/watch?v=x", "https://soundcloud.com/a/b"
    for route, body, hosts in (
        ("POST", {"id": "new", "uri": page}, ["www.youtube.com"]),
        ("POST queue", {"tracks": [{"uri": page}, {"uri": other}, {"uri": page}]}, ["you", "sound"]),
        ("PUT track", {"uri": other}, ["soundcloud.com"]),
        ("POST queue", {"uri": "https://f4.bandcamp.com/stream/a.mp3"}, []),
        ("POST queue", {"uri": "https://youtube.com.example/watch"}, []),
    ):
        answer = await send(port, route, body)
        assert answer.status == 201
        warnings = answer.json().get("warnings", [])
        assert ("warnings" in answer.json()) == bool(hosts)
        for warning, host in zip(warnings, hosts, strict=True):
            assert host in warning
            assert "resolver.enabled" in warning


async def test_all_that_a_record_may_hold_can_be_shown_and_told(node: StillNode, port: int) -> None:
    text, link, number = (
        "\N{GRINNING FACE}" * 1_000,
        "http://h.example/".ljust(65_536, "\N{GRINNING FACE}"),
        10**4300 - 1,
    )
    track = {
        "uri": "a.mp3", "address": "file:///".ljust(65_536, "a"), "openedUri": link, "artworkUrl": link,
        "title": text, "author": text, "isrc": text, "sourceName": text, "format": text, "failures": 1_000_000,
        "length": 2**53, "startMs": 2**53 - 1, "endMs": 2**53, "isKnown": True,
    }  # fmt: skip
    record = {
        "version": 1, "id": "q", "savedAt": number, "state": "playing", "paused": False, "clockStarted": True,
        "position": 2**53, "playedMs": 2**53, "failuresInARow": 1_000_000, "loop": "queue", "filters": {},
        "error": {"code": "corrupt", "stage": "decode", "message": link, "hint": link, "httpStatus": 999},
        "history": [{"trackId": "was", "endedAt": number, "reason": "finished", "sounded": True}],
        "crossfade": {}, "metadata": {}, "companions": {"x" * 9_999: {}},
        "life": "x" * 64, "seq": number, "frames": number, "sample": number,
        "current": "now", "queue": ["next"], "overlays": [{"trackId": "over", "position": 2**53}],
        "tracks": [{**track, "id": name} for name in ("now", "next", "was", "over")],
    }  # fmt: skip
    client = MemoryEventClient()
    node.follow_all(client)
    for _ in range(2):
        body = json.dumps(record, ensure_ascii=False).encode()  # escapes would be too many bytes
        assert (await request(port, "PUT", "/v0/players/q/state", body=body)).status in (200, 201)
        for path in ("", "/q", "/q/queue?details=true", "/q/history", "/q/overlays", "/q/state"):
            shown = await request(port, "GET", f"/v0/players{path}")
            assert shown.status == 200, path
        record = shown.json()
    for path in ("skip", "previous"):
        assert (await request(port, "POST", f"/v0/players/q/{path}")).status == 204
    assert client.ops.count("TrackEnd") == 2

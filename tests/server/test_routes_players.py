import json
from urllib.parse import quote

import pytest

from tests.support.fake_node import FakeNode
from tests.support.http_client import connected, request, send_json
from tonearm.core.crossfade import CrossfadeCurve, CrossfadeEdit
from tonearm.core.errors import NoPrevious, NotSeekable, RequestError, TrackNotFound
from tonearm.core.filters import FilterChange
from tonearm.core.json_value import Json
from tonearm.core.play_queue import LeftOut, LoopMode
from tonearm.node.node import WantedSettings
from tonearm.node.wanted_tracks import WantedTrack

EVERY_CHARACTER = "azAZ09._~:@+-"
IDS = [EVERY_CHARACTER, "...", "a+b", "x" * 128]


@pytest.mark.parametrize("player_id", IDS)
async def test_every_accepted_id_is_reachable_raw_and_escaped(node: FakeNode, port: int, player_id: str) -> None:
    created = await send_json(port, "POST", "/v0/players", {"id": player_id, "uri": "clip.mp3"})
    assert (created.status, created.json()) == (201, {"id": player_id})
    escaped = "".join(f"%{byte:02X}" for byte in player_id.encode())
    for form in (player_id, quote(player_id, safe=""), escaped, escaped.lower()):
        state = await request(port, "GET", f"/v0/players/{form}")
        assert (state.status, state.json()["id"]) == (200, player_id)
        assert (await request(port, "POST", f"/v0/players/{form}/play?x=1")).status == 204
    assert (await request(port, "DELETE", f"/v0/players/{escaped}")).status == 204
    assert player_id not in node.fakes


@pytest.mark.parametrize(
    "form",
    ["P", "p%20", "%20p", "p%2F", "%70%2e", ".", "..", "%2e%2E", "p%00", "%FF", "%", "p%zz", "y" * 5000, "%C3%A9"],
)
async def test_any_other_id_is_a_player_that_is_not_there(port: int, form: str) -> None:
    for method, path in (("GET", f"/v0/players/{form}"), ("POST", f"/v0/players/{form}/play")):
        answer = await request(port, method, path)
        assert (answer.status, answer.json()["code"]) == (404, "player_not_found")


async def test_an_absolute_target_reaches_the_same_player(port: int) -> None:
    assert (await request(port, "GET", "http://localhost/v0/players/p?x")).json()["id"] == "p"


async def test_a_player_is_made_listed_and_deleted(node: FakeNode, port: int) -> None:
    body = {"id": "new", "uri": "clip.mp3", "metadata": {"ü": [1, None]}, "unknown": 1}
    assert (await send_json(port, "POST", "/v0/players", body)).status == 201
    listed = await request(port, "GET", "/v0/players")
    assert [player["id"] for player in listed.json()] == ["p", "new"]
    assert listed.json()[1]["metadata"] == {"ü": [1, None]}
    deleted = await request(port, "DELETE", "/v0/players/new")
    assert (deleted.status, deleted.body, deleted.header("Content-Type")) == (204, b"", None)
    assert [player["id"] for player in (await request(port, "GET", "/v0/players")).json()] == ["p"]


async def test_an_answer_tells_that_its_own_player_is_not_saved_yet(node: FakeNode, port: int) -> None:
    async def is_unsaved(method: str, path: str, body: Json = None) -> bool:
        return (await send_json(port, method, path, body)).header("Tonearm-Unsaved") == "true"

    node.unsaved = "new"
    assert not await is_unsaved("POST", "/v0/players/p/play")
    assert not await is_unsaved("POST", "/v0/players", {"id": "other", "uri": "clip.mp3"})
    assert await is_unsaved("POST", "/v0/players", {"id": "new", "uri": "clip.mp3"})
    assert await is_unsaved("POST", "/v0/players/new/play")
    assert not await is_unsaved("GET", "/v0/players/new")
    assert await is_unsaved("DELETE", "/v0/players/new")


async def test_a_long_list_is_whole(node: FakeNode, port: int) -> None:
    for number in range(1000):
        node.add_player(f"n{number}")
    listed = (await request(port, "GET", "/v0/players")).json()
    assert [player["id"] for player in listed] == list(node.fakes)


async def test_an_empty_list_is_an_array(node: FakeNode, port: int) -> None:
    node.fakes.clear()
    assert (await request(port, "GET", "/v0/players")).json() == []


async def test_absent_metadata_is_an_object_and_null_is_null(node: FakeNode, port: int) -> None:
    for body, metadata in (({}, {}), ({"metadata": None}, None), ({"metadata": "x"}, "x")):
        answer = await send_json(port, "POST", "/v0/players/p/queue", {"uri": "a.mp3", **body})
        assert (answer.status, answer.json()) == (201, {"trackId": "track-1"})
        waiting = (await request(port, "GET", "/v0/players/p/queue")).json()
        assert waiting[-1] == {"id": "track-1", "uri": "a.mp3", "metadata": metadata}


async def test_the_ids_of_a_playlist_are_told_beside_the_first(node: FakeNode, port: int) -> None:
    node.more_tracks = ["track-2", "track-3"]
    answer = await send_json(port, "POST", "/v0/players/p/queue", {"uri": "list.m3u"})
    assert answer.json() == {"trackId": "track-1", "trackIds": ["track-1", "track-2", "track-3"]}


async def test_controls_answer_with_nothing(node: FakeNode, port: int) -> None:
    for action in ("play", "pause", "skip"):
        answer = await request(port, "POST", f"/v0/players/p/{action}", body=b"not looked at")
        assert (answer.status, answer.body) == (204, b"")
    assert node.fakes["p"].done == [("play",), ("pause",), ("skip",)]


@pytest.mark.parametrize(
    ("route", "body", "done"),
    [
        ("PATCH position", {"position": -5}, ("seek", -5)),
        ("PATCH position", {"offset": 5}, ("seek_by", 5)),
        ("POST previous", None, ("previous",)),
        ("DELETE track", None, ("stop",)),
        ("POST skip", {"to": "track-2"}, ("skip", "track-2")),
        ("POST skip", {"to": 2}, ("skip",)),
        ("DELETE queue", None, ("clear_queue",)),
        ("DELETE queue/track-2", None, ("remove", "track-2")),
        ("PATCH queue/track-2", {"index": 3}, ("move", "track-2", 3)),
        ("POST queue/shuffle", None, ("shuffle",)),
    ],
)
async def test_an_order_reaches_the_player(
    node: FakeNode, port: int, route: str, body: object, done: tuple[object, ...]
) -> None:
    method, path = route.split()
    target = f"/v0/players/p/{path}"
    sent = request(port, method, target) if body is None else send_json(port, method, target, body)
    answer = await sent
    assert (answer.status, answer.body) == (204, b"")
    assert node.fakes["p"].done == [done]


async def test_what_is_wanted_of_a_track_reaches_the_node(node: FakeNode, port: int) -> None:
    body = {"encoded": "QUJD", "metadata": 1, "startMs": 5, "endMs": 9}
    wanted = WantedTrack(None, 1, "QUJD", 5, 9)
    for method, path, sent, expected in (
        ("POST", "queue", {**body, "index": 2}, (wanted, 2)),
        ("POST", "queue", {"uri": "a.mp3"}, (WantedTrack("a.mp3"), None)),
        ("POST", "queue", {"uri": "a.mp3", "tracks": 5}, (WantedTrack("a.mp3"), None)),
        ("POST", "queue", {"tracks": [body, {"uri": "a.mp3"}]}, ((wanted, WantedTrack("a.mp3")), None)),
        ("PUT", "track", body, wanted),
    ):
        assert (await send_json(port, method, f"/v0/players/p/{path}", sent)).status == 201
        assert node.wanted[-1] == expected
    new = {"id": "q", "encoded": "QUJD", "paused": True, "loop": "track", "volume": 2, "filters": {"eq": []}}
    assert (await send_json(port, "POST", "/v0/players", new)).status == 201
    changes = (FilterChange(gains=()), FilterChange(volume=2.0))
    assert node.wanted[-1] == (WantedTrack(None, {}, "QUJD"), WantedSettings(True, LoopMode.TRACK, changes))
    assert (await send_json(port, "POST", "/v0/players", {"id": "r", "track": body, "metadata": 7})).status == 201
    assert node.wanted[-1] == (wanted, WantedSettings())
    assert (await send_json(port, "POST", "/v0/players", {"id": "s", "idle": True})).status == 201
    assert node.wanted[-1:] == [(None, WantedSettings())]
    node.left_out = LeftOut(2, ("Why.",))
    answer = await send_json(port, "POST", "/v0/players", {"id": "t", "uri": "a.m3u", "idle": False})
    assert answer.json() == {"id": "t", "leftOut": {"count": 2, "reasons": ["Why."]}}


async def test_the_queue_has_a_tag(port: int) -> None:
    assert (await request(port, "GET", "/v0/players/p/queue")).header("ETag") == 'W/"1ife.7"'


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (TrackNotFound("No."), 404, "track_not_found"),
        (NotSeekable("No."), 409, "not_seekable"),
        (NoPrevious("No."), 409, "no_previous"),
    ],
)
async def test_what_a_player_refuses(node: FakeNode, port: int, error: RequestError, status: int, code: str) -> None:
    with node.refusing(error):
        answer = await request(port, "POST", "/v0/players/p/previous")
    assert (answer.status, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    ("path", "allow"),
    [("queue/shuffle", "POST"), ("queue/track-2", "DELETE, PATCH"), ("track", "DELETE, PUT"), ("position", "PATCH")],
)
async def test_no_other_method_is_known(port: int, path: str, allow: str) -> None:
    answer = await request(port, "GET", f"/v0/players/p/{path}")
    assert (answer.status, answer.header("Allow")) == (405, allow)


@pytest.mark.parametrize(
    ("path", "body", "done"),
    [
        ("loop", {"mode": "queue"}, ("set_loop", "queue")),
        (
            "crossfade",
            {"durationMs": 9, "curve": "linear"},
            ("change_crossfade", CrossfadeEdit(9, CrossfadeCurve.LINEAR)),
        ),
        ("metadata", {"value": None}, ("change_metadata", True, None)),
        ("metadata", {"value": {"a": 1}, "merge": False}, ("change_metadata", False, {"a": 1})),
        ("filters", {}, ("change_filters", FilterChange())),
        ("filters", {"volume": 2}, ("change_filters", FilterChange(volume=2.0))),
        ("filters", {"eq": []}, ("change_filters", FilterChange(gains=()))),
        (
            "filters",
            {"volume": 0.5, "eq": [{"band": 3, "gain_db": -1}, {"band": 14, "gain_db": 2.5, "q": 1}]},
            ("change_filters", FilterChange(volume=0.5, gains=((3, -1.0), (14, 2.5)))),
        ),
    ],
)
async def test_a_patch_reaches_the_player(node: FakeNode, port: int, path: str, body: object, done: object) -> None:
    answer = await send_json(port, "PATCH", f"/v0/players/p/{path}", body)
    assert answer.status == 204
    assert node.fakes["p"].done == [done]


@pytest.mark.parametrize(
    ("route", "body", "named"),
    [
        ("POST /v0/players", {}, "`id`"),
        ("POST /v0/players", {"id": "x"}, "`uri`"),
        ("POST /v0/players", {"id": 1, "uri": "a"}, "`id` must be a string"),
        ("POST /v0/players", {"id": "x", "uri": None}, "`uri` must be a string"),
        ("POST /v0/players", {"id": "x"}, "`uri` is missing; `encoded`, `track` or `idle: true`"),
        ("POST /v0/players", {"id": "x", "idle": False}, "`uri` is missing"),
        ("POST /v0/players", {"id": "x", "idle": 1}, "`idle` must be true or false"),
        ("POST /v0/players", {"id": "x", "idle": True, "uri": "a"}, "`uri` and `idle` exclude each other"),
        ("POST /v0/players", {"id": "x", "track": {"uri": "a"}, "uri": "a"}, "`uri` and `track` exclude each other"),
        ("POST /v0/players", {"id": "x", "track": {}}, "`track.uri` is missing"),
        ("POST /v0/players", {"id": "x", "track": "a.mp3"}, "`track` must be an object"),
        ("POST /v0/players", {"id": "x", "track": {"uri": "a", "startMs": "1"}}, "`track.startMs` must be"),
        ("POST /v0/players", [], "body must be an object"),
        ("POST /v0/players", "x", "body must be an object"),
        ("POST /v0/players", None, "body must be an object"),
        ("POST /v0/players/p/queue", {"uri": ["a"]}, "`uri` must be a string"),
        ("PATCH /v0/players/p/loop", {"mode": "all"}, "'none', 'track' or 'queue'"),
        ("PATCH /v0/players/p/loop", {"mode": []}, "`mode`"),
        ("PATCH /v0/players/p/loop", {}, "`mode` is missing"),
        ("PATCH /v0/players/p/metadata", {"merge": True}, "`value` is missing"),
        ("PATCH /v0/players/p/metadata", {"merge": 1, "value": 1}, "`merge` must be true or false"),
        ("PATCH /v0/players/p/filters", {"volume": True}, "`volume` must be a number"),
        ("PATCH /v0/players/p/filters", {"volume": None}, "`volume` must be a number"),
        ("PATCH /v0/players/p/filters", {"volume": "1"}, "`volume` must be a number"),
        ("PATCH /v0/players/p/filters", {"volume": 10**400}, "`volume` must be a number"),
        ("PATCH /v0/players/p/filters", {"eq": {}}, "`eq` must be an array"),
        ("PATCH /v0/players/p/filters", {"eq": None}, "`eq` must be an array"),
        ("PATCH /v0/players/p/filters", {"eq": [1]}, "`eq.0` must be an object"),
        ("PATCH /v0/players/p/filters", {"eq": [{"band": 1}]}, "`eq.0.gain_db` is missing"),
        ("PATCH /v0/players/p/filters", {"eq": [{"band": True, "gain_db": 1}]}, "`eq.0.band` must be a whole number"),
        ("PATCH /v0/players/p/filters", {"eq": [{"band": 1.5, "gain_db": 1}]}, "`eq.0.band` must be a whole number"),
    ],
)
async def test_a_wrong_field_is_named(node: FakeNode, port: int, route: str, body: object, named: str) -> None:
    method, path = route.split()
    answer = await send_json(port, method, path, body)
    assert (answer.status, answer.json()["code"]) == (400, "bad_request")
    assert named in answer.json()["message"]
    assert node.fakes["p"].done == []


async def test_head_answers_as_get_without_the_body(port: int) -> None:
    for path in ("/info", "/version", "/v0/players", "/v0/players/p", "/v0/players/p/queue", "/v0/players/p/filters"):
        got, head = await request(port, "GET", path), await request(port, "HEAD", path)
        assert (head.status, head.header("Content-Length")) == (200, str(len(got.body)))


async def test_several_requests_share_a_connection(port: int) -> None:
    async with connected(port) as connection:
        for _ in range(3):
            connection.send_request("POST", "/v0/players/p/play")
            connection.send_request("GET", "/v0/players/p")
            assert (await connection.read_answer()).status == 204
            assert json.loads((await connection.read_answer()).body)["id"] == "p"


async def test_an_empty_list_of_tracks_is_told_in_plain_words(port: int) -> None:
    answer = await request(port, "POST", "/v0/players/p/queue", body=b'{"tracks": []}')
    assert answer.json()["message"] == "The field `tracks` must not be empty."

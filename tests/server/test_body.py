import gzip
import json

import pytest

from tests.support.edge import StillNode
from tests.support.http_client import Headers, connected, request, send_json
from tonearm.server.bodies import MAX_VALUES

PATH = "/v0/players/p/metadata"
LIMIT_BYTES = 1024 * 1024


async def patch(port: int, body: bytes, headers: Headers = ()) -> tuple[int, str]:
    answer = await request(port, "PATCH", PATH, headers=headers, body=body)
    return answer.status, "" if answer.status == 204 else answer.json()["code"]


def sized(size_bytes: int) -> bytes:
    head, tail = b'{"value": 1, "ignored": "', b'"}'
    return head + b"x" * (size_bytes - len(head) - len(tail)) + tail


def nested(levels: int) -> bytes:
    """A body whose deepest, empty array is `levels` levels deep; the body's object is the first."""
    return b'{"value": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


NO_JSON = [
    *(b"", b"{", b"{} {}", b"{'value': 1}", b'{"value": NaN}', b'{"value": [-Infinity]}', b'{"value": {"a": 1e999}}'),
    *(b'{"value": "\xff"}', b'{"value": "\\ud800"}', b'{"value": {"\\udc00": 1}}', b'{"value": 01}'),
    *(b'{"value": "a\nb"}', b"\xff\xfe{\x00}\x00"),
]
BODIES = [
    *((body, (400, "bad_request")) for body in NO_JSON),
    (nested(64), (204, "")),
    (nested(65), (400, "bad_request")),
    (nested(100_000), (400, "bad_request")),
    (sized(LIMIT_BYTES), (204, "")),
    (sized(LIMIT_BYTES + 1), (413, "body_too_large")),
    (b'{"value": 1, "x": [' + b"1," * (MAX_VALUES - 10) + b"1]}", (204, "")),
    (b'{"value": [' + b"1," * MAX_VALUES + b"1]}", (413, "body_too_large")),
    (b'{"value": [' + b"{}," * MAX_VALUES + b"{}]}", (413, "body_too_large")),
    (b'{"value": 1, "x": "' + b",[{" * MAX_VALUES + b'"}', (204, "")),
    (b'{"value": 1, "x": "' + b'\\",' * MAX_VALUES + b'"}', (204, "")),
    (b'{"value": "' + b'\\",' * MAX_VALUES, (400, "bad_request")),
]


@pytest.mark.parametrize(("body", "answer"), BODIES, ids=lambda value: repr(value)[:40])
async def test_what_is_no_json_nested_too_deep_or_too_much_is_refused(
    port: int, body: bytes, answer: tuple[int, str]
) -> None:
    assert await patch(port, body) == answer


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "%"])
async def test_any_content_type_is_read_as_json(node: StillNode, port: int, content_type: str) -> None:
    assert await patch(port, b'{"value": "\\ud83d\\ude00"}', (("Content-Type", content_type),)) == (204, "")
    assert node.player("p").status().metadata == "😀"


@pytest.mark.parametrize(
    "value",
    [
        {"big": 2**70, "float": 0.1, "small": -1e-300, "": {"a": [None, True, "\u0000"]}},
        *([], "", 0, False, None, "\x00\x1f\u2028", "😀", {"\x7f ä": "\ufffe"}),
    ],
)
async def test_values_come_through_unchanged(node: StillNode, port: int, value: object) -> None:
    twice = b'{"merge": false, "value": {"a": 1}, "value": %b}'  # the last one counts
    assert await patch(port, twice % json.dumps(value).encode()) == (204, "")
    assert node.player("p").status().metadata == value
    assert (await request(port, "GET", "/v0/players/p")).json()["metadata"] == value


async def test_a_larger_body_without_a_declared_length_is_refused(port: int) -> None:
    async with connected(port) as connection:
        connection.send_request("PATCH", PATH, (("Transfer-Encoding", "chunked"),))
        for _ in range(17):
            connection.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        assert (await connection.read_answer()).json()["code"] == "body_too_large"


async def test_a_body_is_asked_for_by_a_client_that_waits_and_an_empty_one_called_so(port: int) -> None:
    for body, said in ((b'{"value": 1}', b""), (b"  \r\n", b"The body is empty. Send JSON in it.")):
        async with connected(port) as connection:
            connection.send_request("PATCH", PATH, (("Expect", "100-continue"), ("Content-Length", f"{len(body)}")))
            assert (await connection.read_head()).status == 100
            connection.send(body)
            answer = await connection.read_answer()
            assert (answer.status, said in answer.body) == (400 if said else 204, True)


async def test_a_packed_body_is_unpacked(port: int, caplog: pytest.LogCaptureFixture) -> None:
    for body, answer in (
        (gzip.compress(b'{"value": 1}'), (204, "")),
        (gzip.compress(sized(LIMIT_BYTES * 8)), (413, "body_too_large")),
        (b'{"value": 1}', (400, "bad_request")),
        (b"x" * 20, (400, "bad_request")),
    ):
        assert await patch(port, body, (("Content-Encoding", "gzip"),)) == answer
    assert (await request(port, "GET", "/info")).status == 200
    assert "ERROR" not in caplog.text


async def test_an_unknown_name_among_filters_is_refused_with_the_nearest_one(node: StillNode, port: int) -> None:
    for filters, sentence in (
        ({"lowpass": {}}, "no field `{}lowpass`; did you mean `{}lowPass`?"),
        ({"timescale": {"sped": 2}}, "`{}timescale.sped`; did you mean `{}timescale.speed`?"),
        ({"rotation": {"q": 2}}, "no field `{}rotation.q`; there are rotationHz."),
        ({"eq": [], "equalizer": []}, "`eq` and `equalizer` set the same bands"),
        ({"limiter": {"enabled": "true"}}, "The field `{}limiter.enabled` must be one of 'auto', true or false."),
        ({"normalization": {"mode": 1}}, "The field `{}normalization.mode` must be one of 'track' or 'off'."),
    ):
        changed = await send_json(port, "PATCH", "/v0/players/p/filters", filters)
        created = await send_json(port, "POST", "/v0/players", {"id": "n", "uri": "a", "filters": filters})
        for answer, place in ((changed, ""), (created, "filters.")):
            assert (answer.status, answer.json()["code"]) == (400, "bad_request")
            assert sentence.replace("{}", place) in answer.json()["message"]
    assert (node.player("p").status().last_seq, node.find("n")) == (0, None)


async def test_the_answer_names_the_fields_that_were_ignored(port: int) -> None:
    band = {"band": 1, "gain_db": 2}
    for path, body, status, ignored in (
        ("POST /v0/players", {"id": "q", "uri": "a.mp3", "volumee": 1, "noReplace": True}, 201, "volumee, noReplace"),
        ("POST /v0/players", {"id": "q", "url": "a.mp3"}, 400, "url"),
        ("POST /v0/players/p/queue", {"tracks": [{"uri": "a.mp3"}, {"uri": "b", "meta": {}}]}, 201, "tracks.1.meta"),
        ("PATCH /v0/players/p/loop", {"mode": "none", "a b, \r\nü": 1}, 204, "a%20b%2C%20%0D%0A%C3%BC"),
        ("PATCH /v0/players/p/metadata", {"value": {"x": 1}}, 204, None),
        ("PATCH /v0/players/p/filters", {"eq": [{**band, "q": 1}]}, 204, "eq.0.q"),
        ("PATCH /v0/players/p/filters", {"eq": [{**band, "frequency_hz": 40}]}, 204, None),
        ("POST /v0/players/p/skip", {"too": "a"}, 204, "too"),
    ):
        method, _, target = path.partition(" ")
        answer = await send_json(port, method, target, body)
        assert (answer.status, answer.header("Tonearm-Ignored")) == (status, ignored), path


async def test_however_much_is_ignored_the_header_stays_short(port: int) -> None:
    for name in ("x" * 500, "\U0001f3b5" * 100):
        body = {"tracks": [{"uri": "a", name: 1} for _ in range(300)]}
        ignored = (await send_json(port, "POST", "/v0/players/p/queue", body)).header("Tonearm-Ignored")
        assert ignored is not None
        assert ignored.endswith(", ...")
        assert len(ignored) < 1100

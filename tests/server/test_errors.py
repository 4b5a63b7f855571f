"""Every refusal, in the order in which the checks come."""

import json
import logging
import re
import time

import pytest

from tests.support.edge import StillNode
from tests.support.http_client import WEBSOCKET_HEADERS, Headers, connected, request, send_json
from tonearm.core import errors
from tonearm.core.errors import RequestError
from tonearm.server.app import build_public_app, listen_on
from tonearm.server.audio_settings import AudioSettings
from tonearm.server.http_server import ConnectionLimits


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """All that the node says, as with `logging.level = "debug"`."""
    caplog.set_level(logging.DEBUG)
    return caplog


FOREIGN: Headers = (("Origin", "http://evil.example"),)
NEW_PLAYER = {"id": "new", "uri": "clip.mp3"}


async def test_an_error_body_holds_seven_fields(port: int) -> None:
    before_ms = time.time() * 1000
    answer = await request(port, "GET", "/v0/nothing%20here?password=1")
    body = answer.json()
    assert answer.status == 404
    assert before_ms - 1 <= body.pop("timestamp") <= time.time() * 1000
    assert body.pop("message").endswith(".")
    assert len(body.pop("requestId")) == 12
    assert body == {"status": 404, "error": "Not Found", "code": "not_found", "path": "/v0/nothing%20here"}


@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [
        (errors.BadRequest("It is bad."), 400, "bad_request"),
        (errors.SourceBlocked("It is bad."), 403, "source_blocked"),
        (errors.SourceRefused("It is bad."), 403, "source_refused"),
        (errors.PlayerExists("It is bad."), 409, "player_exists"),
        (errors.LimitReached("It is bad."), 429, "limit_reached"),
        (errors.InvalidIdentifier("It is bad."), 400, "invalid_identifier"),
        (errors.PlayerNotFound("It is bad."), 404, "player_not_found"),
        (errors.ResolverDisabled("It is bad."), 400, "resolver_disabled"),
        (errors.ResolveFailed("It is bad."), 400, "resolve_failed"),
        (RequestError("It is bad."), 400, "bad_request"),
        (errors.TrackNotFound("It is bad."), 404, "track_not_found"),
        (errors.NotSeekable("It is bad."), 409, "not_seekable"),
        (errors.NoPrevious("It is bad."), 409, "no_previous"),
    ],
)
async def test_each_refusal_of_the_node_has_its_status(
    node: StillNode,
    port: int,
    refusal: RequestError,
    status: int,
    code: str,
    log: pytest.LogCaptureFixture,
) -> None:
    node.fails["create_player"] = refusal
    answer = await send_json(port, "POST", "/v0/players", NEW_PLAYER)
    body = answer.json()
    assert (answer.status, body["status"], body["code"], body["message"]) == (status, status, code, "It is bad.")
    assert f"request {body['requestId']} refused with {status} {code}: POST /v0/players" in log.text


async def test_a_failure_of_the_node_itself_tells_no_details(
    node: StillNode, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    node.fails["create_player"] = RuntimeError("secret detail")
    answer = await send_json(port, "POST", "/v0/players", NEW_PLAYER)
    assert (answer.status, answer.json()["code"]) == (500, "internal")
    assert b"secret" not in answer.body
    assert "secret detail" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v0/players", "GET, HEAD, POST"),
        ("POST", "/info", "GET, HEAD"),
        ("GET", "/v0/players/p/play", "POST"),
        ("OPTIONS", "/v0/players/p", "DELETE, GET, HEAD"),
        ("DELETE", "/v0/players/p/ws", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(
    port: int, method: str, path: str, allow: str, log: pytest.LogCaptureFixture
) -> None:
    answer = await request(port, method, path)
    assert f"request {answer.json()['requestId']} refused with 405" in log.text
    assert (answer.status, answer.json()["code"], answer.header("Allow")) == (405, "method_not_allowed", allow)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /info HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        b"GET /info HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /v0/\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"BREW /info HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /info HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /info HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"GET /info HTTP/1.2\r\nHost: localhost\r\n\r\n",
        # A proxy that does not know chunks finds the end of these elsewhere.
        b"POST /v0/decodetracks HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
        b"GET /info HTTP/1.0\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_is_not_http_gets_an_error_body_too(port: int, sent: bytes, log: pytest.LogCaptureFixture) -> None:
    async with connected(port) as connection:
        connection.send(sent)
        head, _, body = (await connection.read_to_end()).partition(b"\r\n\r\n")
    assert re.match(rb"HTTP/1\.[01] 400 Bad Request\r\n", head)
    told = json.loads(body)
    assert told["code"] == "bad_request"
    assert f"request {told['requestId']} " in log.text


async def test_what_http_1_0_does_not_know_is_passed_over_there(port: int) -> None:
    asked = b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n[]"
    upgrade = b"".join(b"%s: %s\r\n" % (name.encode(), str(value).encode()) for name, value in WEBSOCKET_HEADERS)
    for sent, expected in (
        (b"POST /v0/decodetracks HTTP/1.1\r\nHost: localhost\r\n" + asked, b"HTTP/1.1 100 Continue"),
        (b"POST /v0/decodetracks HTTP/1.0\r\n" + asked, b"HTTP/1.0 200 OK"),
        (b"GET /v0/players/p/ws HTTP/1.0\r\n" + upgrade + b"\r\n", b"HTTP/1.0 400 Bad Request"),
    ):
        async with connected(port) as connection:
            connection.send(sent)
            assert (await connection.reader.readline()).strip() == expected


async def test_answers_do_not_tell_what_the_node_is_made_of(node: StillNode, port: int) -> None:
    public = build_public_app(node, lambda player_id: player_id == "p", ConnectionLimits(), AudioSettings())
    server = await listen_on(public, "127.0.0.1", 0)
    try:
        for at, path, headers, status in (
            (port, "/info", (), 200),
            (port, "/none", (), 404),
            (port, "/v0/players/p/ws", WEBSOCKET_HEADERS, 101),
            (port, "/v0/players/p/stream.wav", (), 200),
            (port, "/info", (("bad header", ""),), 400),
            (server.port, "/", (), 200),
            (server.port, "/none", (), 404),
            (server.port, "/p/events", WEBSOCKET_HEADERS, 101),
        ):
            async with connected(at) as connection:
                connection.send_request("GET", path, headers)
                head = await connection.read_head()
            assert (head.status, head.header("Server")) == (status, "tonearm"), path
    finally:
        await server.close()


async def test_a_path_that_is_no_text_is_an_ordinary_unknown_path(port: int) -> None:
    answer = await request(port, "GET", "/v0/%ff%00")
    assert (answer.status, answer.json()["code"]) == (404, "not_found")

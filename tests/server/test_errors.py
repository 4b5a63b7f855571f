"""Every refusal, in the order in which the checks come."""

import time
from unittest.mock import Mock

import pytest

from tests.support.edge import StillNode
from tests.support.http_client import Headers, connected, request, send_json
from tonearm.core import errors
from tonearm.core.errors import RequestError

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
    node: StillNode, port: int, refusal: RequestError, status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "create_player", Mock(side_effect=refusal))
    answer = await send_json(port, "POST", "/v0/players", NEW_PLAYER)
    body = answer.json()
    assert (answer.status, body["status"], body["code"], body["message"]) == (status, status, code, "It is bad.")


async def test_a_failure_of_the_node_itself_tells_no_details(
    node: StillNode, port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "create_player", Mock(side_effect=RuntimeError("secret detail")))
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
async def test_a_wrong_method_is_told_the_right_ones(port: int, method: str, path: str, allow: str) -> None:
    answer = await request(port, method, path)
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
    ],
)
async def test_what_is_not_http_gets_an_error_body_too(port: int, sent: bytes) -> None:
    async with connected(port) as connection:
        connection.send(sent)
        answer = await connection.read_answer()
    assert (answer.status, answer.json()["code"]) == (400, "bad_request")


async def test_a_path_that_is_no_text_is_an_ordinary_unknown_path(port: int) -> None:
    answer = await request(port, "GET", "/v0/%ff%00")
    assert (answer.status, answer.json()["code"]) == (404, "not_found")

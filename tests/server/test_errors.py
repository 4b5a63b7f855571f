"""Every refusal, in the order in which the checks come."""

import json
import logging
import re
import time

import pytest

from tests.support.edge import StillNode
from tests.support.http_client import WEBSOCKET_HEADERS, connected, request, send_json


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """All that the node says, as with `logging.level = "debug"`."""
    caplog.set_level(logging.DEBUG)
    return caplog


async def test_an_error_body_holds_seven_fields(port: int, log: pytest.LogCaptureFixture) -> None:
    before_ms = time.time() * 1000
    answer = await request(port, "GET", "/v0/nothing%20here?password=1")
    body = answer.json()
    assert (answer.status, answer.header("Server")) == (404, "tonearm")
    assert before_ms - 1 <= body.pop("timestamp") <= time.time() * 1000
    assert body.pop("message") == "There is nothing at this path. GET / lists all paths."
    assert f"request {body['requestId']} refused with 404 not_found: GET /v0/nothing%20here" in log.text
    assert len(body.pop("requestId")) == 12
    assert body == {"status": 404, "error": "Not Found", "code": "not_found", "path": "/v0/nothing%20here"}


async def test_a_failure_of_the_node_itself_tells_no_details(
    node: StillNode, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    node.fails["create_player"] = RuntimeError("secret detail")
    answer = await send_json(port, "POST", "/v0/players", {"id": "new", "uri": "clip.mp3"})
    assert (answer.status, answer.json()["code"]) == (500, "internal")
    assert b"secret" not in answer.body
    assert "secret detail" in caplog.text
    assert "Traceback" in caplog.text


async def test_what_is_not_http_gets_an_error_body_too(port: int, log: pytest.LogCaptureFixture) -> None:
    for sent in (
        b"nonsense\r\n\r\n",
        b"GET /info HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /v0/\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"BREW /info HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /info HTTP/2.0\r\nHost: localhost\r\n\r\n",
        # A proxy that does not know chunks finds the end of these elsewhere.
        b"POST /v0/decodetracks HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
        b"GET /info HTTP/1.0\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"GET /v0/players?token=SECRET HTTP/1.1\r\nHost: localhost\r\nAuthorization: SECRET\x01x\r\n\r\n",
        b"GET /v0/players HTTP/1.1\r\nHost: localhost\r\nAuthorization SECRET\r\n\r\n",
        b"GET /v0/players HTTP/1.1\r\nHost: localhost\r\nContent-Length: SECRET\r\n\r\n",
    ):
        async with connected(port) as connection:
            connection.send(sent)
            head, _, body = (await connection.read_to_end()).partition(b"\r\n\r\n")
        assert re.match(rb"HTTP/1\.[01] 400 Bad Request\r\n", head), sent[:80]
        told = json.loads(body)
        assert (told["code"], f"request {told['requestId']} " in log.text) == ("bad_request", True)
        assert "SECRET" not in log.text
    assert "Invalid header value char" in log.text


async def test_a_method_in_small_letters_is_told_to_be_written_in_capital_ones(port: int) -> None:
    """A browser's `fetch` sends `patch` as it is written, and only that one."""
    answer = await request(port, "patch", "/v0/players/p/loop", body=b'{"mode": "none"}')
    assert (answer.status, answer.json()["code"]) == (400, "bad_request")
    assert "capital letters, such as PATCH" in answer.json()["message"]


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

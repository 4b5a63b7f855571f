"""What strangers can do to a running node, and to those who listen to it: nothing."""

import asyncio
import re
import resource
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.e2e_players import PATIENT, create, refusal
from tests.support.eventually import eventually
from tests.support.http_client import connected
from tests.support.media_server import MediaServer, stall
from tests.support.running_node import running_node

HALVES = (
    b"",
    b"GET /in",
    b"GET /info HTTP/1.1\r\nHost: localhost\r\nX-",
    b"POST /v0/players HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    b"POST /v0/players HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
)

LIMIT_REFUSED = "refused with 429 limit_reached: POST /v0/players"


@contextmanager
def soft_descriptor_limit(soft: int) -> Iterator[int]:
    """Processes that are started meanwhile have this limit; yields the hard one."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


async def test_the_limit_of_descriptors_is_raised_and_told(tmp_path: Path) -> None:
    with soft_descriptor_limit(256) as hard:
        if hard <= 256:
            pytest.skip("this machine allows no more than 256 descriptors")
        async with running_node(tmp_path) as node:
            assert resource.prlimit(node.pid, resource.RLIMIT_NOFILE) == (hard, hard)
            await eventually(lambda: any(f"at most {hard} descriptors" in line for line in node.log), "it is logged")


async def test_more_connections_than_descriptors_are_not_promised(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with running_node(tmp_path, f"[server]\nmax_connections = {hard}\n") as node:
        (line,) = (line for line in node.log if "server.max_connections" in line)
        assert "WARNING" in line
        assert f"at most {hard * 3 // 4} connections" in line


async def test_refusals_are_logged_with_the_address_and_in_a_measure(tmp_path: Path) -> None:
    async with running_node(tmp_path, '[server]\npassword = "sesame"\n[sources]\nblocked = ["bad"]\n') as node:
        right = ("Authorization", "sesame")
        new = {"id": "p", "uri": "http://bad.example/"}
        assert refusal(await node.request("POST", "/v0/players", new, headers=(right,)))[0] == 403
        for guess in range(50):
            headers = (("Authorization", f"guess-{guess}"), ("X-Forwarded-For", "203.0.113.9\x1b[2J"[:11]))
            assert (await node.request("GET", "/info?token=secret", headers=headers)).status == 401
    refused = [re.sub(r"request \w{12} ", "", line) for line in node.log if "refused with" in line]
    assert "WARNING refused with 403 source_blocked: POST /v0/players from 127.0.0.1: http://bad.example/" in refused[0]
    assert "refused with 401 unauthorized: GET /info from 127.0.0.1 for 203.0.113.9: " in refused[1]
    assert len(refused) <= 8
    assert not any("guess" in line or "secret" in line or "sesame" in line for line in node.log)


async def test_requests_under_way_when_the_node_stops_leave_no_traceback(tmp_path: Path) -> None:
    async with MediaServer() as server, running_node(tmp_path, PATIENT) as node, AsyncExitStack() as stack:
        stalled = server.serve("/stalled.m3u", stall())
        await create(node, "p", "x.wav")
        asking = []
        for number in range(40):
            connection = await stack.enter_async_context(connected(node.port))
            asking.append(connection)
            new = b'{"id": "n%d", "uri": "%s?%d"}' % (number, stalled.encode(), number)
            match number % 5:
                case 0:
                    connection.send_request("POST", "/v0/players", body=new)
                case 1:
                    connection.send_request("POST", "/v0/players/p/queue", body=new)
                case 2:
                    connection.send_request("GET", f"/v0/loadtracks?identifier={stalled}")
                case 3:
                    connection.send(HALVES[3])
                case 4:
                    connection.send_request("GET", "/info")  # stays open
        await eventually(lambda: len(server.requests) >= 17, "the node asks for what never comes")
        node.process.send_signal(signal.SIGTERM)
        # What is asked now may be answered, or not.
        for connection in asking[4::5]:
            connection.send_request("POST", "/v0/players", body=b'{"id": "late", "uri": "x.wav"}')
        await asyncio.gather(*(connection.read_to_cut() for connection in asking))
        await node.ended()
    assert not [line for line in node.log if "ERROR" in line or "Traceback" in line]


async def test_a_node_that_is_late_creates_no_more_players_where_that_is_asked_for(tmp_path: Path) -> None:
    async with running_node(tmp_path, f"[server]\nmax_load = 0.1\n{PATIENT}") as node:
        await create(node, "first", "x.wav")  # it may be slow at its start
        node.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(1.5)
        node.process.send_signal(signal.SIGCONT)
        answer = await node.request("POST", "/v0/players", {"id": "second", "uri": "x.wav"})
        assert refusal(answer) == (429, "limit_reached")
        assert "server.max_load" in answer.json()["message"]
        assert (await node.request("POST", "/v0/players/first/play")).status == 204
        await eventually(lambda: any(LIMIT_REFUSED in line for line in node.log), "the refusal is logged")

"""What strangers can do to a running node, and to those who listen to it: nothing."""

import asyncio
import re
import resource
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.e2e_players import PATIENT, create, refusal
from tests.support.eventually import eventually
from tests.support.http_client import connected
from tests.support.media_server import MediaServer, stall
from tests.support.running_node import running_node


async def test_the_limit_of_descriptors_is_raised_and_told(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard <= 256:
        pytest.skip("this machine allows no more than 256 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # processes that are started meanwhile have it
    try:
        async with running_node(tmp_path) as node:
            assert resource.prlimit(node.pid, resource.RLIMIT_NOFILE) == (hard, hard)
            await eventually(lambda: any(f"at most {hard} descriptors" in line for line in node.log), "it is logged")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


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
                    connection.send(b"POST /v0/players HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
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

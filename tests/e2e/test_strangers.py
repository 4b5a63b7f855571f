"""What strangers can do to a running node, and to those who listen to it: nothing."""

import re
import resource
from pathlib import Path

import pytest

from tests.support.e2e_players import refusal
from tests.support.eventually import eventually
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

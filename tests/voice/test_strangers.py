"""Voice servers that break their protocol, flood, or are not who they say: each costs its own voice."""

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.certificate import make_certificate
from tests.support.e2e_players import create, done
from tests.support.running_node import RunningNode, running_node
from tests.support.voice_players import join, until_voice, voice, voice_processes
from tests.support.voice_server import voice_server


@pytest.mark.parametrize(
    ("wrong", "reason", "action"),
    [
        ({"wrong_ready": {"modes": ["xsalsa20_poly1305"]}}, "no_mode", "fix"),
        ({"wrong_ready": {"ssrc": "seven"}}, "protocol", "fix"),
        ({"wrong_ready": {"ip": "not an address"}}, "endpoint_blocked", "fix"),
        ({"wrong_ready": {"ip": "224.0.0.1"}}, "endpoint_blocked", "fix"),
        ({"wrong_description": {"secret_key": [1, 2]}}, "protocol", "fix"),
        ({"redirects_to": "https://127.0.0.1:1/"}, "redirect", "fix"),
    ],
    ids=str,
)
async def test_what_a_server_may_not_say_closes_its_voice(
    node: RunningNode, certificate: Path, wrong: dict[str, Any], reason: str, action: str
) -> None:
    async with voice_server(certificate) as server:
        for name, value in wrong.items():
            setattr(server, name, value)
        await create(node, "p", "song.opus")
        await done(node, "PUT", "/v0/players/p/voice", voice(server))
        answer = await node.request("GET", "/v0/players/p/voice?wait=10000")
        close = answer.json()["close"]
        assert (close["reason"], close["by"], close["action"], close["code"]) == (reason, "node", action, None)


async def test_a_certificate_that_nobody_trusts_is_refused(node: RunningNode, tmp_path: Path) -> None:
    async with voice_server(make_certificate(tmp_path / "other.pem")) as server:
        await create(node, "p", "song.opus")
        await done(node, "PUT", "/v0/players/p/voice", voice(server))
        close = (await node.request("GET", "/v0/players/p/voice?wait=10000")).json()["close"]
        assert (close["reason"], close["action"]) == ("tls", "fix")


async def _rubbish(socket: web.WebSocketResponse) -> None:
    for text in ("", "[", "[]", "{}", '{"op": "x"}', '{"op": 2, "d": 3}', "[" * 5000, '{"op": 99, "d": {}, "seq": -1}'):
        await socket.send_str(text)
    for message in (b"", b"\0", b"\0\1", b"\0\1\xff", b"\0\1\x1b" + bytes(500)):
        await socket.send_bytes(message)


async def _flood(socket: web.WebSocketResponse) -> None:
    with suppress(ConnectionError):
        for _ in range(5000):
            await socket.send_str('{"op": 99, "d": {}}')


async def _giant(socket: web.WebSocketResponse) -> None:
    with suppress(ConnectionError):
        await socket.send_str("x" * 2**24)


async def test_rubbish_is_passed_over(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate, ears=(5,)) as server:
        server.on_socket = _rubbish
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(5)
        await session.send_binary(25, b"\0\7rubbish")
        await session.send_binary(27, b"\0\7rubbish")
        nonsense: tuple[object, ...] = (
            {"transition_id": "x"},
            {"transition_id": 70_000, "protocol_version": 0},
            [],
            None,
            {},
        )
        for data in nonsense:
            for op in (11, 13, 21, 22, 24):
                await session.send(op, data)
        await session.heard(5)


@pytest.mark.parametrize("attack", [_flood, _giant])
async def test_floods_cost_their_own_voice_only(
    node: RunningNode, certificate: Path, attack: Callable[[web.WebSocketResponse], Awaitable[None]]
) -> None:
    async with voice_server(certificate) as good, voice_server(certificate) as bad:
        await create(node, "p", "song.opus")
        session = await join(node, good)
        bad.on_socket = attack
        await create(node, "q", "song.opus")
        await done(node, "PUT", "/v0/players/q/voice", voice(bad, guildId="9"))
        close = (await until_voice(node, "q", "closed"))["close"]
        assert (close["reason"], close["action"]) == ("protocol", "fix")
        good.flood(session, 500)
        await session.heard(5)


async def test_a_killed_voice_process_costs_a_new_session(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(5)
        for pid in voice_processes(node):
            os.kill(pid, signal.SIGKILL)
        again = await server.session(2)
        assert again.identity == session.identity
        await again.heard(5, more=False)
        assert again.key != session.key


async def test_by_default_only_discords_servers_are_dialled(tmp_path: Path, certificate: Path) -> None:
    async with voice_server(certificate) as server, running_node(tmp_path) as node:
        await create(node, "p", "x.wav")
        for endpoint in (
            *(server.endpoint, "localhost:443", "0.0.0.0:443", "[::]:443"),
            *("discord.media", "x.discord.media.evil.test"),
        ):
            answer = await node.request("PUT", "/v0/players/p/voice", voice(server, endpoint=endpoint))
            assert (answer.status, answer.json()["code"]) == (403, "endpoint_blocked")
        assert server.dials == 0

"""How connections end: each row of the table in docs/voice.md, by a running node."""

import itertools
from pathlib import Path

import pytest

from tests.support.e2e_players import create, done
from tests.support.running_node import RunningNode, running_node
from tests.support.voice_players import (
    CONFIG,
    join,
    until_voice,
    voice,
)
from tests.support.voice_server import voice_server
from tonearm.core.voice import CLOSES, RESUME_DELAYS_S, CloseRule, Reaction


@pytest.mark.parametrize(("code", "rule"), sorted(CLOSES.items()), ids=str)
async def test_each_close_of_the_server_is_answered_as_it_wants(
    node: RunningNode, certificate: Path, code: int, rule: CloseRule
) -> None:
    """The table of closes in docs/voice.md: resumed with the sound going on, or given up at once and told."""
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(5)
        await session.close(code, "so it is")
        if rule.reaction is Reaction.RESUME:
            await session.until(lambda: session.resumed == 1, "a resume")
            await until_voice(node, "p", "connected")
            await session.heard(5)
            sequences = [packet.sequence for packet in session.packets]
            assert {(b - a) & 0xFFFF for a, b in itertools.pairwise(sequences)} == {1}
        else:
            told = await until_voice(node, "p", "closed")
            close = {"code": code, "reason": "so it is", "by": "server", "action": rule.action.value}
            assert told["close"] == close
            assert server.dials == 1
        assert len(server.sessions) == 1


async def test_a_cut_socket_is_resumed_without_a_missing_packet(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate, ears=(5,)) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(10)
        session.cut()
        await session.until(lambda: session.resumed == 1, "a resume")
        resume = session.of(7)[0]
        assert (resume["server_id"], resume["seq_ack"]) == ("1", session.sequence - 1)  # 9 has come since
        assert session.of(5)[-1]["speaking"] == 1
        await session.heard(20)
        sequences = [packet.sequence for packet in session.packets]
        assert {(b - a) & 0xFFFF for a, b in itertools.pairwise(sequences)} == {1}
        assert all(packet.sound is not None for packet in session.packets)
        assert (await until_voice(node, "p", "connected"))["resumes"] == 1


@pytest.mark.parametrize("code", [4006, 4009, 4011, 4020])
async def test_a_refused_resume_begins_one_new_session(node: RunningNode, certificate: Path, code: int) -> None:
    async with voice_server(certificate) as server:
        server.wrong_resume = code
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(5)
        session.cut()
        again = await server.session(2)
        await again.heard(10, more=False)
        assert again.identity == session.identity
        server.wrong_identify = code
        again.cut()
        told = await until_voice(node, "p", "closed")
        assert (told["close"]["code"], told["close"]["action"]) == (code, "rejoin")


async def test_unanswered_heartbeats_are_a_lost_connection(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate) as server:
        server.heartbeat_interval_ms = 1000  # so long that answers are never late
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.until(lambda: len(session.heartbeats) >= 2, "heartbeats")
        assert (await until_voice(node, "p", "connected"))["pingMs"] is not None
        assert all(beat["seq_ack"] >= 0 for beat in session.heartbeats[1:])
        server.acknowledges = False
        await session.until(lambda: session.resumed == 1, "a resume")
        server.acknowledges = True
        await session.heard(5)


async def test_tries_in_vain_come_to_an_end(tmp_path: Path, certificate: Path, song: bytes) -> None:
    """At a server that never says Hello. On a busy machine a try may not even come to it."""
    (tmp_path / "song.opus").write_bytes(song)
    config = f"{CONFIG}connect_timeout_s = 0.5\n"
    variables = {"SSL_CERT_FILE": str(certificate)}
    async with voice_server(certificate) as server, running_node(tmp_path, config, variables=variables) as node:
        server.says_hello = False
        await create(node, "p", "song.opus")
        await done(node, "PUT", "/v0/players/p/voice", voice(server))
        close = (await until_voice(node, "p", "closed"))["close"]
        assert close == {"code": None, "reason": "timeout", "by": "node", "action": "rejoin"}
        assert server.dials <= len(RESUME_DELAYS_S)

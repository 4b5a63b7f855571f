"""How connections end, by a running node; `tests/core` has each row of the table in docs/voice.md."""

import itertools
from pathlib import Path

import pytest

from tests.support.e2e_players import create
from tests.support.running_node import RunningNode
from tests.support.voice_players import (
    join,
    until_voice,
)
from tests.support.voice_server import voice_server
from tonearm.core.voice import CLOSES, Reaction


@pytest.mark.parametrize("code", [1001, 4014])  # of each reaction one; `tests/core` has them all
async def test_each_close_of_the_server_is_answered_as_it_wants(
    node: RunningNode, certificate: Path, code: int
) -> None:
    """The table of closes in docs/voice.md: resumed with the sound going on, or given up at once and told."""
    rule = CLOSES[code]
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


async def test_a_refused_resume_begins_one_new_session(node: RunningNode, certificate: Path) -> None:
    code = 4006
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

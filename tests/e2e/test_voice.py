"""A player in a Discord voice channel: a whole node, and a voice server of our own with other members' ears."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import av
import pytest
import pytest_asyncio

from tests.support.audio_files import music, opus
from tests.support.e2e_players import create, done, order, until_state
from tests.support.running_node import RunningNode, shared_node
from tests.support.voice_server import SILENCE, VoiceServer, VoiceSession, make_certificate, voice_server

CONFIG: Final = """
[player]
first_listener_wait_ms = 60000
[voice]
endpoints = ["127.0.0.1"]
private_networks = true
"""
TOKEN, SESSION = "the-secret-token", "the-secret-session"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate") / "voice.pem")


@pytest.fixture(scope="module")
def voice_node(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[RunningNode]:
    variables = {"SSL_CERT_FILE": str(certificate), "TONEARM_LOGGING__LEVEL": "debug"}
    with shared_node(tmp_path_factory.mktemp("voice"), CONFIG, variables) as node:
        yield node
    log = "".join(node.log)
    assert TOKEN not in log
    assert SESSION not in log


@pytest_asyncio.fixture
async def node(voice_node: RunningNode) -> AsyncIterator[RunningNode]:
    (voice_node.folder / "song.opus").write_bytes(opus(music(60.0)))
    yield voice_node
    await voice_node.forget_all()


def voice(server: VoiceServer, **more: object) -> dict[str, object]:
    ids = {"channelId": "2", "guildId": "1", "userId": "3"}
    return {"token": TOKEN, "sessionId": SESSION, "endpoint": server.endpoint, **ids, **more}


async def join(node: RunningNode, server: VoiceServer, player: str = "p", **more: object) -> VoiceSession:
    await done(node, "PUT", f"/v0/players/{player}/voice", voice(server, **more))
    session = await server.session(len(server.sessions) + 1 if not server.sessions else len(server.sessions))
    await until_voice(node, player, "connected")
    return session


async def until_voice(node: RunningNode, player: str, phase: str) -> Any:
    state = await until_state(node, player, lambda state: state["voice"] and state["voice"]["state"] == phase)
    return state["voice"]


async def test_packets_of_a_source_reach_the_channel_bit_for_bit(node: RunningNode, certificate: Path) -> None:
    with av.open(node.folder / "song.opus") as media:
        source = [bytes(packet) for packet in media.demux() if packet.size]
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        heard = [packet.payload for packet in await session.heard(100, more=False)]
        first = source.index(heard[5])
        assert heard[5:] == source[first : first + len(heard) - 5]
        sequences = [packet.sequence for packet in session.packets]
        assert [(b - a) & 0xFFFF for a, b in itertools.pairwise(sequences)] == [1] * (len(sequences) - 1)
        assert [packet.counter for packet in session.packets] == list(range(len(session.packets)))


async def test_members_of_an_encrypted_call_hear_it(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate, ears=(5, 7)) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        packets = await session.heard(50)
        assert all(packet.sound is not None for packet in packets)
        assert all(packet.payload != packet.sound for packet in packets)


async def test_a_pause_ends_with_five_silences(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(10)
        await order(node, "p", "pause")
        await session.until(lambda: session.of(5) and session.of(5)[-1]["speaking"] == 0, "the end of speaking")
        assert [packet.payload for packet in session.packets[-5:]] == [SILENCE] * 5
        assert session.packets[-6].payload != SILENCE
        before = session.packets[-1]
        await order(node, "p", "play")
        after = (await session.heard(5))[0]
        assert after.sequence == (before.sequence + 1) & 0xFFFF
        gap_ms = ((after.timestamp - before.timestamp) & 0xFFFF_FFFF) / 48
        assert abs(gap_ms - (after.at_s - before.at_s) * 1000) < 60
        assert [said["speaking"] for said in session.of(5)] == [1, 0, 1]

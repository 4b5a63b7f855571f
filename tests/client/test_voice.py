"""Events of a bot's gateway, in the forms in which its libraries give them, become a voice that follows them."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from tests.support.edge import running_edge, still_node
from tests.support.stand_in_voices import StandInVoices
from tonearm.client import Forbidden, Node, Player, VoiceLink
from tonearm.core.voice import VoiceCredentials, VoicePhase

GUILD, BOT = 41, 10


@pytest.fixture
def voices() -> StandInVoices:
    return StandInVoices()


@pytest_asyncio.fixture
async def player(voices: StandInVoices) -> AsyncIterator[Player]:
    async with (
        still_node(voice=voices) as node,
        running_edge(node) as port,
        Node(f"http://127.0.0.1:{port}") as client,
    ):
        yield client.player("p")


@pytest.fixture
def link(player: Player) -> VoiceLink:
    return player.join_voice(GUILD, BOT, bitrate=64_000)


def state(channel: int | None, session: str = "s1", *, user: int = BOT) -> dict[str, Any]:
    channel_id = None if channel is None else str(channel)
    return {"guild_id": str(GUILD), "user_id": str(user), "channel_id": channel_id, "session_id": session}


def server(token: str, endpoint: str | None = "a.discord.media:443", guild: int = GUILD) -> dict[str, Any]:
    return {"guild_id": str(guild), "token": token, "endpoint": endpoint}


def target(voices: StandInVoices) -> tuple[int, str, str]:
    """Channel, session and token."""
    credentials = voices.credentials["p"]
    return voices.of["p"].status.target.channel_id, credentials.session_id, credentials.token


MOVED = "b.discord.media:443"
OTHERS: list[object] = [
    *(state(8, user=11), state(None, user=11), server("t2", guild=42)),
    *({"op": 0, "t": "MESSAGE_CREATE", "d": {**server("t2")}}, '{"t": "VOICE_SERVER_UPDATE"', "[]", "", None, 5),
    *({"op": 0, "t": "VOICE_STATE_UPDATE", "d": None}, ["VOICE_STATE_UPDATE"], '["VOICE_STATE_UPDATE"]'),
]


@pytest.mark.parametrize(
    "steps",
    [
        # A token holds for one channel, and a session waits for its own.
        [(state(8), (7, "s1", "t1")), (server("t2", MOVED), (8, "s1", "t2"))],
        [(state(7, "s2"), (7, "s1", "t1")), (server("t2"), (7, "s2", "t2"))],
        [(server("t2", MOVED), (7, "s1", "t2")), (state(8), (8, "s1", "t2")), (state(9), (8, "s1", "t2"))],
        [({**state(7), "mute": True}, (7, "s1", "t1")), (server("t3"), (7, "s1", "t3"))],
        [(server("t2", None), (7, "s1", "t2")), (server("t3"), (7, "s1", "t3"))],
        [(state(None), None), (server("t2"), None), (state(9, "s2"), (9, "s2", "t2"))],
        [(state(None), None), (state(9, "s2"), None), (server("t2"), (9, "s2", "t2"))],
        [(event, (7, "s1", "t1")) for event in OTHERS],
        # The forms in which the libraries give them.
        [(json.dumps({"op": 0, "s": 5, "t": "VOICE_STATE_UPDATE", "d": state(8)}), (7, "s1", "t1"))],
        [(json.dumps({"op": 0, "s": 5, "t": "VOICE_SERVER_UPDATE", "d": server("t2")}).encode(), (7, "s1", "t2"))],
        [({"op": 0, "t": "VOICE_SERVER_UPDATE", "d": server("t2")}, (7, "s1", "t2"))],
        [(SimpleNamespace(payload=server("t3")), (7, "s1", "t3"))],
    ],
)
async def test_events_of_the_gateway_are_followed(
    link: VoiceLink, voices: StandInVoices, steps: list[tuple[object, tuple[int, str, str] | None]]
) -> None:
    for event, expected in [(state(7), None), (server("t1"), (7, "s1", "t1")), *steps]:
        await link.take(event)
        assert (target(voices) if voices.of else None) == expected
        for voice in voices.of.values():
            assert voice.status.target.bitrate_bps == 64_000
            assert (voice.status.phase is VoicePhase.CLOSED) == (event == server("t2", None))


async def test_who_waits_hears_when_it_is_joined_or_given_up(
    player: Player, link: VoiceLink, voices: StandInVoices
) -> None:
    with pytest.raises(TimeoutError):
        await link.ready(0.01)
    assert await link.status() is None
    waiting = asyncio.create_task(link.ready())
    await link.take(state(7))
    await link.take(server("t1"))
    voices.of["p"].becomes(VoicePhase.CONNECTED)
    voice = await waiting
    assert (voice.state, voice.channel_id) == (VoicePhase.CONNECTED, "7")
    assert (await player.refresh()).voice_status == voice
    await link.take(state(8))  # a move: who waits hears of the new channel
    waiting = asyncio.create_task(link.ready())
    await link.take(server("t2"))
    voices.of["p"].becomes(VoicePhase.CONNECTED)
    assert (await waiting).channel_id == "8"
    await player.unfollow()
    await link.leave()
    assert await link.status() is None


async def test_the_node_s_refusal_is_told_and_shows_no_secret(link: VoiceLink, voices: StandInVoices) -> None:
    await link.take(state(7, "SECRET"))
    with pytest.raises(Forbidden, match=r"voice\.endpoints") as caught:
        await link.take(server("SECRET", "evil.example:443"))
    assert "SECRET" not in f"{caught.value!r}{link!r}"
    assert "p" not in voices.credentials
    await link.take(server("t2"))
    assert voices.credentials["p"] == VoiceCredentials("t2", "SECRET")

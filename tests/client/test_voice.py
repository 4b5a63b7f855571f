"""Events of a bot's gateway, in the forms in which its libraries give them, become a voice that follows them."""

import asyncio
import json
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.support.edge import running_edge, still_node
from tests.support.eventually import eventually
from tests.support.readme import REPOSITORY, blocks
from tests.support.stand_in_voices import StandInVoices
from tonearm.client import Forbidden, Node, Player, VoiceLink
from tonearm.core.voice import VoiceCredentials, VoicePhase

GUILD, BOT = 41, 10


@pytest_asyncio.fixture
async def voices() -> StandInVoices:
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


@pytest.mark.parametrize("is_server_first", [False, True])
async def test_both_events_in_either_order_join(link: VoiceLink, voices: StandInVoices, is_server_first: bool) -> None:
    events = [state(7), server("t1")]
    await link.take(events[is_server_first])
    assert voices.of == {}
    await link.take(events[not is_server_first])
    assert target(voices) == (7, "s1", "t1")
    assert voices.of["p"].status.target.bitrate_bps == 64_000


async def test_moves_and_servers_that_come_and_go_are_followed(link: VoiceLink, voices: StandInVoices) -> None:
    await link.take(state(7))
    await link.take(server("t1"))
    await link.take(state(8))
    assert target(voices) == (7, "s1", "t1")  # a token holds for one channel
    await link.take(server("t2", "b.discord.media:443"))
    assert target(voices) == (8, "s1", "t2")
    await link.take(server("t3", None))
    assert voices.of["p"].status.phase is VoicePhase.CLOSED
    await link.take(server("t4"))
    assert target(voices) == (8, "s1", "t4")


async def test_a_new_session_waits_for_its_token_and_a_muted_bot_for_none(
    link: VoiceLink, voices: StandInVoices
) -> None:
    for event in (state(7), server("t1"), state(7, "s2")):
        await link.take(event)
    assert target(voices) == (7, "s1", "t1")
    await link.take(server("t2"))
    assert target(voices) == (7, "s2", "t2")
    await link.take({**state(7, "s2"), "mute": True})
    await link.take(server("t3"))
    assert target(voices) == (7, "s2", "t3")


async def test_a_move_whose_server_comes_first_is_followed(link: VoiceLink, voices: StandInVoices) -> None:
    for event in (state(7), server("t1"), server("t2", "b.discord.media:443"), state(8)):
        await link.take(event)
    assert target(voices) == (8, "s1", "t2")
    await link.take(state(9))
    assert target(voices) == (8, "s1", "t2")


async def test_who_waits_during_a_move_hears_of_the_new_channel(link: VoiceLink, voices: StandInVoices) -> None:
    for event in (state(7), server("t1")):
        await link.take(event)
    voices.of["p"].becomes(VoicePhase.CONNECTED)
    await link.take(state(8))
    with pytest.raises(TimeoutError):
        await link.ready(0.01)
    waiting = asyncio.create_task(link.ready())
    await link.take(server("t2"))
    voices.of["p"].becomes(VoicePhase.CONNECTED)
    assert (await waiting).channel_id == "8"


async def test_out_of_the_channel_is_out_of_the_voice_and_nothing_of_before_counts(
    link: VoiceLink, voices: StandInVoices
) -> None:
    await link.take(state(7))
    await link.take(server("t1"))
    await link.take(state(None))
    assert voices.of == {}
    await link.take(server("t2"))
    assert voices.of == {}
    await link.take(state(9, "s2"))
    assert target(voices) == (9, "s2", "t2")


async def test_the_programs_of_the_document_are_ones() -> None:
    programs = blocks("python", (REPOSITORY / "docs" / "voice.md").read_text(encoding="utf-8"))
    assert len(programs) == 2
    for program in programs:
        compile(program, "voice.md", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert program.startswith("link = player.join_voice(")


@dataclass
class ShardPayload:
    payload: Any


async def test_events_come_in_the_forms_of_the_libraries(link: VoiceLink, voices: StandInVoices) -> None:
    await link.take(json.dumps({"op": 0, "s": 5, "t": "VOICE_STATE_UPDATE", "d": state(7)}))
    await link.take(json.dumps({"op": 0, "s": 6, "t": "VOICE_SERVER_UPDATE", "d": server("t1")}).encode())
    assert target(voices) == (7, "s1", "t1")
    await link.take({"op": 0, "t": "VOICE_SERVER_UPDATE", "d": server("t2")})
    assert target(voices) == (7, "s1", "t2")
    await link.take(ShardPayload(server("t3")))
    assert target(voices) == (7, "s1", "t3")


async def test_what_is_about_others_or_no_event_changes_nothing(link: VoiceLink, voices: StandInVoices) -> None:
    await link.take(state(7))
    await link.take(server("t1"))
    others: list[object] = [
        *(state(8, user=11), state(None, user=11), server("t2", guild=42)),
        *({"op": 0, "t": "MESSAGE_CREATE", "d": {**server("t2")}}, '{"t": "VOICE_SERVER_UPDATE"', "[]", "", None, 5),
        *({"op": 0, "t": "VOICE_STATE_UPDATE", "d": None}, ["VOICE_STATE_UPDATE"], '["VOICE_STATE_UPDATE"]'),
    ]
    for event in others:
        await link.take(event)
    assert target(voices) == (7, "s1", "t1")


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
    await player.unfollow()
    await link.leave()
    assert await link.status() is None


async def test_who_waits_asks_nothing_while_the_bot_is_out_of_the_channel(
    player: Player, voices: StandInVoices
) -> None:
    asked: list[str] = []

    async def send(method: str, what: str, *body: Any) -> Any:
        asked.append(what)
        return await player._send(method, what, *body)

    link = VoiceLink(send, GUILD, BOT, None)
    await link.take(state(7))
    await link.take(server("t1"))
    waiting = asyncio.create_task(link.ready(60))
    await eventually(lambda: "voice?wait=1000" in asked, "it waits")
    await link.take(state(None))
    before = asked.count("voice?wait=1000")  # twice, if the machine takes a second for this
    for _ in range(20):
        await link.status()
    assert asked.count("voice?wait=1000") == before
    await link.take(server("t2"))
    await link.take(state(9, "s2"))
    voices.of["p"].becomes(VoicePhase.CONNECTED)
    assert (await waiting).channel_id == "9"


async def test_the_node_s_refusal_is_told_and_shows_no_secret(link: VoiceLink, voices: StandInVoices) -> None:
    await link.take(state(7, "SECRET"))
    with pytest.raises(Forbidden, match=r"voice\.endpoints") as caught:
        await link.take(server("SECRET", "evil.example:443"))
    assert "SECRET" not in f"{caught.value!r}{link!r}"
    assert "p" not in voices.credentials
    await link.take(server("t2"))
    assert voices.credentials["p"] == VoiceCredentials("t2", "SECRET")

"""End-to-end encrypted calls, with other members' ears: nothing leaves unencrypted, in no moment."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import davey

from tests.support.e2e_players import create
from tests.support.running_node import RunningNode
from tests.support.voice_players import join, nothing_was_in_the_clear, packets_of_song, until_voice
from tests.support.voice_server import Call, VoiceSession, voice_server


@asynccontextmanager
async def in_call(
    node: RunningNode, certificate: Path, *, ears: tuple[int, ...]
) -> AsyncIterator[tuple[Call, VoiceSession]]:
    """A player in a call that these members have founded."""
    async with voice_server(certificate, ears=ears) as server:
        assert server.call is not None
        await create(node, "p", "song.opus")
        yield server.call, await join(node, server)


async def test_members_come_and_go(node: RunningNode, certificate: Path) -> None:
    async with in_call(node, certificate, ears=(5, 6)) as (call, session):
        await session.heard(5)
        await call.join(7)
        await session.heard(10)
        await call.leave(5)
        await session.heard(10)
        await call.leave(6)
        await call.leave(7)  # the bot is alone, and commits
        assert session.of(28)
        ear = await call.join(8)
        heard = await session.heard(10)
        assert all(packet.sound in set(packets_of_song(node)) for packet in heard[5:])
        shown = (await until_voice(node, "p", "connected"))["dave"]
        assert (shown["version"], shown["ready"], shown["epoch"]) == (1, True, call.epoch)
        assert shown["privacyCode"].replace(" ", "") == davey.generate_displayable_code(ear.authenticator, 30, 5)
        nothing_was_in_the_clear(node, session)


async def test_alone_in_a_call_nothing_is_sent_until_somebody_comes(node: RunningNode, certificate: Path) -> None:
    async with in_call(node, certificate, ears=()) as (call, session):
        await session.until(lambda: session.of(26), "a key package")
        assert not (await until_voice(node, "p", "connected"))["dave"]["ready"]
        call.leaves.append(3)
        await call.join(5)
        heard = await session.heard(10)
        assert all(packet.sound is not None for packet in heard)
        nothing_was_in_the_clear(node, session)


async def test_what_cannot_be_worked_up_is_healed_without_a_storm(node: RunningNode, certificate: Path) -> None:
    async with in_call(node, certificate, ears=(5, 6)) as (call, session):
        await session.heard(5)
        session.forget_key_package()
        for transition in (700, 701, 702):
            await session.send_binary(29, struct.pack(">H", transition) + b"rubbish")
        await session.next_key_package()
        assert session.of(31)[0] == {"transition_id": 700}
        await call.take_back()
        heard = await session.heard(10)
        assert heard[-1].sound is not None
        assert len(session.of(31)) <= 2
        nothing_was_in_the_clear(node, session)

"""A voice connection and the voice of a player, with sockets and media that the test plays."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest_asyncio
import uvloop

from tests.support.eventually import eventually
from tests.support.hand_time import LoopTime
from tests.support.voice_parts import SETTINGS, FakePlayer, VoiceParts, say, voice_parts
from tonearm.core.voice import (
    DaveStatus,
    VoiceCredentials,
    VoiceEndpoint,
    VoicePhase,
    VoiceTarget,
)
from tonearm.node.parts import wall_ms
from tonearm.player.clients.sinks import FrameSink
from tonearm.player.player import Player
from tonearm.sources.guard import AddressGuard
from tonearm.voice.connection import VoiceWays
from tonearm.voice.gateway import GatewayDialler
from tonearm.voice.media import VoiceProcesses
from tonearm.voice.voices import Voices

CREDENTIALS = VoiceCredentials("the-secret-token", "the-secret-session")


def target(channel_id: int = 2) -> VoiceTarget:
    return VoiceTarget(1, channel_id, 3, VoiceEndpoint("127.0.0.1", 443))


@pytest_asyncio.fixture
async def parts() -> AsyncIterator[VoiceParts]:
    async with voice_parts() as parts:
        yield parts


@asynccontextmanager
async def with_voices(parts: VoiceParts, move_limit_s: float, chance: float = 0.5) -> AsyncIterator[Voices]:
    guard, dialler = AddressGuard(private_networks=True), cast("GatewayDialler", parts)
    processes = cast("VoiceProcesses", parts)
    ways = VoiceWays(SETTINGS, dialler, guard, processes, wall_ms, move_limit_s, lambda: chance)
    voices = Voices(ways)
    try:
        yield voices
    finally:
        await voices.stop()


@pytest_asyncio.fixture
async def voices(parts: VoiceParts) -> AsyncIterator[Voices]:
    async with with_voices(parts, 10_000.0) as voices:
        yield voices


@pytest_asyncio.fixture
async def hasty_voices(parts: VoiceParts) -> AsyncIterator[Voices]:
    async with with_voices(parts, 0.3) as voices:
        yield voices


def put(voices: Voices, player: FakePlayer, channel_id: int = 2) -> None:
    voices.put(cast("Player", player), target(channel_id), CREDENTIALS)


async def until_phase(player: FakePlayer, phase: VoicePhase) -> None:
    await eventually(lambda: player.shown and player.shown[-1].phase is phase, lambda: f"{phase}: {player.shown[-1:]}")


async def test_members_of_a_try_that_failed_are_no_members_of_the_next(voices: Voices, parts: VoiceParts) -> None:
    player = FakePlayer()
    put(voices, player)
    parts.ready(0)
    say(parts.sockets[0].reports, 11, {"user_ids": ["99"]})
    await parts.selected(0)
    parts.sockets[0].reports.lost(1006, "")
    await parts.changes.until(lambda: len(parts.sockets) == 2, "the next try")
    parts.ready(1)
    say(parts.sockets[1].reports, 11, {"user_ids": ["5"]})
    await parts.selected(1)
    parts.say_description(1)
    await until_phase(player, VoicePhase.CONNECTED)
    assert parts.media[0].told == [(11, {"user_ids": ["5"]})]


async def test_what_came_while_a_process_started_is_kept_over_a_resume(voices: Voices, parts: VoiceParts) -> None:
    player = FakePlayer()
    put(voices, player)
    parts.may_open.clear()
    await parts.describe(0)
    say(parts.sockets[0].reports, 11, {"user_ids": ["5"]})
    parts.sockets[0].reports.lost(1006, "")
    await parts.changes.until(lambda: len(parts.sockets) == 2, "the next try")
    assert player.shown[-1].phase is VoicePhase.CONNECTING
    reports = parts.sockets[1].reports
    reports.opened()
    say(reports, 8, {"heartbeat_interval": 600_000})
    assert '"op":7,' in str(parts.sockets[1].said[0])
    say(reports, 9, None)
    parts.may_open.set()
    await until_phase(player, VoicePhase.CONNECTED)
    assert parts.media[0].told == [(11, {"user_ids": ["5"]})]


async def test_a_server_that_does_not_answer_over_udp_is_asked_again_in_a_new_session(
    voices: Voices, parts: VoiceParts
) -> None:
    player, time = FakePlayer(), LoopTime()
    put(voices, player)
    parts.answers_discovery = False
    parts.ready(0)
    while len(parts.sockets) == 1:
        assert player.shown[-1].phase is VoicePhase.CONNECTING
        time.forward(0.05)
        await asyncio.sleep(0)
    assert parts.sockets[0].hung_up == 1000
    parts.answers_discovery = True
    await parts.describe(1)
    await until_phase(player, VoicePhase.CONNECTED)


async def test_a_try_that_is_lost_while_it_asks_for_its_address_asks_no_more(voices: Voices, parts: VoiceParts) -> None:
    """Its socket is closed, so asking would fail."""
    time = LoopTime(stands=True)
    put(voices, FakePlayer())
    parts.answers_discovery = False
    parts.ready(0)
    await parts.changes.until(lambda: parts.asked, "a packet of discovery")
    (asking,) = [task for task in asyncio.all_tasks() if "VoiceConnection._discover" in str(task)]
    parts.sockets[0].reports.lost(1006, "")
    time.forward(1.0)
    await parts.changes.until(lambda: len(parts.sockets) == 2, "the next try")
    assert not asking.done()
    parts.ready(1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert asking.cancelled()


async def test_a_server_that_never_answers_over_udp_is_given_up(voices: Voices, parts: VoiceParts) -> None:
    player, time = FakePlayer(), LoopTime()
    put(voices, player)
    parts.answers_discovery = False
    for number in (0, 1):
        parts.ready(number)
        while len(parts.sockets) == number + 1 and player.shown[-1].phase is VoicePhase.CONNECTING:
            time.forward(0.05)
            await asyncio.sleep(0)
    close = player.shown[-1].close
    assert close is not None
    assert (close.reason, close.by, close.action, close.code) == ("udp_blocked", "node", "fix", None)


async def moved_twice(voices: Voices, parts: VoiceParts, player: FakePlayer) -> AsyncIterator[FrameSink]:
    """A player in a channel, and each time that it has moved to one whose call has no group yet: what it had first."""
    put(voices, player)
    await parts.describe(0)
    await until_phase(player, VoicePhase.CONNECTED)
    (older,) = player.sinks
    for number, channel_id in ((1, 4), (2, 5)):
        put(voices, player, channel_id)
        await parts.describe(number, dave_version=1)
        await parts.changes.until(lambda count=number + 1: len(parts.media) == count, "media")  # type: ignore[misc]
        yield older


async def test_the_older_connection_sends_until_the_newest_of_many_can(voices: Voices, parts: VoiceParts) -> None:
    player = FakePlayer()
    async for older in moved_twice(voices, parts, player):
        assert player.sinks == [older]
    assert parts.sockets[1].hung_up == 1000  # of many only the newest lives
    parts.media[1].reports.dave_changed(DaveStatus(1, ready=True))  # what is over changes nothing
    assert player.sinks == [older]
    parts.media[2].reports.dave_changed(DaveStatus(1, ready=True))
    assert player.sinks != [older]
    assert len(player.sinks) == 1
    await parts.changes.until(lambda: parts.sockets[0].hung_up == 1000, "the end of the older one")


async def test_a_second_move_has_a_wait_of_its_own(hasty_voices: Voices, parts: VoiceParts) -> None:
    """Nobody is there yet, so neither call has a group: the newest takes over in the end, by itself."""
    player = FakePlayer()
    *_, older = [sink async for sink in moved_twice(hasty_voices, parts, player)]
    await eventually(lambda: player.sinks and player.sinks != [older], "the newest connection listens")
    assert player.shown[-1].target == target(5)


async def test_a_close_whose_words_hold_a_secret_is_told_without_them(voices: Voices, parts: VoiceParts) -> None:
    player = FakePlayer()
    put(voices, player)
    parts.sockets[0].reports.opened()
    parts.sockets[0].reports.lost(4004, "no such token: the-secret-token")
    close = player.shown[-1].close
    assert close is not None
    assert (close.code, close.reason) == (4004, "authentication failed")


def test_a_heartbeat_may_be_due_at_once() -> None:
    """On the loop that a node has; it gives no timer for what is due already."""

    async def join() -> None:
        async with voice_parts() as parts, with_voices(parts, 10_000.0, chance=0.0) as voices:
            player = FakePlayer()
            put(voices, player)
            await parts.describe(0)
            await parts.changes.until(lambda: len(parts.media) == 1, "media")
            (heartbeat,) = (json.loads(said) for said in parts.sockets[0].said if '"op":3,' in str(said))
            say(parts.sockets[0].reports, 6, heartbeat["d"])
            assert player.shown[-1].ping_ms is not None

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(join())

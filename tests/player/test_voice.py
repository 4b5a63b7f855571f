"""A player's voice: what its clients are told of it, and when the clock of a new player begins."""

from dataclasses import replace

import pytest

from tests.support.player_bench import PlayerBench
from tests.support.sinks import MemoryListener
from tonearm.core.events import PlayerState
from tonearm.core.voice import (
    DaveStatus,
    PacketCounts,
    VoiceEndpoint,
    VoicePhase,
    VoiceStatus,
    VoiceTarget,
    closed_by_server,
)

TARGET = VoiceTarget(1, 2, 3, VoiceEndpoint("a.discord.media", 443))
CONNECTING = VoiceStatus(VoicePhase.CONNECTING, TARGET, 1)
CONNECTED = VoiceStatus(VoicePhase.CONNECTED, TARGET, 2, dave=DaveStatus(1))
READY = replace(CONNECTED, dave=DaveStatus(1, ready=True))


def told(bench: PlayerBench) -> int:
    return bench.events.ops.count("VoiceState")


async def test_every_change_of_state_is_told_and_no_change_of_figures() -> None:
    bench = PlayerBench("a")
    for status in (CONNECTING, CONNECTED, replace(CONNECTED, phase=VoicePhase.RESUMING)):
        bench.player.voice_changed(status)
    assert told(bench) == 3
    counted = replace(CONNECTED, phase=VoicePhase.RESUMING, packets=PacketCounts(50), ping_ms=20)
    bench.player.voice_changed(counted)
    assert told(bench) == 3
    assert bench.player.status().voice == counted
    bench.player.voice_changed(replace(CONNECTED, phase=VoicePhase.CLOSED, close=closed_by_server(4014)))
    bench.player.voice_changed(None)
    bench.player.voice_changed(replace(CONNECTED, phase=VoicePhase.NONE))
    assert told(bench) == 5
    assert bench.player.status().voice is None


async def test_changes_of_the_encryption_alone_are_told_once_a_second() -> None:
    bench = PlayerBench("a")
    bench.player.voice_changed(CONNECTED)
    before = told(bench)
    for epoch in range(1, 10):
        bench.player.voice_changed(replace(CONNECTED, dave=DaveStatus(1, ready=True, epoch=epoch)))
    assert told(bench) == before + 1
    assert bench.player.status().voice == replace(CONNECTED, dave=DaveStatus(1, ready=True, epoch=9))
    bench.time.forward(1.0)
    assert told(bench) == before + 2
    bench.time.forward(10.0)
    assert told(bench) == before + 2
    for epoch in (10, 11):
        bench.player.voice_changed(replace(CONNECTED, dave=DaveStatus(1, ready=True, epoch=epoch)))
    assert told(bench) == before + 3
    await bench.player.delete()
    bench.player.voice_changed(None)
    bench.time.forward(5.0)
    assert told(bench) == before + 3


@pytest.mark.parametrize(
    ("status", "begins"),
    [
        (CONNECTED, False),
        (READY, True),
        (replace(CONNECTED, phase=VoicePhase.CLOSED, close=closed_by_server(4014)), True),
    ],
)
async def test_the_clock_waits_until_sound_can_flow_and_ten_seconds_at_most(status: VoiceStatus, begins: bool) -> None:
    bench = PlayerBench("a")
    bench.player.await_voice()
    bench.player.voice_changed(CONNECTING)
    bench.time.forward(9.9)
    bench.player.attach(MemoryListener())
    bench.player.attach(MemoryListener(), is_voice=True)
    assert not bench.player.snapshot().clock_started
    bench.player.voice_changed(status)
    assert bench.player.snapshot().clock_started is begins
    bench.time.forward(0.2)
    assert bench.player.snapshot().clock_started
    assert bench.player.status().state is PlayerState.LOADING

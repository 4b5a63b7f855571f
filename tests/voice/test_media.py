"""A voice process and what it sends: a real process, real UDP sockets, and the node's side of it."""

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.eventually import eventually
from tests.support.voice_media import SILENCE, VoiceEnds, frames, voice_ends, voice_processes
from tonearm.core.voice_gateway import MODES
from tonearm.voice.media import VoiceProcesses

SAMPLES = 960


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def processes() -> AsyncIterator[VoiceProcesses]:
    """Shared by tests that leave the process as it is."""
    async with voice_processes() as processes:
        yield processes


@pytest_asyncio.fixture(loop_scope="module")
async def own_processes() -> AsyncIterator[VoiceProcesses]:
    async with voice_processes() as processes:
        yield processes


async def play(ends: VoiceEnds, packets: list[bytes]) -> None:
    """A frame each 20 ms, as the player's clock gives them. It waits for a process that the machine keeps from working,
    which would drop frames."""
    heard = len(ends.sounds)
    for number, packet in enumerate(packets):
        await ends.until_sounds(heard + number - 5)
        ends.media.frame(packet)
        await asyncio.sleep(0.02)


def pid_of(processes: VoiceProcesses) -> int:
    (process,) = processes.figures().processes
    return process.pid


def status_of(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def the_pids(processes: VoiceProcesses) -> dict[int, int]:
    """How many connections each process has."""
    return {process.pid: process.connections for process in processes.figures().processes}


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_given_comes_out_bit_for_bit(processes: VoiceProcesses, mode: str) -> None:
    ends = VoiceEnds(mode)
    async with voice_ends(processes, ends):
        await play(ends, frames(20))
        await ends.until_sounds(20)
    assert ends.sounds == frames(20)
    assert {packet.ssrc for packet in ends.packets} == {ends.setting.ssrc}


@pytest.mark.parametrize("mode", MODES)
async def test_packets_are_numbered_without_a_gap_and_no_nonce_is_used_twice(
    processes: VoiceProcesses, mode: str
) -> None:
    ends = VoiceEnds(mode)
    async with voice_ends(processes, ends):
        for run in range(2):
            await play(ends, frames(10, 10 * run))
            await ends.until_silent(run + 1)
    packets = ends.packets
    assert all((after.sequence - before.sequence) & 0xFFFF == 1 for before, after in pairwise(packets))
    assert [packet.counter for packet in packets] == list(range(packets[0].counter, packets[0].counter + len(packets)))


async def test_time_goes_on_in_pauses(processes: VoiceProcesses) -> None:
    ends = VoiceEnds()
    async with voice_ends(processes, ends):
        await play(ends, frames(5))
        await ends.until_silent()
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(0.5)
        waited_s = asyncio.get_running_loop().time() - before
        ends.media.frame(frames(1, 5)[0])
        await ends.until_sounds(6)
    steps = [(after.timestamp - before.timestamp) & 0xFFFFFFFF for before, after in pairwise(ends.packets)]
    assert all(step and step % SAMPLES == 0 for step in steps)
    assert steps[-1] >= (int(waited_s / 0.02) - 1) * SAMPLES  # and not one frame, as where the time stands still


async def test_a_pause_is_five_silences_and_is_told_with_the_number_of_frames(processes: VoiceProcesses) -> None:
    ends = VoiceEnds()
    async with voice_ends(processes, ends):
        await play(ends, frames(10))
        await ends.until_silent()
        assert (ends.silent_after[-1], ends.media.frames) == (10, 10)
    assert [packet.payload for packet in ends.packets[-5:]] == [SILENCE] * 5
    assert ends.packets[-6].payload == frames(10)[-1]


async def test_a_frame_within_the_silences_cancels_the_rest(processes: VoiceProcesses) -> None:
    ends = VoiceEnds()
    async with voice_ends(processes, ends):
        ends.media.frame(frames(1)[0])
        await ends.changes.until(lambda: ends.silences, "a silence")
        ends.media.frame(frames(2)[1])
        await ends.changes.until(lambda: 2 in ends.silent_after, "silent after both")
        last = [SILENCE] * 5
        await ends.changes.until(lambda: [one.payload for one in ends.packets[-5:]] == last, "the last silence")
    payloads = [packet.payload for packet in ends.packets]
    between, after = payloads.index(frames(2)[1]) - 1, payloads[payloads.index(frames(2)[1]) + 1 :]
    assert after == [SILENCE] * 5
    assert ends.silent_after == ([1, 2] if between == 5 else [2])  # five only where the second frame came too late


async def test_finish_ends_with_five_silences_and_nothing_comes_after(processes: VoiceProcesses) -> None:
    ends, other = VoiceEnds(), VoiceEnds()
    async with voice_ends(processes, ends, other):
        await play(ends, frames(3))
        await ends.media.finish()
        ends.media.frame(frames(1)[0])
        await play(other, frames(10))
        await other.until_sounds(10)
        await ends.changes.until(lambda: ends.silences >= 5, "five silences")
        assert [packet.payload for packet in ends.packets][-6:] == [frames(3)[-1], *[SILENCE] * 5]
        assert the_pids(processes)[pid_of(processes)] == 1


async def test_a_process_that_dies_is_told_to_each_of_its_connections_and_another_takes_them(
    own_processes: VoiceProcesses,
) -> None:
    first, second = VoiceEnds(), VoiceEnds()
    async with voice_ends(own_processes, first, second):
        await play(first, frames(2))
        dead = pid_of(own_processes)
        os.kill(dead, signal.SIGKILL)
        await first.changes.until(lambda: first.losses, "the first hears it")
        await second.changes.until(lambda: second.losses, "the second hears it")
        first.media.frame(b"into nothing")  # its connection may not know yet
        await first.media.finish()
        async with voice_ends(own_processes, again := VoiceEnds()):
            await play(again, frames(3))
            await again.until_sounds(3)
            figures = own_processes.figures()
    (process,) = figures.processes
    assert process.pid != dead
    assert figures.restarts == 1
    assert (first.losses, second.losses) == (1, 1)


async def test_after_it_stood_still_ten_frames_leave_at_once_and_the_older_ones_are_dropped(
    processes: VoiceProcesses,
) -> None:
    ends = VoiceEnds()
    async with voice_ends(processes, ends):
        await play(ends, frames(2))
        await ends.until_sounds(2)
        os.kill(pid_of(processes), signal.SIGSTOP)
        try:
            for packet in frames(200, 2):
                ends.media.frame(packet)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        finally:
            os.kill(pid_of(processes), signal.SIGCONT)
        await ends.until_silent()
        await ends.changes.until(lambda: ends.counts.dropped, "the counts")
    assert ends.sounds == frames(2) + frames(10, 192)
    assert (ends.counts.sent, ends.counts.dropped) == (12, 190)
    assert ends.silent_after[-1] == ends.media.frames == 202


async def test_frames_that_a_full_socket_lost_are_counted_and_the_pause_is_told_all_the_same(
    processes: VoiceProcesses,
) -> None:
    ends = VoiceEnds()
    async with voice_ends(processes, ends):
        await play(ends, frames(1))
        await ends.until_sounds(1)
        os.kill(pid_of(processes), signal.SIGSTOP)
        try:
            for packet in frames(3000, 1):
                ends.media.frame(packet * 10)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        finally:
            os.kill(pid_of(processes), signal.SIGCONT)
        await ends.changes.until(lambda: ends.media.frames in ends.silent_after, "silent after all of them")
        await ends.changes.until(
            lambda: ends.counts.sent + ends.counts.dropped == ends.media.frames,
            lambda: f"each frame is sent or dropped: {ends.counts} of {ends.media.frames}",
        )


async def test_messages_for_the_process_outlast_a_full_socket(processes: VoiceProcesses) -> None:
    ends = VoiceEnds(dave_version=1)
    async with voice_ends(processes, ends):
        await ends.changes.until(lambda: ends.said, "a key package")
        os.kill(pid_of(processes), signal.SIGSTOP)
        try:
            for packet in frames(3000):
                ends.media.frame(packet * 10)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            ends.media.gateway(24, {"epoch": 1, "protocol_version": 1})
        finally:
            os.kill(pid_of(processes), signal.SIGCONT)
        await ends.changes.until(lambda: len(ends.said) == 2, "a second key package")
    assert not ends.sounds  # there is no group


STRANGE: list[dict[str, Any]] = [
    {"user_ids": [str(number) for number in range(60_000)]},
    {"user_ids": ["9" * 900_000]},
    {"user_ids": 2**70, "epoch": -(2**70)},
    {"user_ids": ["\ud800"]},
    {"user_ids": [[[[[]]]], None, 1.5, {}]},
    {},
]


async def test_a_second_healing_waits_for_its_time_only(processes: VoiceProcesses) -> None:
    """And not for the next keepalive, which is later."""
    ends = VoiceEnds(dave_version=1)
    async with voice_ends(processes, ends):
        for transition in (b"\0\1", b"\0\2"):
            ends.media.gateway(30, transition + b"rubbish")
        await ends.changes.until(lambda: (31, {"transition_id": 2}) in ends.said, "the second request")
    assert ends.keepalives == [0]


@pytest.mark.parametrize("op", [11, 13, 21, 22, 24])
async def test_strange_messages_of_a_server_cost_no_process(processes: VoiceProcesses, op: int) -> None:
    ends, other = VoiceEnds(dave_version=1), VoiceEnds()
    async with voice_ends(processes, ends, other):
        for data in STRANGE:
            ends.media.gateway(op, {**data, "user_id": data.get("user_ids"), "transition_id": data.get("epoch")})
        for binary in (25, 27, 29, 30):
            ends.media.gateway(binary, b"")
            ends.media.gateway(binary, secrets.token_bytes(140_000))
            ends.media.gateway(binary, bytes(900_000))
        await play(other, frames(5))
        await other.until_sounds(5)
        ends.media.gateway(24, {"epoch": 1, "protocol_version": 1})
        await ends.changes.until(
            lambda: sum(isinstance(said, bytes) and said[0] == 26 for said in ends.said) >= 2, "it still answers"
        )
    assert (ends.losses, other.losses) == (0, 0)


async def test_what_comes_in_is_thrown_away(processes: VoiceProcesses) -> None:
    ends = VoiceEnds()
    async with voice_ends(processes, ends):
        for _ in range(2000):
            ends.udp.sendto(secrets.token_bytes(1200), ends.peer)
        await play(ends, frames(10))
        await ends.until_sounds(10)
    assert ends.sounds == frames(10)


async def test_a_large_call_has_a_process_of_its_own(own_processes: VoiceProcesses) -> None:
    large, *small = VoiceEnds(is_large=True), VoiceEnds(), VoiceEnds()
    async with voice_ends(own_processes, large, *small):
        assert sorted(the_pids(own_processes).values()) == [1, 2]
        large.media.close()
        async with voice_ends(own_processes, VoiceEnds(is_large=True)):
            assert sorted(the_pids(own_processes).values()) == [1, 2]


async def test_it_is_shut_in(processes: VoiceProcesses) -> None:
    async with voice_ends(processes, VoiceEnds()):
        status = status_of(pid_of(processes))
    own = status_of(os.getpid())
    if "Seccomp:\t" not in own:
        pytest.skip("the kernel has no seccomp")
    assert "Seccomp:\t2\n" in status
    assert "NoNewPrivs:\t1\n" in status


async def test_no_key_is_in_a_text_or_a_log(own_processes: VoiceProcesses, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ends = VoiceEnds(dave_version=1)
    async with voice_ends(own_processes, ends):
        await play(ends, frames(3))
        os.kill(pid_of(own_processes), signal.SIGKILL)
        await ends.changes.until(lambda: ends.losses, "the loss is told")
        seen = caplog.text + repr(ends.setting) + repr(ends.media) + repr(vars(ends.media))
    assert not any(
        form in seen for form in (repr(ends.setting.key), ends.setting.key.hex(), str(list(ends.setting.key)))
    )


async def test_all_processes_end_with_the_node() -> None:
    async with voice_processes() as processes, voice_ends(processes, VoiceEnds(), VoiceEnds(is_large=True)):
        pids = list(the_pids(processes))
    assert len(pids) == 2
    await eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "both have ended")

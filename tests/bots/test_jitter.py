"""Two clocks and a network between them, with time driven by hand."""

import random

import pytest

from tests.support.pcm import largest_step, tone
from tonearm.bots.source import JitterBuffer, blend

FRAME_S = 0.02


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def run(
    seconds: float, *, ppm: float = 0.0, jitter_s: float = 0.0, gap: tuple[float, float] | None = None
) -> JitterBuffer:
    """A node that is `ppm` faster than the reader, whose frames are up to `jitter_s` late, and come all at once after
    the time of `gap`."""
    clock = Clock()
    buffer = JitterBuffer(clock)
    chance = random.Random(4)
    sent = arrived_s = 0.0
    for tick in range(int(seconds / FRAME_S)):
        clock.now_s = tick * FRAME_S
        while True:
            due_s = sent * FRAME_S / (1 + ppm / 1e6)
            if gap is not None and gap[0] < due_s < gap[1]:
                due_s = gap[1]
            arrived_s = max(arrived_s, due_s + chance.random() * jitter_s)
            if arrived_s > clock.now_s:
                break
            buffer.push(bytes([int(sent) % 256]), 0)
            sent += 1
        buffer.pop()
    return buffer


def test_after_the_first_frames_there_is_no_hole() -> None:
    stats = run(60, jitter_s=0.06).stats
    assert stats.silence <= 12  # before the first sound
    assert stats.dropped == 0
    assert abs(stats.received - stats.played) <= 12


@pytest.mark.parametrize("ppm", [-200.0, 200.0])
def test_clocks_that_differ_cost_a_frame_now_and_then(ppm: float) -> None:
    """200 ppm is one frame in 100 s. Never late by more than the rules allow."""
    buffer = run(900, ppm=ppm, jitter_s=0.03)
    stats = buffer.stats
    assert stats.dropped + stats.silence < 40
    assert len(buffer) <= 12
    if ppm > 0:
        assert stats.drift_ppm == pytest.approx(ppm, abs=50)


def test_what_came_late_is_dropped_so_that_it_is_on_time_again() -> None:
    buffer = run(60, gap=(10, 14))
    assert 190 <= buffer.stats.silence <= 215
    assert len(buffer) <= 11
    assert buffer.stats.dropped >= 150


def test_a_reader_that_stood_still_hears_the_newest() -> None:
    clock = Clock()
    buffer = JitterBuffer(clock)
    for number in range(200):
        buffer.push(bytes([number]), 0)
    assert buffer.pop() == bytes([195])
    assert buffer.stats.dropped == 195


def test_two_frames_become_one_without_a_step() -> None:
    pcm = tone(440.0, frames=2, peak=8000)
    old, new = pcm[:3840], pcm[3840:7680]
    one = blend(old, new)
    assert len(one) == 3840
    assert one[:4] == old[:4]
    assert largest_step(one) <= 2 * largest_step(pcm)
    assert blend(old, old) == old

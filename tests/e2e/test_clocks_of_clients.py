"""What `docs/interface/audio.md` advises clients to do about two clocks, done as it is written there."""

import itertools
import random
from typing import Any, NamedTuple

import pytest

from tests.support.readme import INTERFACE, blocks
from tonearm.core.frame import FRAME_MS

FRAME_S = FRAME_MS / 1000
(ADVICE,) = blocks("python", INTERFACE["audio"])
MOST_JITTER_S = 0.06


def frames_in_hand() -> Any:
    names: dict[str, Any] = {}
    exec(ADVICE, names)  # noqa: S102 - our own document
    return names["FramesInHand"]()


class Played(NamedTuple):
    numbers: list[int]
    silent: int
    most_in_hand: int


def play(hand: Any, seconds: float, *, faster_ppm: float = 0, standstill_s: tuple[float, float] = (0.0, 0.0)) -> Played:
    """A client that plays a frame each 20 ms of its own clock, and does nothing at all during `standstill_s`. Frames
    come evenly by the node's clock, with the network's jitter."""
    wobble = random.Random(7)
    numbers: list[int] = []
    silent = most = came = 0
    came_s = 0.0
    for tick in range(round(seconds / FRAME_S)):
        now_s = tick * FRAME_S
        if standstill_s[0] <= now_s < standstill_s[1]:
            continue
        while came_s <= now_s:
            if came:
                hand.came(came, came)
            came += 1
            came_s = max(came_s, came * FRAME_S / (1 + faster_ppm / 1e6) + wobble.uniform(0, MOST_JITTER_S))
        number = hand.due(now_s)
        if number is None:
            silent += 1
        else:
            numbers.append(number)
        most = max(most, len(hand.frames))
    return Played(numbers, silent, most)


@pytest.mark.parametrize("faster_ppm", [500.0, -500.0])
def test_an_hour_of_two_clocks_that_differ(faster_ppm: float) -> None:
    hour_s = 3600.0
    hand = frames_in_hand()
    played = play(hand, hour_s, faster_ppm=faster_ppm)
    surplus = hour_s / FRAME_S * faster_ppm / 1e6  # 90 frames at 500 ppm
    assert played.numbers == sorted(set(played.numbers))
    assert hand.never_came == 0
    assert played.most_in_hand <= 10 + 5, "how late it is stays bounded: twice 5 frames, and some for two seconds"
    assert hand.dropped <= max(surplus, 0) + 1
    # Once filled it plays on; a node that is slower costs its missing frames, five at a time.
    assert played.silent <= 5 + MOST_JITTER_S / FRAME_S + max(-surplus, 0) + 10
    assert len(played.numbers) >= hour_s / FRAME_S - played.silent


def test_after_a_standstill_a_client_is_on_time_at_once() -> None:
    hand = frames_in_hand()
    played = play(hand, 60.0, standstill_s=(20.0, 26.0))
    gap = max(later - earlier for earlier, later in itertools.pairwise(played.numbers))
    assert gap >= 295, "six seconds are gone, for good"
    assert hand.dropped == gap - 1
    assert played.most_in_hand <= 10

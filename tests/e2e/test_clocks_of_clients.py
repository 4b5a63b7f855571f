"""What `docs/interface/audio.md` advises clients to do about two clocks, done as it is written there."""

import itertools
import random
from typing import Any

import pytest

from tests.support.readme import INTERFACE, blocks
from tonearm.core.frame import FRAME_MS

FRAME_S = FRAME_MS / 1000
(ADVICE,) = blocks("python", INTERFACE["audio"])
MOST_JITTER_S = 0.06


HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("seconds", "faster_ppm", "stands_still"), [(HOUR_S, 500.0, False), (HOUR_S, -500.0, False), (60.0, 0.0, True)]
)
def test_a_client_that_plays_by_its_own_clock(seconds: float, faster_ppm: float, stands_still: bool) -> None:
    """A frame each 20 ms, but for six seconds in which it may do nothing at all. Frames come evenly by the node's
    clock, with the network's jitter."""
    names: dict[str, Any] = {}
    exec(ADVICE, names)  # noqa: S102 - our own document
    hand, wobble = names["FramesInHand"](), random.Random(7)
    numbers: list[int] = []
    silent = most_in_hand = came = 0
    came_s = 0.0
    for tick in range(round(seconds / FRAME_S)):
        now_s = tick * FRAME_S
        if stands_still and 20.0 <= now_s < 26.0:
            continue
        while came_s <= now_s:
            if came:
                hand.came(came, came)
            came += 1
            came_s = max(came_s, came * FRAME_S / (1 + faster_ppm / 1e6) + wobble.uniform(0, MOST_JITTER_S))
        number = hand.due(now_s)
        silent += number is None
        numbers += [] if number is None else [number]
        most_in_hand = max(most_in_hand, len(hand.frames))
    assert numbers == sorted(set(numbers))
    gap = max(later - earlier for earlier, later in itertools.pairwise(numbers))
    if stands_still:
        assert gap >= 295, "six seconds are gone, for good"
        assert hand.dropped == gap - 1
        assert most_in_hand <= 10
        return
    surplus = HOUR_S / FRAME_S * faster_ppm / 1e6  # 90 frames at 500 ppm
    assert hand.never_came == 0
    assert most_in_hand <= 10 + 5, "how late it is stays bounded: twice 5 frames, and some for two seconds"
    assert hand.dropped <= max(surplus, 0) + 1
    # Once filled it plays on; a node that is slower costs its missing frames, five at a time.
    assert silent <= 5 + MOST_JITTER_S / FRAME_S + max(-surplus, 0) + 10
    assert len(numbers) >= HOUR_S / FRAME_S - silent

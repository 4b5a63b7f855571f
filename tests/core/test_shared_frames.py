"""The frames of a shared stream that the node holds: both ends count alike, and what is named is what was sent."""

import hypothesis.strategies as st
from hypothesis import given

from tonearm.core.shared_frames import HELD_FRAMES, HeldFrames, HeldMessages


def frame(number: int) -> bytes:
    return b"%d" % number


# A block: how far from the newest frame it begins, and how many frames it has.
BLOCKS = st.lists(st.tuples(st.integers(-400, 40), st.integers(1, 120)), max_size=60)


@given(BLOCKS)
def test_what_a_process_may_name_the_node_has_whatever_its_players_are_at(blocks: list[tuple[int, int]]) -> None:
    process, node = HeldFrames(), HeldMessages()
    newest = 0
    for behind, frames in blocks:
        first = max(0, newest + behind)
        if held := process.count_from(first):
            frames = min(frames, held)
            assert list(node.messages(first, frames)) == [frame(first + number) for number in range(frames)]
        elif process.takes(first):
            process.add(first, frames)
            node.keep(first, [frame(first + number) for number in range(frames)])
        newest = max(newest, first + frames)
        assert (process.first, process.end) == (node.first, node.end)
        assert len(node.messages(node.first, 10_000)) == node.end - node.first <= HELD_FRAMES


def test_one_that_is_far_behind_does_not_take_the_place_of_the_others() -> None:
    held = HeldFrames()
    held.add(0, 120)
    held.add(120, 120)
    assert held.count_from(89) == 0
    assert not held.takes(89)
    assert held.count_from(90) == 150


def test_frames_after_a_gap_replace_those_before() -> None:
    held = HeldMessages()
    held.keep(0, [frame(number) for number in range(20)])
    held.keep(30, [frame(30)])
    assert held.count_from(19) == 0
    assert list(held.messages(30, 1)) == [frame(30)]

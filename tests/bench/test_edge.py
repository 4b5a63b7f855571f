import itertools

import pytest
from bench.edge import find_edge


async def search(edge: int, near: int, stride: int) -> tuple[int, list[int]]:
    """The answer, and the trials that it took, when everything up to `edge` is even."""
    trials: list[int] = []

    async def is_even(players: int) -> bool:
        trials.append(players)
        return players <= edge

    return await find_edge(is_even, near, stride, step=25), trials


@pytest.mark.parametrize(
    ("edge", "answer"), [(0, 0), (24, 0), (25, 25), (99, 75), (310, 300), (475, 475), (1000, 1000)]
)
async def test_finds_the_largest_that_holds_from_anywhere(edge: int, answer: int) -> None:
    for near, stride in itertools.product((25, 100, 200, 475), (25, 50, 200)):
        found, trials = await search(edge, near, stride)
        assert found == answer, (near, stride)
        assert len(set(trials)) == len(trials), (near, stride)


async def test_an_edge_that_did_not_move_takes_two_trials() -> None:
    assert await search(300, near=300, stride=25) == (300, [300, 325])


async def test_one_that_moved_by_a_step_takes_few() -> None:
    assert await search(325, near=300, stride=25) == (325, [300, 325, 375, 350])
    assert await search(275, near=300, stride=25) == (275, [300, 275])


async def test_a_start_between_steps_is_taken_down_to_one() -> None:
    assert await search(300, near=310, stride=30) == (300, [300, 325])

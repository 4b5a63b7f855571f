"""Which frames a client leaves out after it stood still."""

from collections.abc import Iterable

from tonearm.client.audio import Freshness

MAX_LATENCY_MS = 200


def heard(arrivals: Iterable[tuple[int, float, float]]) -> list[int]:
    """The numbers of frames that are not stale. Each arrives as number, time waited for it, time of day."""
    freshness = Freshness(MAX_LATENCY_MS)
    return [number for number, waited_s, now_s in arrivals if not freshness.is_stale(number, waited_s, now_s)]


def steady(first: int, last: int, begin_s: float) -> list[tuple[int, float, float]]:
    return [(number, 0.019, begin_s + (number - first) * 0.02) for number in range(first, last)]


def at_once(first: int, last: int, now_s: float) -> list[tuple[int, float, float]]:
    return [(number, 0.0, now_s) for number in range(first, last)]


def test_only_stale_frames_are_left_out() -> None:
    before, after = steady(1, 51, 0.0), steady(351, 400, 7.01)
    newest = [*range(1, 51), *range(341, 400)]
    for arrivals, expected in (
        (steady(1, 500, 7.0), range(1, 500)),
        # A standstill: 100 frames came in six seconds in which nobody read; the node kept the newest ten of the rest.
        ([*before, *at_once(51, 151, 7.0), *at_once(341, 351, 7.0), *after], newest),
        # What piled up is read piece by piece. Each is waited for, a moment; its first frame proves nothing.
        ([*before, *((number, 0.003 * (number % 60 == 51), 7.0) for number in range(51, 351)), *after], newest),
        # A pause of the player makes no frame late, also of a reader that works for 16 ms at each.
        ([*before, (51, 59.0, 60.0), *steady(52, 101, 60.02)], range(1, 101)),
        ([*((number, 0.004, number * 0.02) for number in range(1, 51)), (51, 59.0, 60.0)], range(1, 52)),
        # A burst at the beginning.
        ([(1, 0.1, 3.0), *at_once(2, 20, 3.0), *steady(20, 60, 3.02)], range(1, 60)),
        # A standstill in a pause costs two frames: the first one may have waited as long as the loop stood still.
        ([*before, (51, 0.0, 60.0), *steady(52, 101, 60.02)], [*range(1, 51), *range(53, 101)]),
        # A reader that is a little late.
        ([*before, *at_once(51, 60, 1.17), *steady(60, 90, 1.19)], range(1, 90)),
    ):
        assert heard(arrivals) == [*expected]


def test_no_reader_hears_nothing_for_longer_than_a_second() -> None:
    """Of one that is always late nothing is ever certain; it is late, and hears."""
    bunches = [(number, 0.0, 60.0 + number // 8 * 0.16) for number in range(51, 500)]
    numbers = heard([*steady(1, 51, 0.0), *bunches])
    assert 100 < numbers[50] < 112
    assert numbers[50:] == list(range(numbers[50], 500))

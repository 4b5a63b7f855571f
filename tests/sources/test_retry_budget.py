"""How often a broken transfer is taken up again."""

from tonearm.sources.read_ahead import EARNED_BACK_BYTES, RetryBudget


def delays(budget: RetryBudget, count: int) -> list[float | None]:
    return [budget.next_delay_s() for _ in range(count)]


def test_each_try_waits_longer_until_none_is_left() -> None:
    assert delays(RetryBudget((0.0, 1.0, 2.0)), 5) == [0.0, 1.0, 2.0, None, None]


def test_tries_are_earned_back_by_bytes() -> None:
    budget = RetryBudget((0.0, 1.0))
    assert delays(budget, 3) == [0.0, 1.0, None]
    budget.earn(EARNED_BACK_BYTES - 1)
    assert delays(budget, 1) == [None]
    budget.earn(1)
    assert delays(budget, 3) == [0.0, 1.0, None]


def test_a_little_after_each_try_earns_nothing() -> None:
    budget = RetryBudget((0.0, 1.0))
    assert delays(budget, 1) == [0.0]
    budget.earn(EARNED_BACK_BYTES - 1)
    assert delays(budget, 1) == [1.0]
    budget.earn(EARNED_BACK_BYTES - 1)
    assert delays(budget, 1) == [None]


def test_bytes_before_the_first_try_earn_nothing_in_advance() -> None:
    budget = RetryBudget((0.0, 1.0))
    budget.earn(10 * EARNED_BACK_BYTES)
    assert delays(budget, 3) == [0.0, 1.0, None]
    budget.earn(1)
    assert delays(budget, 1) == [None]

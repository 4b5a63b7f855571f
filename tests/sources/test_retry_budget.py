"""How often a broken transfer is taken up again."""

from tonearm.sources.read_ahead import RetryBudget


def test_each_try_waits_longer_until_none_is_left() -> None:
    budget = RetryBudget((0.0, 1.0, 2.0))
    assert [budget.next_delay_s(now_s) for now_s in (0, 1, 2, 3)] == [0.0, 1.0, 2.0, None]


def test_tries_older_than_a_minute_are_forgotten() -> None:
    budget = RetryBudget((0.0, 1.0))
    assert [budget.next_delay_s(now_s) for now_s in (0, 30, 59, 60, 61, 90)] == [0.0, 1.0, None, 1.0, None, 1.0]

import pytest
from bench.figures import Figures
from bench.goals import Goal, verdicts
from bench.parts.capacity import KINDS
from bench.plan import Plan
from bench.report import as_json, as_text
from bench.schedule import PARTS, steps_of_round
from bench.spread import percentile
from bench.text_table import number

PLAN = Plan(rounds=2, seconds=1.0, formats=("mp3", "wav"), capacity_formats=("mp3",), parts=PARTS, capacity_kinds=KINDS)


def two_rounds() -> Figures:
    """A machine that is half as fast in the second round: both figures double, and their ratio stays."""
    figures = Figures()
    for figures.round, slowness in ((1, 1), (2, 2)):
        figures.add("node", 30.0 * slowness)
        figures.add("floor", 20.0 * slowness, ticker_p99_ms=9.0 * (slowness - 1))
    return figures


def test_ratios_are_of_the_same_round() -> None:
    figures = two_rounds()
    figures.round = 3
    figures.add("node", 1000.0)
    assert figures.ratios("node", "floor") == [1.5, 1.5]
    assert figures.ratios("node", "nothing") == []


def test_figures_beside_a_noisy_ticker_are_remembered_with_what_it_said() -> None:
    assert two_rounds().noisy == {"floor": [9.0]}


@pytest.mark.parametrize(
    ("goal", "is_reached"),
    [
        (Goal("", 1.5, "node", "floor"), True),
        (Goal("", 1.4, "node", "floor"), False),
        (Goal("", 1.5, "node", "floor", at_least=True), True),
        (Goal("", 1.6, "node", "floor", at_least=True), False),
        (Goal("", 45, "node"), True),
        (Goal("", 44, "node"), False),
        (Goal("", 44, "nothing"), None),
        (Goal("", 44, "node", "nothing"), None),
    ],
)
def test_the_median_decides(goal: Goal, is_reached: bool | None) -> None:
    assert [verdict.is_reached for verdict in verdicts(two_rounds(), [goal])] == [is_reached]


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 51), (95, 96), (99, 100), (100, 100)])
def test_percentile(percent: float, value: float) -> None:
    assert percentile(range(100, 0, -1), percent) == value


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1.0, "1"), (0.945, "0.94"), (12.34, "12.3"), (99.96, "100.0"), (1234.5, "1234")]
)
def test_numbers_have_three_digits_that_say_something(value: float, text: str) -> None:
    assert number(value) == text


def test_a_run_that_was_interrupted_at_once_has_a_report() -> None:
    figures = Figures()
    figures.problem("interrupted")
    assert "not measured" in as_text(figures, PLAN)
    assert "interrupted" in as_text(figures, PLAN)
    assert as_json(figures, PLAN)["problems"] == ["round 1: interrupted"]


def test_a_round_has_every_part_once_and_capacity_where_it_is_wanted() -> None:
    titles = [step.title for step in steps_of_round(PLAN, 1)]
    assert len(set(titles)) == len(titles)
    assert [title for title in titles if title.startswith("capacity")] == [
        "capacity, mp3, flat",
        "capacity, mp3, bands",
        "capacity, mp3, relay",
    ]
    assert {title.partition(",")[0] for title in titles} == set(PARTS)

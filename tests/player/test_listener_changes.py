"""How many listen: reported at once, then once a second at most, and never twice the same."""

import itertools

from tests.support.hand_time import HandTime
from tonearm.player.player import ListenerChanges


def reported() -> tuple[HandTime, ListenerChanges, list[tuple[float, int]]]:
    time = HandTime()
    reports: list[tuple[float, int]] = []
    began_s = time.now_s()
    changes = ListenerChanges(time.call_later, lambda count: reports.append((round(time.now_s() - began_s, 3), count)))
    return time, changes, reports


def test_a_change_after_a_quiet_second_is_reported_at_once() -> None:
    time, changes, reports = reported()
    changes.changed(1)
    time.forward(1.5)
    changes.changed(2)
    assert reports == [(0, 1), (1.5, 2)]


def test_of_many_changes_in_a_second_the_last_is_reported_when_it_is_over() -> None:
    time, changes, reports = reported()
    for count in range(1, 6):
        changes.changed(count)
        time.forward(0.1)
    time.forward(5.0)
    assert reports == [(0, 1), (1.0, 5)]


def test_who_comes_and_goes_within_a_second_changes_nothing() -> None:
    time, changes, reports = reported()
    changes.changed(1)
    changes.changed(2)
    changes.changed(1)
    time.forward(5.0)
    assert reports == [(0, 1)]


def test_two_reports_are_a_second_apart() -> None:
    time, changes, reports = reported()
    for count in range(1, 41):
        changes.changed(count)
        time.forward(0.1)
    times_s = [time_s for time_s, _ in reports]
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(times_s))
    time.forward(1.0)
    assert reports[-1][1] == 40


def test_a_closed_player_reports_nothing() -> None:
    time, changes, reports = reported()
    changes.changed(1)
    changes.changed(2)
    changes.close()
    time.forward(5.0)
    changes.changed(2)
    assert reports == [(0, 1)]

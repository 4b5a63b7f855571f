"""Who is carried under overload: the rule alone, and a node's processes with it in driven time."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.simulated_load import Player, SimulatedNode
from tonearm.core.admission import (
    AVERAGED_REPORTS,
    CLOSED_S,
    KEPT_S,
    LISTENERS_AT_ONCE,
    OVERLOAD_LATE_S,
    SLOWLY_S,
    Capacity,
    Claim,
    LoadReport,
    Urgency,
    enter,
    settle,
)

PLAYS, STARTS, UNHEARD = Urgency
COST = 1 / 250  # of a player, as share of a process


def claims(urgencies: list[Urgency]) -> list[Claim]:
    return [Claim(urgency, number) for number, urgency in enumerate(urgencies)]


def itself(claim: Claim) -> Claim:
    return claim


def test_the_oldest_of_the_most_urgent_come_first_and_the_newest_of_the_least_urgent_leave_first() -> None:
    for carried, waiting, room, spares_players, leave, come in (
        ([], [UNHEARD, STARTS, STARTS, PLAYS], 3, False, [], [3, 1, 2]),
        ([PLAYS, UNHEARD, STARTS, PLAYS, UNHEARD], [], -4, False, [4, 1, 2, 3], []),
        ([PLAYS, STARTS, PLAYS], [], -2, True, [1], []),  # only those leave who cannot begin
        ([PLAYS, PLAYS, PLAYS], [], -3, False, [2, 1], []),  # number 0 is what others depend on
        ([UNHEARD, PLAYS, UNHEARD], [UNHEARD, STARTS], 0, False, [2], [1]),
    ):
        leaving, heard, unheard = settle(claims(carried), claims(waiting), room, itself, spares_players=spares_players)
        assert ([claim.number for claim in leaving], [claim.number for claim in heard + unheard]) == (leave, come)


@pytest.mark.parametrize("urgency", [PLAYS, STARTS])
def test_who_was_left_keeps_its_claim_for_a_moment(urgency: Urgency) -> None:
    claim = Claim(urgency, 7)
    assert claim.unheard(0.0) == claim.unheard(KEPT_S - 0.01) == claim
    assert claim.unheard(KEPT_S) == claim.unheard(math.inf) == Claim(UNHEARD, 7)


EASY = LoadReport(0.5, 0.2, 0.2, 40.0, 0.0, 0.3)
FULL = LoadReport(0.5, 0.5, 0.5, 100.0, 0.0, 0.3)
SHORT_OF_MEMORY = replace(EASY, memory=0.9)


CROWD = [Claim(PLAYS, 9)] * 250


def with_reports(load: LoadReport) -> Capacity:
    """Of a process with a session more than `CROWD`, after so many reports of the same kind as are averaged."""
    capacity = Capacity()
    for number in range(AVERAGED_REPORTS):
        capacity.reported(load, len(CROWD) + 1, number / 2)
    return capacity


def test_who_comes_between_two_reports_and_who_leaves_for_it() -> None:
    for load, urgency, waiting, comes, comes_without_unheard in (
        (EASY, PLAYS, [], True, True),
        (EASY, PLAYS, [PLAYS], True, True),  # it plays on, whoever waits
        (EASY, STARTS, [], True, True),
        (EASY, STARTS, [STARTS], False, False),  # who asked earlier comes first
        (EASY, STARTS, [UNHEARD], True, True),
        (EASY, UNHEARD, [], True, True),
        (EASY, UNHEARD, [UNHEARD], False, False),
        (FULL, PLAYS, [PLAYS], True, True),
        (FULL, STARTS, [], True, False),
        (FULL, STARTS, [STARTS], False, False),
        (FULL, UNHEARD, [], False, False),
        (SHORT_OF_MEMORY, PLAYS, [PLAYS], True, False),
        (SHORT_OF_MEMORY, STARTS, [], True, False),
        (SHORT_OF_MEMORY, STARTS, [STARTS], False, False),
        (SHORT_OF_MEMORY, UNHEARD, [], False, False),
    ):
        before = [Claim(other, 10) for other in waiting]
        newest, one = Claim(UNHEARD, 8), Claim(urgency, 20)
        carried = [Claim(UNHEARD, 7), newest, *CROWD[1:]]
        leaves = newest if comes and load is SHORT_OF_MEMORY else None
        row = load, urgency, waiting
        assert enter(one, carried, before, with_reports(load), itself, 2.0, is_admitted=False) == (comes, leaves), row
        carried = [Claim(STARTS, 8), *CROWD]
        entry = enter(one, carried, before, with_reports(load), itself, 2.0, is_admitted=False)
        assert entry == (comes_without_unheard, None), row


@pytest.mark.parametrize(("load", "comes"), [(EASY, True), (FULL, False), (SHORT_OF_MEMORY, False)])
def test_who_waited_comes_when_there_is_room_and_who_was_admitted_in_any_case(load: LoadReport, comes: bool) -> None:
    capacity, carried = with_reports(load), [Claim(STARTS, 8), *CROWD]
    one, unheard = Claim(PLAYS, 20), Claim(UNHEARD, 30)
    waiting = [Claim(PLAYS, 10), one, unheard]
    assert enter(one, carried, waiting, capacity, itself, 2.0, is_admitted=False) == (comes, None)
    assert enter(one, carried, waiting, capacity, itself, 2.0, is_admitted=True) == (True, None)
    has_memory = load is not SHORT_OF_MEMORY
    assert enter(unheard, carried, waiting, capacity, itself, 2.0, is_admitted=True) == (has_memory, None)


def test_few_listeners_are_let_in_at_once_where_there_is_no_room_and_none_in_an_overload() -> None:
    capacity = Capacity()
    late = replace(FULL, late_s=2 * OVERLOAD_LATE_S)
    for report, let_in in ((FULL, LISTENERS_AT_ONCE), (FULL, LISTENERS_AT_ONCE), (late, 0), (late, 0)):
        capacity.reported(report, 250, 10.0)
        assert capacity.room(250, 10.0) <= 0
        asked = [capacity.take_listener(10.0) for _ in range(3 * LISTENERS_AT_ONCE)]
        assert asked == [True] * let_in + [False] * (len(asked) - let_in)


def test_a_process_with_little_to_do_and_nothing_new_is_at_ease() -> None:
    for last, begun, is_at_ease in (
        (EASY, 0, True),
        (EASY, 1, False),
        (replace(EASY, seconds=2.0, busy_s=1.9), 0, False),
        (replace(EASY, memory=0.6), 0, False),
    ):
        capacity = Capacity()
        for number in range(AVERAGED_REPORTS):
            assert not capacity.is_at_ease  # too little is known
            capacity.reported(EASY, 40, number / 2)
        assert capacity.is_at_ease
        capacity.reported(last, 40, 5.0)
        for _ in range(begun):
            capacity.began()
        assert capacity.is_at_ease is is_at_ease, (last, begun)


@pytest.mark.parametrize(("sound_s", "comes_in_numbers"), [(0.5, False), (0.3, True)])
def test_more_come_than_there_is_time_for_only_while_openings_take_it(sound_s: float, comes_in_numbers: bool) -> None:
    """What a session costs is measured, and now and then too low: who is let in by that makes a full process late."""
    capacity = Capacity()
    for number in range(AVERAGED_REPORTS):
        capacity.reported(LoadReport(0.5, 0.5, sound_s, 400 * sound_s, 0.1), 250, number / 2)
    assert (capacity.room(250, 2.0) > 20) is comes_in_numbers


def test_a_process_that_is_late_gives_some_up_and_takes_none_for_a_while() -> None:
    capacity = Capacity()
    for now_s in (1.0, 1.5):
        capacity.reported(LoadReport(0.5, 0.5, 0.5, 100.0, now_s), 100, now_s)
    assert -10 <= capacity.room(100, 1.5) < 0
    assert capacity.is_late
    capacity.settled()
    for step in range(4):
        capacity.reported(LoadReport(0.5, 0.45, 0.45, 90.0, 0.0), 90, 2.0 + step / 2)
        assert capacity.room(90, 2.0 + step / 2) == 0
    now_s = 2.0 + CLOSED_S
    for _ in range(4):
        capacity.reported(LoadReport(0.5, 0.3, 0.3, 60.0, 0.0), 60, now_s)
    assert capacity.room(60, now_s) > 0


# In driven time


def who_hears_all(node: SimulatedNode, players: Sequence[Player], seconds: float) -> list[Player]:
    """Those of `players` who lose nothing of the next so many seconds."""
    before_s = [player.heard_s for player in players]
    node.pass_s(seconds)
    return [one for one, heard_s in zip(players, before_s, strict=True) if one.heard_s - heard_s >= 0.99 * seconds]


def goodput(node: SimulatedNode, seconds: float) -> float:
    """The work of those who hear all of so many seconds, as share of what the processes can do."""
    return sum(player.cost for player in who_hears_all(node, node.players, seconds)) / len(node.processes)


def crowd(node: SimulatedNode, load: float, costs: tuple[float, ...] = (COST,)) -> list[Player]:
    """As many players at once as are so many times what the node can carry."""
    count = round(load * len(node.processes) * len(costs) / sum(costs))
    return [node.create(costs[number % len(costs)]) for number in range(count)]


MIXED = 1 / 1000, 1 / 100


@pytest.mark.parametrize(
    ("load", "costs"),
    [(0.8, (COST,)), (0.8, (1 / 40,)), (0.5, MIXED), (4.0, (COST,)), (1.6, MIXED), (1.2, (1 / 40,)), (4.0, (1 / 40,))],
)
def test_what_can_be_carried_is_carried_whole_and_of_too_many_as_many(load: float, costs: tuple[float, ...]) -> None:
    node = SimulatedNode()
    crowd(node, load, costs)
    node.pass_s(40.0)  # to start thousands takes longer than to carry them
    carried = goodput(node, 10.0)
    assert carried == pytest.approx(load, rel=0.02) if load < 1 else carried >= 0.8
    assert bool(node.waiting) == (load > 1)


def test_those_who_play_go_on_when_as_many_come_again() -> None:
    node = SimulatedNode()
    first = crowd(node, 0.85)
    node.pass_s(20.0)
    crowd(node, 1.0)
    assert len(who_hears_all(node, first, 20.0)) >= 0.97 * len(first)


@pytest.mark.parametrize(("speed", "oldest"), [(0.5, 160), (0.2, 60)])
def test_when_a_machine_becomes_slower_the_oldest_lose_nothing(speed: float, oldest: int) -> None:
    node = SimulatedNode()
    players = crowd(node, 0.8)
    node.pass_s(10.0)
    for process in node.processes:
        process.speed = speed
    node.pass_s(60.0)
    assert [player.number for player in players[:oldest] if player.underruns or player.interruptions] == []


def test_listeners_who_come_are_carried_instead_of_what_nobody_hears() -> None:
    node = SimulatedNode()
    for _ in range(800):
        node.create(COST, is_heard=False, sleeps=False)
    node.pass_s(5.0)
    guests = [node.create(COST) for _ in range(100)]
    node.pass_s(5.0)
    assert all(guest.is_sounding and not guest.underruns for guest in guests)
    assert max((guest.first_heard_s or math.inf) - guest.asked_s for guest in guests) < 3.0


def assert_nothing_is_left(node: SimulatedNode) -> None:
    """Nobody is carried or waits, nothing is worked, and the next listener is heard at once."""
    assert not node.waiting
    assert not any(process.players for process in node.processes)
    worked_s = node.worked_s
    node.pass_s(10.0)
    assert node.worked_s == worked_s
    guest = node.create(COST)
    node.pass_s(1.0)
    assert guest.first_heard_s is not None
    assert guest.first_heard_s - guest.asked_s < 0.5


FORMATS = (1 / 150, 1 / 60, 1 / 25)  # costs of players
SHARES = st.sampled_from([0.25, 0.5, 1.0])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["listeners", "nobody", "live", "leave", "come", "return", "delete", "slower"]),
        st.sampled_from([0.5, 1.0, 2.0, 4.0]),
        st.sampled_from([0.05, 1.0, 6.0, 20.0]),
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=examples(8))
@given(STEPS)
@example([("listeners", 0.5, 0.05), ("slower", 1.0, 20.0)])
@example([("live", 0.5, 0.05), ("live", 0.5, 0.05), ("delete", 0.5, 6.0), ("come", 2.0, 0.05)])
def test_whatever_came_nothing_is_left_once_the_load_has_fallen(steps: list[tuple[str, float, float]]) -> None:
    node = SimulatedNode()
    for what, load, then_s in steps:
        take_step(node, what, load)
        node.pass_s(then_s)
    for process in node.processes:
        process.speed = 1.0
    awake = lower_load(node, 0.5)
    fallen_s = node.now_s
    node.pass_s(5.0)  # what was late is made up for
    while not is_at_rest(node, awake) and node.now_s < fallen_s + SLOWLY_S + 60.0:
        node.pass_s(5.0)
    assert is_at_rest(node, awake)
    assert who_hears_all(node, awake, 10.0) == awake
    lower_load(node, 0.0)
    node.pass_s(5.0)
    assert_nothing_is_left(node)


def take_step(node: SimulatedNode, what: str, load: float) -> None:
    """As many begin as are `load` times what can be carried, or so many quarters of the players leave, come, are away
    for a moment or are deleted, or processes become slower by it."""
    some = node.players[:: round(4 / load)]
    match what:
        case "listeners" | "nobody" | "live":
            for number in range(round(load * len(node.processes) * len(FORMATS) / sum(FORMATS))):
                cost = FORMATS[number % len(FORMATS)]
                node.create(cost, is_heard=what == "listeners", sleeps=what != "live")
        case "return":
            for player in some:
                node.leave(player)
            node.pass_s(KEPT_S / 2)
            for player in some:
                node.come(player)
        case "slower":
            for process in node.processes:
                process.speed = 1 / (10 * load)
        case _:
            for player in some:
                {"leave": node.leave, "come": node.come, "delete": node.delete}[what](player)


def is_at_rest(node: SimulatedNode, awake: list[Player]) -> bool:
    """Whether nobody waits, `awake` sound and all others sleep."""
    return not node.waiting and {player for player in node.players if player.is_sounding} == set(awake)


def lower_load(node: SimulatedNode, load: float) -> list[Player]:
    """Listeners leave, and live streams that nobody hears are deleted, until no more than `load` is left. Returns who
    has to be carried."""
    left = load * len(node.processes)
    kept: list[Player] = []
    for player in tuple(node.players):
        if not player.is_heard and player.sleeps:
            continue
        if player.cost <= left:
            left -= player.cost
            kept.append(player)
        elif player.sleeps:
            node.leave(player)
        else:
            node.delete(player)
    return kept

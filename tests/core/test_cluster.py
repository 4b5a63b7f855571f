"""Who may play, who takes over, where a new player goes: the rules alone, with hundreds of nodes."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tonearm.core.cluster import SILENT_BEFORE_S, Lease, Members, NodeRecord, heir_of, placed

LEASE_S = 6.0


def members(*names: str, own: str = "own", now_s: float = 0.0) -> Members:
    """As seen by one that reaches the engine from `now_s` on."""
    found = Members(own, LEASE_S, reached_since_s=now_s)
    for name in (own, *names):
        found.saw(name, NodeRecord(f"http://{name}"), 1, now_s)
    return found


def test_a_lease_counts_from_when_its_renewal_was_sent() -> None:
    lease = Lease(LEASE_S).renewed(10.0)
    assert lease.plays_until_s == 10.0 + LEASE_S - SILENT_BEFORE_S
    assert lease.renewed(9.0) == lease  # an acknowledgement that came late


def test_a_lease_lasts_while_nobody_else_reaches_the_engine_and_does_not_begin_again_by_that() -> None:
    lease = Lease(LEASE_S).renewed(0.0)
    for asked_s in range(1, 60):
        lease = lease.unopposed(asked_s)
    assert lease.plays_until_s == 59 + LEASE_S - SILENT_BEFORE_S
    ended_s = lease.plays_until_s
    assert lease.unopposed(ended_s + 0.1) == lease
    assert lease.renewed(ended_s + 0.1).plays_until_s > ended_s


@given(
    st.lists(st.tuples(st.floats(0.02, 2.0), st.sampled_from(["renews", "fails", "stands still"])), max_size=60),
    st.floats(0.0, 0.7),
)
@settings(max_examples=examples(200))
def test_an_owner_is_silent_before_anybody_takes_its_players(steps: list[tuple[float, str]], delay_s: float) -> None:
    """The taker sees each renewal `delay_s` after it was sent, or sooner; both clocks go equally fast."""
    now_s, lease, taker = 0.0, Lease(LEASE_S).renewed(0.0), members("owner", own="taker", now_s=-LEASE_S)
    revision, seen_s = 2, delay_s
    taker.saw("owner", NodeRecord("http://owner"), revision, delay_s)
    for step_s, what in steps:
        now_s += step_s if what != "stands still" else 10 * step_s
        if what == "renews" and now_s < lease.plays_until_s:
            revision += 1
            lease = lease.renewed(now_s)
            taker.saw("owner", NodeRecord("http://owner"), revision, now_s + delay_s)
            seen_s = now_s + delay_s
        if taker.takes("p", "owner", now_s):
            assert now_s >= lease.plays_until_s
        assert seen_s + LEASE_S >= lease.plays_until_s


@given(
    st.lists(st.tuples(st.floats(0.1, 3.0), st.booleans(), st.booleans()), max_size=40),
    st.lists(st.floats(0.0, 20.0), min_size=40, max_size=40),
)
@settings(max_examples=examples(200))
def test_an_engine_that_is_late_in_telling_makes_no_second_owner(
    steps: list[tuple[float, bool, bool]], delays_s: list[float]
) -> None:
    """In each step owner and taker may write. All writes pass at once, and are told in their order, however late."""
    lease, taker = Lease(LEASE_S).renewed(0.0), members("owner", own="taker")
    taker.reached_since_s, taker.known_to_s = -LEASE_S, 0.0
    now_s, told_s, revision, untold = 0.0, 0.0, 1, list[tuple[float, str, float]]()
    for number, (step_s, owner_writes, taker_writes) in enumerate(steps):
        now_s += step_s
        told_s = max(told_s, now_s + delays_s[number])
        if owner_writes and now_s < lease.plays_until_s:
            lease = lease.renewed(now_s)
            untold.append((told_s, "owner", now_s))
        if taker_writes:
            untold.append((told_s, "taker", now_s))
        while untold and untold[0][0] <= now_s:
            at_s, name, sent_s = untold.pop(0)
            revision += 1
            taker.saw(name, NodeRecord(f"http://{name}"), revision, at_s)
            if name == "taker":
                taker.known_to_s = sent_s
        if taker.takes("p", "owner", now_s):
            assert now_s >= lease.plays_until_s


def test_who_did_not_reach_the_engine_for_a_lease_takes_nothing() -> None:
    seen = members("gone")
    assert not seen.takes("p", "gone", 5.9)
    assert seen.takes("p", "gone", 6.0)
    seen.reached_since_s = 5.0  # it was lost in between
    assert not seen.takes("p", "gone", 10.9)
    assert seen.takes("p", "gone", 11.0)
    seen.reached_since_s = None
    assert not seen.takes("p", "gone", 100.0)


def test_a_node_that_left_in_order_is_not_waited_for_and_a_name_that_nobody_knows_for_a_lease() -> None:
    seen = members("left", now_s=0.0)
    seen.reached_since_s = -10.0
    seen.gone("left")
    assert seen.takes("p", "left", 0.1)
    assert seen.takes("p", "never heard of", 0.1)
    assert not seen.takes("p", "own", 0.1)


def test_numbers_that_begin_anew_are_changes() -> None:
    seen = members("other")
    seen.saw("other", NodeRecord("http://other"), 100, 0.0)
    seen.saw("other", NodeRecord("http://other"), 3, 8.0)
    assert not seen.is_alive("other", 8.0)
    seen.forget_revisions()
    seen.saw("other", NodeRecord("http://other"), 4, 9.0)
    assert seen.is_alive("other", 9.0)


def test_fifteen_of_sixty_nodes_are_lost_at_once_and_each_player_is_taken_once() -> None:
    names = [f"node-{number}" for number in range(60)]
    lost, left = names[:15], names[15:]
    now_s = 2 * LEASE_S
    views = {}
    for name in left:
        view = members(*names, own=name)
        for other in left:
            view.saw(other, NodeRecord(f"http://{other}"), 2, now_s)
        views[name] = view
    players = [(f"player {number}", lost[number % 15]) for number in range(60)]
    takers = {player: [name for name, view in views.items() if view.takes(player, owner, now_s)]
              for player, owner in players}  # fmt: skip
    assert all(len(found) == 1 for found in takers.values())
    assert len({found[0] for found in takers.values()}) > 25  # not all to few


def test_a_tenth_of_the_nodes_is_lost_at_once_each_player_has_one_heir_and_all_stay_even() -> None:
    names = [f"node-{number}" for number in range(50)]
    left, now_s = names[5:], 2 * LEASE_S
    views = [members(*names, own=name) for name in (left[0], left[20], left[-1])]
    for view in views:
        for name in left:
            view.saw(name, NodeRecord(f"http://{name}"), 2, now_s)
        assert set(view.heirs(now_s)) == set(left)
    players = Counter(dict.fromkeys(left, 500))  # 25,000 in all
    for number in range(5 * 500):
        players[heir_of(f"player {number}", left)] += 1
    for number in range(100):
        heirs = {heir_of(f"player {number}", view.heirs(now_s)) for view in views}
        assert len(heirs) == 1, "all who are left name the same one"
    mean = players.total() / len(left)
    assert 0.9 * mean < min(players.values()) <= max(players.values()) < 1.1 * mean


def test_heirs_are_even_and_stay_when_others_go() -> None:
    names = [f"node-{number}" for number in range(20)]
    heirs = {f"p{number}": heir_of(f"p{number}", names) for number in range(10_000)}
    counts = Counter(heirs.values())
    assert 430 <= min(counts.values()) <= max(counts.values()) <= 570
    for player_id, heir in heirs.items():
        if heir != "node-7":
            assert heir_of(player_id, [name for name in names if name != "node-7"]) == heir


def test_five_hundred_nodes_get_players_evenly() -> None:
    dice = random.Random(1)
    nodes = {f"node-{number}": NodeRecord("http://x") for number in range(500)}
    for _ in range(50_000):
        name = placed(nodes, dice)
        assert name is not None
        nodes[name] = NodeRecord("http://x", players=nodes[name].players + 1)
    counts = [record.players for record in nodes.values()]
    assert 90 <= min(counts) <= max(counts) <= 110


@pytest.mark.parametrize(
    ("nodes", "avoided", "expected"),
    [
        ({}, [], None),
        ({"a": NodeRecord("x", is_draining=True)}, [], None),
        ({"a": NodeRecord("x", is_draining=True), "b": NodeRecord("x", load=1.0)}, [], "b"),
        ({"a": NodeRecord("x", load=1.0), "b": NodeRecord("x", load=0.9, players=900)}, [], "b"),
        ({"a": NodeRecord("x"), "b": NodeRecord("x", load=0.1)}, [], "a"),
        ({"a": NodeRecord("x", players=3), "b": NodeRecord("x", players=2)}, [], "b"),
        ({"a": NodeRecord("x"), "b": NodeRecord("x", load=0.9)}, ["a"], "b"),
        ({"a": NodeRecord("x")}, ["a"], None),
    ],
)
def test_where_a_player_goes(nodes: dict[str, NodeRecord], avoided: list[str], expected: str | None) -> None:
    assert placed(nodes, random.Random(1), avoided) == expected

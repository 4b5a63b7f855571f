"""Who may play, who takes over, where a new player goes: the rules alone, with hundreds of nodes."""

import math
import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tonearm.core.cluster import SILENT_BEFORE_S, Heirs, Lease, Members, NodeRecord, placed

LEASE_S = 6.0


def members(*names: str, own: str = "own", now_s: float = 0.0) -> Members:
    """As seen by one that reaches the engine from `now_s` on."""
    found = Members(own, LEASE_S, reached_since_s=now_s)
    for name in (own, *names):
        found.saw(name, NodeRecord(f"http://{name}"), 1, now_s)
    return found


def test_a_lease_counts_from_when_its_renewal_was_sent_and_lasts_while_nobody_else_reaches_the_engine() -> None:
    lease = Lease(LEASE_S).renewed(10.0)
    assert lease.plays_until_s == 10.0 + LEASE_S - SILENT_BEFORE_S
    assert lease.renewed(9.0) == lease  # an acknowledgement that came late
    for asked_s in range(11, 70):
        lease = lease.unopposed(asked_s)
    ended_s = lease.plays_until_s
    assert ended_s == 69 + LEASE_S - SILENT_BEFORE_S
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
        if not taker.is_alive("owner", now_s):
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
        if not taker.is_alive("owner", now_s):
            assert now_s >= lease.plays_until_s


def test_who_did_not_reach_the_engine_for_a_lease_takes_nothing() -> None:
    seen = members("gone")
    assert seen.is_alive("gone", 5.9)
    assert not seen.is_alive("gone", 6.0)
    seen.reached_since_s = 5.0  # it was lost in between
    assert seen.is_alive("gone", 10.9)
    assert not seen.is_alive("gone", 11.0)
    seen.reached_since_s = None
    assert seen.is_alive("gone", 100.0)


def test_who_left_in_order_is_not_waited_for_nor_a_name_that_nobody_knows_and_numbers_may_begin_anew() -> None:
    seen = members("left", "other")
    seen.reached_since_s = -10.0
    seen.gone("left")
    assert not seen.is_alive("left", 0.1)
    assert not seen.is_alive("never heard of", 0.1)
    assert seen.is_alive("own", 0.1)
    seen.saw("other", NodeRecord("http://other"), 100, 0.0)
    seen.saw("other", NodeRecord("http://other"), 3, 8.0)
    assert not seen.is_alive("other", 8.0)
    seen.forget_revisions()
    seen.saw("other", NodeRecord("http://other"), 4, 9.0)
    assert seen.is_alive("other", 9.0)


PLAYER_IDS = st.sets(st.integers(0, 9999).map(str), max_size=60)
COUNTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 30), min_size=1)


@given(PLAYER_IDS, COUNTS)
@settings(max_examples=examples(100))
def test_each_lost_player_has_one_heir_and_no_heir_gets_more_than_its_share(
    players: set[str], counts: dict[str, int]
) -> None:
    found = list(Heirs(counts).of(players, counts))
    assert sorted(player for player, _ in found) == sorted(players)
    most = math.ceil((len(players) + sum(counts.values())) / len(counts))
    for heir, taken in Counter(heir for _, heir in found).items():
        assert taken + counts[heir] <= most


@given(PLAYER_IDS, COUNTS, st.data())
@settings(max_examples=examples(100))
def test_who_looks_when_some_are_taken_finds_the_same_heirs(
    players: set[str], counts: dict[str, int], data: st.DataObject
) -> None:
    heirs = Heirs(counts)
    whole = dict(heirs.of(players, counts))
    taken = data.draw(st.sets(st.sampled_from(sorted(players)))) if players else set()
    later = Counter(counts) + Counter(whole[player] for player in taken)
    in_another_order = Heirs(reversed(counts))
    assert dict(in_another_order.of(players - taken, later)) == {
        player: heir for player, heir in whole.items() if player not in taken
    }


def test_those_that_are_left_are_the_heirs_and_who_drains_is_none() -> None:
    seen = members("b", "c", "lost", own="a", now_s=0.0)
    now_s = 2 * LEASE_S
    seen.saw("b", NodeRecord("http://b"), 2, now_s)
    seen.saw("c", NodeRecord("http://c", is_draining=True), 2, now_s)
    assert seen.heirs(now_s) == ["a", "b"]


def test_where_a_player_goes() -> None:
    for nodes, avoided, expected in (
        ({}, [], None),
        ({"a": NodeRecord("x", is_draining=True), "b": NodeRecord("x", load=1.0)}, [], "b"),
        ({"a": NodeRecord("x", load=1.0), "b": NodeRecord("x", load=0.9, players=900)}, [], "b"),
        ({"a": NodeRecord("x"), "b": NodeRecord("x", load=0.1)}, [], "a"),
        ({"a": NodeRecord("x", players=3), "b": NodeRecord("x", players=2)}, [], "b"),
        ({"a": NodeRecord("x"), "b": NodeRecord("x", load=0.9)}, ["a"], "b"),
    ):
        assert placed(nodes, random.Random(1).sample, avoided) == expected, nodes

"""What a node believes of the records that stand in the engine."""

import math

import pytest

from tonearm.cluster.membership import record_of
from tonearm.core.cluster import NodeRecord

TRUE = {"address": "http://a:1", "version": "1", "players": 2, "load": 0.5, "draining": True}


def test_a_record_is_read() -> None:
    assert record_of(TRUE) == NodeRecord("http://a:1", "1", 2, 0.5, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"load": 10**400},
        {"load": math.nan},
        {"load": math.inf},
        {"load": -1},
        {"load": "much"},
        {"players": -1},
        {"players": 10**400},
        {"players": 1.5},
        {"players": None},
        {"address": 7},
        {"address": "somewhere"},
        {"address": "file:///etc"},
        {"address": "http://[::"},
        {"address": "http://a:99999"},
        {"address": "http://a/?x="},
        {"address": "http://" + "a" * 500},
    ],
)
def test_a_record_with_what_cannot_be_is_none(wrong: dict[str, object]) -> None:
    assert record_of(TRUE | wrong) is None


def test_a_node_that_does_not_listen_yet_has_no_address() -> None:
    assert record_of(TRUE | {"address": ""}) == NodeRecord("", "1", 2, 0.5, True)


def test_what_is_only_told_costs_no_record() -> None:
    assert record_of(TRUE | {"version": 7, "draining": "yes"}) == NodeRecord("http://a:1", "", 2, 0.5, False)

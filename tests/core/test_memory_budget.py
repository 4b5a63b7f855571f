"""What the memory of a decoder process allows."""

import pytest

from tonearm.core.memory_budget import (
    FIRST_MEMORY_COST,
    FULL_MEMORY,
    LEAST_SESSION_BYTES,
    SETTLING_BYTES,
    TOO_FULL_MEMORY,
    MemoryRoom,
    ahead,
    promised_bytes,
)

MB = 1_000_000


@pytest.mark.parametrize(("used", "samples"), [(0.0, 100), (0.6, 100), (0.7, 70), (0.8, 40), (1.0, 40)])
def test_the_less_there_is_the_less_is_decoded_ahead(used: float, samples: int) -> None:
    assert ahead(100, 40, used) == pytest.approx(samples, abs=1)


def test_what_sessions_that_began_lately_will_have_taken() -> None:
    for now_mb, before_mb, begun, plays_on, expected_bytes in (
        (10, 10, 0, False, 10 * MB),
        (14, 10, 10, False, 14 * MB + 10 * SETTLING_BYTES),  # one that is new counts on growth
        (11, 10, 10, True, 10 * MB + 10 * LEAST_SESSION_BYTES),  # one that plays on counts on little
        (25, 10, 10, True, 25 * MB),  # and not twice on what is used already
    ):
        assert promised_bytes(now_mb * MB, before_mb * MB, begun, plays_on=plays_on) == expected_bytes


def test_before_anything_is_known_so_many_come_as_have_room_at_a_usual_cost_which_is_measured_then() -> None:
    room = MemoryRoom()
    came = 0
    while room.room(came) > 0:
        room.began()
        came += 1
    assert came == pytest.approx(FULL_MEMORY / FIRST_MEMORY_COST, abs=1)
    for _ in range(3):
        room.reported(0.4, came)
    assert room.room(came) == pytest.approx((FULL_MEMORY - 0.4) / (0.4 / came), abs=1)


def test_memory_that_sessions_left_behind_is_not_taken_for_that_of_the_few_that_stay() -> None:
    room = MemoryRoom()
    for _ in range(200):
        room.began()
    for _ in range(5):
        room.reported(0.2, 10)
    assert room.room(10) == pytest.approx((FULL_MEMORY - 0.2) / (0.2 / 200), abs=2)
    for _ in range(10):
        room.reported(0.04, 10)
    assert room.room(10) == pytest.approx((FULL_MEMORY - 0.04) / (0.04 / 10), abs=2)


def test_a_process_that_is_full_takes_none_but_the_first_and_one_that_refused_none_until_its_report() -> None:
    room = MemoryRoom()
    room.reported(FULL_MEMORY + 0.01, 30)
    assert (room.room(30), room.room(0)) == (0, 1)
    room.reported(1.0, 1)
    assert room.room(1) == 0  # the last one never leaves
    room.reported(0.1, 10)
    room.refused()
    assert room.room(10) == 0
    room.reported(0.1, 10)
    assert room.room(10) > 0


def test_some_leave_a_process_that_is_too_full_and_the_others_wait_for_what_comes_of_it() -> None:
    room = MemoryRoom()
    room.reported(TOO_FULL_MEMORY + 0.03, 50)
    assert -5 <= room.room(50) < 0
    room.settled()
    for _ in range(3):
        room.reported(TOO_FULL_MEMORY + 0.01, 45)
        assert room.room(45) == 0
    room.reported(0.5, 45)
    assert room.room(45) > 0

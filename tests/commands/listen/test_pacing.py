"""Late frames are counted; breaks that the player announced are not."""

from tonearm.commands.listen_display import Pacing


def late(*arrivals_ms: float) -> int:
    pacing = Pacing()
    for arrival_ms in arrivals_ms:
        pacing.arrived(arrival_ms / 1000)
    return pacing.late_frames


def test_an_even_flow_is_not_late() -> None:
    assert late(*range(0, 2000, 20)) == 0


def test_jitter_of_less_than_two_frames_is_not_late() -> None:
    assert late(0, 35, 40, 75, 80, 119) == 0


def test_each_frame_after_a_hole_counts_until_the_flow_has_caught_up() -> None:
    # Due at 20, 40, 60, 80, 100 and 120.
    assert late(0, 101, 101, 102, 119, 119, 120) == 3


def test_a_late_first_frame_does_not_hide_what_follows() -> None:
    # The first came 60 ms late itself, as the next ones show: they are due earlier than it made believe.
    assert late(60, 60, 60, 60, 80, 100, 185) == 1


def test_a_long_hole_counts_once() -> None:
    assert late(0, 20, 3000, 3020, 3040) == 1


def test_a_break_that_was_announced_does_not_count() -> None:
    pacing = Pacing()
    pacing.arrived(0.0)
    pacing.interrupted()
    pacing.arrived(5.0)
    assert pacing.late_frames == 0

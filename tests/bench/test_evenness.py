import pytest
from bench.evenness import evenness, lateness_ms, share


@pytest.mark.parametrize(
    ("arrivals_s", "late_ms"),
    [
        ([], []),
        ([7.0, 7.02, 7.04], [0, 0, 0]),
        ([7.0, 7.025, 7.04], [0, 5, 0]),
        ([7.01, 7.02, 7.04], [10, 0, 0]),  # the grid is that of the earliest, not of the first
        ([7.0, 7.02, 7.06, 7.08], [0, 0, 20, 20]),  # a frame that never came makes all after it late
    ],
)
def test_lateness_is_against_the_listeners_own_grid(arrivals_s: list[float], late_ms: list[float]) -> None:
    assert lateness_ms(arrivals_s) == pytest.approx(late_ms, abs=1e-6)


@pytest.mark.parametrize(
    ("frames", "window_s", "part"),
    [(100, 2.0, 1.0), (99, 2.0, 1.0), (101, 2.0, 1.0), (98, 2.0, 98 / 99), (0, 2.0, 0.0), (0, 0.01, 0.0)],
)
def test_a_window_may_hold_one_frame_less(frames: int, window_s: float, part: float) -> None:
    assert share(frames, window_s) == part


def test_the_worst_listener_counts_and_the_lateness_of_all() -> None:
    whole = [number * 0.02 for number in range(100)]
    found = evenness([whole, whole[:50]], window_s=2.0)
    assert found.frames == 150
    assert found.worst_share == 50 / 99
    assert found.late_p99_ms == pytest.approx(0, abs=1e-6)


def test_without_a_frame_nothing_is_even() -> None:
    assert evenness([[]], 2.0).late_p99_ms == 2000
    assert evenness([], 2.0).worst_share == 0

"""Percentiles of measured values."""

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` % of `values` (at least one) are not above; of few values that is the largest."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

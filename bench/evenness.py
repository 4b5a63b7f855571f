"""How evenly frames arrived: the share that arrived at all, and how late, against the listener's own 20 ms grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.spread import percentile

FRAME_S: Final = 0.020
WHOLE_SHARE: Final = 0.99


@dataclass(frozen=True)
class Evenness:
    """Of all listeners together, `worst_share` of the worst of them; so many `whole` ones got at least `WHOLE_SHARE`.
    Lateness is the whole window if no frame came."""

    frames: int
    whole: int
    worst_share: float
    late_p50_ms: float
    late_p99_ms: float


def evenness(arrivals_s: Sequence[Sequence[float]], window_s: float) -> Evenness:
    """`arrivals_s` holds each listener's times of arrival within a window of `window_s`."""
    late_ms = [late for arrivals in arrivals_s for late in lateness_ms(arrivals)] or [window_s * 1000]
    shares = [share(len(arrivals), window_s) for arrivals in arrivals_s]
    return Evenness(
        frames=sum(map(len, arrivals_s)),
        whole=sum(one >= WHOLE_SHARE for one in shares),
        worst_share=min(shares, default=0.0),
        late_p50_ms=percentile(late_ms, 50),
        late_p99_ms=percentile(late_ms, 99),
    )


def share(frames: int, window_s: float) -> float:
    """Of the frames that belong into the window; it holds one more or less, as it happens to lie over them."""
    return min(1.0, frames / max(1, int(window_s / FRAME_S) - 1))


def lateness_ms(arrivals_s: Sequence[float]) -> list[float]:
    """Of each frame against a grid of 20 ms that begins with the frame that was earliest on it."""
    offsets = [arrival - number * FRAME_S for number, arrival in enumerate(arrivals_s)]
    earliest = min(offsets, default=0.0)
    return [(offset - earliest) * 1000 for offset in offsets]

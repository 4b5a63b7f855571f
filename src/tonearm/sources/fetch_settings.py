"""How long fetching waits, how often it tries again, and how far it reads ahead."""

from dataclasses import dataclass
from typing import Final

READ_AHEAD_S: Final = 10
LEAST_READ_AHEAD_BYTES: Final = 64 * 1024
MOST_READ_AHEAD_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The timeouts, retries and amounts of fetching over HTTP.

    `connect_timeout_s` covers name lookup, connecting and TLS; `headers_timeout_s` begins after that.

    `stall_timeout_s` is the longest silence in a body while there is room for its bytes.
    """

    user_agent: str = "tonearm"
    connect_timeout_s: float = 5.0
    headers_timeout_s: float = 10.0
    stall_timeout_s: float = 10.0
    # Until the length is known; then `read_ahead_bytes_at` decides.
    read_ahead_bytes: int = 512 * 1024
    open_retry_delays_s: tuple[float, ...] = (0.5, 2.0)
    # As many retries has a lost transfer, until enough bytes came (`read_ahead.EARNED_BACK_BYTES`).
    resume_delays_s: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
    # The same for a live stream. After the last one the track fails.
    live_resume_delays_s: tuple[float, ...] = (0.0, 1.0, 3.0, 6.0, 12.0)
    # The shortest time between two reads of a live playlist, whatever it says.
    live_refresh_at_least_s: float = 0.5
    # How long a client's request waits for a playlist that it names.
    playlist_limit_s: float = 5.0


def read_ahead_bytes_at(size_bytes: int, length_ms: int) -> int:
    """How far to read ahead in a file of this size and length: ten seconds, within bounds."""
    ten_seconds = size_bytes * READ_AHEAD_S * 1000 // max(length_ms, 1)
    return min(max(ten_seconds, LEAST_READ_AHEAD_BYTES), MOST_READ_AHEAD_BYTES)

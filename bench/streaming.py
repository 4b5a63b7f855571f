"""One measurement of many players that stream to real listeners."""

from dataclasses import dataclass
from typing import Final

import aiohttp

from bench.subjects import Subject, listeners

SETTLE_S: Final = 2.0
NOISY_TICKER_MS: Final = 5.0
TRIES_WHEN_NOISY: Final = 5


@dataclass(frozen=True)
class Streaming:
    """What `players` players cost and how evenly their frames came."""

    players: int
    cpu_us_a_frame: float
    pss_mb: float
    worst_share: float
    late_p99_ms: float
    ticker_p99_ms: float

    @property
    def is_even(self) -> bool:
        """Every listener got its frames, and in time."""
        return self.worst_share > 0.999 and self.late_p99_ms < 20

    @property
    def is_noisy(self) -> bool:
        return self.ticker_p99_ms > NOISY_TICKER_MS


async def measure_streaming(subject: Subject, uri: str, players: int, seconds: float, *, bands: bool) -> Streaming:
    """Adds `players` players, lets them settle, and measures. Noisy rounds are repeated, the last one is kept."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with listeners() as side, aiohttp.ClientSession(timeout=timeout) as session:
        ids = [f"p{number}" for number in range(players)]
        for player_id in ids:
            await subject.add(session, player_id, uri, bands=bands)
            await side.order(do="listen", url=subject.url, path=subject.path, ids=[player_id])
        await side.order(do="measure", seconds=SETTLE_S)
        for _ in range(TRIES_WHEN_NOISY):
            before = subject.cost()
            report = await side.order(do="measure", seconds=seconds)
            after = subject.cost()
            result = Streaming(
                players=players,
                cpu_us_a_frame=(after.cpu_s - before.cpu_s) * 1e6 / max(1, report["frames"]),
                pss_mb=after.pss_mb,
                worst_share=report["worst_share"],
                late_p99_ms=report["late_p99_ms"] if report["late_p99_ms"] is not None else float("inf"),
                ticker_p99_ms=report["ticker_p99_ms"],
            )
            if not result.is_noisy:
                break
        return result

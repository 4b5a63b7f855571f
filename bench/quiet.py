"""Runs a measurement beside the bare ticker, and repeats it if the machine was noisy."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

NOISY_MS: Final = 5.0
MOST_TRIES: Final = 5

Result = TypeVar("Result")


class TickerPipe(Protocol):
    """The way to the ticker's process: the first order begins, the second ends and tells `p99_ms`."""

    async def order(self, **order: Any) -> dict[str, Any]: ...


class Ticker:
    def __init__(self, pipe: TickerPipe) -> None:
        self._pipe = pipe

    async def beside(self, measure: Callable[[], Awaitable[Result]]) -> tuple[Result, float]:
        """What `measure` gives, and the ticker's p99 in ms meanwhile."""
        await self._pipe.order(do="begin")
        try:
            result = await measure()
        finally:
            p99_ms = float((await self._pipe.order(do="end"))["p99_ms"])
        return result, p99_ms

    async def quiet(self, measure: Callable[[], Awaitable[Result]]) -> tuple[Result, float]:
        """Measures until the ticker was quiet, at most five times; gives the quietest."""
        best, best_ms = await self.beside(measure)
        for _ in range(MOST_TRIES - 1):
            if best_ms <= NOISY_MS:
                break
            result, p99_ms = await self.beside(measure)
            if p99_ms < best_ms:
                best, best_ms = result, p99_ms
        return best, best_ms

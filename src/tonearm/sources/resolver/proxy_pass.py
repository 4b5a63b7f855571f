"""The right of one resolving process to use the proxy, for as long as it resolves one page."""

import asyncio
import contextlib
import secrets
from typing import Final

from tonearm.core.failure import FailureCode, PlayFailure, Stage

USER: Final = "tonearm"
CONNECTIONS_AT_MOST: Final = 32
_REFUSALS: Final = frozenset({FailureCode.SOURCE_BLOCKED, FailureCode.SOURCE_REFUSED})


class ProxyPass:
    """`traffic_limit_bytes` are for both directions together."""

    def __init__(self, traffic_limit_bytes: int) -> None:
        self.password: Final = secrets.token_urlsafe(32)
        self._left_bytes = traffic_limit_bytes
        self._connections: set[asyncio.Task[None]] = set()
        self._problem: PlayFailure | None = None

    @property
    def problem(self) -> PlayFailure | None:
        """Why something could not be reached: a refusal if there was one, else what happened last."""
        return self._problem

    def report(self, failure: PlayFailure) -> None:
        if self._problem is None or self._problem.code not in _REFUSALS:
            self._problem = failure

    def enter(self, connection: asyncio.Task[None]) -> bool:
        """Takes a connection in, to be ended with the pass; False when there are too many."""
        if len(self._connections) >= CONNECTIONS_AT_MOST:
            return False
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        return True

    def spend(self, count_bytes: int) -> bool:
        """Counts traffic; False when there was too much of it."""
        self._left_bytes -= count_bytes
        if self._left_bytes < 0:
            self.report(
                PlayFailure(
                    FailureCode.LIMIT_EXCEEDED,
                    Stage.RESOLVE,
                    "The page makes the resolver load more than it may.",
                    "Give the link of the media itself.",
                )
            )
        return self._left_bytes >= 0

    async def revoke(self) -> None:
        """Cuts what is still connected."""
        connections = tuple(self._connections)
        for connection in connections:
            connection.cancel()
        if connections:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*connections, return_exceptions=True)

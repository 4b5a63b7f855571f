"""When an event loop has nothing left to do: then a test that turns time by hand turns it on."""

import asyncio
from typing import Any, Final

# Far more than an opening or a deletion takes; only what calls itself for ever takes them.
_MOST_TURNS: Final = 200


class Settling:
    """Waits until all that was called for in the running loop is done. What waits for time, or for a thread, is not
    waited for. Where nothing was called for, the loop does not turn."""

    def __init__(self) -> None:
        self._calls = 1
        self._done = 0
        loop = asyncio.get_running_loop()
        call_soon = loop.call_soon

        def counted(*args: Any, **more: Any) -> asyncio.Handle:
            self._calls += 1
            return call_soon(*args, **more)

        loop.call_soon = counted  # type: ignore[assignment, method-assign]

    async def settle(self) -> bool:
        """True when there was something to do."""
        if self._calls == self._done:
            return False
        for _ in range(_MOST_TURNS):
            self._done = self._calls
            await asyncio.sleep(0)
            self._done += 1  # this task's own turn
            if self._calls == self._done:
                return True
        raise AssertionError("something in the loop calls itself again and again")

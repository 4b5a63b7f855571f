"""Sessions that wait because the decoder processes are overloaded, and the log of the overload."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from tonearm.decoder.pool.process import SessionOwner

log = logging.getLogger(__name__)

LOGGED_AFTER_S: Final = 3.0  # many sessions that start at once wait for a moment, which is no overload


class Overload:
    """The waiting owners, and since when each has waited for audio. A silent owner waits only for a place, which is no
    overload. An overload is logged when it has lasted for `LOGGED_AFTER_S`, and when it is over."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._since_s: dict[SessionOwner, float | None] = {}  # None: the owner is silent
        self._began_s: float | None = None
        self._is_logged = False

    def __contains__(self, owner: object) -> bool:
        return owner in self._since_s

    def __iter__(self) -> Iterator[SessionOwner]:
        return iter(self._since_s)

    def __len__(self) -> int:
        return len(self._since_s)

    def wait(self, owner: SessionOwner) -> None:
        """`owner` waits from now on, unless it waits already."""
        since_s = None if owner.is_silent else self._now_s()
        self._since_s.setdefault(owner, since_s)
        if self._began_s is None:
            self._began_s = since_s

    def wait_anew(self, owner: SessionOwner) -> None:
        """If `owner` waits, its wait for audio begins or ends now, because its silence has ended or begun."""
        if owner in self._since_s:
            self.forget(owner)
            self.wait(owner)

    def forget(self, owner: SessionOwner) -> None:
        self._since_s.pop(owner, None)

    def waited_s(self, owner: SessionOwner) -> float | None:
        """For how long `owner` has waited for audio; None when it does not wait for audio."""
        since_s = self._since_s.get(owner)
        return None if since_s is None else self._now_s() - since_s

    @property
    def wanting(self) -> int:
        """How many owners wait for audio."""
        return sum(since_s is not None for since_s in self._since_s.values())

    @property
    def told_s(self) -> float:
        """For how long the logged overload has lasted; 0 without one, and when no owner waits for audio any more."""
        is_told = self._is_logged and self.wanting > 0
        return self._now_s() - self._began_s if is_told and self._began_s is not None else 0.0

    def log_state(self) -> None:
        """Logs that the overload lasts, or is over. To be called from time to time."""
        if self._began_s is None:
            return
        lasted_s, wanting = self._now_s() - self._began_s, self.wanting
        if not wanting:
            if self._is_logged:
                log.info("the overload has passed, after %.0f s: no player waits any more", lasted_s)
            self._began_s, self._is_logged = None, False
        elif not self._is_logged and lasted_s >= LOGGED_AFTER_S:
            self._is_logged = True
            log.warning(
                "the node has been overloaded for %.0f s: playing players continue, and %d players wait for capacity; "
                "the limit is decoder.processes, decoder.memory_limit_mb or the number of processors",
                lasted_s,
                wanting,
            )

"""Which session is rendered next, block by block."""

from heapq import heappop, heappush
from itertools import count


class RenderOrder:
    """The sessions that may have something to render: the one whose frames run out first comes first.

    A session whose plan was changed has no frames ahead, so it need not wait for the blocks of others, which were
    granted on the same beat and have time.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int]] = []  # frames ahead, number of the entry, session
        self._numbers = count()
        self._newest: dict[int, int] = {}  # by session: the number of its entry that counts

    def __bool__(self) -> bool:
        return bool(self._newest)

    def add(self, session: int, frames_ahead: int) -> None:
        """Has a session rendered, of which so many frames are ahead of what was sent. Only the last call counts."""
        number = self._newest[session] = next(self._numbers)
        heappush(self._entries, (frames_ahead, number, session))

    def take(self) -> int:
        """Takes the most urgent session out; of several the one that was added first. Raises IndexError when there is
        none."""
        while True:
            _, number, session = heappop(self._entries)
            if self._newest.get(session) == number:
                del self._newest[session]
                return session

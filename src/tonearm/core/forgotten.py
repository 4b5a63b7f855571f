"""Decides which players expire: those that have had no listener, event client or request for a long time."""

from collections.abc import Iterable
from typing import Final


class ForgottenPlayers:
    """The caller checks all players every `interval_s`. The time of a player begins at the first check that finds it
    unattended. So the player expires after `expire_s`, and at most `2 * interval_s` later. Times are seconds of a
    monotonic clock."""

    def __init__(self, expire_s: float) -> None:
        self._expire_s = expire_s
        self._alone_since_s: dict[str, float] = {}
        self.interval_s: Final = min(max(expire_s / 20, 0.05), 60.0)  # between two checks

    def spoken_to(self, player_id: str) -> None:
        """Notes a request for the player."""
        self._alone_since_s.pop(player_id, None)

    def note_unattended(self, now_s: float, unattended: Iterable[str]) -> None:
        """`unattended` are all players that have neither a listener nor an event client now."""
        before = self._alone_since_s
        self._alone_since_s = {player_id: before.get(player_id, now_s) for player_id in unattended}

    def forgotten(self, now_s: float) -> tuple[str, ...]:
        """The players to delete, by the last check."""
        return tuple(id for id, since_s in self._alone_since_s.items() if now_s - since_s >= self._expire_s)

    def is_forgotten(self, player_id: str, now_s: float) -> bool:
        """Whether the player still expires. A request for it may have come while others were deleted."""
        since_s = self._alone_since_s.get(player_id)
        return since_s is not None and now_s - since_s >= self._expire_s

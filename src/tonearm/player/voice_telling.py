"""Decides which changes of a player's voice become events for its clients."""

from collections.abc import Callable
from typing import Final

from tonearm.core.call_later import CallLater, Cancellable
from tonearm.core.voice import VoiceStatus, is_worth_telling

_DAVE_INTERVAL_S: Final = 1.0  # people who join and leave change the encryption many times a second


class VoiceTelling:
    """Keeps the newest status, and calls `tell` for each change that is worth an event. It calls `tell` for changes of
    the end-to-end encryption alone at most once a second, and never for changes of figures alone."""

    def __init__(self, call_later: CallLater, tell: Callable[[VoiceStatus | None], None]) -> None:
        self._call_later = call_later
        self._tell = tell
        self._told: VoiceStatus | None = None
        self._timer: Cancellable | None = None  # runs for a while after an event about the encryption
        self.status: VoiceStatus | None = None

    def take(self, status: VoiceStatus | None) -> None:
        self.status = status
        if is_worth_telling(self._told, status) or (self._timer is None and self._has_other_dave):
            self._tell_now()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _has_other_dave(self) -> bool:
        return self._told is not None and self.status is not None and self._told.dave != self.status.dave

    def _tell_now(self) -> None:
        if self._timer is None and self._has_other_dave:
            self._timer = self._call_later(_DAVE_INTERVAL_S, self._tell_later)
        self._told = self.status
        self._tell(self.status)

    def _tell_later(self) -> None:
        self._timer = None
        if self._has_other_dave:
            self._tell_now()

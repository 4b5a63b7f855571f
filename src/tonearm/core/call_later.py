"""The type of a function that schedules a call: the event loop's, or that of a hand-driven clock in tests."""

from collections.abc import Callable
from typing import Protocol, TypeAlias


class Cancellable(Protocol):
    def cancel(self) -> object: ...


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Cancellable]
"""Calls a function after so many seconds, unless it is cancelled before."""

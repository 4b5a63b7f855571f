"""What calls a function later: the event loop, or in tests a time that is set by hand."""

from collections.abc import Callable
from typing import Protocol, TypeAlias


class Cancellable(Protocol):
    def cancel(self) -> object: ...


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Cancellable]
"""Calls a function after so many seconds, unless it is cancelled before."""

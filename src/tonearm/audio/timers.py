"""Timers as the node's side uses them: an event loop's, or a test's."""

from collections.abc import Callable
from typing import Protocol, TypeAlias


class Cancellable(Protocol):
    def cancel(self) -> object: ...


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Cancellable]

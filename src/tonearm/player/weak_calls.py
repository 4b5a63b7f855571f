"""Calls from a part of a player to its owner, without a strong reference to the owner.

So a deleted player is freed at once. With strong references, some thousand objects would form cycles. They would stay
until the garbage collector runs, and make it run more often, while all players wait.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast
from weakref import ref

Method = TypeVar("Method", bound=Callable[..., Any])


def weakly(method: Method) -> Method:
    """A function that calls `method`. The object of the method has to live as long as the function may be called."""
    bound: Any = method
    owner, function = ref(bound.__self__), bound.__func__

    def call(*args: Any) -> Any:
        return function(owner(), *args)

    return cast(Method, call)

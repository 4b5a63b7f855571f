"""Calls from a part of a player to its owner, which the part does not keep alive.

So a deleted player is freed at once. Parts that hold their owners are cycles: some thousand objects, which stay until
the interpreter looks for such, and make it look more often, while all players wait.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast
from weakref import ref

Method = TypeVar("Method", bound=Callable[..., Any])


def weakly(method: Method) -> Method:
    """Calls `method` of an object, which has to live as long as it may be called."""
    bound: Any = method
    owner, function = ref(bound.__self__), bound.__func__

    def call(*args: Any) -> Any:
        return function(owner(), *args)

    return cast(Method, call)

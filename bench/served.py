"""Finding the most players that can be served."""

from collections.abc import Awaitable, Callable


async def served(is_even: Callable[[int], Awaitable[bool]], step: int, start: int) -> int:
    """The largest multiple of `step` for which `is_even` holds, taking it to fail for all larger ones."""
    low, high = 0, start
    while await is_even(high):
        low, high = high, high * 2
    while high - low > step:
        middle = (low + high) // 2 // step * step
        if middle <= low:
            middle = low + step
        if await is_even(middle):
            low = middle
        else:
            high = middle
    return low

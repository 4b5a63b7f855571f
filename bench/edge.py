"""Finds the largest number of players that can be served."""

from collections.abc import Awaitable, Callable


async def find_edge(is_even: Callable[[int], Awaitable[bool]], near: int, stride: int, step: int) -> int:
    """The largest multiple of `step` for which `is_even` holds, taking it to fail for all larger ones; 0 if none.

    It is looked for from `near` on, upwards or downwards, by strides that double, and then by halving: few trials when
    the answer is near, and not many when it is not.
    """
    near, stride = max(step, near // step * step), max(step, stride // step * step)
    if await is_even(near):
        low, high = near, near + stride
        while await is_even(high):
            stride *= 2
            low, high = high, high + stride
    else:
        low, high = max(0, near - stride), near
        while low and not await is_even(low):
            stride *= 2
            low, high = max(0, low - stride), low
    while high - low > step:
        middle = (low + high) // 2 // step * step
        if await is_even(middle):
            low = middle
        else:
            high = middle
    return low

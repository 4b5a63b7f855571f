"""What threads hand in to an event loop, also while that stands still."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def noted_hand_ins() -> Iterator[threading.Event]:
    """The event is set as soon as a thread has handed something in to the running loop."""
    loop, is_handed_in = asyncio.get_running_loop(), threading.Event()
    hand_in = loop.call_soon_threadsafe

    def noted(*what: Any, **more: Any) -> asyncio.Handle:
        handle = hand_in(*what, **more)
        is_handed_in.set()
        return handle

    loop.call_soon_threadsafe = noted  # type: ignore[assignment, method-assign]
    try:
        yield is_handed_in
    finally:
        loop.call_soon_threadsafe = hand_in  # type: ignore[method-assign]

"""What a node says to systemd: that it is ready, that it stops, and that its event loop still turns.

The protocol is that of sd_notify(3): a datagram to the socket named in NOTIFY_SOCKET. Without that variable nothing is
said to anybody.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager


def notify(words: str, environment: Mapping[str, str] = os.environ) -> None:
    """Sends `words`, such as `READY=1`. That nobody takes them is no failure of the node's."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender, contextlib.suppress(OSError):
        sender.sendto(words.encode(), address.replace("@", "\0", 1))


def watchdog_interval_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often systemd is to hear of the node: twice as often as WatchdogSec= asks; None when it does not ask."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    is_for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(microseconds) / 2e6 if microseconds.isdigit() and int(microseconds) and is_for_us else None


@asynccontextmanager
async def supervised() -> AsyncIterator[None]:
    """The node is ready at the beginning of this, and stops at its end."""
    notify("READY=1")
    interval_s = watchdog_interval_s()
    turning = None if interval_s is None else asyncio.create_task(_say_that_the_loop_turns(interval_s))
    try:
        yield
    finally:
        notify("STOPPING=1")
        if turning is not None:
            turning.cancel()


async def _say_that_the_loop_turns(interval_s: float) -> None:
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)

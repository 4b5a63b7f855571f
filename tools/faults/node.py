"""The command `tonearm`, with two faults that no signal of the system makes: `SIGUSR1` holds up its event loop for half
a second, `SIGUSR2` lets its time of day jump, forth and back in turn."""

import itertools
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from tonearm.cli import main

BLOCKED_S: Final = 0.5
JUMP_S: Final = 3600.0


def hold_up_the_loop(_: int, __: FrameType | None) -> None:
    """Signal handlers run in the thread of the loop."""
    time.sleep(BLOCKED_S)


def jumping_clock() -> Callable[[int, FrameType | None], None]:
    real_s, real_ns = time.time, time.time_ns
    jumps_s = itertools.cycle((JUMP_S, 0.0))

    def jump(_: int, __: FrameType | None) -> None:
        ahead_s = next(jumps_s)
        time.time = lambda: real_s() + ahead_s
        time.time_ns = lambda: real_ns() + int(ahead_s * 1e9)

    return jump


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, hold_up_the_loop)
    signal.signal(signal.SIGUSR2, jumping_clock())
    sys.exit(main())

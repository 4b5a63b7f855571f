"""The command `tonearm` where the time of day is another one, by the seconds of the variable `CLOCK_AHEAD_S`."""

import os
import sys
import time

from tonearm.cli import main

if __name__ == "__main__":
    real_s, real_ns, ahead_s = time.time, time.time_ns, int(os.environ["CLOCK_AHEAD_S"])
    time.time = lambda: real_s() + ahead_s
    time.time_ns = lambda: real_ns() + ahead_s * 1_000_000_000
    sys.exit(main())

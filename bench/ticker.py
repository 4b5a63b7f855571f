"""A bare 20 ms ticker in a process of its own, without an event loop: what lateness the machine itself adds.

`python -m bench.ticker` ticks between one line on stdin and the next, and answers each line with one of JSON.
"""

import json
import select
import sys
import time

from bench.evenness import FRAME_S
from bench.spread import percentile


def tick() -> list[float]:
    """Ticks until stdin has something to read; gives each tick's lateness in ms."""
    late_ms = []
    deadline = time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        deadline += FRAME_S
        time.sleep(max(0.0, deadline - time.monotonic()))
        late_ms.append((time.monotonic() - deadline) * 1000)
    return late_ms


def main() -> None:
    while sys.stdin.readline():
        print(json.dumps({}), flush=True)
        late_ms = tick()
        if sys.stdin.readline():
            print(json.dumps({"p99_ms": percentile(late_ms or [0.0], 99)}), flush=True)


if __name__ == "__main__":
    main()

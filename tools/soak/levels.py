"""What the node's processes hold of the system, sampled over time."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

_T = TypeVar("_T")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Level:
    """`memory_mb` is resident in all processes together, with what they share counted once (PSS); the others are of the
    node itself, and `processes` counts its children."""

    at_s: float
    memory_mb: float
    descriptors: int
    threads: int
    processes: int
    cpu_s: float


def level_of(pid: int, begin_s: float) -> Level | None:
    """None when the process is gone."""
    try:
        processes = [pid, *_descendants(pid)]
        memory = sum(filter(None, (_read(_memory_kb, one) for one in processes)))
        stats = [stat for stat in (_read(_stat, one) for one in processes) if stat]
        threads = int(_stat(pid)[17])
        ticks = sum(int(stat[11]) + int(stat[12]) for stat in stats)
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, IndexError):
        return None
    return Level(
        time.monotonic() - begin_s, memory / 1024, descriptors, threads, len(processes) - 1, ticks / _TICKS_A_SECOND
    )


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listing.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _read(how: Callable[[int], _T], pid: int) -> _T | None:
    """None for a process that has ended meanwhile."""
    try:
        return how(pid)
    except (OSError, IndexError):
        return None


def _memory_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _stat(pid: int) -> list[str]:
    """proc(5): the fields behind the name."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()

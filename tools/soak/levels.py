"""What the node's processes hold of the system, sampled over time."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tests.support.processes import children_of, descriptors_of

_T = TypeVar("_T")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Level:
    """`memory_mb` is resident in all processes together, with what they share counted once (PSS); the others are of the
    node itself, and `processes` counts its children."""

    at_s: float
    memory_mb: float
    descriptors: int
    sockets: int  # of these
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
        descriptors = descriptors_of(pid).values()
        sockets = sum(target.startswith("socket:") for target in descriptors)
    except (OSError, IndexError):
        return None
    return Level(
        time.monotonic() - begin_s,
        memory / 1024,
        len(descriptors),
        sockets,
        threads,
        len(processes) - 1,
        ticks / _TICKS_A_SECOND,
    )


def _descendants(pid: int) -> list[int]:
    return [found for child in children_of(pid) for found in (child, *_descendants(child))]


def _read(how: Callable[[int], _T], pid: int) -> _T | None:
    """None for what is gone meanwhile."""
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

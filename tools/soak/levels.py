"""What the node's processes hold of the system, sampled over time."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

_T = TypeVar("_T")
_Of = TypeVar("_Of")
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
        descriptors = [_read(_target, path) for path in Path(f"/proc/{pid}/fd").iterdir()]
        sockets = sum(target is not None and target.startswith("socket:") for target in descriptors)
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
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listing.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _read(how: Callable[[_Of], _T], of: _Of) -> _T | None:
    """None for what is gone meanwhile."""
    try:
        return how(of)
    except (OSError, IndexError):
        return None


def _target(descriptor: Path) -> str:
    return os.readlink(descriptor)


def _memory_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _stat(pid: int) -> list[str]:
    """proc(5): the fields behind the name."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()

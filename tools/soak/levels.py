"""Samples the system resources of the node's processes over time."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tests.support.processes import children_of, descriptors_of, kind_of

_T = TypeVar("_T")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    """What the processes of one kind hold, in MB: each alone, with others, and with the shared part divided by those
    who share it (PSS)."""

    processes: int = 0
    private_mb: float = 0.0
    shared_mb: float = 0.0
    pss_mb: float = 0.0

    def __add__(self, other: "Memory") -> "Memory":
        return Memory(
            self.processes + other.processes,
            self.private_mb + other.private_mb,
            self.shared_mb + other.shared_mb,
            self.pss_mb + other.pss_mb,
        )

    def __str__(self) -> str:
        return f"{self.pss_mb:.0f} MB in {self.processes} ({self.private_mb:.0f} private, {self.shared_mb:.0f} shared)"


@dataclass(frozen=True, slots=True)
class Level:
    """`memory` is resident, by kind of process; the others are of the node itself, and `processes` counts its
    children."""

    at_s: float
    memory: Mapping[str, Memory]
    descriptors: int
    sockets: int  # of these
    threads: int
    processes: int
    cpu_s: float

    @property
    def memory_mb(self) -> float:
        """Of all processes together, with what they share counted once."""
        return sum(one.pss_mb for one in self.memory.values())

    @property
    def node_mb(self) -> float:
        """Of all but the decoders, which are others in each `Calm`: new ones of the same players differ by a fifth."""
        return sum(one.pss_mb for kind, one in self.memory.items() if kind != "decoder")


def level_of(pid: int, begin_s: float) -> Level | None:
    """None when the process is gone."""
    try:
        processes = [pid, *_descendants(pid)]
        memory: dict[str, Memory] = {}
        for one in processes:
            kind = "node" if one == pid else kind_of(one)
            memory[kind] = memory.get(kind, Memory()) + (_read(_memory, one) or Memory())
        stats = [stat for stat in (_read(_stat, one) for one in processes) if stat]
        threads = int(_stat(pid)[17])
        ticks = sum(int(stat[11]) + int(stat[12]) for stat in stats)
        descriptors = descriptors_of(pid).values()
        sockets = sum(target.startswith("socket:") for target in descriptors)
    except (OSError, IndexError):
        return None
    return Level(
        time.monotonic() - begin_s,
        memory,
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


def _memory(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    mb = {name: int(value) / 1024 for name, value, _ in map(str.split, lines)}
    return Memory(
        1,
        mb["Private_Clean:"] + mb["Private_Dirty:"],
        mb["Shared_Clean:"] + mb["Shared_Dirty:"],
        mb["Pss:"],
    )


def _stat(pid: int) -> list[str]:
    """proc(5): the fields behind the name."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()

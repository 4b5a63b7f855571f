"""What processes cost: CPU time and memory, read from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """CPU seconds so far and proportional set size now, of a process and all below it."""

    cpu_s: float
    pss_mb: float
    processes: int


def tree(root: int) -> list[int]:
    """`root` and every process below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def cost(root: int) -> Cost:
    """Of the live processes; their dead children's CPU counts for the parents that waited for them."""
    cpu_s = pss_kb = 0.0
    pids = tree(root)
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        cpu_s += sum(map(int, fields[11:15])) / _TICKS_A_SECOND
        pss_kb += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return Cost(cpu_s, pss_kb / 1024, len(pids))

"""The CPU time and memory of a process and all its descendants, read from the kernel."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PROCESS_CLOCK: Final = 2  # the kernel's number for a process's CPU clock, in ns: /proc/PID/stat has 10 ms only


@dataclass(frozen=True)
class ThreadTime:
    """CPU time of one thread so far, and how often it was put on a core."""

    cpu_ns: int
    switches: int


def tree(root: int) -> list[int]:
    """`root` and every process below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int(_stat(int(entry.name))[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def cpu_s(root: int) -> float:
    """Seconds so far. Of children that have ended, those count that somebody waited for."""
    total_s = 0.0
    for pid in tree(root):
        try:
            total_s += time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
            total_s += sum(map(int, _stat(pid)[13:15])) / _TICKS_A_SECOND
        except OSError:
            continue
    return total_s


def pss_mb(root: int) -> float:
    """Proportional set size: what is shared by several processes is shared out among them."""
    return sum(map(pss_mb_of, tree(root)))


def pss_mb_of(pid: int) -> float:
    """Of one process; 0 when it is gone."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0) / 1024


def thread_times(root: int) -> dict[tuple[int, int], ThreadTime]:
    """Of each thread by its process and number."""
    times = {}
    for pid in tree(root):
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                cpu_ns, _, switches = map(int, (task / "schedstat").read_text().split())
            except OSError:
                continue
            times[pid, int(task.name)] = ThreadTime(cpu_ns, switches)
    return times


def written_bytes(pid: int) -> int:
    """What one process wrote to files and stream sockets so far."""
    counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(counts["wchar"])


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()

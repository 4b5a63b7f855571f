"""Measures the node's load: how late its event loop is, and CPU time and memory of its processes by proc(5)."""

import contextlib
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tonearm.core.figures import ProcessFigures, ProcessKind

INTERVAL_S: Final = 0.05
WINDOW_S: Final = 10.0
LOOP_LATE_S: Final = 0.02  # the length of a frame; listeners may hear what is later than this

_SAMPLES: Final = round(WINDOW_S / INTERVAL_S)


class LoadWatch:
    """Measures how late the event loop makes a call that is due every 50 ms. `call_later` is the event loop's."""

    def __init__(
        self, call_later: Callable[[float, Callable[[], None]], object], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._call_later = call_later
        self._now_s = now_s
        self._was_late: deque[bool] = deque(maxlen=_SAMPLES)
        self._due_s = now_s()
        self._is_stopped = False

    def start(self) -> None:
        self._due_s = self._now_s() + INTERVAL_S
        self._call_later(INTERVAL_S, self._measure)

    def stop(self) -> None:
        self._is_stopped = True

    @property
    def late_share(self) -> float:
        """The share of the last 10 s, 0 to 1, in which the node was late. Time before the start counts as in time."""
        return sum(self._was_late) / _SAMPLES

    def _measure(self) -> None:
        if self._is_stopped:
            return
        late_s = self._now_s() - self._due_s
        # The calls that were due in this time were late, too.
        missed = min(_SAMPLES, math.floor(late_s / INTERVAL_S)) if late_s > 0 else 0
        self._was_late.extend([True] * missed)
        self._was_late.append(late_s > LOOP_LATE_S)
        self._due_s += (missed + 1) * INTERVAL_S
        self._call_later(max(0.0, self._due_s - self._now_s()), self._measure)


def usable_cores(proc: Path = Path("/proc/self"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """How many of the machine's cores this process may use, by its affinity and the quotas of its container or service
    (cgroup v2)."""
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError, StopIteration):  # the last without cgroup v2
        own = next(line[3:] for line in (proc / "cgroup").read_text().splitlines() if line.startswith("0::"))
        for group in (own, *map(str, Path(own).parents)):
            with contextlib.suppress(OSError, ValueError):  # the outermost group has no such file; `max` is no number
                quota_us, period_us = map(int, (cgroups / group.lstrip("/") / "cpu.max").read_text().split())
                cores = min(cores, max(1, math.ceil(quota_us / period_us)))
    return cores


_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat behind the name: the parent, CPU time in user and in system mode, resident pages.
_PARENT: Final = 1
_USER_TICKS: Final = 11
_SYSTEM_TICKS: Final = 12
_RESIDENT_PAGES: Final = 21


def process_figures(node_pid: int, decoders: Mapping[int, int]) -> tuple[ProcessFigures, ...]:
    """The figures of the node and its child processes. `decoders`: how many sessions each decoder process has, by its
    id; other children are the template, processes that load tracks, and resolvers. Blocks: it reads files."""
    children = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = []
    for pid in sorted(children, key=lambda pid: (pid != node_pid, pid not in decoders, pid)):
        stat = _stat(pid)
        if not stat or (pid != node_pid and int(stat[_PARENT]) != node_pid):
            continue
        kind: ProcessKind = "node" if pid == node_pid else "decoder" if pid in decoders else "other"
        cpu_s = (int(stat[_USER_TICKS]) + int(stat[_SYSTEM_TICKS])) / _TICKS_A_SECOND
        memory_bytes = int(stat[_RESIDENT_PAGES]) * _PAGE_BYTES
        found.append(ProcessFigures(kind, pid, cpu_s, memory_bytes, decoders.get(pid, 0)))
    return tuple(found)


def _stat(pid: int) -> list[str]:
    """The fields after the name in /proc/PID/stat; empty for a process that is gone or may not be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []

"""CPU time and memory of the node's processes, as the kernel counts them (proc(5))."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tonearm.core.figures import ProcessFigures, ProcessKind

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

"""What a process is, and what it holds of the system: descriptors and children."""

import contextlib
import json
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.decoder_forks import decoder_template_process_id
from tests.support.eventually import eventually
from tests.support.tonearm_forks import tonearm_template_process_id
from tonearm.decoder.pool.process import DecoderProcess, suspects_of_exit

_YARDSTICK: Final = b"[%s[]]" % (b"[]," * 300_000)


def open_descriptors() -> dict[int, str]:
    """This process's descriptors and what they are."""
    return descriptors_of(os.getpid())


def descriptors_of(process_id: int) -> dict[int, str]:
    """The descriptors of a process, in their order, and what they are."""
    found = {}
    for entry in sorted(Path(f"/proc/{process_id}/fd").iterdir(), key=lambda entry: int(entry.name)):
        try:
            found[int(entry.name)] = str(entry.readlink())
        except OSError:
            continue  # the one that this very listing used
    return found


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Lets this process open only so many more files and connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(count):
            os.close(held.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)


def has_children() -> bool:
    """Whether this process has started others that are still there, but for those that others are forked from."""
    return bool(children() - {tonearm_template_process_id(), decoder_template_process_id()})


def children() -> set[int]:
    """The processes that this one has started and that are still there, be it as zombies."""
    return children_of(os.getpid())


def children_of(process_id: int) -> set[int]:
    """The same of another process."""
    found: set[int] = set()
    for listing in Path(f"/proc/{process_id}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            found.update(map(int, listing.read_text().split()))
    return found


def is_alive(process_id: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def is_stopped(process_id: int) -> bool:
    """Whether a signal has stopped it."""
    return "\nState:\tT" in Path(f"/proc/{process_id}/status").read_text()


@contextlib.contextmanager
def standing_still(process_id: int) -> Iterator[None]:
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGCONT)


async def crash_at_work(process: DecoderProcess) -> None:
    """Ends the process while it works on a source. It stands still while its notes say so, and until the signal is
    there."""

    def is_at_work() -> bool:
        with standing_still(process.pid):
            while not is_stopped(process.pid):  # a process stops when it gets the processor
                time.sleep(0.001)
            at_work = bool(suspects_of_exit(process._suspects[:], -signal.SIGSEGV))
            if at_work:
                os.kill(process.pid, signal.SIGSEGV)
            return at_work

    await eventually(is_at_work, "it works on a source")


def exists(process_id: int) -> bool:
    """Whether it is there, be it as a zombie."""
    return Path(f"/proc/{process_id}").exists()


def waited_for_cpu_s(process_id: int) -> float:
    """For how long the threads of a process have been ready to run, while the machine did something else."""
    waited_ns = 0
    with contextlib.suppress(FileNotFoundError):  # a process that has ended
        for thread in Path(f"/proc/{process_id}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that has just ended
                waited_ns += int((thread / "schedstat").read_text().split()[1])
    return waited_ns / 1e9


class WaitForCpu:
    """For how long this process and others have waited for the machine since this was made.

    A test that has a limit of time adds it: what else runs on the machine is nothing that the node is to blame for.
    """

    def __init__(self, *process_ids: int) -> None:
        self._before_s = {process_id: waited_for_cpu_s(process_id) for process_id in (os.getpid(), *process_ids)}

    def seconds(self, *process_ids: int) -> float:
        """Of this process and of those, whether they were there at the beginning or not. One that has ended counts
        nothing."""
        return sum(
            max(0.0, waited_for_cpu_s(process_id) - self._before_s.get(process_id, 0.0))
            for process_id in {os.getpid(), *process_ids}
        )


def environment_of(process_id: int) -> list[str]:
    return Path(f"/proc/{process_id}/environ").read_bytes().decode().split("\0")


def kind_of(process_id: int) -> str:
    """The last word of the command line that `ps` shows: "decoder" or "template" for what a node has forked; "" when it
    is gone."""
    try:
        words = Path(f"/proc/{process_id}/cmdline").read_text().rstrip("\0").split("\0")
    except OSError:
        return ""
    return words[-1]


def own_session(process_id: int) -> bool:
    """Whether it leads a session of its own, which no terminal's Ctrl-C reaches."""
    return os.getsid(process_id) == process_id


def longest_hold_s() -> float:
    """For how long one call may keep the interpreter: two frames or, on a machine that takes longer for a text of this
    length alone, so long."""
    taken_s = []
    for _ in range(3):
        begun_s = time.thread_time()
        json.loads(_YARDSTICK)
        taken_s.append(time.thread_time() - begun_s)
    return max(0.04, min(taken_s))

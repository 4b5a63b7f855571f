"""Which source may decode now: earliest deadline first, with a fixed number of slots, and the threads that do it.

Threads that decode side by side fight for the interpreter lock: two at once get less done than one after the other.
So a `DecodeScheduler` gives out slots, and a job works only while it holds one. The job whose deadline is earliest
gets the next free slot. A job that has to wait for bytes gives its slot up for that time.
"""

import heapq
import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Job(Protocol):
    """Work that is done in steps, one for each slot it gets. Between steps it needs no thread."""

    @property
    def suspect(self) -> int:
        """The source that the job works on, as `note` writes it down."""
        ...

    def start_in(self, slot: int) -> None:
        """Called with the slot that the job was given, in the thread that made it free: has another thread run it."""
        ...

    def run(self, slot: int) -> "Slot | None":
        """Does one step and gives the slot back. Returns the slot with the next job, if the caller is to run that."""
        ...


class Slot(NamedTuple):
    """A slot and the job that was given it."""

    job: Job
    number: int


class DecodeScheduler:
    """Earliest deadline first: gives each free slot to the waiting job whose deadline is earliest.

    `note(slot, suspect)` writes down which source is worked on in which slot (0: none). The node reads that when the
    process has died.
    """

    def __init__(
        self, slots: range, note: Callable[[int, int], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._free = list(slots)
        self._waiting: list[tuple[float, int, Job | Waiter]] = []
        self._arrivals = 0
        self._begun_s: dict[int, float] = {}
        self._note = note
        self._now_s = now_s

    def acquire(self, deadline_s: float, suspect: int) -> int:
        """Blocks until the calling thread gets a slot, and returns it. Equal deadlines are served in order."""
        waiter = Waiter(suspect)
        self.submit(waiter, deadline_s)
        return waiter.wait()

    def submit(self, job: "Job | Waiter", deadline_s: float) -> None:
        """Starts `job` as soon as there is a slot for it."""
        with self._lock:
            if not self._free:
                self._arrivals += 1
                heapq.heappush(self._waiting, (deadline_s, self._arrivals, job))
                return
            slot = self._free.pop()
            self._begin(slot, job.suspect)
        job.start_in(slot)

    def release(self, slot: int) -> None:
        """Gives a slot back. The waiting job with the earliest deadline is started in it."""
        job = self._reassign(slot)
        if job is not None:
            job.start_in(slot)

    def release_and_continue(self, slot: int) -> Slot | None:
        """As `release`, by a thread that has nothing else to do: returns the slot if that thread can run its next job.

        Waking another thread would cost more, mostly because it would run on another core.
        """
        job = self._reassign(slot)
        if isinstance(job, Waiter):
            job.start_in(slot)
            return None
        return None if job is None else Slot(job, slot)

    @property
    def waiting(self) -> int:
        """The number of jobs that wait for a slot."""
        return len(self._waiting)

    def busy_s(self) -> float:
        """For how long the job that has held its slot longest has held it; 0 when all slots are free."""
        with self._lock:
            begun_s = min(self._begun_s.values(), default=None)
        return 0.0 if begun_s is None else self._now_s() - begun_s

    def _reassign(self, slot: int) -> "Job | Waiter | None":
        """Takes the slot from its job. Returns the job that gets it next, or None when none waits."""
        with self._lock:
            if not self._waiting:
                del self._begun_s[slot]
                self._note(slot, 0)
                self._free.append(slot)
                return None
            _, _, job = heapq.heappop(self._waiting)
            self._begin(slot, job.suspect)
            return job

    def _begin(self, slot: int, suspect: int) -> None:
        self._begun_s[slot] = self._now_s()
        self._note(slot, suspect)


class Waiter:
    """A thread that blocks until it gets a slot, to work on `suspect` in it. Good for one slot."""

    def __init__(self, suspect: int) -> None:
        self.suspect = suspect
        self._slot = -1
        self._started = threading.Lock()
        self._started.acquire()

    def wait(self) -> int:
        """Blocks, then returns the slot."""
        self._started.acquire()
        return self._slot

    def start_in(self, slot: int) -> None:
        self._slot = slot
        self._started.release()


class DecodeThreads:
    """The threads that run jobs. A thread runs one job after the other, and sleeps only when none is due.

    There must be one thread for each slot, and one more for each source that may block in the middle of a job, since
    it keeps its thread for that time. Then a job that got a slot never lacks a thread.
    """

    def __init__(self) -> None:
        self._slots: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()

    def add(self, count: int = 1) -> None:
        """Starts further threads. Raises `RuntimeError` or `MemoryError` when the system refuses one."""
        for _ in range(count):
            threading.Thread(target=self._run_jobs, name="decoding", daemon=True).start()

    def remove(self) -> None:
        """Ends one thread, as soon as one is idle."""
        self._slots.put(None)

    def run(self, slot: Slot) -> None:
        """Has a thread run the job of this slot."""
        self._slots.put(slot)

    def _run_jobs(self) -> None:
        while (slot := self._slots.get()) is not None:
            while slot is not None:
                slot = slot.job.run(slot.number)

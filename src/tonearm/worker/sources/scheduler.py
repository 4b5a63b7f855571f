"""Decides which source may decode now: earliest deadline first, with a fixed number of slots. Runs the threads.

Parallel decoding threads compete for the interpreter lock: two at once get less done than one after the other. So a
`DecodeScheduler` assigns slots, and a job works only while it has a slot. The job with the earliest deadline gets the
next free slot. But a job may yield to others whose deadlines are slightly later: by deadlines alone all jobs would be
late together in an overload. A `SlotJob` does a step of a source in each slot; between steps it is idle until more is
needed. A job that has to wait for bytes returns its slot for that time.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

_T = TypeVar("_T")

# Added to the deadline of a source whose session has not begun. It is opened only while the `before` scheduler is not
# late.
BEGINNING_SLACK_S: Final = 1000.0
DEADLINE_LATE_S: Final = 0.05


class Slot(NamedTuple):
    job: "SlotJob"
    number: int


class UrgencyQueue(Generic[_T]):
    """The waiting items, lowest urgency value first. Among equal values, the item that was added first comes first."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, _T]] = []  # urgency, number of the entry, item
        self._numbers = count()
        self._newest: dict[_T, int] = {}  # by item: the number of its valid entry

    def __bool__(self) -> bool:
        return bool(self._newest)

    def __contains__(self, item: _T) -> bool:
        return item in self._newest

    def add(self, item: _T, urgency: float) -> None:
        """Adds an item. If an item is added several times, the last call counts."""
        number = self._newest[item] = next(self._numbers)
        heappush(self._entries, (urgency, number, item))
        self._forget_old()

    def first(self) -> tuple[float, _T]:
        """The urgency of the most urgent item, and the item. Raises IndexError when there is none."""
        while True:
            urgency, number, item = self._entries[0]
            if self._newest.get(item) == number:
                return urgency, item
            heappop(self._entries)

    def take(self) -> _T:
        """Removes and returns the most urgent item. Raises IndexError when there is none."""
        _, item = self.first()
        heappop(self._entries)
        del self._newest[item]
        self._forget_old()
        return item

    def _forget_old(self) -> None:
        """Removes old entries when there are many. Otherwise they would keep their items, perhaps for ever."""
        if len(self._entries) > 2 * len(self._newest):
            self._entries = [entry for entry in self._entries if self._newest.get(entry[2]) == entry[1]]
            heapify(self._entries)


class DecodeScheduler:
    """Earliest deadline first: gives each free slot to the waiting job with the earliest deadline.

    `note(slot, suspect)` notes which source is worked on in which slot (0: none). The node reads the notes after the
    process has died. While the scheduler `before` is late with its jobs, no job with `BEGINNING_SLACK_S` begins here:
    it would delay the others further.
    """

    def __init__(
        self,
        slots: range,
        note: Callable[[int, int], None],
        now_s: Callable[[], float] = time.monotonic,
        before: "DecodeScheduler | None" = None,
    ) -> None:
        self._lock = threading.Lock()
        self._free = list(slots)
        self._waiting: UrgencyQueue[SlotJob | Waiter] = UrgencyQueue()  # by deadline plus yield
        self._late_from_s: dict[SlotJob | Waiter, float] = {}  # for the waiting jobs
        self._begun_s: dict[int, float] = {}
        self._note = note
        self._now_s = now_s
        self._before = before
        self._held_back: DecodeScheduler | None = None  # the scheduler that waits until this one is in time
        self._worked_s = self._late_s = 0.0  # since the last `take_work_s`
        self._counted_from_s: dict[int, float] = {}  # by slot: from when on its work is not counted yet

    def submit(self, job: "SlotJob | Waiter", deadline_s: float, yields_s: float = 0.0) -> None:
        """Starts `job` as soon as a slot is free for it, after jobs whose deadlines are less than `yields_s` later.
        Jobs with equal deadlines start in order."""
        with self._lock:
            self._enqueue(job, deadline_s, yields_s)
        self.go_on()

    def hasten(self, job: "SlotJob | Waiter", deadline_s: float, yields_s: float = 0.0) -> None:
        """Changes a job's deadline, if the job still waits for a slot."""
        with self._lock:
            if job in self._waiting:
                self._enqueue(job, deadline_s, yields_s)

    def release(self, slot: int) -> None:
        """Returns a slot. The waiting job with the earliest deadline starts in it."""
        job = self._reassign(slot)
        if job is not None:
            job.start_in(slot)

    def release_and_continue(self, slot: int) -> Slot | None:
        """As `release`, for an idle thread: returns the slot if the calling thread can run the slot's next job.

        Waking another thread would cost more, mostly because it would run on another core.
        """
        job = self._reassign(slot)
        if isinstance(job, Waiter):
            job.start_in(slot)
            return None
        return None if job is None else Slot(job, slot)

    def take_work_s(self) -> tuple[float, float]:
        """The time that all slots together were in use, and the longest lateness of a job; both since the last call."""
        with self._lock:
            now_s = self._now_s()
            self._late_s = max(self._late_s, self._lateness_s(now_s))
            worked_s = self._worked_s + sum(now_s - since_s for since_s in self._counted_from_s.values())
            self._counted_from_s = dict.fromkeys(self._counted_from_s, now_s)
            late_s, self._worked_s, self._late_s = self._late_s, 0.0, 0.0
        return worked_s, late_s

    def go_on(self) -> None:
        """Starts waiting jobs, as far as there are free slots."""
        begun = []
        with self._lock:
            while self._free and (job := self._next()) is not None:
                slot = self._free.pop()
                self._begin(slot, job.suspect, self._now_s())
                begun.append((job, slot))
        for job, slot in begun:
            job.start_in(slot)

    def busy_s(self) -> float:
        """The time for which the longest-running job has had its slot; 0 when all slots are free."""
        with self._lock:
            begun_s = min(self._begun_s.values(), default=None)
        return 0.0 if begun_s is None else self._now_s() - begun_s

    def _reassign(self, slot: int) -> "SlotJob | Waiter | None":
        """Takes the slot from its job. Returns the slot's next job, or None when no job waits."""
        held_back = None
        with self._lock:
            now_s = self._now_s()
            self._worked_s += now_s - self._counted_from_s[slot]
            job = self._next(now_s)
            if job is None:
                del self._begun_s[slot], self._counted_from_s[slot]
                self._note(slot, 0)
                self._free.append(slot)
            else:
                self._begin(slot, job.suspect, now_s)
            if self._held_back is not None and self._lateness_s(now_s) <= DEADLINE_LATE_S:
                held_back, self._held_back = self._held_back, None
        if held_back is not None:
            held_back.go_on()
        return job

    def _next(self, now_s: float | None = None) -> "SlotJob | Waiter | None":
        """Removes and returns the next job, if one may begin."""
        if not self._waiting:
            return None
        now_s = self._now_s() if now_s is None else now_s
        is_beginning = self._waiting.first()[0] - now_s > BEGINNING_SLACK_S / 2
        if is_beginning and self._before is not None and self._before.holds_back(self):
            return None
        job = self._waiting.take()
        self._late_s = max(self._late_s, now_s - self._late_from_s.pop(job))
        return job

    def holds_back(self, other: "DecodeScheduler") -> bool:
        """Whether jobs are late here. If so, `other.go_on` is called when they are in time again."""
        with self._lock:
            is_late = self._lateness_s(self._now_s()) > DEADLINE_LATE_S
            if is_late:
                self._held_back = other
        return is_late

    def _lateness_s(self, now_s: float) -> float:
        """The longest time that a job has waited for its slot since its deadline."""
        return max(0.0, now_s - min(self._late_from_s.values(), default=now_s))

    def _enqueue(self, job: "SlotJob | Waiter", deadline_s: float, yields_s: float) -> None:
        self._waiting.add(job, deadline_s + yields_s)
        self._late_from_s[job] = max(deadline_s, self._now_s())

    def _begin(self, slot: int, suspect: int, now_s: float) -> None:
        self._begun_s[slot] = self._counted_from_s[slot] = now_s
        self._note(slot, suspect)


class Waiter:
    """Blocks a thread until it gets a slot, to work on `suspect` in it. For one slot only."""

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
    """The threads that run jobs. A thread runs one job after the other, and sleeps only when no job is due.

    There must be one thread for each slot, and one more for each source that may block in the middle of a job, since
    the source keeps its thread for that time. Then a job with a slot never lacks a thread. `guarded` wraps each
    thread's work.
    """

    def __init__(self, guarded: Callable[[Callable[[], None]], Callable[[], None]] = lambda work: work) -> None:
        self._work = guarded(self._run_jobs)
        self._slots: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()

    def add(self, count: int = 1) -> None:
        """Starts further threads. Raises `RuntimeError` or `MemoryError` when the system cannot start one."""
        for _ in range(count):
            threading.Thread(target=self._work, name="decoding", daemon=True).start()

    def remove(self) -> None:
        """Ends one thread, as soon as a thread is idle."""
        self._slots.put(None)

    def run(self, slot: Slot) -> None:
        self._slots.put(slot)

    def _run_jobs(self) -> None:
        while (slot := self._slots.get()) is not None:
            while slot is not None:
                slot = slot.job.run(slot.number)


_DROPPED_DEADLINE_S: Final = 0.0  # a dropped job goes first: it only frees its resources


class Work(Protocol):
    @property
    def suspect(self) -> int: ...

    def step(self) -> bool:
        """Does the next step. False when it was the last step. Only this method uses resources that require a slot."""

    @property
    def needs_more(self) -> bool: ...

    @property
    def yields_s(self) -> float:
        """Work whose deadline is less than this time later goes before it."""

    def deadline_s(self, now_s: float) -> float:
        """The time at which its decoded samples are used up."""


class SlotJob:
    """Does `work`, one step in each slot, and needs no thread between steps. It begins with slots of `scheduler`, where
    it can wait for `slack_s`.

    `has_own_thread`: it often waits in its steps, so it starts a separate thread.
    """

    def __init__(
        self,
        work: Work,
        scheduler: DecodeScheduler,
        threads: DecodeThreads,
        *,
        has_own_thread: bool,
        slack_s: float = 0.0,
    ) -> None:
        self._work = work
        self.suspect = work.suspect
        self._scheduler = scheduler
        self._threads = threads
        self._has_own_thread = has_own_thread
        self._slack_s = slack_s
        self._slot = -1
        self._waiter: Waiter | None = None  # while its thread waits for a slot
        self._lock = threading.Lock()
        self._is_idle = False  # between two slots, with no new one requested
        self.is_dropped = False

    # From any thread

    def start(self) -> None:
        """Requests the first slot. Raises `RuntimeError` or `MemoryError` when its thread cannot be started."""
        if self._has_own_thread:
            self._threads.add()
        self._submit(self)

    def drop(self) -> None:
        """Requests its next step soon, which is the last step."""
        self.is_dropped = True
        if not self.resume():
            self._scheduler.hasten(self, _DROPPED_DEADLINE_S)

    def resume(self) -> bool:
        """Requests a slot. False when the job was not idle."""
        with self._lock:
            was_idle, self._is_idle = self._is_idle, False
        if was_idle:
            self._submit(self)
        return was_idle

    def hasten(self) -> None:
        """Call this when its work has become more urgent: the waiting job or waiter gets the new deadline."""
        deadline_s, yields_s, waiter = self._deadline_s(), self._work.yields_s, self._waiter
        self._scheduler.hasten(self, deadline_s, yields_s)
        if waiter is not None:
            self._scheduler.hasten(waiter, deadline_s, yields_s)

    def _submit(self, job: "SlotJob | Waiter") -> None:
        self._scheduler.submit(job, self._deadline_s(), 0.0 if self.is_dropped else self._work.yields_s)

    def _deadline_s(self) -> float:
        if self.is_dropped:
            return _DROPPED_DEADLINE_S
        return self._work.deadline_s(time.monotonic()) + self._slack_s

    # As a job of the scheduler

    def start_in(self, slot: int) -> None:
        """Makes another thread run the job. Called in the thread that freed the slot."""
        self._threads.run(Slot(self, slot))

    def run(self, slot: int) -> Slot | None:
        """Does one step and returns the slot to the scheduler. Returns the slot with its next job, if the caller has to
        run this job."""
        self._slot, scheduler = slot, self._scheduler
        has_more = self._work.step()
        slot = self._slot  # another slot if the job waited for bytes meanwhile
        if has_more:
            with self._lock:
                self._is_idle = True  # from here on another thread may run its next step
            if self.is_dropped or self._work.needs_more:
                self.resume()
        elif self._has_own_thread:
            self._threads.remove()
        return scheduler.release_and_continue(slot)

    # By the work, while it has a slot

    def go_on_in(self, scheduler: DecodeScheduler) -> None:
        """Uses slots of another scheduler from the next step on, without slack."""
        self._scheduler, self._slack_s = scheduler, 0.0

    @contextmanager
    def without_slot(self) -> Iterator[None]:
        """Returns the slot to the scheduler while the work waits for bytes."""
        self._scheduler.release(self._slot)
        try:
            yield
        finally:
            self._waiter = waiter = Waiter(self.suspect)
            self._submit(waiter)
            self._slot = waiter.wait()
            self._waiter = None

    @contextmanager
    def without_slot_and_with_a_thread(self) -> Iterator[None]:
        """As `without_slot`, for a job without its own thread: another thread replaces the waiting thread."""
        try:
            self._threads.add()
        except (RuntimeError, MemoryError):
            yield  # keeps the slot: otherwise the next job would have no thread
            return
        try:
            with self.without_slot():
                yield
        finally:
            self._threads.remove()

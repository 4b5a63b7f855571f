"""Work that is done in slots of a scheduler: one step in each; between steps it is idle until more is needed."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from tonearm.worker.sources.scheduler import DecodeScheduler, DecodeThreads, Slot, Waiter

_DROPPED_DEADLINE_S: Final = 0.0  # a dropped job goes first: it only frees its resources


class Work(Protocol):
    @property
    def suspect(self) -> int: ...

    def step(self) -> bool:
        """Does the next step. False when it was the last one. Only this touches what needs a slot."""
        ...

    @property
    def needs_more(self) -> bool: ...

    def deadline_s(self, now_s: float) -> float:
        """When its decoded samples are used up."""
        ...


class SlotJob:
    """A `Job` that does `work`: first in slots of `scheduler`, where it can wait for `slack_s`.

    `has_own_thread`: it waits in its steps again and again, so it brings a thread of its own.
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
        self._waiter: Waiter | None = None  # while a thread of it waits for a slot
        self._lock = threading.Lock()
        self._is_idle = False  # between two slots, with no new one requested
        self.is_dropped = False

    # From any thread

    def start(self) -> None:
        """Requests the first slot. Raises `RuntimeError` or `MemoryError` when its thread cannot be started."""
        if self._has_own_thread:
            self._threads.add()
        self._scheduler.submit(self, self._deadline_s())

    def drop(self) -> None:
        """Requests its next step soon, which is the last one."""
        self.is_dropped = True
        if not self.resume():
            self._scheduler.hasten(self, _DROPPED_DEADLINE_S)

    def resume(self) -> bool:
        """Requests a slot. False when it was not idle."""
        with self._lock:
            was_idle, self._is_idle = self._is_idle, False
        if was_idle:
            self._scheduler.submit(self, self._deadline_s())
        return was_idle

    def hasten(self) -> None:
        """Its work has become more urgent: what waits for a slot, or its thread, gets the new deadline."""
        deadline, waiter = self._deadline_s(), self._waiter
        self._scheduler.hasten(self, deadline)
        if waiter is not None:
            self._scheduler.hasten(waiter, deadline)

    def _deadline_s(self) -> float:
        if self.is_dropped:
            return _DROPPED_DEADLINE_S
        return self._work.deadline_s(time.monotonic()) + self._slack_s

    # As a job of the scheduler

    def start_in(self, slot: int) -> None:
        self._threads.run(Slot(self, slot))

    def run(self, slot: int) -> Slot | None:
        self._slot, scheduler = slot, self._scheduler
        has_more = self._work.step()
        slot = self._slot  # another one if it waited for bytes meanwhile
        if has_more:
            with self._lock:
                self._is_idle = True  # from here on another thread may run its next step
            if self.is_dropped or self._work.needs_more:
                self.resume()
        elif self._has_own_thread:
            self._threads.remove()
        return scheduler.release_and_continue(slot)

    # By the work, while it holds a slot

    def go_on_in(self, scheduler: DecodeScheduler) -> None:
        """From the next step on it gets slots of another scheduler, without slack."""
        self._scheduler, self._slack_s = scheduler, 0.0

    @contextmanager
    def without_slot(self) -> Iterator[None]:
        """Gives the slot up for as long as the work waits for bytes."""
        self._scheduler.release(self._slot)
        try:
            yield
        finally:
            self._waiter = waiter = Waiter(self.suspect)
            self._scheduler.submit(waiter, self._deadline_s())
            self._slot = waiter.wait()
            self._waiter = None

    @contextmanager
    def without_slot_and_with_a_thread(self) -> Iterator[None]:
        """As `without_slot`, for one without its own thread: another one replaces the thread that waits."""
        try:
            self._threads.add()
        except (RuntimeError, MemoryError):
            yield  # keeps the slot: better late than without a thread for the next job
            return
        try:
            with self.without_slot():
                yield
        finally:
            self._threads.remove()

"""The node's decoder processes: their sessions, the spare, and what happens when a process exits."""

import asyncio
import contextlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from tonearm.core.admission import Capacity, Claim, enter, settle
from tonearm.core.call_later import CallLater, Cancellable
from tonearm.core.figures import DecoderWork
from tonearm.decoder.messages import FromNode
from tonearm.decoder.pool.overload import Overload
from tonearm.decoder.pool.process import DecoderProcess, SessionOwner, Suspects, Timeouts
from tonearm.decoder.pool.starting import DecoderStarter, DirectStarter
from tonearm.sandbox.report import SandboxReport, SandboxRequiredError, SandboxSupervision, decoder_supervision

log = logging.getLogger(__name__)

SESSIONS_BEFORE_NEXT: Final = 4  # The spare is taken into use when each process in use has this many, or no room.
RESTART_DELAYS_S: Final = (0.0, 0.2, 0.5, 1.0)
MOVED_AT_ONCE: Final = 8  # at least so many sessions move in each slice, however long they take

CHEAP_SPARE_DELAY_S: Final = 0.05  # how long, at most, a spare with a cheap start waits for the moving sessions


class PoolSession:
    """The connection of one session to its decoder process."""

    def __init__(self, session_ids: Iterator[int], process: DecoderProcess, owner: SessionOwner) -> None:
        self.id = next(session_ids)
        self._ids = session_ids
        self._process = process
        self.process_id = process.pid
        process.open_session(self.id, owner)
        self._rules = process.rules[self.id]

    def beside(self, owner: SessionOwner) -> "PoolSession":
        """A further session in the same process, whether there is room or not."""
        return PoolSession(self._ids, self._process, owner)

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        """Sends to the process. Owns `descriptor` from now on."""
        self._rules.ordered(message)
        self._process.send(message, descriptor)

    def close(self) -> None:
        self._process.close_session(self.id)


class _Wanted(Enum):
    """What a session waits for: any process, or the spare if the session may have ended a process."""

    PROCESS = "process"
    SPARE = "spare"


class _Move(NamedTuple):
    """A session is to go into another process: it has lost its own, or is admitted there after a wait (`is_let_in`).
    `suspects`: its sources that may have ended the process."""

    suspects: tuple[int, ...] = ()
    is_let_in: bool = False


LOST: Final = _Move()
LET_IN: Final = _Move(is_let_in=True)


class DecoderPool:
    """At most `limit` processes in use, and with `keeps_spare` a further process without sessions, the spare.

    Sessions are only put into processes that are ready. As long as the spare is ready or another process is in use, no
    session waits for a process to start. Without a spare there is one process at most. `starter` starts the processes;
    with None each is a new interpreter. `capacity` makes the capacity of each process. `now_s` is a monotonic clock.
    `call_later` is that of the running event loop if it is None.
    """

    def __init__(
        self,
        limit: int,
        memory_limit_mb: int,
        timeouts: Timeouts | None = None,
        *,
        keeps_spare: bool = True,
        sandbox: SandboxSupervision | None = None,
        starter: DecoderStarter | None = None,
        capacity: Callable[[], Capacity] = Capacity,
        now_s: Callable[[], float] = time.monotonic,
        call_later: CallLater | None = None,
    ) -> None:
        self._limit = limit
        self._sandbox = sandbox or decoder_supervision()
        self._starter = starter or DirectStarter(memory_limit_mb, self._sandbox.mode)
        self._timeouts = timeouts or Timeouts()
        self._keeps_spare = keeps_spare
        self._in_use: list[DecoderProcess] = []  # All of them are ready.
        self._idle: list[DecoderProcess] = []  # The spare, ready or not; two processes before the first one is ready.
        self._first_ready: asyncio.Future[None] | None = None
        self._is_first_starting = False  # it becomes the spare if the process beside it is ready first
        self._starting: asyncio.Task[None] | None = None
        self._session_ids = itertools.count(1)
        self._process_numbers = itertools.count(1)
        self._quick_exits = 0
        self._waiting: dict[SessionOwner, _Wanted] = {}
        self._capacity = capacity
        self._now_s = now_s
        self._call_later: CallLater = call_later or asyncio.get_running_loop().call_later
        self._overload = Overload(now_s)
        self._claims = itertools.count(1)
        self._is_waited_for = asyncio.Event()
        self._moves: dict[SessionOwner, _Move] = {}  # of sessions whose owners were not called yet
        self._coming: dict[DecoderProcess, Cancellable] = {}  # for the next session that is admitted there
        self._moved: Counter[DecoderProcess] = Counter()  # while sessions move: how many came to each process
        self._is_stopping = False
        self._is_announced = not keeps_spare
        self.exits = 0  # of processes that ended without `stop`
        self.work = DecoderWork()

    async def start(self, *, spare_at_once: bool = False) -> None:
        """Starts the first process and waits until it is ready. The spare starts in the background, a while later or,
        with `spare_at_once`, beside the first process. Then players that are created right after the start have both.

        Raises `OSError`, also when the process exits before it is ready, `TimeoutError`, or `SandboxRequiredError`
        when the process cannot have the sandbox that is required.
        """
        loop = asyncio.get_running_loop()
        self._first_ready = loop.create_future()
        if spare_at_once and self._keeps_spare:
            self._starting = loop.create_task(self._start_beside_first())
        self._is_first_starting = True
        try:
            self._idle.append(await self._start_process())
        finally:
            self._is_first_starting = False
        await asyncio.wait_for(self._first_ready, self._timeouts.start_limit_s)

    def announce(self) -> None:
        """Logs the processes that are ready, and from now on each process that becomes ready."""
        self._is_announced = True
        for process in self._processes:
            if process.is_ready:
                _log_ready(process)
        if self.opus_problem:
            log.warning("Opus is not available to listeners: %s", self.opus_problem)

    @property
    def opus_problem(self) -> str:
        """Why its processes encode no Opus; empty when they do."""
        return self._in_use[0].opus_problem if self._in_use else ""

    @property
    def process_ids(self) -> list[int]:
        """The processes in use, then the spare, ready or not."""
        return [process.pid for process in self._processes]

    @property
    def process_ids_in_use(self) -> list[int]:
        return [process.pid for process in self._in_use]

    @property
    def sessions_by_process(self) -> dict[int, int]:
        """How many sessions each process has, by its id; the spare has none."""
        return {process.pid: len(process.owners) for process in self._processes}

    @property
    def has_spare(self) -> bool:
        """Whether a process is ready that is not in use."""
        return any(process.is_ready for process in self._idle)

    @property
    def _processes(self) -> list[DecoderProcess]:
        return [*self._in_use, *self._idle]

    def open(self, owner: SessionOwner) -> PoolSession | None:
        """Opens a session in the least busy process. Returns None while `owner` has to wait for a process, or for room
        in one. Then `process_lost` is called when `owner` may try again."""
        is_admitted = self._moves.pop(owner, LOST).is_let_in
        process = None if self._waiting.get(owner) is _Wanted.SPARE else self._choose()
        if process is not None and not self._has_room(process, owner, is_admitted=is_admitted):
            self._overload.wait(owner)
            return None
        self._overload.forget(owner)
        if process is None:
            self._waiting.setdefault(owner, _Wanted.PROCESS)
            self._is_waited_for.set()
            return None
        if self._moves:
            self._moved[process] += 1
        return PoolSession(self._session_ids, process, owner)

    def wait_for_room(self, owner: SessionOwner) -> None:
        """A process had no memory for the session of `owner`. `process_lost` is called when there is memory."""
        self._overload.wait(owner)

    def forget(self, owner: SessionOwner) -> None:
        """`owner` does not wait for a process any more."""
        self._overload.forget(owner)
        self._moves.pop(owner, None)
        self._waiting.pop(owner, None)

    async def stop(self) -> None:
        self._is_stopping = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await asyncio.gather(*(process.stop() for process in self._processes))
        self._in_use, self._idle = [], []

    def _choose(self) -> DecoderProcess | None:
        least_busy = self._least_busy
        return self._use_spare() if self._needs_spare(least_busy) else least_busy

    def _needs_spare(self, least_busy: DecoderProcess | None) -> bool:
        """Whether a further session needs the spare, because `least_busy` has many sessions or no room."""
        if not self.has_spare or len(self._in_use) >= self._limit:
            return False
        return least_busy is None or len(least_busy.owners) >= SESSIONS_BEFORE_NEXT or self._room(least_busy) <= 0

    @property
    def _least_busy(self) -> DecoderProcess | None:
        return min(self._in_use, key=self._load_of, default=None)

    def _load_of(self, process: DecoderProcess) -> tuple[bool, int, int]:
        """The next session goes to the process with the least value. A process with room comes first. Then, while
        sessions move, the process that got the fewest of them, because opening sources is more work than playing on.
        Then the process with the fewest sessions."""
        return self._room(process) <= 0, self._moved[process] // SESSIONS_BEFORE_NEXT, len(process.owners)

    # Overload

    @property
    def overload(self) -> tuple[float, int]:
        """For how long the processes have been overloaded, in seconds, and how many sessions wait for audio. The time
        is 0 without an overload, and in its first moments."""
        return self._overload.told_s, self._overload.wanting

    def next_claim(self) -> int:
        """The number of a claim that begins now. Lower numbers came earlier."""
        return next(self._claims)

    def silence_changed(self, owner: SessionOwner) -> None:
        """The silence of `owner` has begun or ended."""
        self._overload.wait_anew(owner)

    def waited_s(self, owner: SessionOwner) -> float | None:
        """For how long `owner` has waited for room; None when it does not wait, or is silent."""
        return self._overload.waited_s(owner)

    def _room(self, process: DecoderProcess) -> int:
        return process.capacity.room(len(process.owners), self._now_s())

    def _has_room(self, process: DecoderProcess, owner: SessionOwner, *, is_admitted: bool) -> bool:
        """Whether `owner` may open a session in `process`. Another session may have to leave for it."""
        carried, now_s = process.owners.values(), self._now_s()
        entry = enter(owner, carried, self._overload, process.capacity, _claim_of, now_s, is_admitted=is_admitted)
        if entry.leaves is not None:
            self._have_leave(process, [entry.leaves])
            self._move({entry.leaves: LOST})
        return entry.comes

    def _have_leave(self, process: DecoderProcess, leaving: Sequence[SessionOwner]) -> None:
        """Closes the sessions of the owners `leaving`, which wait from now on."""
        sessions = {owner: number for number, owner in process.owners.items()}
        for owner in leaving:
            process.close_session(sessions[owner])
            self._overload.wait(owner)

    def _settle(self, process: DecoderProcess) -> None:
        """Closes sessions of a process, or admits waiting ones, after its report."""
        if process not in self._in_use or self._is_stopping:
            return
        self._overload.log_state()
        room = self._room(process)
        if room >= 0 and not self._overload:
            return
        carried, spares_players = process.owners.values(), not process.capacity.is_late
        leaving, heard, unheard = settle(carried, self._overload, room, _claim_of, spares_players=spares_players)
        process.capacity.settled()
        self._have_leave(process, leaving)
        self._move(dict.fromkeys(heard, LET_IN) | dict.fromkeys(leaving, LOST))
        self._let_in_evenly(process, unheard)
        if self._overload and self._needs_spare(self._least_busy):
            self._settle(self._use_spare())

    def _let_in_evenly(self, process: DecoderProcess, coming: Sequence[SessionOwner]) -> None:
        """Admits sessions that nobody hears, one after the other until the next report of `process`. All at once, they
        would occupy every processor for 0.2 s, and the node would wait as long for a processor."""
        if process in self._coming:
            self._coming.pop(process).cancel()
        if coming:
            step_s = self._timeouts.busy_ping_interval_s / len(coming)
            self._let_in(process, iter(coming), step_s)

    def _let_in(self, process: DecoderProcess, coming: Iterator[SessionOwner], step_s: float) -> None:
        has_room = self._room(process) > 0
        owner = next((owner for owner in coming if has_room and owner in self._overload), None)
        if owner is None or self._is_stopping:
            self._coming.pop(process, None)
            return
        self._coming[process] = self._call_later(step_s, lambda: self._let_in(process, coming, step_s))
        self._move({owner: LET_IN})

    def _use_spare(self) -> DecoderProcess:
        process = next(process for process in self._idle if process.is_ready)
        self._idle.remove(process)
        self._in_use.append(process)
        self._start_next()
        return process

    # Starting processes

    async def _start_process(self) -> DecoderProcess:
        process = DecoderProcess(
            next(self._process_numbers),
            self._starter,
            self._process_ready,
            self._process_exited,
            self._settle,
            self._timeouts,
            self._sandbox.mode,
            self.work,
            self._capacity(),
            self._now_s,
            self._call_later,
        )
        await process.start()
        return process

    async def _start_beside_first(self) -> None:
        with contextlib.suppress(OSError):  # `_start_next` tries again when the first process is ready
            self._idle.append(await self._start_process())
        self._starting = None
        if self._in_use:
            self._start_next()

    def _start_next(self) -> None:
        """Starts another process in the background if one is needed."""
        is_starting = self._is_first_starting or (self._starting is not None and not self._starting.done())
        if not self._idle and not is_starting and (self._keeps_spare or not self._in_use):
            self._starting = asyncio.get_running_loop().create_task(self._start_in_background())

    async def _start_in_background(self) -> None:
        """Starts a process, and tries again as long as the system refuses. A spare waits a little first."""
        loop = asyncio.get_running_loop()
        since_s = loop.time()
        if self._in_use:
            delay_s = self._timeouts.spare_delay_s
            if self._starter.is_cheap:
                delay_s = min(delay_s, CHEAP_SPARE_DELAY_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._is_waited_for.wait()
        has_failed = False
        for attempt in itertools.count(self._quick_exits):
            await asyncio.sleep(since_s + RESTART_DELAYS_S[min(attempt, len(RESTART_DELAYS_S) - 1)] - loop.time())
            try:
                self._idle.append(await self._start_process())
            except OSError as error:
                level = logging.DEBUG if has_failed else logging.ERROR
                log.log(level, "a decoder process could not be started: %s; trying again", error)
                has_failed = True
                since_s = loop.time()
                self._give_up_waiting_for_spare()
            else:
                return

    def _process_ready(self, process: DecoderProcess) -> None:
        self._sandbox.take_note(process.sandbox or SandboxReport())
        if not self._in_use:
            self._use_spare()
        if self._first_ready is not None and not self._first_ready.done():
            self._first_ready.set_result(None)
        if self._is_announced:  # otherwise the whole node has not started yet
            _log_ready(process)
        for_all = self.has_spare or not self._keeps_spare
        self._place([owner for owner, wanted in self._waiting.items() if for_all or wanted is _Wanted.PROCESS])

    # When a process exits

    def _process_exited(self, process: DecoderProcess, reason: str, suspects: Suspects) -> None:
        """Moves its sessions to the spare and to the other processes in use."""
        if self._is_stopping:
            return
        self.exits += 1
        is_idle = process in self._idle
        if is_idle:
            self._idle.remove(process)
        if self._first_ready is not None and not self._first_ready.done():
            if self._idle:
                return  # the other process may become ready, or reports why it does not
            try:
                self._sandbox.require(process.sandbox or SandboxReport(seccomp=True))
            except SandboxRequiredError as error:
                self._first_ready.set_exception(error)
            else:
                self._first_ready.set_exception(ChildProcessError(f"it {reason}"))
            return
        log.error(
            "decoder process %d (pid %d) %s; it is replaced, and its %d sessions continue in other processes",
            process.number,
            process.pid,
            reason,
            len(process.owners),
        )
        lived_s = self._now_s() - process.started_s
        self._quick_exits = self._quick_exits + 1 if lived_s < self._timeouts.quick_exit_s else 0
        if is_idle:
            self._give_up_waiting_for_spare()
        else:
            self._in_use.remove(process)
            self._let_in_evenly(process, ())  # who was to come there waits on
            if self.has_spare:
                self._use_spare()
        self._start_next()
        self._move_sessions(process, suspects)

    def _move_sessions(self, process: DecoderProcess, suspects: Suspects) -> None:
        """Reports the loss to suspects first, because their sources have to be counted before other sessions open the
        same sources again. Then the sessions follow, those with the fewest buffered frames first.

        Suspects open their sources again only when a spare is ready. So if a suspect ends a second process, the other
        sessions of that process can move at once.
        """
        losses = {
            owner: _Move(tuple(source for session, source in suspects if session == session_id))
            for session_id, owner in process.owners.items()
        } | self._moves
        process.owners.clear()
        suspected = {owner: loss for owner, loss in losses.items() if loss.suspects}
        if self._keeps_spare:
            self._waiting |= dict.fromkeys(suspected, _Wanted.SPARE)
        self._moves = dict(sorted(losses.items(), key=lambda loss: loss[0].frames_ahead))
        for owner, loss in suspected.items():
            if self._moves.pop(owner, None) is not None:
                _tell(owner, loss)
        self._move_some()

    def _move(self, moves: dict[SessionOwner, _Move]) -> None:
        is_moving = bool(self._moves)
        self._moves |= moves
        if not is_moving:
            self._move_some()

    def _move_some(self) -> None:
        """Moves sessions for a slice of time, and the others in later iterations of the event loop. To move hundreds at
        once would make the clock late."""
        until_s = self._now_s() + self._timeouts.move_slice_s
        moved = 0
        while self._moves and not self._is_stopping and (moved < MOVED_AT_ONCE or self._now_s() < until_s):
            owner = next(iter(self._moves))
            _tell(owner, self._moves[owner])
            self._moves.pop(owner, None)
            moved += 1
        if not self._moves or self._is_stopping:
            self._moved.clear()
        else:
            asyncio.get_running_loop().call_soon(self._move_some)

    def _give_up_waiting_for_spare(self) -> None:
        """No spare comes soon, so suspects go on without one."""
        self._waiting = dict.fromkeys(self._waiting, _Wanted.PROCESS)
        if self._in_use:
            self._place([*self._waiting])

    def _place(self, owners: list[SessionOwner]) -> None:
        for owner in owners:
            del self._waiting[owner]
        if not self._waiting:
            self._is_waited_for.clear()
        for owner in owners:
            _tell(owner, LOST)


def _claim_of(owner: SessionOwner) -> Claim:
    return owner.claim


def _log_ready(process: DecoderProcess) -> None:
    log.info("decoder process %d (pid %d) is ready", process.number, process.pid)


def _tell(owner: SessionOwner, move: _Move) -> None:
    try:
        owner.process_lost(move.suspects)
    except Exception:
        log.exception("a player could not continue in another decoder process")

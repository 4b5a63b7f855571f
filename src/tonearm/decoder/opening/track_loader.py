"""Opens sources for their facts or their picture, and tries suspects. Both happen in decoder processes without players,
so a source that ends its process interrupts no player.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Final, Generic, TypeAlias, TypeVar

from tonearm.core.admission import ALWAYS
from tonearm.core.failure import NESTED_PLAYLIST, FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAMES_PER_SECOND
from tonearm.core.play_queue import SourceId
from tonearm.core.source_uri import SourceUri, uri_for_logs
from tonearm.core.track import Track
from tonearm.core.track_info import PageFacts, SourceFacts
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    Audio,
    Decoded,
    Failed,
    FoundPicture,
    FromDecoder,
    Grant,
    NoRoom,
    Opened,
    OpenSession,
    Plan,
    ReadRequest,
    SessionFailed,
    Want,
)
from tonearm.decoder.opening.source_input import Expanded, OpeningReport, OpenUri, SourceOpening, SourcePart
from tonearm.decoder.pool.on_demand import OnDemandPool
from tonearm.decoder.pool.pool import DecoderPool, PoolSession

SOURCE: Final[SourceId] = 1  # the number of the source in its session
FIRST_EPOCH: Final = 1

_T = TypeVar("_T")


class LoneSource(ABC, Generic[_T]):
    """A single source in a session without a player, from `begin` to `close`. `outcome` is the answer for which the
    source is opened."""

    frames_ahead = 0
    claim = ALWAYS  # nothing plays in its process
    is_silent = False

    def __init__(self, uri: SourceUri, open_source: OpenUri, pool: DecoderPool, want: Want) -> None:
        self._uri = uri
        self._open_source = open_source
        self._pool = pool
        self._want = want
        self._session: PoolSession | None = None
        self._opening: SourceOpening | None = None
        self._closing: list[asyncio.Task[None]] = []
        self.outcome: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

    @abstractmethod
    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """As `SessionOwner.process_lost`."""

    @abstractmethod
    def take_report(self, report: FromDecoder | OpeningReport) -> None:
        """Takes a report of the process about the source, or the reason why the source is not opened there."""

    def receive(self, message: FromDecoder) -> None:
        if not isinstance(message, ReadRequest):
            self.take_report(message)
        elif self._opening is not None:
            self._opening.request_read(message)

    def settle(self, outcome: _T) -> None:
        """Sets the outcome; only the first one counts."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def begin(self) -> PoolSession | None:
        """Opens the session and the source in it. May be called again after a `drop`. Returns None while there is no
        process; the pool calls `process_lost` when there is one."""
        session = self._session = self._pool.open(self)
        if session is not None:
            session.send(OpenSession(session.id, epoch=FIRST_EPOCH, first_frame=0, filters=Filters()))
            self._opening = SourceOpening(
                SOURCE,
                SourcePart(self._uri),
                0.0,
                self._open_source,
                session,
                self.take_report,
                want=self._want,
            )
        return session

    def drop(self) -> None:
        """Closes the source, when it is not needed any more or its process is gone."""
        if self._opening is not None:
            self._closing.append(self._opening.drop())
            self._opening = None

    async def close(self) -> None:
        self._pool.forget(self)
        self.drop()
        if self._session is not None:
            self._session.close()
        if self._closing:
            await asyncio.wait(self._closing)


LOAD_DEADLINE_S: Final = 15.0
LOADS_AT_ONCE: Final = 8

_Loaded: TypeAlias = SourceFacts | FoundPicture | PlayFailure

_NO_MEMORY: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.DECODE,
    "The sources being examined take all memory of a decoder process.",
    "Try again later, or raise decoder.memory_limit_mb.",
)


class TrackLoader:
    """Loads at most `LOADS_AT_ONCE` sources at once for clients, until `stop`. Others wait, and their deadlines run
    meanwhile. Loads in the background take none of these places."""

    def __init__(
        self,
        open_source: OpenUri,
        suspect: Callable[[SourceUri], None],
        pool: OnDemandPool,
        *,
        deadline_s: float = LOAD_DEADLINE_S,
    ) -> None:
        self._open_source = open_source
        self._suspect = suspect
        self._pool = pool
        self._deadline_s = deadline_s
        self._places = asyncio.Semaphore(LOADS_AT_ONCE)
        self._loads: set[asyncio.Task[SourceFacts | FoundPicture]] = set()

    async def load(self, uri: SourceUri) -> SourceFacts:
        """The facts of `uri`, for a client. Nothing stays open when this returns, raises or is cancelled.

        Raises `PlayError`, also after the deadline, and `OSError` when no decoder process can be started.
        """
        return _facts(await self._begin(uri, Want.FACTS))

    async def load_picture(self, uri: SourceUri) -> bytes:
        """The bytes of the picture inside `uri`, empty without one, for a client. Raises as `load`."""
        loaded = await self._begin(uri, Want.PICTURE)
        return loaded.data if isinstance(loaded, FoundPicture) else b""

    async def load_in_background(self, uri: SourceUri, open_source: OpenUri) -> SourceFacts:
        """As `load`, opened by `open_source`. Waits for no place, because the caller loads one source after the
        other."""
        return _facts(await self._load(uri, open_source, Want.FACTS, nullcontext()))

    @property
    def is_busy(self) -> bool:
        """Whether a client waits for something."""
        return bool(self._loads)

    def _begin(self, uri: SourceUri, want: Want) -> "asyncio.Task[SourceFacts | FoundPicture]":
        task = asyncio.get_running_loop().create_task(self._load(uri, self._open_source, want, self._places))
        self._loads.add(task)
        task.add_done_callback(self._loads.discard)
        return task

    async def stop(self) -> None:
        """Cancels all loads for clients and ends the process."""
        for task in self._loads:
            task.cancel()
        if self._loads:
            await asyncio.wait(self._loads)
        await self._pool.stop()

    async def _load(
        self, uri: SourceUri, open_source: OpenUri, want: Want, place: AbstractAsyncContextManager[None]
    ) -> SourceFacts | FoundPicture:
        try:
            async with asyncio.timeout(self._deadline_s), place, self._pool.used() as pool:
                outcome = await self._open(uri, pool, open_source, want)
                if isinstance(outcome, tuple):
                    outcome = await self._open_first_of(outcome, Track.create("", uri).lists_within, pool)
        except TimeoutError as error:
            raise PlayError(_took_too_long(self._deadline_s)) from error
        if isinstance(outcome, PlayFailure):
            raise PlayError(outcome)
        return outcome

    async def _open(
        self, uri: SourceUri, pool: DecoderPool, open_source: OpenUri, want: Want = Want.FACTS
    ) -> _Loaded | tuple[Track, ...]:
        load = _TrackSource(uri, pool, open_source, self._suspect, want)
        try:
            return await load.outcome
        finally:
            await load.close()

    async def _open_first_of(self, entries: tuple[Track, ...], lists: tuple[str, ...], pool: DecoderPool) -> _Loaded:
        """The facts of the first entry that can be played; if there is none, the failure of the last entry. `lists`:
        see `Track.lists`."""
        failure = NESTED_PLAYLIST
        for entry in (replace(entry, lists=lists) for entry in entries):
            outcome = await self._open(entry.uri, pool, self._open_source)
            if isinstance(outcome, tuple):
                refusal = entry.refusal_as_playlist
                outcome = refusal or await self._open_first_of(outcome, entry.lists_within, pool)
            match outcome:
                case SourceFacts():
                    return outcome.completed_by(PageFacts(outcome.opened_uri or entry.info.uri, title=entry.info.title))
                case PlayFailure():
                    failure = outcome
        return failure


class _TrackSource(LoneSource[_Loaded | tuple[Track, ...]]):
    """Opens the source, and opens it again when the process dies."""

    def __init__(
        self, uri: SourceUri, pool: DecoderPool, open_source: OpenUri, suspect: Callable[[SourceUri], None], want: Want
    ) -> None:
        super().__init__(uri, open_source, pool, want)
        self._suspect = suspect
        self.begin()

    def take_report(self, report: FromDecoder | OpeningReport) -> None:
        match report:
            case Opened():
                self.settle(report.facts if self._opening is None else self._opening.completed(report.facts))
            case FoundPicture():
                self.settle(report)
            case Failed() | SessionFailed():
                self.settle(report.failure)
            case Expanded():
                self.settle(report.tracks)
            case NoRoom():
                self.settle(_NO_MEMORY)

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """Opens the source again: another load may have ended the process. A suspect of two deaths is quarantined."""
        if suspect_sources:
            self._suspect(self._uri)
        self.drop()
        self.begin()


def _facts(loaded: SourceFacts | FoundPicture) -> SourceFacts:
    assert isinstance(loaded, SourceFacts), "a picture was not asked for"
    return loaded


def _took_too_long(deadline_s: float) -> PlayFailure:
    return PlayFailure(
        FailureCode.TIMEOUT,
        Stage.READ,
        f"The source could not be opened within {deadline_s:g} seconds.",
        "Try again later, or check the server it comes from.",
    )


log = logging.getLogger(__name__)

TRIAL_FRAMES: Final = 6 * FRAMES_PER_SECOND  # how much of the source is played
TRIAL_LIMIT_S: Final = 20.0  # longer than the watchdog's silence limit; afterwards the source is acquitted
_EPOCH: Final = FIRST_EPOCH + 1


class Trials:
    """Tries one source at a time, in the process of `pool`, which does nothing else."""

    def __init__(self, open_source: OpenUri, pool: OnDemandPool) -> None:
        self._open_source = open_source
        self._pool = pool
        self._one_at_a_time = asyncio.Lock()

    async def ends_its_process(self, uri: SourceUri) -> bool:
        """Whether a process that plays the beginning of `uri`, and nothing else, dies. False when the source cannot be
        opened, or gives nothing in time."""
        ended = False
        try:
            async with self._one_at_a_time, asyncio.timeout(TRIAL_LIMIT_S), self._pool.used() as pool:
                trial = _Trial(uri, self._open_source, pool)
                try:
                    ended = await trial.outcome
                finally:
                    await trial.close()
        except (OSError, TimeoutError):
            pass
        said = "ended that process, too" if ended else "did no harm to that one"
        log.warning("decoder processes ended at %s: played alone it %s", uri_for_logs(uri.given), said)
        return ended

    async def stop(self) -> None:
        await self._pool.stop()


class _Trial(LoneSource[bool]):
    """Plays the source. The outcome is whether it ended its process."""

    def __init__(self, uri: SourceUri, open_source: OpenUri, pool: DecoderPool) -> None:
        super().__init__(uri, open_source, pool, Want.SOUND)
        self._play()

    def take_report(self, report: FromDecoder | OpeningReport) -> None:
        match report:
            case Audio() if self._session is not None and report.epoch == _EPOCH:
                played = report.first_frame + report.frames
                if played < TRIAL_FRAMES:
                    self._session.send(Grant(self._session.id, _EPOCH, played, played + GRANT_FRAMES))
                else:
                    self.settle(False)
            case Decoded() | Failed() | Expanded() | SessionFailed() | NoRoom():
                self.settle(False)

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """With suspects, the source has ended the process. Otherwise the process was ended from outside, and the trial
        begins again."""
        self.drop()
        if suspect_sources:
            self.settle(True)
        else:
            self._play()

    def _play(self) -> None:
        session = self.begin()
        if session is not None:
            session.send(Plan(session.id, _EPOCH, FIRST_EPOCH, 0, SOURCE, SOURCE, None, Filters()))
            session.send(Grant(session.id, _EPOCH, 0, GRANT_FRAMES))

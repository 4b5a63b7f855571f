"""A single source in a session without a player: for its facts, or to try whether it ends its process."""

import asyncio
from abc import ABC, abstractmethod
from typing import Final, Generic, TypeAlias, TypeVar

from tonearm.core.admission import Claim, Urgency
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.play_queue import SourceId
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.decoder.messages import FromDecoder, OpenSession, ReadRequest, Want
from tonearm.decoder.opening.source_input import Opener, SourceOpening, SourcePart
from tonearm.decoder.pool.pool import DecoderPool, PoolSession

SOURCE: Final[SourceId] = 1  # the number of the source in its session
FIRST_EPOCH: Final = 1

_Outcome = TypeVar("_Outcome")
Unopened: TypeAlias = PlayFailure | tuple[Track, ...]  # why a source is not open: its failure, or a playlist's tracks


class LoneSource(ABC, Generic[_Outcome]):
    """Owner of the session, from `begin` to `close`. `outcome` is what comes of the source."""

    frames_ahead = 0
    claim = Claim(Urgency.PLAYS, 0)  # never waits for room: nothing plays in its process

    def __init__(self, uri: SourceUri, opener: Opener, pool: DecoderPool, want: Want) -> None:
        self._uri = uri
        self._opener = opener
        self._pool = pool
        self._want = want
        self._session: PoolSession | None = None
        self._opening: SourceOpening | None = None
        self._closing: list[asyncio.Task[None]] = []
        self.outcome: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()

    @abstractmethod
    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """As `SessionOwner.process_lost`."""

    @abstractmethod
    def take_report(self, message: FromDecoder) -> None:
        """Takes what the process says of the source."""

    @abstractmethod
    def unopened(self, source: SourceId, why: Unopened) -> None:
        """The source is not opened in the process."""

    def receive(self, message: FromDecoder) -> None:
        if not isinstance(message, ReadRequest):
            self.take_report(message)
        elif self._opening is not None:
            self._opening.request_read(message)

    def settle(self, outcome: _Outcome) -> None:
        """Sets the outcome; only the first one counts."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def begin(self) -> PoolSession | None:
        """Opens the session and the source in it; again after a `drop`. Returns None while there is no process; the
        pool calls `process_lost` when there is one."""
        session = self._session = self._pool.open(self)
        if session is not None:
            session.send(OpenSession(session.id, epoch=FIRST_EPOCH, first_frame=0, filters=Filters()))
            self._opening = SourceOpening(
                SOURCE,
                SourcePart(self._uri),
                0.0,
                self._opener,
                session,
                self.unopened,
                self.unopened,
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

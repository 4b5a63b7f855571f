"""Plays suspect sources, each alone in a decoder process of its own, to see whether it is they that end processes."""

import asyncio
import logging
from typing import Final

from tonearm.audio.opening.source_input import Opener, SourceOpening, SourcePart
from tonearm.core.admission import Claim, Urgency
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAMES_PER_SECOND
from tonearm.core.play_queue import SourceId
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.decoding.messages import (
    GRANT_FRAMES,
    Audio,
    Decoded,
    Failed,
    FromDecoder,
    Grant,
    NoRoom,
    OpenSession,
    Plan,
    ReadRequest,
    SessionFailed,
)
from tonearm.decoding.pool.pool import DecoderPool, OnDemandPool, PoolSession

log = logging.getLogger(__name__)

TRIAL_FRAMES: Final = 6 * FRAMES_PER_SECOND  # of its sound
TRIAL_LIMIT_S: Final = 20.0  # longer than a process may be silent; then nothing is proven
_SOURCE: Final[SourceId] = 1  # the only one of its session
_EPOCH: Final = 2


class Trials:
    """One source at a time. `pool` is for nothing else."""

    def __init__(self, opener: Opener, pool: OnDemandPool) -> None:
        self._opener = opener
        self._pool = pool
        self._turn = asyncio.Lock()

    async def ends_its_process(self, uri: SourceUri) -> bool:
        """Whether a process that plays the beginning of `uri`, and nothing else, dies of it. Not where the source
        cannot be opened, or gives nothing in time."""
        ended = False
        try:
            async with asyncio.timeout(TRIAL_LIMIT_S), self._turn, self._pool.used() as pool:
                trial = _Trial(uri, self._opener, pool)
                try:
                    ended = await trial.ended_its_process
                finally:
                    await trial.close()
        except (OSError, TimeoutError):
            pass
        said = "ended that process, too" if ended else "did no harm to that one"
        log.warning("decoder processes ended at %s: played alone it %s", text_for_logs(uri.given), said)
        return ended

    async def stop(self) -> None:
        await self._pool.stop()


class _Trial:
    """Owner of the session in which the source is played."""

    def __init__(self, uri: SourceUri, opener: Opener, pool: DecoderPool) -> None:
        self._uri = uri
        self._opener = opener
        self._pool = pool
        self._session: PoolSession | None = None
        self._opening: SourceOpening | None = None
        self._closing: list[asyncio.Task[None]] = []
        self.ended_its_process: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._begin()

    @property
    def frames_ahead(self) -> int:
        return 0

    @property
    def claim(self) -> Claim:
        return Claim(Urgency.PLAYS, 0)

    def receive(self, message: FromDecoder) -> None:
        match message:
            case ReadRequest() if self._opening is not None:
                self._opening.request_read(message)
            case Audio() if self._session is not None and message.epoch == _EPOCH:
                played = message.first_frame + message.frames
                if played < TRIAL_FRAMES:
                    self._session.send(Grant(self._session.id, _EPOCH, played, played + GRANT_FRAMES))
                else:
                    self._settle(ended=False)
            case Decoded() | Failed() | SessionFailed() | NoRoom():
                self._settle(ended=False)

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        """With suspects the source is the only one; without, somebody else has ended the process: it is tried again."""
        self._drop()
        if suspect_sources:
            self._settle(ended=True)
        else:
            self._begin()

    async def close(self) -> None:
        """Gives everything back."""
        self._pool.forget(self)
        self._drop()
        if self._session is not None:
            self._session.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def _begin(self) -> None:
        session = self._session = self._pool.open(self)
        if session is None:
            return  # the pool calls `process_lost` when there is a process again
        session.send(OpenSession(session.id, epoch=_EPOCH - 1, first_frame=0, filters=Filters()))
        session.send(Plan(session.id, _EPOCH, _EPOCH - 1, 0, _SOURCE, _SOURCE, None, Filters()))
        session.send(Grant(session.id, _EPOCH, 0, GRANT_FRAMES))
        part = SourcePart(self._uri)
        self._opening = SourceOpening(
            _SOURCE, part, 0.0, self._opener, session, lambda *_: self._settle(ended=False), self._expanded
        )

    def _expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        self._settle(ended=False)

    def _drop(self) -> None:
        if self._opening is not None:
            self._closing.append(self._opening.drop())
            self._opening = None

    def _settle(self, *, ended: bool) -> None:
        if not self.ended_its_process.done():
            self.ended_its_process.set_result(ended)

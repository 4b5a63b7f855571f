"""Plays suspect sources, each alone in a decoder process, to see whether they end that process, too."""

import asyncio
import logging
from typing import Final

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAMES_PER_SECOND
from tonearm.core.play_queue import SourceId
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    Audio,
    Decoded,
    Failed,
    FromDecoder,
    Grant,
    NoRoom,
    Plan,
    ReadRequest,
    SessionFailed,
    Want,
)
from tonearm.decoder.opening.lone_source import FIRST_EPOCH, SOURCE, LoneSource
from tonearm.decoder.opening.source_input import Opener
from tonearm.decoder.pool.on_demand import OnDemandPool
from tonearm.decoder.pool.pool import DecoderPool

log = logging.getLogger(__name__)

TRIAL_FRAMES: Final = 6 * FRAMES_PER_SECOND  # so much of the source is played
TRIAL_LIMIT_S: Final = 20.0  # longer than the watchdog lets a process be silent; after it the source is acquitted
_EPOCH: Final = FIRST_EPOCH + 1


class Trials:
    """Tries one source at a time, in the process of `pool`, which is for nothing else."""

    def __init__(self, opener: Opener, pool: OnDemandPool) -> None:
        self._opener = opener
        self._pool = pool
        self._one_at_a_time = asyncio.Lock()

    async def ends_its_process(self, uri: SourceUri) -> bool:
        """Whether a process that plays the beginning of `uri`, and nothing else, dies. False when the source cannot be
        opened, or gives nothing in time."""
        ended = False
        try:
            async with asyncio.timeout(TRIAL_LIMIT_S), self._one_at_a_time, self._pool.used() as pool:
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


class _Trial(LoneSource):
    """Plays the source."""

    def __init__(self, uri: SourceUri, opener: Opener, pool: DecoderPool) -> None:
        super().__init__(uri, opener, pool, Want.SOUND)
        self.ended_its_process: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._play()

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
        """With suspects, the source has ended the process. Otherwise the process was ended from outside, and the trial
        begins again."""
        self.drop()
        if suspect_sources:
            self._settle(ended=True)
        else:
            self._play()

    def open_failed(self, source: SourceId, failure: PlayFailure) -> None:
        self._settle(ended=False)

    def open_expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        self._settle(ended=False)

    def _play(self) -> None:
        session = self.begin()
        if session is not None:
            session.send(Plan(session.id, _EPOCH, FIRST_EPOCH, 0, SOURCE, SOURCE, None, Filters()))
            session.send(Grant(session.id, _EPOCH, 0, GRANT_FRAMES))

    def _settle(self, *, ended: bool) -> None:
        if not self.ended_its_process.done():
            self.ended_its_process.set_result(ended)

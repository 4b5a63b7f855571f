"""Plays suspect sources, each alone in a decoder process, to see whether they end that process, too."""

import asyncio
import logging
from typing import Final

from tonearm.core.filters import Filters
from tonearm.core.frame import FRAMES_PER_SECOND
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import SourceUri
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    Audio,
    Decoded,
    Failed,
    FromDecoder,
    Grant,
    NoRoom,
    Plan,
    SessionFailed,
    Want,
)
from tonearm.decoder.opening.source_input import Expanded, Open, OpeningReport
from tonearm.decoder.opening.track_loader import FIRST_EPOCH, SOURCE, LoneSource
from tonearm.decoder.pool.on_demand import OnDemandPool
from tonearm.decoder.pool.pool import DecoderPool

log = logging.getLogger(__name__)

TRIAL_FRAMES: Final = 6 * FRAMES_PER_SECOND  # so much of the source is played
TRIAL_LIMIT_S: Final = 20.0  # longer than the watchdog lets a process be silent; after it the source is acquitted
_EPOCH: Final = FIRST_EPOCH + 1


class Trials:
    """Tries one source at a time, in the process of `pool`, which is for nothing else."""

    def __init__(self, open_source: Open, pool: OnDemandPool) -> None:
        self._open_source = open_source
        self._pool = pool
        self._one_at_a_time = asyncio.Lock()

    async def ends_its_process(self, uri: SourceUri) -> bool:
        """Whether a process that plays the beginning of `uri`, and nothing else, dies. False when the source cannot be
        opened, or gives nothing in time."""
        ended = False
        try:
            async with asyncio.timeout(TRIAL_LIMIT_S), self._one_at_a_time, self._pool.used() as pool:
                trial = _Trial(uri, self._open_source, pool)
                try:
                    ended = await trial.outcome
                finally:
                    await trial.close()
        except (OSError, TimeoutError):
            pass
        said = "ended that process, too" if ended else "did no harm to that one"
        log.warning("decoder processes ended at %s: played alone it %s", text_for_logs(uri.given), said)
        return ended

    async def stop(self) -> None:
        await self._pool.stop()


class _Trial(LoneSource[bool]):
    """Plays the source. The outcome is whether it ended its process."""

    def __init__(self, uri: SourceUri, open_source: Open, pool: DecoderPool) -> None:
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

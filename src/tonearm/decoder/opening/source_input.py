"""Opens the URIs of tracks, and gives the decoder session a file's descriptor or the requested bytes.

`SourceOpening` is one source, `SourceOpenings` all sources of a player.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Final, NamedTuple, Protocol, TypeAlias

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_RATE_HZ, samples_of_ms
from tonearm.core.opened_source import OPENING, OpenedSource, ReportWait, Wait
from tonearm.core.play_queue import Playlist, SourceId
from tonearm.core.source_uri import SourceUri, uri_for_logs
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    BeginAt,
    DropSource,
    Failed,
    OpenSource,
    ReadRequest,
    SeekSource,
    Want,
)
from tonearm.decoder.opening.live_carriers import Carrier, LiveCarriers
from tonearm.decoder.opening.loudness_memory import NO_HINTS, LoudnessHints
from tonearm.decoder.opening.source_feed import DECODER_BUSY, SourceFeed
from tonearm.decoder.pool.pool import PoolSession

log = logging.getLogger(__name__)

WAITING_FOR_PROCESS: Final = Wait("waiting for a decoder process", Stage.DECODE)
NODE_BUSY: Final = Wait(
    "the node is overloaded; players that already play go on, and this player waits for its turn",
    Stage.DECODE,
    counts=False,
    is_told=True,
)
RETRY_DELAYED: Final = Wait("the next attempt is not due yet", Stage.CONNECT, counts=False)


@dataclass(frozen=True, slots=True)
class SourcePart:
    """The part of a URI to decode: samples at 48 kHz, `end_sample` excluded (None: to the end).

    `resumes`: the track was played up to `start_sample` before, so a source that is not seekable is decoded up to there
    again.
    """

    uri: SourceUri
    start_sample: int = 0
    end_sample: int | None = None
    resumes: bool = False


# Opens a URI, or raises `PlayError`. The caller owns the opened source.
OpenUri: TypeAlias = Callable[[SourceUri, ReportWait], Awaitable[OpenedSource | Playlist]]


class PlayersOpener(Protocol):
    """Opens URIs for players, whose sources are opened again when a decoder process has died."""

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist: ...

    def is_suspect(self, uri: SourceUri) -> bool:
        """Whether a decoder process died while it worked on `uri`. Then `open` must be called again."""


class Expanded(NamedTuple):
    """The source is a playlist of these tracks."""

    source: SourceId
    tracks: tuple[Track, ...]


class Notice(Enum):
    """Reports without a value."""

    WAIT_CHANGED = "wait changed"  # a wait began or ended that does not count against its source
    WENT_WRONG = "went wrong"  # a report or a message led to an error in the node's code, which was logged


OpeningReport: TypeAlias = Failed | Expanded | Notice


class SourceOpenings:
    """All sources of a player that are open or being opened, for its decoder session.

    `close` also waits until the readers of dropped sources are closed.
    """

    def __init__(self, report: Callable[[OpeningReport], None], opener: PlayersOpener, carriers: LiveCarriers) -> None:
        self._report = report
        self._opener = opener
        self._carriers = carriers
        self._openings: dict[SourceId, SourceOpening] = {}
        self._kept: dict[SourceId, KeptSource] = {}  # sources that were open in a lost session
        self._closing: set[asyncio.Task[None]] = set()

    def start(
        self,
        source: SourceId,
        part: SourcePart,
        delay_s: float,
        session: PoolSession,
        loudness: LoudnessHints = NO_HINTS,
    ) -> None:
        """Opens a source, or takes over the source that was kept when the session before was lost."""
        self._openings[source] = SourceOpening(
            source,
            part,
            delay_s,
            self._opener.open,
            session,
            self._pass_on,
            loudness=loudness,
            kept=self._kept.pop(source, None),
            carriers=self._carriers if source < FIRST_OVERLAY_SOURCE else None,
        )

    def session_lost(self) -> None:
        """Drops all sources. A source that can be read from its start again stays open until it is started again or
        dropped. So many players can move at once: they wait for no disk, thread, redirect or second resolution of a
        page."""
        for source, opening in self._openings.items():
            kept = None if self._opener.is_suspect(opening.uri) else opening.keep()
            if kept is not None:
                self._kept[source] = kept
            self._wait_for(opening.drop())
        self._openings.clear()

    def seek(self, source: SourceId, new_source: SourceId, start_sample: int) -> bool:
        """Makes a source continue as `new_source`, from `start_sample` on. Returns False when `new_source` must be
        opened instead."""
        opening = self._openings.get(source)
        if opening is None or not opening.seek(new_source, start_sample):
            return False
        del self._openings[source]
        self._openings[new_source] = opening
        return True

    def opened_as(self, number: int) -> SourceId:
        """The source that was opened in the session with this number. A seek may have given it another number since."""
        return next((source for source, opening in self._openings.items() if opening.opened_as == number), number)

    def request_read(self, request: ReadRequest) -> None:
        opening = self.get(self.opened_as(request.source))
        if opening is not None:
            opening.request_read(request)

    def get(self, source: SourceId) -> "SourceOpening | None":
        return self._openings.get(source)

    def waiting_for(self, source: SourceId) -> Wait:
        """What a source waits for while it gives no audio. A source that is not open waits for a process."""
        opening = self._openings.get(source)
        return WAITING_FOR_PROCESS if opening is None else opening.waiting_for

    def drop(self, source: SourceId) -> None:
        opening = self._openings.pop(source, None)
        if opening is not None:
            self._wait_for(opening.drop())
        kept = self._kept.pop(source, None)
        if kept is not None:
            self._wait_for(asyncio.get_running_loop().create_task(kept.close()))

    def drop_all(self) -> None:
        for source in (*self._openings, *self._kept):
            self.drop(source)

    def _wait_for(self, task: asyncio.Task[None]) -> None:
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        self.drop_all()
        if self._closing:
            await asyncio.wait(self._closing)

    def _pass_on(self, report: OpeningReport) -> None:
        try:
            self._report(report)
        except Exception:
            log.exception("the report about a source could not be processed")
            self._report(Notice.WENT_WRONG)


@dataclass(frozen=True, slots=True)
class KeptSource:
    """A source of a lost session, open for the next session. `reading` is its last read, which is being cancelled."""

    opened: OpenedSource
    reading: asyncio.Task[None] | None

    async def close(self) -> None:
        if self.reading is not None:
            await asyncio.wait([self.reading])
        await self.opened.close()


@dataclass(frozen=True, slots=True)
class _Delayed:
    """The attempt to open the source is not due yet."""

    wait: ClassVar[Wait] = RETRY_DELAYED


@dataclass(frozen=True, slots=True)
class _OnItsWay:
    """The source is being opened, and waits for `wait`."""

    wait: Wait


@dataclass(frozen=True, slots=True)
class _OpenInSession:
    """The source is open in the session. Read requests have `number`. Bytes come from `supply`, or from a descriptor
    if `supply` is None."""

    opened: OpenedSource
    number: int
    supply: SourceFeed | Carrier | None


class _GivenAway:
    """The open source was given to the next session."""


class SourceOpening:
    """One source in one session: opened after `delay_s`, then fed until it is dropped.

    `report` is called when the URI cannot be opened, when it is a playlist, and when a wait changes. `want`: what the
    source is opened for. `kept` is the source if it is open already; the opening owns it. With `carriers` a carrier
    decodes a live stream, for all sessions that play it in the same process.
    """

    def __init__(
        self,
        source: SourceId,
        part: SourcePart,
        delay_s: float,
        open_source: OpenUri,
        link: PoolSession,
        report: Callable[[OpeningReport], None],
        *,
        want: Want = Want.SOUND,
        loudness: LoudnessHints = NO_HINTS,
        kept: "KeptSource | None" = None,
        carriers: LiveCarriers | None = None,
    ) -> None:
        self._source = source
        self._carriers = carriers
        self._part = part
        self._want = want
        self._loudness = loudness
        self._link = link
        self._report = report
        self._state: _Delayed | _OnItsWay | _OpenInSession | _GivenAway = _Delayed() if delay_s else _OnItsWay(OPENING)
        self._opening: asyncio.Task[None] | None = None
        if kept is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(open_source, delay_s))
        else:
            self._begin(kept.opened, kept.reading)

    @property
    def uri(self) -> SourceUri:
        return self._part.uri

    @property
    def opened_as(self) -> int | None:
        """The source's number in read requests; None while it is not open."""
        return None if self._open_now is None else self._open_now.number

    @property
    def _open_now(self) -> _OpenInSession | None:
        return self._state if isinstance(self._state, _OpenInSession) else None

    def seek(self, new_source: SourceId, start_sample: int) -> bool:
        """Goes on as `new_source`, from `start_sample` on. Returns False while the delay before opening lasts."""
        if isinstance(self._state, _Delayed):
            return False
        self._part = replace(self._part, start_sample=start_sample, resumes=False)
        if self._open_now is not None:
            begin = _begin_at(self._open_now.opened, start_sample)
            self._link.send(SeekSource(self._link.id, self._source, new_source, start_sample, begin))
        self._source = new_source
        return True

    def request_read(self, request: ReadRequest) -> None:
        now = self._open_now
        if now is not None and isinstance(now.supply, SourceFeed):
            now.supply.request_read(request)

    @property
    def waiting_for(self) -> Wait:
        """What the source waits for while it gives no audio."""
        match self._state:
            case _Delayed(wait=wait) | _OnItsWay(wait=wait):
                return wait
            case _OpenInSession(supply=SourceFeed() | Carrier() as supply):
                return supply.waiting_for
        return DECODER_BUSY

    def completed(self, facts: SourceFacts) -> SourceFacts:
        """The facts that the decoder found, completed by those of the opener."""
        if self._open_now is None:
            return facts
        opened = self._open_now.opened
        length_ms = opened.length_ms if opened.length_ms and not facts.is_stream else facts.length_ms
        if length_ms:
            opened.reader.set_length(length_ms)
        return opened.completed(facts)

    def keep(self) -> "KeptSource | None":
        """Gives the open source to the caller, who then calls `drop`. Returns None if the source cannot be read from
        its start again, for example a live source, or a file whose last descriptor the lost session had."""
        now = self._open_now
        if now is None or isinstance(now.supply, Carrier):
            return None
        opened, feed = now.opened, now.supply
        if opened.reader.is_given_away or (feed is not None and (opened.is_live or not opened.is_seekable)):
            return None
        self._state = _GivenAway()
        return KeptSource(opened, None if feed is None else feed.let_go())

    def drop(self) -> asyncio.Task[None]:
        """Drops the source, once. The returned task ends when its reader is closed."""
        if self._opening is not None:
            self._opening.cancel()
        self._link.send(DropSource(self._link.id, self._source))
        return asyncio.get_running_loop().create_task(self._close())

    async def _close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
            self._opening = None  # the traceback of its error would keep this object alive
        now = self._open_now
        if now is None:
            return
        if isinstance(now.supply, Carrier):
            await now.supply.leave()
        elif now.supply is not None:
            await now.supply.close()
        await now.opened.close()

    async def _open(self, open_source: OpenUri, delay_s: float) -> None:
        if delay_s:
            await asyncio.sleep(delay_s)
        try:
            self._report_wait(OPENING)
            opened = await open_source(self._part.uri, self._report_wait)
            if isinstance(opened, Playlist):
                # In a thread, because making hundreds of tracks takes some ms.
                tracks = await asyncio.to_thread(opened.tracks, uuid.uuid4)
                self._report(Expanded(self._source, tracks))
            else:
                self._begin(opened)
        except PlayError as error:
            self._fail(error.failure)
        except Exception as error:
            # An unforeseen error fails the track, with a reason. Otherwise the track would load for ever.
            log.exception("opening %s failed unexpectedly", uri_for_logs(self._part.uri.given))
            self._fail(
                PlayFailure(
                    FailureCode.CONNECT_FAILED,
                    Stage.CONNECT,
                    f"Opening the source failed unexpectedly ({type(error).__name__}: {error}).",
                    "Try again; report it when it happens again with this source.",
                )
            )

    def _fail(self, failure: PlayFailure) -> None:
        self._report(Failed(self._link.id, self._source, failure, gave_audio=False))

    def _report_wait(self, wait: Wait) -> None:
        before = self._state
        if isinstance(before, _Delayed | _OnItsWay):
            self._state = _OnItsWay(wait)
            if wait.counts != before.wait.counts:
                self._report(Notice.WAIT_CHANGED)

    def _begin(self, opened: OpenedSource, reading: asyncio.Task[None] | None = None) -> None:
        descriptor = opened.reader.take_descriptor()
        carrier = None if self._carriers is None else self._carriers.join(opened, self._part.uri, self._link)
        supply: SourceFeed | Carrier | None = carrier
        if descriptor is None and carrier is None:
            supply = SourceFeed(opened, self._link.send, reading)
        self._state = _OpenInSession(opened, self._source, supply)
        order = OpenSource(
            session=self._link.id,
            source=self._source,
            name=opened.name,
            size_bytes=opened.size_bytes,
            is_seekable=opened.is_seekable,
            is_live=opened.is_live,
            content_type=opened.content_type,
            start_sample=self._part.start_sample,
            has_descriptor=descriptor is not None,
            end_sample=self._part.end_sample,
            resumes=self._part.resumes,
            measured=self._loudness.measured,
            album=self._loudness.album,
            want=self._want,
            joins=None if carrier is None else carrier.session_id,
            begin=_begin_at(opened, self._part.start_sample),
            audio=self._part.uri.audio if opened.choice is None else "",
        )
        self._link.send(order, descriptor)


def _begin_at(opened: OpenedSource, start_sample: int) -> BeginAt | None:
    """Where the reader begins for `start_sample`; None unless the reader finds positions itself."""
    if not opened.reader.finds_positions:
        return None
    place = opened.reader.place_before(start_sample * 1000 // SAMPLE_RATE_HZ)
    return BeginAt(place.offset, samples_of_ms(place.position_ms))

"""The overlays of a player. `Overlays` has the rules, and this module does what they ask for.

It opens the overlays' sources in the player's session, gives up sources without audio, and says what is to sound.
"""

from collections.abc import Callable
from typing import Final

from tonearm.core.events import Event
from tonearm.core.failure import NOT_ONE_SOUND, SILENT_FOR_TOO_LONG, PlayFailure, Stage, never_started
from tonearm.core.frame import ms_of_samples, samples_of_ms
from tonearm.core.overlays import Overlays, OverlaySettings, OverlayStatus
from tonearm.core.play_queue import SourceId
from tonearm.core.track import Track
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE, Decoded, Failed, FirstAudio, Opened, OverlayOrder
from tonearm.decoder.opening.source_input import Expanded
from tonearm.decoder.session.decoder_session import DecoderSession, SourceReport
from tonearm.player.timers import CallLater, Patience, StallWatch, patience_in_mid_track
from tonearm.player.weak_calls import weakly


class PlayerOverlays:
    """All overlays of one player. `changed` is called when other overlays are to sound than before.

    The numbers of their sources begin at FIRST_OVERLAY_SOURCE. The engine passes on the reports about these sources.
    """

    def __init__(
        self,
        session: DecoderSession,
        emit: Callable[[tuple[Event, ...]], None],
        changed: Callable[[], None],
        call_later: CallLater,
        start_timeout_s: float,
    ) -> None:
        self._session = session
        self._positions: Final = session.buffer.overlays
        self._emit = emit
        self._changed = changed
        self._call_later = call_later
        self._patience = Patience(start_timeout_s, 0.0)
        self._rules = Overlays(FIRST_OVERLAY_SOURCE)
        self._watches: dict[SourceId, StallWatch] = {}
        self._orders: tuple[OverlayOrder, ...] = ()

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def orders(self) -> tuple[OverlayOrder, ...]:
        """What is to sound over the music."""
        return self._orders

    def statuses(self) -> tuple[OverlayStatus, ...]:
        """The state of each overlay, oldest first."""
        return tuple(map(self._status, self._rules.sources))

    def status(self, overlay_id: str) -> OverlayStatus:
        """Raises `OverlayNotFound`."""
        return self._status(self._rules.source_of(overlay_id))

    # What clients ask for

    def add(self, *new: tuple[Track, OverlaySettings]) -> None:
        """Opens overlays, which begin together as soon as all of them have audio. Raises `LimitReached`."""
        sources = self._rules.add(*new)
        self._changed()
        for source, (track, _) in zip(sources, new, strict=True):
            self._session.open(source, track, track.start_ms)
            watch = self._watches[source] = self._watch()
            watch.follow(source, self._patience, is_paused=False)

    def remove(self, overlay_id: str) -> None:
        """Raises `OverlayNotFound`."""
        source = self._rules.source_of(overlay_id)
        self._end(source, self._rules.remove(overlay_id))

    def remove_all(self) -> tuple[Event, ...]:
        """Ends all overlays with the player, and returns the events. The session closes their sources."""
        for watch in self._watches.values():
            watch.follow(None, self._patience, is_paused=False)
        return self._rules.remove_all()

    # What becomes of their sources

    def receive(self, report: SourceReport | Failed | Expanded) -> None:
        """Takes a report about one of their sources."""
        source = report.source
        match report:
            case Opened(facts=facts):
                self._rules.opened(source, facts)
            case FirstAudio() if self._rules.got_audio(source):
                self._watches[source].follow(None, self._patience, is_paused=False)
                self._order()
                self._changed()
            case Decoded():
                self._end(source, self._rules.decoded(source))
            case Failed(failure=failure, gave_audio=True):
                self._rules.interrupted(source, failure)
            case Failed(failure=failure):
                self._fail(source, failure)
            case Expanded():
                self._fail(source, NOT_ONE_SOUND)

    def session_failed(self, failure: PlayFailure) -> None:
        """The session met an error, and any overlay may be its cause: all of them end."""
        for source in self._rules.sources:
            self._fail(source, failure)

    def _fail(self, source: SourceId, failure: PlayFailure) -> None:
        self._end(source, self._rules.failed(source, failure))

    # Frames are sent

    def frame_comes(self) -> None:
        """To be called before a frame is sent that may have overlays in it."""
        for source in self._positions.take_begun(self._session.buffer.next_frame):
            self._emit(self._rules.began(source))

    def frame_sent(self) -> None:
        """To be called after such a frame."""
        next_frame = self._session.buffer.next_frame
        for source in self._positions.take_ended(next_frame):
            events = self._rules.ended(source)
            self._session.plans.overlay_ended(source)
            self._end(source, events)
        standing = self._positions.standing_at(next_frame)
        for source, watch in self._watches.items():
            if source in standing:
                watch.follow(source, patience_in_mid_track(), is_paused=False)
            elif self._is_ordered(source):
                watch.follow(None, self._patience, is_paused=False)
        self._session.grant_due()

    def _is_ordered(self, source: SourceId) -> bool:
        return any(order.source == source for order in self._orders)

    def _status(self, source: SourceId) -> OverlayStatus:
        samples = self._positions.samples_at(self._session.buffer.next_frame).get(source)
        track = self._rules.track(source)
        start_ms = 0 if track is None else track.start_ms
        return self._rules.status(source, start_ms if samples is None else ms_of_samples(samples))

    def _end(self, source: SourceId, events: tuple[Event, ...]) -> None:
        """Emits the events, and closes the source when the rules have removed the overlay."""
        self._emit(events)
        if source in self._rules or source not in self._watches:
            return
        self._watches.pop(source).follow(None, self._patience, is_paused=False)
        self._positions.forget(source)
        self._order()
        self._session.drop(source)
        self._changed()

    def _order(self) -> None:
        self._orders = tuple(
            OverlayOrder(
                ready.source,
                ready.settings.volume,
                ready.settings.duck_db,
                samples_of_ms(ready.settings.fade_ms),
                None if ready.track.end_ms is None else samples_of_ms(ready.track.end_ms),
            )
            for ready in self._rules.ready
        )

    def _watch(self) -> StallWatch:
        return StallWatch(self._call_later, weakly(self._report_stall), weakly(self._give_up))

    def _report_stall(self, source: SourceId) -> None:
        """Does nothing: no event reports a stall of an overlay before it is given up."""

    def _give_up(self, source: SourceId) -> None:
        if self._is_ordered(source):
            self._fail(source, SILENT_FOR_TOO_LONG)
        else:
            cause = "the overlay's source gave nothing"
            self._fail(source, never_started(self._patience.stuck_after_s, cause, Stage.READ))

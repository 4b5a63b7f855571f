"""The overlays of a player. `core.overlays` has the rules; this module determines which sources the engine opens and
drops, and which overlays play."""

from collections.abc import Mapping, Sequence
from typing import Final

from tonearm.core.events import Event
from tonearm.core.failure import NOT_ONE_SOUND, SILENT_FOR_TOO_LONG, PlayFailure, Stage, never_started
from tonearm.core.frame import ms_of_samples, samples_of_ms
from tonearm.core.overlays import Overlays, OverlaySettings, OverlayStatus
from tonearm.core.play_queue import DropAction, OpenAction, SourceId
from tonearm.core.playback_state import Outcome
from tonearm.core.track import Track
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    Decoded,
    Failed,
    FirstAudio,
    Opened,
    OverlayOrder,
    SeekRefused,
)
from tonearm.decoder.opening.source_input import Expanded
from tonearm.decoder.session.decoder_session import SourceReport
from tonearm.decoder.session.plan_state import PlanState
from tonearm.player.timers import PATIENCE_IN_MID_TRACK, Timers


class PlayerOverlays:
    """All overlays of one player.

    The numbers of their sources begin at FIRST_OVERLAY_SOURCE. The engine passes on the reports about these sources.
    """

    def __init__(self, plans: PlanState, timers: Timers, start_timeout_s: float) -> None:
        self._plans = plans
        self._buffer = plans.buffer
        self._positions: Final = plans.buffer.overlays
        self._timers = timers
        self._start_timeout_s = start_timeout_s
        self._rules = Overlays(FIRST_OVERLAY_SOURCE)
        self._orders: tuple[OverlayOrder, ...] = ()

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def orders(self) -> tuple[OverlayOrder, ...]:
        """The overlays that should play over the music."""
        return self._orders

    def statuses(self) -> tuple[OverlayStatus, ...]:
        """The state of each overlay, oldest first."""
        return tuple(map(self._status, self._rules.sources))

    def status(self, overlay_id: str) -> OverlayStatus:
        """Raises `OverlayNotFound`."""
        return self._status(self._rules.source_of(overlay_id))

    # Requests of clients

    def add(self, *new: tuple[Track, OverlaySettings]) -> Outcome:
        """Adds overlays, which begin together as soon as all of them have audio. Raises `LimitReached`."""
        return self._add(new, [track.start_ms for track, _ in new])

    def go_on(self, overlays: Sequence[OverlayStatus]) -> Outcome:
        """Continues the overlays of a player that was handed over at their positions. Raises `LimitReached`."""
        new = [(overlay.track, overlay.settings) for overlay in overlays]
        return self._add(new, [overlay.position_ms for overlay in overlays])

    def _add(self, new: Sequence[tuple[Track, OverlaySettings]], starts_ms: Sequence[int]) -> Outcome:
        places = zip(self._rules.add(*new), new, starts_ms, strict=True)
        return Outcome(
            actions=tuple(OpenAction(source, track, 0.0, start_ms) for source, (track, _), start_ms in places)
        )

    def remove(self, overlay_id: str) -> Outcome:
        """Raises `OverlayNotFound`."""
        source = self._rules.source_of(overlay_id)
        return self._end({source: self._rules.remove(overlay_id)})

    def remove_all(self) -> tuple[Event, ...]:
        """Ends all overlays with the player, and returns the events. The session closes their sources."""
        return self._rules.remove_all()

    # Reports about their sources

    def receive(self, report: SourceReport | Failed | Expanded) -> Outcome:
        """Takes a report about one of their sources."""
        source = report.source
        match report:
            case Opened(facts=facts):
                self._rules.opened(source, facts)
            case FirstAudio() if self._rules.got_audio(source):
                self._timers.follow(source, None)
                self._order()
            case Decoded():
                return self._end({source: self._rules.decoded(source)})
            case SeekRefused(failure=failure):
                return self._fail(failure, source)
            case Failed(failure=failure, gave_audio=True):
                self._rules.interrupted(source, failure)
            case Failed(failure=failure):
                return self._fail(failure, source)
            case Expanded():
                return self._fail(NOT_ONE_SOUND, source)
        return Outcome()

    def session_failed(self, failure: PlayFailure) -> Outcome:
        """Ends all overlays after an error of the session, because any of them may be the cause."""
        return self._fail(failure, *self._rules.sources)

    def wait_changed(self, *, counts: bool) -> None:
        """Starts the timers of sources that have given no audio, or stops them unless the wait `counts`."""
        for source in self._rules.without_audio:
            self._timers.follow(source, "start" if counts else None, self._start_timeout_s)

    def gave_nothing(self, source: SourceId) -> Outcome:
        """Handles the timer of a source: the overlay has failed."""
        if self._is_ordered(source):
            return self._fail(SILENT_FOR_TOO_LONG, source)
        return self._fail(never_started(self._start_timeout_s, "the overlay's source gave nothing", Stage.READ), source)

    # Frames are sent

    def frame_comes(self) -> tuple[Event, ...]:
        """To be called before a frame that may have overlays is sent. Returns the starts of overlays in it."""
        begun = self._positions.take_begun(self._buffer.next_frame)
        return tuple(event for source in begun for event in self._rules.began(source))

    def frame_sent(self) -> Outcome:
        """To be called after such a frame. Returns the ends of overlays in it."""
        next_frame = self._buffer.next_frame
        ended = {source: self._rules.ended(source) for source in self._positions.take_ended(next_frame)}
        for source in ended:
            self._plans.overlay_ended(source)
        outcome = self._end(ended)
        standing = self._positions.standing_at(next_frame)
        for source in self._rules.sources:
            if source in standing:
                self._timers.follow(source, "standing", PATIENCE_IN_MID_TRACK.in_all_s)
            elif self._is_ordered(source):
                self._timers.follow(source, None)
        return outcome

    def _is_ordered(self, source: SourceId) -> bool:
        return any(order.source == source for order in self._orders)

    def _status(self, source: SourceId) -> OverlayStatus:
        samples = self._positions.samples_at(self._buffer.next_frame).get(source)
        position_ms = self._rules.track(source).start_ms if samples is None else ms_of_samples(samples)
        return self._rules.status(source, position_ms)

    def _fail(self, failure: PlayFailure, *sources: SourceId) -> Outcome:
        return self._end({source: self._rules.failed(source, failure) for source in sources})

    def _end(self, ended: Mapping[SourceId, tuple[Event, ...]]) -> Outcome:
        """The outcome of these events. Each overlay with any event is over."""
        over = tuple(source for source, events in ended.items() if events)
        for source in over:
            self._timers.follow(source, None)
            self._positions.forget(source)
        if over:
            self._order()
        return Outcome(tuple(event for source in over for event in ended[source]), tuple(map(DropAction, over)))

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

"""A player's events: numbered, kept for clients that come back, sent to those that are connected, and logged."""

import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.events import (
    Event,
    MetadataChange,
    OverlayException,
    TrackEnd,
    TrackEvent,
    TrackException,
    TrackStart,
)
from tonearm.core.player_status import PlayerStatus, StateMessage
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import uri_for_logs
from tonearm.core.track import Track
from tonearm.player.clients.event_feed import EventFeed
from tonearm.player.clients.sinks import EventSink, cut_after_error
from tonearm.player.timers import CallLater
from tonearm.protocol.framing import CloseCode

KEPT_EVENTS: Final = 256
MAX_KEPT_BYTES: Final = 1024 * 1024
# The estimated length of an event that is kept without its text, and how much a character of its track's URI adds.
_ABOUT_BYTES: Final = 1024
_ABOUT_BYTES_PER_URI_CHARACTER: Final = 6
# What a client missed is sent in slices, since making the texts would block the loop for too long.
MISSED_SLICE_EVENTS: Final = 64
MISSED_SLICE_BYTES: Final = 32 * 1024

# Makes the text for clients from the player's id and life, the event's number, the time of day in ms and the event.
EventText: TypeAlias = Callable[[str, str, int, int, Event | StateMessage], str]

log = logging.getLogger(__name__)


# An event that is kept. Texts are made for clients and not kept: they would take several times as much as the event,
# and cost more than it only where metadata is shown, which is changed and may be long. Then the text is kept alone.
_Kept: TypeAlias = Event | str


class _Missed(NamedTuple):
    seq: int
    time_ms: int
    kept: _Kept


class EventLog:
    """The events of one player. `wall_ms` gives the time of day in ms, for clients to read. `life` names the sequence
    of numbers that begins here. Each event goes to `feed`, too.

    The log keeps the last `KEPT_EVENTS` events, or as many of them as fit into `max_bytes`, but at least one. A client
    is closed when twice as many bytes wait for it. `call_later` spreads over iterations of the event loop what a client
    missed.
    """

    def __init__(
        self,
        player_id: str,
        life: str,
        wall_ms: Callable[[], int],
        event_text: EventText,
        feed: EventFeed,
        max_bytes: int,
        call_later: CallLater,
    ) -> None:
        self.life: Final = life
        self._player_id = player_id
        self._feed = feed
        self._wall_ms = wall_ms
        self._event_text = event_text
        self._max_bytes = max_bytes
        self._kept: deque[_Kept] = deque()  # the last is number `last_seq`
        self._times_ms: deque[int] = deque()  # of each of them
        self._kept_bytes = 0
        self._call_later = call_later
        self._sinks: dict[EventSink, None] = {}
        self._missed: dict[EventSink, deque[_Missed]] = {}  # by client: what comes before all that is new
        self.last_seq = 0

    def __len__(self) -> int:
        """How many clients follow the events."""
        return len(self._sinks)

    def add(self, event: Event) -> None:
        """Numbers the event, sends it to all clients, and logs it when an operator wants to know of it."""
        _log_event(self._player_id, event)
        self.last_seq += 1
        seq, time_ms = self.last_seq, self._wall_ms()
        text = self._made(seq, time_ms, event) if _shows_metadata(event) else ""
        self._keep(text or event, time_ms)
        for sink in tuple(self._sinks):
            if sink in self._missed:
                self._missed[sink].append(_Missed(seq, time_ms, text or event))
            elif sink in self._sinks:  # a client may leave while another is sent the event
                text = text or self._made(seq, time_ms, event)
                self._send(sink, text)
        if self._feed.has_followers:
            self._feed.send(text or self._made(seq, time_ms, event))

    def snapshot_text(self, status: PlayerStatus, *, is_lost: bool = False) -> str:
        """The whole state as the message that clients get."""
        return self._event_text(
            self._player_id, self.life, self.last_seq, self._wall_ms(), StateMessage(status, is_lost)
        )

    def subscribe(
        self,
        sink: EventSink,
        since: int | None,
        wants_snapshot: bool,
        status: Callable[[], PlayerStatus],
        life: str | None = None,
    ) -> Callable[[], None]:
        """Sends what the client asked for, then every new event. Returns a call that stops it.

        First come the events after number `since` of this `life` (None: of any life). Where they are not kept any more,
        and when the client asked for a snapshot without `since`, `status` gives the whole state instead.
        """
        is_other_life = life is not None and life != self.life
        is_kept = since is not None and self.last_seq - len(self._kept) <= since <= self.last_seq
        is_lost = since is not None and (is_other_life or not is_kept)
        if is_lost or (wants_snapshot and since is None):
            sink.send(self.snapshot_text(status(), is_lost=is_lost))
        elif since is not None:
            first = len(self._kept) - (self.last_seq - since)
            missed = zip(islice(self._times_ms, first, None), islice(self._kept, first, None), strict=True)
            self._missed[sink] = deque(_Missed(seq, *one) for seq, one in enumerate(missed, start=since + 1))
        self._sinks[sink] = None
        self._send_missed(sink)
        return lambda: self._remove(sink)

    def close(self, code: int, reason: str) -> None:
        """Closes every client's connection."""
        sinks = tuple(self._sinks)
        self._sinks.clear()
        for sink in sinks:
            missed = self._missed.pop(sink, ())
            with cut_after_error(sink, self._remove):
                for one in missed:
                    sink.send(self._text(one))
                sink.close(code, reason)

    def _remove(self, sink: EventSink) -> None:
        self._sinks.pop(sink, None)
        self._missed.pop(sink, None)

    def _send_missed(self, sink: EventSink) -> None:
        """Sends a slice of what a client missed, and the next slice in the loop's next iteration."""
        missed = self._missed.get(sink)
        if missed is None:  # the client missed nothing, or has left
            return
        events = size_bytes = 0
        with cut_after_error(sink, self._remove):
            while missed and events < MISSED_SLICE_EVENTS and size_bytes < MISSED_SLICE_BYTES:
                text = self._text(missed.popleft())
                sink.send(text)
                events, size_bytes = events + 1, size_bytes + len(text)
            if missed:
                self._call_later(0.0, lambda: self._send_missed(sink))
            else:
                del self._missed[sink]

    def _keep(self, kept: _Kept, time_ms: int) -> None:
        self._kept.append(kept)
        self._times_ms.append(time_ms)
        self._kept_bytes += _about_bytes(kept)
        while len(self._kept) > KEPT_EVENTS or (self._kept_bytes > self._max_bytes and len(self._kept) > 1):
            self._kept_bytes -= _about_bytes(self._kept.popleft())
            self._times_ms.popleft()

    def _text(self, missed: _Missed) -> str:
        seq, time_ms, kept = missed
        return kept if isinstance(kept, str) else self._made(seq, time_ms, kept)

    def _made(self, seq: int, time_ms: int, event: Event) -> str:
        return self._event_text(self._player_id, self.life, seq, time_ms, event)

    def _send(self, sink: EventSink, text: str) -> None:
        with cut_after_error(sink, self._remove):
            pending_events, pending_bytes = sink.pending_messages(), sink.pending_bytes()
            if pending_events < KEPT_EVENTS and pending_bytes < 2 * self._max_bytes:
                sink.send(text)
                return
            self._remove(sink)
            behind = f"{pending_events} events, {pending_bytes} bytes behind"
            sink.close(CloseCode.TOO_SLOW, behind)
            log.info("player %s: an event client is closed: %s", self._player_id, behind)


def _about_bytes(kept: _Kept) -> int:
    if isinstance(kept, str):
        return len(kept)
    if isinstance(kept, TrackEvent):
        return _ABOUT_BYTES + _ABOUT_BYTES_PER_URI_CHARACTER * len(kept.track.info.identifier)
    return _ABOUT_BYTES


def _shows_metadata(event: Event) -> bool:
    if isinstance(event, TrackEvent):
        return event.user_data != {}
    return isinstance(event, MetadataChange)


def _log_event(player_id: str, event: Event) -> None:
    match event:
        case TrackStart():
            log.info("player %s: track started: %s", player_id, _uri(event.track))
        case TrackEnd():
            played = f"after {event.played_ms / 1000:.1f} s" if event.played_ms else "without a sound"
            log.info("player %s: track ended (%s) %s: %s", player_id, event.reason, played, _uri(event.track))
        case TrackException():
            failure = event.failure
            message = text_for_logs(f"{failure.message} {failure.hint}")
            log.warning("player %s: track failed (%s): %s: %s", player_id, failure.code, _uri(event.track), message)
        case OverlayException():
            message = text_for_logs(f"{event.failure.message} {event.failure.hint}")
            log.warning("player %s: overlay failed (%s): %s", player_id, event.failure.code, message)


def _uri(track: Track) -> str:
    return uri_for_logs(track.info.identifier)

"""Numbers a player's events, keeps them for clients that reconnect, sends them to connected clients, and logs them."""

import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from tonearm.core.call_later import CallLater
from tonearm.core.events import (
    Event,
    EventMessage,
    MetadataChange,
    OverlayException,
    TrackEnd,
    TrackEvent,
    TrackException,
    TrackStart,
)
from tonearm.core.metadata import Json
from tonearm.core.player_status import PlayerStatus, StateMessage
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import uri_for_logs
from tonearm.core.track import Track
from tonearm.player.clients.event_feed import EventFeed
from tonearm.player.clients.sinks import EventSink, cut_after_error
from tonearm.protocol.framing import CloseCode

KEPT_EVENTS: Final = 256
MAX_KEPT_BYTES: Final = 1024 * 1024
# The estimated length of an event as text without its metadata, and the share of each character of its track's URI. The
# text itself is not kept, because it takes several times the memory of the event.
_ABOUT_BYTES: Final = 1024
_ABOUT_BYTES_PER_URI_CHARACTER: Final = 6
# Missed events are sent in slices, because rendering all their texts at once would block the loop for too long.
MISSED_SLICE_EVENTS: Final = 64
MISSED_SLICE_BYTES: Final = 64 * 1024

log = logging.getLogger(__name__)


class _Numbered(NamedTuple):
    seq: int
    time_ms: int
    event: Event


class EventLog:
    """The events of one player. `wall_ms` gives the time of day in ms, for clients to show. `life` names the sequence
    of event numbers that begins here. Each event goes to `feed` as well.

    The log keeps the last `KEPT_EVENTS` events, or as many of them as fit into `max_bytes` as text, but at least one.
    `json_bytes` measures the metadata in them. A client is closed when `KEPT_EVENTS` events, or twice `max_bytes`, wait
    for it. `call_later` spreads missed events over iterations of the event loop.
    """

    def __init__(
        self,
        player_id: str,
        life: str,
        wall_ms: Callable[[], int],
        json_bytes: Callable[[Json], int],
        feed: EventFeed,
        max_bytes: int,
        call_later: CallLater,
    ) -> None:
        self.life: Final = life
        self._player_id = player_id
        self._feed = feed
        self._wall_ms = wall_ms
        self._json_bytes = json_bytes
        self._max_bytes = max_bytes
        self._kept: deque[Event] = deque()  # the last one has the number `last_seq`
        self._times_ms: deque[int] = deque()  # of each of them
        self._kept_bytes = 0
        self._call_later = call_later
        self._sinks: dict[EventSink, None] = {}
        self._missed: dict[EventSink, deque[_Numbered]] = {}  # by client: the events to send before any new one
        self.last_seq = 0

    def __len__(self) -> int:
        """The number of clients that follow the events."""
        return len(self._sinks)

    def add(self, event: Event, *, is_heard: bool = False) -> None:
        """Numbers the event, sends it to all clients, and logs it if it is of interest to an operator. `is_heard`: the
        player has listeners."""
        _log_event(self._player_id, event, is_heard)
        self.last_seq += 1
        seq, time_ms = self.last_seq, self._wall_ms()
        self._keep(event, time_ms)
        if not self._sinks and not self._feed.has_followers:
            return
        message = self._message(_Numbered(seq, time_ms, event))
        for sink in tuple(self._sinks):
            if sink in self._missed:
                self._missed[sink].append(_Numbered(seq, time_ms, event))
            elif sink in self._sinks:  # a client may leave while the event is sent to another
                self._send(sink, message)
        self._feed.send(message)

    def state_message(self, status: PlayerStatus, *, is_lost: bool = False) -> EventMessage:
        """The whole state of the player as a message for clients."""
        return self._message(_Numbered(self.last_seq, self._wall_ms(), StateMessage(status, is_lost)))

    def subscribe(
        self,
        sink: EventSink,
        since: int | None,
        wants_snapshot: bool,
        status: Callable[[], PlayerStatus],
        life: str | None = None,
    ) -> Callable[[], None]:
        """Sends earlier events or the state, as requested, then every new event. Returns a call that stops it.

        First come the events after number `since` of this `life` (None: of any life). If they are no longer kept, or if
        the client asked for a snapshot without `since`, `status` gives the whole state instead.
        """
        is_other_life = life is not None and life != self.life
        is_kept = since is not None and self.last_seq - len(self._kept) <= since <= self.last_seq
        is_lost = since is not None and (is_other_life or not is_kept)
        if is_lost or (wants_snapshot and since is None):
            sink.send(self.state_message(status(), is_lost=is_lost))
        elif since is not None:
            first = len(self._kept) - (self.last_seq - since)
            missed = zip(islice(self._times_ms, first, None), islice(self._kept, first, None), strict=True)
            self._missed[sink] = deque(_Numbered(seq, *one) for seq, one in enumerate(missed, start=since + 1))
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
                    sink.send(self._message(one))
                sink.close(code, reason)

    def _remove(self, sink: EventSink) -> None:
        self._sinks.pop(sink, None)
        self._missed.pop(sink, None)

    def _send_missed(self, sink: EventSink) -> None:
        """Sends a slice of the missed events of a client, and the next slice in the loop's next iteration."""
        missed = self._missed.get(sink)
        if missed is None:  # the client has missed no event, or has left
            return
        events = size_bytes = 0
        with cut_after_error(sink, self._remove):
            while missed and events < MISSED_SLICE_EVENTS and size_bytes < MISSED_SLICE_BYTES:
                one = missed.popleft()
                sink.send(self._message(one))
                events, size_bytes = events + 1, size_bytes + self._about_bytes(one.event)
            if missed:
                self._call_later(0.0, lambda: self._send_missed(sink))
            else:
                del self._missed[sink]

    def _keep(self, event: Event, time_ms: int) -> None:
        self._kept.append(event)
        self._times_ms.append(time_ms)
        self._kept_bytes += self._about_bytes(event)
        while len(self._kept) > KEPT_EVENTS or (self._kept_bytes > self._max_bytes and len(self._kept) > 1):
            self._kept_bytes -= self._about_bytes(self._kept.popleft())
            self._times_ms.popleft()

    def _about_bytes(self, event: Event) -> int:
        if isinstance(event, TrackEvent):
            size_bytes = _ABOUT_BYTES + _ABOUT_BYTES_PER_URI_CHARACTER * len(event.track.info.identifier)
            return size_bytes + (self._json_bytes(event.user_data) if event.user_data != {} else 0)
        return self._json_bytes(event.metadata) if isinstance(event, MetadataChange) else _ABOUT_BYTES

    def _message(self, one: _Numbered) -> EventMessage:
        return EventMessage(self._player_id, self.life, *one)

    def _send(self, sink: EventSink, message: EventMessage) -> None:
        with cut_after_error(sink, self._remove):
            pending_events, pending_bytes = sink.pending_messages(), sink.pending_bytes()
            if pending_events < KEPT_EVENTS and pending_bytes < 2 * self._max_bytes:
                sink.send(message)
                return
            self._remove(sink)
            behind = f"{pending_events} events, {pending_bytes} bytes behind"
            sink.close(CloseCode.TOO_SLOW, behind)
            log.info("player %s: an event client is closed: %s", self._player_id, behind)


def _log_event(player_id: str, event: Event, is_heard: bool) -> None:
    """Logs failures, and the start of a track at info level only if the player has listeners: thousands of sleeping
    players would flood the log."""
    match event:
        case TrackStart():
            level = logging.INFO if is_heard else logging.DEBUG
            log.log(level, "player %s: track started: %s", player_id, _uri(event.track))
        case TrackEnd():
            played = f"after {event.played_ms / 1000:.1f} s" if event.played_ms else "without a sound"
            log.debug("player %s: track ended (%s) %s: %s", player_id, event.reason, played, _uri(event.track))
        case TrackException():
            failure = event.failure
            message = text_for_logs(f"{failure.message} {failure.hint}")
            log.warning("player %s: track failed (%s): %s: %s", player_id, failure.code, _uri(event.track), message)
        case OverlayException():
            message = text_for_logs(f"{event.failure.message} {event.failure.hint}")
            log.warning("player %s: overlay failed (%s): %s", player_id, event.failure.code, message)


def _uri(track: Track) -> str:
    return uri_for_logs(track.info.identifier)

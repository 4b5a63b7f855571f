"""Sends the events of all players on one connection, for clients that manage a whole node.

No event is kept: a client that is too slow loses events, and gets `EventsLost` when it has caught up.
"""

from collections.abc import Callable
from typing import Final

from tonearm.core.call_later import CallLater
from tonearm.core.events import EventMessage, EventsLost
from tonearm.player.clients.sinks import EventSink, cut_after_error

MAX_BEHIND_EVENTS: Final = 4096
MAX_BEHIND_BYTES: Final = 8 * 1024 * 1024
CAUGHT_UP_EVENTS: Final = MAX_BEHIND_EVENTS // 2
CAUGHT_UP_BYTES: Final = MAX_BEHIND_BYTES // 2
_TELL_AGAIN_S: Final = 1.0


class EventFeed:
    """`wall_ms` gives the time of day in ms since 1970."""

    def __init__(self, call_later: CallLater, wall_ms: Callable[[], int]) -> None:
        self._call_later = call_later
        self._wall_ms = wall_ms
        self._has_lost: dict[EventSink, bool] = {}
        self._is_tried: set[EventSink] = set()  # the clients with a timer

    @property
    def has_followers(self) -> bool:
        return bool(self._has_lost)

    def subscribe(self, sink: EventSink) -> Callable[[], None]:
        """Sends all events to `sink` from now on. Returns a call that stops it."""
        self._has_lost[sink] = False
        return lambda: self._remove(sink)

    def send(self, message: EventMessage) -> None:
        """Sends an event of some player to all clients."""
        for sink in tuple(self._has_lost):
            if sink in self._has_lost:  # a client may leave while the event is sent to another
                self._offer(sink, message)

    def close(self, code: int, reason: str) -> None:
        """Closes every connection."""
        sinks = tuple(self._has_lost)
        self._has_lost.clear()
        for sink in sinks:
            with cut_after_error(sink, self._remove):
                sink.close(code, reason)

    def _offer(self, sink: EventSink, message: EventMessage) -> None:
        with cut_after_error(sink, self._remove):
            if self._has_lost[sink] and not self._tell_lost(sink):
                return
            if sink.pending_messages() < MAX_BEHIND_EVENTS and sink.pending_bytes() < MAX_BEHIND_BYTES:
                sink.send(message)
                return
            self._has_lost[sink] = True
            self._try_later(sink)

    def _try_later(self, sink: EventSink) -> None:
        if sink not in self._is_tried:
            self._is_tried.add(sink)
            self._call_later(_TELL_AGAIN_S, lambda: self._tell_again(sink))

    def _tell_again(self, sink: EventSink) -> None:
        """Tries again from time to time, so that the report does not wait for the next event of any player."""
        self._is_tried.discard(sink)
        with cut_after_error(sink, self._remove):
            if self._has_lost.get(sink) and not self._tell_lost(sink):
                self._try_later(sink)

    def _tell_lost(self, sink: EventSink) -> bool:
        """Reports to a client that has caught up that it lost events. Returns False while it has not caught up."""
        if sink.pending_messages() > CAUGHT_UP_EVENTS or sink.pending_bytes() > CAUGHT_UP_BYTES:
            return False
        self._has_lost[sink] = False
        sink.send(EventMessage("", "", 0, self._wall_ms(), EventsLost()))
        return True

    def _remove(self, sink: EventSink) -> None:
        self._has_lost.pop(sink, None)

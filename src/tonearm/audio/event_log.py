"""A player's events: numbered, kept for clients that come back, sent to those that listen."""

import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from tonearm.audio.sinks import EventSink
from tonearm.core.events import Event
from tonearm.core.json_value import JsonObject

KEPT_EVENTS: Final = 256
CLOSE_TOO_SLOW: Final = 1013

log = logging.getLogger(__name__)


class EventLog:
    """`wall_ms` is the time of day in ms, for clients to read; nothing is decided by it."""

    def __init__(self, player_id: str, wall_ms: Callable[[], int]) -> None:
        self._player_id = player_id
        self._wall_ms = wall_ms
        self._kept: deque[tuple[int, str]] = deque(maxlen=KEPT_EVENTS)
        self._sinks: dict[EventSink, None] = {}
        self.last_seq = 0

    def add(self, event: Event) -> None:
        self.last_seq += 1
        text = self._text(event.op, self.last_seq, event.fields)
        self._kept.append((self.last_seq, text))
        for sink in tuple(self._sinks):
            if sink in self._sinks:  # it may go while the event is told to the others
                self._tell(sink, text)

    def subscribe(
        self, sink: EventSink, since: int | None, wants_snapshot: bool, state: Callable[[], JsonObject]
    ) -> Callable[[], None]:
        """Sends what the client asked for first, then everything new. Returns how to stop.

        `state` gives the whole state for a snapshot, which is the first message when the client asked for it or when
        events after `since` are not kept any more.
        """
        is_lost = since is not None and not self.last_seq - len(self._kept) <= since <= self.last_seq
        if is_lost or wants_snapshot:
            lost: JsonObject = {"lost": True} if is_lost else {}
            sink.send(self._text("PlayerState", self.last_seq, {**state(), **lost}))
        elif since is not None:
            for seq, text in self._kept:
                if seq > since:
                    sink.send(text)
        self._sinks[sink] = None
        return lambda: self._remove(sink)

    def close(self, code: int, reason: str) -> None:
        sinks = tuple(self._sinks)
        self._sinks.clear()
        for sink in sinks:
            sink.close(code, reason)

    def _remove(self, sink: EventSink) -> None:
        self._sinks.pop(sink, None)

    def _tell(self, sink: EventSink, text: str) -> None:
        try:
            if sink.pending_messages() < KEPT_EVENTS:
                sink.send(text)
                return
            self._remove(sink)
            sink.close(CLOSE_TOO_SLOW, f"{KEPT_EVENTS} events behind")
        except Exception:
            log.exception("an event client's connection failed in an unforeseen way and is cut")
            self._remove(sink)
            with contextlib.suppress(Exception):
                sink.abort()

    def _text(self, op: str, seq: int, fields: JsonObject) -> str:
        body: JsonObject = {"op": op, "id": self._player_id, "seq": seq, "time": self._wall_ms(), **fields}
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        # JSON can hold lone surrogates, and so can a client's metadata; UTF-8 cannot, but their escapes can be sent.
        return text if _is_unicode(text) else json.dumps(body, separators=(",", ":"))


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

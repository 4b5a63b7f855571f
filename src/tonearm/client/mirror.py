"""A player's state as its events tell it, so that a program can look without asking the node."""

import time
from collections.abc import Callable
from typing import Any

from tonearm.client.events import Event
from tonearm.core.events import PlayerState as State
from tonearm.core.play_queue import LoopMode
from tonearm.protocol import events
from tonearm.protocol.replies import PlayerStateFields, TrackOut


class Mirror:
    """What is known of a player. `now_s` is any clock that only goes forward."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self.state = State.IDLE
        self.track: TrackOut | None = None
        self.track_id = ""
        self.paused = False
        self.volume = 1.0
        self.loop = LoopMode.NONE
        self.metadata: Any = {}
        self.queue_length = 0
        self.listeners = 0
        self._position_ms = 0.0
        self._rate = 1.0
        self._at_s = now_s()

    @property
    def position_ms(self) -> int:
        """In the file: as last told, and on from there while it plays."""
        position_ms = self._position_ms
        if self.state is State.PLAYING and not self.paused:
            position_ms += (self._now_s() - self._at_s) * 1000 * self._rate
        length_ms = self.track.info.length if self.track else 0
        return int(min(position_ms, length_ms) if length_ms else position_ms)

    def take(self, event: Event) -> None:
        """What an event changes."""
        match event:
            case events.PlayerState():
                self.take_state(event)
            case events.TrackStart():
                self.track, self.track_id = event.track, event.track_id
                self._is_at(event.position)
            case events.PlayerUpdate():
                self._is_at(event.position)
                self.state, self.paused, self._rate = event.state, event.paused, event.position_rate
            case events.PlayerPause() | events.PlayerResume():
                self._is_at(event.position)
                self.paused = isinstance(event, events.PlayerPause)
            case events.Seek() | events.SeekFailed():
                self._is_at(event.position)
            case events.QueueUpdate():
                self.queue_length = event.length
            case events.LoopModeChange():
                self.loop = event.mode
            case events.FiltersChange():
                self.volume = event.filters.volume
            case events.MetadataChange():
                self.metadata = event.metadata
            case events.ListenersChange():
                self.listeners = event.listeners
            case _:
                pass

    def take_state(self, state: PlayerStateFields) -> None:
        """All of it."""
        self.state, self.paused = state.state, state.paused
        self.track, self.track_id = (state.track, state.track_id) if state.track_id else (None, "")
        self.volume, self.loop, self.metadata = state.volume, state.loop, state.metadata
        self.queue_length, self.listeners = state.queue_length, state.listeners
        self._is_at(state.position)
        self._rate = state.position_rate

    def _is_at(self, position_ms: int) -> None:
        self._position_ms, self._at_s = position_ms, self._now_s()

"""What a player is given to work with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tonearm.audio.clock import Clock
from tonearm.audio.decoder_pool import DecoderPool
from tonearm.audio.live_pause import LIVE_PAUSE_S
from tonearm.audio.source_opening import Opener
from tonearm.audio.timers import CallLater


class Suspects(Protocol):
    """Remembers which sources ended decoder processes."""

    def strike(self, uri: str) -> None: ...


@dataclass(frozen=True, slots=True)
class PlayerServices:
    """What all players of a node share, and their limits."""

    pool: DecoderPool
    opener: Opener
    suspects: Suspects
    clock: Clock
    wall_ms: Callable[[], int]
    call_later: CallLater
    first_listener_wait_ms: int
    max_waiting_tracks: int
    max_listeners: int
    live_pause_s: float = LIVE_PAUSE_S

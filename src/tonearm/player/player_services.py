"""The objects and the limits that all players of a node share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tonearm.core.call_later import CallLater
from tonearm.core.events import Event
from tonearm.core.figures import Totals
from tonearm.core.metadata import MAX_METADATA_BYTES, Json
from tonearm.core.playback_state import MAX_WAITING_BYTES
from tonearm.core.source_uri import SourceUri
from tonearm.decoder.opening.live_carriers import LiveCarriers
from tonearm.decoder.opening.source_input import PlayersOpener
from tonearm.decoder.pool.pool import DecoderPool
from tonearm.decoder.session.orders import Bursts
from tonearm.player.clients.event_feed import EventFeed
from tonearm.player.clients.event_log import MAX_KEPT_BYTES
from tonearm.player.clock import Clock
from tonearm.player.timers import LIVE_PAUSE_S, START_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class PlayerSettings:
    """The limits of every player of a node.

    `live_pause_s`: for how long a paused player stays connected to a live stream. `start_timeout_s`: how long a track
    may take from its start to its first audio.
    """

    first_listener_wait_ms: int = 1000
    max_waiting_tracks: int = 10_000
    max_listeners: int = 1_000
    max_waiting_bytes: int = MAX_WAITING_BYTES
    max_metadata_bytes: int = MAX_METADATA_BYTES
    max_event_bytes: int = MAX_KEPT_BYTES
    live_pause_s: float = LIVE_PAUSE_S
    start_timeout_s: float = START_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class PlayerServices:
    """The objects that all players of a node share."""

    settings: PlayerSettings
    pool: DecoderPool
    opener: PlayersOpener
    suspect: Callable[[SourceUri], None]  # notes a source that a dying decoder process was working on
    clock: Clock
    wall_ms: Callable[[], int]
    call_later: CallLater
    json_bytes: Callable[[Json], int]
    carriers: LiveCarriers
    event_feed: EventFeed
    bursts: Bursts = field(default_factory=Bursts)
    totals: Totals = field(default_factory=Totals)
    told: Callable[[str, Sequence[Event]], None] = lambda player_id, events: None  # gets the events of each player
    changed: Callable[[str], None] = lambda player_id: None  # the saved data of a player changed without an event

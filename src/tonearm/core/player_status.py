"""The whole state of a player at one moment, as clients see it."""

from collections.abc import Mapping
from dataclasses import dataclass

from tonearm.core.crossfade import CrossfadeSettings
from tonearm.core.events import Event, PlayerState
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.frame import ListenerKind
from tonearm.core.metadata import Json
from tonearm.core.overlays import OverlayStatus
from tonearm.core.play_queue import LoopMode
from tonearm.core.track import Track
from tonearm.core.voice import VoiceStatus


@dataclass(frozen=True, slots=True)
class PlayerQuality:
    """The quality figures of a player since it was created.

    `frames_lost`: frames that were dropped because a listener was too slow, summed over its listeners. `underruns`: how
    often there was nothing to send in mid-track. `late_plans`: changes that the decoder rendered after the frame they
    were meant for was due. `frames_left_out`: frames that were left out because the node was too late for them.
    `decoder_process_id` is None while no process decodes for the player. `closed_too_slow`, `closed_failed`: how many
    listeners were closed because they read nothing, and because their connections failed in an unforeseen way.
    `waiting_for_room_ms`: for how long the player has been waiting for a place in a decoder process of an overloaded
    node; None when it does not wait, or is paused.
    """

    frames_sent: int
    frames_lost: int
    underruns: int
    late_plans: int
    frames_left_out: int
    decoder_process_id: int | None
    closed_too_slow: int = 0
    closed_failed: int = 0
    waiting_for_room_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PlayerStatus:
    """`track` is the selected track, also in an idle or failed player. `last_seq` is the number of the last event;
    0 before the first.

    `life` is the random name of this player's life, in which events are numbered from 1. `error` is the last failure,
    until a track plays. `voice` is None without a voice channel.
    """

    player_id: str
    life: str
    track: Track
    state: PlayerState
    error: PlayFailure | None
    paused: bool
    position_ms: int
    filters: Filters
    crossfade: CrossfadeSettings
    overlays: tuple[OverlayStatus, ...]
    loop_mode: LoopMode
    queue_length: int
    metadata: Json
    listeners: int
    listeners_by_format: Mapping[ListenerKind, int]
    last_seq: int
    quality: PlayerQuality
    voice: VoiceStatus | None = None


@dataclass(frozen=True, slots=True)
class WaitingTracks:
    """A player's queue: the tracks behind the current one, the next one first. `version` counts the changes of their
    order in this `life`."""

    life: str
    version: int
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class StateMessage(Event):
    """The whole state as a message for one event client. `is_lost`: the client asked for events that are no longer
    kept."""

    status: PlayerStatus
    is_lost: bool = False

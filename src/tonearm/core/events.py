"""The events of a player, as values. `protocol.event_rendering` makes JSON of each kind, and the models in
`protocol.events` say what each event and each field means.

`position_ms` is the position in the current track's file when it happened.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tonearm.core.crossfade import CrossfadeSettings
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.metadata import Json
from tonearm.core.play_queue import EndReason, LoopMode
from tonearm.core.track import Track
from tonearm.core.voice import VoiceStatus


class PlayerState(StrEnum):
    """`loading`: waits for audio, at the start of a track or in mid-track. `failed`: no track is left to try."""

    LOADING = "loading"
    PLAYING = "playing"
    IDLE = "idle"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. Clients get the name of the class as `op`."""


@dataclass(frozen=True, slots=True)
class TrackEvent(Event):
    """An event of a track. `user_data` is the metadata that the track had then: its own, else the player's."""

    track: Track
    user_data: Json
    position_ms: int


@dataclass(frozen=True, slots=True)
class TrackStart(TrackEvent):
    """The track's first frame is about to be sent."""


@dataclass(frozen=True, slots=True)
class TrackEnd(TrackEvent):
    reason: EndReason
    played_ms: int


@dataclass(frozen=True, slots=True)
class TrackException(TrackEvent):
    failure: PlayFailure


@dataclass(frozen=True, slots=True)
class TrackStuck(TrackEvent):
    threshold_ms: int
    cause: str


@dataclass(frozen=True, slots=True)
class StreamTitle(Event):
    track_id: str
    title: str


@dataclass(frozen=True, slots=True)
class PlayerUpdate(Event):
    state: PlayerState
    paused: bool
    position_ms: int
    position_rate: float = 1.0


@dataclass(frozen=True, slots=True)
class PlayerPause(Event):
    position_ms: int


@dataclass(frozen=True, slots=True)
class PlayerResume(Event):
    position_ms: int


@dataclass(frozen=True, slots=True)
class Seek(Event):
    track_id: str
    from_ms: int
    position_ms: int


@dataclass(frozen=True, slots=True)
class SeekFailed(Event):
    track_id: str
    code: str
    position_ms: int


@dataclass(frozen=True, slots=True)
class QueueUpdate(Event):
    length: int
    version: int


@dataclass(frozen=True, slots=True)
class QueueDetails(Event):
    track_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopModeChange(Event):
    mode: LoopMode


@dataclass(frozen=True, slots=True)
class FiltersChange(Event):
    filters: Filters


@dataclass(frozen=True, slots=True)
class CrossfadeChange(Event):
    crossfade: CrossfadeSettings


@dataclass(frozen=True, slots=True)
class MetadataChange(Event):
    metadata: Json


@dataclass(frozen=True, slots=True)
class OverlayStart(Event):
    overlay_id: str


class OverlayEndReason(StrEnum):
    """Why an overlay ended. `stopped`: a client removed the overlay or deleted the player."""

    FINISHED = "finished"
    STOPPED = "stopped"
    LOAD_FAILED = "loadFailed"


@dataclass(frozen=True, slots=True)
class OverlayEnd(Event):
    overlay_id: str
    reason: OverlayEndReason


@dataclass(frozen=True, slots=True)
class OverlayException(Event):
    overlay_id: str
    failure: PlayFailure


class DeleteReason(StrEnum):
    """Why a player was deleted without a request."""

    EXPIRED = "expired"  # for a long time it had no listener, no event client and no request


@dataclass(frozen=True, slots=True)
class ListenersChange(Event):
    listeners: int


@dataclass(frozen=True, slots=True)
class VoiceState(Event):
    """The player's voice in a channel; None after it has left."""

    voice: VoiceStatus | None


@dataclass(frozen=True, slots=True)
class PlayerDelete(Event):
    reason: DeleteReason | None = None


@dataclass(frozen=True, slots=True)
class PlayerMoved(Event):
    """The player continues at the node `to_node`."""

    from_node: str
    to_node: str


@dataclass(frozen=True, slots=True)
class PlayerCreate(Event):
    """A new player, for clients that follow all players. It has no number."""


@dataclass(frozen=True, slots=True)
class EventsLost(Event):
    """A client that follows all players was too slow: events before this one did not reach it."""


class EventMessage:
    """An event for clients, with the id of its player, its number in this `life` of the player, and the time of day in
    ms since 1970. An event without a player has an empty id; an event without a number has the number 0."""

    __slots__ = ("_texts", "event", "life", "player_id", "seq", "time_ms")

    def __init__(self, player_id: str, life: str, seq: int, time_ms: int, event: Event) -> None:
        self.player_id = player_id
        self.life = life
        self.seq = seq
        self.time_ms = time_ms
        self.event = event
        self._texts: dict[Callable[[EventMessage], str], str] = {}

    def text(self, render: "Callable[[EventMessage], str]") -> str:
        """The text that `render` makes of this message. All clients with the same `render` share it."""
        texts = self._texts
        if render not in texts:
            texts[render] = render(self)
        return texts[render]

"""The messages of /v0/players/{id}/events, told apart by `op`."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from tonearm.core.events import PlayerState as State
from tonearm.core.play_queue import EndReason, LoopMode
from tonearm.protocol.replies import Filters, PlayerStateFields, PlayFailure, TrackOut
from tonearm.protocol.wire_model import AnyJson, Count, Milliseconds, PlayerId, PositionRate, TimeOfDay, WireModel


class _Numbered(WireModel):
    """What every event begins with."""

    id: PlayerId
    seq: int = Field(ge=1, description="1, 2, 3 … for each player, without gaps.")
    time: TimeOfDay


class TrackStart(_Numbered):
    """Sent in the tick of the track's first frame, before it."""

    op: Literal["TrackStart"]
    track: TrackOut
    uri: str = Field(description="What is really opened.")


class TrackEnd(_Numbered):
    """The track is over."""

    op: Literal["TrackEnd"]
    track: TrackOut
    reason: EndReason


class TrackException(_Numbered):
    """The track cannot be played, or not to its end. Its TrackEnd follows."""

    op: Literal["TrackException"]
    track: TrackOut
    error: PlayFailure


class TrackStuck(_Numbered):
    """In mid-track nothing could be sent for a while."""

    op: Literal["TrackStuck"]
    track: TrackOut
    threshold_ms: Milliseconds
    cause: str = Field(min_length=1, description="What is missing, for people.")


class StreamTitle(_Numbered):
    """A stream sends something else from now on."""

    op: Literal["StreamTitle"]
    title: str


class PlayerUpdate(_Numbered):
    """After each change of the state, and every 5 s while playing."""

    op: Literal["PlayerUpdate"]
    state: State
    paused: bool
    position: Milliseconds
    position_rate: PositionRate


class PlayerPause(_Numbered):
    """The player was paused."""

    op: Literal["PlayerPause"]


class PlayerResume(_Numbered):
    """The pause was cleared."""

    op: Literal["PlayerResume"]


class QueueUpdate(_Numbered):
    """The queue has changed."""

    op: Literal["QueueUpdate"]
    length: Count


class LoopModeChange(_Numbered):
    """The loop mode has changed."""

    op: Literal["LoopModeChange"]
    mode: LoopMode


class FiltersChange(_Numbered):
    """All filters as they are now."""

    op: Literal["FiltersChange"]
    filters: Filters


class MetadataChange(_Numbered):
    """The player's metadata as it is now."""

    op: Literal["MetadataChange"]
    metadata: AnyJson


class PlayerDelete(_Numbered):
    """The last event; then the socket is closed."""

    op: Literal["PlayerDelete"]


class PlayerState(PlayerStateFields):
    """The whole state, for one client: because it asked, or because events that it asked for are gone (`lost`)."""

    op: Literal["PlayerState"]
    id: PlayerId
    time: TimeOfDay
    lost: Literal[True] = True


AnyEvent: TypeAlias = Annotated[
    TrackStart
    | TrackEnd
    | TrackException
    | TrackStuck
    | StreamTitle
    | PlayerUpdate
    | PlayerPause
    | PlayerResume
    | QueueUpdate
    | LoopModeChange
    | FiltersChange
    | MetadataChange
    | PlayerDelete
    | PlayerState,
    Field(discriminator="op"),
]

# Reads an event: `EVENT.validate_json(text)`.
EVENT: Final[TypeAdapter[AnyEvent]] = TypeAdapter(AnyEvent)

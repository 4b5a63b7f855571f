"""The messages of /v0/players/{id}/events and of /v0/events, distinguished by `op`."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from tonearm.core.events import OverlayEndReason
from tonearm.core.events import PlayerState as State
from tonearm.core.metadata import JsonObject
from tonearm.core.play_queue import EndReason, LoopMode
from tonearm.core.player_status import PlayerStatus
from tonearm.protocol.replies import (
    Crossfade,
    Filters,
    Life,
    PartFields,
    PlayerStateFields,
    PlayFailure,
    TrackOut,
    Voice,
)
from tonearm.protocol.wire_model import (
    AnyJson,
    Author,
    Count,
    Listeners,
    Milliseconds,
    Paused,
    PlayerId,
    PositionRate,
    TimeOfDay,
    Title,
    TrackId,
    WireModel,
    json_text,
)


class _Numbered(WireModel):
    """The fields that every event begins with."""

    id: PlayerId
    seq: int = Field(ge=1, description="1, 2, 3 … for each life of a player, without gaps.")
    time: TimeOfDay
    life: Life


class _OfTrack(_Numbered):
    """The fields of every event about a track."""

    track: TrackOut
    track_id: TrackId
    position: Milliseconds


class TrackStart(_OfTrack, PartFields):
    """Sent in the tick of the track's first frame, before it."""

    op: Literal["TrackStart"]
    uri: str = Field(description="What is really opened.")


class TrackEnd(_OfTrack):
    """The track is over."""

    op: Literal["TrackEnd"]
    reason: EndReason
    played_ms: Milliseconds = Field(description="How much of the file was sent; what was sought over does not count.")


class TrackException(_OfTrack):
    """The track cannot be played, or not to its end. Its TrackEnd follows."""

    op: Literal["TrackException"]
    error: PlayFailure


class TrackStuck(_OfTrack):
    """Nothing of the track could be sent for a while: it does not begin, or it stopped."""

    op: Literal["TrackStuck"]
    threshold_ms: Milliseconds
    cause: str = Field(min_length=1, description="What is missing, for people.")


class StreamTitle(_Numbered):
    """A stream sends something else from now on."""

    op: Literal["StreamTitle"]
    title: str = Field(description="What the stream says of itself.")
    track_id: TrackId


class PlayerUpdate(_Numbered):
    """After each change of state or pause, and every 5 s while playing."""

    op: Literal["PlayerUpdate"]
    state: State
    paused: Paused
    position: Milliseconds
    position_rate: PositionRate


class PlayerPause(_Numbered):
    """The player was paused."""

    op: Literal["PlayerPause"]
    position: Milliseconds


class PlayerResume(_Numbered):
    """The pause was cleared."""

    op: Literal["PlayerResume"]
    position: Milliseconds


class Seek(_Numbered):
    """The current track goes on at `position`; there is no second TrackStart."""

    op: Literal["Seek"]
    from_ms: int = Field(alias="from", ge=0, description="The position before, in ms.")
    position: Milliseconds
    track_id: TrackId


class SeekFailed(_Numbered):
    """A seek was kept while its track was loading, and the track cannot be sought: it plays from its start."""

    op: Literal["SeekFailed"]
    code: str = Field(min_length=1, description="Why, such as `not_seekable`.")
    position: Milliseconds
    track_id: TrackId


class QueueUpdate(_Numbered):
    """The queue has changed."""

    op: Literal["QueueUpdate"]
    length: Count = Field(description="How many tracks wait.")
    version: int = Field(ge=1, description="Counts the changes of the queue's order; part of the ETag of GET queue.")


class QueueDetails(_Numbered):
    """Title, author or length of waiting tracks became known: GET queue?details=true shows them."""

    op: Literal["QueueDetails"]
    track_ids: list[TrackId] = Field(min_length=1)


class LoopModeChange(_Numbered):
    """The loop mode has changed."""

    op: Literal["LoopModeChange"]
    mode: LoopMode


class FiltersChange(_Numbered):
    """All filters as they are now."""

    op: Literal["FiltersChange"]
    filters: Filters


class CrossfadeChange(_Numbered):
    """The settings of crossfades as they are now."""

    op: Literal["CrossfadeChange"]
    crossfade: Crossfade


class OverlayStart(_Numbered):
    """Sent in the tick of the overlay's first frame, before it."""

    op: Literal["OverlayStart"]
    overlay_id: TrackId


class OverlayEnd(_Numbered):
    """The overlay is gone."""

    op: Literal["OverlayEnd"]
    overlay_id: TrackId
    reason: OverlayEndReason


class OverlayException(_Numbered):
    """The overlay cannot be played, or not to its end. Its OverlayEnd follows."""

    op: Literal["OverlayException"]
    overlay_id: TrackId
    error: PlayFailure


class MetadataChange(_Numbered):
    """The player's metadata as it is now."""

    op: Literal["MetadataChange"]
    metadata: AnyJson


class ListenersChange(_Numbered):
    """Listeners came or went; sent at most once a second."""

    op: Literal["ListenersChange"]
    listeners: Listeners


class VoiceState(_Numbered):
    """The player's voice in a Discord channel, as it is now. Figures alone have no event, changes of `dave` alone at
    most one a second."""

    op: Literal["VoiceState"]
    voice: Voice | None = Field(description="As in the player's state; null: it has left.")


class PlayerCreate(WireModel):
    """A new player; on /v0/events only, and without a number."""

    op: Literal["PlayerCreate"]
    id: PlayerId
    time: TimeOfDay
    life: Life


class PlayerMoved(_Numbered):
    """The first event of a life that the player begins at another node of its cluster. What came before it may be
    missing; the player's state says what is."""

    op: Literal["PlayerMoved"]
    from_: str = Field(
        alias="from",
        serialization_alias="from",
        validation_alias="from",
        description="The name of the node that had it.",
    )
    to: str = Field(description="The name of the node that has it.")


class EventsLost(WireModel):
    """On /v0/events only: this client was too slow, and events before this one are gone. Read the list of players."""

    op: Literal["EventsLost"]
    time: TimeOfDay
    lost: Literal[True]


class PlayerDelete(_Numbered):
    """The last event; then the socket is closed. `reason` is only there when nobody asked for it."""

    op: Literal["PlayerDelete"]
    reason: Literal["expired"] | None = None


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
    | Seek
    | SeekFailed
    | QueueUpdate
    | QueueDetails
    | LoopModeChange
    | FiltersChange
    | CrossfadeChange
    | OverlayStart
    | OverlayEnd
    | OverlayException
    | MetadataChange
    | ListenersChange
    | VoiceState
    | PlayerCreate
    | PlayerMoved
    | EventsLost
    | PlayerDelete
    | PlayerState,
    Field(discriminator="op"),
]

# Reads an event: `EVENT.validate_json(text)`.
EVENT: Final[TypeAdapter[AnyEvent]] = TypeAdapter(AnyEvent)


class PublicState(WireModel):
    """Each message of /{id}/events at the public address."""

    id: PlayerId
    state: State
    paused: Paused
    title: Title
    author: Author
    position: Milliseconds
    position_rate: PositionRate
    length: int = Field(ge=0, description="In ms; 0 when it is not known, or when there is no end.")
    artwork: bool = Field(description="Whether there is a picture at /{id}/artwork.")


def public_state_text(status: PlayerStatus) -> str:
    """`PublicState` as JSON."""
    info = status.track.info
    body: JsonObject = {
        "id": status.player_id,
        "state": status.state.value,
        "paused": status.paused,
        "title": info.title,
        "author": info.author,
        "position": status.position_ms,
        "positionRate": status.filters.effects.position_rate,
        "length": info.shown_length_ms,
        "artwork": status.track.is_known and info.has_picture,
    }
    return json_text(body).decode()

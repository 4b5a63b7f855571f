"""The models of the messages on /v0/players/{id}/events, on /v0/events and on the sockets for public events.

`op` distinguishes the messages of the first two.
"""

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
    """The fields at the start of every event."""

    id: PlayerId
    seq: int = Field(ge=1, description="The number of the event: 1, 2, 3 … in each life of a player, without gaps.")
    time: TimeOfDay
    life: Life


class _OfTrack(_Numbered):
    """The fields of every event about a track."""

    track: TrackOut
    track_id: TrackId
    position: Milliseconds


class TrackStart(_OfTrack, PartFields):
    """The track starts. Its first frame follows in the same tick."""

    op: Literal["TrackStart"]
    uri: str = Field(description="The URI that is opened.")


class TrackEnd(_OfTrack):
    """The track has ended."""

    op: Literal["TrackEnd"]
    reason: EndReason
    played_ms: Milliseconds = Field(
        description="How much of the file was sent, in ms, without parts that a seek skipped."
    )


class TrackException(_OfTrack):
    """The track cannot be played, or not to its end. A TrackEnd follows."""

    op: Literal["TrackException"]
    error: PlayFailure


class TrackStuck(_OfTrack):
    """No audio of the track has come for a while, at its start or in mid-track."""

    op: Literal["TrackStuck"]
    threshold_ms: Milliseconds = Field(description="How long nothing could be sent, in ms.")
    cause: str = Field(min_length=1, description="What the track waits for, as text for people.")


class StreamTitle(_Numbered):
    """The title of a stream, such as internet radio, has changed."""

    op: Literal["StreamTitle"]
    title: str = Field(description="The title that the stream sends.")
    track_id: TrackId


class PlayerUpdate(_Numbered):
    """The state and the position, after each change of state or pause, and every 5 s while the player plays."""

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
    """The pause has ended."""

    op: Literal["PlayerResume"]
    position: Milliseconds


class Seek(_Numbered):
    """The current track continues at `position`. No second TrackStart follows."""

    op: Literal["Seek"]
    from_ms: int = Field(alias="from", ge=0, description="The position before the seek, in ms.")
    position: Milliseconds
    track_id: TrackId


class SeekFailed(_Numbered):
    """A seek waited while its track was loading, but the track is not seekable. The track plays from its start."""

    op: Literal["SeekFailed"]
    code: str = Field(min_length=1, description="The reason, such as `not_seekable`.")
    position: Milliseconds
    track_id: TrackId


class QueueUpdate(_Numbered):
    """The queue has changed."""

    op: Literal["QueueUpdate"]
    length: Count = Field(description="The number of tracks in the queue.")
    version: int = Field(
        ge=1, description="The number of changes of the queue's order; a part of the ETag of GET queue."
    )


class QueueDetails(_Numbered):
    """Title, author or length of waiting tracks became known. GET queue?details=true shows them."""

    op: Literal["QueueDetails"]
    track_ids: list[TrackId] = Field(min_length=1)


class LoopModeChange(_Numbered):
    """The loop mode has changed."""

    op: Literal["LoopModeChange"]
    mode: LoopMode


class FiltersChange(_Numbered):
    """The filters have changed. The event has all of them."""

    op: Literal["FiltersChange"]
    filters: Filters


class CrossfadeChange(_Numbered):
    """The settings of crossfades have changed. The event has all of them."""

    op: Literal["CrossfadeChange"]
    crossfade: Crossfade


class OverlayStart(_Numbered):
    """The overlay starts. Its first frame follows in the same tick."""

    op: Literal["OverlayStart"]
    overlay_id: TrackId


class OverlayEnd(_Numbered):
    """The overlay has ended."""

    op: Literal["OverlayEnd"]
    overlay_id: TrackId
    reason: OverlayEndReason


class OverlayException(_Numbered):
    """The overlay cannot be played, or not to its end. An OverlayEnd follows."""

    op: Literal["OverlayException"]
    overlay_id: TrackId
    error: PlayFailure


class MetadataChange(_Numbered):
    """The player's metadata has changed."""

    op: Literal["MetadataChange"]
    metadata: AnyJson


class ListenersChange(_Numbered):
    """The number of listeners has changed. Sent at most once a second."""

    op: Literal["ListenersChange"]
    listeners: Listeners


class VoiceState(_Numbered):
    """The player's voice connection has changed.

    Changes of figures alone have no event. Changes of `dave` alone have at most one event a second.
    """

    op: Literal["VoiceState"]
    voice: Voice | None = Field(
        description="The voice connection, as in the player's state; null after the player has left the channel."
    )


class PlayerCreate(WireModel):
    """A player was created. Sent on /v0/events only, and without `seq`."""

    op: Literal["PlayerCreate"]
    id: PlayerId
    time: TimeOfDay
    life: Life


class PlayerMoved(_Numbered):
    """The player has moved to another node of its cluster. This is the first event of its new life.

    Earlier events may be missing. Read the player's state.
    """

    op: Literal["PlayerMoved"]
    from_: str = Field(
        alias="from",
        serialization_alias="from",
        validation_alias="from",
        description="The name of the node that had the player.",
    )
    to: str = Field(description="The name of the node that has the player now.")


class EventsLost(WireModel):
    """This client was too slow, and has lost events before this one. Read the list of players again.

    Sent on /v0/events only.
    """

    op: Literal["EventsLost"]
    time: TimeOfDay
    lost: Literal[True]


class PlayerDelete(_Numbered):
    """The player was deleted. This is the last event; then the node closes the socket.

    `reason` is present only if the node deleted the player by itself.
    """

    op: Literal["PlayerDelete"]
    reason: Literal["expired"] | None = None


class PlayerState(PlayerStateFields):
    """The player's whole state, on request, or instead of events that are no longer kept (`lost`)."""

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
    """A message of /{id}/events at the public address."""

    id: PlayerId
    state: State
    paused: Paused
    title: Title
    author: Author
    position: Milliseconds
    position_rate: PositionRate
    length: int = Field(ge=0, description="The length in ms; 0 when unknown or endless.")
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

"""What strangers are told of a player that they may hear: title, state and position."""

from pydantic import Field

from tonearm.core.events import PlayerState
from tonearm.core.json_value import JsonObject
from tonearm.core.player_status import PlayerStatus
from tonearm.protocol.json_text import json_text
from tonearm.protocol.wire_model import Author, Milliseconds, Paused, PlayerId, PositionRate, Title, WireModel


class PublicState(WireModel):
    """Each message of /{id}/events at the public address."""

    id: PlayerId
    state: PlayerState
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
        "length": info.length_ms,
        "artwork": status.track.is_known and info.has_picture,
    }
    return json_text(body).decode()

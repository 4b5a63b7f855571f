"""Events as the JSON that clients get. Each kind of event has a function here."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tonearm.core import events
from tonearm.core.metadata import Json, JsonObject
from tonearm.core.player_status import StateMessage
from tonearm.protocol.rendering import (
    crossfade_out,
    failure_out,
    filters_out,
    part_out,
    player_out,
    track_out,
    voice_out,
)
from tonearm.protocol.wire_model import json_text


def event_text(message: events.EventMessage) -> str:
    """The message that clients get for an event: the fields of all events, then those of its kind."""
    event = message.event
    own_fields = _FIELDS.get(type(event))
    if own_fields is None:
        return json_text(_unnumbered(message)).decode()
    body: JsonObject = {
        "op": type(event).__name__,
        "id": message.player_id,
        "seq": message.seq,
        "time": message.time_ms,
    }
    body |= own_fields(event)
    body["life"] = message.life
    return json_text(body).decode()


def _unnumbered(message: events.EventMessage) -> JsonObject:
    """A message that is not an event of a player's life: the whole state, or a message of /v0/events only."""
    player_id, time_ms = message.player_id, message.time_ms
    match message.event:
        case StateMessage(status, is_lost):
            body = {"op": "PlayerState", "id": player_id, "seq": message.seq, "time": time_ms, **player_out(status)}
            return body | ({"lost": True} if is_lost else {})
        case events.PlayerCreate():
            return {"op": "PlayerCreate", "id": player_id, "time": time_ms, "life": message.life}
        case events.EventsLost():
            return {"op": "EventsLost", "time": time_ms, "lost": True}
    raise TypeError(f"{message.event!r} is no event that clients can be told of")


def _of_track(event: events.TrackEvent, **fields: Json) -> JsonObject:
    track = track_out(event.track.info, event.user_data)
    return {"track": track, "trackId": event.track.id, "position": event.position_ms, **fields}


def _player_update(event: events.PlayerUpdate) -> JsonObject:
    return {
        "state": event.state.value,  # the event is the most frequent one, and pydantic is slow with an enum's members
        "paused": event.paused,
        "position": event.position_ms,
        "positionRate": event.position_rate,
    }


# Makes the own fields of each kind of event. A test finds a kind that is missing.
_FIELDS: Final[Mapping[type[events.Event], Callable[[Any], JsonObject]]] = {
    events.TrackStart: lambda event: _of_track(event, uri=event.track.info.uri, **part_out(event.track)),
    events.TrackEnd: lambda event: _of_track(event, reason=event.reason, playedMs=event.played_ms),
    events.TrackException: lambda event: _of_track(event, error=failure_out(event.failure)),
    events.TrackStuck: lambda event: _of_track(event, thresholdMs=event.threshold_ms, cause=event.cause),
    events.StreamTitle: lambda event: {"trackId": event.track_id, "title": event.title},
    events.PlayerUpdate: _player_update,
    events.PlayerPause: lambda event: {"position": event.position_ms},
    events.PlayerResume: lambda event: {"position": event.position_ms},
    events.Seek: lambda event: {"trackId": event.track_id, "from": event.from_ms, "position": event.position_ms},
    events.SeekFailed: lambda event: {"trackId": event.track_id, "code": event.code, "position": event.position_ms},
    events.PlayerMoved: lambda event: {"from": event.from_node, "to": event.to_node},
    events.QueueUpdate: lambda event: {"length": event.length, "version": event.version},
    events.QueueDetails: lambda event: {"trackIds": list(event.track_ids)},
    events.LoopModeChange: lambda event: {"mode": event.mode},
    events.FiltersChange: lambda event: {"filters": filters_out(event.filters)},
    events.CrossfadeChange: lambda event: {"crossfade": crossfade_out(event.crossfade)},
    events.OverlayStart: lambda event: {"overlayId": event.overlay_id},
    events.OverlayEnd: lambda event: {"overlayId": event.overlay_id, "reason": event.reason},
    events.OverlayException: lambda event: {"overlayId": event.overlay_id, "error": failure_out(event.failure)},
    events.MetadataChange: lambda event: {"metadata": event.metadata},
    events.ListenersChange: lambda event: {"listeners": event.listeners},
    events.VoiceState: lambda event: {"voice": None if event.voice is None else voice_out(event.voice)},
    events.PlayerDelete: lambda event: {} if event.reason is None else {"reason": event.reason},
}

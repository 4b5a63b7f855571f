"""Events as the JSON that clients get. Each kind of event has a function here."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tonearm.core.events import (
    CrossfadeChange,
    Event,
    EventMessage,
    EventsLost,
    FiltersChange,
    ListenersChange,
    LoopModeChange,
    MetadataChange,
    OverlayEnd,
    OverlayException,
    OverlayStart,
    PlayerCreate,
    PlayerDelete,
    PlayerMoved,
    PlayerPause,
    PlayerResume,
    PlayerUpdate,
    QueueDetails,
    QueueUpdate,
    Seek,
    SeekFailed,
    StreamTitle,
    TrackEnd,
    TrackEvent,
    TrackException,
    TrackStart,
    TrackStuck,
    VoiceState,
)
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


def event_text(message: EventMessage) -> str:
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


def _unnumbered(message: EventMessage) -> JsonObject:
    """A message that is not an event of a player's life: the whole state, or a message of /v0/events only."""
    player_id, time_ms = message.player_id, message.time_ms
    match message.event:
        case StateMessage(status, is_lost):
            body = {"op": "PlayerState", "id": player_id, "seq": message.seq, "time": time_ms, **player_out(status)}
            return body | ({"lost": True} if is_lost else {})
        case PlayerCreate():
            return {"op": "PlayerCreate", "id": player_id, "time": time_ms, "life": message.life}
        case EventsLost():
            return {"op": "EventsLost", "time": time_ms, "lost": True}
    raise TypeError(f"{message.event!r} is no event that clients can be told of")


def _of_track(event: TrackEvent, **fields: Json) -> JsonObject:
    track = track_out(event.track.info, event.user_data)
    return {"track": track, "trackId": event.track.id, "position": event.position_ms, **fields}


def _track_start(event: TrackStart) -> JsonObject:
    return _of_track(event, uri=event.track.info.uri, **part_out(event.track))


def _track_end(event: TrackEnd) -> JsonObject:
    return _of_track(event, reason=event.reason, playedMs=event.played_ms)


def _track_exception(event: TrackException) -> JsonObject:
    return _of_track(event, error=failure_out(event.failure))


def _track_stuck(event: TrackStuck) -> JsonObject:
    return _of_track(event, thresholdMs=event.threshold_ms, cause=event.cause)


def _stream_title(event: StreamTitle) -> JsonObject:
    return {"trackId": event.track_id, "title": event.title}


def _player_update(event: PlayerUpdate) -> JsonObject:
    return {
        "state": event.state.value,  # the event is the most frequent one, and pydantic is slow with an enum's members
        "paused": event.paused,
        "position": event.position_ms,
        "positionRate": event.position_rate,
    }


def _position(event: PlayerPause | PlayerResume) -> JsonObject:
    return {"position": event.position_ms}


def _seek(event: Seek) -> JsonObject:
    return {"trackId": event.track_id, "from": event.from_ms, "position": event.position_ms}


def _seek_failed(event: SeekFailed) -> JsonObject:
    return {"trackId": event.track_id, "code": event.code, "position": event.position_ms}


def _queue_update(event: QueueUpdate) -> JsonObject:
    return {"length": event.length, "version": event.version}


def _queue_details(event: QueueDetails) -> JsonObject:
    return {"trackIds": list(event.track_ids)}


def _loop_mode_change(event: LoopModeChange) -> JsonObject:
    return {"mode": event.mode}


def _player_moved(event: PlayerMoved) -> JsonObject:
    return {"from": event.from_node, "to": event.to_node}


def _filters_change(event: FiltersChange) -> JsonObject:
    return {"filters": filters_out(event.filters)}


def _crossfade_change(event: CrossfadeChange) -> JsonObject:
    return {"crossfade": crossfade_out(event.crossfade)}


def _overlay_start(event: OverlayStart) -> JsonObject:
    return {"overlayId": event.overlay_id}


def _overlay_end(event: OverlayEnd) -> JsonObject:
    return {"overlayId": event.overlay_id, "reason": event.reason}


def _overlay_exception(event: OverlayException) -> JsonObject:
    return {"overlayId": event.overlay_id, "error": failure_out(event.failure)}


def _metadata_change(event: MetadataChange) -> JsonObject:
    return {"metadata": event.metadata}


def _listeners_change(event: ListenersChange) -> JsonObject:
    return {"listeners": event.listeners}


def _voice_state(event: VoiceState) -> JsonObject:
    return {"voice": None if event.voice is None else voice_out(event.voice)}


def _player_delete(event: PlayerDelete) -> JsonObject:
    return {} if event.reason is None else {"reason": event.reason}


# The function that makes the own fields of each kind of event. A test finds a kind without a function.
_FIELDS: Final[Mapping[type[Event], Callable[[Any], JsonObject]]] = {
    TrackStart: _track_start,
    TrackEnd: _track_end,
    TrackException: _track_exception,
    TrackStuck: _track_stuck,
    StreamTitle: _stream_title,
    PlayerUpdate: _player_update,
    PlayerPause: _position,
    PlayerResume: _position,
    Seek: _seek,
    SeekFailed: _seek_failed,
    PlayerMoved: _player_moved,
    QueueUpdate: _queue_update,
    QueueDetails: _queue_details,
    LoopModeChange: _loop_mode_change,
    FiltersChange: _filters_change,
    CrossfadeChange: _crossfade_change,
    OverlayStart: _overlay_start,
    OverlayEnd: _overlay_end,
    OverlayException: _overlay_exception,
    MetadataChange: _metadata_change,
    ListenersChange: _listeners_change,
    VoiceState: _voice_state,
    PlayerDelete: _player_delete,
}

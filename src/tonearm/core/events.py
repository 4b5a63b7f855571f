"""The events that the rules of a player tell, with their fields.

The events that a player tells, each as an operation name and its own fields.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.json_value import Json, JsonObject
from tonearm.core.play_queue import EndReason, LoopMode
from tonearm.core.track import Track


@dataclass(frozen=True, slots=True)
class Event:
    """`op` and the fields of that kind; `id`, `seq` and `time` are added where events are logged."""

    op: str
    fields: JsonObject = field(default_factory=dict)


class PlayerState(StrEnum):
    """`loading`: nothing to send yet, or no longer. `failed`: nothing left that could be tried."""

    LOADING = "loading"
    PLAYING = "playing"
    IDLE = "idle"
    FAILED = "failed"


def track_start(track: Track, player_metadata: Json) -> Event:
    return Event("TrackStart", {"track": track.as_json(player_metadata), "uri": track.info.uri})


def track_end(track: Track, player_metadata: Json, reason: EndReason) -> Event:
    return Event("TrackEnd", {"track": track.as_json(player_metadata), "reason": reason.value})


def track_exception(track: Track, player_metadata: Json, failure: PlayFailure) -> Event:
    return Event("TrackException", {"track": track.as_json(player_metadata), "error": failure.as_json()})


def track_stuck(track: Track, player_metadata: Json, threshold_ms: int, cause: str) -> Event:
    fields: JsonObject = {"track": track.as_json(player_metadata), "thresholdMs": threshold_ms, "cause": cause}
    return Event("TrackStuck", fields)


def stream_title(title: str) -> Event:
    return Event("StreamTitle", {"title": title})


def player_update(state: PlayerState, paused: bool, position_ms: int) -> Event:
    return Event("PlayerUpdate", {"state": state.value, "paused": paused, "position": position_ms})


def player_pause() -> Event:
    return Event("PlayerPause")


def player_resume() -> Event:
    return Event("PlayerResume")


def queue_update(length: int) -> Event:
    return Event("QueueUpdate", {"length": length})


def loop_mode_change(mode: LoopMode) -> Event:
    return Event("LoopModeChange", {"mode": mode.value})


def filters_change(filters: Filters) -> Event:
    return Event("FiltersChange", {"filters": filters.as_json()})


def metadata_change(metadata: Json) -> Event:
    return Event("MetadataChange", {"metadata": metadata})


def player_delete() -> Event:
    return Event("PlayerDelete")

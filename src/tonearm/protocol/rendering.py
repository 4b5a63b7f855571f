"""Values of `core` as the JSON of replies.

The functions make plain objects and no models, because a validated model would take several times as long. The tests
check that every reply and event is what the models describe.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final
from weakref import ReferenceType, ref

from tonearm.core.crossfade import CrossfadeSettings
from tonearm.core.failure import FailureCode, PlayFailure
from tonearm.core.filters import (
    BAND_FREQUENCIES_HZ,
    EFFECT_KINDS,
    NO_EFFECTS,
    Effect,
    Effects,
    Filters,
    LowPass,
    wire_name,
)
from tonearm.core.library import LibraryEntry, LibraryListing
from tonearm.core.metadata import Json, JsonObject
from tonearm.core.overlays import OverlayStatus
from tonearm.core.play_queue import LeftOut, PlayedTrack, Playlist
from tonearm.core.player_status import PlayerStatus
from tonearm.core.track import Track
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import Mirror, TrackInfo
from tonearm.core.voice import VoiceStatus

# Players


def player_out(status: PlayerStatus) -> JsonObject:
    """`replies.Player`: the whole state."""
    quality = status.quality
    return {
        "id": status.player_id,
        "track": track_out(status.track.info, status.track.user_data(status.metadata), status.position_ms),
        "trackId": status.track.id,
        **part_out(status.track),
        "source": _source_out(status.track.info),
        "state": status.state.value,
        "error": None if status.error is None else failure_out(status.error),
        "paused": status.paused,
        "position": status.position_ms,
        "positionRate": status.filters.effects.position_rate,
        **filters_out(status.filters),
        "loop": status.loop_mode.value,
        "crossfade": crossfade_out(status.crossfade),
        "overlays": [overlay_out(overlay) for overlay in status.overlays],
        "queueLength": status.queue_length,
        "metadata": status.metadata,
        "listeners": status.listeners,
        "listenersByFormat": {
            name: status.listeners_by_format.get(name, 0) for name in ("pcm", "opus", "mp3", "voice")
        },
        "voice": None if status.voice is None else voice_out(status.voice),
        "seq": status.last_seq,
        "life": status.life,
        "quality": {
            "framesSent": quality.frames_sent,
            "framesLostByListeners": quality.frames_lost,
            "timesRunDry": quality.underruns,
            "latePlans": quality.late_plans,
            "lateFrames": quality.frames_left_out,
            "decoderProcess": quality.decoder_process_id,
            "listenersClosed": {"tooSlow": quality.closed_too_slow, "failed": quality.closed_failed},
            "waitingForRoomMs": quality.waiting_for_room_ms,
        },
    }


def _source_out(info: TrackInfo) -> JsonObject | None:
    """`replies.SourceForm`; None before the source is opened."""
    form, choice = info.form, info.form.choice
    if not form.codec:
        return None
    return {
        "container": info.probe_name,
        "codec": form.codec,
        "sampleRate": form.sample_rate_hz,
        "channels": form.channels,
        "bitrate": form.bitrate_bps,
        "audio": None if choice is None else {name: getattr(choice, name) for name in ("number", "count", "language")},
    }


def player_created_out(player_id: str, left_out: LeftOut | None = None, warnings: Sequence[str] = ()) -> JsonObject:
    """`replies.PlayerCreated`."""
    return {"id": player_id, **_notes_out(left_out or LeftOut(), warnings)}


def voice_out(status: VoiceStatus) -> JsonObject:
    """`replies.Voice`."""
    target, dave, packets, close = status.target, status.dave, status.packets, status.close
    return {
        "state": status.phase.value,
        "channelId": str(target.channel_id),
        "guildId": str(target.guild_id),
        "userId": str(target.user_id),
        "endpoint": None if target.endpoint is None else str(target.endpoint),
        "ssrc": status.ssrc,
        "mode": status.mode,
        "pingMs": status.ping_ms,
        "dave": {
            "version": dave.version,
            "ready": dave.ready,
            "epoch": dave.epoch,
            "privacyCode": dave.privacy_code,
        },
        "packets": {"sent": packets.sent, "silence": packets.silence, "dropped": packets.dropped},
        "resumes": status.resumes,
        "since": status.since_ms,
        "close": None
        if close is None
        else {"code": close.code, "reason": close.reason, "by": close.by.value, "action": close.action.value},
    }


def crossfade_out(settings: CrossfadeSettings) -> JsonObject:
    """`replies.Crossfade`."""
    return {"durationMs": settings.duration_ms, "curve": settings.curve.value, "onSkip": settings.on_skip}


def overlay_out(overlay: OverlayStatus) -> JsonObject:
    """`replies.Overlay`."""
    track, settings = overlay.track, overlay.settings
    body: JsonObject = {
        "overlayId": overlay.id,
        "uri": track.info.identifier,
        "state": overlay.state.value,
        "position": overlay.position_ms,
        "length": track.info.shown_length_ms,
        "volume": settings.volume,
        "duckDb": settings.duck_db,
        "fadeMs": settings.fade_ms,
        "startMs": track.start_ms,
    }
    if track.end_ms is not None:
        body["endMs"] = track.end_ms
    return body


def filters_out(filters: Filters) -> JsonObject:
    """`replies.Filters`: volume, every band with its centre, and the effects."""
    is_untouched = filters.gains_db == _UNTOUCHED_GAINS_DB
    return {
        "volume": filters.volume,
        "eq": _UNTOUCHED_BANDS if is_untouched else _bands_out(filters.gains_db),
        **(_effects_out(filters.effects) if filters.has_effects else _NO_EFFECTS_OUT),
    }


def _effects_out(effects: Effects) -> JsonObject:
    return {wire_name(name): _effect_out(getattr(effects, name)) for name in EFFECT_KINDS}


def _effect_out(effect: Effect | None) -> JsonObject | None:
    if effect is None:
        return None
    values = asdict(effect)
    if isinstance(effect, LowPass):  # only the field that is in use, so that the answer can be sent back
        del values["frequency_hz" if effect.frequency_hz is None else "smoothing"]
    return {wire_name(name): value for name, value in values.items()}


_NO_EFFECTS_OUT: Final = _effects_out(NO_EFFECTS)


def _bands_out(gains_db: tuple[float, ...]) -> list[Json]:
    return [
        {"band": band, "frequency_hz": frequency_hz, "gain_db": gain_db}
        for band, (frequency_hz, gain_db) in enumerate(zip(BAND_FREQUENCIES_HZ, gains_db, strict=True))
    ]


# Most players never change their equalizer, so all of them share these fifteen objects.
_UNTOUCHED_GAINS_DB: Final = Filters().gains_db
_UNTOUCHED_BANDS: Final = _bands_out(_UNTOUCHED_GAINS_DB)


# Tracks

# The encoded identifier of each `TrackInfo`, kept as long as the `TrackInfo` itself, because encoding takes much of the
# time of a player's state. The key is the value's `id`, because hashing its fields takes long, too.
_encoded: Final[dict[int, tuple[ReferenceType[TrackInfo], str]]] = {}


def track_out(info: TrackInfo, user_data: Json, position_ms: int = 0, encoded: str | None = None) -> JsonObject:
    """`replies.TrackOut`. `encoded` is the identifier that a client gave. None: a new identifier is made."""
    return {
        "encoded": _identifier(info) if encoded is None else encoded,
        "info": {
            "identifier": info.identifier,
            "isSeekable": info.is_seekable,
            "author": info.author,
            "length": info.shown_length_ms,
            "isStream": info.is_stream,
            "position": position_ms,
            "title": info.title,
            "uri": info.uri,
            "artworkUrl": info.artwork_url,
            "isrc": info.isrc,
            "sourceName": info.source_name,
        },
        "pluginInfo": {} if info.mirror is None else {"mirror": _mirror_out(info.mirror)},
        "userData": user_data,
    }


def _mirror_out(mirror: Mirror) -> JsonObject:
    """`replies.Mirror`."""
    shown = {"uri": mirror.uri, "title": mirror.title, "author": mirror.author}
    return {**shown, "length": mirror.length_ms, "by": mirror.by}


def listed_track_out(track: Track) -> JsonObject:
    """`replies.ListedTrack`, of a track that was not opened."""
    return {**track_out(track.info, {}), **part_out(track)}


def part_out(track: Track) -> JsonObject:
    """`replies.PartFields`: empty for a track that is a whole file."""
    if track.end_ms is not None:
        return {"startMs": track.start_ms, "endMs": track.end_ms}
    return {"startMs": track.start_ms} if track.start_ms else {}


def _identifier(info: TrackInfo) -> str:
    key = id(info)
    kept = _encoded.get(key)
    if kept is not None and kept[0]() is info:
        return kept[1]
    encoded = encode_track(info)
    _encoded[key] = (ref(info, lambda _: _encoded.pop(key, None)), encoded)
    return encoded


def queued_track_out(track: Track) -> JsonObject:
    """`replies.QueuedTrack`."""
    return {"id": track.id, "uri": track.info.identifier, "metadata": track.metadata}


def queued_track_details_out(track: Track) -> JsonObject:
    """`replies.QueuedTrackDetails`, without unknown values."""
    info = track.info
    body = queued_track_out(track)
    body["title"] = info.title
    if info.author:
        body["author"] = info.author
    if info.length_ms:
        body["length"] = info.shown_length_ms
    if info.artwork_url is not None:
        body["artworkUrl"] = info.artwork_url
    return {**body, "startMs": track.start_ms, **part_out(track)}


def played_track_out(played: PlayedTrack) -> JsonObject:
    """`replies.PlayedTrack`."""
    body = {**queued_track_out(played.track), "endedAt": played.ended_at_ms, "reason": played.reason.value}
    return body | part_out(played.track)


def track_queued_out(
    track_ids: Sequence[str], left_out: LeftOut, warnings: Sequence[str] = (), *, is_list: bool = False
) -> JsonObject:
    """`replies.TrackQueued` for at least one id. `is_list`: the client sent a list, so it gets a list."""
    body: JsonObject = {"trackId": track_ids[0]}
    if len(track_ids) > 1 or left_out.count or is_list:
        body["trackIds"] = list(track_ids)
    return {**body, **_notes_out(left_out, warnings)}


def load_result_out(loaded: TrackInfo | PlayFailure | None) -> JsonObject:
    """`replies.LoadResult` of a track, or of a failure. None: the answer is without the failure."""
    if isinstance(loaded, TrackInfo):
        return {"loadType": "track", "data": track_out(loaded, {})}
    body: JsonObject = {"loadType": "empty", "data": {}}
    if loaded is not None:
        body["error"] = failure_out(loaded)
    return body


def loaded_track_out(info: TrackInfo) -> JsonObject:
    """`replies.LoadedTrack`."""
    return {"loadType": "track", "data": track_out(info, {})}


def loaded_list_out(name: str, selected: int, playlist: Playlist, url: str, tracks: list[JsonObject]) -> JsonObject:
    """`replies.FoundList`."""
    about: JsonObject = {"url": url, "artworkUrl": playlist.artwork_url, "author": playlist.author}
    about["totalTracks"] = max(playlist.total, len(tracks))
    data: JsonObject = {"info": {"name": name, "selectedTrack": selected}, "pluginInfo": about, "tracks": [*tracks]}
    return {"loadType": "playlist", "data": data, **_notes_out(playlist.left_out)}


def loaded_search_out(tracks: list[JsonObject]) -> JsonObject:
    """`replies.FoundBySearch`; `replies.NothingFound` without tracks."""
    return {"loadType": "search", "data": [*tracks]} if tracks else {"loadType": "empty", "data": {}}


def load_error_out(failure: PlayFailure) -> JsonObject:
    """`replies.LoadError`: the node's failure, with Lavalink's fields beside it."""
    code = failure.code
    severity = "fault" if code in _OWN_FAULTS else "suspicious" if code in _FROM_OUTSIDE else "common"
    cause = f"{code.value} at {failure.stage.value}"
    return {"loadType": "error", "data": {"severity": severity, "cause": cause, **failure_out(failure)}}


_OWN_FAULTS: Final = frozenset({FailureCode.INTERNAL, FailureCode.DECODER_DIED})
_FROM_OUTSIDE: Final = frozenset(
    {
        *(FailureCode.TIMEOUT, FailureCode.TLS, FailureCode.CONNECT_FAILED, FailureCode.CONNECTION_LOST),
        *(FailureCode.TOO_MANY_REDIRECTS, FailureCode.LIMIT_EXCEEDED, FailureCode.CORRUPT, FailureCode.QUARANTINED),
    }
)


def found_tracks_out(name: str | None, selected: int, left_out: LeftOut) -> JsonObject:
    """`replies.FoundTracks`, or `replies.LoadedPlaylist` for a list with a `name`. Both are without `tracks`."""
    body: JsonObject = {} if name is None else {"name": name, "selected": selected}
    return {**body, **_notes_out(left_out)}


def _notes_out(left_out: LeftOut, warnings: Sequence[str] = ()) -> JsonObject:
    notes: JsonObject = {}
    if left_out.count:
        notes["leftOut"] = {"count": left_out.count, "reasons": list(left_out.reasons)}
    if warnings:
        notes["warnings"] = list(warnings)
    return notes


def failure_out(failure: PlayFailure) -> JsonObject:
    """`replies.PlayFailure`."""
    body: JsonObject = {
        "code": failure.code.value,
        "stage": failure.stage.value,
        "message": failure.message,
        "hint": failure.hint,
    }
    if failure.http_status is not None:
        body["httpStatus"] = failure.http_status
    return body


# The library


def library_out(found: LibraryListing, takes_files: bool) -> JsonObject:
    """`replies.LibraryFiles` without its entries."""
    return {"path": found.path, "parent": found.parent, "total": found.total, "takesFiles": takes_files}


def library_entry_out(entry: LibraryEntry, info: TrackInfo | None) -> JsonObject:
    """`replies.LibraryEntry`. `info` is None for a file that was not opened."""
    return {
        "name": entry.name,
        "path": entry.path,
        "uri": entry.uri,
        "kind": entry.kind,
        "bytes": entry.size_bytes,
        "modifiedAt": entry.modified_ms,
        **({} if info is None else _heard_out(info)),
    }


def kept_file_out(name: str, uri: str, size_bytes: int, info: TrackInfo) -> JsonObject:
    """`replies.SentFile`."""
    return {"name": name, "uri": uri, "bytes": size_bytes, **_heard_out(info)}


def _heard_out(info: TrackInfo) -> JsonObject:
    return {"title": info.title, "author": info.author, "length": info.length_ms}

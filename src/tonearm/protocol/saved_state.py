"""Snapshots of players as JSON and back, for the file of the state and for the paths `…/state`.

Each track is in the JSON once; the current track, the queue and the history name tracks by their ids. There may be ten
thousand tracks, so they are written without the fields that have their default.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final

from pydantic import FailFast, Field, ValidationError
from pydantic.alias_generators import to_camel

from tonearm.core.crossfade import CrossfadeSettings
from tonearm.core.errors import BadRequest
from tonearm.core.events import PlayerState
from tonearm.core.failure import HTTP_STATUS_MAX, FailureCode, PlayFailure, Stage
from tonearm.core.filters import Filters
from tonearm.core.metadata import MAX_RECORD_NESTING, Json, JsonObject, is_nested_deeper, is_player_id
from tonearm.core.overlays import (
    DUCK_MIN_DB,
    FADE_MAX_MS,
    MAX_OVERLAYS,
    OVERLAY_VOLUME_MAX,
    OverlaySettings,
    OverlayState,
    OverlayStatus,
)
from tonearm.core.play_queue import MAX_PLAYED, EndReason, LoopMode, PlayedTrack, QueuedTrack
from tonearm.core.playback_state import MAX_POSITION_MS
from tonearm.core.snapshot import STATE_VERSION, Handover, PlayerSnapshot
from tonearm.core.source_uri import SourceUri, initial_track_info, parse_source_uri
from tonearm.core.track import LIST_MARK_CHARACTERS, MOST_LISTS, Track
from tonearm.core.track_info import MAX_TITLE_CHARACTERS, TrackInfo
from tonearm.protocol.rendering import crossfade_out, failure_out, filters_out
from tonearm.protocol.requests import CrossfadePatch, FiltersPatch
from tonearm.protocol.wire_model import AnyJson, Paused, PlayerId, RequestModel, TimeOfDay, TrackId, json_text

_Position = Annotated[int, Field(ge=0, le=MAX_POSITION_MS)]
_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_Text = Annotated[str, Field(max_length=MAX_TITLE_CHARACTERS)]
_Link = Annotated[str, Field(max_length=65_536)]


# The fields of `SavedTrack` that come from a track, from its info under these names, and from its entry in the queue.
_OF_TRACK: Final = (
    "id",
    "start_ms",
    "end_ms",
    "is_known",
    "keeps_names",
    "has_own_tags",
)
_OF_INFO: Final[Mapping[str, str]] = {
    **{name: name for name in ("author", "artwork_url", "isrc", "source_name", "is_seekable", "is_stream")},
    **{name: name for name in ("is_length_exact", "has_picture")},
    "length": "length_ms",
    "format": "probe_name",
}
_OF_QUEUED: Final = ("is_read", "gave_audio", "failures")


class SavedTrack(RequestModel):
    """One track of a player: the current track, a waiting track, a track of the history or an overlay."""

    id: Annotated[
        TrackId, Field(min_length=1, max_length=128, json_schema_extra={"pattern": "^[A-Za-z0-9._~:@+-]{1,128}$"})
    ]
    uri: str = Field(description="The URI as given.")
    address: str | None = Field(
        None, description="The absolute URI of a file, if `uri` is not its absolute path; null for other tracks."
    )
    came_through_proxy: bool = Field(False, description="Whether the track came with a request through a proxy.")
    metadata: AnyJson = Field(default_factory=dict)
    start_ms: _Position = Field(0, description="The track's start in its file, in ms.")
    end_ms: _Position | None = Field(None, description="The track's end in its file, in ms; null: the file's end.")
    title: _Text = Field("", description="The title; empty: made from the URI.")
    author: _Text = Field("", description="The author; empty when unknown.")
    length: _Position = Field(0, description="The length of the whole file, in ms; 0 when unknown or endless.")
    opened_uri: _Link | None = Field(None, description="For a page, the link that was opened last.")
    artwork_url: _Link | None = Field(None, description="A link to a picture, from tags, a playlist or a page.")
    isrc: _Text | None = Field(None, description="The ISRC of the recording, from tags or a page.")
    source_name: _Text = Field("http", description="`sourceName` of the track's `info`.")
    format: _Text = Field("", description="The name of the container.")
    is_known: bool = Field(False, description="Whether the facts here come from opening the source.")
    is_seekable: bool = Field(False, description="Whether clients can seek in the track.")
    is_stream: bool = Field(False, description="Whether the source is live, without an end.")
    is_length_exact: bool = Field(
        False, description="Whether the length is exact. False for an estimate, such as one from the bitrate."
    )
    has_picture: bool = Field(False, description="Whether the file contains a picture.")
    keeps_names: bool = Field(
        False, description="Whether title and author came with the track, so that tags do not replace them."
    )
    is_playlist_entry: bool = Field(False, description="Whether the track came from a playlist.")
    lists: list[Annotated[str, Field(max_length=LIST_MARK_CHARACTERS)]] = Field(
        default_factory=list,
        max_length=MOST_LISTS,
        description="Marks of the playlists that the track came from, the outer one first. They show whether a "
        "playlist contains itself.",
    )
    has_own_tags: bool = Field(
        False,
        description="Whether the track is a file from a playlist whose tags may give more facts than the playlist.",
    )
    is_read: bool = Field(False, description="Whether reading the track's tags ahead has succeeded or failed.")
    gave_audio: bool = Field(False, description="Whether the player has sent a frame of the track.")
    failures: _Count = Field(0, description="The number of failed attempts since the last frame of the track.")

    def as_queued(self, came_through_proxy: bool = False) -> QueuedTrack:
        """The track. The policy is checked when the track is opened, not here. Raises BadRequest."""
        if not is_player_id(self.id):  # paths contain ids of tracks as well as of players
            raise BadRequest(
                f"The track id {self.id!r} cannot be named in a path; as a player's, an id has 1 to 128 of the "
                "characters A-Z a-z 0-9 . _ ~ : @ + - and is not '.' or '..'."
            )
        if self.end_ms is not None and self.end_ms <= self.start_ms:
            raise BadRequest(f"The track {self.id} ends before it starts.")
        uri = self._source(came_through_proxy)
        first = initial_track_info(uri)
        info = TrackInfo(
            identifier=first.identifier,
            uri=self.opened_uri or first.uri,
            title=self.title or first.title,
            **{attribute: getattr(self, name) for name, attribute in _OF_INFO.items()},
        )
        of_track = {name: getattr(self, name) for name in _OF_TRACK}
        lists = tuple(self.lists) or ("",) * self.is_playlist_entry
        track = Track(uri=uri, info=info, metadata_json=json_text(self.metadata), lists=lists, **of_track)
        return QueuedTrack(track, **{name: getattr(self, name) for name in _OF_QUEUED})

    def _source(self, came_through_proxy: bool) -> SourceUri:
        given = parse_source_uri(self.uri, from_client=True)
        uri = given if self.address is None else parse_source_uri(self.address, from_client=True, is_address=True)
        return replace(
            uri,
            given=self.uri,
            came_through_proxy=self.came_through_proxy or came_through_proxy,
            start_ms=given.start_ms,
            end_ms=given.end_ms,
            audio=given.audio,
        )


class SavedPlayed(RequestModel):
    """A track that ended."""

    track_id: TrackId
    ended_at: TimeOfDay
    reason: Annotated[EndReason, Field(strict=False)]
    sounded: bool = Field(description="Whether a frame of the track was sent.")


class SavedFailure(RequestModel):
    """Why the last track failed."""

    code: Annotated[FailureCode, Field(strict=False)]
    stage: Annotated[Stage, Field(strict=False)]
    message: _Link = Field(min_length=1, description="What happened, as text for people.")
    hint: _Link = Field(min_length=1, description="What to do about it, as text for people.")
    http_status: int | None = Field(
        None,
        ge=0,
        le=HTTP_STATUS_MAX,
        description="The status of the server's response, if it was the reason; otherwise null.",
    )


def require_version(version: int) -> None:
    """Raises BadRequest for a state of another version."""
    if version > STATE_VERSION:
        raise BadRequest(
            f"The state has version {version}, and this node knows versions up to {STATE_VERSION}. Use the newer "
            "tonearm that made it."
        )
    if version < STATE_VERSION:
        raise BadRequest(f"The state has version {version}, which never was; the first one is {STATE_VERSION}.")


class SavedOverlay(RequestModel):
    """A sound over the music."""

    track_id: TrackId
    position: _Position = Field(description="The position in the overlay's file, in ms.")
    volume: float = Field(1.0, ge=0, le=OVERLAY_VOLUME_MAX, description="A linear gain; 1 changes nothing.")
    duck_db: float = Field(-12.0, ge=DUCK_MIN_DB, le=0, description="The gain of the music under the overlay, in dB.")
    fade_ms: int = Field(
        150, ge=0, le=FADE_MAX_MS, description="The time for lowering the music, and for raising it again, in ms."
    )


class SavedPlayer(RequestModel):
    """GET and PUT /v0/players/{id}/state: a player's record, with everything needed to create the player again."""

    version: int = Field(
        description=f"The version of the record: {STATE_VERSION}.", json_schema_extra={"const": STATE_VERSION}
    )
    id: PlayerId
    saved_at: TimeOfDay
    state: Annotated[PlayerState, Field(strict=False)]
    paused: Paused
    clock_started: bool = Field(description="Whether the player's wait for its first listener is over.")
    position: _Position = Field(description="The position in the current track's file, in ms.")
    played_ms: _Position = Field(0, description="How much of the current track's file was sent, in ms.")
    has_sounded: bool = Field(False, description="Whether a frame of the current track was sent.")
    is_resuming: bool = Field(
        False, description="Whether the player played before it was restored, and has been loading since."
    )
    current: TrackId | None = Field(description="The id of the current track; null before the first track.")
    queue: Annotated[list[TrackId], FailFast()]  # a list of all errors would be far longer than the list of tracks
    history: list[SavedPlayed] = Field(max_length=MAX_PLAYED, description="The tracks that ended, the newest first.")
    loop: Annotated[LoopMode, Field(strict=False)]
    filters: FiltersPatch
    crossfade: CrossfadePatch
    metadata: AnyJson
    failures_in_a_row: _Count = Field(
        0, description="The number of tracks in a row that failed before they gave audio."
    )
    error: SavedFailure | None = None
    companions: dict[str, AnyJson] = Field(
        default_factory=dict,
        max_length=8,
        description="The data of parts that belong to the player, such as its voice, by name.",
    )
    life: str | None = Field(None, max_length=64, description="The player's life; null in a record without one.")
    seq: int = Field(0, ge=0, description="The number of the last event in that life.")
    frames: int = Field(0, ge=0, description="The number of frames that were sent in that life.")
    sample: int | None = Field(
        None,
        ge=0,
        description="The first sample of the current track's file that was not sent, counted at 48 kHz. It refines "
        "`position`; null before the first frame.",
    )
    overlays: list[SavedOverlay] = Field(
        default_factory=list,
        max_length=MAX_OVERLAYS,
        description="The overlays, with the positions at which they continue.",
    )
    tracks: Annotated[list[SavedTrack], FailFast()] = Field(
        description="All tracks that other fields name, each one once."
    )

    def as_snapshot(
        self, player_id: str | None = None, new_tracks: Sequence[QueuedTrack] | None = None
    ) -> PlayerSnapshot:
        """The player, under its own id or `player_id`. `new_tracks` replace its `tracks`, which are ignored then.
        Raises BadRequest for a state that no player can have."""
        require_version(self.version)
        tracks_there = [track.as_queued() for track in self.tracks] if new_tracks is None else new_tracks
        tracks = {queued.track.id: queued for queued in tracks_there}
        self._require_places(tracks, len(tracks_there))
        is_idle = self.state in (PlayerState.IDLE, PlayerState.FAILED)
        if self.current is None and not is_idle:
            raise BadRequest(
                "`current` is null although the player is playing; name a track, or set the state to idle."
            )
        try:
            return PlayerSnapshot(
                player_id=self.id if player_id is None else player_id,
                state=self.state if self.current is not None else PlayerState.IDLE,
                paused=self.paused,
                clock_started=self.clock_started,
                position_ms=self.position,
                played_ms=self.played_ms,
                has_sounded=self.has_sounded,
                current=None if self.current is None else tracks[self.current],
                queue=tuple(tracks[track_id] for track_id in self.queue),
                history=tuple(self._played(tracks)),
                loop_mode=self.loop,
                filters=self.filters.as_change().applied_to(Filters()),
                crossfade=self.crossfade.as_edit().applied_to(CrossfadeSettings()),
                metadata=self.metadata,
                failures_in_a_row=self.failures_in_a_row,
                error=None if self.error is None else PlayFailure(**dict(self.error)),
                is_resuming=self.is_resuming and self.state is PlayerState.LOADING,
                companions=self.companions,
                handover=None if self.life is None else self._handover(self.life, tracks),
            )
        except KeyError as error:
            raise BadRequest(f"The track {str(error.args[0])[:128]} is not in `tracks`.") from error

    def _require_places(self, tracks: Collection[str], count: int) -> None:
        """Raises BadRequest unless each track is there once. Only the history may name a track again, because of
        loops."""
        waiting = set(self.queue)
        if len(tracks) != count or len(waiting) != len(self.queue):
            raise BadRequest("A track occurs twice; each track needs its own id and one place in the queue.")
        if self.current in waiting:
            raise BadRequest("`current` is in `queue`, too; a track is either selected or waiting.")
        sounding = {overlay.track_id for overlay in self.overlays}
        if len(sounding) != len(self.overlays) or sounding & {self.current, *waiting}:
            raise BadRequest("A track in `overlays` occurs twice; each overlay needs its own track.")

    def _handover(self, life: str, tracks: Mapping[str, QueuedTrack]) -> Handover:
        overlays = (
            OverlayStatus(
                one.track_id,
                tracks[one.track_id].track,
                OverlaySettings(one.volume, one.duck_db, one.fade_ms),
                OverlayState.LOADING,
                one.position,
            )
            for one in self.overlays
        )
        return Handover(life, self.seq, self.frames, self.sample, tuple(overlays))

    def _played(self, tracks: dict[str, QueuedTrack]) -> Iterator[PlayedTrack]:
        for played in self.history:
            yield PlayedTrack(tracks[played.track_id], played.ended_at, played.reason, played.sounded)


class SavedNode(RequestModel):
    """GET /v0/state: the records of all players of a node."""

    version: int = Field(description=f"The version of the records: {STATE_VERSION}.")
    players: list[SavedPlayer]


def read_state(value: JsonObject) -> tuple[int, PlayerSnapshot]:
    """Reads the JSON of a `SavedPlayer`. Returns the time when it was saved, in ms since 1970, and the player. Raises
    BadRequest."""
    if is_nested_deeper(value, MAX_RECORD_NESTING):
        raise BadRequest(f"The state is nested deeper than {MAX_RECORD_NESTING} levels.")
    try:
        saved = SavedPlayer.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"The field `{place}` of the state is wrong: {first['msg']}.") from error
    return saved.saved_at, saved.as_snapshot()


def _handover_out(handover: Handover) -> JsonObject:
    return {
        "life": handover.life,
        "seq": handover.seq,
        "frames": handover.frames,
        "sample": handover.sample,
        "overlays": [
            {
                "trackId": overlay.id,
                "position": overlay.position_ms,
                "volume": overlay.settings.volume,
                "duckDb": overlay.settings.duck_db,
                "fadeMs": overlay.settings.fade_ms,
            }
            for overlay in handover.overlays
        ],
    }


def queue_out(queue: Sequence[QueuedTrack]) -> list[Json]:
    """The ids of a queue's tracks."""
    return [queued.track.id for queued in queue]


def tracks_of(snapshot: PlayerSnapshot, waiting: Iterable[QueuedTrack] | None = None) -> dict[str, QueuedTrack]:
    """All tracks that the player's state names, each once, by id. `waiting` replaces the tracks of its queue."""
    current = () if snapshot.current is None else (snapshot.current,)
    played = (entry.queued_track for entry in snapshot.history)
    queue = snapshot.queue if waiting is None else waiting
    overlays = () if snapshot.handover is None else snapshot.handover.overlays
    sounding = (QueuedTrack(overlay.track) for overlay in overlays)
    return {queued.track.id: queued for queued in (*sounding, *played, *queue, *current)}


def state_head_out(snapshot: PlayerSnapshot, saved_at_ms: int) -> JsonObject:
    """`SavedPlayer` as JSON, without `queue` and `tracks`."""
    return {
        "version": STATE_VERSION,
        "id": snapshot.player_id,
        "savedAt": saved_at_ms,
        "state": snapshot.state.value,
        "paused": snapshot.paused,
        "clockStarted": snapshot.clock_started,
        "position": snapshot.position_ms,
        "playedMs": snapshot.played_ms,
        "hasSounded": snapshot.has_sounded,
        "isResuming": snapshot.is_resuming,
        "current": None if snapshot.current is None else snapshot.current.track.id,
        "history": [
            {
                "trackId": played.track.id,
                "endedAt": played.ended_at_ms,
                "reason": played.reason.value,
                "sounded": played.sounded,
            }
            for played in snapshot.history
        ],
        "loop": snapshot.loop_mode.value,
        "filters": filters_out(snapshot.filters),
        "crossfade": crossfade_out(snapshot.crossfade),
        "metadata": snapshot.metadata,
        "failuresInARow": snapshot.failures_in_a_row,
        "error": None if snapshot.error is None else failure_out(snapshot.error),
        **({"companions": dict(snapshot.companions)} if snapshot.companions else {}),
        **({} if snapshot.handover is None else _handover_out(snapshot.handover)),
    }


def saved_track_out(queued: QueuedTrack) -> JsonObject:
    """`SavedTrack` as JSON, without the fields that have their default."""
    track, info, uri = queued.track, queued.track.info, queued.track.uri
    first = initial_track_info(uri)
    is_found = uri.kind == "file" and uri.path.startswith("/")  # a relative path depends on a folder
    values: JsonObject = {
        "uri": uri.given,
        "address": uri.normalised if is_found and uri.given != uri.path else None,
        "cameThroughProxy": uri.came_through_proxy,
        "metadata": track.metadata,
        "title": "" if info.title == first.title else info.title,
        "openedUri": None if info.uri == first.uri else info.uri,
        "isPlaylistEntry": track.is_playlist_entry,
        "lists": list(track.lists),
    }
    for owner, attributes in ((track, _TRACK_OUT), (info, _INFO_OUT), (queued, _QUEUED_OUT)):
        for name, attribute in attributes:
            values[name] = getattr(owner, attribute)
    return {name: value for name, value in values.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}


_TRACK_OUT: Final = tuple((to_camel(name), name) for name in _OF_TRACK)
_INFO_OUT: Final = tuple((to_camel(name), attribute) for name, attribute in _OF_INFO.items())
_QUEUED_OUT: Final = tuple((to_camel(name), name) for name in _OF_QUEUED)
_DEFAULTS: Final = {
    to_camel(name): field.get_default(call_default_factory=True, validated_data={})
    for name, field in SavedTrack.model_fields.items()
    if not field.is_required()
}

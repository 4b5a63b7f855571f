"""The models of the bodies in requests.

The ranges in these models only appear in descriptions. `core` checks them, because its error messages name the allowed
values; a model's errors would have pydantic's wording.
"""

from typing import Annotated, ClassVar, Final, TypeAlias

from pydantic import ConfigDict, FailFast, Field
from pydantic.config import JsonDict

from tonearm.core.crossfade import DURATION_MAX_MS, CrossfadeCurve, CrossfadeEdit
from tonearm.core.errors import BadRequest
from tonearm.core.filters import (
    BAND_COUNT,
    GAIN_MAX_DB,
    GAIN_MIN_DB,
    LAVALINK_GAIN_MAX,
    LAVALINK_GAIN_MIN,
    VOLUME_MAX,
    FilterChange,
    Filters,
    db_of_lavalink_gain,
)
from tonearm.core.overlays import DUCK_MIN_DB, FADE_MAX_MS, OVERLAY_VOLUME_MAX, OverlaySettings
from tonearm.core.play_queue import LoopMode
from tonearm.core.source_uri import title_from_text
from tonearm.core.track_info import MAX_LENGTH_MS, TrackInfo
from tonearm.core.voice import (
    MAX_BITRATE_BPS,
    MIN_BITRATE_BPS,
    VoiceCredentials,
    VoiceTarget,
    parse_endpoint,
    parse_id,
)
from tonearm.protocol.filters import EffectFields
from tonearm.protocol.wire_model import (
    ABSENT,
    AnyJson,
    ArtworkUrl,
    BandNumber,
    ExactModel,
    Isrc,
    Paused,
    PlayerId,
    RequestModel,
    SourceText,
    TrackId,
    one_of,
)

MAX_ENCODED_TRACKS: Final = 1000
MAX_NEW_TRACKS: Final = 1000
MAX_NEW_OVERLAYS: Final = 100  # in one request; a player's limit is lower, and has an error of its own
MAX_GAINS: Final = 1000  # of the equalizer, in one change
MAX_SECRET_CHARACTERS: Final = 1024  # Discord's secrets have some tens

_INDEX: Final[JsonDict] = {"minimum": 0}


def _range(minimum: float, maximum: float) -> JsonDict:
    return {"minimum": minimum, "maximum": maximum}


class _GivenSource(RequestModel):
    """A track's source: a URI or an encoded track. Only the sent fields count; the defaults are never read."""

    uri: SourceText = ""
    encoded: str = Field(default="", description="An encoded track, in base64.")


class _GivenPart(_GivenSource):
    """A source, or a part of its file. The defaults are never read."""

    start_ms: int = Field(
        default=0,
        description="The start of the part in the file, in ms; absent: the file's start.",
        json_schema_extra={"minimum": 0},
    )
    end_ms: int = Field(
        default=0,
        description="The end of the part in the file, in ms; absent: the file's end.",
        json_schema_extra={"minimum": 1},
    )


class NewTrack(_GivenPart):
    """A track, or the tracks of a playlist: the body of PUT /v0/players/{id}/track, and an entry of `tracks`.

    `uri` or `encoded` is required. With both, `encoded` is ignored.
    """

    model_config = ConfigDict(json_schema_extra=one_of("uri", "encoded"))
    read_defaults: ClassVar[frozenset[str] | None] = frozenset()

    metadata: AnyJson = Field(default_factory=dict)


class QueueEntry(NewTrack):
    """POST /v0/players/{id}/queue with one track."""

    index: int = Field(
        default=0, description="The place in the queue; 0 plays next. Absent: the end.", json_schema_extra=_INDEX
    )


class QueueEntries(RequestModel):
    """POST /v0/players/{id}/queue with many tracks. Either all of them are added, or none."""

    read_defaults: ClassVar[frozenset[str] | None] = frozenset()

    tracks: Annotated[list[NewTrack], FailFast()] = Field(min_length=1, max_length=MAX_NEW_TRACKS)
    index: int = Field(
        default=0,
        description="The place of the first track in the queue; 0 plays next. Absent: the end.",
        json_schema_extra=_INDEX,
    )


class LoopPatch(RequestModel):
    """PATCH /v0/players/{id}/loop."""

    # Not strict, because a strict enumeration takes only its members, and JSON has only their values.
    mode: Annotated[LoopMode, Field(strict=False)]


class PositionPatch(RequestModel):
    """PATCH /v0/players/{id}/position, with one of these fields."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["position"]}, {"required": ["offset"]}]})
    read_defaults: ClassVar[frozenset[str] | None] = frozenset()

    position: int = Field(
        default=0,
        description="The new position in the file, in ms. A position before the track's start is its start.",
    )
    offset: int = Field(
        default=0,
        description="The new position, relative to the player's position, in ms; a negative value seeks back.",
    )


class IndexPatch(RequestModel):
    """PATCH /v0/players/{id}/queue/{trackId}."""

    index: int = Field(
        json_schema_extra=_INDEX,
        description="The new place in the queue; 0 plays next. A place beyond the end is the end.",
    )


class SkipTarget(RequestModel):
    """POST /v0/players/{id}/skip. The body may be absent."""

    to: TrackId = Field(description="The id of the waiting track to play.")


class CrossfadePatch(RequestModel):
    """PATCH /v0/players/{id}/crossfade. Absent fields stay as they are."""

    read_defaults: ClassVar[frozenset[str] | None] = frozenset()

    duration_ms: int = Field(
        0,
        description="The length of the crossfade, in ms; 0: tracks follow without a gap.",
        json_schema_extra=_range(0, DURATION_MAX_MS),
    )
    curve: Annotated[CrossfadeCurve, Field(strict=False)] = CrossfadeCurve.EQUAL_POWER
    on_skip: bool = Field(False, description="Whether skips crossfade as well.")

    def as_edit(self) -> CrossfadeEdit:
        """The change. Its range is not checked yet."""
        return CrossfadeEdit(**{name: getattr(self, name) for name in self.model_fields_set})


class NewOverlay(_GivenPart):
    """POST /v0/players/{id}/overlays: a sound over the music. `uri` or `encoded` is required."""

    model_config = ConfigDict(json_schema_extra=one_of("uri", "encoded"))
    read_defaults: ClassVar[frozenset[str] | None] = frozenset({"volume", "duckDb", "fadeMs"})

    volume: float = Field(
        1.0, description="A linear gain; 1 changes nothing.", json_schema_extra=_range(0, OVERLAY_VOLUME_MAX)
    )
    duck_db: float = Field(
        -12.0, description="The gain of the music under the overlay, in dB.", json_schema_extra=_range(DUCK_MIN_DB, 0)
    )
    fade_ms: int = Field(
        150,
        description="The time for lowering the music, and for raising it again, in ms.",
        json_schema_extra=_range(0, FADE_MAX_MS),
    )

    def as_settings(self, place: str = "") -> OverlaySettings:
        """Raises BadRequest for a value outside its range. `place` is where the overlay is in the body."""
        return OverlaySettings(float(self.volume), float(self.duck_db), self.fade_ms).checked(place)


class NewOverlays(RequestModel):
    """POST /v0/players/{id}/overlays with several sounds. They begin with the same frame. Either all of them are added,
    or none."""

    overlays: Annotated[list[NewOverlay], FailFast()] = Field(min_length=1, max_length=MAX_NEW_OVERLAYS)


class MetadataPatch(RequestModel):
    """PATCH /v0/players/{id}/metadata."""

    value: AnyJson
    merge: bool = Field(
        True, description="True: `value` is a JSON Merge Patch (RFC 7396). False: `value` replaces the metadata."
    )


class BandGain(RequestModel):
    """One band of the equalizer."""

    read_defaults: ClassVar[frozenset[str] | None] = frozenset()

    band: BandNumber = Field(json_schema_extra=_range(0, BAND_COUNT - 1))
    gain_db: float = Field(
        alias="gain_db", description="The band's gain in dB.", json_schema_extra=_range(GAIN_MIN_DB, GAIN_MAX_DB)
    )
    frequency_hz: AnyJson = Field(
        default=None,
        alias="frequency_hz",
        description="Ignored. It is allowed so that the response of GET filters can be sent back.",
    )


class LavalinkBandGain(RequestModel):
    """One band of the equalizer, as Lavalink's clients send it."""

    band: BandNumber = Field(json_schema_extra=_range(0, BAND_COUNT - 1))
    gain: float = Field(
        json_schema_extra=_range(LAVALINK_GAIN_MIN, LAVALINK_GAIN_MAX),
        description="The amplitude of the band is multiplied by 1 + 4 · gain.",
    )


class FiltersPatch(EffectFields, ExactModel):
    """PATCH /v0/players/{id}/filters. Absent filters stay as they are; `eq: []` makes the equalizer flat.

    An effect is replaced as a whole: its absent fields take their defaults. null switches an effect off.
    """

    read_defaults: ClassVar[frozenset[str] | None] = frozenset()

    volume: float = Field(
        default=1.0, description="A linear gain; 1 changes nothing.", json_schema_extra=_range(0, VOLUME_MAX)
    )
    # The answer names the first wrong entry, so the check ends there.
    eq: Annotated[list[BandGain], FailFast()] = Field(
        default_factory=list, max_length=MAX_GAINS, description="The bands to set; other bands stay as they are."
    )
    equalizer: Annotated[list[LavalinkBandGain], FailFast()] = Field(
        default_factory=list,
        max_length=MAX_GAINS,
        description="The bands to set, with Lavalink's gains; not together with `eq`.",
    )
    reset: bool = Field(False, description="True: all filters are reset before the rest of this body is applied.")

    def as_change(self) -> FilterChange:
        """The change. Most ranges are not checked yet. Raises BadRequest for fields that exclude each other, and for a
        gain of Lavalink outside its range."""
        gains: tuple[tuple[int, float], ...] | None = None
        if {"eq", "equalizer"} <= self.model_fields_set:
            raise BadRequest("`eq` and `equalizer` set the same bands. Leave one of them out.")
        if "eq" in self.model_fields_set:
            gains = tuple((band.band, band.gain_db) for band in self.eq)
        elif "equalizer" in self.model_fields_set:
            gains = tuple((band.band, db_of_lavalink_gain(band.gain)) for band in self.equalizer)
        return FilterChange(
            volume=self.volume if "volume" in self.model_fields_set else None,
            gains=gains,
            effects=self.given_effects(),
            resets=self.reset,
        )


_SECRET: Final[JsonDict] = {"minLength": 1, "maxLength": MAX_SECRET_CHARACTERS}
_ID: Final[JsonDict] = {"pattern": "^[1-9][0-9]{0,19}$"}


class VoicePut(RequestModel):
    """PUT /v0/players/{id}/voice: values of VOICE_STATE_UPDATE and VOICE_SERVER_UPDATE of Discord's gateway."""

    read_defaults: ClassVar[frozenset[str] | None] = frozenset()

    token: str = Field(description="`token` of VOICE_SERVER_UPDATE.", json_schema_extra=_SECRET)
    endpoint: str | None = Field(
        description="`endpoint` of VOICE_SERVER_UPDATE, `host:port`; null: the server has gone away."
    )
    session_id: str = Field(description="`session_id` of the bot's VOICE_STATE_UPDATE.", json_schema_extra=_SECRET)
    channel_id: str = Field(description="`channel_id` of the bot's VOICE_STATE_UPDATE.", json_schema_extra=_ID)
    guild_id: str = Field(description="`guild_id` of both events.", json_schema_extra=_ID)
    user_id: str = Field(description="The bot's own id.", json_schema_extra=_ID)
    bitrate: int = Field(
        default=0,
        description="The channel's bitrate in bit/s; absent: `opus.bitrate_bps`.",
        json_schema_extra=_range(MIN_BITRATE_BPS, MAX_BITRATE_BPS),
    )

    def as_target(self, place: str = "") -> tuple[VoiceTarget, VoiceCredentials]:
        """Raises BadRequest for a wrong field. The error names the field, at `place` in the body, and shows no
        value."""
        for name, secret in (("token", self.token), ("sessionId", self.session_id)):
            if not 0 < len(secret) <= MAX_SECRET_CHARACTERS:
                raise BadRequest(f"`{place}{name}` must have 1 to {MAX_SECRET_CHARACTERS} characters.")
        ids = {"guildId": self.guild_id, "channelId": self.channel_id, "userId": self.user_id}
        guild_id, channel_id, user_id = (_as_id(text, place + name) for name, text in ids.items())
        has_bitrate = "bitrate" in self.model_fields_set
        if has_bitrate and not MIN_BITRATE_BPS <= self.bitrate <= MAX_BITRATE_BPS:
            raise BadRequest(f"`{place}bitrate` must be {MIN_BITRATE_BPS} to {MAX_BITRATE_BPS} bit/s.")
        endpoint = None if self.endpoint is None else parse_endpoint(self.endpoint)
        target = VoiceTarget(guild_id, channel_id, user_id, endpoint, self.bitrate if has_bitrate else None)
        return target, VoiceCredentials(self.token, self.session_id)


def _as_id(text: str, name: str) -> int:
    number = parse_id(text)
    if number is None:
        raise BadRequest(f"`{name}` must be an id of Discord: a decimal number of 1 to 2^64 - 1.")
    return number


class NewPlayer(_GivenSource):
    """POST /v0/players. `uri`, `encoded` or `track` names the player's first track; with `idle` it begins without a
    track. One of these fields is required."""

    model_config = ConfigDict(json_schema_extra=one_of("uri", "encoded", "track", "idle"))
    read_defaults: ClassVar[frozenset[str] | None] = frozenset({"idle", "paused", "volume", "loop"})

    id: PlayerId
    track: NewTrack = Field(ABSENT, description="The first track, as in PUT track.")
    idle: bool = Field(default=False, description="True: the player begins without a track.")
    metadata: AnyJson = Field(default_factory=dict)
    paused: Paused = False
    volume: float = Field(
        default=1.0, description="A linear gain; 1 changes nothing.", json_schema_extra=_range(0, VOLUME_MAX)
    )
    filters: FiltersPatch = Field(ABSENT, description="As in PATCH filters.")
    # Not strict, because a strict enumeration takes only its members, and JSON has only their values.
    loop: Annotated[LoopMode, Field(strict=False)] = LoopMode.NONE
    voice: VoicePut = Field(
        ABSENT, description="As in PUT voice. The player begins when the channel can hear it, after 10 s at the latest."
    )
    node: str = Field(
        default="",
        description="In a cluster: the name of the node for the player. Empty: the less loaded of two random nodes.",
    )

    def first_track(self) -> "NewTrack | NewPlayer | None":
        """The part of the body that names the first track; None for a player that begins idle. Raises BadRequest when
        no field names it, or two fields do."""
        ways: list[str] = [name for name in ("uri", "encoded", "track") if name in self.model_fields_set]
        if self.idle:
            ways.append("idle")
        if not ways:
            raise BadRequest("The field `uri` is missing; `encoded`, `track` or `idle: true` can take its place.")
        if len(ways) > 1 and ways != ["uri", "encoded"]:
            raise BadRequest(f"`{'` and `'.join(ways)}` exclude each other. Send one of them.")
        if self.idle:
            return None
        return self.track if ways == ["track"] else self

    def first_filters(self) -> Filters:
        """The filters that the player begins with. Raises BadRequest for a value outside its range."""
        filters = Filters()
        if "filters" in self.model_fields_set:
            filters = self.filters.as_change().applied_to(filters)
        if "volume" in self.model_fields_set:
            filters = FilterChange(volume=self.volume).applied_to(filters)
        return filters


class TrackInfoToEncode(RequestModel):
    """The facts to encode, as in the `info` of a track."""

    identifier: str = Field(description="The URI, or another source's name for the track.")
    title: str = Field(default="", description="The title; absent or empty: made from the URI.")
    author: str = Field("", description="The author; empty when unknown.")
    length: int = Field(
        default=0, description="The length in ms; ignored for a stream.", json_schema_extra={"minimum": 0}
    )
    is_stream: bool = Field(False, description="Whether the source is live, without an end.")
    uri: str | None = Field(default=None, description="The URI that is opened; absent: the identifier.")
    artwork_url: ArtworkUrl | None = None
    isrc: Isrc | None = None
    source_name: str = Field(default="http", description="`http`, `file`, or another node's name for the source.")


class DashboardLogin(RequestModel):
    """POST /dashboard/login."""

    password: str = Field(description="The node's password.")
    stay: bool = Field(False, description="True: the login lasts for 30 days. False: it ends with the browser.")


class TrackToEncode(RequestModel):
    """POST /v0/encodetrack."""

    info: TrackInfoToEncode

    def as_info(self) -> TrackInfo:
        """The facts to encode. Raises BadRequest for a value that cannot be encoded."""
        info = self.info
        if not 0 <= info.length <= MAX_LENGTH_MS:
            raise BadRequest("`info.length` is a time in ms: it must not be negative or huge.")
        if not info.identifier.strip():
            raise BadRequest("`info.identifier` is empty; give the track's URI.")
        return TrackInfo(
            identifier=info.identifier,
            uri=info.identifier if info.uri is None else info.uri,
            title=info.title or title_from_text(info.identifier),
            author=info.author,
            length_ms=0 if info.is_stream else info.length,
            is_seekable=not info.is_stream,
            is_stream=info.is_stream,
            artwork_url=info.artwork_url,
            isrc=info.isrc,
            source_name=info.source_name,
        )


EncodedTracks: TypeAlias = Annotated[
    list[str], Field(max_length=MAX_ENCODED_TRACKS, description="POST /v0/decodetracks: encoded tracks, in base64.")
]


class MoveTo(RequestModel):
    """POST /v0/players/{id}/move."""

    node: str = Field(description="The name of the new node.")

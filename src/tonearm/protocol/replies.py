"""The bodies that a node answers with."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from tonearm.core.crossfade import DURATION_MAX_MS, CrossfadeCurve
from tonearm.core.errors import ErrorCode
from tonearm.core.events import PlayerState
from tonearm.core.failure import HTTP_STATUS_MAX, FailureCode, Stage
from tonearm.core.filters import BAND_COUNT, GAIN_MAX_DB, GAIN_MIN_DB, VOLUME_MAX
from tonearm.core.overlays import DUCK_MIN_DB, FADE_MAX_MS, OVERLAY_VOLUME_MAX, OverlayState
from tonearm.core.play_queue import EndReason, LoopMode
from tonearm.core.voice import ClosedBy, VoiceAction, VoicePhase
from tonearm.protocol.filters import EffectFields
from tonearm.protocol.wire_model import (
    ABSENT,
    AnyJson,
    ArtworkUrl,
    Author,
    BandNumber,
    Count,
    Isrc,
    Listeners,
    Milliseconds,
    NodeRelease,
    Paused,
    PlayerId,
    PositionRate,
    SourceText,
    TimeOfDay,
    Title,
    TrackId,
    WireModel,
)

# Tracks


class TrackInfo(WireModel):
    """The facts about a track's source; before it was opened `length` is 0 and both booleans are false."""

    identifier: str = Field(description="The URI as given.")
    is_seekable: bool = Field(description="Whether it can be played from any place.")
    author: str = Field(description="Empty when it is not known.")
    length: Milliseconds = Field(description="In ms; 0 when unknown or endless.")
    is_stream: bool = Field(description="Whether it is live, without an end.")
    position: Milliseconds
    title: Title
    uri: str = Field(description="What is really opened.")
    artwork_url: ArtworkUrl | None
    isrc: Isrc | None
    source_name: str = Field(description="`http`, `file` or `direct`; another node's own name in a decoded track.")


class Mirror(WireModel):
    """The recording that plays in place of a service's own sound."""

    uri: str = Field(min_length=1, description="The page it was found at.")
    title: str = Field(description="As the page's site says it.")
    author: str = Field(description="As the page's site says it.")
    length: Milliseconds = Field(description="As the page's site says it, in ms; 0 when it does not.")
    by: Literal["isrc", "words"] = Field(description="Whether it was searched by its ISRC, or by artist and title.")


class PluginInfo(WireModel):
    """Empty, but for a track that plays from elsewhere than its link."""

    mirror: Mirror | None = Field(None, description="Where it plays from, once that was chosen; absent for others.")


class TrackOut(WireModel):
    """A track as all endpoints show it."""

    encoded: str = Field(description="An identifier that holds the track's info, in base64.")
    info: TrackInfo
    plugin_info: PluginInfo
    user_data: AnyJson = Field(description="The track's metadata; the player's, when the track's is {}.")


class PartFields(WireModel):
    """Which part of its file a track is; without these fields it is all of it. Positions and lengths are the file's."""

    start_ms: int = Field(0, ge=0, description="Of a part: where it starts in its file, in ms.")
    end_ms: int = Field(0, gt=0, description="Of a part: where it ends in its file, in ms; else with it.")


class ListedTrack(TrackOut, PartFields):
    """A track that a list names."""


class QueuedTrack(WireModel):
    """An entry of GET /v0/players/{id}/queue."""

    id: TrackId
    uri: str = Field(description="The URI as given.")
    metadata: AnyJson


class QueuedTrackDetails(QueuedTrack):
    """An entry of GET /v0/players/{id}/queue?details=true. What is not known is left out."""

    title: Title
    author: Author = Field("", min_length=1)
    length: int = Field(
        0, gt=0, description="Of the whole file, in ms; before that is known, what a playlist says of the track."
    )
    artwork_url: ArtworkUrl = ""
    start_ms: Milliseconds
    end_ms: int = Field(0, gt=0, description="Where the track ends in its file, in ms; else with it.")


class PlayedTrack(QueuedTrack, PartFields):
    """An entry of GET /v0/players/{id}/history, the newest first."""

    ended_at: TimeOfDay
    reason: EndReason


_WARNINGS: Final = "Sentences about tracks that will not play, since they are links to pages; absent without any."


class LeftOut(WireModel):
    """Entries of a playlist that are not among the tracks."""

    count: int = Field(ge=1, description="How many.")
    reasons: list[str] = Field(min_length=1, description="Each once, as sentences for people.")


class TrackQueued(WireModel):
    """201 of POST /v0/players/{id}/queue and PUT /v0/players/{id}/track.

    `track_ids` only for a list of tracks, and for a playlist of several or with entries left out.
    """

    track_id: TrackId
    track_ids: list[TrackId] = Field(default_factory=list, min_length=1)
    left_out: LeftOut = ABSENT
    warnings: list[str] = Field(default_factory=list, min_length=1, description=_WARNINGS)


class LoadedTrack(WireModel):
    """GET /v0/loadtracks for a source that opens."""

    load_type: Literal["track"]
    data: TrackOut


class NoData(WireModel):
    """An empty object."""


class FoundTracks(WireModel):
    """GET /v0/search."""

    tracks: list[ListedTrack] = Field(description="The best match first; none of them was opened.")
    left_out: LeftOut = ABSENT


class LoadedPlaylist(FoundTracks):
    """GET /v0/loadplaylist."""

    name: str = Field(description="The playlist's own name; empty when it has none.")
    selected: int = Field(ge=-1, description="The index of the track that the identifier itself names; -1: of none.")


class PlayFailure(WireModel):
    """Why a track cannot be played."""

    code: FailureCode
    stage: Stage
    message: str = Field(min_length=1, description="What happened, for people.")
    hint: str = Field(min_length=1, description="What to do about it, for people.")
    http_status: int = Field(0, ge=0, le=HTTP_STATUS_MAX, description="Only when a server's answer was the reason.")


class NothingLoaded(WireModel):
    """GET /v0/loadtracks for anything else. `error` is there with `explain=true`."""

    load_type: Literal["empty"]
    data: NoData
    error: PlayFailure = ABSENT


LoadResult: TypeAlias = Annotated[LoadedTrack | NothingLoaded, Field(discriminator="load_type")]


class ListInfo(WireModel):
    """As Lavalink has it."""

    name: str = Field(description="The list's own name; empty when it has none.")
    selected_track: int = Field(ge=-1, description="The index of the track that the text itself names; -1: of none.")


class AboutList(WireModel):
    """What is known of a list beside its tracks."""

    url: str = Field(description="What was opened.")
    artwork_url: ArtworkUrl | None = Field(description="A picture of it; null when none is known.")
    author: str = Field(description="Whose it is; empty when that is not known.")
    total_tracks: Count = Field(description="How many tracks it says it has, or else how many are here.")


class ListedTracks(WireModel):
    """The tracks of a list, none of which was opened."""

    info: ListInfo
    plugin_info: AboutList
    tracks: list[ListedTrack] = Field(description="In their order, at most 500.")


class FoundList(WireModel):
    """A playlist, an album, a folder, or a page that lists others."""

    load_type: Literal["playlist"]
    data: ListedTracks
    left_out: LeftOut = ABSENT


class FoundBySearch(WireModel):
    """The results of a search, the best first; none of them was opened."""

    load_type: Literal["search"]
    data: list[ListedTrack] = Field(min_length=1, description="At most `limit`.")


class LoadFailure(PlayFailure):
    """Why there is nothing, as Lavalink has it and as this node has it."""

    severity: Literal["common", "suspicious", "fault"] = Field(
        description="Whether it is to be expected, comes from outside, or is the node's own fault."
    )
    cause: str = Field(min_length=1, description="Code and stage.")


class LoadError(WireModel):
    """The text means something that cannot be loaded."""

    load_type: Literal["error"]
    data: LoadFailure


class NothingFound(WireModel):
    """A search found nothing."""

    load_type: Literal["empty"]
    data: NoData


Loaded: TypeAlias = Annotated[
    LoadedTrack | FoundList | FoundBySearch | NothingFound | LoadError, Field(discriminator="load_type")
]


# Players


class PlayerCreated(WireModel):
    """201 of POST /v0/players."""

    id: PlayerId
    left_out: LeftOut = ABSENT
    warnings: list[str] = Field(default_factory=list, min_length=1, description=_WARNINGS)


class Band(WireModel):
    """One band of the equalizer."""

    band: BandNumber = Field(ge=0, lt=BAND_COUNT)
    frequency_hz: int = Field(alias="frequency_hz", gt=0, description="The band's centre.")
    gain_db: float = Field(alias="gain_db", ge=GAIN_MIN_DB, le=GAIN_MAX_DB, description="In dB.")


class Filters(EffectFields):
    """GET /v0/players/{id}/filters. An effect that is off is null."""

    volume: float = Field(ge=0, le=VOLUME_MAX, description="Linear, after the equalizer: 1 changes nothing.")
    eq: list[Band] = Field(min_length=BAND_COUNT, max_length=BAND_COUNT)


class Crossfade(WireModel):
    """How a player's tracks fade into each other."""

    duration_ms: int = Field(ge=0, le=DURATION_MAX_MS, description="0: they join sample for sample.")
    curve: CrossfadeCurve
    on_skip: bool = Field(description="Whether a skip fades, too.")


class Overlay(WireModel):
    """GET /v0/players/{id}/overlays/{overlayId}: a sound over whatever plays."""

    overlay_id: TrackId
    uri: str = Field(description="The URI as given.")
    state: OverlayState = Field(description="`loading` until its first frame is sent.")
    position: Milliseconds
    length: Milliseconds = Field(description="Of the whole file, in ms; 0 when unknown or endless.")
    volume: float = Field(ge=0, le=OVERLAY_VOLUME_MAX, description="Linear: 1 changes nothing.")
    duck_db: float = Field(ge=DUCK_MIN_DB, le=0, description="By how much the music is lowered meanwhile.")
    fade_ms: int = Field(ge=0, le=FADE_MAX_MS, description="In which time the music goes down and up again.")
    start_ms: Milliseconds
    end_ms: int = Field(0, gt=0, description="Where it ends in its file, in ms; else with it.")


class OverlayCreated(WireModel):
    """201 of POST /v0/players/{id}/overlays."""

    overlay_id: TrackId


class OverlaysCreated(WireModel):
    """201 of POST /v0/players/{id}/overlays with several sounds."""

    overlay_ids: list[TrackId] = Field(min_length=1)


class ListenersClosed(WireModel):
    """How many listeners the node closed, by why it did."""

    too_slow: Count = Field(description="They read nothing for ten seconds.")
    failed: Count = Field(description="Their connections failed in an unforeseen way, which the log has.")


class PlayerQuality(WireModel):
    """How well a player has been doing since it was created."""

    frames_sent: Count = Field(description="Frames of 20 ms, whether anybody listened or not.")
    frames_lost_by_listeners: Count = Field(
        description="Frames for which listeners were too slow, of all of them together."
    )
    times_run_dry: Count = Field(description="How often there was nothing to send in mid-track.")
    late_plans: Count = Field(description="Changes that took effect later than they were meant to.")
    late_frames: Count = Field(description="Frames that were left out because the node was over 200 ms late.")
    decoder_process: int | None = Field(gt=0, description="The id of the process that decodes for the player.")
    listeners_closed: ListenersClosed
    waiting_for_room_ms: Milliseconds | None = Field(
        description="For how long the player has been waiting, since the node has more to do than it can."
    )


Life: TypeAlias = Annotated[
    str,
    Field(min_length=1, description="A random name: another one means another player, whose events begin again at 1."),
]


class ListenersByFormat(WireModel):
    """How many listeners get the audio in which form: a WAV stream is PCM, an Ogg stream is Opus."""

    pcm: Count = Field(description="Listeners of `/ws` and of WAV streams.")
    opus: Count = Field(description="Listeners of `/ws?format=opus` and of Ogg streams.")
    mp3: Count = Field(description="Listeners of MP3 streams.")
    voice: Count = Field(description="Voice channels that the player is in.")


class AudioChoice(WireModel):
    """Which of several sounds in a source plays."""

    number: int = Field(ge=1, description="Counted from 1, as in `#audio=2`.")
    count: int = Field(ge=1, description="How many there are.")
    language: str = Field(description="As the source writes it; empty when it says none.")


class SourceForm(WireModel):
    """How the sound in a source is coded."""

    container: str = Field(description="As `ogg`, `mp4`, `wav`.")
    codec: str = Field(min_length=1, description="As `opus`, `aac`, `flac`.")
    sample_rate: Count = Field(description="In Hz.")
    channels: Count = Field(description="How many the source has.")
    bitrate: Count = Field(description="In bit/s; 0 when the source does not say it.")
    audio: AudioChoice | None = Field(description="null: there is only one sound in it.")


class VoiceEncryption(WireModel):
    """The end-to-end encryption of a voice channel (DAVE)."""

    version: Count = Field(description="0: the channel has none.")
    ready: bool = Field(description="Whether there is a group to encrypt for; before that no sound leaves.")
    epoch: Count | None = Field(description="Of the group: counts who comes and goes. null without one.")
    privacy_code: str | None = Field(
        description="What people see in their client under the lock; null without a group."
    )


class VoicePackets(WireModel):
    """What was sent to a voice channel."""

    sent: Count = Field(description="With sound.")
    silence: Count = Field(description="Of silence, five at each pause and end.")
    dropped: Count = Field(description="That were too old to be sent after a stall.")


class VoiceClose(WireModel):
    """Why a voice was given up."""

    code: int | None = Field(description="Discord's; null where the node or the bot ended it.")
    reason: str = Field(min_length=1, description="Discord's text, or the node's reason, such as `unreachable`.")
    by: ClosedBy = Field(description="Who ended it.")
    action: VoiceAction = Field(
        description="What the bot has to do. `wait`: PUT what the gateway says next. `rejoin`: send op 4 anew, and PUT "
        "what comes. `stop`: leave it, a person looks. `fix`: the node lacks something."
    )


VoiceId: TypeAlias = Annotated[str, Field(description="An id of Discord, decimal.")]


class Voice(WireModel):
    """A player's voice in a Discord channel."""

    state: VoicePhase = Field(description="`closed`: given up; only another PUT, or DELETE, changes it.")
    channel_id: VoiceId
    guild_id: VoiceId
    user_id: VoiceId
    endpoint: str | None = Field(description="The voice server; null when it is gone or not known any more.")
    ssrc: Count | None = Field(description="The number of the stream of packets; null before the server gave one.")
    mode: str | None = Field(description="How packets are encrypted on the way; null before that was chosen.")
    ping_ms: Milliseconds | None = Field(description="From a heartbeat to its answer; null before the first.")
    dave: VoiceEncryption
    packets: VoicePackets
    resumes: Count = Field(description="How often a lost connection was had again.")
    since: TimeOfDay = Field(description="When `state` changed last, in ms since 1970.")
    close: VoiceClose | None = Field(description="null unless `state` is `closed`.")


class NoVoice(WireModel):
    """The player is in no channel."""

    state: Literal["none"]


class PlayerStateFields(Filters, PartFields):
    """A player's whole state, but for its id."""

    track: TrackOut = Field(
        description="The selected track, also of an idle or failed player; one of empty texts before the first track."
    )
    track_id: TrackId = Field(description="Empty before the first track.")
    source: SourceForm | None = Field(description="Of the selected track; null before it was opened.")
    state: PlayerState
    error: PlayFailure | None = Field(description="The last failure, until something plays.")
    paused: Paused
    position: Milliseconds
    position_rate: PositionRate
    loop: LoopMode
    crossfade: Crossfade
    overlays: list[Overlay]
    queue_length: Count = Field(description="How many tracks wait.")
    metadata: AnyJson
    listeners: Listeners
    listeners_by_format: ListenersByFormat
    voice: Voice | None = Field(description="In a Discord channel; null without one.")
    seq: Count = Field(description="The number of the player's last event.")
    life: Life
    quality: PlayerQuality


class Player(PlayerStateFields):
    """GET /v0/players/{id}, and an entry of GET /v0/players."""

    id: PlayerId
    node: str | None = Field(default=None, description="In a cluster: the node that has the player.")


# The node


class UnderrunsByCause(WireModel):
    """`clock`: frames were left out because the node was late, counted for each player."""

    source: Count = Field(description="The source was: too little of it came in time.")
    decoder: Count = Field(description="Decoding was too slow.")
    clock: Count = Field(description="Frames were left out because the node was late.")


class FramesMade(WireModel):
    """Frames by how decoder processes made them; passed ones are the packets of the source itself."""

    pcm: Count = Field(description="As PCM.")
    opus: Count = Field(description="Encoded as Opus.")
    opus_passed: Count = Field(alias="opus_passed", description="Opus packets of the source itself.")
    mp3: Count = Field(description="In frames of MP3, of 24 ms.")


class DecoderWork(WireModel):
    """What all decoder processes did."""

    worked_seconds: float = Field(ge=0, description="For how long, of all processes together.")
    made_seconds: float = Field(ge=0, description="Of sound, of all players together.")
    sessions_failed: Count = Field(description="How often decoding failed for a player.")
    frames: FramesMade


class SandboxLevels(WireModel):
    """How processes are confined, as `seccomp + landlock 7`."""

    decoders: str = Field("", min_length=1, description="Of the processes that decode.")
    resolvers: str = Field("", min_length=1, description="Only with a resolver.")


class ResolverWork(WireModel):
    """Pages that are resolved now, and that wait for a place."""

    working: Count = Field(description="That are resolved now.")
    waiting: Count = Field(description="That wait for a place.")


class StateWork(WireModel):
    """The file of the state. `unsavedAnswers`: changes that were answered before they were in it."""

    degraded: bool = Field(description="Whether it cannot be written, or it, or a record in it, was damaged.")
    writes: Count = Field(description="How often it was written.")
    write_seconds: float = Field(ge=0, description="How long that took, of all together.")
    unsaved_answers: Count = Field(description="Changes that were answered before they were in it.")


class Process(WireModel):
    """One process of the node."""

    kind: Literal["node", "decoder", "other"] = Field(
        description="`other`: a template, a resolver, or one that reads tags."
    )
    pid: int = Field(gt=0, description="Its id on its machine.")
    cpu_seconds: float = Field(ge=0, description="How much processor time it has used.")
    memory_bytes: Count = Field(description="Resident; what several processes share counts in each of them.")
    sessions: Count = Field(description="Players that it decodes for.")
    slot: int = Field(gt=0, description="Its number among those of its kind. One that ended leaves it to the next.")


class VoiceProcess(WireModel):
    """A process that encrypts and sends."""

    pid: int = Field(gt=0, description="Its id on its machine.")
    connections: Count = Field(description="Voices that it sends for.")
    cpu_seconds: float = Field(ge=0, description="How much processor time it has used.")
    memory_bytes: Count = Field(description="Resident; what several processes share counts in each of them.")


class VoiceWork(WireModel):
    """The node's voices in Discord channels."""

    connections: dict[str, Count] = Field(description="By their state, each from 0 on.")
    packets: VoicePackets
    packets_late: dict[str, Count] = Field(description="By how late they were at least: over5ms, over20ms, over100ms.")
    resumes: Count = Field(description="Lost control connections that were had again in the same session.")
    reconnects: Count = Field(description="New sessions with the same values.")
    closes: dict[str, Count] = Field(description="Voices that were given up, by Discord's code or the node's reason.")
    handshake_ms: float | None = Field(description="Of the newest one, until it could send; null before the first.")
    longest_mls_ms: float = Field(ge=0, description="The longest step of an encrypted call's key agreement.")
    process_restarts: Count = Field(description="Processes that ended and were replaced.")
    processes: list[VoiceProcess]


class Stats(WireModel):
    """GET /v0/stats. Counts are since the node was started."""

    version: NodeRelease
    uptime: Milliseconds
    suspended_ms: Milliseconds = Field(description="For how long the machine slept, which is no part of the uptime.")
    players: dict[str, Count] = Field(description="By state.")
    players_asleep: Count = Field(description="Those that go on by the clock, without a decoder.")
    players_waiting: Count = Field(description="Those that wait for room in a decoder process.")
    overload_ms: Milliseconds = Field(
        description="For how long the node has had more to do than it can; 0 while it has not, and in its first 3 s."
    )
    players_created: Count = Field(description="All that there ever were.")
    listeners: ListenersByFormat
    frames_sent: Count = Field(description="Frames of 20 ms, of all players, whether anybody listened or not.")
    frames_lost_by_listeners: Count = Field(description="Frames for which listeners were too slow.")
    frames_left_out: Count = Field(description="Frames that the node was over 200 ms late for.")
    frames_late: dict[str, Count] = Field(description="By how late they were at least: over5ms, over20ms, over100ms.")
    late_plans: Count = Field(description="Changes that took effect later than they were meant to.")
    listeners_closed: ListenersClosed
    times_run_dry: UnderrunsByCause
    track_failures: dict[str, Count] = Field(description="By the code of the failure, each from 0 on.")
    fetches: dict[str, Count] = Field(
        description="Sources that were opened to be played: `opened`, or the code of the failure, each from 0 on."
    )
    decoder_exits: Count = Field(description="Processes that ended by themselves or were killed.")
    decoder_work: DecoderWork
    sandbox: SandboxLevels
    resolver: ResolverWork = ABSENT
    state: StateWork = ABSENT
    voice: VoiceWork = ABSENT
    processes: list[Process]


class LibraryEntry(WireModel):
    """A file or folder of the library. With `details=true` an audio file that can be opened has `title`, `author` and
    `length`."""

    name: str = Field(min_length=1, description="Without the folders around it.")
    path: str = Field(description="`/`, the number of a library folder, and names; by it a folder is listed.")
    uri: SourceText = Field(description="What a player takes; of a folder it is a playlist of the files in it.")
    kind: Literal["folder", "audio", "playlist"] = Field(description="By the name's ending.")
    bytes: Count = Field(description="How large the file is; 0 for a folder.")
    modified_at: TimeOfDay = Field(description="When it was last changed.")
    title: str = Field("", description="From tags, else made of the name.")
    author: str = Field("", description="From tags; empty when it is not known.")
    length: Milliseconds = Field(0, description="In ms; 0 when it is not known.")


class LibraryFiles(WireModel):
    """GET /v0/files."""

    path: str = Field(description="What is listed; `/` is the library as a whole.")
    parent: str | None = Field(description="The path of the folder around it; null for the library as a whole.")
    total: Count = Field(description="How many entries there are without `offset` and `limit`.")
    takes_files: bool = Field(description="Whether files can be sent: `library.uploads` names a folder.")
    entries: list[LibraryEntry] = Field(description="Folders first, each in natural order.")


class SentFile(WireModel):
    """POST /v0/files."""

    name: str = Field(min_length=1, description="Under which it was written.")
    uri: SourceText = Field(description="What a player takes.")
    bytes: Count = Field(description="How large it is.")
    title: Title
    author: Author
    length: Milliseconds


class NodeStatus(WireModel):
    """GET /healthz and /readyz."""

    status: Literal["ok", "ready", "degraded"] = Field(
        description="`ok`: the process answers; `ready`: it plays; `degraded`: it plays without something."
    )
    reason: str = Field("", min_length=1, description="What a degraded node does without; absent otherwise.")


class NodeInfo(WireModel):
    """GET /info."""

    version: NodeRelease
    build_time: TimeOfDay


class NodeIndex(WireModel):
    """GET /, for a program."""

    version: NodeRelease
    documents: list[str] = Field(min_length=1, description="Files of the node's repository.")
    paths: list[str] = Field(min_length=1, description="Each with its method, such as `GET /info`.")


class NodeVersion(WireModel):
    """GET /version, for a client that prefers JSON to plain text."""

    version: NodeRelease


class SentSound(WireModel):
    """POST /v0/sounds."""

    uri: str = Field(pattern="^sound:[0-9a-f]{32}$", description="What plays it, wherever a URI can stand.")
    length: Milliseconds = Field(description="0 where it is not known.")
    bytes: Count = Field(description="How many came.")
    expires_at: TimeOfDay = Field(description="When it ends, if nobody uses it before.")


class Resolved(WireModel):
    """GET /v0/resolve, for a client that prefers JSON to plain text."""

    url: str = Field(description="The link behind the page.")


class Error(WireModel):
    """The body of every 4xx and 5xx."""

    timestamp: TimeOfDay
    status: int = Field(ge=400, le=599, description="The status of the answer.")
    error: str = Field(description="The status in words.")
    code: ErrorCode = Field(description="What programs decide by; it is never renamed.")
    message: str = Field(min_length=1, description="What was wrong and what to do, for people.")
    path: str = Field(description="As it was sent, without the query.")
    request_id: str = Field(min_length=1, description="By which the request is found in the node's log.")


class ClusterNode(WireModel):
    """A node of the cluster, as the one that is asked sees it."""

    name: str = Field(description="As `cluster.node` has it.")
    address: str = Field(description="Where the other nodes reach it.")
    version: str = Field(description="The node's.")
    players: int = Field(ge=0, description="How many it has.")
    load: float = Field(ge=0, description="The share of the last 10 s in which it was late; 1 when it is overloaded.")
    draining: bool = Field(description="Whether its players are moved to others.")
    alive: bool = Field(description="Whether its lease has not ended.")
    lease_age_ms: int = Field(ge=0, description="Since its last sign of life.")
    reaches_engine: bool | None = Field(default=None, description="Of the node that is asked only.")
    engine_latency_ms: float | None = Field(default=None, description="Of its last call; of the node that is asked.")


class ClusterNodes(WireModel):
    """GET /v0/nodes"""

    nodes: list[ClusterNode]

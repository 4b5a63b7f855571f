"""The models of the bodies in responses."""

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
    """The facts about a track's source. Before it is opened, `length` is 0 and both booleans are false."""

    identifier: str = Field(description="The URI as given.")
    is_seekable: bool = Field(description="Whether clients can seek in the track.")
    author: str = Field(description="The author; empty when unknown.")
    length: Milliseconds = Field(description="The length in ms; 0 when unknown or endless.")
    is_stream: bool = Field(description="Whether the source is live, without an end.")
    position: Milliseconds
    title: Title
    uri: str = Field(description="The URI that is opened.")
    artwork_url: ArtworkUrl | None
    isrc: Isrc | None
    source_name: str = Field(
        description="`http`, `file` or `direct`; in a decoded track also another node's name for the source."
    )


class Mirror(WireModel):
    """The recording that plays for a track of a service whose own audio cannot be played."""

    uri: str = Field(min_length=1, description="The page of the recording.")
    title: str = Field(description="The title on that page.")
    author: str = Field(description="The author on that page.")
    length: Milliseconds = Field(description="The length on that page, in ms; 0 when unknown.")
    by: Literal["isrc", "words"] = Field(
        description="How the recording was found: by its ISRC, or by artist and title (`words`)."
    )


class PluginInfo(WireModel):
    """Usually empty. Has `mirror` for a track that does not play from its own link."""

    mirror: Mirror | None = Field(
        None, description="The recording that plays instead, once it is chosen; absent for other tracks."
    )


class TrackOut(WireModel):
    """A track, in the form that all endpoints use."""

    encoded: str = Field(description="The encoded track: an identifier that contains the track's info, in base64.")
    info: TrackInfo
    plugin_info: PluginInfo
    user_data: AnyJson = Field(description="The track's metadata; the player's metadata when the track has none ({}).")


class PartFields(WireModel):
    """The part of the file that is the track. Without these fields the track is the whole file. Positions and lengths
    are those of the file."""

    start_ms: int = Field(0, ge=0, description="The start of the part in the file, in ms; absent for a whole file.")
    end_ms: int = Field(0, gt=0, description="The end of the part in the file, in ms; absent: the file's end.")


class ListedTrack(TrackOut, PartFields):
    """A track of a list."""


class QueuedTrack(WireModel):
    """An entry of GET /v0/players/{id}/queue."""

    id: TrackId
    uri: str = Field(description="The URI as given.")
    metadata: AnyJson


class QueuedTrackDetails(QueuedTrack):
    """An entry of GET /v0/players/{id}/queue?details=true. Unknown values are absent."""

    title: Title
    author: Author = Field("", min_length=1)
    length: int = Field(
        0, gt=0, description="The length of the whole file, in ms; before that is known, the length in a playlist."
    )
    artwork_url: ArtworkUrl = ""
    start_ms: Milliseconds = Field(description="The track's start in its file, in ms.")
    end_ms: int = Field(0, gt=0, description="The track's end in its file, in ms; absent: the file's end.")


class PlayedTrack(QueuedTrack, PartFields):
    """An entry of GET /v0/players/{id}/history. The newest entry is the first."""

    ended_at: TimeOfDay
    reason: EndReason


_WARNINGS: Final = (
    "Sentences about tracks that cannot play because they are links to pages; absent when there are none."
)


class LeftOut(WireModel):
    """The entries of a playlist that were left out."""

    count: int = Field(ge=1, description="The number of these entries.")
    reasons: list[str] = Field(min_length=1, description="The reasons, as sentences for people, without repetitions.")


class TrackQueued(WireModel):
    """201 of POST /v0/players/{id}/queue and PUT /v0/players/{id}/track.

    `trackIds` is present for a list of tracks, and for a playlist with several tracks or with entries that were left
    out.
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

    tracks: list[ListedTrack] = Field(
        description="The tracks; of a search, the best match first. None of them was opened."
    )
    left_out: LeftOut = ABSENT


class LoadedPlaylist(FoundTracks):
    """GET /v0/loadplaylist."""

    name: str = Field(description="The playlist's own name; empty when it has none.")
    selected: int = Field(ge=-1, description="The index of the track that the identifier itself names; -1: no track.")


class PlayFailure(WireModel):
    """Why a track cannot be played."""

    code: FailureCode
    stage: Stage
    message: str = Field(min_length=1, description="What happened, as text for people.")
    hint: str = Field(min_length=1, description="What to do about it, as text for people.")
    http_status: int = Field(
        0,
        ge=0,
        le=HTTP_STATUS_MAX,
        description="The status of the server's response, if it was the reason; otherwise absent.",
    )


class NothingLoaded(WireModel):
    """GET /v0/loadtracks for a source that cannot be played. `error` is present with `explain=true`."""

    load_type: Literal["empty"]
    data: NoData
    error: PlayFailure = ABSENT


LoadResult: TypeAlias = Annotated[LoadedTrack | NothingLoaded, Field(discriminator="load_type")]


class ListInfo(WireModel):
    """Name and selected track of a list, in Lavalink's form."""

    name: str = Field(description="The list's own name; empty when it has none.")
    selected_track: int = Field(ge=-1, description="The index of the track that the text itself names; -1: no track.")


class AboutList(WireModel):
    """More facts about a list."""

    url: str = Field(description="The URI that was opened.")
    artwork_url: ArtworkUrl | None = Field(description="A link to the list's picture; null when none is known.")
    author: str = Field(description="The list's author; empty when unknown.")
    total_tracks: Count = Field(description="The list's own number of tracks; at least the number of tracks here.")


class ListedTracks(WireModel):
    """The tracks of a list. None of them was opened."""

    info: ListInfo
    plugin_info: AboutList
    tracks: list[ListedTrack] = Field(description="The tracks in the list's order, at most 500.")


class FoundList(WireModel):
    """A playlist, an album, a folder, or a page that lists others."""

    load_type: Literal["playlist"]
    data: ListedTracks
    left_out: LeftOut = ABSENT


class FoundBySearch(WireModel):
    """The results of a search, the best match first. None of them was opened."""

    load_type: Literal["search"]
    data: list[ListedTrack] = Field(min_length=1, description="The tracks, at most `limit`.")


class LoadFailure(PlayFailure):
    """Why nothing could be loaded: a failure of this node, with the fields of Lavalink's exception."""

    severity: Literal["common", "suspicious", "fault"] = Field(
        description="`common`: can be expected. `suspicious`: caused from outside. `fault`: an error of the node."
    )
    cause: str = Field(min_length=1, description="The code and stage of the failure.")


class LoadError(WireModel):
    """The text names something that cannot be loaded."""

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
    frequency_hz: int = Field(alias="frequency_hz", gt=0, description="The band's centre frequency in Hz.")
    gain_db: float = Field(alias="gain_db", ge=GAIN_MIN_DB, le=GAIN_MAX_DB, description="The band's gain in dB.")


class Filters(EffectFields):
    """GET /v0/players/{id}/filters. An effect that is off is null."""

    volume: float = Field(ge=0, le=VOLUME_MAX, description="A linear gain, after the equalizer; 1 changes nothing.")
    eq: list[Band] = Field(min_length=BAND_COUNT, max_length=BAND_COUNT)


class Crossfade(WireModel):
    """The settings of crossfades between a player's tracks."""

    duration_ms: int = Field(
        ge=0, le=DURATION_MAX_MS, description="The length of a crossfade, in ms; 0: tracks follow without a gap."
    )
    curve: CrossfadeCurve
    on_skip: bool = Field(description="Whether skips crossfade as well.")


class Overlay(WireModel):
    """GET /v0/players/{id}/overlays/{overlayId}: a sound over the music."""

    overlay_id: TrackId
    uri: str = Field(description="The URI as given.")
    state: OverlayState = Field(description="`loading` until the overlay's first frame is sent.")
    position: Milliseconds
    length: Milliseconds = Field(description="The length of the whole file, in ms; 0 when unknown or endless.")
    volume: float = Field(ge=0, le=OVERLAY_VOLUME_MAX, description="A linear gain; 1 changes nothing.")
    duck_db: float = Field(ge=DUCK_MIN_DB, le=0, description="The gain of the music under the overlay, in dB.")
    fade_ms: int = Field(
        ge=0, le=FADE_MAX_MS, description="The time for lowering the music, and for raising it again, in ms."
    )
    start_ms: Milliseconds = Field(description="The overlay's start in its file, in ms.")
    end_ms: int = Field(0, gt=0, description="The overlay's end in its file, in ms; absent: the file's end.")


class OverlayCreated(WireModel):
    """201 of POST /v0/players/{id}/overlays."""

    overlay_id: TrackId


class OverlaysCreated(WireModel):
    """201 of POST /v0/players/{id}/overlays with several sounds."""

    overlay_ids: list[TrackId] = Field(min_length=1)


class ListenersClosed(WireModel):
    """The number of listeners that the node closed, by reason."""

    too_slow: Count = Field(description="Listeners that read nothing for ten seconds.")
    failed: Count = Field(description="Listeners whose connection failed in an unforeseen way; the log has the error.")


class PlayerQuality(WireModel):
    """The dropouts and delays of a player since it was created."""

    frames_sent: Count = Field(description="Frames of 20 ms that the player sent, with or without listeners.")
    frames_lost_by_listeners: Count = Field(
        description="Frames that listeners lost because they were too slow, summed over all listeners."
    )
    times_run_dry: Count = Field(
        description="Dropouts: how often the player had no frame to send in mid-track, although the node was in time."
    )
    late_plans: Count = Field(description="Changes that took effect later than planned.")
    late_frames: Count = Field(description="Frames that were not sent because the node was late.")
    decoder_process: int | None = Field(
        gt=0, description="The id of the process that decodes for the player; null without one."
    )
    listeners_closed: ListenersClosed
    waiting_for_room_ms: Milliseconds | None = Field(
        description="How long the player has waited because the node is overloaded, in ms; null when it does not "
        "wait, or is paused."
    )


Life: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        description="The random name of a player's life. In another life, events are numbered from 1 again.",
    ),
]


class ListenersByFormat(WireModel):
    """The number of listeners by format. A WAV stream counts as PCM, an Ogg stream as Opus."""

    pcm: Count = Field(description="Listeners of `/ws` and of WAV streams.")
    opus: Count = Field(description="Listeners of `/ws?format=opus` and of Ogg streams.")
    mp3: Count = Field(description="Listeners of MP3 streams.")
    voice: Count = Field(description="Voice channels that the player is in.")


class AudioChoice(WireModel):
    """The audio stream that plays, of several in a source."""

    number: int = Field(ge=1, description="The number of the audio stream, from 1, as in `#audio=2`.")
    count: int = Field(ge=1, description="The number of audio streams in the source.")
    language: str = Field(description="The language as the source writes it; empty when the source names none.")


class SourceForm(WireModel):
    """The format of the audio in a source."""

    container: str = Field(description="The container, such as `ogg`, `mp4`, `wav`.")
    codec: str = Field(min_length=1, description="The codec, such as `opus`, `aac`, `flac`.")
    sample_rate: Count = Field(description="The sample rate in Hz.")
    channels: Count = Field(description="The number of channels in the source.")
    bitrate: Count = Field(description="The bitrate in bit/s; 0 when unknown.")
    audio: AudioChoice | None = Field(
        description="The audio stream that plays, of several; null when the source has only one."
    )


class VoiceEncryption(WireModel):
    """The end-to-end encryption of the voice channel (DAVE)."""

    version: Count = Field(description="The version of DAVE; 0: the channel is not encrypted end to end.")
    ready: bool = Field(description="Whether there is a group to encrypt for. Before that, the node sends no audio.")
    epoch: Count | None = Field(
        description="The group's epoch, which grows when members come or go; null without a group."
    )
    privacy_code: str | None = Field(
        description="The code that people see in their client under the lock; null without a group."
    )


class VoicePackets(WireModel):
    """The number of packets for voice channels."""

    sent: Count = Field(description="Audio packets that were sent.")
    silence: Count = Field(description="Packets of silence that were sent, five at each pause and end.")
    dropped: Count = Field(description="Packets that were not sent because they were too old after a stall.")


class VoiceClose(WireModel):
    """Why the node gave up a voice connection."""

    code: int | None = Field(description="Discord's close code; null when the node or the bot ended the connection.")
    reason: str = Field(min_length=1, description="Discord's text, or the node's reason, such as `unreachable`.")
    by: ClosedBy = Field(description="Which side ended the connection.")
    action: VoiceAction = Field(
        description="What the bot has to do. `wait`: PUT the next values from the gateway. `rejoin`: send op 4 again, "
        "and PUT the new values. `stop`: not retry; a person has to look at it. `fix`: the node lacks something."
    )


VoiceId: TypeAlias = Annotated[str, Field(description="A Discord id, as a decimal number.")]


class Voice(WireModel):
    """A player's voice connection to a Discord channel."""

    state: VoicePhase = Field(description="The state of the connection. Only another PUT, or DELETE, changes `closed`.")
    channel_id: VoiceId
    guild_id: VoiceId
    user_id: VoiceId
    endpoint: str | None = Field(description="The voice server; null when it has gone away or is no longer known.")
    ssrc: Count | None = Field(description="The SSRC of the RTP stream; null before the server gives it.")
    mode: str | None = Field(description="The encryption of packets between node and server; null before it is chosen.")
    ping_ms: Milliseconds | None = Field(
        description="The time from a heartbeat to its answer, in ms; null before the first."
    )
    dave: VoiceEncryption
    packets: VoicePackets
    resumes: Count = Field(description="How often a lost connection was resumed.")
    since: TimeOfDay = Field(description="The time of the last change of `state`, in ms since 1970.")
    close: VoiceClose | None = Field(description="Why the node gave up; null unless `state` is `closed`.")


class NoVoice(WireModel):
    """The state of a player without a voice connection."""

    state: Literal["none"]


class PlayerStateFields(Filters, PartFields):
    """A player's whole state without its id."""

    track: TrackOut = Field(
        description="The selected track, also in an idle or failed player. Before the first track its texts are empty."
    )
    track_id: TrackId = Field(description="The id of the selected track; empty before the first track.")
    source: SourceForm | None = Field(
        description="The format of the selected track's source; null before the source is opened."
    )
    state: PlayerState
    error: PlayFailure | None = Field(description="The last failure; null once a track plays.")
    paused: Paused
    position: Milliseconds
    position_rate: PositionRate
    loop: LoopMode
    crossfade: Crossfade
    overlays: list[Overlay]
    queue_length: Count = Field(description="The number of tracks in the queue.")
    metadata: AnyJson
    listeners: Listeners
    listeners_by_format: ListenersByFormat
    voice: Voice | None = Field(description="The player's voice connection to a Discord channel; null without one.")
    seq: Count = Field(description="The number of the player's last event.")
    life: Life
    quality: PlayerQuality


class Player(PlayerStateFields):
    """GET /v0/players/{id}, and an entry of GET /v0/players."""

    id: PlayerId
    node: str | None = Field(default=None, description="In a cluster: the name of the player's node.")


# The node


class UnderrunsByCause(WireModel):
    """Dropouts of players in mid-track, by cause."""

    source: Count = Field(description="Dropouts because the source was too slow.")
    decoder: Count = Field(description="Dropouts because decoding was too slow.")
    clock: Count = Field(description="Dropouts because the node was late, counted for each player.")


class FramesMade(WireModel):
    """The number of frames that decoder processes made, by kind."""

    pcm: Count = Field(description="Frames of PCM.")
    opus: Count = Field(description="Frames that were encoded as Opus.")
    opus_passed: Count = Field(
        alias="opus_passed", description="Opus packets of the source that were passed on unchanged."
    )
    mp3: Count = Field(description="Frames of MP3, of 24 ms.")


class DecoderWork(WireModel):
    """The work of all decoder processes."""

    worked_seconds: float = Field(ge=0, description="The time that they worked, in s, summed over all processes.")
    made_seconds: float = Field(
        ge=0, description="The duration of the audio that they made, in s, summed over all players."
    )
    sessions_failed: Count = Field(description="How often decoding failed for a player.")
    frames: FramesMade


class SandboxLevels(WireModel):
    """How processes are confined, such as `seccomp + landlock 7`."""

    decoders: str = Field("", min_length=1, description="How the processes that decode are confined.")
    resolvers: str = Field(
        "", min_length=1, description="How the processes of the resolver are confined; absent without a resolver."
    )


class ResolverWork(WireModel):
    """The work of the resolver."""

    working: Count = Field(description="Pages that are resolved now.")
    waiting: Count = Field(description="Pages that wait for a place.")


class StateWork(WireModel):
    """The work on the state file."""

    degraded: bool = Field(description="Whether the file cannot be written, or the file or a record in it was damaged.")
    writes: Count = Field(description="How often the file was written.")
    write_seconds: float = Field(ge=0, description="The time of all writes together, in s.")
    unsaved_answers: Count = Field(description="Changes that were confirmed before the file had them.")


class Process(WireModel):
    """One process of the node."""

    kind: Literal["node", "decoder", "other"] = Field(
        description="The kind of process. `other`: a template, a resolver, a voice process, or a process that loads "
        "tracks."
    )
    pid: int = Field(gt=0, description="The id of the process on its machine.")
    cpu_seconds: float = Field(ge=0, description="The CPU time of the process, in s.")
    memory_bytes: Count = Field(
        description="The resident memory. Memory that several processes share counts in each of them."
    )
    sessions: Count = Field(description="The number of players that the process decodes for.")
    slot: int = Field(
        gt=0,
        description="The number of the process among those of its kind. A new process takes the slot of a process that "
        "has ended.",
    )


class VoiceProcess(WireModel):
    """A process that encrypts and sends the packets of voice connections."""

    pid: int = Field(gt=0, description="The id of the process on its machine.")
    connections: Count = Field(description="The number of voice connections that the process sends for.")
    cpu_seconds: float = Field(ge=0, description="The CPU time of the process, in s.")
    memory_bytes: Count = Field(
        description="The resident memory. Memory that several processes share counts in each of them."
    )


class VoiceWork(WireModel):
    """The node's voice connections to Discord channels."""

    connections: dict[str, Count] = Field(
        description="The number of voice connections by state, including states with 0."
    )
    packets: VoicePackets
    packets_late: dict[str, Count] = Field(
        description="Packets that were sent late, by limit: over5ms, over20ms, over100ms. Each counts at every limit "
        "that it passed."
    )
    resumes: Count = Field(description="Lost control connections that were resumed in the same session.")
    reconnects: Count = Field(description="New sessions with the same values.")
    closes: dict[str, Count] = Field(
        description="Voice connections that the node gave up, by Discord's code or the node's reason."
    )
    handshake_ms: float | None = Field(
        description="How long the newest voice connection took until it could send, in ms; null before the first one."
    )
    longest_mls_ms: float = Field(
        ge=0, description="The longest step of the key agreement of an encrypted call, in ms."
    )
    process_restarts: Count = Field(description="Voice processes that ended and were replaced.")
    processes: list[VoiceProcess]


class Stats(WireModel):
    """GET /v0/stats. Counts are since the node was started."""

    version: NodeRelease
    uptime: Milliseconds = Field(description="The time since the node was started, in ms.")
    suspended_ms: Milliseconds = Field(description="How long the machine slept, in ms; not included in the uptime.")
    players: dict[str, Count] = Field(description="The number of players by state.")
    players_asleep: Count = Field(
        description="Players that continue without a decoder, because they have no listeners."
    )
    players_waiting: Count = Field(description="Players that wait for room in a decoder process.")
    overload_ms: Milliseconds = Field(
        description="How long the node has been overloaded, in ms; 0 while it is not, and in the first 3 s of an "
        "overload."
    )
    players_created: Count = Field(description="All players that were created.")
    listeners: ListenersByFormat
    frames_sent: Count = Field(description="Frames of 20 ms that all players sent, with or without listeners.")
    frames_lost_by_listeners: Count = Field(description="Frames that listeners lost because they were too slow.")
    frames_left_out: Count = Field(description="Frames that were not sent because the node was late.")
    frames_late: dict[str, Count] = Field(
        description="Frames that were sent late, by limit: over5ms, over20ms, over100ms. Each counts at every limit "
        "that it passed."
    )
    late_plans: Count = Field(description="Changes that took effect later than planned.")
    listeners_closed: ListenersClosed
    times_run_dry: UnderrunsByCause
    track_failures: dict[str, Count] = Field(
        description="Tracks that failed, by the code of the failure, including codes with 0."
    )
    fetches: dict[str, Count] = Field(
        description="Sources that were opened to be played, by outcome: `opened`, or the code of the failure."
    )
    decoder_exits: Count = Field(description="Decoder processes that ended unexpectedly or were killed.")
    decoder_work: DecoderWork
    sandbox: SandboxLevels
    resolver: ResolverWork = ABSENT
    state: StateWork = ABSENT
    voice: VoiceWork = ABSENT
    processes: list[Process]


class LibraryEntry(WireModel):
    """A file or folder of the library. With `details=true` an audio file that can be opened has `title`, `author` and
    `length`."""

    name: str = Field(min_length=1, description="The name without the path.")
    path: str = Field(
        description="The path in the library: `/`, the number of a library folder, and names. GET /v0/files takes the "
        "path of a folder."
    )
    uri: SourceText = Field(description="The URI for a player. The URI of a folder is a playlist of the files in it.")
    kind: Literal["folder", "audio", "playlist"] = Field(description="The kind of entry, by the name's ending.")
    bytes: Count = Field(description="The size of the file in bytes; 0 for a folder.")
    modified_at: TimeOfDay = Field(description="The time of the last change, in ms since 1970.")
    title: str = Field("", description="The title from tags, or one made from the name.")
    author: str = Field("", description="The author from tags; empty when unknown.")
    length: Milliseconds = Field(0, description="The length in ms; 0 when unknown.")


class LibraryFiles(WireModel):
    """GET /v0/files."""

    path: str = Field(description="The path of the listed folder; `/` is the whole library.")
    parent: str | None = Field(description="The path of the parent folder; null for the whole library.")
    total: Count = Field(description="The number of entries without `offset` and `limit`.")
    takes_files: bool = Field(description="Whether clients can send files, because `library.uploads` names a folder.")
    entries: list[LibraryEntry] = Field(description="Folders first, then files, each in natural order.")


class SentFile(WireModel):
    """POST /v0/files."""

    name: str = Field(min_length=1, description="The name of the written file.")
    uri: SourceText = Field(description="The URI for a player.")
    bytes: Count = Field(description="The size of the file in bytes.")
    title: Title
    author: Author
    length: Milliseconds = Field(description="The length in ms; 0 when unknown.")


class NodeStatus(WireModel):
    """GET /healthz and /readyz."""

    status: Literal["ok", "ready", "degraded"] = Field(
        description="`ok`: the process answers. `ready`: the node can play. `degraded`: the node plays, but something "
        "else does not work."
    )
    reason: str = Field("", min_length=1, description="What does not work in a degraded node; otherwise absent.")


class NodeInfo(WireModel):
    """GET /info."""

    version: NodeRelease
    build_time: TimeOfDay


class NodeIndex(WireModel):
    """GET /, as JSON."""

    version: NodeRelease
    documents: list[str] = Field(min_length=1, description="The documents, as files of the node's repository.")
    paths: list[str] = Field(min_length=1, description="All paths, each with its method, such as `GET /info`.")


class NodeVersion(WireModel):
    """GET /version, for a client that prefers JSON to plain text."""

    version: NodeRelease


class SentSound(WireModel):
    """POST /v0/sounds."""

    uri: str = Field(
        pattern="^sound:[0-9a-f]{32}$", description="The URI of the sound. It can be used wherever a URI is allowed."
    )
    length: Milliseconds = Field(description="The length in ms; 0 when unknown.")
    bytes: Count = Field(description="The size of the sound in bytes.")
    expires_at: TimeOfDay = Field(
        description="The time at which the node deletes the sound if it is not used before, in ms since 1970."
    )


class Resolved(WireModel):
    """GET /v0/resolve, for a client that prefers JSON to plain text."""

    url: str = Field(description="The link behind the page.")


class Error(WireModel):
    """The body of every 4xx and 5xx."""

    timestamp: TimeOfDay
    status: int = Field(ge=400, le=599, description="The HTTP status of the response.")
    error: str = Field(description="The status in words.")
    code: ErrorCode = Field(description="The stable code of the error, for programs.")
    message: str = Field(min_length=1, description="What is wrong and what to do, as text for people.")
    path: str = Field(description="The path of the request as it was sent, without the query.")
    request_id: str = Field(min_length=1, description="The id of the request in the node's log.")


class ClusterNode(WireModel):
    """A node of the cluster, as the asked node sees it."""

    name: str = Field(description="The node's name, from its `cluster.node`.")
    address: str = Field(description="The address at which the other nodes reach the node.")
    version: str = Field(description="The node's version.")
    players: int = Field(ge=0, description="The number of players of the node.")
    load: float = Field(
        ge=0,
        description="The share of the last 10 s in which the node was late, 0 to 1; 1 while it takes no new players.",
    )
    draining: bool = Field(
        description="Whether the node drains: it gets no new players, and its own players move away."
    )
    alive: bool = Field(description="Whether the node's lease is valid.")
    lease_age_ms: int = Field(ge=0, description="The time since the node's last sign of life, in ms.")
    reaches_engine: bool | None = Field(
        default=None,
        description="Whether the node reaches the cluster's engine; only for the node that gets the request.",
    )
    engine_latency_ms: float | None = Field(
        default=None,
        description="The latency of the node's last call to the engine, in ms; only for the node that gets the "
        "request.",
    )


class ClusterNodes(WireModel):
    """GET /v0/nodes."""

    nodes: list[ClusterNode]

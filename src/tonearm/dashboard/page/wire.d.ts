// What a node answers and tells. `python -m tools.page_types` made it of its models, which /docs
// of a node describes.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface AudioChoice {
  number: number;
  count: number;
  language: string;
}

export interface Band {
  band: number;
  frequency_hz: number;
  gain_db: number;
}

export interface ChannelMix {
  leftToLeft?: number;
  leftToRight?: number;
  rightToLeft?: number;
  rightToRight?: number;
}

export interface ClusterNode {
  name: string;
  address: string;
  version: string;
  players: number;
  load: number;
  draining: boolean;
  alive: boolean;
  leaseAgeMs: number;
  reachesEngine?: boolean | null;
  engineLatencyMs?: number | null;
}

export interface ClusterNodes {
  nodes: Array<ClusterNode>;
}

export interface Compressor {
  thresholdDb?: number;
  ratio?: number;
  attackMs?: number;
  releaseMs?: number;
  makeupDb?: number;
}

export interface Crossfade {
  durationMs: number;
  curve: "equalPower" | "linear";
  onSkip: boolean;
}

export interface CrossfadeChange {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "CrossfadeChange";
  crossfade: Crossfade;
}

export interface DecoderWork {
  workedSeconds: number;
  madeSeconds: number;
  sessionsFailed: number;
  frames: FramesMade;
}

export interface Distortion {
  sinOffset?: number;
  sinScale?: number;
  cosOffset?: number;
  cosScale?: number;
  tanOffset?: number;
  tanScale?: number;
  offset?: number;
  scale?: number;
}

export interface Echo {
  delayMs?: number;
  decay?: number;
  mix?: number;
}

export interface Error {
  timestamp: number;
  status: number;
  error: string;
  code: "bad_request" | "not_ready" | "unauthorized" | "foreign_origin" | "source_blocked" | "source_refused" | "not_found" | "player_not_found" | "track_not_found" | "method_not_allowed" | "player_exists" | "no_artwork" | "file_not_found" | "not_seekable" | "no_previous" | "overlay_not_found" | "body_too_large" | "uploads_off" | "disk_full" | "limit_reached" | "resolver_disabled" | "resolve_failed" | "load_failed" | "invalid_identifier" | "upgrade_required" | "engine_lost" | "node_unreachable" | "node_not_found" | "voice_disabled" | "voice_taken" | "endpoint_blocked" | "internal";
  message: string;
  path: string;
  requestId: string;
}

export interface EventsLost {
  op: "EventsLost";
  time: number;
  lost: true;
}

export interface Filters {
  timescale?: Timescale | null;
  karaoke?: Karaoke | null;
  lowPass?: LowPass | null;
  highPass?: HighPass | null;
  channelMix?: ChannelMix | null;
  tremolo?: Tremolo | null;
  vibrato?: Vibrato | null;
  rotation?: Rotation | null;
  distortion?: Distortion | null;
  echo?: Echo | null;
  compressor?: Compressor | null;
  normalization?: Normalization | null;
  limiter?: Limiter | null;
  volume: number;
  eq: Array<Band>;
}

export interface FiltersChange {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "FiltersChange";
  filters: Filters;
}

export interface FoundTracks {
  tracks: Array<ListedTrack>;
  leftOut?: LeftOut;
}

export interface FramesMade {
  pcm: number;
  opus: number;
  opus_passed: number;
  mp3: number;
}

export interface HighPass {
  frequencyHz?: number;
}

export interface Karaoke {
  level?: number;
  monoLevel?: number;
  filterBand?: number;
  filterWidth?: number;
}

export interface LeftOut {
  count: number;
  reasons: Array<string>;
}

export interface LibraryEntry {
  name: string;
  path: string;
  uri: string;
  kind: "folder" | "audio" | "playlist";
  bytes: number;
  modifiedAt: number;
  title?: string;
  author?: string;
  length?: number;
}

export interface LibraryFiles {
  path: string;
  parent: string | null;
  total: number;
  takesFiles: boolean;
  entries: Array<LibraryEntry>;
}

export interface Limiter {
  ceilingDb?: number;
  enabled?: "auto" | boolean;
}

export interface ListedTrack {
  startMs?: number;
  endMs?: number;
  encoded: string;
  info: TrackInfo;
  pluginInfo: PluginInfo;
  userData: Json;
}

export interface ListenersByFormat {
  pcm: number;
  opus: number;
  mp3: number;
  voice: number;
}

export interface ListenersChange {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "ListenersChange";
  listeners: number;
}

export interface ListenersClosed {
  tooSlow: number;
  failed: number;
}

export interface LoadedTrack {
  loadType: "track";
  data: TrackOut;
}

export interface LoopModeChange {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "LoopModeChange";
  mode: "none" | "track" | "queue";
}

export interface LowPass {
  smoothing?: number;
  frequencyHz?: number;
}

export interface MetadataChange {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "MetadataChange";
  metadata: Json;
}

export interface Mirror {
  uri: string;
  title: string;
  author: string;
  length: number;
  by: "isrc" | "words";
}

export interface NoData {
}

export interface Normalization {
  targetLufs?: number;
  mode?: "track" | "off";
}

export interface NothingLoaded {
  loadType: "empty";
  data: NoData;
  error?: PlayFailure;
}

export interface Overlay {
  overlayId: string;
  uri: string;
  state: "loading" | "playing";
  position: number;
  length: number;
  volume: number;
  duckDb: number;
  fadeMs: number;
  startMs: number;
  endMs?: number;
}

export interface OverlayCreated {
  overlayId: string;
}

export interface OverlayEnd {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "OverlayEnd";
  overlayId: string;
  reason: "finished" | "stopped" | "loadFailed";
}

export interface OverlayException {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "OverlayException";
  overlayId: string;
  error: PlayFailure;
}

export interface OverlayStart {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "OverlayStart";
  overlayId: string;
}

export interface PlayFailure {
  code: "file_missing" | "file_unreadable" | "source_blocked" | "source_refused" | "name_not_found" | "connect_failed" | "timeout" | "tls" | "http_status" | "too_many_redirects" | "connection_lost" | "empty" | "not_audio" | "no_audio_stream" | "unsupported_codec" | "limit_exceeded" | "corrupt" | "decoder_died" | "quarantined" | "resolve_failed" | "no_match" | "internal";
  stage: "resolve" | "connect" | "read" | "decode" | "filter";
  message: string;
  hint: string;
  httpStatus?: number;
}

export interface PlayedTrack {
  startMs?: number;
  endMs?: number;
  id: string;
  uri: string;
  metadata: Json;
  endedAt: number;
  reason: "finished" | "skipped" | "loadFailed" | "stopped" | "replaced";
}

export interface Player {
  startMs?: number;
  endMs?: number;
  timescale?: Timescale | null;
  karaoke?: Karaoke | null;
  lowPass?: LowPass | null;
  highPass?: HighPass | null;
  channelMix?: ChannelMix | null;
  tremolo?: Tremolo | null;
  vibrato?: Vibrato | null;
  rotation?: Rotation | null;
  distortion?: Distortion | null;
  echo?: Echo | null;
  compressor?: Compressor | null;
  normalization?: Normalization | null;
  limiter?: Limiter | null;
  volume: number;
  eq: Array<Band>;
  track: TrackOut;
  trackId: string;
  source: SourceForm | null;
  state: "loading" | "playing" | "idle" | "failed";
  error: PlayFailure | null;
  paused: boolean;
  position: number;
  positionRate: number;
  loop: "none" | "track" | "queue";
  crossfade: Crossfade;
  overlays: Array<Overlay>;
  queueLength: number;
  metadata: Json;
  listeners: number;
  listenersByFormat: ListenersByFormat;
  voice: Voice | null;
  seq: number;
  life: string;
  quality: PlayerQuality;
  id: string;
  node?: string | null;
}

export interface PlayerCreate {
  op: "PlayerCreate";
  id: string;
  time: number;
  life: string;
}

export interface PlayerCreated {
  id: string;
  leftOut?: LeftOut;
  warnings?: Array<string>;
}

export interface PlayerDelete {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "PlayerDelete";
  reason?: "expired" | null;
}

export interface PlayerMoved {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "PlayerMoved";
  from: string;
  to: string;
}

export interface PlayerPause {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "PlayerPause";
  position: number;
}

export interface PlayerQuality {
  framesSent: number;
  framesLostByListeners: number;
  timesRunDry: number;
  latePlans: number;
  lateFrames: number;
  decoderProcess: number | null;
  listenersClosed: ListenersClosed;
  waitingForRoomMs: number | null;
}

export interface PlayerResume {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "PlayerResume";
  position: number;
}

export interface PlayerState {
  startMs?: number;
  endMs?: number;
  timescale?: Timescale | null;
  karaoke?: Karaoke | null;
  lowPass?: LowPass | null;
  highPass?: HighPass | null;
  channelMix?: ChannelMix | null;
  tremolo?: Tremolo | null;
  vibrato?: Vibrato | null;
  rotation?: Rotation | null;
  distortion?: Distortion | null;
  echo?: Echo | null;
  compressor?: Compressor | null;
  normalization?: Normalization | null;
  limiter?: Limiter | null;
  volume: number;
  eq: Array<Band>;
  track: TrackOut;
  trackId: string;
  source: SourceForm | null;
  state: "loading" | "playing" | "idle" | "failed";
  error: PlayFailure | null;
  paused: boolean;
  position: number;
  positionRate: number;
  loop: "none" | "track" | "queue";
  crossfade: Crossfade;
  overlays: Array<Overlay>;
  queueLength: number;
  metadata: Json;
  listeners: number;
  listenersByFormat: ListenersByFormat;
  voice: Voice | null;
  seq: number;
  life: string;
  quality: PlayerQuality;
  op: "PlayerState";
  id: string;
  time: number;
  lost?: true;
}

export interface PlayerUpdate {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "PlayerUpdate";
  state: "loading" | "playing" | "idle" | "failed";
  paused: boolean;
  position: number;
  positionRate: number;
}

export interface PluginInfo {
  mirror?: Mirror | null;
}

export interface Process {
  kind: "node" | "decoder" | "other";
  pid: number;
  cpuSeconds: number;
  memoryBytes: number;
  sessions: number;
  slot: number;
}

export interface PublicState {
  id: string;
  state: "loading" | "playing" | "idle" | "failed";
  paused: boolean;
  title: string;
  author: string;
  position: number;
  positionRate: number;
  length: number;
  artwork: boolean;
}

export interface QueueDetails {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "QueueDetails";
  trackIds: Array<string>;
}

export interface QueueUpdate {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "QueueUpdate";
  length: number;
  version: number;
}

export interface QueuedTrackDetails {
  id: string;
  uri: string;
  metadata: Json;
  title: string;
  author?: string;
  length?: number;
  artworkUrl?: string;
  startMs: number;
  endMs?: number;
}

export interface ResolverWork {
  working: number;
  waiting: number;
}

export interface Rotation {
  rotationHz?: number;
}

export interface SandboxLevels {
  decoders?: string;
  resolvers?: string;
}

export interface Seek {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "Seek";
  from: number;
  position: number;
  trackId: string;
}

export interface SeekFailed {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "SeekFailed";
  code: string;
  position: number;
  trackId: string;
}

export interface SentFile {
  name: string;
  uri: string;
  bytes: number;
  title: string;
  author: string;
  length: number;
}

export interface SourceForm {
  container: string;
  codec: string;
  sampleRate: number;
  channels: number;
  bitrate: number;
  audio: AudioChoice | null;
}

export interface StateWork {
  degraded: boolean;
  writes: number;
  writeSeconds: number;
  unsavedAnswers: number;
}

export interface Stats {
  version: string;
  uptime: number;
  suspendedMs: number;
  players: Record<string, number>;
  playersAsleep: number;
  playersWaiting: number;
  overloadMs: number;
  playersCreated: number;
  listeners: ListenersByFormat;
  framesSent: number;
  framesLostByListeners: number;
  framesLeftOut: number;
  framesLate: Record<string, number>;
  latePlans: number;
  listenersClosed: ListenersClosed;
  timesRunDry: UnderrunsByCause;
  trackFailures: Record<string, number>;
  fetches: Record<string, number>;
  decoderExits: number;
  decoderWork: DecoderWork;
  sandbox: SandboxLevels;
  resolver?: ResolverWork;
  state?: StateWork;
  voice?: VoiceWork;
  processes: Array<Process>;
}

export interface StreamTitle {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "StreamTitle";
  title: string;
  trackId: string;
}

export interface Timescale {
  speed?: number;
  pitch?: number;
  rate?: number;
}

export interface TrackEnd {
  id: string;
  seq: number;
  time: number;
  life: string;
  track: TrackOut;
  trackId: string;
  position: number;
  op: "TrackEnd";
  reason: "finished" | "skipped" | "loadFailed" | "stopped" | "replaced";
  playedMs: number;
}

export interface TrackException {
  id: string;
  seq: number;
  time: number;
  life: string;
  track: TrackOut;
  trackId: string;
  position: number;
  op: "TrackException";
  error: PlayFailure;
}

export interface TrackInfo {
  identifier: string;
  isSeekable: boolean;
  author: string;
  length: number;
  isStream: boolean;
  position: number;
  title: string;
  uri: string;
  artworkUrl: string | null;
  isrc: string | null;
  sourceName: string;
}

export interface TrackOut {
  encoded: string;
  info: TrackInfo;
  pluginInfo: PluginInfo;
  userData: Json;
}

export interface TrackQueued {
  trackId: string;
  trackIds?: Array<string>;
  leftOut?: LeftOut;
  warnings?: Array<string>;
}

export interface TrackStart {
  startMs?: number;
  endMs?: number;
  id: string;
  seq: number;
  time: number;
  life: string;
  track: TrackOut;
  trackId: string;
  position: number;
  op: "TrackStart";
  uri: string;
}

export interface TrackStuck {
  id: string;
  seq: number;
  time: number;
  life: string;
  track: TrackOut;
  trackId: string;
  position: number;
  op: "TrackStuck";
  thresholdMs: number;
  cause: string;
}

export interface Tremolo {
  frequency?: number;
  depth?: number;
}

export interface UnderrunsByCause {
  source: number;
  decoder: number;
  clock: number;
}

export interface Vibrato {
  frequency?: number;
  depth?: number;
}

export interface Voice {
  state: "none" | "connecting" | "connected" | "resuming" | "closed";
  channelId: string;
  guildId: string;
  userId: string;
  endpoint: string | null;
  ssrc: number | null;
  mode: string | null;
  pingMs: number | null;
  dave: VoiceEncryption;
  packets: VoicePackets;
  resumes: number;
  since: number;
  close: VoiceClose | null;
}

export interface VoiceClose {
  code: number | null;
  reason: string;
  by: "server" | "node" | "bot";
  action: "wait" | "rejoin" | "stop" | "fix";
}

export interface VoiceEncryption {
  version: number;
  ready: boolean;
  epoch: number | null;
  privacyCode: string | null;
}

export interface VoicePackets {
  sent: number;
  silence: number;
  dropped: number;
}

export interface VoiceProcess {
  pid: number;
  connections: number;
  cpuSeconds: number;
  memoryBytes: number;
}

export interface VoiceState {
  id: string;
  seq: number;
  time: number;
  life: string;
  op: "VoiceState";
  voice: Voice | null;
}

export interface VoiceWork {
  connections: Record<string, number>;
  packets: VoicePackets;
  packetsLate: Record<string, number>;
  resumes: number;
  reconnects: number;
  closes: Record<string, number>;
  handshakeMs: number | null;
  longestMlsMs: number;
  processRestarts: number;
  processes: Array<VoiceProcess>;
}

export type LoadResult =
  | LoadedTrack
  | NothingLoaded;

export type PlayerEvent =
  | CrossfadeChange
  | EventsLost
  | FiltersChange
  | ListenersChange
  | LoopModeChange
  | MetadataChange
  | OverlayEnd
  | OverlayException
  | OverlayStart
  | PlayerCreate
  | PlayerDelete
  | PlayerMoved
  | PlayerPause
  | PlayerResume
  | PlayerState
  | PlayerUpdate
  | QueueDetails
  | QueueUpdate
  | Seek
  | SeekFailed
  | StreamTitle
  | TrackEnd
  | TrackException
  | TrackStart
  | TrackStuck
  | VoiceState;

"""The messages between the node and a decoder process, with the type, length and range of each value. `message_coding`
has their bytes on the wire, and checks received messages against the declarations here.

The node orders. The decoder renders and reports. Both use one stream socket. The descriptor of a file travels beside
the first byte of its `OpenSource` message.

Frames are numbered for the life of a session. Each plan begins a new epoch at a frame that was not sent yet. From that
frame on, frames of older epochs are void.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from msgspec import Meta, Struct, structs

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import VOLUME_MAX, Filters
from tonearm.core.frame import FRAME_SAMPLES, MOST_ENCODERS, MOST_OPUS_PACKET_BYTES, PCM_ONLY, Output, Outputs
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.sandbox.report import SandboxReport

DATA_CHUNK_BYTES: Final = 64 * 1024
# How far the decoder may render ahead of the sent frames. Fewer frames mean more messages and wake-ups. A change does
# not wait for these frames, because the decoder renders them again.
GRANT_FRAMES: Final = 40
# The same after a plan, until the next grant, and with a crossfade: the next source has to be decoded before its first
# frame is rendered.
SHORT_GRANT_FRAMES: Final = 20
# The same while packets are only passed through. These frames take next to no work, so little is lost when a change
# voids them.
PASSED_GRANT_FRAMES: Final = 120
BURST_FRAMES: Final = 120  # how many sent frames are kept for a `Burst`: the usual burst of a stream
# Sources from this number on are overlays. The node does not plan them before their `FirstAudio`.
FIRST_OVERLAY_SOURCE: Final = 1 << 31
SHARED_SOURCE: Final = 1  # the number of the only source in the session of a shared live stream

# The process notes in shared memory what it works on, so that a crash has a suspect. Each slot has two numbers. The
# first is `session << 32 | source`, or 0. The second is a number of bytes: if END_MEMORY counts at least as many at the
# end of the process, this source has used them up. The first slot is for decoding, the next two are for opening, and
# the fourth is for decoding by the rendering thread itself. The last slot has the session that the rendering thread
# works on, with the source that sounds in it, or 0.
SUSPECT_NOTE: Final = struct.Struct("<QQ")
SUSPECT_SLOTS: Final = 5
RENDER_SLOT: Final = 3
SESSION_SLOT: Final = 4
# After the slots, a process whose memory is (nearly) used up writes the text of /proc/self/statm (proc(5)), in pages.
END_MEMORY: Final = slice(SUSPECT_SLOTS * SUSPECT_NOTE.size, SUSPECT_SLOTS * SUSPECT_NOTE.size + 128)
SUSPECT_BYTES: Final = END_MEMORY.stop
EXIT_MEMORY_LIMIT: Final = 77  # the status of a process that ended because its memory was used up
EXIT_NO_SANDBOX: Final = 78  # the status of a process that must be confined and cannot be; its `Ready` has the reason

# Packets between the node and the template, from which decoder processes are forked, on a socket of their own. An order
# is a number, with the decoder's socket and its shared memory as descriptors. The answer is the order's number, and the
# id of the new process or the negative number of the kernel's error.
FORK_ORDER: Final = struct.Struct("<I")
FORK_ANSWER: Final = struct.Struct("<Ii")

MAX_TEXT_CHARACTERS: Final = 1000
MAX_COUNT: Final = 2**63 - 1
MOST_MARKS: Final = 200  # in one `Audio`
MOST_OVERLAYS: Final = 100  # in one message; a player has 8 at most

Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]  # of a session, a source, an epoch
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]  # frames, samples or bytes
Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=1e9)]
Lag: TypeAlias = Annotated[int, Meta(ge=0, lt=FRAME_SAMPLES)]
Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT_CHARACTERS)]
Packet: TypeAlias = Annotated[bytes, Meta(max_length=MOST_OPUS_PACKET_BYTES)]
Mp3Frame: TypeAlias = Annotated[bytes, Meta(max_length=1441)]  # at 320 kbit/s and 32 kHz, the longest of layer III
Bulk: TypeAlias = Annotated[bytes, Meta(max_length=0)]  # empty in the message's body, and sent after it

if TYPE_CHECKING:
    Pcm: TypeAlias = bytes | memoryview
else:
    Pcm = Bulk


class _Message(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message; msgspec makes it in C, faster than a tuple or a dataclass."""


class OpenSession(_Message, frozen=True):
    """Node: begin a player's session with frame `first_frame` of `epoch`.

    `mp3_from`: MP3 begins with this frame, even if the frame was sent: the process that rendered it died before the
    frame was encoded. None: MP3 begins with the frame that is sent next.
    `lag_samples`: the frames before come from another session, whose Opus packets have this lag (see `Audio`).
    `is_heard`: False until the player's first listener has come. Meanwhile the session is rendered when there is
    nothing else to do.
    `claim`: in an overload of the process, sessions with a lower claim go first.
    `plays_on`: the node still has frames of another process, so the player has not stopped.
    """

    session: Number
    epoch: Number
    first_frame: Count
    filters: Filters
    mp3_from: Count | None = None
    lag_samples: Lag | None = None
    is_heard: bool = True
    claim: Count = 0
    plays_on: bool = False


class Heard(_Message, frozen=True):
    """Node: a session that nobody heard, because it had no listener or was paused, is heard now, with this `claim`."""

    session: Number
    claim: Count


class CloseSession(_Message, frozen=True):
    """Node: end a session and drop its sources."""

    session: Number


class Want(IntEnum):
    """What a source is opened for."""

    SOUND = 0
    FACTS = 1  # for its facts only: nothing is decoded
    PICTURE = 2  # for the picture inside the file


@dataclass(frozen=True, slots=True)
class BeginAt:
    """Where to begin in a source whose container is not seekable. A demuxer that reads from the byte `offset` on finds
    the sound from about `sample` on."""

    offset: Count
    sample: Count


class OpenSource(_Message, frozen=True):
    """Node: open this source and decode ahead, from `start_sample` (at 48 kHz) on and up to `end_sample`.

    A source in which `start_sample` cannot be reached is decoded from its start, with a `SeekRefused`. With `resumes`
    the track was played up to `start_sample` before, so a source that is not seekable is decoded from its start to
    there again. A live source begins at its present position. With `resumes` its first sample is numbered
    `start_sample`; otherwise a `start_sample` is refused, and the first sample is 0.
    With `has_descriptor` the file's descriptor comes with the message. Otherwise the decoder sends `ReadRequest`s.
    With `begin` the source is read from there on, and decoded up to `start_sample`. `audio` names one of several
    sounds, by its number from 1 or by its language. Empty: the decoder chooses.
    When `want` is PICTURE, the answer is `FoundPicture` instead of `Opened`.
    `measured` is the loudness of an earlier source of the same track. `album` is the album that is being played, whose
    gain counts instead of the track's.
    A live source that `is_shared` is the only source of a session without listeners, with the number `SHARED_SOURCE`. A
    source that `joins` this session, in the same process, gets the decoded audio from it and needs no bytes.
    """

    session: Number
    source: Number
    name: Text
    size_bytes: Count | None
    is_seekable: bool
    is_live: bool
    content_type: Text | None
    start_sample: Count
    has_descriptor: bool
    want: Want = Want.SOUND
    end_sample: Count | None = None
    resumes: bool = False
    measured: MeasuredLoudness | None = None
    album: Text | None = None
    is_shared: bool = False
    joins: Number | None = None
    begin: BeginAt | None = None
    audio: Text = ""

    def from_start(self) -> "OpenSource":
        return structs.replace(self, start_sample=0)


class SeekSource(_Message, frozen=True):
    """Node: the open source goes on as `new_source`, from `start_sample` (at 48 kHz) on, and `source` is dropped.

    Samples that are decoded already are not decoded again. Read requests, `Data`, `DataFailed` and `TitleAt` keep the
    number with which the source was opened. All other messages have the new number, and earlier reports are sent again
    with it. With `begin` the source is read from there on.
    """

    session: Number
    source: Number
    new_source: Number
    start_sample: Count
    begin: BeginAt | None = None


class DropSource(_Message, frozen=True):
    """Node: stop decoding a source. Its samples are kept as long as a frame may need them."""

    session: Number
    source: Number


class Data(_Message, frozen=True):
    """Node: the answer to a `ReadRequest`: bytes from `offset` on; empty at the end of the source."""

    session: Number
    source: Number
    offset: Count
    data: Bulk


class DataFailed(_Message, frozen=True):
    """Node: the requested bytes from `offset` on could not be read."""

    session: Number
    source: Number
    offset: Count
    failure: PlayFailure


class TitleAt(_Message, frozen=True):
    """Node: the audio from this byte offset of a live source on has this title. The bytes come afterwards."""

    session: Number
    source: Number
    offset: Count
    title: Text


@dataclass(frozen=True, slots=True)
class CrossfadeOrder:
    """The next source begins at `at_sample` of the current source, which then fades out within `samples`.

    `curve` is `equalPower` or `linear`. When the next source has no samples at that moment, it joins at the end of the
    current source. `is_late`: the time of this crossfade has passed. Then the next source begins as soon as it has
    samples, at least a frame after the current source began, and the fade is shorter by the time since `at_sample`.
    """

    at_sample: Count
    samples: Count
    curve: Annotated[str, Meta(pattern="^(equalPower|linear)$")]
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class OverlayOrder:
    """A source that sounds over the music, at `volume`. Meanwhile `duck_db` changes the level of the music, which
    glides there and back within `fade_samples`.

    The overlay begins with the first plan that has it, and is cut off at `end_sample`. `has_begun`: the overlay has
    sounded in an earlier session, and goes on with the first sample of its source.
    """

    source: Number
    volume: Annotated[float, Meta(ge=0.0, le=VOLUME_MAX)]
    duck_db: Annotated[float, Meta(ge=-60.0, le=0.0)]
    fade_samples: Count
    end_sample: Count | None = None
    has_begun: bool = False


class Plan(_Message, frozen=True):
    """Node: begin `epoch` at `at_frame`, with these sources and filters.

    Before `at_frame` the node sends the frames of `base_epoch`. `switch_to` cuts to a source at `at_frame` (0: to
    silence; None: the current source continues), even where the frames just before it were never rendered. The source
    `following` joins at the end of the source `after`, or by `crossfade`. With `cut_fade` the earlier source fades out
    under the source of the cut, if that source has samples already. A mark FADING reports the fade. (`at_sample` of
    this crossfade has no meaning.) A cut `from_silence` follows a pause or an underrun: no sound before it could fade
    out. `outputs` is set in a plan for a new output: its frames are rendered for these outputs. `overlays` has all
    overlays that are to sound; others stop. With `pauses` the music stands still, and frames are rendered as long as
    overlays sound.
    """

    session: Number
    epoch: Number
    base_epoch: Number
    at_frame: Count
    switch_to: Number | None
    after: Number
    following: Number | None
    filters: Filters
    crossfade: CrossfadeOrder | None = None
    cut_fade: CrossfadeOrder | None = None
    outputs: Outputs | None = None
    overlays: Annotated[tuple[OverlayOrder, ...], Meta(max_length=MOST_OVERLAYS)] = ()
    pauses: bool = False
    from_silence: bool = False


class Grant(_Message, frozen=True):
    """Node: frames before `sent` were sent, frames before `granted` may be rendered, both of `epoch`.

    `outputs` are the forms of the listeners. Without any, frames are only counted: no filters run, and `Audio` has no
    sound. Frames before `due_before` are about to be sent. While overlays sound, these frames wait for nothing: they
    are rendered without the music, or without an overlay, if it has no samples. With `keeps_burst` a `Burst` of the
    frames that were sent last may come.
    """

    session: Number
    epoch: Number
    sent: Count
    granted: Count
    outputs: Outputs = PCM_ONLY
    due_before: Count = 0
    keeps_burst: bool = False


class Flush(_Message, frozen=True):
    """Node: fill the last frame with silence instead of waiting for the source that follows."""

    session: Number


class Burst(_Message, frozen=True):
    """Node: send an `Encoded` with the last `frames` frames before `before_frame`, or as many as are kept, in a form
    of Opus that had no listeners then."""

    session: Number
    output: Output
    before_frame: Count
    frames: Count


class Ping(_Message, frozen=True):
    """Node: answer with a `Pong` of the same number."""

    number: Count


FromNode: TypeAlias = (
    OpenSession
    | Heard
    | CloseSession
    | OpenSource
    | SeekSource
    | DropSource
    | Data
    | DataFailed
    | TitleAt
    | Plan
    | Grant
    | Flush
    | Burst
    | Ping
)


class MarkKind(IntEnum):
    """What happens to a source at a frame. Marks of one frame are in the order in which they happen."""

    BEGIN = 0  # the source's first sample is in this frame
    END = 1  # its last sample is before this frame, or in this frame if another source begins there
    INTERRUPTED = 2  # as END, but because the source failed; a `Failed` with the reason was sent before
    FADING = 3  # the next source begins in this frame, and the source goes on under it until FADED
    FADED = 4  # the source's last sample is before this frame, or in it


class Ready(_Message, frozen=True):
    """Decoder: the process has started, in this sandbox, and takes orders. `opus_problem`: why it encodes no Opus."""

    sandbox: SandboxReport
    opus_problem: Text = ""


class ReadRequest(_Message, frozen=True):
    """Decoder: send up to `length` bytes from `offset`."""

    session: Number
    source: Number
    offset: Count
    length: Annotated[int, Meta(ge=1, le=DATA_CHUNK_BYTES)]


class Opened(_Message, frozen=True):
    """Decoder: a source is open, and these are its facts."""

    session: Number
    source: Number
    facts: SourceFacts


class FoundPicture(_Message, frozen=True):
    """Decoder: the bytes of the picture in a source; empty when it has none."""

    session: Number
    source: Number
    data: Bulk


class SeekRefused(_Message, frozen=True):
    """Decoder: the wanted position in the source cannot be reached. The source goes on from its start or, when that
    cannot be reached either, from where it was."""

    session: Number
    source: Number
    failure: PlayFailure


class Failed(_Message, frozen=True):
    """Decoder: a source cannot be opened, or was interrupted after it had given audio (`gave_audio`)."""

    session: Number
    source: Number
    failure: PlayFailure
    gave_audio: bool


class SessionFailed(_Message, frozen=True):
    """Decoder: an error in the decoder's code has ended the session while `source` sounded in it (0: no source, or an
    unknown one). The session is closed, as if the node had closed it."""

    session: Number
    source: Number
    failure: PlayFailure


class NoRoom(_Message, frozen=True):
    """Decoder: there is no memory for this session. It is closed, as if the node had closed it, and may be opened in
    another process, or later."""

    session: Number


class Decoded(_Message, frozen=True):
    """Decoder: a source is decoded to its end. Its last samples may not be rendered yet."""

    session: Number
    source: Number


class FirstAudio(_Message, frozen=True):
    """Decoder: the first samples of an overlay are decoded."""

    session: Number
    source: Number


class Titled(_Message, frozen=True):
    """Decoder: the audio from this sample of a live source on has this title."""

    session: Number
    source: Number
    sample: Count
    title: Text


class Measured(_Message, frozen=True):
    """Decoder: a source without loudness tags has `lufs` in the `measured_ms` that were measured so far."""

    session: Number
    source: Number
    lufs: Annotated[float, Meta(ge=-1000.0, le=1000.0)]
    measured_ms: Count

    @property
    def loudness(self) -> MeasuredLoudness:
        return MeasuredLoudness(self.lufs, self.measured_ms)


@dataclass(frozen=True, slots=True)
class Mark:
    """A source begins or ends at a frame. `offset_samples`: where a source begins, the samples of `frame` before its
    first sample. Where a source ends and no other joins, the silence at the end of the frame before `frame`."""

    kind: MarkKind
    frame: Count
    source: Number
    offset_samples: Annotated[int, Meta(ge=0, le=FRAME_SAMPLES)] = 0


class OverlayPosition(NamedTuple):
    """Where an overlay is at the first sample of an `Audio`. `moves`: it sounds, and does not wait for samples.
    `ends`: its last sample is in the last frame of the `Audio`."""

    source: Number
    sample: Count
    moves: bool = True
    ends: bool = False


class Audio(_Message, frozen=True):
    """Decoder: `frames` rendered frames from `first_frame` on. The first sample is that of `source` at
    `position_samples` (at 48 kHz). For each sample that is heard, `position_rate` samples of the source pass. Source 0:
    the tail of a cut, while the new source has no samples yet. With the rate 0 the frames contain only overlays: the
    music stands still, or none has begun in this session (source 0). `overlays` has the overlays that have begun.

    `pcm` is empty when nobody listens to PCM. `packets` has one packet a frame for each output of packets. The packets
    of outputs that pass through sound `lag_samples` later than PCM, besides the encoder's delay. With `is_passed` they
    are the source's own.
    In a received message `pcm` is a view into the receive buffer of the socket: copy it before more is received.
    """

    session: Number
    epoch: Number
    first_frame: Count
    frames: Annotated[int, Meta(ge=0, le=PASSED_GRANT_FRAMES)]
    source: Number
    position_samples: Count
    marks: Annotated[tuple[Mark, ...], Meta(max_length=MOST_MARKS)]
    pcm: Pcm
    position_rate: Annotated[float, Meta(ge=0.0, le=4.0)] = 1.0
    packets: Annotated[tuple[tuple[Output, tuple[Packet, ...]], ...], Meta(max_length=MOST_ENCODERS)] = ()
    overlays: Annotated[tuple[OverlayPosition, ...], Meta(max_length=MOST_OVERLAYS)] = ()
    is_passed: bool = False
    lag_samples: Lag = 0


class Encoded(_Message, frozen=True):
    """Decoder: sent frames, from `first_frame` up to but without `end_frame`, as whole MP3 frames, none or more, or as
    Opus packets that answer a `Burst`. `begins`: an encoder began with these frames, the first of which were sent
    before its form had listeners.

    The state of an MP3 encoder cannot be copied, so no frame can be encoded twice. Therefore frames become MP3 only
    after they were sent, when no plan can void them.
    """

    session: Number
    first_frame: Count
    end_frame: Count
    output: Output
    mp3_frames: Annotated[tuple[Mp3Frame, ...], Meta(max_length=1000)]
    begins: bool = False


class Pong(_Message, frozen=True):
    """Decoder: the answer to a `Ping`. `busy_s`: for how long its longest piece of work under way has taken so far. The
    other fields are those of `core.admission.LoadReport`, where `worked_s` is named `busy_s`, for the `seconds` since
    the answer before."""

    number: Count
    busy_s: Seconds
    seconds: Seconds = 0.0
    worked_s: Seconds = 0.0
    sound_s: Seconds = 0.0
    made_s: Seconds = 0.0
    late_s: Seconds = 0.0
    memory: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0


FromDecoder: TypeAlias = (
    Ready
    | ReadRequest
    | Opened
    | SeekRefused
    | Failed
    | SessionFailed
    | NoRoom
    | Decoded
    | FirstAudio
    | FoundPicture
    | Titled
    | Measured
    | Audio
    | Encoded
    | Pong
)

"""The messages between the node and a decoder process, and what each of their values may be: types, lengths and ranges.
`message_coding` says how they look on the wire, and holds what is received against what stands here.

The node orders, the decoder renders and reports, both over one stream socket. The descriptor of a file travels beside
the first byte of its `OpenSource` message.

Frames are numbered for the life of a session. Each plan begins a new epoch at a frame that was not sent yet; frames of
older epochs from that frame on are void.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import VOLUME_MAX, Filters
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.outputs import MOST_ENCODERS, MOST_OPUS_PACKET_BYTES, PCM_ONLY, Output, Outputs
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.sandbox.report import SandboxReport

DATA_CHUNK_BYTES: Final = 64 * 1024
# How far the decoder may render ahead of the frames that were sent. Half of it costs 7 % more CPU a frame at 40
# players, for more messages and wake-ups. A change is heard as soon, because frames are rendered again for it.
GRANT_FRAMES: Final = 40
# The same behind a plan until a grant says more, and with a crossfade: the next source has to be there when the first
# frame with it is rendered.
SHORT_GRANT_FRAMES: Final = 20
# The same while packets of a source are only passed through: they take no work, so that nothing is lost when other
# frames are made for them, and each grant and each message has a price of its own.
PASSED_GRANT_FRAMES: Final = 120
RECALL_FRAMES: Final = 120  # that were sent and are kept for a `Recall`: the usual burst of a stream
# Sources from this number on are overlays. Nobody waits for frames of theirs: `FirstAudio` says that they can begin.
FIRST_OVERLAY_SOURCE: Final = 1 << 31
SHARED_SOURCE: Final = 1  # the only one of its session

# Shared memory in which the process writes down what it works on, so that a crash has a suspect. For each slot of its
# schedulers there is `session << 32 | source`, or 0, and of how much memory on (in bytes, as END_MEMORY counts it) that
# is what used the memory up. The first slot is for decoding, the next ones are for opening, then one for what the
# rendering thread decodes by itself. In the last slot stands the session whose step the rendering thread does, with the
# source that sounds in it, or 0.
SUSPECT_NOTE: Final = struct.Struct("<QQ")
SUSPECT_SLOTS: Final = 5
RENDER_SLOT: Final = 3
SESSION_SLOT: Final = 4
# Behind them a process whose memory is used up leaves what /proc/self/statm says (proc(5)), in pages.
END_MEMORY: Final = slice(SUSPECT_SLOTS * SUSPECT_NOTE.size, SUSPECT_SLOTS * SUSPECT_NOTE.size + 128)
SUSPECT_BYTES: Final = END_MEMORY.stop
EXIT_MEMORY_LIMIT: Final = 77  # the status of a process that ended because its memory was used up
EXIT_NO_SANDBOX: Final = 78  # of one that has to be confined and cannot be; why was in its `Ready`

# Between the node and the template, from which decoder processes are forked: packets on a socket of their own. An order
# is a number, with the decoder's socket and its shared memory as descriptors. The answer is that number and the new
# process's, or the kernel's error, negative.
FORK_ORDER: Final = struct.Struct("<I")
FORK_ANSWER: Final = struct.Struct("<Ii")

MAX_TEXT_CHARACTERS: Final = 1000
MAX_COUNT: Final = 2**63 - 1
MOST_MARKS: Final = 200  # in one `Audio`; some come with a change, and none without
MOST_OVERLAYS: Final = 100  # a player has 8 at most, and those that fade out

Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]  # of a session, a source, an epoch
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]  # frames, samples or bytes
Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=1e9)]
Lag: TypeAlias = Annotated[int, Meta(ge=0, lt=FRAME_SAMPLES)]
Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT_CHARACTERS)]
Packet: TypeAlias = Annotated[bytes, Meta(max_length=MOST_OPUS_PACKET_BYTES)]
Mp3Frame: TypeAlias = Annotated[bytes, Meta(max_length=1441)]  # at 320 kbit/s and 32 kHz, the longest of layer III
Bulk: TypeAlias = Annotated[bytes, Meta(max_length=0)]  # travels behind the body, in which it is empty

if TYPE_CHECKING:
    Pcm: TypeAlias = bytes | memoryview
else:
    Pcm = Bulk


class _Message(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Made in C: a tuple takes three times as long, and a frozen dataclass five times."""


class OpenSession(_Message, frozen=True):
    """Node: begin a player's session with frame `first_frame` of `epoch`.

    `mp3_from`: MP3 is made of the frames from this one on, whether they were sent already or not: the process that had
    rendered them died before it had encoded them. None where there was none; then it begins with what is sent next.
    `lag_samples`: the frames before came from another session, with this lag (see `Audio`) in the Opus packets.
    `is_heard`: somebody listens; otherwise frames are made for whoever may come, when there is nothing else to do.
    """

    session: Number
    epoch: Number
    first_frame: Count
    filters: Filters
    mp3_from: Count | None = None
    lag_samples: Lag | None = None
    is_heard: bool = True


class Heard(_Message, frozen=True):
    """Node: somebody listens by now to a session that was opened for nobody."""

    session: Number


class CloseSession(_Message, frozen=True):
    """Node: end a session and drop its sources."""

    session: Number


class Want(IntEnum):
    """What a source is opened for."""

    SOUND = 0
    FACTS = 1  # only those: nothing is decoded for listeners
    LENGTH = 2  # the same, and a local file whose length is not written in it is read to its end to count it
    PICTURE = 3  # the one inside the file


class OpenSource(_Message, frozen=True):
    """Node: open this source and decode ahead, from `start_sample` (at 48 kHz) on and up to `end_sample`.

    A live source is joined at its present position, and its first sample is numbered `start_sample`. A source in which
    `start_sample` cannot be reached is decoded from its start, with a `SeekRefused`. With `resumes` it was played up to
    there before: one that is not seekable is decoded up to there again.
    With `has_descriptor` the file's descriptor comes with the message; without it, the decoder sends `ReadRequest`s.
    `want` says what it is opened for; where that is the picture, the answer is `FoundPicture` instead of `Opened`.
    `measured` is what an earlier source of the same track was measured at; `album`
    is the one that is being played, whose tags count as a whole.
    A live source that `is_shared` is the only one of a session of its own, with the number `SHARED_SOURCE`, and nobody
    hears it there. A source that `joins` that session, in the same process, needs no bytes: it is the same stream.
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


class SeekSource(_Message, frozen=True):
    """Node: the open source goes on as `new_source`, from `start_sample` (at 48 kHz) on; `source` is dropped by it.

    What is decoded already is not decoded again. Read requests, `Data`, `DataFailed` and `TitleAt` keep the number with
    which the source was opened; all else has the new one, and what was reported before is reported again.
    """

    session: Number
    source: Number
    new_source: Number
    start_sample: Count


class DropSource(_Message, frozen=True):
    """Node: stop decoding a source. Its samples stay until no frame can need them any more."""

    session: Number
    source: Number


class Data(_Message, frozen=True):
    """Node: the answer to a `ReadRequest`: bytes from `offset` on; empty at the end of the source."""

    session: Number
    source: Number
    offset: Count
    data: Bulk


class DataFailed(_Message, frozen=True):
    """Node: the requested bytes from `offset` cannot be had."""

    session: Number
    source: Number
    offset: Count
    failure: PlayFailure


class TitleAt(_Message, frozen=True):
    """Node: the audio from this byte offset of a live source on has this title. Sent before the bytes."""

    session: Number
    source: Number
    offset: Count
    title: Text


@dataclass(frozen=True, slots=True)
class Crossfade:
    """The next source begins when `at_sample` of the current one is reached, which fades out within `samples` then.

    `curve` is `equalPower` or `linear`. A next source without samples at that moment joins at the end. `is_late`: the
    time of this crossfade has passed. The next source begins as soon as it has samples, a frame behind the current
    one's beginning at the earliest, and the fade is shorter by what has passed since `at_sample`.
    """

    at_sample: Count
    samples: Count
    curve: Annotated[str, Meta(pattern="^(equalPower|linear)$")]
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Overlay:
    """A source that sounds over the music, at `volume`; the music's level is changed by `duck_db` meanwhile, and
    glides there and back within `fade_samples`.

    It begins with the plan that has it for the first time. `end_sample` is where it is cut off. `has_begun`: it sounded
    in an earlier session, and goes on with the first sample of its source.
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
    `following` joins at the end of the source `after`, or by `crossfade`. With `cut_fade` the sound before fades out
    under the source cut to, if that one has samples already: its mark FADING says so. (Of this crossfade `at_sample`
    has no meaning.) A cut `from_silence` has no sound before it that could fade out: that ended with a pause, or for
    lack of audio. `outputs` is set in a plan that is there for the sake of a new output: its frames are rendered for
    these. `overlays` are all that sound; one that is missing stops. While it `holds` the music, that stands still, and
    frames are made as long as overlays sound.
    """

    session: Number
    epoch: Number
    base_epoch: Number
    at_frame: Count
    switch_to: Number | None
    after: Number
    following: Number | None
    filters: Filters
    crossfade: Crossfade | None = None
    cut_fade: Crossfade | None = None
    outputs: Outputs | None = None
    overlays: Annotated[tuple[Overlay, ...], Meta(max_length=MOST_OVERLAYS)] = ()
    holds: bool = False
    from_silence: bool = False


class Grant(_Message, frozen=True):
    """Node: frames before `sent` were sent, frames before `granted` may be rendered, both of `epoch`.

    `outputs` are the forms that somebody listens to. Without any, frames are only counted: no filters run, and `Audio`
    holds nothing. Frames before `due_before` are about to be sent: while overlays sound, these are made of what there
    is, without the music or an overlay that has no samples.
    """

    session: Number
    epoch: Number
    sent: Count
    granted: Count
    outputs: Outputs = PCM_ONLY
    due_before: Count = 0


class Flush(_Message, frozen=True):
    """Node: fill the last frame with silence instead of waiting for the source that follows."""

    session: Number


class Recall(_Message, frozen=True):
    """Node: say in an `Encoded` what the last `frames` frames before `before_frame` sounded like, or as many as are
    kept, in a form that nobody listened to then. MP3 begins with them; its listeners have got nothing yet."""

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
    | Recall
    | Ping
)


class MarkKind(IntEnum):
    """What happens to a source at a frame. Marks of one frame are in the order in which they happen."""

    BEGIN = 0  # its first sample is in this frame
    END = 1  # its last sample is before this frame, or in it if another source begins in this frame
    INTERRUPTED = 2  # as END, but because it failed; a `Failed` with the reason was sent before
    FADING = 3  # the next source begins in this frame, and this one goes on under it until FADED
    FADED = 4  # its last sample is before this frame, or in it


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
    """Decoder: the picture in a source, as it is there; empty when it has none."""

    session: Number
    source: Number
    data: Bulk


class SeekRefused(_Message, frozen=True):
    """Decoder: another position in the source cannot be reached. It goes on from its start, or from where it was when
    that cannot be reached either."""

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
    """Decoder: an error of the decoder's own has ended the session, while `source` sounded in it (0: none, or nobody
    knows). It is closed, as if the node had closed it; whatever was to be heard needs another session."""

    session: Number
    source: Number
    failure: PlayFailure


class NoRoom(_Message, frozen=True):
    """Decoder: there is no memory for the session beside the others. It is closed, as if the node had closed it, and
    may be opened where there is room, or later."""

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
    """Decoder: a source without loudness tags was measured so far, at `lufs` in `measured_ms`."""

    session: Number
    source: Number
    lufs: Annotated[float, Meta(ge=-1000.0, le=1000.0)]
    measured_ms: Count


@dataclass(frozen=True, slots=True)
class Mark:
    """A source begins or ends at a frame. `offset_samples`: the samples of the frame before the first of a source that
    begins in it, or the silence that fills the frame before it up where a source ends and nothing joins."""

    kind: MarkKind
    frame: Count
    source: Number
    offset_samples: Annotated[int, Meta(ge=0, le=FRAME_SAMPLES)] = 0


class OverlayPosition(NamedTuple):
    """Where an overlay is at the first sample of an `Audio`. `moves`: it sounds; otherwise it waits for samples.
    `ends`: its last sample is in the last frame."""

    source: Number
    sample: Count
    moves: bool = True
    ends: bool = False


class Audio(_Message, frozen=True):
    """Decoder: `frames` rendered frames from `first_frame` on. `source` and `position_samples` (at 48 kHz) are those of
    the first sample; `position_rate` is how many samples of a source pass in one that is heard. Source 0: the end of a
    sound that was cut off, while the new one has no samples yet. With the rate 0 there are only overlays in the frames:
    the music stands at its position, or there is none (source 0). `overlays` are those that have begun.

    `pcm` is empty when nobody listens to PCM; `packets` has one packet for each frame, for each output with packets.
    With `is_passed` the packets of outputs that pass through are those of the source. They sound `lag_samples` later
    than PCM, besides the encoder's delay.
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
    """Decoder: what the frames that were sent, `first_frame` to before `end_frame`, were encoded to: whole MP3 frames,
    none or more, or the packets of Opus that answer a `Recall`.

    MP3 is made only once, since the encoder's state cannot be copied, so it is made when nothing can void it any more.
    """

    session: Number
    first_frame: Count
    end_frame: Count
    output: Output
    mp3_frames: Annotated[tuple[Mp3Frame, ...], Meta(max_length=1000)]


class Pong(_Message, frozen=True):
    """Decoder: the answer to a `Ping`. `busy_s`: for how long the slot that is held longest has been held. The others
    say what it did in the `seconds` since the answer before, as `core.admission.Load` has it."""

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

"""The messages between the node and a decoder process. `message_coding` says how they look on the wire.

The node orders, the decoder renders and reports, both over one stream socket. The descriptor of a file travels beside
the first byte of its `OpenSource` message.

Frames are numbered for the life of a session. Each plan begins a new epoch at a frame that was not sent yet; frames of
older epochs from that frame on are void.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.outputs import PCM_ONLY, Output, Outputs
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
BODY_LIMIT_BYTES: Final = 16 * 1024 * 1024
# Sources from this number on are overlays. Nobody waits for frames of theirs: `FirstAudio` says that they can begin.
FIRST_OVERLAY_SOURCE: Final = 1 << 31

# Shared memory in which the process writes down what it works on, so that a crash has a suspect: 8 bytes for each slot
# of its schedulers, `session << 32 | source` or 0. The first slot is for decoding, the last one for what the rendering
# thread decodes by itself, the others are for opening.
SUSPECT_SLOTS: Final = 4
RENDER_SLOT: Final = SUSPECT_SLOTS - 1
EXIT_MEMORY_LIMIT: Final = 77  # the status of a process that ended because its memory was used up
EXIT_NO_SANDBOX: Final = 78  # of one that has to be confined and cannot be; why was in its `Ready`

# Between the node and the template, from which decoder processes are forked: packets on a socket of their own. An order
# is a number, with the decoder's socket and its shared memory as descriptors. The answer is that number and the new
# process's, or the kernel's error, negative.
FORK_ORDER: Final = struct.Struct("<I")
FORK_ANSWER: Final = struct.Struct("<Ii")


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Node: begin a player's session with frame `first_frame` of `epoch`.

    `mp3_from`: MP3 is made of the frames from this one on, whether they were sent already or not: the process that had
    rendered them died before it had encoded them. None where there was none; then it begins with what is sent next.
    `lag_samples`: the frames before came from another session, with this lag (see `Audio`) in the Opus packets.
    """

    session: int
    epoch: int
    first_frame: int
    filters: Filters
    mp3_from: int | None = None
    lag_samples: int | None = None


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Node: end a session and drop its sources."""

    session: int


@dataclass(frozen=True, slots=True)
class OpenSource:
    """Node: open this source and decode ahead, from `start_sample` (at 48 kHz) on and up to `end_sample`.

    A live source is joined at its present position, and its first sample is numbered `start_sample`. A source in which
    `start_sample` cannot be reached is decoded from its start, with a `SeekFailed`. With `resumes` it was played up to
    there before: one that is not seekable is decoded up to there again.
    With `has_descriptor` the file's descriptor comes with the message; without it, the decoder sends `ReadRequest`s.
    A probe is only opened, not decoded; one that `wants_picture` is answered with a `FoundPicture` instead of
    `Opened`. `measured` is what an earlier source of the same track was measured at; `album`
    is the one that is being played, whose tags count as a whole.
    """

    session: int
    source: int
    name: str
    size_bytes: int | None
    is_seekable: bool
    is_live: bool
    content_type: str | None
    start_sample: int
    has_descriptor: bool
    is_probe: bool = False
    end_sample: int | None = None
    resumes: bool = False
    measured: MeasuredLoudness | None = None
    album: str | None = None
    wants_picture: bool = False


@dataclass(frozen=True, slots=True)
class SeekSource:
    """Node: the open source goes on as `new_source`, from `start_sample` (at 48 kHz) on; `source` is dropped by it.

    What is decoded already is not decoded again. Read requests, `Data`, `DataFailed` and `TitleAt` keep the number with
    which the source was opened; all else has the new one, and what was reported before is reported again.
    """

    session: int
    source: int
    new_source: int
    start_sample: int


@dataclass(frozen=True, slots=True)
class DropSource:
    """Node: stop decoding a source. Its samples stay until no frame can need them any more."""

    session: int
    source: int


@dataclass(frozen=True, slots=True)
class Data:
    """Node: the answer to a `ReadRequest`: bytes from `offset` on; empty at the end of the source."""

    session: int
    source: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DataFailed:
    """Node: the requested bytes from `offset` cannot be had."""

    session: int
    source: int
    offset: int
    failure: PlayFailure


@dataclass(frozen=True, slots=True)
class TitleAt:
    """Node: the audio from this byte offset of a live source on has this title. Sent before the bytes."""

    session: int
    source: int
    offset: int
    title: str


@dataclass(frozen=True, slots=True)
class Crossfade:
    """The next source begins when `at_sample` of the current one is reached, which fades out within `samples` then.

    `curve` is `equalPower` or `linear`. When the next source has no samples at that moment, it joins at the end. With
    `is_rest` it begins a frame behind the current one's beginning at the earliest, whenever it has samples, and what
    passed of `samples` since then is left out.
    """

    at_sample: int
    samples: int
    curve: str
    is_rest: bool = False


@dataclass(frozen=True, slots=True)
class Overlay:
    """A source that sounds over the music, at `volume`; the music's level is changed by `duck_db` meanwhile, and
    glides there and back within `fade_samples`.

    It begins with the plan that has it for the first time. `end_sample` is where it is cut off. `has_begun`: it sounded
    in an earlier session, and goes on with the first sample of its source.
    """

    source: int
    volume: float
    duck_db: float
    fade_samples: int
    end_sample: int | None = None
    has_begun: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Node: begin `epoch` at `at_frame`, with these sources and filters.

    Before `at_frame` the node sends the frames of `base_epoch`. `switch_to` cuts to a source at `at_frame` (0: to
    silence; None: the current source continues), even where the frames just before it were never rendered. The source
    `following` joins at the end of the source `after`, or by `crossfade`. With `cut_fade` the sound before fades out
    under the source cut to, if that one has samples already: its mark FADING says so. (Of this crossfade `at_sample`
    has no meaning.) `outputs` is set in a plan that is there for the sake of a new output: its frames are rendered for
    these. `overlays` are all that sound; one that is missing stops. While it `holds` the music, that stands still, and
    frames are made as long as overlays sound.
    """

    session: int
    epoch: int
    base_epoch: int
    at_frame: int
    switch_to: int | None
    after: int
    following: int | None
    filters: Filters
    crossfade: Crossfade | None = None
    cut_fade: Crossfade | None = None
    outputs: Outputs | None = None
    overlays: tuple[Overlay, ...] = ()
    holds: bool = False


class Grant(NamedTuple):
    """Node: frames before `sent` were sent, frames before `granted` may be rendered, both of `epoch`.

    `outputs` are the forms that somebody listens to. Without any, frames are only counted: no filters run, and `Audio`
    holds nothing. Frames before `due_before` are about to be sent: while overlays sound, these are made of what there
    is, without the music or an overlay that has no samples.
    """

    session: int
    epoch: int
    sent: int
    granted: int
    outputs: Outputs = PCM_ONLY
    due_before: int = 0


@dataclass(frozen=True, slots=True)
class Flush:
    """Node: fill the last frame with silence instead of waiting for the source that follows."""

    session: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Node: answer with a `Pong` of the same number."""

    number: int


FromNode: TypeAlias = (
    OpenSession
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
    | Ping
)


class MarkKind(IntEnum):
    """What happens to a source at a frame. Marks of one frame are in the order in which they happen."""

    BEGIN = 0  # its first sample is in this frame
    END = 1  # its last sample is before this frame, or in it if another source begins in this frame
    INTERRUPTED = 2  # as END, but because it failed; a `Failed` with the reason was sent before
    FADING = 3  # the next source begins in this frame, and this one goes on under it until FADED
    FADED = 4  # its last sample is before this frame, or in it


@dataclass(frozen=True, slots=True)
class Ready:
    """Decoder: the process has started, in this sandbox, and takes orders."""

    sandbox: SandboxReport


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Decoder: send up to `length` bytes from `offset`."""

    session: int
    source: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Opened:
    """Decoder: a source is open, and these are its facts."""

    session: int
    source: int
    facts: SourceFacts


@dataclass(frozen=True, slots=True)
class FoundPicture:
    """Decoder: the picture in a source, as it is there; empty when it has none."""

    session: int
    source: int
    data: bytes


@dataclass(frozen=True, slots=True)
class SeekFailed:
    """Decoder: another position in the source cannot be reached. It goes on from its start, or from where it was when
    that cannot be reached either."""

    session: int
    source: int
    failure: PlayFailure


@dataclass(frozen=True, slots=True)
class Failed:
    """Decoder: a source cannot be opened, or was interrupted after it had given audio (`gave_audio`)."""

    session: int
    source: int
    failure: PlayFailure
    gave_audio: bool


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoder: a source is decoded to its end. Its last samples may not be rendered yet."""

    session: int
    source: int


@dataclass(frozen=True, slots=True)
class FirstAudio:
    """Decoder: the first samples of an overlay are decoded."""

    session: int
    source: int


@dataclass(frozen=True, slots=True)
class Titled:
    """Decoder: the audio from this sample of a live source on has this title."""

    session: int
    source: int
    sample: int
    title: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Decoder: a source without loudness tags was measured so far, at `lufs` in `measured_ms`."""

    session: int
    source: int
    lufs: float
    measured_ms: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A source begins or ends at a frame. `offset_samples`: the samples of the frame before the first of a source that
    begins in it."""

    kind: MarkKind
    frame: int
    source: int
    offset_samples: int = 0


class OverlayPosition(NamedTuple):
    """Where an overlay is at the first sample of an `Audio`. `moves`: it sounds; otherwise it waits for samples.
    `ends`: its last sample is in the last frame."""

    source: int
    sample: int
    moves: bool = True
    ends: bool = False


class Audio(NamedTuple):
    """Decoder: `frames` rendered frames from `first_frame` on. `source` and `position_samples` (at 48 kHz) are those of
    the first sample; `position_rate` is how many samples of a source pass in one that is heard. Source 0: the end of a
    sound that was cut off, while the new one has no samples yet. With the rate 0 there are only overlays in the frames:
    the music stands at its position, or there is none (source 0). `overlays` are those that have begun.

    `pcm` is empty when nobody listens to PCM; `packets` has one packet for each frame, for each output with packets.
    With `is_passed` the packets of outputs that pass through are those of the source. They sound `lag_samples` later
    than PCM, besides the encoder's delay.
    In a received message `pcm` is a view into the receive buffer of the socket: copy it before more is received.
    """

    session: int
    epoch: int
    first_frame: int
    frames: int
    source: int
    position_samples: int
    marks: tuple[Mark, ...]
    pcm: bytes | memoryview
    position_rate: float = 1.0
    packets: tuple[tuple[Output, tuple[bytes, ...]], ...] = ()
    overlays: tuple[OverlayPosition, ...] = ()
    is_passed: bool = False
    lag_samples: int = 0


@dataclass(frozen=True, slots=True)
class Encoded:
    """Decoder: what the frames that were sent, `first_frame` to before `end_frame`, were encoded to: whole MP3 frames,
    none or more.

    It is made only once, since the encoder's state cannot be copied, so it is made when nothing can void it any more.
    """

    session: int
    first_frame: int
    end_frame: int
    output: Output
    mp3_frames: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Pong:
    """Decoder: the answer to a `Ping`. `busy_s`: for how long the slot that is held longest has been held."""

    number: int
    busy_s: float


FromDecoder: TypeAlias = (
    Ready
    | ReadRequest
    | Opened
    | SeekFailed
    | Failed
    | Decoded
    | FirstAudio
    | FoundPicture
    | Titled
    | Measured
    | Audio
    | Encoded
    | Pong
)

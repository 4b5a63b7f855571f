"""What the node and a decoder process say to each other.

Both ends speak over one stream socket. A message is a header (`<IBI`: bytes of the body, kind, session) and a body.
Frequent messages (audio, grants, read requests, data) are packed by hand, the others are JSON. A descriptor travels
beside the first byte of its `OpenSource` message.

Frames are numbered for the life of a session. An epoch is one plan of what they hold: a new plan begins at a frame
that was not sent yet, and frames of older epochs from there on are void.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.track_info import SourceFacts

DATA_CHUNK_BYTES: Final = 64 * 1024
# How far the decoder may render ahead of what was sent. Half of it costs a tenth more CPU a frame at 50 players, for
# more messages and more wake-ups; a change is heard as soon, because it is rendered anew from the next frame on.
GRANT_FRAMES: Final = 20
BODY_LIMIT_BYTES: Final = 16 * 1024 * 1024

# Shared memory in which the process writes down what it works on: 8 bytes for each piece of work that can go on at
# once, `session << 32 | source`, or 0. The first is the decoding turn, the others are openings.
SUSPECT_SLOTS: Final = 3
EXIT_MEMORY_LIMIT: Final = 77  # the status of a process that ended because its memory was used up


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Node: a player's session begins, its next frame being `first_frame` of `epoch`."""

    session: int
    epoch: int
    first_frame: int
    filters: Filters


@dataclass(frozen=True, slots=True)
class CloseSession:
    session: int


@dataclass(frozen=True, slots=True)
class OpenSource:
    """Node: open this source and decode ahead, from `start_sample` (48 kHz) on.

    A live source is joined where it is now, and its samples are counted on from `start_sample`.
    With `has_descriptor` the file's descriptor comes with the message; without, a `ReadRequest` asks for the bytes.
    A probe is opened only: nothing of it is decoded ahead.
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


@dataclass(frozen=True, slots=True)
class DropSource:
    session: int
    source: int


@dataclass(frozen=True, slots=True)
class Data:
    """Node: bytes from `offset`, the answer to a `ReadRequest`; none at the end of the source."""

    session: int
    source: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DataFailed:
    """Node: the bytes asked for cannot be had."""

    session: int
    source: int
    failure: PlayFailure


@dataclass(frozen=True, slots=True)
class TitleAt:
    """Node: what begins at this offset of the source has this title. Comes before the bytes."""

    session: int
    source: int
    offset: int
    title: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Node: what the frames from `at_frame` on hold, as `epoch`.

    Up to `at_frame` the frames of `base_epoch` were or will be sent. `switch_to` cuts to a source (`None`: what
    sounds at `at_frame` goes on; 0: nothing sounds); `following` joins `after` when that one ends.
    """

    session: int
    epoch: int
    base_epoch: int
    at_frame: int
    switch_to: int | None
    after: int
    following: int | None
    filters: Filters


@dataclass(frozen=True, slots=True)
class Grant:
    """Node: frames before `sent` are gone, frames before `granted` may be rendered, both of `epoch`.

    When nobody listens (`has_listeners` false) they are only counted: no filters run and no PCM is sent.
    """

    session: int
    epoch: int
    sent: int
    granted: int
    has_listeners: bool = True


@dataclass(frozen=True, slots=True)
class Flush:
    """Node: do not wait for the following source any more; fill the last frame with silence."""

    session: int


@dataclass(frozen=True, slots=True)
class Ping:
    number: int


FromNode: TypeAlias = (
    OpenSession | CloseSession | OpenSource | DropSource | Data | DataFailed | TitleAt | Plan | Grant | Flush | Ping
)


class MarkKind(IntEnum):
    """What happens to a source at a frame. Marks of one frame are told in the order given."""

    BEGIN = 0  # its first sample is in this frame
    END = 1  # its last sample was before this frame, or is in it when another source begins there
    BROKE = 2  # as END, but because it broke off; the reason came before in a `Failed`


@dataclass(frozen=True, slots=True)
class Ready:
    """Decoder: started and listening."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Decoder: send up to `length` bytes from `offset`."""

    session: int
    source: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Opened:
    session: int
    source: int
    facts: SourceFacts


@dataclass(frozen=True, slots=True)
class Failed:
    """Decoder: a source cannot be opened, or breaks off after what was decoded (`gave_audio`)."""

    session: int
    source: int
    failure: PlayFailure
    gave_audio: bool


@dataclass(frozen=True, slots=True)
class Decoded:
    """Decoder: a source is decoded to its end; its last samples wait to be rendered."""

    session: int
    source: int


@dataclass(frozen=True, slots=True)
class Titled:
    """Decoder: from this sample of the source on, something with this title is heard."""

    session: int
    source: int
    sample: int
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """`offset_samples`: how many samples of the frame come before the first one of a source that begins in it."""

    kind: MarkKind
    frame: int
    source: int
    offset_samples: int = 0


@dataclass(frozen=True, slots=True)
class Audio:
    """Decoder: rendered frames, in order. `source` and `position_samples` tell where the first one stands.

    What was received has its `pcm` still where it was received, to be used before more is.
    """

    session: int
    epoch: int
    first_frame: int
    frames: int
    source: int
    position_samples: int
    marks: tuple[Mark, ...]
    pcm: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Pong:
    """Decoder: alive. `busy_s` is how long the oldest piece of work has been at it without a pause."""

    number: int
    busy_s: float


FromDecoder: TypeAlias = Ready | ReadRequest | Opened | Failed | Decoded | Titled | Audio | Pong

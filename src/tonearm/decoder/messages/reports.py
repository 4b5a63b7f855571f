"""What a decoder process says to the node."""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from tonearm.core.failure import PlayFailure
from tonearm.core.track_info import SourceFacts


class MarkKind(IntEnum):
    """What happens to a source at a frame. Marks of one frame are told in the order given."""

    BEGIN = 0  # its first sample is in this frame
    END = 1  # its last sample was before this frame, or is in it when another source begins there
    BROKE = 2  # as END, but because it broke off; the reason came before in a `Failed`


@dataclass(frozen=True, slots=True)
class Ready:
    """Decoder: started and listening."""


@dataclass(frozen=True, slots=True)
class Want:
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


FromDecoder: TypeAlias = Ready | Want | Opened | Failed | Decoded | Titled | Audio | Pong

"""What the node says to a decoder process."""

from dataclasses import dataclass
from typing import TypeAlias

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters


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
    With `has_descriptor` the file's descriptor comes with the message; without, the bytes are asked for by `Want`.
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
    """Node: bytes from `offset`, the answer to a `Want`; none at the end of the source."""

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

    When nobody listens (`is_heard` false) they are only counted: no filters run and no PCM is sent.
    """

    session: int
    epoch: int
    sent: int
    granted: int
    is_heard: bool = True


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

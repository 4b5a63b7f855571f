"""What opening a URI gives: facts about the source, and a reader of its bytes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.failure import Stage
from tonearm.core.source_uri import SourceUri
from tonearm.core.track_info import PageFacts, SourceFacts


class Wait(NamedTuple):
    """What a source waits for while it gives no audio: in a few words, and the stage that fails when it never comes.

    `counts`: the time is the source's own fault. It is not where others have to be done first, or a retry is delayed.
    `is_told`: clients are told of it after a while, though it does not count.
    """

    cause: str
    stage: Stage
    counts: bool = True
    is_told: bool = False


ReportWait: TypeAlias = Callable[[Wait], None]
"""Called while a source is being opened, with each new wait."""

OPENING: Final = Wait("the source is being opened", Stage.CONNECT)
PLACE_AT_RESOLVER: Final = Wait("a place at the resolver", Stage.RESOLVE, counts=False)
RESOLVING: Final = Wait("the page is being resolved", Stage.RESOLVE)


def ignore_wait(wait: Wait) -> None:
    """For callers that show no waits."""


@dataclass(frozen=True, slots=True)
class StreamTitle:
    """`title`, which is clean text, belongs to what begins at `offset` of the source's bytes."""

    offset: int
    title: str


class StreamEntry(NamedTuple):
    """A demuxer can begin with `head`, followed by the bytes of a stream from `offset` on."""

    offset: int
    head: bytes


class SharedStream(ABC):
    """A live stream that several may read, each from where it is when they begin."""

    @abstractmethod
    def new_reader(self) -> "SourceReader":
        """A further reader, which is the caller's. The stream is closed with its last one."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether nothing more comes of it for who begins now."""


class SourceReader(ABC):
    """The bytes of one source, by offset, for one reader at a time.

    Reading on where the last read ended is always possible, and other offsets where the source is seekable. One that
    is neither seekable nor of known size may come in parts, each a whole file for a demuxer: a read after the end of
    one gives the next.
    """

    @abstractmethod
    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from `offset`, at least one; `b""` at the end, and once at the end of each part.

        Raises `PlayError`, also for an offset that cannot be reached.
        """

    @abstractmethod
    async def close(self) -> None:
        """Gives everything back, whatever is under way. May be called more than once."""

    def take_descriptor(self) -> int | None:
        """A descriptor of a local file, which is the caller's; None when only `read_at` has the bytes.

        It can be had again, for a second reader, as long as the system has descriptors left.
        """
        return None

    def set_length(self, length_ms: int) -> None:  # noqa: B027 - most readers have no use for it
        """Says how long the whole source plays, so that the reader can choose how far to read ahead."""

    @property
    def stream(self) -> SharedStream | None:
        """The stream of which others may read, too; None when the source is this reader's alone."""
        return None

    @property
    def waiting_bytes(self) -> int:
        """How much of a live source has arrived and was not read."""
        return 0

    @property
    def has_entries(self) -> bool:
        """Whether `take_entries` gives any."""
        return False

    def take_entries(self, up_to_offset: int) -> Sequence[StreamEntry]:
        """Where a demuxer can begin before `up_to_offset`, as far as this is known besides by the bytes; each once."""
        return ()

    @property
    def is_reconnecting(self) -> bool:
        """Whether the connection was lost and is being made again."""
        return False

    def take_titles(self, up_to_offset: int) -> Sequence[StreamTitle]:
        """The titles of what begins before `up_to_offset`, in order, each given once."""
        return ()


class FileVersion(NamedTuple):
    """A local file and its contents, as far as its file system says: another file, or one that was written to since,
    has another version."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int


# What a decoder gets as content type of a web page on a node without a resolver: its message names the way out.
UNRESOLVED_PAGE: Final = "text/html; resolver=off"
RESOLVER_HINT: Final = (
    "Give the direct address of a file or stream; or set resolver.enabled in the node's configuration, which plays the "
    "pages of many sites."
)


def is_html(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() in ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source that can be read; its holder closes it.

    `uri` is where redirects ended, `name` the last part of its path, a hint for the container. `length_ms` is 0 when
    only the bytes can show it. `station_name` is that of a radio station, `page` the facts of the page that led to the
    source. `version` is None for what is no local file. `is_unresolved_page`: it is HTML, on a node without a resolver.
    """

    uri: SourceUri
    reader: SourceReader
    name: str
    size_bytes: int | None = None
    is_seekable: bool = False
    is_live: bool = False
    content_type: str | None = None
    length_ms: int = 0
    station_name: str | None = None
    page: PageFacts | None = None
    version: FileVersion | None = None
    is_unresolved_page: bool = False

    def found_by(self, page: PageFacts) -> "OpenedSource":
        """The same source with the facts of the page that led to it."""
        return replace(
            self, page=page, is_seekable=self.is_seekable and not page.is_live, is_live=self.is_live or page.is_live
        )

    def completed(self, facts: SourceFacts) -> SourceFacts:
        """The facts that the decoder found in the bytes, completed by those from beside the bytes."""
        if self.length_ms and not facts.is_stream:
            facts = replace(facts, length_ms=self.length_ms, is_length_exact=False)
        if self.station_name is not None:
            facts = facts.of_station(self.station_name)
        return facts if self.page is None else facts.completed_by(self.page)

    async def close(self) -> None:
        """Closes the reader. May be called more than once."""
        await self.reader.close()

"""The result of opening a URI: facts about the source, and a reader of its bytes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.failure import Stage
from tonearm.core.source_uri import SourceUri
from tonearm.core.track_info import AudioChoice, PageFacts, SourceFacts


class Wait(NamedTuple):
    """The reason why a source gives no audio yet.

    `cause` names it in a few words. `stage` is the stage that has failed if the wait never ends. `counts`: the time
    counts towards `sources.start_timeout_s`, unless other work comes first or a retry is delayed. `is_told`: clients
    get an event about the wait after a while, even if it does not count.
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
PREPARING_SCRIPT: Final = Wait("a script of the page is being prepared", Stage.RESOLVE, counts=False, is_told=True)


def ignore_wait(wait: Wait) -> None:
    """A `ReportWait` for callers that show no waits."""


@dataclass(frozen=True, slots=True)
class TitleAtByte:
    """A title of a radio stream, as printable text, for the audio from byte `offset` of the source on."""

    offset: int
    title: str


class StreamEntry(NamedTuple):
    """A point where a demuxer can begin to read a stream: it gets `head`, then the stream's bytes from `offset` on."""

    offset: int
    head: bytes


class Place(NamedTuple):
    """A byte offset at which a demuxer can begin, and the position of the audio there."""

    offset: int
    position_ms: int


class SharedStream(ABC):
    """A live stream with several readers, each of which begins near its newest bytes."""

    @abstractmethod
    def new_reader(self) -> "SourceReader":
        """A further reader, which the caller closes. The stream is closed with its last reader."""


class SourceReader(ABC):
    """The bytes of one source, by offset, for one reader at a time.

    A read may always begin where the last read ended, and elsewhere if the source is seekable. A source that is neither
    seekable nor of known size may come in parts, each of which is a whole file for a demuxer. A read after the end of a
    part gives the next part.
    """

    @abstractmethod
    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        """Returns one to `max_bytes` bytes from `offset` on; `b""` at the end, and once at the end of each part.

        Raises `PlayError`, also for an offset that cannot be reached.
        """

    @abstractmethod
    async def close(self) -> None:
        """Frees all resources, even while a read is under way. May be called more than once."""

    def take_descriptor(self) -> int | None:
        """A descriptor of a local file, which the caller closes; None if only `read_at` gives the bytes.

        Each call returns a further descriptor. When the system has no more, it returns the last one (`is_given_away`).
        """
        return None

    @property
    def is_given_away(self) -> bool:
        """Whether the last descriptor was taken, so that there is nothing to read any more."""
        return False

    def set_length(self, length_ms: int) -> None:  # noqa: B027 - most readers have no use for it
        """Sets the playing time of the whole source, which determines how far the reader reads ahead."""

    @property
    def stream(self) -> SharedStream | None:
        """The stream that other readers may share; None if the source belongs to this reader alone."""
        return None

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of a live source have arrived and are not read yet."""
        return 0

    @property
    def finds_positions(self) -> bool:
        """Whether positions are reached by `place_before` instead of by the container's own seeking."""
        return False

    def place_before(self, position_ms: int) -> Place:
        """The place from which to read and decode for a position. A read may begin there."""
        return Place(0, 0)

    @property
    def has_entries(self) -> bool:
        """Whether `take_entries` gives any."""
        return False

    def take_entries(self, up_to_offset: int) -> Sequence[StreamEntry]:
        """The entries before `up_to_offset` that are known without parsing the bytes, each given once."""
        return ()

    @property
    def is_reconnecting(self) -> bool:
        """Whether the connection was lost and is being made again."""
        return False

    def take_titles(self, up_to_offset: int) -> Sequence[TitleAtByte]:
        """The titles before `up_to_offset`, in order, each given once."""
        return ()


# The content type that marks a web page for a decoder on a node without a resolver. The error names the resolver.
UNRESOLVED_PAGE: Final = "text/html; resolver=off"
RESOLVER_HINT: Final = (
    "Give the direct address of a file or stream; or set resolver.enabled in the node's configuration, which plays the "
    "pages of many sites."
)


def media_type(content_type: str | None) -> str:
    """The media type in a header, in lower case and without its parameters; empty without a header."""
    return (content_type or "").partition(";")[0].strip().lower()


def is_html(content_type: str | None) -> bool:
    return media_type(content_type) in ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source that can be read; its owner closes it.

    `uri` is the URI after all redirects. `name` is the last part of its path, a hint for the container. `length_ms` is
    0 unless it is known without reading the bytes. `station_name` is the name of a radio station, `page` has the facts
    of the page that led to the source. `choice` is the audio track that was opened, of several; None if the decoder
    chooses.
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
    choice: AudioChoice | None = None

    def found_by(self, page: PageFacts) -> "OpenedSource":
        """The same source with the facts of the page that led to it."""
        return replace(
            self, page=page, is_seekable=self.is_seekable and not page.is_live, is_live=self.is_live or page.is_live
        )

    def completed(self, facts: SourceFacts) -> SourceFacts:
        """The `facts` from the decoder, completed by the length, the station and the page that are known here."""
        if self.length_ms and not facts.is_stream:
            is_seekable = facts.is_seekable or self.reader.finds_positions
            facts = replace(
                facts,
                length_ms=self.length_ms,
                is_length_exact=False,
                is_length_guess=False,
                is_seekable=is_seekable,
            )
        if self.choice is not None:
            facts = replace(facts, form=replace(facts.form, choice=self.choice))
        if self.station_name is not None:
            facts = facts.of_station(self.station_name)
        # A decoder process has no data about mirrors, so a mirror that it reports is dropped.
        return replace(facts, mirror=None) if self.page is None else facts.completed_by(self.page)

    async def close(self) -> None:
        """Closes the reader. May be called more than once."""
        await self.reader.close()

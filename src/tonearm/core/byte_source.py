"""What the rest of the node sees of an opened source."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tonearm.core.track_info import PageFacts


@dataclass(frozen=True, slots=True)
class LocalFile:
    """An opened regular file. The descriptor goes to a decoder process; `close` belongs to the holder."""

    descriptor: int
    size_bytes: int
    name: str  # the file name, a hint for the container


class ByteSource(Protocol):
    """Bytes that the node fetches for a decoder process, asked for by offset.

    Reading on where the last read ended is always possible. Another offset is possible when `is_seekable`;
    a source that is not answers a jump with a `PlayError`.

    One that is neither seekable nor of known size may come in parts, each a whole file for a demuxer: asked again after
    the end of one it gives the next.
    """

    @property
    def size_bytes(self) -> int | None: ...

    @property
    def is_seekable(self) -> bool: ...

    @property
    def is_live(self) -> bool: ...

    @property
    def name(self) -> str:
        """Last part of the URI's path, a hint for the container."""
        ...

    @property
    def content_type(self) -> str | None: ...

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` from `offset`, at least one; `b""` at the end, and once at that of each part.

        Raises `PlayError`.
        """
        ...

    async def close(self) -> None: ...


@runtime_checkable
class MeasuredSource(Protocol):
    """A `ByteSource` whose length is known although its bytes do not tell it; 0 when it is not after all."""

    @property
    def length_ms(self) -> int: ...


@runtime_checkable
class PacedSource(Protocol):
    """A `ByteSource` that reads ahead by the pace at which it is played."""

    def played_in(self, length_ms: int) -> None:
        """Tells how long the whole of it sounds."""
        ...


@dataclass(frozen=True, slots=True)
class StreamTitle:
    """`title` belongs to what begins at `offset`. Clean text."""

    offset: int
    title: str


@runtime_checkable
class Station(Protocol):
    """What a radio station tells beside its bytes. A `ByteSource` may be one, too."""

    @property
    def station_name(self) -> str | None: ...

    @property
    def is_connecting(self) -> bool:
        """The connection was lost and is being made again."""
        ...

    def take_titles(self, up_to_offset: int) -> list[StreamTitle]:
        """The titles of what begins before `up_to_offset`, in order, those not taken before."""
        ...


class SourceFromPage:
    """A `ByteSource` that a page led to, with what the page told about it."""

    def __init__(self, source: ByteSource, page: PageFacts) -> None:
        self._source = source
        self.page = page

    @property
    def source(self) -> ByteSource:
        """The source itself."""
        return self._source

    @property
    def size_bytes(self) -> int | None:
        return self._source.size_bytes

    @property
    def is_seekable(self) -> bool:
        return self._source.is_seekable and not self.page.is_live

    @property
    def is_live(self) -> bool:
        return self._source.is_live or self.page.is_live

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def content_type(self) -> str | None:
        return self._source.content_type

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        return await self._source.read_at(offset, max_bytes)

    async def close(self) -> None:
        await self._source.close()

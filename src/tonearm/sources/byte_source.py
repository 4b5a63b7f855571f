"""What the rest of the node sees of an opened source."""

from dataclasses import dataclass
from typing import Protocol


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
        """Up to `max_bytes` from `offset`, at least one; `b""` at the end. Raises `PlayError`."""
        ...

    async def close(self) -> None: ...

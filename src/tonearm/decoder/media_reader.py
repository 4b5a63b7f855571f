"""Where the bytes of a source come from, as the decoder sees it."""

from typing import Protocol


class MediaReader(Protocol):
    """A file-like object over the bytes of one source. Any method may raise `PlayError`.

    `read` waits for at least one byte and answers `b""` only at the end. `seek` takes the whence values of `io`
    and is only called with another position than the present one when `seekable()` is true.
    """

    def read(self, n: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def tell(self) -> int: ...

    def seekable(self) -> bool: ...

"""Which sources this node may open: the patterns of `sources.allowed` and `sources.blocked`, and `sources.files`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tonearm.core.errors import SourceBlocked, SourceRefused
from tonearm.core.source_uri import SourceUri


class Pattern(Protocol):
    """A compiled regular expression. Its engine must not take long for any text."""

    def search(self, text: str, /) -> object | None: ...


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """The decision for a URI, asked for the one given and again for each one that it leads to.

    `files` is `sources.files`: "auto" allows files exactly when the node listens on loopback only. Whether a file
    lies in one of the folders can only be seen once it is opened, so a list passes here when it is not empty.
    """

    allowed: Sequence[Pattern] = ()
    blocked: Sequence[Pattern] = ()
    files: Literal["auto"] | bool | tuple[str, ...] = "auto"
    listens_on_loopback_only: bool = True

    @property
    def allows_files(self) -> bool:
        return self.listens_on_loopback_only if self.files == "auto" else bool(self.files)

    def check(self, uri: SourceUri) -> None:
        """Raises SourceBlocked or SourceRefused when `uri` (a file's with an absolute path) may not be opened."""
        if _is_found(self.blocked, uri.host, uri.normalised):
            raise SourceBlocked(f"{uri.normalised} is blocked by a pattern of sources.blocked in the configuration.")
        if self.allowed and not _is_found(self.allowed, uri.host, uri.without_query):
            raise SourceBlocked(f"{uri.without_query} matches no pattern of sources.allowed in the configuration.")
        if uri.kind == "file" and not self.allows_files:
            raise SourceRefused(
                "This node does not open local files; set sources.files in the configuration to true "
                "or to a list of folders to allow them."
            )


def _is_found(patterns: Sequence[Pattern], host: str | None, text: str) -> bool:
    return any(
        pattern.search(text) is not None or (host is not None and pattern.search(host) is not None)
        for pattern in patterns
    )

"""Which sources the node may open: the patterns of `sources.allowed` and `sources.blocked`, and `sources.files`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from tonearm.core.errors import SourceBlocked, SourceRefused
from tonearm.core.source_uri import SourceUri


class Pattern(Protocol):
    """A compiled regular expression. Its engine must be fast for any text."""

    def search(self, text: str, /) -> object | None: ...


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """Judges the URI that a client gives, and each one that it leads to, once where it comes in.

    `files` is `sources.files`: "auto" allows files exactly when the node listens on loopback only. Whether a file
    lies in one of the folders is known only once it is opened, so a list that is not empty admits every file here.
    """

    allowed: Sequence[Pattern] = ()
    blocked: Sequence[Pattern] = ()
    files: Literal["auto"] | bool | tuple[str, ...] = "auto"
    listens_on_loopback_only: bool = True

    @property
    def allows_files(self) -> bool:
        return self.listens_on_loopback_only if self.files == "auto" else bool(self.files)

    def admit(self, uri: SourceUri) -> SourceUri:
        """`uri` (a file's with an absolute path), marked as admitted. Raises SourceBlocked or SourceRefused."""
        if _matches_any(self.blocked, uri.host, uri.normalised):
            raise SourceBlocked(f"{uri.normalised} is blocked by a pattern of sources.blocked in the configuration.")
        if self.allowed and not _matches_any(self.allowed, uri.host, uri.without_query):
            raise SourceBlocked(f"{uri.without_query} matches no pattern of sources.allowed in the configuration.")
        if uri.kind == "file" and not self.allows_files:
            raise SourceRefused(
                "This node does not open local files; set sources.files in the configuration to true "
                "or to a list of folders to allow them."
            )
        return replace(uri, is_admitted=True)


def _matches_any(patterns: Sequence[Pattern], host: str | None, text: str) -> bool:
    return any(
        pattern.search(text) is not None or (host is not None and pattern.search(host) is not None)
        for pattern in patterns
    )

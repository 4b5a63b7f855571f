"""Which sources the node may open: the patterns of `sources.allowed` and `sources.blocked`, the names of
`sources.allowed_hosts`, and `sources.files`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from tonearm.core.errors import SourceBlocked, SourceRefused
from tonearm.core.source_uri import SourceUri, hint_for_link


class Pattern(Protocol):
    """A compiled regular expression. Its engine must be fast for any text."""

    def search(self, text: str, /) -> object | None: ...


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """Checks the URI from a client, and each URI that it leads to, once, when the node receives it.

    `files` is `sources.files`: "auto" allows files when the node listens on loopback only and the request did not come
    through a proxy, because a proxy may forward requests from anybody. Whether a file lies in one of the folders is
    known only once it is opened, so a list that is not empty lets every file pass this check. `allowed_hosts` have the
    form of `is_host_of`.
    """

    allowed: Sequence[Pattern] = ()
    blocked: Sequence[Pattern] = ()
    files: Literal["auto"] | bool | tuple[str, ...] = "auto"
    listens_on_loopback_only: bool = True
    allowed_hosts: Sequence[str] = ()
    came_through_proxy: bool = False

    @property
    def allows_files(self) -> bool:
        return auto_allows(
            self.files,
            listens_on_loopback_only=self.listens_on_loopback_only,
            came_through_proxy=self.came_through_proxy,
        )

    def admit(self, uri: SourceUri) -> SourceUri:
        """`uri` (a file's with an absolute path), marked as admitted. Raises SourceBlocked or SourceRefused.

        The result keeps whether the request came through a proxy, because the URI is checked again when it is reopened.
        """
        if _matches_any(self.blocked, uri.host, uri.normalised):
            raise SourceBlocked(f"{uri.normalised} is blocked by a pattern of sources.blocked in the configuration.")
        if not self._is_among_allowed(uri):
            raise SourceBlocked(
                f"{uri.without_query} is in neither sources.allowed nor sources.allowed_hosts of the configuration."
            )
        if uri.kind == "file":
            self.require_files(hint_for_link(uri.given))
        return replace(uri, is_admitted=True, came_through_proxy=uri.came_through_proxy or self.came_through_proxy)

    def require_files(self, hint: str = "") -> None:
        """Raises SourceRefused, which ends with `hint`, when no file may be played."""
        if self.allows_files:
            return
        auto_refuses_proxied = self.came_through_proxy and self.files == "auto" and self.listens_on_loopback_only
        for_whom = " for a request that came through a proxy" if auto_refuses_proxied else ""
        raise SourceRefused(
            f"This node does not open local files{for_whom}; set sources.files in the configuration to true "
            f"or to a list of folders to allow them.{hint}"
        )

    def _is_among_allowed(self, uri: SourceUri) -> bool:
        """A list of hosts does not restrict files, but patterns do. A search has no address, so its results are checked
        instead. A sound has no address either."""
        if uri.kind in ("search", "sound"):
            return True
        hosts = self.allowed_hosts if uri.host is not None else ()
        if not self.allowed and not hosts:
            return True
        return is_host_of(hosts, uri.host) or _matches_any(self.allowed, uri.host, uri.without_query)


def auto_allows(
    setting: Literal["auto"] | bool | tuple[str, ...],
    *,
    listens_on_loopback_only: bool,
    came_through_proxy: bool = False,
) -> bool:
    """Whether `setting`, the value of `sources.files` or `sources.private_networks`, allows anything."""
    return listens_on_loopback_only and not came_through_proxy if setting == "auto" else bool(setting)


def is_host_of(names: Iterable[str], host: str | None) -> bool:
    """Whether `host` is one of `names`, or a subdomain of one that begins with a dot. All are as `normalise_host` makes
    them.
    """
    return host is not None and any(
        host == name.removeprefix(".") or (name.startswith(".") and host.endswith(name)) for name in names
    )


def _matches_any(patterns: Sequence[Pattern], host: str | None, text: str) -> bool:
    return any(
        pattern.search(text) is not None or (host is not None and pattern.search(host) is not None)
        for pattern in patterns
    )

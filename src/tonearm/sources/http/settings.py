"""The settings of HTTP requests: timeouts, retries and read-ahead. Also the settings for the link behind a page: its
headers, hosts and proxy, and where to get a new link.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tonearm.core.source_uri import SourceUri

READ_AHEAD_S: Final = 10
LEAST_READ_AHEAD_BYTES: Final = 64 * 1024
MOST_READ_AHEAD_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The timeouts, retries and amounts of fetching over HTTP.

    `connect_timeout_s` covers name lookup, connecting and TLS; `headers_timeout_s` begins after that.

    `stall_timeout_s` is the longest silence in a body while there is room for its bytes.
    """

    user_agent: str = "tonearm"
    connect_timeout_s: float = 5.0
    headers_timeout_s: float = 10.0
    stall_timeout_s: float = 10.0
    # Until the length is known; then `read_ahead_bytes_at` decides.
    read_ahead_bytes: int = 512 * 1024
    open_retry_delays_s: tuple[float, ...] = (0.5, 2.0)
    # One delay per retry of a lost transfer. Enough bytes allow all retries again (`read_ahead.EARNED_BACK_BYTES`).
    resume_delays_s: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
    # The same for a live stream. After the last one the track fails.
    live_resume_delays_s: tuple[float, ...] = (0.0, 1.0, 3.0, 6.0, 12.0)
    # The shortest time between two reads of a live playlist, whatever it says.
    live_refresh_at_least_s: float = 0.5
    # The shortest time between two requests to a page for the link of one track.
    renew_at_least_s: float = 30.0
    # How long a client's request waits for a playlist that it names.
    playlist_limit_s: float = 5.0


def read_ahead_bytes_at(size_bytes: int, length_ms: int) -> int:
    """How far to read ahead in a file of this size and length: ten seconds, within bounds."""
    ten_seconds = size_bytes * READ_AHEAD_S * 1000 // max(length_ms, 1)
    return min(max(ten_seconds, LEAST_READ_AHEAD_BYTES), MOST_READ_AHEAD_BYTES)


_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", re.ASCII)
_MAX_VALUE_CHARACTERS: Final = 4096
_MAX_HEADERS: Final = 32
# Headers that the node sets itself, that count between two hops only (RFC 9110, 7.6.1), or that identify a user.
_WITHHELD: Final = frozenset(
    {
        "accept-encoding", "authorization", "connection", "content-length", "expect", "forwarded", "host", "if-range",
        "keep-alive", "range", "te", "trailer", "transfer-encoding", "upgrade", "via", "x-forwarded-for",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PageLink:
    """The link behind a page. `headers` are what the page's player would send with it: to its host only, so that a
    redirect carries nothing elsewhere. `proxy` is the URL of the proxy that all requests go through; none: directly."""

    uri: SourceUri
    headers: dict[str, str] = field(repr=False)
    proxy: str | None = field(default=None, repr=False)

    def headers_for(self, uri: SourceUri) -> dict[str, str]:
        """The headers to send to `uri`: none to another host or port, and none meant for TLS in plain text."""
        is_same = (uri.host, uri.port) == (self.uri.host, self.uri.port)
        is_secure, was_secure = uri.is_https, self.uri.is_https
        is_upgrade = uri.host == self.uri.host and (self.uri.port, uri.port) == (80, 443)
        if (is_same and is_secure >= was_secure) or (is_upgrade and is_secure):
            return self.headers
        return {}


def safe_headers(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers of a stranger that may be sent: well-formed, each name once, none that controls HTTP itself."""
    headers: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in given:
        key, value = name.lower(), value.strip(" \t")
        if key in _WITHHELD or key.startswith("proxy-") or key in seen or not _NAME.fullmatch(name):
            continue
        if len(value) > _MAX_VALUE_CHARACTERS or not value.isascii() or not value.isprintable():
            continue
        seen.add(key)
        headers[name] = value
        if len(headers) == _MAX_HEADERS:
            break
    return headers


Renew: TypeAlias = Callable[[], Awaitable[PageLink]]
"""Asks the page for its link anew. Raises `PlayError`."""

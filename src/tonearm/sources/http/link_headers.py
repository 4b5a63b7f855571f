"""The headers that a page wants sent with the link behind it: which of them may be sent, and where to."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tonearm.core.source_uri import SourceUri

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
class LinkHeaders:
    """What a page's player would send with `link`: to its host only, so that a redirect carries nothing elsewhere."""

    link: SourceUri
    headers: dict[str, str] = field(repr=False)

    def headers_for(self, uri: SourceUri) -> dict[str, str]:
        """Those to send to `uri`: none to another host or port, and none in plain text that were meant for TLS."""
        is_same = (uri.host, uri.port) == (self.link.host, self.link.port)
        is_secure, was_secure = uri.is_https, self.link.is_https
        is_upgrade = uri.host == self.link.host and (self.link.port, uri.port) == (80, 443)
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

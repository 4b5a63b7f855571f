"""Keeps web pages of other sites from using the node through their visitors' browsers.

A browser adds `Origin` to what a page sends elsewhere, and to every WebSocket upgrade. Comparing it with `Host`
refuses other sites. On a node without password that is not enough: a site can let its own name point to the node's
address (DNS rebinding), and then both headers agree on that name. So there only addresses and localhost are trusted.

The shared password in the Authorization header.
"""

import hmac
import ipaddress
import re
from contextlib import suppress
from typing import Final, NamedTuple

from multidict import CIMultiDictProxy

from tonearm.server.errors import ForeignOrigin, Unauthorized


class PasswordCheck:
    """Compares what a request carries with the node's password. An empty password lets everyone in."""

    def __init__(self, password: str) -> None:
        self._accepted = _header_encodings(password)
        self._is_open = not password

    @property
    def is_open(self) -> bool:
        return self._is_open

    def require(self, headers: CIMultiDictProxy[str]) -> None:
        """Raises `Unauthorized` unless exactly one Authorization header holds the bare password."""
        if self._is_open:
            return
        values = headers.getall("Authorization", [])
        if len(values) != 1:
            raise Unauthorized
        # aiohttp decodes headers as UTF-8 with surrogate escapes; this gives back the bytes that were sent.
        sent = values[0].strip(" \t").encode("utf-8", "surrogateescape")
        if not any(hmac.compare_digest(sent, accepted) for accepted in self._accepted):
            raise Unauthorized


def _header_encodings(password: str) -> tuple[bytes, ...]:
    """The bytes a client may send for the password: HTTP libraries write header text as UTF-8 or as Latin-1."""
    encodings = [password.encode("utf-8")]
    if not password.isascii():
        with suppress(UnicodeEncodeError):
            encodings.append(password.encode("latin-1"))
    return tuple(encodings)


_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]/@]+\]|[^\[\]:/@?#\s]+)(?::(?P<port>[0-9]{1,5}))?")
_SCHEME: Final = re.compile(r"(?P<scheme>https?)://", re.IGNORECASE)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class _Authority(NamedTuple):
    host: str
    port: int | None


def require_own_origin(headers: CIMultiDictProxy[str], *, node_is_open: bool) -> None:
    """Raises `ForeignOrigin` for a request that a page of another site sent. No Origin header: no browser's page."""
    origins = headers.getall("Origin", [])
    if not origins:
        return
    hosts = headers.getall("Host", [])
    host = _authority(hosts[0]) if len(hosts) == 1 else None
    if host is None or len(origins) > 1 or not _is_same(origins[0], host):
        raise ForeignOrigin(
            "Requests from pages of another site are refused. Open the page from the node's own address."
        )
    if node_is_open and not _is_address_or_localhost(host.host):
        raise ForeignOrigin(
            "A node without password answers pages only when it is reached by an IP address or as localhost. "
            "Use one of these, or set server.password."
        )


def _is_same(origin: str, host: _Authority) -> bool:
    scheme = _SCHEME.match(origin)
    if scheme is None:
        return False
    authority = _authority(origin[scheme.end() :])
    if authority is None or authority.host != host.host:
        return False
    default_port = _DEFAULT_PORTS[scheme["scheme"].lower()]
    # A Host without port means the scheme's default. A TLS proxy in front makes https the page's scheme, not ours.
    return (authority.port or default_port) == (host.port or default_port)


def _authority(text: str) -> _Authority | None:
    match = _AUTHORITY.fullmatch(text.strip())
    if match is None:
        return None
    return _Authority(match["host"].lower(), int(match["port"]) if match["port"] else None)


def _is_address_or_localhost(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True

"""Keeps web pages of other sites from using the node through their visitors' browsers.

A browser adds `Origin` to what a page sends elsewhere, and to every WebSocket upgrade. Comparing it with `Host`
refuses other sites. On a node without password that is not enough: a site can let its own name point to the node's
address (DNS rebinding), and then both headers agree on that name. So there only addresses and localhost are trusted.
"""

import ipaddress
import re
from typing import Final, NamedTuple

from multidict import CIMultiDictProxy

from tonearm.server.errors import ForeignOrigin

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

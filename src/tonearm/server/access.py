"""Access to the node: the shared password, and which web pages may use the node through their visitors' browsers.

A browser adds `Origin` to what a page sends elsewhere, and to every WebSocket upgrade; comparing it with `Host`
refuses other sites. What a page loads as an image or as audio has no `Origin`: there `Sec-Fetch-Site` says that it
comes from another site. On a node without password that is not enough: a site can let its own name point to the node's
address (DNS rebinding), and then all headers agree on that name. So there only addresses, localhost and the names of
`server.hosts` are trusted.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from multidict import CIMultiDictProxy

from tonearm.core.source_uri import DEFAULT_PORTS, address_of
from tonearm.server.replies import ForeignOrigin


class PasswordCheck:
    """Compares the password in a request with the node's. With an empty password every request is let in.

    The password may be sent bare, or by one of the `schemes` of `server.schemes`.
    """

    def __init__(self, password: str, schemes: Collection[str] = ()) -> None:
        self._accepted = _header_encodings(password)
        self._schemes = schemes
        self._challenges = ", ".join(text for scheme, text in _CHALLENGES.items() if scheme in schemes)
        self.is_open: Final = not password

    def challenges(self, headers: CIMultiDictProxy[str]) -> str:
        """The challenges of a refusal for WWW-Authenticate; empty: none.

        A browser gets none, since it would ask for the password in its own dialog over the page. Over plain HTTP from
        another machine a browser sends no `Sec-Fetch-Mode`, so the `User-Agent` is checked, too.
        """
        is_browser = "Sec-Fetch-Mode" in headers or headers.get("User-Agent", "").startswith("Mozilla/")
        return "" if is_browser else self._challenges

    def lets_in(self, headers: CIMultiDictProxy[str]) -> bool:
        """Whether exactly one Authorization header contains the password, or no password is needed."""
        if self.is_open:
            return True
        values = headers.getall("Authorization", [])
        if len(values) != 1:
            return False
        # aiohttp decodes headers as UTF-8 with surrogate escapes; this gives back the bytes that were sent.
        sent = values[0].strip(" \t").encode("utf-8", "surrogateescape")
        return any(
            hmac.compare_digest(one, accepted) for one in self._passwords_in(sent) for accepted in self._accepted
        )

    def _passwords_in(self, sent: bytes) -> Iterator[bytes]:
        """The possible passwords in the header's value: all of it, and the part after the name of a scheme."""
        yield sent
        name, _, credentials = sent.partition(b" ")
        scheme = name.decode("latin-1").lower()
        if scheme in self._schemes and scheme == "bearer":
            yield credentials.strip(b" ")
        elif scheme in self._schemes:
            with suppress(binascii.Error):
                yield base64.b64decode(credentials.strip(b" "), validate=True).partition(b":")[2]


_CHALLENGES: Final[Mapping[str, str]] = {
    "bearer": 'Bearer realm="tonearm"',
    "basic": 'Basic realm="tonearm", charset="UTF-8"',
}


def _header_encodings(password: str) -> tuple[bytes, ...]:
    """The bytes a client may send for the password: HTTP libraries write header text as UTF-8 or as Latin-1."""
    encodings = [password.encode("utf-8")]
    if not password.isascii():
        with suppress(UnicodeEncodeError):
            encodings.append(password.encode("latin-1"))
    return tuple(encodings)


_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]/@]+\]|[^\[\]:/@?#\s]+)(?::(?P<port>[0-9]{1,5}))?")
_SCHEME: Final = re.compile(r"(?P<scheme>https?)://", re.IGNORECASE)
_FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})


class _Authority(NamedTuple):
    host: str
    port: int | None


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class OriginRules:
    """`hosts` are names of the node in lower case (`server.hosts`); `allowed_origins` are as a browser sends them."""

    node_is_open: bool
    listens_on_loopback_only: bool = True
    hosts: Collection[str] = ()
    allowed_origins: Collection[str] = ()

    def allowed(self, headers: CIMultiDictProxy[str]) -> str | None:
        """The `Origin` of an allowed page from another address. Every answer to such a page must name its origin."""
        origins = headers.getall("Origin", [])
        return origins[0] if len(origins) == 1 and self._is_allowed(origins[0]) else None

    def require(self, headers: CIMultiDictProxy[str]) -> None:
        """Raises `ForeignOrigin` for a request of a page that is not allowed."""
        origins = headers.getall("Origin", [])
        hosts = headers.getall("Host", [])
        host = _authority(hosts[0]) if len(hosts) == 1 else None
        is_known_host = host is not None and self._is_known(host.host)
        if self.node_is_open and self.listens_on_loopback_only and hosts and not is_known_host:
            raise ForeignOrigin(
                "A node without password that listens on loopback only answers to an IP address, to localhost, or "
                "to a name of server.hosts. Use one of these, add the name to server.hosts, or set server.password."
            )
        if self.allowed(headers) is not None:
            return
        if any(site.strip().lower() in _FOREIGN_SITES for site in headers.getall("Sec-Fetch-Site", [])):
            raise ForeignOrigin(_FROM_ELSEWHERE)
        if not origins:
            return
        if host is None or len(origins) > 1 or not _is_same(origins[0], host):
            raise ForeignOrigin(_FROM_ELSEWHERE)
        if self.node_is_open and not is_known_host:
            raise ForeignOrigin(
                "A node without password answers pages only at an IP address, at localhost, or at a name of "
                "server.hosts. Use one of these, add the name to server.hosts, or set server.password."
            )

    def _is_known(self, host: str) -> bool:
        return host == "localhost" or address_of(host) is not None or host.removesuffix(".") in self.hosts

    def _is_allowed(self, origin: str) -> bool:
        sent = _origin(origin)
        return sent is not None and any(sent == _origin(allowed) for allowed in self.allowed_origins)


def is_from_own_page(headers: CIMultiDictProxy[str]) -> bool:
    """Whether a request was sent by a page of the address that it goes to, or by no page."""
    origins, hosts = headers.getall("Origin", []), headers.getall("Host", [])
    if any(site.strip().lower() in _FOREIGN_SITES for site in headers.getall("Sec-Fetch-Site", [])):
        return False
    host = _authority(hosts[0]) if len(hosts) == 1 else None
    return not origins or (len(origins) == 1 and host is not None and _is_same(origins[0], host))


_FROM_ELSEWHERE: Final = (
    "Requests from pages of another site are refused. Open the page from the node's own address, or add its origin to "
    "server.allowed_origins. A proxy in between must pass on the Host header, with the port if there is one."
)


def _is_same(origin_text: str, host: _Authority) -> bool:
    origin = _origin(origin_text)
    if origin is None or origin.host != host.host:
        return False
    # A Host without port means the scheme's default. A TLS proxy in front makes https the page's scheme, not ours.
    default_port = DEFAULT_PORTS[origin.scheme]
    return origin.port == (host.port or default_port)


def _origin(text: str) -> _Origin | None:
    scheme = _SCHEME.match(text)
    authority = _authority(text[scheme.end() :]) if scheme is not None else None
    if scheme is None or authority is None:
        return None
    name = scheme["scheme"].lower()
    return _Origin(name, authority.host, authority.port or DEFAULT_PORTS[name])


def _authority(text: str) -> _Authority | None:
    match = _AUTHORITY.fullmatch(text.strip())
    if match is None:
        return None
    return _Authority(match["host"].lower(), int(match["port"]) if match["port"] else None)

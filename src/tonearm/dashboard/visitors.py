"""Who may use the page of `tonearm dashboard`: the browser that came with the key, and nobody else.

The key is in the address that the command prints, and works once. The browser gets a cookie for it that scripts cannot
read and that other sites cannot make it send. Browsers do not separate cookies by port, so the cookie's name contains
the port. Foreign names for this address (DNS rebinding) are refused.
"""

import hmac
import re
import secrets
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Collection
from typing import Final

from tonearm.core.hosts import address_of, in_url, is_loopback

_KEY_BYTES: Final = 16
_OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::[0-9]{1,5})?", re.IGNORECASE)
# `Sec-Fetch-Site` of requests by the page itself or by the user.
_OWN_SITES: Final = frozenset({"same-origin", "none"})


class Visitors:
    """Checks keys, cookies and passwords. `password` is that of the page itself; empty: it has none."""

    def __init__(self, port: int, host: str = "127.0.0.1", password: str = "") -> None:
        self.cookie_name: Final = f"tonearm-{port}"
        self.cookie: Final = secrets.token_hex(_KEY_BYTES)
        self.stream_key: Final = secrets.token_hex(_KEY_BYTES)
        self.first_key: Final = secrets.token_hex(_KEY_BYTES)
        self._is_key_taken = False
        self._password = password
        self._names = _OWN_NAMES if is_loopback(host) else {*_OWN_NAMES, in_url(host).lower()}

    @property
    def has_password(self) -> bool:
        return bool(self._password)

    def takes_key(self, key: str) -> bool:
        """Whether `key` is the printed one and was not used yet. It is used up by this."""
        if self._is_key_taken or not _is_same(key, self.first_key):
            return False
        self._is_key_taken = True
        return True

    def takes_password(self, authorization: str) -> bool:
        """Whether the header `Authorization` has the page's own password; any user name is accepted (RFC 7617)."""
        scheme, _, encoded = authorization.partition(" ")
        if not self._password or scheme.lower() != "basic":
            return False
        try:
            sent = b64decode(encoded).decode("utf-8").partition(":")[2]
        except (NoBase64, ValueError):
            return False
        return _is_same(sent, self._password)

    def knows(self, cookie: str | None) -> bool:
        return cookie is not None and _is_same(cookie, self.cookie)

    def takes_stream_key(self, key: str) -> bool:
        return _is_same(key, self.stream_key)

    def is_own_name(self, hosts: Collection[str]) -> bool:
        """Whether a request's headers `Host` are one name by which this page may be reached."""
        if len(hosts) != 1:
            return False
        (host,) = hosts
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].lower()
        return name in self._names or (self.has_password and address_of(name) is not None)


def is_own_page(host: str, origin: str | None, site: str | None) -> bool:
    """Whether a request was sent by the page itself, or by no page: `origin` and `site` are the headers `Origin` and
    `Sec-Fetch-Site`."""
    return (site is None or site in _OWN_SITES) and (origin is None or origin.lower() == f"http://{host}".lower())


def _is_same(sent: str, known: str) -> bool:
    return hmac.compare_digest(sent.encode("utf-8", "replace"), known.encode())

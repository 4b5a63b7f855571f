"""The shared password in the Authorization header."""

import hmac
from contextlib import suppress

from multidict import CIMultiDictProxy

from tonearm.server.errors import Unauthorized


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

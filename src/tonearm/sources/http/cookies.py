"""The cookies of one opened source: RFC 6265 for a single host at a time, without any that outlive the source."""

import email.utils
import time
from typing import Final

from tonearm.core.source_uri import SourceUri

_MOST_COOKIES: Final = 50  # RFC 6265, 6.1, as the two that follow
_MOST_CHARACTERS: Final = 4096
_MOST_CHARACTERS_OF_ALL: Final = 16 * 1024  # servers refuse longer headers


class CookieJar:
    """Cookies that servers set while a source is opened and read. Each cookie is sent only to the host that set it,
    whatever domain the server named."""

    def __init__(self) -> None:
        # By host, path and name: the value, and whether it goes over TLS only.
        self._cookies: dict[tuple[str | None, str, str], tuple[str, bool]] = {}

    def take(self, uri: SourceUri, set_cookie: str) -> None:
        """Stores the cookie of a `Set-Cookie` header in the answer for `uri`. Invalid cookies are ignored."""
        pair, *attributes = set_cookie.split(";")
        name, has_value, value = (part.strip() for part in pair.partition("="))
        size = len(name) + len(value)
        if not name or not has_value or size > _MOST_CHARACTERS or not (pair.isascii() and pair.isprintable()):
            return
        path, is_secure, is_over = _folder(uri.path), False, False
        for attribute in attributes:
            key, _, text = (part.strip() for part in attribute.partition("="))
            match key.lower():
                case "path":
                    path = text if text.startswith("/") else _folder(uri.path)
                case "secure":
                    is_secure = True
                case "max-age":
                    is_over = text == "0" or text.startswith("-")
                case "expires":
                    is_over = is_over or _is_past(text)
        identity = uri.host, path, name
        self._cookies.pop(identity, None)
        held = sum(len(each_name) + len(each) for (_, _, each_name), (each, _) in self._cookies.items())
        has_room = len(self._cookies) < _MOST_COOKIES and held + size <= _MOST_CHARACTERS_OF_ALL
        if has_room and not is_over and uri.is_https >= is_secure:
            self._cookies[identity] = value, is_secure

    def header_for(self, uri: SourceUri, given: str = "") -> str:
        """The `Cookie` header for `uri`, "" for none; `given` is one whose cookies give way to newer ones."""
        if not self._cookies:
            return given
        pairs = dict(_pair(text) for text in given.split(";") if text.strip())
        # Of several cookies with one name, the cookie with the longest path is sent (RFC 6265, 5.4).
        for (host, path, name), (value, is_secure) in sorted(self._cookies.items(), key=lambda item: len(item[0][1])):
            if host == uri.host and uri.is_https >= is_secure and _lies_in(uri.path, path):
                pairs[name] = value
        return "; ".join(f"{name}={value}" for name, value in pairs.items())


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.strip().partition("=")
    return name, value


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def _is_past(date: str) -> bool:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() <= time.time()
    except (ValueError, OverflowError, OSError):
        return False

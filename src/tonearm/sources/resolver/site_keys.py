"""Access data that a site may demand from a server before it shows a page: an account's cookies, arguments of yt-dlp's
extractors, or a proxy. None of it is written to a log, an event or an answer.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from tonearm.core.metadata import JsonObject

ExtractorArgs: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""As yt-dlp has them: of an extractor's key, in small letters, the values of each argument."""

LARGEST_COOKIES_BYTES: Final = 1024 * 1024
REST_S: Final = 60.0
_COOKIES_HEAD: Final = re.compile(rb"#( Netscape)? HTTP Cookie File")  # as Python's http.cookiejar asks for it
_FIELDS_OF_A_COOKIE: Final = 7

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SiteKeys:
    """The settings. `proxies` are URLs, http or https, maybe with a password."""

    cookies_file: Path | None = None
    extractor_args: ExtractorArgs = field(default_factory=dict, repr=False)
    proxies: tuple[str, ...] = field(default=(), repr=False)

    def arguments(self) -> JsonObject:
        return {site: {name: [*values] for name, values in of.items()} for site, of in self.extractor_args.items()}


class CookiesProblem(Exception):
    """The file of cookies cannot be used; the message says why."""


class CookiesFile:
    """Cookies in the form that browsers' extensions and yt-dlp write (Netscape's). Read anew when the file changes."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._cookies = b""

    def require(self) -> None:
        """Reads the file. Raises `CookiesProblem`. Warns when others can read it."""
        if self._path is None:
            return
        try:
            mode = os.stat(self._path).st_mode
            self._read(self._path)
        except OSError as error:
            raise CookiesProblem(f"{self._path} cannot be read: {os.strerror(error.errno or 0)}") from error
        if mode & 0o077:
            log.warning(
                "resolver.cookies_file: other users of this machine can read %s; run chmod 600 on it", self._path
            )

    def cookies(self) -> bytes:
        """The current content of the file. While the file cannot be used, its previous content, with one warning."""
        if self._path is not None:
            try:
                self._read(self._path)
            except (CookiesProblem, OSError) as error:
                reason = str(error) if isinstance(error, CookiesProblem) else os.strerror(error.errno or 0)
                if self._seen is not None:
                    log.warning("resolver.cookies_file: the previous cookies are used: %s", reason)
                self._seen = None
        return self._cookies

    def _read(self, path: Path) -> None:
        status = os.stat(path)
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen == self._seen:
            return
        with open(path, "rb") as file:
            data = file.read(LARGEST_COOKIES_BYTES + 1)
        if problem := _problem_of(data):
            raise CookiesProblem(f"{path} {problem}")
        self._cookies, self._seen = data, seen


def _problem_of(data: bytes) -> str:
    if len(data) > LARGEST_COOKIES_BYTES:
        return f"has more than {LARGEST_COOKIES_BYTES // 1024} KiB"
    head, _, rest = data.partition(b"\n")
    if not _COOKIES_HEAD.match(head):
        return 'is no file of cookies in Netscape\'s form: its first line is not "# Netscape HTTP Cookie File"'
    for number, line in enumerate(rest.splitlines(), 2):
        line = line.removeprefix(b"#HttpOnly_")
        if line.strip() and not line.startswith(b"#") and line.count(b"\t") != _FIELDS_OF_A_COOKIE - 1:
            return f"has no cookie in line {number}: a cookie has {_FIELDS_OF_A_COOKIE} fields, with tabs between them"
    return ""


class Proxies:
    """The proxies for requests of pages, used in turn. A proxy that failed is not used for a minute."""

    def __init__(self, urls: Sequence[str], now_s: Callable[[], float] = time.monotonic) -> None:
        self._rests_until_s = dict.fromkeys(urls, 0.0)  # the one that was used longest ago first
        self._now_s = now_s

    def __len__(self) -> int:
        return len(self._rests_until_s)

    def next(self) -> str | None:
        """The proxy for the next page; None without proxies. If all have failed, the one whose pause ends first."""
        if not self._rests_until_s:
            return None
        now_s = self._now_s()
        awake = (url for url, until_s in self._rests_until_s.items() if until_s <= now_s)
        proxy = next(awake, None) or min(self._rests_until_s, key=self._rests_until_s.__getitem__)
        self._rests_until_s[proxy] = self._rests_until_s.pop(proxy)  # behind the others
        return proxy

    def failed(self, proxy: str, reason: str) -> None:
        """`reason` has no password in it."""
        now_s = self._now_s()
        if self._rests_until_s[proxy] <= now_s:
            log.warning("resolver.proxies: %s It is not used for %d s.", reason, REST_S)
        self._rests_until_s[proxy] = now_s + REST_S

"""Runs yt-dlp on a page's URL, and gives the link behind the page or the pages that it lists."""

import io
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import yt_dlp
from yt_dlp.extractor import gen_extractor_classes
from yt_dlp.networking.exceptions import RequestError
from yt_dlp.utils import DownloadError, ExtractorError, PlaylistEntries, sanitize_url

from tonearm.sources.resolver.messages import YOUTUBE_MUSIC_SEARCH, NodePipe
from tonearm.sources.resolver.node_requests import LIKE_A_BROWSER, let_the_node_make_requests

GENERIC: Final = "generic"
_ALL: Final = "all"
_YOUTUBE: Final = "youtube"
_YOUTUBE_MUSIC: Final = "youtube:music:search_url"  # it is searched by a link, and yt-dlp has no word for that
_WANTS_SCRIPT: Final = re.compile(r"JavaScript runtime|challenge solving failed")
_PART_OF_GENERIC: Final = "html5"  # finds the <audio> and <video> elements of a page for the generic extractor
_WHOLE_FILE: Final = "[protocol^=http][protocol!*=dash]"
_PLAYLIST: Final = "[protocol^=m3u8]"
# Prefers sound to video, and a file to a list of segments. The segments of DASH cannot be fetched by a link.
FORMAT: Final = "/".join(
    f"{best}{kind}" for kind in (_WHOLE_FILE, _PLAYLIST) for best in ("bestaudio", "best", "bestaudio*")
)
_MOST_HEADERS: Final = 64
_URL_TYPES: Final = ("url", "url_transparent")
_LIST_TYPES: Final = ("playlist", "multi_video", "compat_list")
_MOST_HOPS: Final = 8
_MOST_TEXT_CHARACTERS: Final = 500
_MOST_URL_CHARACTERS: Final = 4096
# Of a list, as JSON: what the node takes in one answer is twice as much.
_MOST_LIST_BYTES: Final = 256 * 1024
# This share of the time is for reading a long list, page after page; the rest is for the answer.
_SHARE_FOR_LISTS: Final = 0.7
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# The beginning of every search's URL, read from its pattern: an extractor that is loaded lazily has nothing else.
_SEARCH_PATTERN: Final = re.compile(r"([a-z][a-z0-9]*search)\(\?P<prefix>")


class Extraction:
    """The extractors that `sites` permits, by their names: `youtube` stands for `youtube:tab` and the like, too.

    `all` stands for every one but `generic`, and so does an empty list. The node makes their requests, behind `pipe`.
    """

    def __init__(self, sites: tuple[str, ...], pipe: NodePipe, *, runs_scripts: bool) -> None:
        let_the_node_make_requests(pipe)
        self._pipe = pipe
        self._runs_scripts = runs_scripts
        self._challenges: Any = None
        self._lack = ""  # why scripts cannot be run
        self._log = _Log()
        self._arguments: dict[str, dict[str, list[str]]] = {}
        self._cookies = b""
        self._sites = tuple(site.lower() for site in sites) or (_ALL,)
        self._known = [extractor for extractor in gen_extractor_classes() if extractor._ENABLED]
        self._permitted = [extractor for extractor in self._known if self._is_permitted(extractor.IE_NAME.lower())]

    def get_ready(self) -> None:
        """Loads the modules that pages need, and YouTube's modules if YouTube is permitted."""
        if self._challenges is not None or not any(one.IE_NAME.lower() == _YOUTUBE for one in self._permitted):
            return
        if not self._runs_scripts:
            self._lack = "resolver.javascript is false"
            return
        try:
            from tonearm.sources.resolver.challenges import Challenges, solve_challenges

            self._challenges = Challenges(self._pipe)
            self._lack = self._challenges.lack
            solve_challenges(self._challenges)
        except Exception as error:  # noqa: BLE001 - another yt-dlp may have another interface; most pages do without
            self._lack = f"this yt-dlp does not take it ({type(error).__name__}: {error})"

    def unknown_sites(self) -> list[str]:
        names = [_ALL, *(extractor.IE_NAME.lower() for extractor in self._known)]
        return [site for site in self._sites if not any(_is_of(name, site) for name in names)]

    def keys_of_extractors(self) -> list[str]:
        """The keys by which arguments are given to extractors."""
        return sorted({extractor.ie_key().lower() for extractor in self._known})

    def take_keys(self, arguments: dict[str, dict[str, list[str]]], cookies: bytes) -> None:
        """Sets, for all later pages, the arguments of extractors as in yt-dlp's option, and a file of cookies in
        Netscape's form."""
        self._arguments, self._cookies = arguments, cookies

    def match(self, url: str) -> str | None:
        """The name of the permitted extractor, other than `generic`, whose page `url` is."""
        for extractor in self._permitted:
            if extractor.IE_NAME != GENERIC and extractor.suitable(url):
                return str(extractor.IE_NAME)
        return None

    def searches(self, *, permitted: bool = True) -> dict[str, str]:
        """The sites that can be searched, by the key that precedes the words, such as `ytsearch`. `permitted`: only the
        permitted sites."""
        found: dict[str, str] = {}
        for extractor in self._permitted if permitted else self._known:
            if extractor.IE_NAME == _YOUTUBE_MUSIC:
                found[YOUTUBE_MUSIC_SEARCH] = "youtubemusic"
            pattern = getattr(extractor, "_VALID_URL", None)
            key = _SEARCH_PATTERN.match(pattern) if isinstance(pattern, str) else None
            if key is not None:
                found[key[1]] = extractor.IE_NAME.lower().partition(":")[0].removesuffix("search")
        return found

    def resolve(self, url: str, item: int | None = None) -> dict[str, Any]:
        """url, headers, title, author, length_s, artwork_url and is_live of what the page plays first, or as `item`-th.

        Raises what yt-dlp and its extractors raise; see `reason_of`.
        """
        with self._downloader(items=str(item or 1), takes_list=item is not None) as downloader:
            found = downloader.extract_info(url, download=False)
        return _answer(found, url, downloader.cookiejar)

    def open(self, url: str, *, most: int, whole: bool, limit_s: float) -> dict[str, Any]:
        """`{"page"}` as `resolve` gives it, or `{"list"}` when the page has several: name, selected and entries, each
        with url (of its own page, or null), item (its number), title, author, length_s, artwork_url and is_live.

        The pages of entries are not read. At most `most` entries are returned. `ends` says why the list ends: "most",
        "time", "bytes", "error", or null when it is complete. `whole`: any list is returned as a list, even with one
        entry, and even if the URL names one of its entries, which is `selected` then.
        """
        with self._downloader(items=f"1:{most + 1}", takes_list=whole) as downloader:
            found = downloader.extract_info(url, download=False, process=False)
            for _ in range(_MOST_HOPS):
                if not found or found.get("_type") != "url":
                    break
                found = downloader.extract_info(found["url"], download=False, ie_key=found.get("ie_key"), process=False)
            if found and found.get("_type") in _LIST_TYPES:
                until_s = time.monotonic() + limit_s * _SHARE_FOR_LISTS
                entries, ends = _gathered(PlaylistEntries(downloader, found).get_requested_items(), most, until_s)
                if whole or len(entries) != 1 or ends is not None:
                    return {"list": _list_answer(found, entries, ends, url)}
                found = entries[0][1]
            downloader.params["playlist_items"] = "1"
            found = downloader.process_ie_result(found, download=False) if found else None
        return {"page": _answer(found, url, downloader.cookiejar)}

    def _downloader(self, *, items: str, takes_list: bool) -> Any:
        self._log.wants_script = False
        if self._challenges is not None:
            self._challenges.problem = ""
        options = {**_OPTIONS, "logger": self._log, "playlist_items": items, "noplaylist": not takes_list}
        options["extractor_args"] = self._arguments
        if self._cookies:
            options["cookiefile"] = io.StringIO(self._cookies.decode("utf-8", "replace"))
        downloader = yt_dlp.YoutubeDL(options, auto_init=False)
        for extractor in self._permitted:
            downloader.add_info_extractor(extractor)
        return downloader

    def failure_of(self, error: BaseException) -> dict[str, Any]:
        """`{"error": reason}`, with `"script": True` when a script that the page needs was not solved."""
        problem = "" if self._challenges is None else self._challenges.problem
        if not problem and self._log.wants_script and self._lack:
            problem = f"the site wants a script run, for which there has to be yt-dlp-ejs: {self._lack}"
        reason = self.reason_of(error)
        return {"error": f"{problem} ({reason})", "script": True} if problem else {"error": reason}

    def reason_of(self, error: BaseException) -> str:
        """The cause of an error in one sentence, without the advice for users of the yt-dlp command."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ExtractorError | RequestError):
            cause = cause.__context__  # yt-dlp raises its own error while it handles the extractor's
        if cause is not None or isinstance(error, DownloadError):
            reason = str(cause.orig_msg if isinstance(cause, ExtractorError) else cause or error)
            return LIKE_A_BROWSER if "impersonate target" in reason else reason
        return f"the extractor failed ({type(error).__name__}: {error})"

    def _is_permitted(self, name: str) -> bool:
        if _ALL in self._sites and name != GENERIC:
            return True
        if name == _PART_OF_GENERIC and GENERIC in self._sites:
            return True
        return any(_is_of(name, site) for site in self._sites)


class _Log:
    """Drops yt-dlp's messages, since the important ones are raised, too. Only the message about a script that was not
    run is kept."""

    wants_script = False

    def debug(self, message: str) -> None: ...

    def warning(self, message: str) -> None:
        self.wants_script |= _WANTS_SCRIPT.search(message) is not None

    def error(self, message: str) -> None: ...


def _is_of(name: str, site: str) -> bool:
    return name == site or name.startswith(f"{site}:")


_OPTIONS: Final[Mapping[str, Any]] = {
    "proxy": "",
    "format": FORMAT,
    "lazy_playlist": True,
    "check_formats": False,  # checking would download a part into a file
    "skip_download": True,
    "simulate": True,
    "cachedir": False,
    "js_runtimes": {},  # would be programs
    "enable_file_urls": False,
    "extractor_retries": 1,
    "compat_opts": ("no-youtube-unavailable-videos",),  # a list has what YouTube's page shows, not what is gone, too
    "color": "never",
    "quiet": True,
    "no_warnings": True,
    "noprogress": True,
}


def _gathered(
    listed: Iterator[tuple[int, Any]], most: int, until_s: float
) -> tuple[list[tuple[int, dict[str, Any]]], str | None]:
    """The entries with their numbers, and why there are no more. Raises what reading the first entry raises."""
    entries: list[tuple[int, dict[str, Any]]] = []
    try:
        for number, entry in listed:
            if number > most:
                return entries, "most"
            if entry:
                entries.append((number, entry))
            if time.monotonic() > until_s:
                return entries, "time"
    except Exception:
        if not entries:
            raise
        return entries, "error"
    return entries, None


def _list_answer(
    found: dict[str, Any], entries: list[tuple[int, dict[str, Any]]], ends: str | None, url: str
) -> dict[str, Any]:
    parts = urlsplit(url)
    named = {parts.path.rpartition("/")[2], *(value for values in parse_qs(parts.query).values() for value in values)}
    selected = None
    listed: list[dict[str, Any]] = []
    left_bytes = _MOST_LIST_BYTES
    for number, entry in entries:
        answer = _entry_answer(number, entry, found.get("webpage_url"))
        left_bytes -= len(json.dumps(answer))
        if left_bytes < 0:
            ends = "bytes"
            break
        if selected is None and isinstance(entry.get("id"), str) and entry["id"] in named:
            selected = len(listed)
        listed.append(answer)
    count = found.get("playlist_count")
    if count is None and isinstance(found.get("entries"), list):
        count = len(found["entries"])
    return {
        "name": _short(found.get("title")),
        "count": count if isinstance(count, int) else None,
        "selected": selected,
        "ends": ends,
        "entries": listed,
    }


def _entry_answer(number: int, entry: dict[str, Any], list_url: Any) -> dict[str, Any]:
    """An entry without a page of its own is known by its number."""
    page = entry.get("webpage_url")
    if entry.get("_type") in _URL_TYPES:
        page = sanitize_url(entry.get("url"), scheme="https")
    if not isinstance(page, str) or not _SCHEME.match(page) or page == list_url:
        page = None
    thumbnails = [one.get("url") for one in entry.get("thumbnails") or () if isinstance(one, dict)]
    artwork_url = entry.get("thumbnail") or (thumbnails[-1] if thumbnails else None)
    length_s = entry.get("duration")
    return {
        "item": number,
        "url": _short(page, _MOST_URL_CHARACTERS + 1),
        "title": _short(entry.get("title")),
        "author": _short(_first_of(entry, "artist", "uploader", "channel", "creator")),
        "length_s": length_s if isinstance(length_s, int | float) and abs(length_s) < 1e9 else None,
        "artwork_url": _short(artwork_url, _MOST_URL_CHARACTERS),
        "is_live": bool(entry.get("is_live")) or entry.get("live_status") == "is_live",
    }


def _short(value: Any, most: int = _MOST_TEXT_CHARACTERS) -> str | None:
    return value[:most] if isinstance(value, str) else None


def _answer(found: Any, page_url: str, cookies: Any) -> dict[str, Any]:
    while found and found.get("_type") in _LIST_TYPES:
        found = next((entry for entry in found.get("entries") or () if entry), None)
    if not found or not found.get("url"):
        raise ExtractorError("The page holds nothing that can be played", expected=True)
    title, author = found.get("title"), _first_of(found, "artist", "uploader", "channel", "creator")
    if found.get("extractor_key") in ("Generic", "HTML5MediaEmbed"):
        # For a page without a known structure yt-dlp gives a number as title, and the host as uploader.
        title = title.removesuffix(" (1)") if isinstance(title, str) else None
        author = None if author == urlsplit(page_url).netloc else author
    headers = found.get("http_headers") or {}
    # yt-dlp never has it among the headers, and some sites send the sound only with the cookies of the page.
    if cookie := cookies.get_cookie_header(found["url"]):
        headers["Cookie"] = cookie
    return {
        "url": found["url"],
        "headers": [[str(name), str(value)] for name, value in headers.items()][:_MOST_HEADERS],
        "title": title,
        "author": author,
        "length_s": found.get("duration"),
        "artwork_url": found.get("thumbnail"),
        "is_live": bool(found.get("is_live")) or found.get("live_status") == "is_live",
    }


def _first_of(found: dict[str, Any], *names: str) -> Any:
    return next((found[name] for name in names if found.get(name)), None)

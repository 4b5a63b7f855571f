"""From a page's URL to the link behind it. The only module that knows yt-dlp."""

from typing import Any, Final
from urllib.parse import urlsplit

import yt_dlp
from yt_dlp.extractor import gen_extractor_classes
from yt_dlp.utils import DownloadError, ExtractorError

GENERIC: Final = "generic"
_ALL: Final = "all"
_PART_OF_GENERIC: Final = "html5"  # finds the <audio> and <video> elements of a page for the generic extractor
_WHOLE_FILE: Final = "[protocol^=http][protocol!*=dash]"
_PLAYLIST: Final = "[protocol^=m3u8]"
# Sound alone rather than a film, one file rather than a list of pieces. Pieces by DASH cannot be fetched as a link.
FORMAT: Final = "/".join(
    f"{best}{kind}" for kind in (_WHOLE_FILE, _PLAYLIST) for best in ("bestaudio", "best", "bestaudio*")
)
_SOCKET_TIMEOUT_S: Final = 10.0
_MOST_HEADERS: Final = 64


class Extraction:
    """The extractors that `sites` permits, by their names: `youtube` stands for `youtube:tab` and the like, too.

    `all` stands for every one but `generic`, and so does an empty list.
    """

    def __init__(self, sites: tuple[str, ...]) -> None:
        self._sites = tuple(site.lower() for site in sites) or (_ALL,)
        self._known = [extractor for extractor in gen_extractor_classes() if extractor._ENABLED]
        self._permitted = [extractor for extractor in self._known if self._is_permitted(extractor.IE_NAME.lower())]

    def unknown_sites(self) -> list[str]:
        """The sites that no extractor is named after."""
        names = [_ALL, *(extractor.IE_NAME.lower() for extractor in self._known)]
        return [site for site in self._sites if not any(_is_of(name, site) for name in names)]

    def match(self, url: str) -> str | None:
        """The name of the permitted extractor, other than `generic`, whose page `url` is."""
        for extractor in self._permitted:
            if extractor.IE_NAME != GENERIC and extractor.suitable(url):
                return str(extractor.IE_NAME)
        return None

    def resolve(self, url: str, proxy: str) -> dict[str, Any]:
        """url, headers, title, author, length_s, artwork_url and is_live of what the page plays first.

        `proxy` is the only way out. Raises what yt-dlp and its extractors raise; see `reason_of`.
        """
        with yt_dlp.YoutubeDL(_options(proxy), auto_init=False) as downloader:
            for extractor in self._permitted:
                downloader.add_info_extractor(extractor)
            found = downloader.extract_info(url, download=False)
        while found and found.get("_type") in ("playlist", "multi_video"):
            found = next((entry for entry in found.get("entries") or () if entry), None)
        if not found or not found.get("url"):
            raise ExtractorError("The page holds nothing that can be played", expected=True)
        return _answer(found, url)

    def reason_of(self, error: BaseException) -> str:
        """What went wrong in one sentence, without the advice that is meant for users of the yt-dlp command."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ExtractorError):
            cause = cause.__context__  # yt-dlp raises its own error while it handles the extractor's
        if cause is not None:
            return str(cause.orig_msg)
        if isinstance(error, DownloadError):
            return str(error)
        return f"the extractor failed ({type(error).__name__}: {error})"

    def _is_permitted(self, name: str) -> bool:
        if _ALL in self._sites and name != GENERIC:
            return True
        if name == _PART_OF_GENERIC and GENERIC in self._sites:
            return True
        return any(_is_of(name, site) for site in self._sites)


class _Silent:
    """Takes yt-dlp's messages; what matters of them is raised as well."""

    def debug(self, message: str) -> None: ...

    def warning(self, message: str) -> None: ...

    def error(self, message: str) -> None: ...


def _is_of(name: str, site: str) -> bool:
    return name == site or name.startswith(f"{site}:")


def _options(proxy: str) -> dict[str, Any]:
    return {
        "proxy": proxy,
        "format": FORMAT,
        "noplaylist": True,
        "playlist_items": "1",
        "lazy_playlist": True,
        "check_formats": False,  # checking would download a part into a file
        "skip_download": True,
        "simulate": True,
        "cachedir": False,
        "js_runtimes": {},  # would be programs
        "enable_file_urls": False,
        "socket_timeout": _SOCKET_TIMEOUT_S,
        "extractor_retries": 1,
        "color": "never",
        "quiet": True,
        "no_warnings": True,
        "noprogress": True,
        "logger": _Silent(),
    }


def _answer(found: dict[str, Any], page_url: str) -> dict[str, Any]:
    title, author = found.get("title"), _first_of(found, "artist", "uploader", "channel", "creator")
    if found.get("extractor_key") in ("Generic", "HTML5MediaEmbed"):
        # What a page without any known structure is given by yt-dlp: a number, and its host as uploader.
        title = title.removesuffix(" (1)") if isinstance(title, str) else None
        author = None if author == urlsplit(page_url).netloc else author
    headers = found.get("http_headers") or {}
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

"""The answers of resolving processes. Each is checked before it is used, since strangers' pages may have changed it."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tonearm.core.errors import BadRequest, RequestError
from tonearm.core.failure import REFUSALS, FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.metadata import Json
from tonearm.core.play_queue import LeftOut, NothingFound, Playlist, PlaylistEntry
from tonearm.core.printable import one_line
from tonearm.core.source_uri import SourceUri, item_of_page, parse_source_uri
from tonearm.core.track_info import PageFacts
from tonearm.sources.http.errors import admission_error
from tonearm.sources.http.settings import PageLink, safe_headers
from tonearm.sources.resolver.javascript import INSTALL

Judge: TypeAlias = Callable[[SourceUri], SourceUri]
"""The URI as admitted, its written address included. Raises `SourceBlocked`, `SourceRefused`."""

_MAX_TEXT_CHARACTERS: Final = 500
_MAX_ARTWORK_CHARACTERS: Final = 2048
_MOST_COUNTED: Final = 10**9  # entries that a page may say it has
_MOST_ITEMS: Final = 999  # recordings on a page that can be named by a URI
_MAX_LENGTH_S: Final = 366 * 24 * 3600.0
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_HINT: Final = "Open the page in a browser to see whether it plays there; an update of yt-dlp may know it better."
SCRIPT_HINT: Final = f"Bring yt-dlp and its solver up to date together: {INSTALL}."
_BOT_HINT: Final = (
    "The site takes this machine for a bot, as it does with rented ones. The operator can set resolver.cookies_file, "
    "resolver.extractor_args or resolver.proxies; docs/music.md says how."
)
_COOKIES_HINT: Final = (
    "The site shows it only to people who are signed in and may see it. The operator can set resolver.cookies_file; "
    "docs/music.md says how."
)
_PLACE_HINT: Final = (
    "The site does not show it in the country of this machine. The operator can set resolver.proxies; docs/music.md "
    "says how."
)
_BUSY_HINT: Final = "The site is asked too often from this address. Try again later, or set resolver.proxies."
_DRM_HINT: Final = "The site encrypts it, so that it plays in the site's own player only. Look for it at another site."
_EARLY_HINT: Final = "Try again when it has begun."
# By yt-dlp's reason; the first that fits counts.
_HINTS: Final = tuple(
    (re.compile(words, re.IGNORECASE), hint)
    for words, hint in (
        (r"not a bot|(?:sign|log) ?in to confirm(?! your age)", _BOT_HINT),
        (
            r"your age|age.restricted|registered users|\b(?:sign|log)(?:ged)?.?in\b|requires authentication|members\b",
            _COOKIES_HINT,
        ),
        (r"\bDRM\b", _DRM_HINT),
        (r"\b(?:premieres|will begin) in\b", _EARLY_HINT),
        (r"your (?:country|location|region)|geo.?restrict", _PLACE_HINT),
        (r"HTTP Error 429|too many requests|rate.?limit", _BUSY_HINT),
    )
)
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BOILERPLATE: Final = (
    re.compile(r"[;.,]?\s*please report this issue on\b.*", re.IGNORECASE | re.DOTALL),
    re.compile(
        r"[;.,]?\s*(?:it will not be supported|(?:please )?do not open (?:an )?issues?|you might want to use a vpn"
        r"|it is recommended to use `-).*",
        re.IGNORECASE | re.DOTALL,
    ),
    re.compile(r"[;.,]?\s*confirm you are on the latest version\b.*", re.IGNORECASE | re.DOTALL),
    re.compile(r"\s*\(caused by .*", re.DOTALL),
    re.compile(r"\s*Traceback \(most recent call last\):.*", re.DOTALL),
    re.compile(r"[;.,]?\s*(?:see|use|try)\s+(?:again with\s+)?\"?--?[a-z].*", re.IGNORECASE | re.DOTALL),
)
_PREFIX: Final = re.compile(r"(?:ERROR:\s*)+(?:\[[^\]]{1,60}\]\s*)?")
_MAX_INPUT_CHARACTERS: Final = 4000
_MAX_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class ResolvedPage:
    """The link behind a page, and the page's metadata for the link."""

    link: PageLink
    facts: PageFacts


def read_page(answer: Json, admit: Callable[[SourceUri], SourceUri], proxy: str | None = None) -> ResolvedPage:
    """The page in an answer; the page was read through `proxy`. Raises `PlayError` when the answer is not valid, has no
    http link, or has a link that the node must not open."""
    page = answer.get("page") if isinstance(answer, dict) else None
    url = page.get("url") if isinstance(page, dict) else None
    if not isinstance(page, dict) or not isinstance(url, str):
        raise resolve_error("the answer of yt-dlp cannot be understood")
    link = _admitted(url, admit)
    is_live = page.get("is_live") is True
    facts = PageFacts(
        opened_uri=link.opened,
        title=text_of(page.get("title")),
        author=text_of(page.get("author")),
        length_ms=0 if is_live else milliseconds_of(page.get("length_s")),
        artwork_url=artwork_of(page.get("artwork_url")),
        is_live=is_live,
    )
    return ResolvedPage(PageLink(link, _headers(page.get("headers")), proxy), facts)


# Why a list was not read to its end, by the process's word for it.
_ENDS: Final = {
    "most": "Only the first {most} entries are taken.",
    "time": "The page takes too long to list all of its entries.",
    "bytes": "What the page says of its entries is too long.",
    "error": "The rest of the list could not be read.",
}


def read_list(answer: Json, page: SourceUri, judge: Judge, most: int) -> Playlist:
    """The permitted entries of the list at `page`; refused entries are counted in `left_out`.

    Raises `PlayError` when the answer is not valid, or when no entry is permitted.
    """
    listed = answer.get("list") if isinstance(answer, dict) else None
    given = listed.get("entries") if isinstance(listed, dict) else None
    if not isinstance(listed, dict) or not isinstance(given, list):
        raise resolve_error("the answer of yt-dlp cannot be understood")
    entries: list[PlaylistEntry] = []
    reasons: dict[str, None] = {}  # each once, in order
    selected = None
    for index, one in enumerate(given[:most]):
        try:
            entries.append(_entry(one, page, judge))
        except RequestError as error:
            reasons[error.message[:_MAX_TEXT_CHARACTERS]] = None
        else:
            if index == listed.get("selected"):
                selected = len(entries) - 1
    total, ends = listed.get("count"), listed.get("ends")
    if len(given) > most or isinstance(ends, str):
        ends = ends if isinstance(ends, str) else "most"
        reasons[_ENDS.get(ends, _ENDS["error"]).format(most=most)] = None
    if not isinstance(total, int) or not 0 <= total <= _MOST_COUNTED:
        total = len(given)
    missing = total - len(entries)
    left_out = LeftOut.because(max(missing, 1), reasons) if reasons else LeftOut()
    if not entries:
        why = (
            "it lists nothing that this node may play: " + next(iter(reasons)).rstrip(".") if reasons else "it is empty"
        )
        if page.kind == "search":
            message = f"The search has no result: {why if reasons else 'nothing was found'}."
            failure = PlayFailure(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, message, "Search for other words.")
            raise NothingFound(failure, left_out)
        raise resolve_error(why)
    return Playlist(tuple(entries), left_out, text_of(listed.get("name")) or "", selected, total=total)


def _entry(given: Json, page: SourceUri, judge: Judge) -> PlaylistEntry:
    """Raises `RequestError`."""
    if not isinstance(given, dict):
        raise BadRequest("An entry of the list is none.")
    url, item = given.get("url"), given.get("item")
    if isinstance(url, str):
        uri = parse_source_uri(url)
        if uri.kind != "http":
            raise BadRequest("An entry is not at an http or https address.")
    elif isinstance(item, int) and 0 < item <= _MOST_ITEMS and page.kind == "http":
        uri = parse_source_uri(item_of_page(page, item))
    else:
        raise BadRequest("An entry has no page of its own.")
    is_live = given.get("is_live") is True
    return PlaylistEntry(
        judge(uri),
        text_of(given.get("title")),
        text_of(given.get("author")) or "",
        length_ms=0 if is_live else milliseconds_of(given.get("length_s")),
        artwork_url=artwork_of(given.get("artwork_url")),
    )


def _admitted(url: str, admit: Callable[[SourceUri], SourceUri]) -> SourceUri:
    try:
        uri = parse_source_uri(url)
        if uri.kind != "http":
            raise resolve_error("what it plays is not at an http or https address")
        return admit(uri)
    except BadRequest as error:
        raise resolve_error(
            f"what it plays has an address that cannot be opened ({error.message.rstrip('.')})"
        ) from error
    except RequestError as error:
        raise resolve_problem(admission_error(error).failure) from error


def text_of(value: Json) -> str | None:
    if not isinstance(value, str):
        return None
    readable = "".join(" " if unicodedata.category(char) in _REFUSED_CATEGORIES else char for char in value[:4000])
    return " ".join(readable.split())[:_MAX_TEXT_CHARACTERS] or None


def milliseconds_of(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return round(value * 1000) if 0 < value <= _MAX_LENGTH_S else 0  # NaN is not in between either


def artwork_of(value: Json) -> str | None:
    if not isinstance(value, str) or len(value) > _MAX_ARTWORK_CHARACTERS:
        return None
    try:
        uri = parse_source_uri(value)
    except BadRequest:
        return None
    return uri.opened if uri.kind == "http" else None


def _headers(value: Json) -> dict[str, str]:
    if not isinstance(value, list):
        return {}
    pairs = [pair for pair in value if isinstance(pair, list) and len(pair) == 2]
    return safe_headers((name, text) for name, text in pairs if isinstance(name, str) and isinstance(text, str))


def hint_of(reason: str, *, wants_script: bool = False) -> str:
    """Advice for yt-dlp's `reason`."""
    if wants_script:
        return SCRIPT_HINT
    return next((hint for words, hint in _HINTS if words.search(reason)), _HINT)


def resolve_error(reason: str, hint: str = _HINT) -> PlayError:
    return PlayError.of(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, f"The page was not resolved: {reason}.", hint)


def resolve_problem(failure: PlayFailure) -> PlayError:
    """The error for a failure between a page and its link. A refusal keeps its code."""
    if failure.code in REFUSALS:
        return PlayError(replace(failure, stage=Stage.RESOLVE))
    return resolve_error(failure.message.rstrip("."), failure.hint)


def plain_reason(text: str) -> str:
    """yt-dlp's message as a plain line, without colours, advice for its command line, Python's causes and
    tracebacks."""
    # Without runs of blanks, in which the patterns would search for long.
    line = one_line(_ANSI.sub("", text[:_MAX_INPUT_CHARACTERS]))
    for pattern in _BOILERPLATE:
        line = pattern.sub("", line)
    line = _PREFIX.sub("", line, count=1)
    if len(line) > _MAX_CHARACTERS:
        line = line[: _MAX_CHARACTERS - 1] + "…"
    return line.rstrip(" .:;") or "yt-dlp gave no reason"

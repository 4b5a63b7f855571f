"""A page's answer, judged before anything of it is used: it was made from what a stranger wrote."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tonearm.core.errors import BadRequest, RequestError
from tonearm.core.json_value import Json
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.core.track_info import PageFacts
from tonearm.sources.http_errors import admission_error
from tonearm.sources.link_headers import LinkHeaders, safe_headers
from tonearm.sources.resolver.failures import resolve_error, resolve_problem

_MAX_TEXT_CHARACTERS: Final = 500
_MAX_ARTWORK_CHARACTERS: Final = 2048
_LONGEST_S: Final = 366 * 24 * 3600.0
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class ResolvedPage:
    """The link behind a page, what to send with it, and what the page told about it."""

    link: SourceUri
    headers: LinkHeaders
    facts: PageFacts


def read_page(answer: Json, admit: Callable[[str], SourceUri]) -> ResolvedPage:
    """Raises `PlayError` when the answer is none, is no http link, or leads to where the node must not go."""
    page = answer.get("page") if isinstance(answer, dict) else None
    url = page.get("url") if isinstance(page, dict) else None
    if not isinstance(page, dict) or not isinstance(url, str):
        raise resolve_error("the answer of yt-dlp cannot be understood")
    link = _admitted(url, admit)
    is_live = page.get("is_live") is True
    facts = PageFacts(
        opened_uri=link.opened,
        title=_text(page.get("title")),
        author=_text(page.get("author")),
        length_ms=0 if is_live else _milliseconds(page.get("length_s")),
        artwork_url=_artwork(page.get("artwork_url")),
        is_live=is_live,
    )
    return ResolvedPage(link, LinkHeaders(link, _headers(page.get("headers"))), facts)


def _admitted(url: str, admit: Callable[[str], SourceUri]) -> SourceUri:
    try:
        if parse_source_uri(url).kind != "http":
            raise resolve_error("what it plays is not at an http or https address")
        return admit(url)
    except BadRequest as error:
        raise resolve_error(
            f"what it plays has an address that cannot be opened ({error.message.rstrip('.')})"
        ) from error
    except RequestError as error:
        raise resolve_problem(admission_error(error).failure) from error


def _text(value: Json) -> str | None:
    if not isinstance(value, str):
        return None
    readable = "".join(" " if unicodedata.category(char) in _REFUSED_CATEGORIES else char for char in value[:4000])
    return " ".join(readable.split())[:_MAX_TEXT_CHARACTERS] or None


def _milliseconds(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return round(value * 1000) if 0 < value <= _LONGEST_S else 0  # NaN is not in between either


def _artwork(value: Json) -> str | None:
    if not isinstance(value, str) or len(value) > _MAX_ARTWORK_CHARACTERS:
        return None
    try:
        uri = parse_source_uri(value)
    except BadRequest:
        return None
    return uri.normalised if uri.kind == "http" else None


def _headers(value: Json) -> dict[str, str]:
    if not isinstance(value, list):
        return {}
    pairs = [pair for pair in value if isinstance(pair, list) and len(pair) == 2]
    return safe_headers((name, text) for name, text in pairs if isinstance(name, str) and isinstance(text, str))

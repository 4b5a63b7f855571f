"""Pages: the link behind one is found by yt-dlp, in processes of their own, each time that the page is opened.

It is found anew because such links expire. An answer is judged before any of it is used: a stranger wrote what it was
made from.
"""

import asyncio
import re
import sys
import unicodedata
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tonearm.core.errors import BadRequest, RequestError
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.json_value import Json, JsonObject
from tonearm.core.opened_source import OPENING, PLACE_AT_RESOLVER, RESOLVING, OpenedSource, ReportWait, ignore_wait
from tonearm.core.play_queue import Playlist
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.core.track_info import PageFacts
from tonearm.sandbox.report import SandboxMode, SandboxReport
from tonearm.sandbox.supervision import resolver_supervision
from tonearm.sources.guard import AddressGuard
from tonearm.sources.http.client import LinkHeaders, safe_headers
from tonearm.sources.http.errors import admission_error
from tonearm.sources.resolver.children import ChildBroken, ChildPool
from tonearm.sources.resolver.proxy import BAD_GATEWAY, UNREACHABLE, ForwardProxy

Fetch: TypeAlias = Callable[[SourceUri, LinkHeaders | None], Awaitable[OpenedSource | Playlist]]
COMMAND: Final = (sys.executable, "-B", "-P", "-m", "tonearm.sources.resolver")
_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_RAISE_LIMIT: Final = "Try again later, or raise resolver.timeout_ms."
_MAX_TEXT_CHARACTERS: Final = 500
_MAX_ARTWORK_CHARACTERS: Final = 2048
_MAX_LENGTH_S: Final = 366 * 24 * 3600.0
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_HINT: Final = "Open the page in a browser to see whether it plays there; an update of yt-dlp may know it better."
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BOILERPLATE: Final = (
    re.compile(r"[;.,]?\s*please report this issue on\b.*", re.IGNORECASE | re.DOTALL),
    re.compile(r"[;.,]?\s*confirm you are on the latest version\b.*", re.IGNORECASE | re.DOTALL),
    re.compile(r"\s*\(caused by .*", re.DOTALL),
    re.compile(r"\s*Traceback \(most recent call last\):.*", re.DOTALL),
    re.compile(r"[;.,]?\s*(?:see|use|try)\s+(?:again with\s+)?\"?--?[a-z].*", re.IGNORECASE | re.DOTALL),
)
_PREFIX: Final = re.compile(r"(?:ERROR:\s*)+(?:\[[^\]]{1,60}\]\s*)?")
_MAX_INPUT_CHARACTERS: Final = 4000
_MAX_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class ResolverSettings:
    """`sites` are names of yt-dlp's extractors; none, or `all`, are all but `generic`. `timeout_s` is for one page."""

    timeout_s: float = 20.0
    sites: tuple[str, ...] = ()
    memory_limit_mb: int = 1024
    pages_at_once: int = 4
    # What a page may make the node load while it is resolved.
    traffic_limit_bytes: int = 64 * 1024 * 1024
    idle_s: float = 60.0
    match_timeout_s: float = 3.0
    # Importing yt-dlp on a machine that is busy, or from a cold disk.
    start_timeout_s: float = 30.0
    command: tuple[str, ...] = COMMAND
    sandbox: SandboxMode = SandboxMode.AUTO

    @property
    def permits_generic(self) -> bool:
        return any(site.lower() == "generic" for site in self.sites)


class ResolverSetupError(Exception):
    """The resolver cannot work as it is configured; the message says why."""


@dataclass(frozen=True, slots=True)
class ResolvedPage:
    """The link behind a page, the headers to send with it, and what the page says of it."""

    link: SourceUri
    headers: LinkHeaders
    facts: PageFacts


class PageOpening:
    """Opens pages as the links behind them, and everything else as it is.

    A URI is a page when a permitted extractor is made for it, and, with `generic` permitted, when it is HTML.
    """

    def __init__(self, resolver: "PageResolver", fetch: Fetch) -> None:
        self._resolver = resolver
        self._fetch = fetch

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
        """Raises `PlayError`."""
        source = await self._direct_source(uri, report_wait)
        if source is not None:
            return source
        page = await self._resolver.resolve(uri, report_wait)
        report_wait(OPENING)
        fetched = await self._fetch(page.link, page.headers)
        return fetched if isinstance(fetched, Playlist) else fetched.found_by(page.facts)

    async def link_of(self, uri: SourceUri) -> SourceUri:
        """`uri` itself when it is no page. Raises `PlayError`."""
        if not self._resolver.resolves_any_page and not await self._resolver.is_page(uri):
            return uri  # nothing that a look at the source could change
        source = await self._direct_source(uri)
        if source is not None:
            if not isinstance(source, Playlist):
                await source.close()
            return uri
        return (await self._resolver.resolve(uri)).link

    async def _direct_source(
        self, uri: SourceUri, report_wait: ReportWait = ignore_wait
    ) -> OpenedSource | Playlist | None:
        """None for a page."""
        if await self._resolver.is_page(uri, report_wait):
            return None
        report_wait(OPENING)
        source = await self._fetch(uri, None)
        if isinstance(source, Playlist):
            return source
        if self._resolver.resolves_any_page and _is_html(source.content_type):
            await source.close()
            return None
        return source


class PageResolver:
    """Finds the links behind pages. One for the node, on its event loop, until `close`.

    `admit` and `guard` judge every address that a page leads to. One process does nothing but say which
    URIs are pages, so that links to files never wait for slow pages.
    """

    def __init__(
        self,
        guard: AddressGuard,
        admit: Callable[[SourceUri], SourceUri],
        settings: ResolverSettings,
        *,
        connect_timeout_s: float,
    ) -> None:
        self._admit = admit
        self._settings = settings
        self._proxy = ForwardProxy(guard, admit, connect_timeout_s)
        whole_command = (*settings.command, str(settings.memory_limit_mb), settings.sandbox, *settings.sites)
        self.sandbox = resolver_supervision(settings.sandbox)
        self._matching = ChildPool(
            whole_command,
            at_most=1,
            idle_s=None,
            warm_up={"op": "sites"},
            start_s=settings.start_timeout_s,
            take_note=self.sandbox.take_note,
        )
        self._resolving = ChildPool(
            whole_command,
            at_most=settings.pages_at_once,
            idle_s=settings.idle_s,
            dial=self._proxy.connection,
            take_note=self.sandbox.take_note,
        )

    async def start(self) -> None:
        """Checks that yt-dlp works and knows all sites. Raises `ResolverSetupError`, and `SandboxRequiredError` when
        its processes lack the sandbox that they must have.
        """
        try:
            answer = await self._matching.ask({"op": "sites"}, self._settings.start_timeout_s)
        except (TimeoutError, ChildBroken) as error:
            raise _does_not_work(str(error) or "it took too long to start") from error
        for sandbox in self.sandboxes:
            self.sandbox.require(sandbox)
        if isinstance(answer.get("error"), str):
            raise _does_not_work(plain_reason(str(answer["error"])))
        unknown = answer.get("unknown")
        if isinstance(unknown, list) and unknown:
            names = ", ".join(repr(name) for name in unknown)
            raise ResolverSetupError(
                f"resolver.sites: yt-dlp has no extractor named {names}; `yt-dlp --list-extractors` shows the names"
            )

    @property
    def sandboxes(self) -> list[SandboxReport]:
        """What each of the processes that run reported."""
        return [*self._matching.sandboxes, *self._resolving.sandboxes]

    @property
    def resolves_any_page(self) -> bool:
        """Whether `generic` is permitted, which looks for media in whatever is HTML."""
        return self._settings.permits_generic

    async def is_page(self, uri: SourceUri, report_wait: ReportWait = ignore_wait) -> bool:
        """Whether a permitted extractor other than `generic` is made for `uri`; False when no process answers."""
        limit_s = self._settings.match_timeout_s
        request: JsonObject = {"op": "match", "url": uri.normalised, "limit_s": limit_s}
        report_wait(PLACE_AT_RESOLVER)
        try:
            answer = await self._matching.ask(request, limit_s, lambda: report_wait(RESOLVING))
        except (TimeoutError, ChildBroken):
            return False
        return isinstance(answer.get("extractor"), str)

    async def resolve(self, uri: SourceUri, report_wait: ReportWait = ignore_wait) -> ResolvedPage:
        """What the page at `uri` plays (of a list, the first). Raises `PlayError`.

        The time limit begins when one of the few processes is free.
        """
        limit_s = self._settings.timeout_s
        try:
            async with self._proxy.issued(self._settings.traffic_limit_bytes) as issued:
                request: JsonObject = {
                    "op": "resolve",
                    "url": uri.normalised,
                    "limit_s": limit_s,
                    "proxy": self._proxy.uri_for(issued),
                    "proxy_port": self._proxy.port,
                }
                report_wait(PLACE_AT_RESOLVER)
                try:
                    answer = await self._resolving.ask(request, limit_s, lambda: report_wait(RESOLVING))
                except TimeoutError as error:
                    raise resolve_error(f"it took longer than {limit_s:g} s", _RAISE_LIMIT) from error
                except ChildBroken as error:
                    raise resolve_error(f"the process that does it failed, {error}") from error
                reason = answer.get("error")
                if isinstance(reason, str):
                    # What the proxy met is nearer to the cause than what the extractor says.
                    problem = issued.problem
                    if problem is not None and (problem.code not in UNREACHABLE or BAD_GATEWAY in reason):
                        raise resolve_problem(problem)
                    raise resolve_error(plain_reason(reason))
        except OSError as error:
            raise resolve_error(f"the node's proxy cannot listen ({error.strerror or error})") from error
        return read_page(answer, self._admit)

    async def close(self) -> None:
        """Ends all processes and connections."""
        await asyncio.gather(self._matching.close(), self._resolving.close())
        await self._proxy.close()


def _does_not_work(reason: str) -> ResolverSetupError:
    return ResolverSetupError(f"resolver.enabled is true, but the resolver's process does not work: {reason}")


def read_page(answer: Json, admit: Callable[[SourceUri], SourceUri]) -> ResolvedPage:
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


def _text(value: Json) -> str | None:
    if not isinstance(value, str):
        return None
    readable = "".join(" " if unicodedata.category(char) in _REFUSED_CATEGORIES else char for char in value[:4000])
    return " ".join(readable.split())[:_MAX_TEXT_CHARACTERS] or None


def _milliseconds(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return round(value * 1000) if 0 < value <= _MAX_LENGTH_S else 0  # NaN is not in between either


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


def _is_html(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() in _HTML_TYPES


def resolve_error(reason: str, hint: str = _HINT) -> PlayError:
    return PlayError(
        PlayFailure(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, f"The page was not resolved: {reason}.", hint)
    )


def resolve_problem(failure: PlayFailure) -> PlayError:
    """The error for a failure between a page and its link. A refusal, which is the operator's, keeps its code."""
    if failure.code in (FailureCode.SOURCE_BLOCKED, FailureCode.SOURCE_REFUSED):
        return PlayError(replace(failure, stage=Stage.RESOLVE))
    return resolve_error(failure.message.rstrip("."), failure.hint)


def plain_reason(text: str) -> str:
    """yt-dlp's own words as one plain line: no colours, advice for its command line, causes in Python or tracebacks."""
    text = _ANSI.sub("", text[:_MAX_INPUT_CHARACTERS])
    for pattern in _BOILERPLATE:
        text = pattern.sub("", text)
    text = _PREFIX.sub("", text.strip(), count=1)
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    if len(line) > _MAX_CHARACTERS:
        line = line[: _MAX_CHARACTERS - 1] + "…"
    return line.rstrip(" .:;") or "yt-dlp gave no reason"

"""Pages: yt-dlp finds the link behind a page, in a process of its own, each time that the page is opened.

Such links expire, so they are not kept. A page that lists other pages, or a search, gives the pages of its entries, and
each of them is resolved when it is to be played.
"""

import asyncio
import logging
import sys
from asyncio.subprocess import create_subprocess_exec
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote_plus

from tonearm.core.errors import LimitReached
from tonearm.core.failure import REFUSALS, FailureCode
from tonearm.core.figures import ResolverFigures
from tonearm.core.metadata import JsonObject
from tonearm.core.opened_source import (
    PLACE_AT_RESOLVER,
    PREPARING_SCRIPT,
    RESOLVING,
    ReportWait,
    ignore_wait,
)
from tonearm.core.play_queue import Playlist
from tonearm.core.printable import text_for_logs
from tonearm.core.service_links import MIRRORED_SEARCHES
from tonearm.core.source_uri import SourceUri, uri_for_logs
from tonearm.sandbox.report import SandboxMode, SandboxReport, resolver_supervision
from tonearm.sources.http.client import HttpClient
from tonearm.sources.http.errors import ProxyError
from tonearm.sources.mirrors.settings import MirrorSettings
from tonearm.sources.resolver.answers import (
    SCRIPT_HINT,
    Judge,
    ResolvedPage,
    hint_of,
    plain_reason,
    read_list,
    read_page,
    resolve_error,
    resolve_problem,
)
from tonearm.sources.resolver.children import ChildBroken, ChildPool, StartProcess
from tonearm.sources.resolver.messages import YOUTUBE_MUSIC_SEARCH, Message
from tonearm.sources.resolver.page_requests import BadQuestion, PageRequests
from tonearm.sources.resolver.scripts import PREPARER, PreparedScripts
from tonearm.sources.resolver.site_keys import CookiesFile, CookiesProblem, Proxies, SiteKeys

COMMAND: Final = (sys.executable, "-B", "-P", "-m", "tonearm.sources.resolver.child")
_DECIDED: Final = REFUSALS | {FailureCode.LIMIT_EXCEEDED}  # whatever the extractor made of it
_RAISE_LIMIT: Final = "Try again later, or raise resolver.timeout_ms."
MAX_LISTED: Final = 500
DEFAULT_SEARCH: Final = "ytsearch"
_MAX_LOGGED_CHARACTERS: Final = 500
_MATCHERS: Final = 2
_SCRIPTS_OF_A_PAGE: Final = 3  # YouTube's clients have one each
# Which URIs are pages does not change while the node runs, so that is kept, but not for longer URIs.
_KNOWN_URIS: Final = 4096
_MOST_KNOWN_CHARACTERS: Final = 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResolverSettings:
    """`sites` are names of yt-dlp's extractors; no names, or `all`, stand for all but `generic`. `timeout_s` is for one
    page. `start_process` starts the programs that read pages, by `command`."""

    timeout_s: float = 20.0
    sites: tuple[str, ...] = ()
    memory_limit_mb: int = 1024
    pages_at_once: int = 4
    # How much a page may make the node load while it is resolved.
    traffic_limit_bytes: int = 64 * 1024 * 1024
    idle_s: float = 60.0
    match_timeout_s: float = 3.0
    # For importing yt-dlp, on a busy machine or from a slow disk.
    start_timeout_s: float = 30.0
    command: tuple[str, ...] = COMMAND
    preparer: tuple[str, ...] = PREPARER
    javascript: bool = True
    # Where prepared scripts are kept over restarts.
    scripts_folder: Path | None = None
    sandbox: SandboxMode = SandboxMode.AUTO
    start_process: StartProcess = create_subprocess_exec
    mirrors: MirrorSettings = field(default_factory=MirrorSettings)
    default_search: str = DEFAULT_SEARCH
    keys: SiteKeys = field(default_factory=SiteKeys)


class ResolverSetupError(Exception):
    """The resolver cannot work as it is configured; the message says why."""


class PageResolver:
    """Finds the links behind pages. One for the node, on its event loop, until `close`.

    `client` makes the requests of pages; `admit` checks the links that pages give. Separate processes only say which
    URIs are pages, so that links to files never wait for slow pages.
    """

    def __init__(self, client: HttpClient, admit: Callable[[SourceUri], SourceUri], settings: ResolverSettings) -> None:
        self._client = client
        self._admit = admit
        self._settings = settings
        self._cookies = CookiesFile(settings.keys.cookies_file)
        self._proxies = Proxies(settings.keys.proxies)
        self._client_places = asyncio.Semaphore(max(1, settings.pages_at_once // 2))
        # The permitted sites that can be searched, by the key before the words of a search. Known after `start`.
        self.searches: Mapping[str, str] = {}
        self._is_page: OrderedDict[str, bool] = OrderedDict()  # by URI, the oldest first
        runs_scripts = "true" if settings.javascript else "false"
        memory_limit_mb = str(settings.memory_limit_mb)
        whole_command = (*settings.command, memory_limit_mb, settings.sandbox, runs_scripts, *settings.sites)
        self.sandbox = resolver_supervision(settings.sandbox)
        self.scripts = PreparedScripts(settings.scripts_folder, self.sandbox, settings.preparer)
        self._matching = ChildPool(
            whole_command,
            at_most=_MATCHERS,
            idle_s=settings.idle_s,
            keeps_one=True,
            warm_up={"op": "sites"},
            start_process=settings.start_process,
            start_s=settings.start_timeout_s,
            take_note=self.sandbox.take_note,
        )
        self._resolving = ChildPool(
            whole_command,
            at_most=settings.pages_at_once,
            idle_s=settings.idle_s,
            warm_up={"op": "start"},  # a page's time limit does not include the start, which may take long
            start_process=settings.start_process,
            start_s=settings.start_timeout_s,
            take_note=self.sandbox.take_note,
        )

    @property
    def figures(self) -> ResolverFigures:
        return ResolverFigures(self._resolving.working, self._resolving.waiting)

    async def start(self) -> None:
        """Checks that yt-dlp works and knows all sites. Raises `ResolverSetupError`, and `SandboxRequiredError` when
        its processes lack the sandbox that they must have.
        """
        try:
            self._cookies.require()
        except CookiesProblem as error:
            raise ResolverSetupError(f"resolver.cookies_file: {error}") from error
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
        extractors = answer.get("extractors")
        their_names = ["youtubepot", *map(str, extractors)] if isinstance(extractors, list) else []
        for site in self._settings.keys.extractor_args if their_names else ():
            # The part after a dash names a provider of yt-dlp, for example of tokens.
            if site.partition("-")[0] not in their_names:
                raise ResolverSetupError(
                    f"resolver.extractor_args: yt-dlp has no extractor {site!r}; its names are in small letters, such "
                    "as youtube"
                )
        known = answer.get("known")
        there_are = sorted(map(str, known)) if isinstance(known, list) else []
        wanted = [("mirror.search", key) for key in self._settings.mirrors.search]
        for place, key in (*wanted, ("resolver.default_search", self._settings.default_search)):
            if there_are and key not in (*there_are, *MIRRORED_SEARCHES):
                raise ResolverSetupError(f"{place}: yt-dlp has no search {key!r}; there are {', '.join(there_are)}")
        searches = answer.get("searches")
        if isinstance(searches, dict):
            self.searches = {key: str(site) for key, site in searches.items()}

    @property
    def default_search(self) -> str:
        return self._settings.default_search

    @property
    def sandboxes(self) -> list[SandboxReport]:
        return [*self._matching.sandboxes, *self._resolving.sandboxes]

    @property
    def resolves_any_page(self) -> bool:
        """Whether `generic` is permitted, which finds media in any HTML."""
        return "generic" in map(str.lower, self._settings.sites)

    @asynccontextmanager
    async def _place_for_client(self) -> AsyncIterator[None]:
        """A place for a page that a client waits for (`for_client`). These take half of the processes at most, since
        players need them.

        Raises `LimitReached` when there is no place within the time limit of a page.
        """
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                await self._client_places.acquire()
        except TimeoutError as error:
            raise LimitReached("The resolver is busy. Try again later.") from error
        try:
            yield
        finally:
            self._client_places.release()

    async def is_page(self, uri: SourceUri, report_wait: ReportWait = ignore_wait) -> bool | None:
        """Whether a permitted extractor other than `generic` is made for `uri`. None when no process has answered
        within `match_timeout_s`, since a link to a file must not wait for the processes.
        """
        return await self._matched(uri, self._settings.match_timeout_s, report_wait)

    async def is_page_after_all(self, uri: SourceUri, report_wait: ReportWait = ignore_wait) -> bool:
        """As `is_page`, but waits for the answer as long as for a page; False without one."""
        return bool(await self._matched(uri, self._settings.timeout_s, report_wait))

    async def _matched(self, uri: SourceUri, limit_s: float, report_wait: ReportWait) -> bool | None:
        url = uri.page[0]
        known = self._is_page.get(url)
        if known is not None:
            self._is_page.move_to_end(url)
            return known
        is_asked = False

        def begins() -> None:
            nonlocal is_asked
            is_asked = True
            report_wait(RESOLVING)

        report_wait(PLACE_AT_RESOLVER)
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._matching.ask({"op": "match", "url": url, "limit_s": limit_s}, limit_s, begins)
        except (TimeoutError, ChildBroken) as error:
            if is_asked:  # only the call that asked logs, so that a process that hangs is a single line
                reason = str(error) or f"no answer within {limit_s:g} s"
                shown = uri_for_logs(url)[:_MAX_LOGGED_CHARACTERS]
                log.warning(
                    "the node could not find out whether a URI is a page (%s); it is opened as it is: %s", reason, shown
                )
            return None
        is_page = isinstance(answer.get("extractor"), str)
        if "error" not in answer and len(url) <= _MOST_KNOWN_CHARACTERS:
            self._is_page[url] = is_page
            if len(self._is_page) > _KNOWN_URIS:
                self._is_page.popitem(last=False)
        return is_page

    async def resolve(
        self, uri: SourceUri, report_wait: ReportWait = ignore_wait, *, for_client: bool = False
    ) -> ResolvedPage:
        """The link that the page at `uri` plays; for a list the link of the first item, or of the item that `uri`
        names. Raises `PlayError`, and `LimitReached` for a client."""
        url, item = uri.page
        answer, proxy = await self._answer({"op": "resolve", "url": url, "item": item}, report_wait, for_client)
        return read_page(answer, self._admit, proxy)

    async def open(
        self,
        uri: SourceUri,
        judge: Judge,
        report_wait: ReportWait = ignore_wait,
        *,
        whole: bool = False,
        for_client: bool = False,
    ) -> ResolvedPage | Playlist:
        """As `resolve`, but a page with several entries gives all entries, up to `MAX_LISTED`, unresolved.

        `whole`: the list is returned even if `uri` names one of its entries, or if it has only one. Raises `PlayError`.
        """
        url, item = uri.page
        if item is not None:
            return await self.resolve(uri, report_wait, for_client=for_client)
        question: JsonObject = {"op": "open", "url": url, "most": MAX_LISTED, "whole": whole}
        answer, proxy = await self._answer(question, report_wait, for_client)
        if "list" not in answer:
            return read_page(answer, self._admit, proxy)
        # In a thread: admitting hundreds of entries takes some ms.
        listed = await asyncio.to_thread(read_list, answer, uri, judge, MAX_LISTED)
        if listed.left_out.count:
            reasons = text_for_logs(" ".join(listed.left_out.reasons))[:_MAX_LOGGED_CHARACTERS]
            log.warning(
                "%d entries of a page are left out: %s (of %s)", listed.left_out.count, reasons, uri_for_logs(url)
            )
        return listed

    async def search(
        self,
        uri: SourceUri,
        judge: Judge,
        limit: int,
        report_wait: ReportWait = ignore_wait,
        *,
        for_client: bool = False,
    ) -> Playlist:
        """The first results that this node may play, at least one. Raises as `resolve`."""
        numbered = f"{uri.search_key}{limit}:{uri.path}"
        if uri.search_key == YOUTUBE_MUSIC_SEARCH:
            numbered = f"https://music.youtube.com/search?q={quote_plus(uri.path)}#songs"
        question: JsonObject = {"op": "open", "url": numbered, "most": limit, "whole": True}
        answer, _ = await self._answer(question, report_wait, for_client)
        return await asyncio.to_thread(read_list, answer, uri, judge, limit)

    async def _answer(
        self, question: JsonObject, report_wait: ReportWait, for_client: bool
    ) -> tuple[JsonObject, str | None]:
        """The answer of a process, and the proxy of its requests.

        While the script of a page is being prepared, the page occupies no process; then it is requested again. After a
        failure of the proxy the page is requested again through the next proxy. Raises as `resolve`.
        """
        scripts, other_proxies = _SCRIPTS_OF_A_PAGE, len(self._proxies) - 1
        while True:
            proxy = self._proxies.next()
            try:
                async with self._place_for_client() if for_client else nullcontext():
                    answer, preparing = await self._answer_once(question, proxy, report_wait)
            except ProxyError as error:
                self.proxy_failed(proxy, error)
                if other_proxies <= 0:
                    raise resolve_problem(error.failure) from error
                other_proxies -= 1
                continue
            if "pending" not in answer or preparing is None:
                return answer, proxy
            if not scripts:
                raise resolve_error("it wants a script prepared again and again", SCRIPT_HINT)
            scripts -= 1
            report_wait(PREPARING_SCRIPT)
            await asyncio.shield(preparing)

    def proxy_failed(self, proxy: str | None, error: ProxyError) -> None:
        """`proxy` is not used for a while, unless there is no other."""
        if proxy is not None:
            self._proxies.failed(proxy, error.failure.message)

    async def _answer_once(
        self, question: JsonObject, proxy: str | None, report_wait: ReportWait
    ) -> tuple[JsonObject, asyncio.Task[None] | None]:
        """The answer of a process, and the script that the page waits for. The time limit begins when a process is
        free. Raises `PlayError`, or its subclass `ProxyError` when the proxy is at fault."""
        limit_s = self._settings.timeout_s
        async with PageRequests(self._client, self._settings.traffic_limit_bytes, proxy) as requests:
            serving = _Serving(requests, self.scripts)
            head: JsonObject = {**question, "limit_s": limit_s, "extractor_args": self._settings.keys.arguments()}
            request = Message(head, self._cookies.cookies())
            report_wait(PLACE_AT_RESOLVER)
            try:
                answer = await self._resolving.exchange(request, limit_s, lambda: report_wait(RESOLVING), serving.reply)
            except TimeoutError as error:
                raise resolve_error(f"it took longer than {limit_s:g} s", _RAISE_LIMIT) from error
            except ChildBroken as error:
                raise resolve_error(f"the process that does it failed, {error}") from error
            reason = answer.head.get("error")
            if isinstance(reason, str):
                # The node's own failure is nearer to the cause than the extractor's message.
                problem = requests.problem
                if problem is not None and requests.is_proxy_at_fault:
                    raise ProxyError(problem)
                if problem is not None and (problem.code in _DECIDED or problem.message.rstrip(".") in reason):
                    raise resolve_problem(problem)
                raise resolve_error(
                    plain_reason(reason), hint_of(reason, wants_script=answer.head.get("script") is True)
                )
        return answer.head, serving.preparing

    @property
    def has_room(self) -> bool:
        """Whether no request waits for a process, and half of the processes are free."""
        busy = self._resolving.working
        return not self._resolving.waiting and 2 * busy < self._settings.pages_at_once

    async def close(self) -> None:
        await asyncio.gather(self._matching.close(), self._resolving.close(), self.scripts.close())


class _Serving:
    """Replies to the requests of a process that resolves a page. `preparing` is the script that the page waits for."""

    def __init__(self, requests: PageRequests, scripts: PreparedScripts) -> None:
        self._requests = requests
        self._scripts = scripts
        self.preparing: asyncio.Task[None] | None = None

    async def reply(self, what: str, question: Message) -> Message:
        """Raises `ChildBroken`."""
        try:
            match what:
                case "send":
                    return await self._requests.send(question.head, question.body)
                case "read":
                    return await self._requests.read(question.head)
                case "script":
                    reply, self.preparing = await self._scripts.reply(question.head.get("key"))
                    return reply
                case "prepare":
                    if self.preparing is not None:
                        raise BadQuestion("it wants more than one script prepared")
                    reply, self.preparing = await self._scripts.prepare(question.body)
                    return reply
        except BadQuestion as error:
            raise ChildBroken(str(error)) from error
        raise ChildBroken("it asks for what it may not have")


def _does_not_work(reason: str) -> ResolverSetupError:
    return ResolverSetupError(f"resolver.enabled is true, but the resolver's process does not work: {reason}")

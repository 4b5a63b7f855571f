"""Finds the link behind a page, with yt-dlp in processes of their own."""

import asyncio
from collections.abc import Callable
from typing import Final

from tonearm.core.json_value import JsonObject
from tonearm.core.source_uri import SourceUri
from tonearm.sources.address_guard import AddressGuard
from tonearm.sources.resolver.child_pool import ChildPool
from tonearm.sources.resolver.child_process import ChildBroken
from tonearm.sources.resolver.failures import plain_reason, resolve_error, resolve_problem
from tonearm.sources.resolver.forward_proxy import BAD_GATEWAY, UNREACHABLE, ForwardProxy
from tonearm.sources.resolver.resolved_page import ResolvedPage, read_page
from tonearm.sources.resolver.settings import ResolverSettings

_RAISE_LIMIT: Final = "Try again later, or raise resolver.timeout_ms."


class ResolverSetupError(Exception):
    """The resolver cannot work as it is configured; the message says why."""


class PageResolver:
    """One for the node, on its event loop, until `close`. `admit` and `guard` judge all that a page leads to.

    Whether a URI is a page is asked of a process of its own, so that links to files never wait for slow pages.
    """

    def __init__(
        self,
        guard: AddressGuard,
        admit: Callable[[str], SourceUri],
        settings: ResolverSettings,
        *,
        connect_timeout_s: float,
    ) -> None:
        self._admit = admit
        self._settings = settings
        self._proxy = ForwardProxy(guard, admit, connect_timeout_s)
        whole_command = (*settings.command, str(settings.memory_limit_mb), *settings.sites)
        self._matching = ChildPool(
            whole_command, at_most=1, idle_s=None, warm_up={"op": "sites"}, start_s=settings.start_timeout_s
        )
        self._resolving = ChildPool(whole_command, at_most=settings.pages_at_once, idle_s=settings.idle_s)

    async def start(self) -> None:
        """Sees whether yt-dlp works and knows all sites. Raises `ResolverSetupError`."""
        try:
            answer = await self._matching.ask({"op": "sites"}, self._settings.start_timeout_s)
        except (TimeoutError, ChildBroken) as error:
            raise _does_not_work(str(error) or "it took too long to start") from error
        if isinstance(answer.get("error"), str):
            raise _does_not_work(plain_reason(str(answer["error"])))
        unknown = answer.get("unknown")
        if isinstance(unknown, list) and unknown:
            names = ", ".join(repr(name) for name in unknown)
            raise ResolverSetupError(
                f"resolver.sites: yt-dlp has no extractor named {names}; `yt-dlp --list-extractors` shows the names"
            )

    @property
    def resolves_any_page(self) -> bool:
        """Whether `generic` is permitted, which looks for media in whatever is HTML."""
        return self._settings.permits_generic

    async def is_page(self, uri: SourceUri) -> bool:
        """Whether a permitted extractor other than `generic` is made for `uri`. What cannot be told is no page."""
        limit_s = self._settings.match_timeout_s
        request: JsonObject = {"op": "match", "url": uri.normalised, "limit_s": limit_s}
        try:
            answer = await self._matching.ask(request, limit_s)
        except (TimeoutError, ChildBroken):
            return False
        return isinstance(answer.get("extractor"), str)

    async def resolve(self, uri: SourceUri) -> ResolvedPage:
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
                try:
                    answer = await self._resolving.ask(request, limit_s)
                except TimeoutError as error:
                    raise resolve_error(f"it took longer than {limit_s:g} s", _RAISE_LIMIT) from error
                except ChildBroken as error:
                    raise resolve_error(f"the process that does it failed, {error}") from error
                reason = answer.get("error")
                if isinstance(reason, str):
                    # What the proxy saw is nearer to the cause than what the extractor made of it.
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

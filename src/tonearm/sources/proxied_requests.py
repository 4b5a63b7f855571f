"""Stricter rules for requests that came through a proxy, where the configuration says "auto"."""

import logging
from dataclasses import replace

from tonearm.core.figures import ResolverFigures
from tonearm.core.opened_source import OpenedSource, ReportWait, ignore_wait
from tonearm.core.play_queue import Playlist, PlaylistEntry
from tonearm.core.policy import SourcePolicy, auto_allows
from tonearm.core.source_uri import SourceUri
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.opener import PrivateNetworks, SourceOpener
from tonearm.sources.resolver.pages import ResolverSettings
from tonearm.sources.sounds import Sounds

log = logging.getLogger(__name__)


def source_opener(
    policy: SourcePolicy,
    private_networks: PrivateNetworks,
    settings: FetchSettings,
    resolver: ResolverSettings | None,
    sounds: Sounds | None = None,
) -> SourceOpener:
    """The opener of a node whose `sources.private_networks` is as given; its policy knows `sources.files`."""
    sounds = sounds or Sounds()
    is_private = policy.listens_on_loopback_only
    strict_policy = replace(policy, came_through_proxy=True)
    direct, proxied = (
        auto_allows(private_networks, listens_on_loopback_only=is_private, came_through_proxy=came_through_proxy)
        for came_through_proxy in (False, True)
    )
    if (policy.allows_files, direct) == (strict_policy.allows_files, proxied):
        return SourceOpener(policy, private_networks=direct, settings=settings, resolver=resolver, sounds=sounds)
    strict = SourceOpener(strict_policy, private_networks=proxied, settings=settings, resolver=resolver, sounds=sounds)
    return _OpenerForBoth(policy, strict, private_networks=direct, settings=settings, resolver=resolver, sounds=sounds)


class _OpenerForBoth(SourceOpener):
    """Gives a URI that came through a proxy, and all that it leads to, to `strict`, whenever it is opened."""

    def __init__(
        self,
        policy: SourcePolicy,
        strict: SourceOpener,
        *,
        private_networks: bool,
        settings: FetchSettings,
        resolver: ResolverSettings | None,
        sounds: Sounds,
    ) -> None:
        super().__init__(policy, private_networks=private_networks, settings=settings, resolver=resolver, sounds=sounds)
        self._strict = strict
        self._has_told = False

    @property
    def resolver_figures(self) -> ResolverFigures | None:
        one, other = super().resolver_figures, self._strict.resolver_figures
        if one is None or other is None:
            return one
        return ResolverFigures(one.working + other.working, one.waiting + other.waiting)

    async def start(self) -> None:
        await super().start()
        self._strict.share_with(self)

    def add_own_address(self, host: str, port: int) -> None:
        super().add_own_address(host, port)
        self._strict.add_own_address(host, port)

    def admit(self, uri: SourceUri) -> SourceUri:
        if not uri.came_through_proxy:
            return super().admit(uri)
        if not self._has_told:
            self._has_told = True
            log.info(
                'a request came through a proxy (it has X-Forwarded-For, Forwarded or Via): for such requests "auto" '
                "opens neither local files (sources.files) nor addresses of private networks "
                "(sources.private_networks)"
            )
        return self._strict.admit(uri)

    def require_files(self, *, came_through_proxy: bool) -> None:
        if came_through_proxy:
            self._strict.require_files(came_through_proxy=True)
        else:
            super().require_files(came_through_proxy=False)

    async def open(self, uri: SourceUri, report_wait: ReportWait = ignore_wait) -> OpenedSource | Playlist:
        return await (self._strict.open(uri, report_wait) if uri.came_through_proxy else super().open(uri, report_wait))

    async def open_direct(self, uri: SourceUri) -> OpenedSource | Playlist | None:
        return await (self._strict.open_direct(uri) if uri.came_through_proxy else super().open_direct(uri))

    async def open_list(self, uri: SourceUri) -> Playlist:
        return await (self._strict.open_list(uri) if uri.came_through_proxy else super().open_list(uri))

    async def look_up(self, uri: SourceUri) -> PlaylistEntry | Playlist | None:
        return await (self._strict.look_up(uri) if uri.came_through_proxy else super().look_up(uri))

    async def page_facts(self, uri: SourceUri) -> PlaylistEntry | None:
        return await (self._strict.page_facts(uri) if uri.came_through_proxy else super().page_facts(uri))

    async def search(self, uri: SourceUri, limit: int) -> Playlist:
        return await (self._strict.search(uri, limit) if uri.came_through_proxy else super().search(uri, limit))

    async def direct_uri(self, uri: SourceUri) -> str:
        return await (self._strict.direct_uri(uri) if uri.came_through_proxy else super().direct_uri(uri))

    async def close(self) -> None:
        await self._strict.close()
        await super().close()

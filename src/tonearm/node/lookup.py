"""Tracks without a player: what a URI is, what a playlist or a page lists, what a search finds."""

import asyncio
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.errors import (
    BadRequest,
    LoadFailed,
    RequestError,
    ResolveFailed,
    ResolverDisabled,
    SourceBlocked,
    SourceRefused,
)
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.play_queue import LeftOut, NothingFound, Playlist
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import SourceUri, initial_track_info, parse_source_uri
from tonearm.core.track import Track
from tonearm.core.track_info import TrackInfo
from tonearm.decoder.opening.track_loader import TrackLoader
from tonearm.interop.track_codec import is_encoded_track
from tonearm.sources.opener import SourceOpener

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundTracks:
    """The entries of a playlist, or what a search found. `name` is empty without one, `selected` -1 for none."""

    tracks: tuple[Track, ...]
    left_out: LeftOut
    name: str = ""
    selected: int = -1


class Lookup:
    """Finds tracks by `loader` and `opener`. `came_through_proxy`: whether a proxy passed the request on."""

    def __init__(self, opener: SourceOpener, loader: TrackLoader) -> None:
        self._opener = opener
        self._loader = loader

    async def load(self, identifier: str, *, came_through_proxy: bool) -> TrackInfo | PlayFailure:
        """What is known of a source when it was opened, or why it cannot be played. Raises `SourceBlocked` and
        `SourceRefused`."""
        if is_encoded_track(identifier):
            return _no_source("That is an encoded track.", "Decode it with GET /v0/decodetrack.")
        try:
            uri = self._opener.admit(client_uri(identifier, came_through_proxy))
        except BadRequest as error:
            return _no_source(error.message, "Give an http or https URI, the path of a file, or a search.")
        try:
            facts = await self._loader.load(uri)
        except PlayError as error:
            if error.failure.code in _REFUSALS:
                raise request_error(error.failure, LoadFailed) from error
            message = text_for_logs(f"{error.failure.message} {error.failure.hint}")
            log.info("a source was asked for that cannot be loaded: %s: %s", text_for_logs(identifier), message)
            return error.failure
        return initial_track_info(uri).with_facts(facts)

    async def load_playlist(self, identifier: str, *, came_through_proxy: bool) -> FoundTracks:
        """All entries of a playlist, a page or a search; none of them is opened.

        Raises `BadRequest`, `LoadFailed`, `ResolveFailed`, `SourceBlocked`, `SourceRefused` and `LimitReached`.
        """
        uri = self._opener.admit(client_uri(identifier, came_through_proxy))
        try:
            playlist = await self._opener.open_list(uri)
        except PlayError as error:
            is_of_resolver = error.failure.code is FailureCode.RESOLVE_FAILED
            raise request_error(error.failure, ResolveFailed if is_of_resolver else LoadFailed) from error
        return await _found(playlist)

    async def search(self, words: str, site: str, limit: int, *, came_through_proxy: bool) -> FoundTracks:
        """The first `limit` tracks that `site` finds; none of them is opened.

        Raises `ResolverDisabled`, `BadRequest`, `ResolveFailed`, `SourceBlocked`, `SourceRefused`, `LimitReached`.
        """
        key = self._opener.search_key(site)
        uri = self._opener.admit(client_uri(f"{key}:{words}", came_through_proxy))
        try:
            return await _found(await self._opener.search(uri, limit))
        except NothingFound as nothing:
            return FoundTracks((), nothing.left_out)
        except PlayError as error:
            raise request_error(error.failure, ResolveFailed) from error

    async def resolve(self, url: str, *, came_through_proxy: bool) -> str:
        """The direct URL or path of what `url` plays.

        Raises `ResolverDisabled`, `ResolveFailed`, `BadRequest`, `SourceBlocked`, `SourceRefused` and `LimitReached`.
        """
        if not self._opener.resolves_pages:
            raise ResolverDisabled("The resolver is disabled on this node; give direct URLs, or set resolver.enabled.")
        try:
            return await self._opener.direct_uri(client_uri(url, came_through_proxy))
        except PlayError as error:
            raise request_error(error.failure, ResolveFailed) from error


def client_uri(text: str, came_through_proxy: bool) -> SourceUri:
    """The URI that a client wrote. `came_through_proxy` is kept in it, for the policy. Raises `BadRequest`."""
    return replace(parse_source_uri(text, takes_search=True), came_through_proxy=came_through_proxy)


# Failures that are refusals, as of a redirect, an address or a symbolic link.
_REFUSALS: Final[Mapping[FailureCode, type[RequestError]]] = {
    FailureCode.SOURCE_BLOCKED: SourceBlocked,
    FailureCode.SOURCE_REFUSED: SourceRefused,
}


def request_error(failure: PlayFailure, kind: type[RequestError]) -> RequestError:
    """The failure as an error of the request: a refusal, or else one of this kind."""
    return _REFUSALS.get(failure.code, kind)(f"{failure.message} {failure.hint}")


async def _found(playlist: Playlist) -> FoundTracks:
    # In a thread: making hundreds of tracks takes some ms.
    tracks = await asyncio.to_thread(playlist.tracks, uuid.uuid4, {})
    selected = -1 if playlist.selected is None else playlist.selected
    return FoundTracks(tracks, playlist.left_out, playlist.name, selected)


def _no_source(message: str, hint: str) -> PlayFailure:
    return PlayFailure(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, message, hint)

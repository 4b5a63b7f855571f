"""Openers and HTTP sources with the short timeouts that tests have."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

import pytest

from tonearm.core.failure import PlayError, PlayFailure
from tonearm.core.opened_source import OpenedSource
from tonearm.core.play_queue import Playlist
from tonearm.core.policy import Pattern, SourcePolicy
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.sources.guard import AddressGuard
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.opener import SourceOpener
from tonearm.sources.resolver.pages import ResolverSettings

QUICK: Final = FetchSettings(
    user_agent="tonearm-test/1",
    connect_timeout_s=5.0,
    headers_timeout_s=5.0,
    stall_timeout_s=5.0,
    read_ahead_bytes=128 * 1024,
    open_retry_delays_s=(0.0, 0.0),
    resume_delays_s=(0.0, 0.0, 0.0, 0.0, 0.0),
    live_resume_delays_s=(0.0, 0.0, 0.0, 0.0, 0.0),
    live_refresh_at_least_s=0.02,
)
# For the tests in which a server says nothing: the time that each of them takes. In some of them the server answers
# before, for which a busy machine needs a while.
IMPATIENT: Final = dataclasses.replace(QUICK, connect_timeout_s=1.0, headers_timeout_s=1.0, stall_timeout_s=1.0)


@contextlib.asynccontextmanager
async def opener(
    *,
    blocked: Sequence[Pattern] = (),
    files: bool | tuple[str, ...] = True,
    private_networks: bool = True,
    own_addresses: Iterable[tuple[str, int]] = (),
    settings: FetchSettings = QUICK,
    resolver: ResolverSettings | None = None,
    **network: Any,
) -> AsyncIterator[SourceOpener]:
    """`network` are other options of `AddressGuard`."""
    policy = SourcePolicy((), blocked, files)
    guard = AddressGuard(private_networks=private_networks, **network)
    made = SourceOpener(policy, private_networks=private_networks, settings=settings, resolver=resolver, guard=guard)
    for host, port in own_addresses:
        made.add_own_address(host, port)
    try:
        yield made
    finally:
        await made.close()


@contextlib.asynccontextmanager
async def opened(uri: str, settings: FetchSettings = QUICK, **options: Any) -> AsyncIterator[OpenedSource]:
    """A source that is fetched, closed at the end together with its client. `options` are those of `opener`."""
    async with opener(settings=settings, **options) as source_opener:
        source = await opened_by(source_opener, uri)
        try:
            yield source
        finally:
            await source.close()


async def opened_by(source_opener: SourceOpener, uri: str | SourceUri) -> OpenedSource:
    source = await source_opener.open(parse_source_uri(uri) if isinstance(uri, str) else uri)
    assert isinstance(source, OpenedSource)
    return source


async def body_of(source_opener: SourceOpener, uri: str | SourceUri) -> tuple[bytes, OpenedSource]:
    """Everything of a source, which is closed then, and what was known of it."""
    source = await opened_by(source_opener, uri)
    try:
        return await read_all(source), source
    finally:
        await source.close()


async def playlist_of(uri: str, settings: FetchSettings = QUICK, **options: Any) -> Playlist:
    async with opener(settings=settings, **options) as source_opener:
        playlist = await source_opener.open(parse_source_uri(uri))
        assert isinstance(playlist, Playlist)
        return playlist


async def failure_of(uri: str, settings: FetchSettings = QUICK, **options: Any) -> PlayFailure:
    """Why it cannot be opened."""
    async with opener(settings=settings, **options) as source_opener:
        return await opening_fails(source_opener, uri)


async def opening_fails(source_opener: SourceOpener, uri: str) -> PlayFailure:
    with pytest.raises(PlayError) as caught:
        await source_opener.open(parse_source_uri(uri))
    return caught.value.failure


async def read_all(source: OpenedSource, offset: int = 0) -> bytes:
    """Everything from `offset` to the end."""
    parts: list[bytes] = []
    while part := await source.reader.read_at(offset, 64 * 1024):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


async def parts_of(source: OpenedSource, offset: int = 0) -> list[bytes]:
    """What is read from `offset` on up to each end of a part; two ends in a row are the end of the whole."""
    parts: list[bytes] = []
    while part := await read_all(source, offset):
        parts.append(part)
        offset += len(part)
    return parts


async def read_bytes(source: OpenedSource, count: int, offset: int = 0) -> bytes:
    """Just so many from `offset` on."""
    got = b""
    while len(got) < count:
        data = await source.reader.read_at(offset + len(got), count - len(got))
        assert data, "it has not ended"
        got += data
    return got


async def read_until_failure(source: OpenedSource) -> tuple[bytes, PlayError]:
    """What could be read from the start, and the failure that ended it."""
    parts: list[bytes] = []
    offset = 0
    while True:
        try:
            part = await source.reader.read_at(offset, 64 * 1024)
        except PlayError as error:
            return b"".join(parts), error
        assert part, "the source ended without a failure"
        parts.append(part)
        offset += len(part)

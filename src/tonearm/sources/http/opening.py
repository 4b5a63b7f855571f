"""Asks for a URI and sees what it is: a remote file, or a station that never ends."""

import asyncio
from typing import Final

import aiohttp

from tonearm.core.byte_source import ByteSource
from tonearm.sources.fetch_settings import FetchSettings
from tonearm.sources.http.client import HttpClient, LinkHeaders
from tonearm.sources.http.errors import PassingError
from tonearm.sources.http.facts import empty_error, remote_file
from tonearm.sources.http.file import HttpSource
from tonearm.sources.http.radio import TITLES_WANTED, RadioSource

# Everything, and whether parts can be had. Titles are only asked for here: in a file they would be damage.
_FIRST_HEADERS: Final = (("Range", "bytes=0-"), TITLES_WANTED)


async def open_http(
    client: HttpClient, uri: str, settings: FetchSettings, link_headers: LinkHeaders | None = None
) -> ByteSource:
    """Asks for the whole by a range request, again when that fails in passing. Raises `PlayError`."""
    for delay_s in settings.open_retry_delays_s:
        try:
            return await _open_once(client, uri, settings, link_headers)
        except PassingError:
            await asyncio.sleep(delay_s)
    return await _open_once(client, uri, settings, link_headers)


async def _open_once(
    client: HttpClient, uri: str, settings: FetchSettings, link_headers: LinkHeaders | None
) -> ByteSource:
    response = await client.get(uri, dict(_FIRST_HEADERS), link_headers)
    try:
        if response.status == 416:
            response = await _without_range(client, uri, response, link_headers)
        file = remote_file(uri, response, link_headers)
    except BaseException:
        response.close()
        raise
    kind = RadioSource if file.is_live else HttpSource
    return kind(client, file, settings, response)


async def _without_range(
    client: HttpClient, uri: str, response: aiohttp.ClientResponse, link_headers: LinkHeaders | None
) -> aiohttp.ClientResponse:
    """An empty file has no range from 0; other servers just dislike the request."""
    response.close()
    if response.headers.get("Content-Range", "").replace(" ", "").endswith("*/0"):
        raise empty_error(response.url.host or "")
    return await client.get(uri, dict((TITLES_WANTED,)), link_headers)

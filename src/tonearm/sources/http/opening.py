"""Opening a URI over HTTP: by the answer it is a remote file, or a radio station that never ends."""

import asyncio
from collections.abc import Mapping
from typing import Final

from tonearm.core.opened_source import OpenedSource
from tonearm.core.source_uri import SourceUri
from tonearm.sources.fetch_settings import FetchSettings
from tonearm.sources.http.client import Answer, HttpClient
from tonearm.sources.http.errors import PassingError
from tonearm.sources.http.facts import empty_error, remote_file
from tonearm.sources.http.file import HttpFileReader
from tonearm.sources.http.link_headers import LinkHeaders
from tonearm.sources.http.radio import TITLES_WANTED, RadioReader, station_name

# The whole, as a range, which shows whether parts can be had, and titles, which later requests for a file do not ask
# for: they would damage it.
_FIRST_HEADERS: Final[Mapping[str, str]] = {"Range": "bytes=0-", **TITLES_WANTED}


async def open_http(
    client: HttpClient, uri: SourceUri, settings: FetchSettings, link_headers: LinkHeaders | None = None
) -> OpenedSource:
    """Requests the whole file by a range request, and retries failures that may pass. Raises `PlayError`."""
    for delay_s in settings.open_retry_delays_s:
        try:
            return await _open_once(client, uri, settings, link_headers)
        except PassingError:
            await asyncio.sleep(delay_s)
    return await _open_once(client, uri, settings, link_headers)


async def _open_once(
    client: HttpClient, uri: SourceUri, settings: FetchSettings, link_headers: LinkHeaders | None
) -> OpenedSource:
    answer = await client.get(uri, _FIRST_HEADERS, link_headers)
    try:
        if answer[0].status == 416:
            answer = await _without_range(client, uri, answer, link_headers)
        file = remote_file(uri, answer, link_headers)
    except BaseException:
        answer[0].close()
        raise
    response = answer[0]
    reader = RadioReader if file.is_live else HttpFileReader
    return OpenedSource(
        uri=file.final_uri,
        reader=reader(client, file, settings, response),
        name=file.name,
        size_bytes=file.size_bytes,
        is_seekable=file.is_seekable,
        is_live=file.is_live,
        content_type=file.content_type,
        station_name=station_name(response) if file.is_live else None,
    )


async def _without_range(
    client: HttpClient, uri: SourceUri, refusal: Answer, link_headers: LinkHeaders | None
) -> Answer:
    """The answer to a plain request. An empty file has no range from 0; other servers just refuse ranges."""
    response, _ = refusal
    response.close()
    if response.headers.get("Content-Range", "").replace(" ", "").endswith("*/0"):
        raise empty_error(response.url.host or "")
    return await client.get(uri, TITLES_WANTED, link_headers)

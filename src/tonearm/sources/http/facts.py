"""The facts about a remote file in the header of its first response."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import aiohttp

from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.source_uri import SourceUri
from tonearm.sources.http.body import packing
from tonearm.sources.http.client import Answer
from tonearm.sources.http.errors import status_error

_CONTENT_RANGE: Final = re.compile(r"\s*bytes\s+(\d{1,18})-(\d{1,18})/(\d{1,18}|\*)\s*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file behind a URI: `given_uri` was requested, `final_uri` is where the redirects ended.

    `validator` is the value of `If-Range`, which ensures that the rest comes from the same file; None without one.
    """

    given_uri: SourceUri
    final_uri: SourceUri
    host: str
    name: str
    content_type: str | None
    size_bytes: int | None
    is_seekable: bool
    is_live: bool
    validator: str | None


@dataclass(frozen=True, slots=True)
class ContentRange:
    """`first` is an offset; `total_bytes` is None when the server does not know it."""

    first: int
    total_bytes: int | None


def content_range(response: aiohttp.ClientResponse) -> ContentRange | None:
    """The range that a 206 response carries; None when it is missing or cannot be read, and in any other response."""
    match = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    if response.status != 206 or match is None:
        return None
    first, _, total = match.groups()
    return ContentRange(int(first), None if total == "*" else int(total))


def is_success(response: aiohttp.ClientResponse) -> bool:
    """Whether the body is a file or a part of one: also with the status 203 of proxies that changed it."""
    return 200 <= response.status < 300 and response.status not in (204, 205)


def begins_whole(response: aiohttp.ClientResponse) -> bool:
    """Whether the body is taken for a whole file: also a 206 without a range is."""
    return is_success(response) and content_range(response) is None


def remote_file(given_uri: SourceUri, answer: Answer) -> RemoteFile:
    """The facts in the answer to a request for everything from offset 0. Raises `PlayError` for a useless one."""
    response, final_uri = answer
    host = response.url.host or ""
    part = content_range(response)
    if not is_success(response) or (part is not None and part.first != 0):
        raise status_error(response.status, host, Stage.CONNECT)
    is_packed = packing(response, host) is not None  # then sizes and ranges are those of what is packed
    is_live = any(name.lower().startswith("icy-") for name in response.headers)
    size_bytes = part.total_bytes if part is not None else response.content_length
    if size_bytes == 0 and not is_live:
        raise empty_error(host)
    return RemoteFile(
        given_uri=given_uri,
        final_uri=final_uri,
        host=host,
        name=unquote(response.url.raw_path.rpartition("/")[2]),
        content_type=response.headers.get("Content-Type"),
        size_bytes=None if is_live or is_packed else size_bytes,
        is_seekable=part is not None and not is_live and not is_packed,
        is_live=is_live,
        validator=_validator(response),
    )


def empty_error(host: str) -> PlayError:
    return PlayError.of(FailureCode.EMPTY, Stage.READ, f"{host} answered with an empty file.", "Check the URI.")


def _validator(response: aiohttp.ClientResponse) -> str | None:
    etag = response.headers.get("ETag", "").strip()
    # A weak tag does not promise the same bytes and is not allowed in If-Range.
    if etag.startswith('"'):
        return etag
    return response.headers.get("Last-Modified")

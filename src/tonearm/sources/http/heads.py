"""Reading the heads of answers: aiohttp's parser, and a tolerant reader for heads that it refuses.

Servers of radios and of podcasts send heads that are not quite HTTP (SHOUTcast's `ICY 200 OK`, a length twice, lines
without a colon), which players read. What such a head says about the length of its body may be read otherwise by
someone between server and node; so a connection that needed the tolerant reader is never used again.
"""

import re
import socket
from collections.abc import Callable
from typing import Any, Final, cast

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import BadHttpMessage

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_LINES: Final = 1000

_BEGINNINGS: Final = (b"http", b"icy ")
_BEFORE_HEAD: Final = b"\xef\xbb\xbf \t\r\n"
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_STATUS_LINE: Final = re.compile(rb"(?:HTTP(?:/[0-9.]{1,8})?|ICY)[ \t]+([1-9][0-9]{2})(?![0-9])", re.IGNORECASE)
_NAME: Final = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LENGTH: Final = re.compile(rb"\+?([0-9]{1,18})(?![0-9])")
_CONTROLS: Final = bytes(range(32)) + b"\x7f"
# What says how the body is sent and what becomes of the connection is told anew.
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"upgrade", b"keep-alive"})


class TolerantConnector(aiohttp.TCPConnector):
    """A connector whose connections read sloppy heads, too."""

    def __init__(
        self, *, resolver: AbstractResolver | None = None, socket_factory: Callable[[Any], socket.socket] | None = None
    ) -> None:
        # No limit: one source must not wait for another.
        super().__init__(resolver=resolver, socket_factory=socket_factory, limit=0)
        self._factory = cast(Any, lambda: _TolerantHandler(self._loop))


class _TolerantHandler(ResponseHandler):
    def set_response_params(self, **params: Any) -> None:
        """aiohttp calls this before each request, and hands over what came before it."""
        self._params = params
        received, self._tail = self._tail, b""
        super().set_response_params(**params)
        self._parser = cast(Any, _HeadParser(self, self._parser))
        if received:
            self.data_received(received)

    def head_is_read(self, parser: Any) -> None:
        """From now on `parser` reads."""
        self._parser = parser

    def parser_of_long_heads(self) -> Any:
        """A new parser of aiohttp, for a head that was put right; the connection is not used again."""
        self.force_close()
        limits = {"max_line_size": MAX_HEAD_BYTES, "max_field_size": MAX_HEAD_BYTES, "max_headers": MAX_LINES}
        super().set_response_params(**{**self._params, **limits})
        return self._parser


class _HeadParser:
    """Parses the head of an answer before aiohttp's parser: heads that aiohttp refuses are parsed tolerantly."""

    def __init__(self, handler: _TolerantHandler, strict: Any) -> None:
        self._handler = handler
        self._strict = strict
        self._head = bytearray()
        self._refusal: HttpProcessingError | None = None

    def feed_data(self, data: bytes) -> tuple[Any, bool, bytes]:
        if self._refusal is None:
            try:
                read = self._strict.feed_data(data)
            except HttpProcessingError as error:
                self._refusal = error
            else:
                if any(message.code >= 200 for message, _ in read[0]):
                    self._handler.head_is_read(self._strict)
                    return cast("tuple[Any, bool, bytes]", read)
        if len(self._head) <= MAX_HEAD_BYTES:
            self._head += data
        del self._head[: _interim_bytes(self._head)]
        if self._refusal is not None:
            return self._read_tolerantly(self._refusal, len(data))
        return cast("tuple[Any, bool, bytes]", read)

    def feed_eof(self) -> Any:
        return self._strict.feed_eof() if self._refusal is None else None

    def pause_reading(self) -> None:
        self._strict.pause_reading()

    def message_consumed(self) -> None:
        self._strict.message_consumed()

    def _read_tolerantly(self, refusal: HttpProcessingError, new_bytes: int) -> tuple[Any, bool, bytes]:
        begun = bytes(self._head[:64]).lstrip(_BEFORE_HEAD)[:4].lower()
        if not any(beginning.startswith(begun) for beginning in _BEGINNINGS):
            raise refusal
        found = _HEAD_END.search(self._head, max(len(self._head) - new_bytes - 2, 0))
        if (found.end() if found else len(self._head)) > MAX_HEAD_BYTES:
            raise refusal
        if found is None:
            return (), False, b""
        strict = self._handler.parser_of_long_heads()
        read = strict.feed_data(plain_head(bytes(self._head[: found.start()])))
        try:
            strict.feed_data(bytes(self._head[found.end() :]))
        except HttpProcessingError as error:
            payload = read[0][0][1]
            if not payload.is_eof():  # else it is what comes behind the body, which nobody needs
                payload.set_exception(aiohttp.ClientPayloadError(error.message))
        return cast("tuple[Any, bool, bytes]", read)


def plain_head(head: bytes) -> bytes:
    """The head of an answer in plain HTTP, from one whose lines are sloppy; of a connection that ends with the body.

    Raises `BadHttpMessage` for what has more than one meaning: no status, lengths that differ.
    """
    first, *lines = head.lstrip(_BEFORE_HEAD).split(b"\n")
    status = _STATUS_LINE.match(first)
    if status is None:
        raise BadHttpMessage("It begins with no status")
    if len(lines) > MAX_LINES:
        raise BadHttpMessage(f"Its head has more than {MAX_LINES} lines")
    fields: list[tuple[bytes, bytes]] = []
    is_kept = False
    for line in lines:
        value = line.strip(b" \t\r")
        if line[:1] in (b" ", b"\t"):  # goes on with the line before
            if is_kept:
                fields[-1] = fields[-1][0], fields[-1][1] + b" " + value
            continue
        name, has_value, value = (part.strip(b" \t\r") for part in line.partition(b":"))
        is_kept = bool(has_value) and _NAME.fullmatch(name) is not None
        if is_kept:
            fields.append((name, value))
    plain = [(name, value) for name, value in fields if name.lower() not in _FRAMING]
    plain += [_framing(fields), (b"Connection", b"close")]
    written = (name + b": " + value.translate(None, _CONTROLS) for name, value in plain if name)
    return b"\r\n".join((b"HTTP/1.1 " + status[1] + b" OK", *written, b"", b""))


def _framing(fields: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """The header that says where the body ends (RFC 9112, 6.3). Empty: the body ends with the connection."""
    codings = [coding for coding in _listed(fields, b"transfer-encoding") if coding not in (b"", b"identity")]
    if codings:
        return (b"Transfer-Encoding", b"chunked") if codings[-1] == b"chunked" else (b"", b"")
    found = [_LENGTH.match(text) for text in _listed(fields, b"content-length")]
    lengths = {None if length is None else int(length[1]) for length in found}
    if len(lengths) > 1:
        raise BadHttpMessage("It has several lengths that differ")
    length = next(iter(lengths), None)
    return (b"", b"") if length is None else (b"Content-Length", b"%d" % length)


def _listed(fields: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [part.strip().lower() for name, value in fields if name.lower() == wanted for part in value.split(b",")]


def _interim_bytes(data: bytearray) -> int:
    """The number of bytes of the interim heads (1xx) at the start of `data`."""
    end = 0
    while (status := _STATUS_LINE.match(data, end)) is not None and status[1].startswith(b"1") and status[1] != b"101":
        found = _HEAD_END.search(data, end)
        if found is None:
            break
        end = found.end()
    return end

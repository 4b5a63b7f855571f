"""The body of an HTTP answer: its bytes as they arrive, unpacked if the server compressed them unasked."""

import asyncio
import contextlib
import zlib
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, cast

import aiohttp

from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.sources.http.errors import read_error

# The registered codings (RFC 9110, 18.6) and what is used beside them. Other words, as `UTF-8`, are no codings.
_UNPACKED: Final = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
_NOT_UNPACKED: Final = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "exi", "lzma", "xz", "bzip2"})
_PIECE_BYTES: Final = 64 * 1024
# Audio hardly shrinks when packed; ten seconds of silence may. Data that grows much more is an attack.
_FREE_BYTES: Final = 2 * 1024 * 1024
_MOST_GROWTH: Final = 200

_MOST_MEMBERS: Final = 1000

_HINT: Final = "Turn off compression of audio files at the server."
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP: Final = 16 + zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS


def packing(response: aiohttp.ClientResponse, host: str) -> str | None:
    """How the body is packed, `gzip` or `deflate`; None: not at all. Raises `PlayError` for what cannot be unpacked."""
    if "Content-Encoding" not in response.headers:
        return None
    words = [word.strip().lower() for value in response.headers.getall("Content-Encoding") for word in value.split(",")]
    known = [word for word in words if word in _UNPACKED or word in _NOT_UNPACKED]
    if len(known) > 1 or not _UNPACKED.keys() >= set(known):
        raise packed_error(host, ", ".join(known))
    return _UNPACKED[known[0]] if known else None


def packed_error(host: str, how: str) -> PlayError:
    message = f"{host} sends the file compressed ({how[:40]!r}), although the node asked for no compression."
    return PlayError.of(FailureCode.NOT_AUDIO, Stage.CONNECT, message, _HINT)


class Body:
    """The bytes of `response` in order. `stall_timeout_s` is the longest silence."""

    def __init__(self, response: aiohttp.ClientResponse, host: str, stall_timeout_s: float) -> None:
        how = packing(response, host)
        self.response: Final = response
        self._content = response.content
        self._begun: deque[bytes] = deque()
        self._host = host
        self._stall_timeout_s = stall_timeout_s
        self._unpacker = None if how is None else _Unpacker(how, host)

    async def read(self) -> bytes:
        """The bytes that come next; `b""` at the end. Raises `PlayError`."""
        if self._begun:
            return self._begun.popleft()
        while True:
            if self._unpacker is not None and ((piece := self._unpacker.take()) or self._unpacker.is_over):
                return piece
            try:
                async with asyncio.timeout(self._stall_timeout_s):
                    chunk = await self._content.readany()
            except (aiohttp.ClientError, OSError) as error:
                raise read_error(error, self._host) from error
            if self._unpacker is None or not chunk:
                return chunk
            self._unpacker.feed(chunk)

    def put_back(self, chunks: Iterable[bytes]) -> None:
        """Makes `read` return these chunks again, in their order."""
        self._begun.extendleft(reversed([*chunks]))

    def close(self) -> None:
        """Cuts the connection, unless the body was read to its end."""
        self.response.close()

    def left(self) -> bytes:
        """The bytes that had arrived when `read` failed. aiohttp does not return them after an exception."""
        if self._unpacker is not None:
            return b""
        self._content.set_exception(cast(BaseException, None))
        return self._content.read_nowait()


class _Unpacker:
    """Unpacks data in pieces. Some servers announce `gzip` for data that is not packed, and `deflate` for data without
    the zlib wrapper (RFC 9110, 8.4.1.2)."""

    def __init__(self, how: str, host: str) -> None:
        self._how = how
        self._host = host
        self.is_over = False
        self._packed = b""
        self._is_plain = False
        self._inflater: Any = None
        self._may_hold_more = False
        self._members = 0
        self._packed_bytes = 0
        self._unpacked_bytes = 0

    def feed(self, chunk: bytes) -> None:
        self._packed_bytes += len(chunk)
        self._packed += chunk

    def take(self) -> bytes:
        """The next piece; `b""` when more data is needed, or at the end. Raises `PlayError`."""
        while not self.is_over:
            if self._is_plain:
                piece, self._packed = self._packed, b""
                return piece
            if self._inflater is None and len(self._packed) >= 2:
                self._begin()
            elif self._inflater is None or not (self._packed or self._may_hold_more):
                return b""
            elif piece := self._inflate(self._inflater):
                return piece
        return b""

    def _begin(self) -> None:
        """Begins the file or its next member, since a gzip file may have several (RFC 1952, 2.2)."""
        self._members += 1
        if self._how == "deflate":
            has_wrapping = self._packed[0] & 0x0F == zlib.DEFLATED and int.from_bytes(self._packed[:2]) % 31 == 0
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS if has_wrapping else _RAW)
        elif self._packed[:2] == _GZIP_MAGIC:
            self._inflater = zlib.decompressobj(_GZIP)
        else:
            self._is_plain = self._members == 1
            self.is_over = not self._is_plain  # what else follows means nothing
        if self._members > _MOST_MEMBERS:
            raise self._error(FailureCode.LIMIT_EXCEEDED, f"is compressed in over {_MOST_MEMBERS} parts")

    def _inflate(self, inflater: Any) -> bytes:
        try:
            piece: bytes = inflater.decompress(self._packed, _PIECE_BYTES)
        except zlib.error as error:
            raise self._error(FailureCode.CORRUPT, "is damaged") from error
        self._packed = inflater.unconsumed_tail
        self._may_hold_more = len(piece) == _PIECE_BYTES
        if inflater.eof:
            self._packed, self._inflater = inflater.unused_data, None
            self.is_over = self._how == "deflate"
        self._unpacked_bytes += len(piece)
        self._check_growth(self._unpacked_bytes, self._packed)
        if self._unpacked_bytes == _PIECE_BYTES:
            self._foresee(inflater.copy())
        return piece

    def _foresee(self, inflater: Any) -> None:
        """Unpacks what is there, so that who reads gets nothing of what grows too much. It takes some milliseconds."""
        packed, unpacked_bytes = self._packed, self._unpacked_bytes
        with contextlib.suppress(zlib.error):
            while packed and not inflater.eof and unpacked_bytes > (self._packed_bytes - len(packed)) * _MOST_GROWTH:
                unpacked_bytes += len(inflater.decompress(packed, _PIECE_BYTES))
                packed = inflater.unconsumed_tail
                self._check_growth(unpacked_bytes, packed)

    def _check_growth(self, unpacked_bytes: int, packed: bytes) -> None:
        """Raises `PlayError` when what came before `packed` has grown too much."""
        if unpacked_bytes > max(_FREE_BYTES, (self._packed_bytes - len(packed)) * _MOST_GROWTH):
            raise self._error(FailureCode.LIMIT_EXCEEDED, f"unpacks to over {_MOST_GROWTH} times its size")

    def _error(self, code: FailureCode, what: str) -> PlayError:
        return PlayError.of(code, Stage.READ, f"The compressed file ({self._how!r}) from {self._host} {what}.", _HINT)

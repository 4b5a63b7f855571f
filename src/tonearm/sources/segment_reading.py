"""The bytes of one HLS segment, taken up again where a transfer breaks off."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.source_uri import SourceUri
from tonearm.sources.hls_playlist import ByteRange
from tonearm.sources.http_errors import PassingError
from tonearm.sources.linked_files import LinkedFiles
from tonearm.sources.retry_budget import RetryBudget

_ID3_HEADER_BYTES: Final = 10


async def segment_bytes(
    files: LinkedFiles, uri: SourceUri, byte_range: ByteRange | None, retries: RetryBudget
) -> AsyncGenerator[bytes, None]:
    """Raises `PlayError` when the transfer breaks off more often than `retries` has tries."""
    received = 0
    while True:
        try:
            body = await files.open(uri, byte_range, skip_bytes=received)
            try:
                while chunk := await body.read():
                    received += len(chunk)
                    yield chunk
                return
            finally:
                await body.close()
        except PlayError as error:
            if byte_range is not None and received == byte_range.length:
                return  # all was there before the end was seen
            if not isinstance(error, PassingError) and error.failure.code is not FailureCode.TIMEOUT:
                raise
            delay_s = retries.next_delay_s(asyncio.get_running_loop().time())
            if delay_s is None:
                raise
            await asyncio.sleep(delay_s)


class Id3Stripper:
    """Takes the ID3v2 tag (ID3v2.4 structure, 3.1) off the beginning of a segment.

    In packed audio it holds a timestamp (RFC 8216, 3.4), which the demuxers take for damage.
    """

    def __init__(self) -> None:
        self._begun: bytes | None = b""  # None once it is known how much to skip
        self._skip_bytes = 0

    def strip(self, chunk: bytes) -> bytes:
        """What is left of the next bytes of the segment."""
        if self._begun is not None:
            self._begun += chunk
            if self._begun.startswith(b"ID3") and len(self._begun) < _ID3_HEADER_BYTES:
                return b""
            if len(self._begun) < 3 and b"ID3".startswith(self._begun):
                return b""
            chunk, self._begun = self._begun, None
            if chunk.startswith(b"ID3"):
                for seven_bits in chunk[6:_ID3_HEADER_BYTES]:
                    self._skip_bytes = self._skip_bytes << 7 | seven_bits & 0x7F
                self._skip_bytes += _ID3_HEADER_BYTES
        skipped = min(self._skip_bytes, len(chunk))
        self._skip_bytes -= skipped
        return chunk[skipped:]

    def rest(self) -> bytes:
        """What was held back when the segment ended before it was clear."""
        begun, self._begun = self._begun, None
        return begun or b""

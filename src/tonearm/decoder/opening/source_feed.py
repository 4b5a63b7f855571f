"""Answers the read requests of a decoder session with the bytes of a source."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.opened_source import OpenedSource, Wait
from tonearm.core.printable import text_for_logs
from tonearm.decoder.messages import DATA_CHUNK_BYTES, Data, DataFailed, ReadRequest, TitleAt

log = logging.getLogger(__name__)

DECODER_BUSY: Final = Wait("the decoder is busy", Stage.DECODE)
RECONNECTING: Final = Wait("the connection is being made again", Stage.CONNECT)
NOTHING_SENT: Final = Wait("the source sends nothing", Stage.READ)

Send: TypeAlias = Callable[[Data | DataFailed | TitleAt], None]


class SourceFeed:
    """Answers one `ReadRequest` at a time; a new request replaces the request that is being answered.

    `reading` is the last read of an earlier feed, which ends before this feed reads.
    """

    def __init__(self, opened: OpenedSource, send: Send, reading: asyncio.Task[None] | None = None) -> None:
        self._reader = opened.reader
        self._name = opened.name
        self._send = send
        self._answering = reading

    @property
    def waiting_for(self) -> Wait:
        """What the source waits for while it gives no audio."""
        if self._answering is None or self._answering.done():
            return DECODER_BUSY
        if self._reader.is_reconnecting:
            return RECONNECTING
        return NOTHING_SENT

    def request_read(self, request: ReadRequest) -> None:
        before = self._answering
        if before is not None:
            before.cancel()
        self._answering = asyncio.get_running_loop().create_task(self._answer(request, before))

    def let_go(self) -> asyncio.Task[None] | None:
        """Gives the reader to another feed. Returns the read under way, if any, which has to end first."""
        if self._answering is not None:
            self._answering.cancel()
        return self._answering

    async def close(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait([self._answering])
            self._answering = None  # the traceback of its error would keep this object alive
        await self._reader.close()

    async def _answer(self, request: ReadRequest, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        session, source, offset = request.session, request.source, request.offset
        try:
            data = await self._reader.read_at(offset, min(request.length, DATA_CHUNK_BYTES))
        except PlayError as error:
            self._send(DataFailed(session, source, offset, error.failure))
        except Exception as error:
            # An error of a library fails the track, with a reason. It must not just end this task unnoticed.
            log.exception("reading %s failed unexpectedly", text_for_logs(self._name))
            failure = PlayFailure(
                FailureCode.CONNECTION_LOST,
                Stage.READ,
                f"Reading the source failed unexpectedly ({type(error).__name__}).",
                "Try again; report it when it happens again with this source.",
            )
            self._send(DataFailed(session, source, offset, failure))
        else:
            for title in self._reader.take_titles(offset + len(data)):
                self._send(TitleAt(session, source, title.offset, title.title))
            self._send(Data(session, source, offset, data))

"""Hands the bytes of a fetched source to its decoder process, chunk by chunk, as they are asked for."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from tonearm.core.byte_source import ByteSource, SourceFromPage, Station
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.text_for_logs import text_for_logs
from tonearm.decoder.messages import DATA_CHUNK_BYTES, Data, DataFailed, TitleAt, Want

DECODER_BUSY: Final = "the decoder is busy"

Send: TypeAlias = "Callable[[Data | DataFailed | TitleAt], None]"

_LENGTH_LIMIT: Final = DATA_CHUNK_BYTES

log = logging.getLogger(__name__)


class SourceFeed:
    """Answers one `Want` at a time; a newer one replaces an older one that is still being answered."""

    def __init__(self, source: ByteSource, send: Send) -> None:
        self._source = source
        self._send = send
        inner = source.source if isinstance(source, SourceFromPage) else source
        self._station = inner if isinstance(inner, Station) else None
        self._answering: asyncio.Task[None] | None = None

    @property
    def waiting_for(self) -> str:
        """What is waited for when the source gives nothing, in a few words."""
        if self._answering is None or self._answering.done():
            return DECODER_BUSY
        if self._station is not None and self._station.is_connecting:
            return "the connection is being made again"
        return "the source sends nothing"

    def want(self, order: Want) -> None:
        before = self._answering
        if before is not None:
            before.cancel()
        self._answering = asyncio.get_running_loop().create_task(self._answer(order, before))

    async def close(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            await asyncio.wait([self._answering])
        await self._source.close()

    async def _answer(self, order: Want, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        try:
            data = await self._source.read_at(order.offset, min(order.length, _LENGTH_LIMIT))
        except PlayError as error:
            self._send(DataFailed(order.session, order.source, error.failure))
        except Exception as error:
            # Whatever a server makes a library raise must end this track, not the node's task unseen.
            log.exception("reading %s failed unexpectedly", text_for_logs(self._source.name))
            failure = PlayFailure(
                FailureCode.CONNECTION_LOST,
                Stage.READ,
                f"Reading the source failed unexpectedly ({type(error).__name__}).",
                "Try again; report it when it happens again with this source.",
            )
            self._send(DataFailed(order.session, order.source, failure))
        else:
            for title in self._station.take_titles(order.offset + len(data)) if self._station is not None else ():
                self._send(TitleAt(order.session, order.source, title.offset, title.title))
            self._send(Data(order.session, order.source, order.offset, data))

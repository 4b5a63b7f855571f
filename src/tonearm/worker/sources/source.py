"""One source in a decoder process: opened, then decoded ahead of rendering, one slot at a time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage, own_error
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
    RENDER_SLOT,
    Data,
    DataFailed,
    FoundPicture,
    OpenSource,
    ReadRequest,
    SeekSource,
    TitleAt,
    Want,
)
from tonearm.worker.media.facts import StreamTitles, read_picture
from tonearm.worker.media.opus_packets import SourcePacket
from tonearm.worker.memory import MemoryBudget, freed_memory
from tonearm.worker.reading.errors import OwnErrors, UnseekableSource
from tonearm.worker.reading.reader import DescriptorReader, Dropped, RequestingReader
from tonearm.worker.sources.cursor import (
    FIRST_STEP_SAMPLES,
    Cursor,
    CursorReport,
    Demand,
    End,
    LeftSource,
    Use,
    step_samples,
)
from tonearm.worker.sources.packet_store import PacketStore
from tonearm.worker.sources.scheduler import BEGINNING_SLACK_S, DecodeScheduler, DecodeThreads, SlotJob
from tonearm.worker.sources.source_content import SourceContent

# Made beforehand: when it is needed, hardly any memory is left to make it.
OUT_OF_MEMORY: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.DECODE,
    "Decoding the source needs more memory than the decoder process has left.",
    "Check the file, or raise decoder.memory_limit_mb.",
)


@dataclass(frozen=True)
class SourceServices:
    """The services that a process's sources share. A source has slots of `opening` until it is open, then of
    `decoding`."""

    decoding: DecodeScheduler
    opening: DecodeScheduler
    threads: DecodeThreads
    report: Callable[[CursorReport], None]  # sends messages to the node
    pcm_decoded: Callable[[int], None]  # reports new PCM of a session to the rendering thread
    note: Callable[[int, int], None]  # notes that a slot works on a source
    errors: OwnErrors
    memory: MemoryBudget  # with less memory less is decoded ahead
    now_s: Callable[[], float] = time.monotonic


class DecodingSource:
    """Opens and decodes one source until its store is full enough, then is idle until some of the store is used.

    `SlotJob` schedules the steps, `Cursor` has the source's position, `Demand` decides how far ahead it is decoded. The
    media is used only in steps. At its end the source is idle, but open, until it is dropped or a seek comes. The
    rendering thread finishes the cursor when it sends the last report, so that the node receives the report before the
    end of the audio.
    """

    def __init__(
        self, order: OpenSource, descriptor: int | None, services: SourceServices, *, is_beginning: bool = False
    ) -> None:
        """`is_beginning`: no frame of its session was rendered yet, so its opening can wait for all playing
        sessions."""
        self._order = order
        self.opened_as = order.source  # the number of its read requests
        self.suspect = order.session << 32 | order.source
        self.services = services
        self._titles = StreamTitles() if order.is_live else None
        self.cursor = Cursor(order, services.report)
        self._demand = Demand(services.memory)
        self._job = SlotJob(
            self,
            services.opening,
            services.threads,
            has_own_thread=descriptor is None,  # since it often waits for bytes
            slack_s=BEGINNING_SLACK_S if is_beginning else 0.0,
        )
        self._reader: DescriptorReader | RequestingReader
        if descriptor is not None:
            self._reader = DescriptorReader(descriptor, order.size_bytes or 0, self._job.without_slot_and_with_a_thread)
        else:
            self._reader = RequestingReader(
                order.size_bytes, order.is_seekable, self._request_read, self._job.without_slot
            )
        self._content = SourceContent(order, self._reader, self._titles, services.now_s)
        self._steps = self._run_steps()
        self._is_started = False

    # Called by the rendering thread; `deliver` by the thread that reads the socket

    def start(self) -> None:
        """Requests the first slot. A source whose thread cannot be started for lack of memory fails."""
        try:
            self._job.start()
        except (RuntimeError, MemoryError):
            self._end(OUT_OF_MEMORY)
        else:
            self._is_started = True

    def drop(self) -> None:
        """Makes the source end soon. The PCM in the store can still be read."""
        self._job.drop()
        self._reader.drop()
        if not self._is_started:  # otherwise its last step closes the reader
            self._reader.close()

    def seek(self, order: SeekSource) -> LeftSource:
        """Continues as `order.new_source` from another sample on. Returns the source under its old number."""
        left = self.cursor.seek(order, is_seekable=self._reader.seekable())
        self._job.resume()
        return left

    def deliver(self, message: Data | DataFailed | TitleAt) -> None:
        """Receives the answer to a `ReadRequest`, or a title."""
        if isinstance(message, TitleAt):
            if self._titles is not None:
                self._titles.expect(message.offset, message.title)
        elif isinstance(self._reader, RequestingReader):
            if isinstance(message, Data):
                self._reader.deliver(message.offset, message.data)
            else:
                self._reader.fail(message.offset, message.failure)

    def used(self, sample: int, use: Use) -> bool:
        """Updates how far the source was rendered, and how it is used. True when it resumed decoding because little is
        left ahead."""
        self.cursor.used_up_to = sample
        was_heard, self._demand.use = self._demand.use.is_heard, use
        if use.is_heard and not was_heard:
            self._job.hasten()
        return self.needs_more and self._job.resume()

    def fill_up(self) -> None:
        """Resumes decoding early if there is room for half a step: it costs less while other sources decode. But early
        decoded samples take memory."""
        if self.cursor.ended is None and self._demand.has_room(self.cursor.left, reads_only=self._reads_only):
            self._job.resume()

    # Its work, called by the job

    @property
    def needs_more(self) -> bool:
        cursor = self.cursor
        if cursor.target is not None or cursor.ended is not None:
            return cursor.target is not None
        return self._demand.needs_more(cursor.left, reads_only=self._reads_only)

    @property
    def yields_s(self) -> float:
        return self._demand.use.yields_s

    def deadline_s(self, now_s: float) -> float:
        return self._demand.deadline_s(now_s, self.cursor.left)

    def step(self) -> bool:
        try:
            next(self._steps)
            return True
        except StopIteration:
            self._end("complete")
            return False
        except Dropped:
            return False
        except PlayError as error:
            failure = error.failure
        except MemoryError:
            failure = OUT_OF_MEMORY
        except Exception as error:  # noqa: BLE001 - reported to the node and to stderr: no source ends without a reason
            self.services.errors.tell("it decoded a source", error)
            failure = own_error(error)
        if not self._job.is_dropped:
            self._end(failure)
        return False

    # In a step

    def _run_steps(self) -> Iterator[None]:
        """All of the work. Each `yield` ends a step: the source returns its slot and may be idle."""
        try:
            if self._order.want is Want.PICTURE:
                self._report_picture()
                return
            facts = self._content.open()
            self._opened(facts)
            if self._order.want is not Want.SOUND:
                return
            yield from self._go_to_start()
            self._job.go_on_in(self.services.decoding)
            while True:
                yield
                if self._job.is_dropped:
                    raise Dropped
                if self.cursor.target is not None:
                    yield from self._seek()
                elif self.cursor.ended is None and not self._decode_step() and not self._begin_next_part():
                    if self._order.is_live:
                        return
                    self._end("complete")
        finally:
            try:
                self._content.close()
            finally:
                self._reader.close()
                freed_memory.note_session()

    def _report_picture(self) -> None:
        order = self._order
        picture = read_picture(
            self._reader, name=order.name, content_type=order.content_type, size_bytes=order.size_bytes
        )
        self.services.report(FoundPicture(order.session, order.source, picture))

    def _begin_next_part(self) -> bool:
        """False when there is no next part."""
        cursor = self.cursor
        if cursor.is_empty:
            message, hint = "The source has no audio.", "Check the file: it is empty."
            raise PlayError.of(FailureCode.EMPTY, Stage.DECODE, message, hint)
        return self._content.begin_next_part(cursor.store.end)

    def _go_to_start(self) -> Iterator[None]:
        """Moves to the first requested sample. In a source that cannot seek but was played before, this means
        decoding up to the sample: in steps, so that other sources can be opened meanwhile and this source does not seem
        to hang."""
        target = self.cursor.target
        if target is None or not self._order.resumes or self._content.can_seek or self.cursor.begin is not None:
            yield from self._seek()
            return
        self._arrive(target, (yield from self._content.read_again_up_to(target)))

    def _arrive(self, target: int, read: bytes | list[SourcePacket]) -> None:
        """Begins with the PCM or packets that were read from the target on."""
        self.cursor.arrive(target)
        if isinstance(read, bytes):
            self._append(read)
        else:
            self._append_packets(read)

    def _seek(self) -> Iterator[None]:
        """Seeks to the newest target, if there is one. Where that is impossible the source is played in order."""
        target, begin = self.cursor.target, self.cursor.begin
        if target is None:
            return
        if begin is not None:
            self._arrive(target, (yield from self._content.read_up_to(target, self._content.begin_at(begin))))
            return
        try:
            packets = self._content.seek(target)
        except UnseekableSource as error:
            if self._reader.seekable():  # otherwise the media kept its position
                self._content.begin_again()
            self.cursor.begin_again(error.failure)
        else:
            self.cursor.arrive(target)
            self._append_packets(packets)

    def _decode_step(self) -> bool:
        """Decodes the samples of one step. False at the end of the source.

        It decodes in blocks: for larger pieces the system would map memory anew each time.
        """
        cursor, store = self.cursor, self.cursor.store
        wanted_end = store.end + self._step_samples()
        if self._content.packets is not None and isinstance(store, PacketStore):
            has_more = True
            while has_more and store is cursor.store and store.end < wanted_end:
                # A live source's packets come one by one, so that none waits for the next.
                packets = self._content.take_packets(1 if self._order.is_live else wanted_end - store.end)
                self._report_titles()
                has_more = self._append_packets(packets)
                store.decode_ahead(cursor.used_up_to + self._demand.ahead_samples(reads_only=self._reads_only))
            return has_more
        while store is cursor.store and store.end < wanted_end:
            pcm = self._content.decode_block()
            self._report_titles()
            if not pcm or not self._append(pcm):
                return False
        return True

    def _step_samples(self) -> int:
        """The samples of the next step: few for the first step, so that a source is heard soon, then always a whole
        step. When many sources run out at once, short steps would cost so much more that none gets ahead again."""
        return step_samples(reads_only=self._reads_only) if self.cursor.gave_audio else FIRST_STEP_SAMPLES

    @property
    def _reads_only(self) -> bool:
        store = self.cursor.store
        return self._content.packets is not None and isinstance(store, PacketStore) and not store.is_read

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Notes this source as the suspect while the rendering thread decodes its stored packets."""
        self.services.note(RENDER_SLOT, self.suspect)
        try:
            yield
        finally:
            self.services.note(RENDER_SLOT, 0)

    def _request_read(self, offset: int, length: int) -> None:
        self.services.report(ReadRequest(self._order.session, self._order.source, offset, length))

    # Results of the work, which a live stream passes on to its members

    def _opened(self, facts: SourceFacts) -> None:
        decoding = self._content.packet_decoding()
        packet_store = None if decoding is None else lambda start: PacketStore(start, decoding, self._noted)
        self.cursor.opened(facts, packet_store)

    def _append(self, pcm: bytes) -> bool:
        """False when the last requested sample is in the store."""
        has_more = self.cursor.append(pcm)
        self.services.pcm_decoded(self._order.session)
        return has_more

    def _append_packets(self, packets: list[SourcePacket]) -> bool:
        """As `_append`, for packets, of which there may be none."""
        if not packets:
            return False
        has_more = self.cursor.append_packets(packets)
        self.services.pcm_decoded(self._order.session)
        return has_more

    def _report_titles(self) -> None:
        for change in self._titles.take_changes() if self._titles is not None else ():
            self.cursor.titled(self._order.start_sample + change.sample, change.title)

    def _end(self, how: End) -> None:
        self.cursor.end(how)

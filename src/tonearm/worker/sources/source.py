"""One source in a decoder process: opened, then decoded ahead of what is rendered, a slot at a time.

After a seek the same open source goes on under another number, with a store of its own: frames of the sound before can
still be rendered again from the store that it left.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage, own_error
from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ
from tonearm.core.memory_budget import LESS_AHEAD_FROM, ahead
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    RENDER_SLOT,
    Data,
    DataFailed,
    Decoded,
    Failed,
    FirstAudio,
    FoundPicture,
    Opened,
    OpenSource,
    ReadRequest,
    SeekFailed,
    SeekSource,
    TitleAt,
    Titled,
    Want,
)
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.media.facts import StreamTitles, read_picture
from tonearm.worker.media.opus_packets import SourcePacket
from tonearm.worker.reading.own_errors import OwnErrors
from tonearm.worker.reading.play_errors import NotSeekable
from tonearm.worker.reading.reader import DescriptorReader, Dropped, RequestingReader
from tonearm.worker.sources.packet_store import PacketStore, freed_memory
from tonearm.worker.sources.pcm_store import PcmStore
from tonearm.worker.sources.scheduler import (
    BEGINNING_SLACK_S,
    DecodeScheduler,
    DecodeThreads,
    Slot,
    Waiter,
)
from tonearm.worker.sources.source_content import STEP_SAMPLES, SourceContent

AHEAD_SAMPLES: Final = 6 * SAMPLE_RATE_HZ // 5
# The same when packets are only read. They take so little, in time and memory, that a slot itself costs more.
PACKETS_AHEAD_SAMPLES: Final = 4 * SAMPLE_RATE_HZ
PACKETS_STEP_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
FIRST_STEP_SAMPLES: Final = SAMPLE_RATE_HZ // 10  # of PCM one block, whatever its length
NEXT_SOURCE_SLACK_S: Final = 5.0  # a source that only waits to come next is less urgent by so much
UNHEARD_SLACK_S: Final = 30.0  # and one of a session to which nobody listens by so much
DROPPED_DEADLINE_S: Final = 0.0  # a dropped source goes first: it only gives back what it holds

Report: TypeAlias = ReadRequest | Opened | SeekFailed | Failed | Decoded | FirstAudio | FoundPicture | Titled

# Made beforehand: when it is needed, there is little memory left to make it.
OUT_OF_MEMORY: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.DECODE,
    "Decoding the source needs more memory than is left of what a decoder process may have.",
    "Check the file, or raise decoder.memory_limit_mb.",
)

CANNOT_SEEK: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.DECODE,
    "The source can only be played in order.",
    "Serve it from a server that supports range requests.",
)


class Memory(Protocol):
    """What the process takes of its memory."""

    @property
    def used(self) -> float:
        """The share of what all sessions may take."""
        ...


class AmpleMemory:
    """Of a process without a limit."""

    used: Final = 0.0


class LeftSource:
    """What is left under the number that a source had before a seek: the PCM that was decoded until then."""

    has_failed = False

    def __init__(self, store: PcmStore, loudness: SourceLoudness) -> None:
        self.store = store
        self.loudness = loudness


class DecodingSource:
    """Opens and decodes one source until `AHEAD_SAMPLES` are in its store, then rests until some of them are used.

    As a `Job` it touches its media only while it holds a slot: one of `opening` until it is open, then of `decoding`.
    At its end it rests, still open, until it is dropped or sought.
    `report` passes messages to the node, `pcm_decoded` tells the rendering thread about new PCM, `note(slot, suspect)`
    writes down that a source is worked on. The rendering thread
    sets the end of `store`, or `has_failed`, when it sends the last report (`finish`), so that the node gets the report
    before the end of the audio.
    """

    def __init__(
        self,
        order: OpenSource,
        descriptor: int | None,
        *,
        decoding: DecodeScheduler,
        opening: DecodeScheduler,
        threads: DecodeThreads,
        report: Callable[[Report], None],
        pcm_decoded: Callable[[int], None],
        note: Callable[[int, int], None] = lambda _slot, _suspect: None,
        errors: OwnErrors | None = None,
        memory: Memory | None = None,
        is_beginning: bool = False,
    ) -> None:
        """`is_beginning`: nothing of its session was rendered yet, so that to open it can wait for all who play.
        `memory`: the less there is, the less is decoded ahead."""
        self._order = order
        self._is_beginning = is_beginning
        self._decoding = decoding
        self._scheduler = opening  # the one whose slots it needs now
        self._slot = -1
        self._threads = threads
        self._report = report
        self._pcm_decoded = pcm_decoded
        self._note = note
        self._errors = errors or OwnErrors()
        self.memory = memory or AmpleMemory()
        self._rest_lock = threading.Lock()
        self._is_resting = False  # between two slots, with no new one requested
        self._is_dropped = False
        self._used_up_to = order.start_sample
        self._is_current = False
        self._is_heard = True
        self._waiter: Waiter | None = None  # while a thread of it waits for a slot
        self._rate = 1.0  # of its samples to those heard, at least 1
        self._titles = StreamTitles() if order.is_live else None
        # What a seek changes, and what it needs to know. The lock keeps the reports in order with it.
        self._seek_lock = threading.Lock()
        self._number = order.source
        self._seek_to = order.start_sample if order.start_sample and not order.is_live else None
        self._facts: SourceFacts | None = None  # once they were reported
        self._failure: PlayFailure | None = None  # that ended it
        self._is_at_end = False
        self.store = PcmStore(order.start_sample)
        self.loudness = SourceLoudness(order.measured)
        self.has_failed = False
        self._reader: DescriptorReader | RequestingReader
        if descriptor is not None:
            self._reader = DescriptorReader(descriptor, order.size_bytes or 0, self._without_slot_and_with_a_thread)
        else:
            self._reader = RequestingReader(order.size_bytes, order.is_seekable, self._request_read, self._without_slot)
        self._content = SourceContent(order, self._reader, self._titles)
        self._has_own_thread = descriptor is None  # since it waits for bytes again and again
        self._steps = self._run_steps()

    @property
    def opened_as(self) -> int:
        """The number with which it was opened, that of its read requests."""
        return self._order.source

    # Called by the rendering thread; `deliver` by the thread that reads the socket

    def start(self) -> None:
        """Requests the first slot. A source whose thread cannot be started for lack of memory fails."""
        if self._has_own_thread:
            try:
                self._threads.add()
            except (RuntimeError, MemoryError):
                self._reader.close()
                self._report_failure(OUT_OF_MEMORY)
                return
        self._scheduler.submit(self, self._deadline_s())

    def drop(self) -> None:
        """Makes it end soon. The PCM in the store can still be read."""
        self._is_dropped = True
        self._reader.drop()
        if not self._resume():
            self._scheduler.hasten(self, DROPPED_DEADLINE_S)

    def seek(self, order: SeekSource) -> LeftSource:
        """Goes on as `order.new_source` from another sample on. Returns what the number before leaves."""
        with self._seek_lock:
            left = LeftSource(self.store, self.loudness)
            self._number, self.has_failed = order.new_source, False
            held = None if self._seek_to is not None else self.store.continued_from(order.start_sample)
            if self._facts is not None:
                self._report(Opened(order.session, order.new_source, self._facts))
            if held is not None:
                self.store = held
            elif self._order.is_live or (self._facts is not None and not self._reader.seekable()):
                # It goes on where it was.
                self.store = self.store.continued_from(max(self._used_up_to, self.store.oldest)) or self.store
                self._report(SeekFailed(order.session, order.new_source, CANNOT_SEEK))
            else:
                self.store = self.store.fresh(order.start_sample)
                self._seek_to, self._is_at_end = order.start_sample, False
            self._used_up_to = self.store.start
            if self._failure is not None:
                self._report(Failed(order.session, order.new_source, self._failure, gave_audio=False))
            elif self._is_at_end:
                self._report(Decoded(order.session, order.new_source))
        self._resume()
        return left

    def deliver(self, message: Data | DataFailed | TitleAt) -> None:
        """Takes the answer to a `ReadRequest`, or a title."""
        if isinstance(message, TitleAt):
            if self._titles is not None:
                self._titles.expect(message.offset, message.title)
        elif isinstance(self._reader, RequestingReader):
            if isinstance(message, Data):
                self._reader.deliver(message.offset, message.data)
            else:
                self._reader.fail(message.offset, message.failure)

    def used(self, sample: int, *, is_current: bool, is_heard: bool = True, rate: float = 1.0) -> bool:
        """Takes how far the source was rendered, whether anybody listens, and how many of its samples pass in one that
        is heard. True when it resumed decoding because little is left ahead."""
        self._used_up_to = sample
        self._is_current = is_current
        self._rate = max(rate, 1.0)
        if is_heard != self._is_heard:
            self._is_heard = is_heard
            if is_heard:
                self._hasten()
        return self._needs_more() and self._resume()

    def fill_up(self) -> None:
        """Resumes decoding if there is room for half a step, before it is necessary: it costs less while other sources
        decode, but all that is decoded early takes memory."""
        if not self._is_at_end and self.store.end - self._used_up_to <= self._ahead_samples - self._step // 2:
            self._resume()

    def finish(self, report: Failed | Decoded) -> None:
        """Applies the source's own last report when that is sent to the node."""
        if isinstance(report, Failed) and not report.gave_audio:
            self.has_failed = True
        else:
            self.store.finish(is_interrupted=isinstance(report, Failed))

    # As a job of the scheduler

    @property
    def suspect(self) -> int:
        return self._order.session << 32 | self._order.source

    def start_in(self, slot: int) -> None:
        self._threads.run(Slot(self, slot))

    def run(self, slot: int) -> Slot | None:
        self._slot, scheduler = slot, self._scheduler
        has_more = self._run_step()
        slot = self._slot  # another one if it waited for bytes meanwhile
        if has_more:
            self._rest()  # from here on another thread may run its next step
        elif self._has_own_thread:
            self._threads.remove()
        return scheduler.release_and_continue(slot)

    # While it holds a slot

    def _run_step(self) -> bool:
        """Runs the next step. False when it was the last one."""
        try:
            next(self._steps)
            return True
        except StopIteration:
            self._report_end()
            return False
        except Dropped:
            return False
        except PlayError as error:
            failure = error.failure
        except MemoryError:
            failure = OUT_OF_MEMORY
        except Exception as error:  # noqa: BLE001 - reported to the node and to stderr: no source ends without a reason
            self._errors.tell("it decoded a source", error)
            failure = own_error(error)
        if not self._is_dropped:
            self._report_failure(failure)
        return False

    def _report_failure(self, failure: PlayFailure) -> None:
        with self._seek_lock:
            self._failure = failure
            gave_audio = self.store.end > self.store.start
            self._report(Failed(self._order.session, self._number, failure, gave_audio))

    def _report_end(self) -> None:
        """Unless it was sought meanwhile."""
        with self._seek_lock:
            if self._seek_to is None:
                self._is_at_end = True
                self._report(Decoded(self._order.session, self._number))

    def _run_steps(self) -> Iterator[None]:
        """The whole job. Each `yield` ends a step: the source gives its slot back and may rest."""
        try:
            if self._order.want is Want.PICTURE:
                self._report_picture()
                return
            facts = self._content.open()
            if self._order.want is Want.LENGTH and isinstance(self._reader, DescriptorReader):
                facts = yield from self._content.with_counted_length(facts)
            self._opened(facts)
            if self._order.want is not Want.SOUND:
                return
            yield from self._go_to_start()
            self._scheduler = self._decoding
            while True:
                yield
                if self._is_dropped:
                    raise Dropped
                if self._seek_to is not None:
                    self._seek()
                elif not self._is_at_end and not self._decode_step() and not self._begin_next_part():
                    if self._order.is_live:
                        return
                    self._report_end()
        finally:
            try:
                self._content.close()
            finally:
                self._reader.close()
                freed_memory.note_session()

    def _opened(self, facts: SourceFacts) -> None:
        self.loudness.tagged_lufs = tagged_loudness_lufs(facts, self._order.album)
        decoding = self._content.packet_decoding()
        with self._seek_lock:
            if decoding is not None:
                self.store = PacketStore(self.store.start, decoding, self._noted)
            self._facts = facts
            self._report(Opened(self._order.session, self._number, facts))

    def _report_picture(self) -> None:
        order = self._order
        picture = read_picture(
            self._reader, name=order.name, content_type=order.content_type, size_bytes=order.size_bytes
        )
        self._report(FoundPicture(order.session, order.source, picture))

    def _begin_next_part(self) -> bool:
        """False when there is none."""
        with self._seek_lock:
            is_empty = self.store.end == self.store.start == 0 and self._seek_to is None
        if is_empty:
            raise PlayError(
                PlayFailure(
                    FailureCode.EMPTY, Stage.DECODE, "The source holds no sound at all.", "Check the file: it is empty."
                )
            )
        return self._content.begin_next_part(self.store.end)

    def _go_to_start(self) -> Iterator[None]:
        """Goes to the first sample that is wanted. One that was played before, in a source that is not seekable, is
        reached by decoding up to there: in steps, so that other sources can be opened meanwhile and this one does not
        seem to hang."""
        target = self._seek_to
        if target is None or not self._order.resumes or self._reader.seekable():
            self._seek()
            return
        read = yield from self._content.read_up_to(target)
        self._arrive(target)
        if isinstance(read, bytes):
            self._append(read)
        else:
            self._append_packets(read)

    def _seek(self) -> None:
        """Goes to the newest position that is wanted, if there is one, or stays in order where that is impossible."""
        target = self._seek_to
        if target is None:
            return
        try:
            packets = self._content.seek(target)
        except NotSeekable as error:
            if self._reader.seekable():  # otherwise the media has not moved
                self._content.begin_again()
            with self._seek_lock:
                self._seek_to = None
                self.store.begin_at(0)
                self._used_up_to = 0
                self._report(SeekFailed(self._order.session, self._number, error.failure))
        else:
            self._arrive(target)
            self._append_packets(packets)

    def _arrive(self, target: int) -> None:
        """The next sample that is decoded is `target`, which may not be wanted any more."""
        with self._seek_lock:
            if self._seek_to == target:
                self._seek_to = None

    def _decode_step(self) -> bool:
        """Decodes the samples of one step. False at the end of the source.

        In blocks: larger pieces would be memory that the system maps anew each time.
        """
        store = self.store
        wanted_end = store.end + self._step_samples()
        if self._content.has_packets and isinstance(store, PacketStore):
            has_more = True
            while has_more and store is self.store and store.end < wanted_end:
                # Those of a live source come one by one: none waits for the next.
                packets = self._content.take_packets(1 if self._order.is_live else wanted_end - store.end)
                self._report_titles()
                has_more = self._append_packets(packets)
                store.decode_ahead(self._used_up_to + self._ahead_samples)
            return has_more
        while store is self.store and store.end < wanted_end:
            pcm = self._content.decode_block()
            self._report_titles()
            if not pcm or not self._append(pcm):
                return False
        return True

    def _step_samples(self) -> int:
        """Few for the first step, so that a source is heard soon. After it always whole steps, even with little ahead:
        when many sources run out at once, short steps cost so much more that none of them gets ahead again."""
        return self._step if self.store.end > self.store.start else FIRST_STEP_SAMPLES

    def _report_titles(self) -> None:
        order = self._order
        for change in self._titles.take_changes() if self._titles is not None else ():
            self._report(Titled(order.session, order.source, order.start_sample + change.sample, change.title))

    def _append(self, pcm: bytes) -> bool:
        """False when the last sample that is wanted is in the store."""
        end_sample = self._order.end_sample
        with self._seek_lock:
            if self._seek_to is not None:
                return True  # of the position that was left
            has_more = True
            if end_sample is not None and self.store.end + len(pcm) // SAMPLE_BLOCK_BYTES >= end_sample:
                pcm = pcm[: max(end_sample - self.store.end, 0) * SAMPLE_BLOCK_BYTES]
                has_more = False
            is_first = self.store.end == self.store.start
            if pcm:
                self.store.append(pcm)
                if is_first and self._number >= FIRST_OVERLAY_SOURCE:
                    self._report(FirstAudio(self._order.session, self._number))
        self._pcm_decoded(self._order.session)
        return has_more

    def _append_packets(self, packets: list[SourcePacket]) -> bool:
        """As `_append`, for packets, of which there may be none."""
        if not packets:
            return False
        end_sample = self._order.end_sample
        has_more = True
        with self._seek_lock:
            if self._seek_to is not None:
                return True
            if end_sample is not None and packets[-1].audible_to >= end_sample:
                packets = [packet.cut_at(end_sample) for packet in packets if packet.audible_from < end_sample]
                has_more = False
            if isinstance(self.store, PacketStore):
                self.store.append_packets(packets)
        self._pcm_decoded(self._order.session)
        return has_more

    def _needs_more(self) -> bool:
        if self._is_dropped or self._seek_to is not None:
            return True
        return not self._is_at_end and self.store.end - self._used_up_to <= self._ahead_samples - self._step

    @property
    def _step(self) -> int:
        """Samples for one slot."""
        return PACKETS_STEP_SAMPLES if self._reads_only else STEP_SAMPLES

    @property
    def _ahead_samples(self) -> int:
        """As much as is heard in 1.2 s, or four; hardly more than a step where nobody listens, since it may never be
        heard, and where memory is short."""
        # More than a step: whole frames are used, and a rest of one must not hold up the next step.
        if not self._is_heard:
            return self._step + FIRST_STEP_SAMPLES
        usual = int((PACKETS_AHEAD_SAMPLES if self._reads_only else AHEAD_SAMPLES) * self._rate)
        used = self.memory.used
        return usual if used <= LESS_AHEAD_FROM else ahead(usual, self._step + FIRST_STEP_SAMPLES, used)

    @property
    def _reads_only(self) -> bool:
        """Whether packets are kept, and nobody wants them decoded."""
        return self._content.has_packets and isinstance(self.store, PacketStore) and not self.store.is_read

    def _rest(self) -> None:
        with self._rest_lock:
            self._is_resting = True
        if self._needs_more():
            self._resume()

    def _resume(self) -> bool:
        """Requests a slot, from any thread. False when the source was not resting."""
        with self._rest_lock:
            was_resting, self._is_resting = self._is_resting, False
        if was_resting:
            self._scheduler.submit(self, self._deadline_s())
        return was_resting

    def _deadline_s(self) -> float:
        if self._is_dropped:
            return DROPPED_DEADLINE_S
        ahead_samples = int((self.store.end - self._used_up_to) / self._rate)
        slack_s = BEGINNING_SLACK_S if self._is_beginning and self._scheduler is not self._decoding else 0.0
        now_s = time.monotonic() + slack_s
        return deadline_s(now_s, ahead_samples, is_current=self._is_current, is_heard=self._is_heard)

    def _hasten(self) -> None:
        """Somebody listens now: what waits for a slot, or its thread, goes before all that nobody hears."""
        deadline, waiter = self._deadline_s(), self._waiter
        self._scheduler.hasten(self, deadline)
        if waiter is not None:
            self._scheduler.hasten(waiter, deadline)

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """While the rendering thread decodes kept packets of this source."""
        self._note(RENDER_SLOT, self.suspect)
        try:
            yield
        finally:
            self._note(RENDER_SLOT, 0)

    @contextmanager
    def _without_slot(self) -> Iterator[None]:
        """Gives the slot up for as long as the source waits for bytes."""
        self._scheduler.release(self._slot)
        try:
            yield
        finally:
            self._waiter = waiter = Waiter(self.suspect)
            self._scheduler.submit(waiter, self._deadline_s())
            self._slot = waiter.wait()
            self._waiter = None

    @contextmanager
    def _without_slot_and_with_a_thread(self) -> Iterator[None]:
        """As `_without_slot`, for a source without its own thread: another one replaces the thread that waits."""
        try:
            self._threads.add()
        except (RuntimeError, MemoryError):
            yield  # keeps the slot: better late than without a thread for the next job
            return
        try:
            with self._without_slot():
                yield
        finally:
            self._threads.remove()

    def _request_read(self, offset: int, length: int) -> None:
        self._report(ReadRequest(self._order.session, self._order.source, offset, length))


def tagged_loudness_lufs(facts: SourceFacts, album: str | None) -> float | None:
    """How loud its tags say that a source is: as a part of its album while that is played as a whole."""
    if facts.album is not None and facts.album == album and facts.album_loudness_lufs is not None:
        return facts.album_loudness_lufs
    return facts.loudness_lufs


def deadline_s(now_s: float, ahead_samples: int, *, is_current: bool, is_heard: bool = True) -> float:
    """When the decoded samples of a source that requests a slot now are used up; later where that hurts nobody.

    A point in time, so that a source grows more urgent while it waits. Were it ordered by `ahead_samples` alone,
    sources that come later with a little less would always overtake it, and in a busy process it would starve.
    """
    slack_s = (0.0 if is_current else NEXT_SOURCE_SLACK_S) + (0.0 if is_heard else UNHEARD_SLACK_S)
    return now_s + ahead_samples / SAMPLE_RATE_HZ + slack_s

"""One source in a decoder process: opened and decoded ahead, in turns with the others."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ
from tonearm.decoding.messages import (
    Data,
    DataFailed,
    Decoded,
    Failed,
    Opened,
    OpenSource,
    ReadRequest,
    TitleAt,
    Titled,
)
from tonearm.decoding.worker.facts import StreamTitles
from tonearm.decoding.worker.media import Media, open_media
from tonearm.decoding.worker.reader import DescriptorReader, Dropped, RequestingReader
from tonearm.decoding.worker.resampling import BLOCK_SAMPLES
from tonearm.decoding.worker.scheduler import DecodeScheduler, DecodeThreads, Slot
from tonearm.decoding.worker.timeline import PcmStore

AHEAD_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
TURN_SAMPLES: Final = SAMPLE_RATE_HZ // 2
SHORT_TURN_SAMPLES: Final = BLOCK_SAMPLES
FOLLOWER_CAN_WAIT_S: Final = 5.0  # a source that only waits for its turn is less urgent
DROPPED_DUE_S: Final = 0.0  # what is to end goes first: it works no more and gives back what it holds
READ_AGAIN_LIMIT_S: Final = 10.0

Report: TypeAlias = ReadRequest | Opened | Failed | Decoded | Titled

# Made beforehand: where it is needed there is little memory to make it.
_OUT_OF_MEMORY: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.DECODE,
    "Decoding the source needs more memory than is left of what a decoder process may have.",
    "Check the file, or raise decoder.memory_limit_mb.",
)


class DecodingSource:
    """Opens and decodes one source until `AHEAD_SAMPLES` lie ready, then rests until they are used.

    `post` takes what the node must know, `notify` tells the renderer of new PCM. Nothing of the media is touched but in
    its turns, which threads of the crew do. `store` and `has_failed` are ended by the renderer when it hears of it
    (`settle`), so that the node is told before the sound ends.
    """

    def __init__(
        self,
        order: OpenSource,
        descriptor: int | None,
        turns: DecodeScheduler,
        openings: DecodeScheduler,
        crew: DecodeThreads,
        post: Callable[[Report], None],
        notify: Callable[[int], None],
    ) -> None:
        self._order = order
        self._turns = turns
        self._gate = openings
        self._slot = -1
        self._crew = crew
        self._post = post
        self._notify = notify
        self._resting = threading.Lock()
        self._rests = False  # and nobody has asked for a turn for it
        self._is_dropped = False
        self._used_up_to = order.start_sample
        self._is_follower = True
        self._titles = StreamTitles() if order.is_live else None
        self.store = PcmStore(order.start_sample)
        self.has_failed = False
        self._reader: DescriptorReader | RequestingReader
        if descriptor is not None:
            self._reader = DescriptorReader(descriptor, order.size_bytes or 0)
        else:
            self._reader = RequestingReader(
                order.size_bytes, order.is_seekable, self._request_read, self._give_up_turn, self._take_turn
            )
        self._waits_in_turns = descriptor is None
        self._work = self._in_turns()

    # For the thread that renders, but for `deliver`, which is for the one that reads the socket

    def start(self) -> None:
        """Asks for the first turn. When the memory does not suffice for its thread, it is a failure of the source."""
        if self._waits_in_turns:
            try:
                self._crew.grow()
            except (RuntimeError, MemoryError):
                self._reader.close()
                self._report_failure(_OUT_OF_MEMORY)
                return
        self._gate.enter(self, self._due_s())

    def drop(self) -> None:
        """Orders it to end soon. What is in the store stays readable."""
        self._is_dropped = True
        self._reader.drop()
        self._wake_up()

    def deliver(self, message: Data | DataFailed | TitleAt) -> None:
        """Hands on what the node sent for a `ReadRequest`, or tells beside it."""
        if isinstance(message, TitleAt):
            if self._titles is not None:
                self._titles.expect(message.offset, message.title)
        elif isinstance(self._reader, RequestingReader):
            if isinstance(message, Data):
                self._reader.deliver(message.offset, message.data)
            else:
                self._reader.fail(message.failure)

    def used(self, sample: int, *, is_follower: bool) -> bool:
        """Tells how far the source was rendered. When little is ahead it is woken to go on: True."""
        self._used_up_to = sample
        self._is_follower = is_follower
        return self._needs_more() and self._wake_up()

    def fill_up(self) -> None:
        """Has it go on when it has room for a turn, before it needs it: it costs less while others decode."""
        if self.store.end - self._used_up_to <= AHEAD_SAMPLES:
            self._wake_up()

    def settle(self, report: Failed | Decoded) -> None:
        """Takes back the source's own last report, on its way to the node."""
        if isinstance(report, Failed) and not report.gave_audio:
            self.has_failed = True
        else:
            self.store.finish(is_broken=isinstance(report, Failed))

    # For the turns

    @property
    def suspect(self) -> int:
        return self._order.session << 32 | self._order.source

    def wake(self, slot: int) -> None:
        self._crew.order(self, slot)

    def do_turn(self, slot: int) -> Slot | None:
        self._slot, gate = slot, self._gate
        goes_on = self._go_on()
        slot = self._slot  # another one, perhaps: while it waited for bytes it had none
        if goes_on:
            self._rest()  # from here another thread may be at its next turn
        elif self._waits_in_turns:
            self._crew.shrink()
        return gate.pass_on(slot)

    # In its turns

    def _go_on(self) -> bool:
        """False when there is nothing more to do."""
        try:
            next(self._work)
            return True
        except StopIteration:
            self._post(Decoded(self._order.session, self._order.source))
            return False
        except Dropped:
            return False
        except PlayError as error:
            failure = error.failure
        except MemoryError:
            failure = _OUT_OF_MEMORY
        except Exception as error:  # noqa: BLE001 - told to the node and to stderr; a source must not just fall silent
            traceback.print_exc(file=sys.stderr)
            failure = _unexpected(error)
        if not self._is_dropped:
            self._report_failure(failure)
        return False

    def _report_failure(self, failure: PlayFailure) -> None:
        order = self._order
        gave_audio = self.store.end > self.store.start
        self._post(Failed(order.session, order.source, failure, gave_audio))

    def _in_turns(self) -> Iterator[None]:
        """The whole work. It rests wherever it yields."""
        media: Media | None = None
        try:
            media = self._open()
            if self._order.start_sample and not self._order.is_live:
                yield from self._go_to_start(media)
            if self._order.is_probe:
                return
            self._gate = self._turns
            yield from self._decode_to_end(media)
            while self._reader.begin_next_part():
                # Another encoding or other timestamps: nothing of what the demuxer knows holds any more.
                media.close()
                media = self._open_media()
                yield from self._decode_to_end(media)
        finally:
            try:
                if media is not None:
                    media.close()
            finally:
                self._reader.close()

    def _open(self) -> Media:
        media = self._open_media()
        self._post(Opened(self._order.session, self._order.source, media.facts))
        return media

    def _open_media(self) -> Media:
        order = self._order
        return open_media(
            self._reader,
            name=order.name,
            content_type=order.content_type,
            size_bytes=order.size_bytes,
            is_live=order.is_live,
            titles=self._titles,
        )

    def _go_to_start(self, media: Media) -> Iterator[None]:
        """Skips what was heard before. Reads it again where the source cannot jump."""
        start = self._order.start_sample
        if self._reader.seekable():
            media.seek(start)
            return
        deadline_s = time.monotonic() + READ_AGAIN_LIMIT_S
        passed = 0
        while passed < start:
            # A turn for each piece, so that other openings get in between and none counts as hanging.
            yield
            pcm = media.decode(TURN_SAMPLES)
            if not pcm:
                return
            samples = len(pcm) // SAMPLE_BLOCK_BYTES
            if passed + samples > start:
                self._append(pcm[(start - passed) * SAMPLE_BLOCK_BYTES :])
            passed += samples
            if time.monotonic() > deadline_s:
                raise PlayError(
                    PlayFailure(
                        FailureCode.DECODER_DIED,
                        Stage.DECODE,
                        "The decoder process died, and the source cannot be read again up to its position in time.",
                        "Play the track again.",
                    )
                )

    def _decode_to_end(self, media: Media) -> Iterator[None]:
        goes_on = True
        while goes_on:
            yield
            if self._is_dropped:
                raise Dropped
            goes_on = self._decode_turn(media)
        if self.store.end == self._order.start_sample == 0:
            raise PlayError(
                PlayFailure(
                    FailureCode.EMPTY, Stage.DECODE, "The source holds no sound at all.", "Check the file: it is empty."
                )
            )

    def _decode_turn(self, media: Media) -> bool:
        """Decodes a turn's samples, in blocks: larger pieces would be memory that the system maps anew each time."""
        wanted_end = self.store.end + self._turn_samples()
        while self.store.end < wanted_end:
            pcm = media.decode(BLOCK_SAMPLES)
            self._tell_titles()
            if not pcm:
                return False
            self._append(pcm)
        return True

    def _turn_samples(self) -> int:
        """A first sound waits for little. From then on whole turns, even when little is ahead: where many run out at
        once, a round of short turns costs so much more for each that none of them gets ahead again."""
        return TURN_SAMPLES if self.store.end > self.store.start else SHORT_TURN_SAMPLES

    def _tell_titles(self) -> None:
        order = self._order
        for heard in self._titles.take_heard() if self._titles is not None else ():
            self._post(Titled(order.session, order.source, order.start_sample + heard.sample, heard.title))

    def _append(self, pcm: bytes) -> None:
        self.store.append(pcm)
        self._notify(self._order.session)

    def _needs_more(self) -> bool:
        return self._is_dropped or self.store.end - self._used_up_to <= AHEAD_SAMPLES - TURN_SAMPLES

    def _rest(self) -> None:
        with self._resting:
            self._rests = True
        if self._needs_more():
            self._wake_up()

    def _wake_up(self) -> bool:
        """For any thread: asks for a turn. False when the source does not rest."""
        with self._resting:
            rests, self._rests = self._rests, False
        if rests:
            self._gate.enter(self, self._due_s())
        return rests

    def _due_s(self) -> float:
        if self._is_dropped:
            return DROPPED_DUE_S
        return due_s(time.monotonic(), self.store.end - self._used_up_to, is_follower=self._is_follower)

    def _take_turn(self) -> None:
        self._slot = self._gate.take(self._due_s(), self.suspect)

    def _give_up_turn(self) -> None:
        self._gate.give_up(self._slot)

    def _request_read(self, offset: int, length: int) -> None:
        self._post(ReadRequest(self._order.session, self._order.source, offset, length))


def due_s(now_s: float, ahead_samples: int, *, is_follower: bool) -> float:
    """When the sound of a source runs out that asks for a turn now.

    So it grows more urgent while it waits. By what is ahead alone, others that come later with a little less would
    always go before it, and a busy process would let it starve.
    """
    return now_s + ahead_samples / SAMPLE_RATE_HZ + (FOLLOWER_CAN_WAIT_S if is_follower else 0.0)


def _unexpected(error: Exception) -> PlayFailure:
    return PlayFailure(
        FailureCode.CORRUPT,
        Stage.DECODE,
        f"Decoding the source failed unexpectedly ({type(error).__name__}: {error}).",
        "Try another encoding of it; report it when it happens again with this source.",
    )

"""One source in a decoder process: a thread that opens it and decodes it ahead, in turns with the others."""

import threading
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.decoder.media import Media, open_media
from tonearm.decoder.messages import DataFailed, Data, Decoded, Failed, Opened, OpenSource, Want
from tonearm.decoder.pcm_store import PcmStore
from tonearm.decoder.reader import DescriptorReader, Dropped, WantingReader
from tonearm.decoder.turns import Turns

AHEAD_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
TURN_SAMPLES: Final = SAMPLE_RATE_HZ // 2
FOLLOWER_URGENCY_SAMPLES: Final = 5 * SAMPLE_RATE_HZ  # a source that only waits for its turn is less urgent
READ_AGAIN_LIMIT_S: Final = 10.0

Report: TypeAlias = "Want | Opened | Failed | Decoded"


class SourceThread:
    """Opens and decodes one source until `AHEAD_SAMPLES` lie ready, then sleeps until they are used.

    `post` takes what the node must know, `notify` wakes the renderer after new PCM. `urgency` says how many samples
    lie ready and whether the source sounds now. Nothing of the media is touched outside the thread.
    """

    def __init__(
        self,
        order: OpenSource,
        descriptor: int | None,
        turns: Turns,
        openings: Turns,
        post: Callable[[Report], None],
        notify: Callable[[int], None],
    ) -> None:
        self._order = order
        self._turns = turns
        self._openings = openings
        self._gate = openings
        self._slot: int | None = None
        self._post = post
        self._notify = notify
        self._more = threading.Event()
        self._is_dropped = False
        self.store = PcmStore(order.start_sample)
        self.has_failed = False
        self.used_up_to = order.start_sample  # set by the renderer
        self.is_follower = True  # set by the renderer
        self._reader: DescriptorReader | WantingReader
        if descriptor is not None:
            self._reader = DescriptorReader(descriptor, order.size_bytes or 0)
        else:
            self._reader = WantingReader(
                order.size_bytes, order.is_seekable, self._want, self._give_up_turn, self._take_turn
            )
        self._thread = threading.Thread(target=self._run, name=f"source-{order.session}-{order.source}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def drop(self) -> None:
        """Orders the thread to end soon. What is in the store stays readable."""
        self._is_dropped = True
        self._reader.drop()
        self._more.set()

    def deliver(self, message: Data | DataFailed) -> None:
        """Hands on what the node sent for a `Want`."""
        if isinstance(self._reader, WantingReader):
            if isinstance(message, Data):
                self._reader.deliver(message.offset, message.data)
            else:
                self._reader.fail(message.failure)

    def used(self, sample: int, is_follower: bool) -> None:
        """Tells how far the source was rendered, so that decoding goes on when little is ahead."""
        self.used_up_to = sample
        self.is_follower = is_follower
        if self._needs_more():
            self._more.set()

    def _run(self) -> None:
        media: Media | None = None
        try:
            self._take_turn()
            media = self._open()
            self._give_up_turn()
            self._gate = self._turns
            self._decode_to_end(media)
        except Dropped:
            pass
        except PlayError as error:
            self._fail(error.failure)
        except MemoryError:
            self._fail(_out_of_memory())
        finally:
            if media is not None:
                media.close()
            self._reader.close()
            self._give_up_turn()

    def _open(self) -> Media:
        order = self._order
        media = open_media(
            self._reader,
            name=order.name,
            content_type=order.content_type,
            size_bytes=order.size_bytes,
            is_live=order.is_live,
        )
        try:
            self._post(Opened(order.session, order.source, media.facts))
            if order.start_sample:
                self._go_to_start(media)
        except BaseException:
            media.close()
            raise
        return media

    def _go_to_start(self, media: Media) -> None:
        start = self._order.start_sample
        if self._reader.seekable():
            media.seek(start)
            return
        deadline_s = time.monotonic() + READ_AGAIN_LIMIT_S
        passed = 0
        while passed < start:
            pcm = media.decode(TURN_SAMPLES)
            if not pcm:
                return
            samples = len(pcm) // 4
            if passed + samples > start:
                self.store.append(pcm[(start - passed) * 4 :])
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

    def _decode_to_end(self, media: Media) -> None:
        order = self._order
        while True:
            while not self._needs_more():
                self._more.clear()
                if self._needs_more():
                    break
                self._more.wait()
            if self._is_dropped:
                raise Dropped
            self._take_turn()
            pcm = media.decode(TURN_SAMPLES)
            self._give_up_turn()
            if not pcm:
                break
            self.store.append(pcm)
            self._notify(order.session)
        if self.store.end == order.start_sample == 0:
            raise PlayError(
                PlayFailure(
                    FailureCode.EMPTY, Stage.DECODE, "The source holds no sound at all.", "Check the file: it is empty."
                )
            )
        self.store.finish(is_broken=False)
        self._post(Decoded(order.session, order.source))
        self._notify(order.session)

    def _fail(self, failure: PlayFailure) -> None:
        order = self._order
        gave_audio = self.store.end > self.store.start
        self.has_failed = not gave_audio
        self._post(Failed(order.session, order.source, failure, gave_audio))
        if gave_audio:
            self.store.finish(is_broken=True)
        self._notify(order.session)

    def _needs_more(self) -> bool:
        return self._is_dropped or self.store.end - self.used_up_to <= AHEAD_SAMPLES - TURN_SAMPLES

    def _take_turn(self) -> None:
        urgency = self.store.end - self.used_up_to + (FOLLOWER_URGENCY_SAMPLES if self.is_follower else 0)
        self._slot = self._gate.take(urgency, self._order.session << 32 | self._order.source)

    def _give_up_turn(self) -> None:
        if self._slot is not None:
            slot, self._slot = self._slot, None
            self._gate.give_up(slot)

    def _want(self, offset: int, length: int) -> None:
        self._post(Want(self._order.session, self._order.source, offset, length))


def _out_of_memory() -> PlayFailure:
    return PlayFailure(
        FailureCode.LIMIT_EXCEEDED,
        Stage.DECODE,
        "Decoding the source needs more memory than a decoder process may have.",
        "Check the file, or raise decoder.memory_limit_mb.",
    )

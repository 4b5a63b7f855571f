"""Files with strange numbers, and damaged ones, through a real decoder process: each ends, in sound or in an error, and
none ends it.

The variables say how many (`make fuzz`). FUZZ_SEED is the first of the strange ones.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Final

import av
import pytest
from av.audio.codeccontext import AudioCodecContext
from msgspec.structs import replace

from tests.support.decoder_driver import DecoderDriver, open_order, running_decoder
from tests.support.examples import SEED
from tests.support.mutation import mutated_file
from tests.support.strange.checking import check_opus_packet, mp3_decoder, opus_decoder
from tests.support.strange.dice import Dice
from tests.support.strange.files import StrangeFile, strange_file
from tonearm.core.failure import FailureCode
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, PCM, Output, Outputs, mp3_output
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    Audio,
    CloseSession,
    CrossfadeOrder,
    Encoded,
    Failed,
    FromDecoder,
    Grant,
    MarkKind,
    Plan,
    SeekSource,
    SessionFailed,
)

_PASSED: Final = Output("opus", passes_through=True)
_OTHERS: Final = (PCM, Output("opus", 96_000), mp3_output(128_000))
_MOST_FRAMES: Final = 300  # what is longer is left


class DecoderStory:
    """One session with one file, which is sought and played again. `ending` says how it ended."""

    def __init__(self, driver: DecoderDriver, session: int, file: StrangeFile) -> None:
        self.file = file
        self.frames = self.passed_frames = 0
        self.ending = ""
        self._driver = driver
        self._session = session
        self._dice = dice = Dice(file.seed)
        self._outputs: Outputs = frozenset({_PASSED, *dice.sample(_OTHERS, dice.randrange(4))})
        self._filters = Filters() if dice.randrange(6) else Filters(volume=dice.choice((0.0, 0.5, 5.0)))
        self._is_seekable = bool(dice.randrange(8))
        self._seeks = dice.choice((0, 0, 1, 3))
        self._sources = 1
        self._current, self._following = 1, 0
        self._fade: CrossfadeOrder | None = None
        self._turned_in = -1  # the frame in which the current one followed `_turned_from`
        self._turned_from = 0
        self._epoch = 1
        self._sent = 0
        self._before: Audio | None = None
        self._opus_decoders: defaultdict[Output, AudioCodecContext] = defaultdict(opus_decoder)
        self._mp3_decoder = mp3_decoder()

    def play(self) -> None:
        """Raises EOFError or OSError when the process ends, AssertionError for what it should not say."""
        dice, descriptor = self._dice, os.memfd_create(str(self.file.seed))
        try:
            os.write(descriptor, self.file.data)
            self._driver.open_session(self._session, self._filters)
            start = dice.choice((0, 0, 0, 960 * dice.randint(1, 100), dice.randint(1, 150_000), 3600 * 48_000))
            self._open(descriptor, start, dice.choice((None, None, None, start + dice.randint(1, 60_000))))
            self._plan(0, switch_to=1)
            if dice.one_in(3):
                self._following = self._sources = 2
                self._open(descriptor, 0, None)
                if dice.one_in(2):
                    self._fade = CrossfadeOrder(dice.randint(0, 40_000), dice.choice((960, 9_600, 48_000)), "linear")
                self._plan(0)
            self._grant()
            while not self.ending:
                for message in self._driver.step():
                    if getattr(message, "session", None) == self._session and not self.ending:
                        self._take(message)
        finally:
            os.close(descriptor)
            self._driver.send(CloseSession(self._session))
            self._driver.received.clear()
            self._driver.feeds.clear()

    def _open(self, descriptor: int, start: int, end: int | None) -> None:
        data = self.file.data
        order = open_order(self._session, self._sources, len(data), start_sample=start, has_descriptor=True)
        if self._is_seekable:
            self._driver.send(replace(order, end_sample=end), descriptor)
        else:
            self._driver.open_bytes(data, self._session, self._sources, is_seekable=False, start_sample=start)

    def _plan(self, at_frame: int, switch_to: int | None = None) -> None:
        self._epoch += 1
        epochs, following = (self._epoch, self._epoch - 1), self._following or None
        plan = Plan(self._session, *epochs, at_frame, switch_to, self._current, following, self._filters)
        self._driver.send(replace(plan, crossfade=self._fade if following else None, outputs=self._outputs))
        self._before = None

    def _go_back(self) -> None:
        """What was rendered and not sent yet is void."""
        if self._turned_in >= self._sent:
            self._current, self._following, self._turned_in = self._turned_from, self._current, -1

    def _grant(self) -> None:
        self._driver.send(Grant(self._session, self._epoch, self._sent, self._sent + GRANT_FRAMES, self._outputs))

    def _take(self, message: FromDecoder) -> None:
        if isinstance(message, Encoded):
            for frame in message.mp3_frames:
                self._mp3_decoder.decode(av.Packet(frame))
        elif isinstance(message, SessionFailed):
            raise AssertionError(f"an error of its own: {message.failure}")
        elif isinstance(message, Failed) and not message.gave_audio and message.source == self._current:
            failure = message.failure
            assert failure.code is not FailureCode.INTERNAL, failure
            assert failure.message, failure
            assert failure.hint, failure
            self.ending = f"failed: {failure.code}"
        elif isinstance(message, Failed) and message.source == self._following:
            self._following = 0
            self._plan(self._sent)
            self._grant()
        elif isinstance(message, Audio) and message.epoch == self._epoch:
            self._hear(message)

    def _hear(self, audio: Audio) -> None:
        self._check(audio)
        self._before = audio
        self.frames += audio.frames
        self.passed_frames += audio.frames * audio.is_passed
        end = audio.first_frame + audio.frames
        for mark in audio.marks:
            if mark.kind is MarkKind.BEGIN and mark.source == self._following:
                self._turned_in, self._turned_from = mark.frame, self._current
                self._current, self._following = self._following, 0
            elif mark.kind in (MarkKind.END, MarkKind.INTERRUPTED) and not self._following:
                self.ending = "played"
        if end >= _MOST_FRAMES:
            self.ending = "left"
        if self.ending:
            return
        behind = self._dice.randint(0, max(audio.frames - 1, 0))
        self._sent = max(self._sent, end - behind)  # a grant gives a frame more
        if self._seeks and self._dice.one_in(2):
            self._seek()
        elif self._dice.one_in(8):
            self._filters = Filters(volume=self._dice.choice((0.0, 1.0, 1.0, 1.0, 0.7)))
            self._go_back()
            self._plan(self._sent)
        self._grant()

    def _seek(self) -> None:
        self._go_back()
        self._seeks -= 1
        self._sources += 1
        dice = self._dice
        to = dice.choice((0, 960 * dice.randint(0, 100), dice.randint(0, 200_000), 3600 * 48_000, 2**33))
        self._driver.send(SeekSource(self._session, self._current, self._sources, to))
        self._current, self._following = self._sources, 0
        self._plan(self._sent, switch_to=self._current)

    def _check(self, audio: Audio) -> None:
        before = self._before
        if before is not None:
            assert audio.first_frame == before.first_frame + before.frames, "frames are missing"
            if audio.frames and before.source == audio.source != 0 and not before.marks:
                assert audio.position_samples == before.position_samples + before.frames * FRAME_SAMPLES, "it jumps"
        assert len(audio.pcm) == (FRAME_BYTES * audio.frames if PCM in self._outputs else 0)
        for output, packets in audio.packets:
            assert len(packets) == audio.frames
            for packet in packets:
                check_opus_packet(self._opus_decoders[output], packet)


STRANGE: Final = int(os.environ.get("FUZZ_FILES") or 40)
DAMAGED: Final = int(os.environ.get("MUTATIONS") or 200)


def damaged_file(number: int) -> StrangeFile:
    kind, data = mutated_file(number)
    return StrangeFile(number, kind, ("damaged",), data)


@pytest.mark.parametrize(
    ("make", "numbers", "least_played", "least_failed", "again"),
    [
        (strange_file, range(SEED, SEED + STRANGE), 0.25, -1.0, "make fuzz SEED={0} FILES=1 SEEDS=1"),
        (damaged_file, range(DAMAGED), 0.1, 0.05, "make fuzz MUTATIONS={1}"),
    ],
    ids=["strange", "damaged"],
)
def test_files_end_in_sound_or_in_an_error(
    make: Callable[[int], StrangeFile], numbers: range, least_played: float, least_failed: float, again: str
) -> None:
    endings: Counter[str] = Counter()
    frames = passed_frames = 0
    with running_decoder() as driver:
        for session, number in enumerate(numbers, 1):
            story = DecoderStory(driver, session, make(number))
            try:
                story.play()
            except (EOFError, OSError, AssertionError) as error:
                ended = f"; the process ended: {driver.wait_for_end()}" if isinstance(error, BrokenPipeError) else ""
                raise AssertionError(
                    f"{story.file}: {error}{ended}\nAgain: {again.format(number, number + 1)}"
                ) from error
            endings[story.ending] += 1
            frames += story.frames
            passed_frames += story.passed_frames
    print(f"{numbers}: {frames} frames, {passed_frames} passed through, {dict(endings)}")  # noqa: T201 - of a long run
    # What breaks everything, or nothing, would try little.
    if len(numbers) >= 40:
        assert endings["played"] > len(numbers) * least_played
        failed = sum(count for ending, count in endings.items() if ending.startswith("failed"))
        assert failed > len(numbers) * least_failed

"""Strange and damaged files through a real decoder process: each ends, in sound or in an error, and none ends it.

The variables say how many (`make fuzz`): FUZZ_SEED is the first of them, FUZZ_FILES their number.
"""

import os
from collections import Counter, defaultdict
from typing import Final

import av
import pytest
from av.audio.codeccontext import AudioCodecContext
from msgspec.structs import replace

from tests.support.audio_files import music, opus
from tests.support.decoder_driver import DecoderDriver, open_order, running_decoder
from tests.support.examples import SEED
from tests.support.packet_source import packets_in
from tests.support.strange.checking import check_opus_packet, mp3_decoder, opus_decoder
from tests.support.strange.files import Dice, StrangeFile, strange_file
from tonearm.core.failure import FailureCode
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, MOST_OPUS_PACKET_BYTES, PCM, Output, mp3_output
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    Audio,
    CloseSession,
    Encoded,
    Failed,
    FromDecoder,
    Grant,
    MarkKind,
    Plan,
    SeekSource,
    SessionFailed,
)
from tonearm.server.stream_bodies import OggOpusStream

FILES: Final = int(os.environ.get("FUZZ_FILES") or 240)
_PASSED: Final = Output("opus", passes_through=True)
_OTHERS: Final = (PCM, Output("opus", 96_000), mp3_output(128_000))
_MOST_FRAMES: Final = 300  # what is longer is left


class DecoderStory:
    """One session with one file, which is sought and whose filters change. `ending` says how it ended."""

    def __init__(self, driver: DecoderDriver, session: int, file: StrangeFile) -> None:
        self.file = file
        self.frames = self.passed_frames = 0
        self.ending = ""
        self._driver = driver
        self._session = session
        self._dice = dice = Dice(file.seed)
        self._outputs = frozenset({_PASSED, *dice.sample(_OTHERS, dice.randrange(4))})
        self._filters = Filters(volume=dice.choice((1.0, 1.0, 1.0, 1.0, 0.0, 5.0)))
        self._seeks = dice.choice((0, 0, 1, 3))
        self._source = self._epoch = 1
        self._sent = 0
        self._before: Audio | None = None
        self._opus_decoders: defaultdict[Output, AudioCodecContext] = defaultdict(opus_decoder)
        self._mp3_decoder = mp3_decoder()

    def play(self) -> None:
        """Raises EOFError or OSError when the process ends, AssertionError for what it should not say."""
        self._driver.open_session(self._session, self._filters)
        self._open()
        self._plan(switch_to=1)
        self._grant()
        while not self.ending:
            for message in self._driver.step():
                if getattr(message, "session", None) == self._session and not self.ending:
                    self._take(message)
        self._driver.send(CloseSession(self._session))
        self._driver.received.clear()
        self._driver.feeds.clear()

    def _open(self) -> None:
        """By a descriptor or by requests, whole or a part."""
        dice, data = self._dice, self.file.data
        start = dice.choice((0, 0, 0, 960 * dice.randint(1, 100), dice.randint(1, 150_000), 3600 * 48_000))
        if dice.one_in(8):
            self._driver.open_bytes(data, self._session, is_seekable=False, start_sample=start)
            return
        descriptor = os.memfd_create(str(self.file.seed))
        os.write(descriptor, data)
        order = open_order(self._session, 1, len(data), start_sample=start, has_descriptor=True)
        end = dice.choice((None, None, None, start + dice.randint(1, 60_000)))
        self._driver.send(replace(order, end_sample=end), descriptor)
        os.close(descriptor)

    def _plan(self, switch_to: int | None = None) -> None:
        self._epoch += 1
        epochs = self._epoch, self._epoch - 1
        plan = Plan(self._session, *epochs, self._sent, switch_to, self._source, None, self._filters)
        self._driver.send(replace(plan, outputs=self._outputs))
        self._before = None

    def _grant(self) -> None:
        self._driver.send(Grant(self._session, self._epoch, self._sent, self._sent + GRANT_FRAMES, self._outputs))

    def _take(self, message: FromDecoder) -> None:
        if isinstance(message, Encoded):
            for frame in message.mp3_frames:
                self._mp3_decoder.decode(av.Packet(frame))
        elif isinstance(message, SessionFailed):
            raise AssertionError(f"an error of its own: {message.failure}")
        elif isinstance(message, Failed) and not message.gave_audio and message.source == self._source:
            failure = message.failure
            assert failure.code is not FailureCode.INTERNAL, failure
            assert failure.message, failure
            assert failure.hint, failure
            self.ending = f"failed: {failure.code}"
        elif isinstance(message, Audio) and message.epoch == self._epoch:
            self._hear(message)

    def _hear(self, audio: Audio) -> None:
        self._check(audio)
        self._before = audio
        self.frames += audio.frames
        self.passed_frames += audio.frames * audio.is_passed
        end = audio.first_frame + audio.frames
        if any(mark.kind in (MarkKind.END, MarkKind.INTERRUPTED) for mark in audio.marks):
            self.ending = "played"
        elif end >= _MOST_FRAMES:
            self.ending = "left"
        if self.ending:
            return
        dice = self._dice
        self._sent = max(self._sent, end - dice.randint(0, max(audio.frames - 1, 0)))  # a grant gives a frame more
        if self._seeks and dice.one_in(2):
            self._seeks -= 1
            to = dice.choice((0, 960 * dice.randint(0, 100), dice.randint(0, 200_000), 3600 * 48_000, 2**33))
            self._driver.send(SeekSource(self._session, self._source, self._source + 1, to))
            self._source += 1
            self._plan(switch_to=self._source)
        elif dice.one_in(8):
            self._filters = Filters(volume=dice.choice((0.0, 1.0, 1.0, 1.0, 0.7)))
            self._plan()
        self._grant()

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


def test_files_end_in_sound_or_in_an_error() -> None:
    endings: Counter[str] = Counter()
    frames = passed_frames = 0
    with running_decoder() as driver:
        for session, seed in enumerate(range(SEED, SEED + FILES), 1):
            story = DecoderStory(driver, session, strange_file(seed))
            try:
                story.play()
            except (EOFError, OSError, AssertionError) as error:
                ended = f"; the process ended: {driver.wait_for_end()}" if isinstance(error, BrokenPipeError) else ""
                again = f"make fuzz SEED={seed} FILES=1 SEEDS=1"
                raise AssertionError(f"{story.file}: {error}{ended}\nAgain: {again}") from error
            endings[story.ending] += 1
            frames += story.frames
            passed_frames += story.passed_frames
    print(f"{FILES}: {frames} frames, {passed_frames} passed through, {dict(endings)}")  # noqa: T201 - of a long run
    # What breaks everything, or nothing, would try little.
    if FILES >= 100:
        failed = sum(count for ending, count in endings.items() if ending.startswith("failed"))
        assert FILES * 0.05 < failed < FILES * 0.5
        assert passed_frames > frames * 0.05


@pytest.mark.parametrize("length", [MOST_OPUS_PACKET_BYTES + 1, 70_000])
def test_a_packet_that_is_too_long_is_not_passed_on(length: int) -> None:
    packets = packets_in(opus(music(1.0)))
    packets[20] = packets[20][:1] + bytes(length - 1)
    stream = OggOpusStream(7, 312)
    file = b"".join((stream.head("test"), stream.page(packets[:15]), stream.page(packets[15:]), stream.end()))
    with running_decoder() as driver:
        story = DecoderStory(driver, 1, StrangeFile(8, "ogg", (), file))  # 8: from its start, unchanged
        story.play()
    assert story.ending == "played"
    assert len(packets) // 2 < story.passed_frames < story.frames

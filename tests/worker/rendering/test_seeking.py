"""Seeks in sources that are open, starts and ends inside a file: a real decoder process, sample for sample."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from tests.support.audio_files import flac, mp3, music, wav
from tests.support.decoder_driver import DecoderDriver, feed_of, open_order, running_decoder
from tests.support.media_files import Samples, decode_bytes, samples_of
from tonearm.core.filters import Filters
from tonearm.decoder.messages import (
    Audio,
    Data,
    Decoded,
    DropSource,
    Failed,
    Mark,
    MarkKind,
    Opened,
    Plan,
    ReadRequest,
    SeekRefused,
    SeekSource,
)

GLIDE = 240
SECOND = 48_000


class SeekingDriver:
    """Plays in one session, and cuts to what is sought at the frame that would be sent next."""

    def __init__(self, driver: DecoderDriver) -> None:
        self.driver = driver
        self.epoch = 1
        self.next_frame = 0
        self.current = 0
        driver.open_session()

    def open(self, data: bytes, source: int, **changes: object) -> None:
        self.driver.feeds[1, source] = feed_of(data)
        self.driver.send(structs.replace(open_order(1, source, len(data)), **changes))

    def cut_to(self, source: int) -> None:
        self.current = source
        self.epoch += 1
        self.driver.send(Plan(1, self.epoch, self.epoch - 1, self.next_frame, source, source, None, Filters()))

    def seek(self, source: int, new_source: int, sample: int) -> None:
        self.driver.send(SeekSource(1, source, new_source, sample))
        self.cut_to(new_source)

    def play(self, frames: int) -> list[Audio]:
        """The audio of the newest plan, up to so many frames of it from here, or to the end of the source."""
        heard: list[Audio] = []
        for audio in self.driver.listen(1, self.epoch, self.next_frame, self.next_frame + frames):
            heard.append(structs.replace(audio, pcm=bytes(audio.pcm)))
            self.next_frame = audio.first_frame + audio.frames
        return heard

    def play_from(self, sample: int, whole: Samples, frames: int, *, steps: int = 0) -> list[Audio]:
        """The audio of the current source, which is `whole` from this sample on, but for so many steps of 65536."""
        heard = self.play(frames)
        start, sound = sound_of(heard, self.current)
        assert start == sample
        expected = whole[sample : sample + len(sound)].astype(int)
        assert np.abs(sound[GLIDE : len(expected)].astype(int) - expected[GLIDE:]).max(initial=0) <= steps
        return heard


def sound_of(heard: list[Audio], source: int) -> tuple[int, Samples]:
    """Where the sound of a source begins in it, and its samples."""
    own = [audio for audio in heard if audio.source == source]
    return own[0].position_samples, samples_of(b"".join(audio.pcm for audio in own))


def marks_of(heard: list[Audio]) -> list[Mark]:
    return [mark for audio in heard for mark in audio.marks]


@pytest.fixture
def player() -> Iterator[SeekingDriver]:
    with running_decoder() as driver:
        yield SeekingDriver(driver)


FILES: dict[str, Callable[[], bytes]] = {
    "wav": lambda: wav(music(6.0, rate_hz=44_100), 44_100),
    "flac": lambda: flac(music(6.0, rate_hz=44_100), 44_100),
    "mp3": lambda: mp3(music(6.0, rate_hz=44_100)),
}


@cache
def file_of(name: str) -> bytes:
    return FILES[name]()


@pytest.mark.parametrize("name", FILES)
def test_after_a_seek_comes_what_a_continuous_decode_has_there(player: SeekingDriver, name: str) -> None:
    whole = decode_bytes(file_of(name))
    player.open(file_of(name), 1)
    player.cut_to(1)
    player.play(20)
    for source, target in enumerate((1 * SECOND, 5 * SECOND, 12_345, 200_001), 2):
        player.seek(source - 1, source, target)
        heard = player.play_from(target, whole, 40, steps=int(name == "mp3"))
        assert [mark.kind for mark in marks_of(heard)][:1] == [MarkKind.BEGIN]


def test_the_source_stays_open_and_what_is_decoded_is_not_read_again(player: SeekingDriver) -> None:
    whole = decode_bytes(file_of("wav"))
    player.open(file_of("wav"), 1)
    player.cut_to(1)
    player.play(75)
    # One request is ahead of the demuxer, so by then the sample that is sought is decoded.
    sought_byte = 80_000 * 44_100 // SECOND * 4
    while (request := player.driver.wait_for(ReadRequest)).offset < sought_byte + 2 * request.length:
        pass
    read_to = request.offset + request.length
    player.seek(1, 2, 80_000)
    player.play_from(80_000, whole, 10)
    requests = [message for message in player.driver.received if isinstance(message, ReadRequest)]
    assert all(request.offset >= read_to for request in requests)  # more of what comes may be read ahead
    player.driver.wait_for(Opened, source=2)


def test_of_many_seeks_the_last_one_counts(player: SeekingDriver) -> None:
    whole = decode_bytes(file_of("flac"))
    player.open(file_of("flac"), 1)
    player.cut_to(1)
    for number, target in enumerate([200_000, 3, 100_000, 250_000, 100_400, 31_000]):
        player.seek(number + 1, number + 2, target)
    heard = player.play_from(31_000, whole, 50)
    assert {audio.source for audio in heard} <= {0, 7}


def test_a_source_that_is_decoded_to_its_end_can_still_be_sought(player: SeekingDriver) -> None:
    short = wav(music(1.0))
    player.open(short, 1)
    player.cut_to(1)
    player.play(40)
    player.driver.wait_for(Decoded, source=1)
    for number, target in ((2, 40_000), (3, 100), (4, 47_000)):
        player.seek(number - 1, number, target)
        player.driver.wait_for(Decoded, source=number)
        heard = player.play_from(target, samples_of(short[44:]), 50)
        assert marks_of(heard)[-1].kind is MarkKind.END


def test_a_source_that_can_only_be_read_in_order_plays_from_its_start(player: SeekingDriver) -> None:
    file = file_of("mp3")
    whole = decode_bytes(file)
    player.open(file, 1, is_seekable=False, size_bytes=None, start_sample=96_000)
    player.cut_to(1)
    start, sound = sound_of(player.play(20), 1)
    assert "range requests" in player.driver.wait_for(SeekRefused).failure.message
    assert start == 0
    assert np.array_equal(sound, whole[: len(sound)])
    player.seek(1, 2, 150_000)
    assert player.driver.wait_for(SeekRefused).source == 2
    start, sound = sound_of(player.play(10), 2)
    assert start < 3 * SECOND
    assert np.array_equal(sound[GLIDE:], whole[start + GLIDE : start + len(sound)])


def test_a_seek_that_comes_before_the_source_is_open_is_kept(player: SeekingDriver) -> None:
    file = file_of("wav")
    whole = decode_bytes(file)
    asked: list[ReadRequest] = []
    player.open(file, 1)
    player.driver.feeds[1, 1] = lambda request: asked.append(request)
    player.cut_to(1)
    player.driver.wait_for(ReadRequest)
    player.seek(1, 2, 150_000)
    player.driver.feeds[1, 1] = feed_of(file)
    for request in asked:
        player.driver.send(Data(1, 1, request.offset, file[request.offset : request.offset + request.length]))
    player.play_from(150_000, whole, 10)


def test_a_dropped_source_gives_its_file_back_at_its_end_and_after_seeks(player: SeekingDriver, tmp_path: Path) -> None:
    path = tmp_path / "short.wav"
    path.write_bytes(wav(music(0.5)))
    before = player.driver.descriptors()
    player.driver.open_file(path)
    player.cut_to(1)
    player.driver.wait_for(Decoded)
    player.seek(1, 2, 10_000)
    player.driver.wait_for(Decoded, source=2)
    player.driver.send(DropSource(1, 2))
    player.driver.wait_until(lambda: player.driver.descriptors() == before)


def test_a_failure_belongs_to_the_seek_that_meets_it(player: SeekingDriver) -> None:
    player.open(b"this is no audio at all" * 100, 1)
    player.seek(1, 2, 10_000)
    failed = player.driver.wait_for(Failed, source=2)
    assert not failed.gave_audio

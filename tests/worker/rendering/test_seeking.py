"""Seeks in sources that are open, starts and ends inside a file: a real decoder process, sample for sample."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.audio_files import mp3, music, pcm_of, wav
from tests.support.decoder_driver import DecoderDriver, SentAudio, feed_of, running_decoder
from tests.support.media_files import Samples, decode_bytes, samples_of
from tonearm.decoder.messages import Data, Decoded, DropSource, Failed, MarkKind, Opened, ReadRequest, SeekRefused

GLIDE = 240
SECOND = 48_000


@pytest.fixture
def driver() -> Iterator[DecoderDriver]:
    with running_decoder() as driver:
        driver.begin()
        yield driver


@pytest.fixture
def sent(driver: DecoderDriver) -> SentAudio:
    return SentAudio(driver)


def is_heard(sent: SentAudio, source: int, whole: Samples, sample: int, *, steps: int = 0) -> None:
    """That the sound of a source was `whole` from this sample on, but for so many steps of 65536."""
    start, pcm = sent.sound_of(source)
    assert start == sample
    sound, expected = samples_of(pcm), whole[sample : sample + len(pcm) // 4].astype(int)
    assert np.abs(sound[GLIDE : len(expected)].astype(int) - expected[GLIDE:]).max(initial=0) <= steps


@pytest.mark.parametrize("encode", [wav, mp3])
def test_after_a_seek_comes_what_a_continuous_decode_has_there(
    driver: DecoderDriver, sent: SentAudio, encode: object
) -> None:
    file = wav(music(6.0, rate_hz=44_100), 44_100) if encode is wav else mp3(music(6.0, rate_hz=44_100))
    whole, steps = decode_bytes(file), int(encode is mp3)
    driver.open_bytes(file)
    sent.play(20)
    targets = 1 * SECOND, 5 * SECOND, 12_345, 200_001
    for source, target in enumerate(targets, 2):
        sent.seek(source - 1, source, target)
        sent.play(sent.frames + 40)
        is_heard(sent, source, whole, target, steps=steps)
        assert sent.marks[0].kind is MarkKind.BEGIN
    for source, target in enumerate((200_000, 3, 100_000, 250_000, 100_400, 31_000), 6):
        sent.seek(source - 1, source, target)
    sent.play(sent.frames + 50)
    is_heard(sent, 11, whole, 31_000, steps=steps)
    assert {audio.source for audio in sent.audios} <= {0, 1, 2, 3, 4, 5, 11}, "of many seeks the last one counts"


def test_the_source_stays_open_and_what_is_decoded_is_not_read_again(driver: DecoderDriver, sent: SentAudio) -> None:
    file = wav(music(6.0))
    driver.open_bytes(file)
    sent.play(75)
    # One request is ahead of the demuxer, so by then the sample that is sought is decoded.
    while (request := driver.wait_for(ReadRequest)).offset < 80_000 * 4 + 2 * request.length:
        pass
    read_to = request.offset + request.length
    sent.seek(1, 2, 80_000)
    sent.play(85)
    is_heard(sent, 2, decode_bytes(file), 80_000)
    requests = [message for message in driver.received if isinstance(message, ReadRequest)]
    assert all(request.offset >= read_to for request in requests)  # more of what comes may be read ahead
    driver.wait_for(Opened, source=2)


def test_a_source_that_is_decoded_to_its_end_can_still_be_sought_and_gives_its_file_back(
    driver: DecoderDriver, sent: SentAudio, tmp_path: Path
) -> None:
    path, sound = tmp_path / "short.wav", music(1.0)
    path.write_bytes(wav(sound))
    before = driver.descriptors()
    driver.open_file(path)
    sent.play(40)
    driver.wait_for(Decoded, source=1)
    for source, target in ((2, 40_000), (3, 100), (4, 47_000)):
        sent.seek(source - 1, source, target)
        driver.wait_for(Decoded, source=source)
        sent.play(sent.frames + 60)
        is_heard(sent, source, samples_of(pcm_of(sound)), target)
        assert sent.marks[-1].kind is MarkKind.END
    driver.send(DropSource(1, 4))
    driver.wait_until(lambda: driver.descriptors() == before)


def test_a_source_that_can_only_be_read_in_order_plays_from_its_start(driver: DecoderDriver, sent: SentAudio) -> None:
    file = mp3(music(6.0, rate_hz=44_100))
    driver.open_bytes(file, is_seekable=False, start_sample=96_000)
    sent.play(20)
    assert "range requests" in driver.wait_for(SeekRefused).failure.message
    is_heard(sent, 1, decode_bytes(file), 0)
    sent.seek(1, 2, 150_000)
    assert driver.wait_for(SeekRefused).source == 2
    sent.play(30)
    start, _ = sent.sound_of(2)
    assert start < 3 * SECOND
    is_heard(sent, 2, decode_bytes(file), start)


def test_a_seek_that_comes_before_the_source_is_open_is_kept(driver: DecoderDriver, sent: SentAudio) -> None:
    file = wav(music(6.0))
    asked: list[ReadRequest] = []
    driver.open_bytes(file, feed=lambda request: asked.append(request))
    driver.wait_for(ReadRequest)
    sent.seek(1, 2, 150_000)
    driver.feeds[1, 1] = feed_of(file)
    for request in asked:
        driver.send(Data(1, 1, request.offset, file[request.offset : request.offset + request.length]))
    sent.play(10)
    is_heard(sent, 2, decode_bytes(file), 150_000)


def test_a_failure_belongs_to_the_seek_that_meets_it(driver: DecoderDriver, sent: SentAudio) -> None:
    driver.open_bytes(b"this is no audio at all" * 100)
    sent.seek(1, 2, 10_000)
    assert not driver.wait_for(Failed, source=2).gave_audio

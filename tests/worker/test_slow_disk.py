"""Files on a disk that does not answer: their sources wait, all others go on."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.decoder_driver import DecoderDriver, SentAudio, running_decoder
from tests.support.slow_disk import SlowDisk
from tonearm.decoder.messages import CloseSession, Grant, Opened, Ping, Pong
from tonearm.sandbox.report import SandboxMode

SECONDS = 6.0
WHOLE = 1000  # more frames than any source here has


@pytest.fixture
def disk(tmp_path: Path) -> SlowDisk:
    return SlowDisk(tmp_path)


@pytest.fixture
def driver(disk: SlowDisk) -> Iterator[DecoderDriver]:
    # The pretended disk looks at its files, which the sandbox refuses.
    with running_decoder(interpreter=disk.interpreter, sandbox=SandboxMode.OFF) as driver:
        yield driver


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.wav"
    path.write_bytes(wav(music(SECONDS)))
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.wav"
    path.write_bytes(wav(music(3.0, seed=2)))
    return path


def play_stalled(driver: DecoderDriver, disk: SlowDisk, song: Path) -> SentAudio:
    """Plays a file up to where the disk does not answer any more, which is in its middle."""
    disk.stall(song, first_byte=song.stat().st_size // 2)
    driver.begin()
    driver.open_file(song)
    sent = SentAudio(driver)
    sent.play(100)
    return sent


def test_a_stalled_read_is_no_suspect_and_delays_no_other(
    driver: DecoderDriver, disk: SlowDisk, song: Path, other: Path
) -> None:
    stalled = play_stalled(driver, disk, song)
    driver.send(Grant(1, 2, 100, 120))
    driver.wait_until(lambda: driver.suspects() == [])
    time.sleep(0.3)  # a read that were counted would be busy for so long
    driver.send(Ping(1))
    assert driver.wait_for(Pong).busy_s < 0.3
    assert driver.suspects() == []
    for session in (2, 3, 4):
        driver.begin(session)
        driver.open_file(other, session)
    for session in (2, 3, 4):
        assert SentAudio(driver, session).play(WHOLE) == pcm_of(music(3.0, seed=2))
    disk.answer()
    assert stalled.play(WHOLE) == pcm_of(music(SECONDS))


def test_files_that_stall_at_their_opening_delay_no_other(
    driver: DecoderDriver, disk: SlowDisk, song: Path, other: Path
) -> None:
    disk.stall(song)
    driver.open_session()
    for source in range(1, 7):  # more than there are slots
        driver.open_file(song, source=source)
    driver.begin(2)
    driver.open_file(other, 2)
    assert SentAudio(driver, 2).play(WHOLE) == pcm_of(music(3.0, seed=2))
    driver.send(Ping(1))
    assert driver.wait_for(Pong).busy_s < 1.0
    disk.answer()
    for source in range(1, 7):
        driver.wait_for(Opened, source=source)


def test_what_is_dropped_in_a_stalled_read_is_freed_after_it(
    driver: DecoderDriver, disk: SlowDisk, song: Path, other: Path
) -> None:
    driver.begin(2)
    threads, descriptors = driver.threads(), driver.descriptors()
    play_stalled(driver, disk, song)
    driver.send(CloseSession(1))
    driver.open_file(other, 2)
    assert SentAudio(driver, 2).play(WHOLE) == pcm_of(music(3.0, seed=2))
    disk.answer()
    driver.send(CloseSession(2))
    driver.wait_until(lambda: (driver.threads(), driver.descriptors()) == (threads, descriptors))

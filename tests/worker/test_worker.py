"""The decoder process itself: started as the node starts it, fed with real files."""

import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.audio_files import Signal, flac, mp3, music, pcm_of, wav
from tests.support.decoder_driver import DecoderDriver, SentAudio, open_order, running_decoder
from tests.support.pcm import sounds_the_same
from tests.support.session_bench import padded, risen
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.frame import FRAME_SAMPLES, FRAMES_PER_SECOND, SAMPLE_BLOCK_BYTES
from tonearm.decoder.message_coding import pack
from tonearm.decoder.messages import (
    EXIT_MEMORY_LIMIT,
    EXIT_NO_SANDBOX,
    GRANT_FRAMES,
    Audio,
    CloseSession,
    Data,
    DataFailed,
    Decoded,
    DropSource,
    Failed,
    Flush,
    Grant,
    MarkKind,
    Opened,
    OpenSource,
    Ping,
    Pong,
    ReadRequest,
    TitleAt,
    Want,
)
from tonearm.decoder.pool.process import suspects_of_exit
from tonearm.sandbox.report import SandboxMode

SONG = music(3.0)
SONG_PCM = pcm_of(SONG)
LOST = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The server hung up.", "Try again.")
WHOLE = 1000  # more frames than any source here has


@pytest.fixture
def driver() -> Iterator[DecoderDriver]:
    with running_decoder() as driver:
        yield driver


@pytest.fixture(scope="module")
def song_wav(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("songs") / "song.wav"
    path.write_bytes(wav(SONG))
    return path


def never(request: ReadRequest) -> None:
    """A server that does not answer."""


# What is rendered


@pytest.mark.parametrize("given", ["a file", "ranges", "a stream"])
def test_a_source_comes_bit_for_bit(driver: DecoderDriver, song_wav: Path, given: str) -> None:
    driver.begin()
    if given == "a file":
        driver.open_file(song_wav)
    else:
        driver.open_bytes(flac(SONG), is_seekable=given == "ranges")
    sent = SentAudio(driver)
    assert sent.play(WHOLE) == SONG_PCM
    assert [mark.kind for mark in sent.marks] == [MarkKind.BEGIN, MarkKind.END]
    facts = driver.wait_for(Opened).facts
    assert (facts.length_ms, facts.is_seekable) == (3000, given != "a stream")
    driver.wait_for(Decoded)


def test_a_flush_ends_the_wait_for_a_slow_next_source(driver: DecoderDriver) -> None:
    short = SONG[: 2 * FRAME_SAMPLES + 100]
    driver.begin(following=2)
    driver.open_bytes(wav(short))
    driver.open_bytes(b"", source=2, feed=never)
    driver.wait_for(Decoded, source=1)
    sent = SentAudio(driver)
    sent.play(2)
    driver.send(Flush(1))
    assert sent.play(WHOLE) == padded(pcm_of(short))


@pytest.mark.parametrize("is_seekable", [True, False])
@pytest.mark.parametrize(("encode", "start"), [(wav, 54_321), (flac, 54_321), (wav, 10**7)])
def test_a_source_can_begin_in_its_middle_and_behind_its_end(
    driver: DecoderDriver, encode: Callable[[Signal], bytes], start: int, is_seekable: bool
) -> None:
    """One that cannot be sought is decoded up to there when it was played that far, as after a process has died."""
    driver.begin()
    driver.open_bytes(encode(SONG), is_seekable=is_seekable, start_sample=start, resumes=not is_seekable)
    sent = SentAudio(driver)
    assert sounds_the_same(sent.play(WHOLE), risen(padded(SONG_PCM[start * SAMPLE_BLOCK_BYTES :])))
    if sent.pcm:
        assert sent.audios[0].position_samples == start
    assert sent.marks[-1].kind is MarkKind.END


def test_an_interrupted_source_is_played_to_its_last_sample(driver: DecoderDriver) -> None:
    data = wav(SONG)

    def interrupts(request: ReadRequest) -> Data | DataFailed:
        if request.offset >= 450_000:
            return DataFailed(1, 1, request.offset, LOST)
        return Data(1, 1, request.offset, data[request.offset : request.offset + request.length])

    driver.begin()
    driver.open_bytes(data, is_seekable=False, feed=interrupts)
    sent, failed = SentAudio(driver), list[Failed]()
    while len(sent.marks) < 2:
        driver.send(Grant(1, 2, sent.frames, sent.frames + GRANT_FRAMES))
        for message in driver.step():
            if isinstance(message, Audio):
                sent.take(message)
            elif isinstance(message, Failed):
                assert len(sent.marks) < 2, "the reason comes before the mark"
                failed.append(message)
    assert failed == [Failed(1, 1, LOST, gave_audio=True)]
    assert [mark.kind for mark in sent.marks] == [MarkKind.BEGIN, MarkKind.INTERRUPTED]
    assert len(sent.pcm) > 400_000
    assert SONG_PCM.startswith(sent.pcm.rstrip(b"\0"))


# What is freed


def test_dropped_sources_and_closed_sessions_free_their_threads_and_files(
    driver: DecoderDriver, song_wav: Path
) -> None:
    threads, descriptors = driver.threads(), driver.descriptors()
    for session in range(1, 6):
        driver.begin(session)
        driver.open_file(song_wav, session)
        driver.open_bytes(b"", session, source=2, feed=never)  # it waits for its first bytes
        SentAudio(driver, session).play(20)
    driver.wait_until(lambda: driver.threads() == threads + 5)  # only such a source has a thread to itself
    driver.send(DropSource(1, 1))
    driver.send(DropSource(1, 2))
    driver.wait_until(lambda: (driver.threads(), driver.descriptors()) == (threads + 4, descriptors + 4))
    for session in range(1, 6):
        driver.send(CloseSession(session))
    driver.open_file(song_wav, session=1)  # one that is closed
    driver.wait_until(lambda: (driver.threads(), driver.descriptors()) == (threads, descriptors))


def test_files_keep_to_their_sources_however_their_messages_are_cut(driver: DecoderDriver, tmp_path: Path) -> None:
    pieces = [SONG[start : start + 4 * FRAME_SAMPLES] for start in range(0, 40_000, 10_000)]
    for number, piece in enumerate(pieces, 1):
        path = tmp_path / f"{number}.wav"
        path.write_bytes(wav(piece))
        driver.begin(number)
        data = pack(open_order(number, 1, path.stat().st_size, has_descriptor=True)) + pack(Ping(number))
        descriptor = os.open(path, os.O_RDONLY)
        driver.send_bytes(data[:1], descriptor)
        os.close(descriptor)
        for index in range(1, len(data), 50):
            driver.send_bytes(data[index : index + 50])
    for number, piece in enumerate(pieces, 1):
        assert SentAudio(driver, number).play(WHOLE) == pcm_of(piece)


def test_a_file_beyond_the_limit_fails_and_none_is_taken_for_it(
    driver: DecoderDriver, song_wav: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.wav"
    other.write_bytes(wav(SONG[5000:9800]))
    driver.open_session(1)
    driver.begin(2)
    _, most = resource.prlimit(driver.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(driver.pid, resource.RLIMIT_NOFILE, (3, most))
    driver.open_file(song_wav, 1)
    failure = driver.wait_for(Failed, 1).failure
    assert failure.code is FailureCode.LIMIT_EXCEEDED
    assert "open files" in failure.message
    resource.prlimit(driver.pid, resource.RLIMIT_NOFILE, (most, most))
    driver.open_file(other, 2)
    assert SentAudio(driver, 2).play(WHOLE) == pcm_of(SONG[5000:9800])


def test_a_probed_file_is_closed_as_soon_as_it_is_known(driver: DecoderDriver, song_wav: Path) -> None:
    driver.open_session()
    threads, descriptors = driver.threads(), driver.descriptors()
    order = open_order(1, 1, song_wav.stat().st_size, has_descriptor=True, want=Want.FACTS)
    driver.send_with_descriptor_of(order, song_wav)
    assert driver.wait_for(Opened).facts.length_ms == 3_000
    driver.wait_for(Decoded)
    driver.wait_until(lambda: (driver.threads(), driver.descriptors()) == (threads, descriptors))
    driver.wait_until(lambda: driver.suspects() == [])


# The end of the process


def test_it_ends_when_the_node_closes_its_socket(driver: DecoderDriver, song_wav: Path) -> None:
    driver.begin()
    driver.open_file(song_wav)
    driver.open_bytes(b"", source=2, feed=never)
    driver.wait_for(ReadRequest, source=2)
    assert driver.end() == (0, "")


@pytest.mark.parametrize("data", [b"\xff" * 64, pack(open_order(1, 1, 100, has_descriptor=True))])
def test_hostile_bytes_and_a_missing_descriptor_end_the_process(driver: DecoderDriver, data: bytes) -> None:
    driver.send_bytes(data)
    status, stderr = driver.wait_for_end()
    assert status == 1
    assert "BrokenMessage" in stderr


def test_one_that_refuses_to_work_takes_what_it_is_sent_meanwhile(tmp_path: Path) -> None:
    """Or its end would look like a connection that broke."""
    (tmp_path / "sitecustomize.py").write_text("import platform; platform.machine = lambda: 'riscv64'")
    driver = DecoderDriver(sandbox=SandboxMode.REQUIRED, variables={"PYTHONPATH": str(tmp_path)})
    try:
        assert not driver.ready().seccomp
        driver.send(Ping(1))
        with pytest.raises(EOFError):
            driver.step()
        assert driver.wait_for_end() == (EXIT_NO_SANDBOX, "")
    finally:
        driver.close()


# Memory


def test_a_thousand_sources_that_wait_for_bytes_fit_into_a_process(driver: DecoderDriver) -> None:
    """Each costs a thread, and the address space of its stack, and no heap of its own."""
    threads, before_mb = driver.threads(), driver.memory_mb()[0]
    for session in range(1, 201):
        driver.open_session(session)
        driver.open_bytes(b"", session, feed=never)
    driver.wait_until(lambda: driver.threads() == threads + 200)
    assert driver.memory_mb()[0] - before_mb < 200 * 0.375


def test_a_decoder_that_plays_radio_stays_as_large_as_it_is(driver: DecoderDriver) -> None:
    sound = mp3(music(3.0, 44_100), bit_rate=320_000, options={"write_xing": "0", "id3v2_version": "0"})

    def station(request: ReadRequest) -> Data:
        driver.send(TitleAt(1, 1, request.offset, f"title at {request.offset}"))
        start = request.offset % len(sound)
        return Data(1, 1, request.offset, (sound[start:] + sound)[: request.length])

    driver.begin()
    driver.open_bytes(b"", feed=station, is_seekable=False, is_live=True)
    radio = driver.listen()
    while next(radio).first_frame < 30 * FRAMES_PER_SECOND:
        pass
    before_mb = driver.memory_mb()[1]
    while next(radio).first_frame < 150 * FRAMES_PER_SECOND:
        pass
    # 120 seconds are 4.8 MB of MP3 and 23 MB of PCM.
    assert driver.memory_mb()[1] - before_mb < 4


def test_a_source_that_needs_too_much_memory_fails_alone(song_wav: Path) -> None:
    with running_decoder(memory_limit_mb=400, interpreter=sys.executable) as driver:
        driver.begin()
        driver.open_file(song_wav)
        driver.wait_for(Opened)
        driver.open_session(2)
        driver.open_bytes(memory_bomb(), 2)
        failure = driver.wait_for(Failed, 2).failure
        assert failure.code in (FailureCode.LIMIT_EXCEEDED, FailureCode.NOT_AUDIO, FailureCode.CORRUPT)
        assert SentAudio(driver).play(WHOLE) == SONG_PCM


def memory_bomb() -> bytes:
    """A FLAC file whose few bytes promise a block of metadata of 16 MiB, again and again (RFC 9639, 8.1)."""
    return b"fLaC" + b"\x00\x00\x00\x22" + bytes(34) + (b"\x06\xff\xff\xff" + struct.pack(">I", 3) + bytes(28)) * 4


def test_a_source_is_no_suspect_when_others_use_the_memory_up(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(b"ID3\x03\x00\x00\x7f\x7f\x7f\x7f" + bytes(30_000_000))
    with running_decoder(memory_limit_mb=320, interpreter=sys.executable) as driver:
        driver.open_session(7)
        driver.open_session()
        for source in range(1, 200):  # openings, some of which are at work when the memory ends
            driver.open_file(junk, 7, source)
        driver.wait_until(lambda: driver.suspects() != [])
        with pytest.raises(OSError, match=r"Broken pipe|Connection reset"):
            fill_memory(driver)
        status, _ = driver.wait_for_end()
        # PyAV does not look whether it got its read buffer: in one of some hundred tries it crashes.
        assert status in (EXIT_MEMORY_LIMIT, -signal.SIGSEGV)
        assert suspects_of_exit(driver._suspects[:], status) == ()


def fill_memory(driver: DecoderDriver) -> None:
    """Titles of a station, kept until their bytes come. Players are refused while there is some memory left."""
    driver.send(open_order(1, 1000, None, is_seekable=False, is_live=True))
    title = "\N{HEADPHONE}" + "x" * 999  # four bytes a character
    for first in range(0, 1_000_000, 100):
        driver.send_bytes(b"".join(pack(TitleAt(1, 1000, offset, title)) for offset in range(first, first + 100)))


def test_orders_for_unknown_sessions_and_sources_do_nothing(driver: DecoderDriver) -> None:
    driver.send(DropSource(5, 6))
    driver.send(CloseSession(5))
    driver.send(Grant(5, 1, 0, 10))
    driver.send(Flush(5))
    driver.send(Data(5, 6, 0, b"late"))
    driver.send(DataFailed(5, 6, 0, LOST))
    driver.send(OpenSource(5, 6, "song", None, False, False, None, 0, False))
    driver.send(Ping(1))
    assert driver.wait_for(Pong).number == 1

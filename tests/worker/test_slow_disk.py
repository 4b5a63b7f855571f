"""Files on a disk that does not answer: their sources wait, all others go on."""

from pathlib import Path

from tests.support.audio_files import music, pcm_of, wav
from tests.support.decoder_driver import SentAudio, running_decoder
from tests.support.slow_disk import SlowDisk
from tonearm.decoder.messages import CloseSession, DropSource, Grant, Opened
from tonearm.sandbox.report import SandboxMode

SLOW, QUICK = music(6.0), music(3.0, seed=2)
WHOLE = 1000  # more frames than any source here has


def test_reads_that_stall_are_no_suspects_delay_no_other_and_are_freed_when_they_end(tmp_path: Path) -> None:
    disk, slow, quick = SlowDisk(tmp_path), tmp_path / "slow.wav", tmp_path / "quick.wav"
    slow.write_bytes(wav(SLOW))
    quick.write_bytes(wav(QUICK))
    # The pretended disk looks at its files, which the sandbox refuses.
    with running_decoder(interpreter=disk.interpreter, sandbox=SandboxMode.OFF) as driver:
        for session in range(1, 6):
            driver.begin(session)
        threads, descriptors = driver.threads(), driver.descriptors()
        disk.stall(slow, first_byte=slow.stat().st_size // 2)
        driver.open_file(slow)
        stalled = SentAudio(driver)
        stalled.play(100)
        driver.send(Grant(1, 2, 100, 120))
        disk.stall(slow)
        for source in range(1, 7):  # more than there are slots
            driver.open_file(slow, 2, source)
        for session in (3, 4, 5):
            driver.open_file(quick, session)
        for session in (3, 4, 5):
            assert SentAudio(driver, session).play(WHOLE) == pcm_of(QUICK)
        driver.wait_until(lambda: driver.suspects() == [])
        for source in (4, 5, 6):
            driver.send(DropSource(2, source))
        disk.answer()
        assert stalled.play(WHOLE) == pcm_of(SLOW)
        for source in (1, 2, 3):
            driver.wait_for(Opened, 2, source)
        for session in range(1, 6):
            driver.send(CloseSession(session))
        driver.wait_until(lambda: (driver.threads(), driver.descriptors()) == (threads, descriptors))

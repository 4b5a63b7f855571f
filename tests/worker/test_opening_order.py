"""Many players begin at once, and nobody listens but to some of them: those are opened first."""

from pathlib import Path

from tests.support.audio_files import mp3, music
from tests.support.decoder_driver import running_decoder
from tonearm.core.filters import Filters
from tonearm.decoder.messages import FromDecoder, Heard, Opened, OpenSession, Ping, Pong

CROWD = 80
FIRST = 20  # openings that may be under way before a listener comes


def test_who_has_a_listener_is_opened_before_the_crowd(tmp_path: Path) -> None:
    song = tmp_path / "song.mp3"
    song.write_bytes(mp3(music(5.0, 44_100), options={"write_xing": "0"}))
    with running_decoder() as driver:
        for session in range(1, CROWD + 1):
            driver.send(OpenSession(session, 1, 0, Filters(), is_heard=False))
            driver.open_file(song, session)
        driver.send(Heard(CROWD))
        driver.open_session(CROWD + 1)
        driver.open_file(song, CROWD + 1)
        driver.send(Ping(1))
        told: list[FromDecoder] = []
        while sum(isinstance(message, Opened) for message in told) < CROWD + 1:
            told += driver.step()
    opened = [message.session for message in told if isinstance(message, Opened)]
    heard_of = next(number for number, message in enumerate(told) if isinstance(message, Pong))
    over = sum(isinstance(message, Opened) for message in told[:heard_of])
    assert opened.index(CROWD) < over + FIRST
    assert opened.index(CROWD + 1) < over + FIRST
    assert sorted(opened) == list(range(1, CROWD + 2))

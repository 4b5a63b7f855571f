"""Many players begin at once, and nobody listens but to some of them: those are opened first."""

from pathlib import Path

from tests.support.audio_files import mp3, music
from tests.support.decoder_driver import running_decoder
from tonearm.core.filters import Filters
from tonearm.decoder.messages import Heard, Opened, OpenSession, Ping, Pong

CROWD = 200


def test_who_has_a_listener_is_opened_before_the_crowd(tmp_path: Path) -> None:
    song = tmp_path / "song.mp3"
    song.write_bytes(mp3(music(5.0, 44_100), options={"write_xing": "0"}))
    with running_decoder() as driver:

        def opened() -> list[int]:
            """The sessions, in the order of their sources."""
            return [message.session for message in driver.received if isinstance(message, Opened)]

        for session in range(1, CROWD + 1):
            driver.send(OpenSession(session, 1, 0, Filters(), is_heard=False))
            driver.open_file(song, session)
        driver.send(Heard(CROWD, CROWD))
        driver.open_session(CROWD + 1)
        driver.open_file(song, CROWD + 1)
        # Before the first answer the process takes all these orders, and it tells of all that it has opened by then
        # before the second.
        for number in (1, 2):
            driver.send(Ping(number))
            driver.wait_for(Pong)
        before = len(opened())
        while len(opened()) < CROWD + 1:
            driver.step()
        # Two are opened at once. While the system lets one of them wait, others pass it, but not most of the rest.
        most = before + max(CROWD - before, CROWD // 5) // 2
        assert opened().index(CROWD) < most
        assert opened().index(CROWD + 1) < most
        assert sorted(opened()) == list(range(1, CROWD + 2))

"""Which session a decoder process opens and renders next, and how soon a change is sent while others are rendered."""

import itertools
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.audio_files import mp3, music, wav
from tests.support.decoder_driver import SentAudio, running_decoder
from tests.support.worker_in_thread import WorkerInThread
from tonearm.core.filters import Filters
from tonearm.core.frame import PCM, Output
from tonearm.decoder.message_coding import Message, pack
from tonearm.decoder.messages import GRANT_FRAMES, Audio, Grant, Heard, Opened, OpenSession, Ping, Plan, Pong
from tonearm.worker.render_order import RESERVE_S, RenderOrder
from tonearm.worker.rendering.block_packets import FIRST_BLOCK_FRAMES
from tonearm.worker.worker import Worker

OPUS = Output("opus", complexity=10)
BOTH = frozenset({PCM, OPUS})
PLAYERS = 40
CHANGED = 30
CROWD = 200


class Renders(RenderOrder):
    """In driven time."""

    def __init__(self) -> None:
        self.now_s = 100.0
        super().__init__(lambda: self.now_s)

    def granted(self, session: int, frames_ahead: int, *, since_s: float = 0.0, **more: Any) -> None:
        """The node told that it had sent all frames but these."""
        self.add(session, self.now_s - since_s, frames_ahead, **more)

    def taken(self) -> list[int]:
        found = []
        while self:
            found.append(self.take().session)
        return found


def test_the_fewest_frames_ahead_come_first_and_once_and_who_waits_is_not_overtaken_by_who_runs_out_later() -> None:
    renders = Renders()
    for session, ahead in ((1, 10), (2, 5), (3, 4), (4, 15), (1, 0)):  # the plan of 1 was changed
        renders.granted(session, ahead)
    renders.now_s += 0.2
    renders.granted(5, 6)
    assert renders.taken() == [1, 3, 2, 4, 5]


def test_who_was_late_comes_behind_who_is_older_and_will_be_and_before_who_has_no_listener() -> None:
    """Else each would be as late as all others."""
    renders = Renders()
    renders.granted(1, 20)
    renders.granted(2, 0, since_s=5.0, yields_s=0.6)
    renders.granted(3, 0, is_heard=False)
    assert renders.taken() == [1, 2, 3]


def test_it_tells_how_late_the_latest_was() -> None:
    renders = Renders()
    renders.granted(1, 20)
    renders.granted(2, 0, is_heard=False)
    renders.now_s += 0.4 - RESERVE_S
    assert renders.take_late_s() == pytest.approx(0.0)
    renders.now_s += 0.25
    assert renders.take_late_s() == pytest.approx(0.25), "it still waits"
    renders.taken()
    assert renders.take_late_s() == pytest.approx(0.25)
    assert renders.take_late_s() == 0.0


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.wav"
    path.write_bytes(wav(music(3.0)))
    return path


def test_a_change_overtakes_the_blocks_of_other_players_that_are_granted_on_the_same_beat(song: Path) -> None:
    """Ten frames of each were sent. To encode ten more of all of them takes longer than a frame lasts."""
    arrived: list[Audio] = []
    grants = [pack(Grant(session, 2, 10, GRANT_FRAMES + 10, BOTH)) for session in range(1, PLAYERS + 1)]
    change = pack(Plan(CHANGED, 3, 2, 10, None, 1, None, Filters(volume=0.5), outputs=BOTH))
    with running_decoder() as driver:
        for session in range(1, PLAYERS + 1):
            driver.begin(session)
            driver.open_file(song, session)
        for session in range(1, PLAYERS + 1):
            SentAudio(driver, session).play(GRANT_FRAMES)
        driver.send_bytes(b"".join((*grants, change, grants[CHANGED - 1])))
        while sum(audio.frames for audio in arrived if audio.session != CHANGED) < (PLAYERS - 1) * 10:
            arrived += [message for message in driver.step() if isinstance(message, Audio)]
    first = next(index for index, audio in enumerate(arrived) if audio.epoch == 3)
    assert first <= 5, "what was rendered before the change came, and no more"
    assert (arrived[first].first_frame, arrived[first].frames) == (10, FIRST_BLOCK_FRAMES)


def test_neither_audio_that_is_due_nor_decoding_waits_for_all_others(song: Path) -> None:
    """As near saturation, where there is no end of what is to be rendered: each block takes 0.1 s here, and all have
    frames for 0.4 s."""
    clock_s, rendered, waited = 0.0, list[float](), list[float]()
    decoded_at_s = [0.0]

    class SlowWorker(Worker):
        def _send(self, message: Message) -> None:
            nonlocal clock_s
            if isinstance(message, Audio) and is_slow:  # which was rendered just now
                clock_s += 0.1
                rendered.append(clock_s)
            super()._send(message)

        def _flush(self) -> bool:
            waited.extend(clock_s - at_s for at_s in rendered)
            rendered.clear()
            return super()._flush()

        def _update_sources(self, session_id: int) -> bool:
            decoded_at_s.append(clock_s)
            return super()._update_sources(session_id)

    is_slow, sessions = False, range(1, 13)
    with closing(WorkerInThread(SlowWorker, now_s=lambda: clock_s)) as worker:
        for session in sessions:
            worker.begin(session)
            worker.open_file(song, session)
            SentAudio(worker, session).play(20)
        is_slow = True
        worker.send_bytes(b"".join(pack(Grant(session, 2, 0, 40)) for session in sessions))
        for session in sessions:
            worker.wait_for(Audio, session)
    assert len(waited) >= len(sessions)
    assert max(waited) < 0.4
    assert max(later_s - earlier_s for earlier_s, later_s in itertools.pairwise(decoded_at_s)) < 0.4


def test_who_has_a_listener_is_opened_before_the_crowd(tmp_path: Path) -> None:
    """Many players begin at once."""
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

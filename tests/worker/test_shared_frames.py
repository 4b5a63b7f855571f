"""Sessions of a real decoder process that play one live stream: what they play alike comes once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from msgspec import structs

from tests.support.audio_files import mp3, music
from tests.support.decoder_driver import DecoderDriver, open_order, running_decoder
from tests.support.media_files import samples_of
from tests.support.worker_in_thread import WorkerInThread
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES
from tonearm.core.shared_frames import HeldMessages
from tonearm.decoder.message_coding import Message, parts_of
from tonearm.decoder.messages import (
    GRANT_FRAMES,
    SHARED_SOURCE,
    Audio,
    CloseSession,
    Data,
    Grant,
    OpenSession,
    Plan,
    ReadRequest,
    SessionFailed,
)

CARRIER = 1


@cache
def sound() -> bytes:
    return mp3(music(10.0, 44_100), options={"write_xing": "0", "id3v2_version": "0"})


class Station:
    """A decoder process in which sessions play one station, and the node's side of them."""

    def __init__(self, driver: DecoderDriver | WorkerInThread) -> None:
        self._driver = driver
        self._held = HeldMessages()
        self.heard: dict[int, list[bytes]] = {}
        self.came: dict[int, int] = {}  # frames whose PCM came
        self.messages: Counter[int] = Counter()
        driver.open_session(CARRIER)
        driver.feeds[CARRIER, SHARED_SOURCE] = self._read
        order = open_order(CARRIER, SHARED_SOURCE, None, is_seekable=False, is_live=True)
        driver.send(structs.replace(order, is_shared=True))

    def _read(self, request: ReadRequest) -> Data:
        start = request.offset % len(sound())
        return Data(CARRIER, SHARED_SOURCE, request.offset, (sound()[start:] * 2)[: request.length])

    def join(self, session: int, filters: Filters | None = None) -> None:
        self.heard[session], self.came[session] = [], 0
        self._driver.send(OpenSession(session, 1, 0, filters or Filters()))
        order = open_order(session, 1, None, is_seekable=False, is_live=True)
        self._driver.send(structs.replace(order, joins=CARRIER))
        self._driver.send(Plan(session, 2, 1, 0, 1, 1, None, filters or Filters()))

    def play(self, frames: int, *sessions: int) -> None:
        """They go on evenly, each by so many frames."""
        until = {session: len(self.heard[session]) + frames for session in sessions or self.heard}
        granted: dict[int, int] = {}
        while any(len(self.heard[session]) < end for session, end in until.items()):
            for session, end in until.items():
                sent = len(self.heard[session])
                if sent < end and granted.get(session) != sent:
                    granted[session] = sent
                    self._driver.send(Grant(session, 2, sent, min(sent + GRANT_FRAMES, end)))
            if not any(isinstance(message, Audio) for message in self._driver.received):
                self._driver.step()
            for audio in [message for message in self._driver.received if isinstance(message, Audio)]:
                self._take(audio)
            self._driver.received.clear()

    def decode_ahead(self) -> None:
        """As far as the process may."""
        assert isinstance(self._driver, DecoderDriver)
        self._driver.come_to_rest()

    def _take(self, audio: Audio) -> None:
        if not audio.frames:
            return
        self.messages[audio.session] += 1
        messages = [bytes(audio.pcm[at : at + FRAME_BYTES]) for at in range(0, len(audio.pcm), FRAME_BYTES)]
        self.came[audio.session] += len(messages)
        if audio.of_stream is not None:
            first_frame = audio.of_stream.first_frame
            if messages:
                self._held.keep(first_frame, messages)
            messages = list(self._held.messages(first_frame, audio.frames))
        assert len(messages) == audio.frames
        self.heard[audio.session] += messages


@pytest.fixture
def station() -> Iterator[Station]:
    with running_decoder() as driver:
        yield Station(driver)


def test_what_two_sessions_play_alike_comes_once_and_is_the_same(station: Station) -> None:
    station.join(2)
    station.join(3)
    station.play(300)
    assert station.heard[2] == station.heard[3]
    assert len(set(station.heard[2])) > 290
    assert 300 <= sum(station.came.values()) <= 320


def test_one_that_comes_later_has_the_frames_of_the_others(station: Station) -> None:
    station.join(2)
    station.play(100)
    station.join(3)
    station.play(200)
    begins = station.heard[2].index(station.heard[3][10])
    together = len(station.heard[2]) - begins  # it may be ahead of the other by what was decoded
    assert together >= 100
    assert station.heard[3][10:][:together] == station.heard[2][begins:][:190]
    assert station.came[2] + station.came[3] <= 100 + 200 + 80


def test_those_who_are_behind_another_get_what_it_has_and_what_is_new_in_one_piece(station: Station) -> None:
    others = range(3, 13)
    for session in (2, *others):
        station.join(session)
    station.play(100)
    station.play(7, 2)
    station.messages.clear()
    for _ in range(10):
        station.decode_ahead()
        station.play(20, *others)
        station.play(20, 2)
    assert [station.messages[session] for session in others] == [20] + [10] * (len(others) - 1)


def test_one_that_plays_alone_keeps_nothing_for_others(station: Station) -> None:
    station.join(2)
    station.play(200)
    assert station._held.end == 0
    assert station.came[2] == 200


def test_one_with_a_filter_has_frames_of_its_own(station: Station) -> None:
    station.join(2)
    station.join(3)
    station.join(4, Filters(volume=0.5))
    station.play(200)
    assert station.came[4] == 200
    assert station.came[2] + station.came[3] <= 220
    plain, quiet = (samples_of(b"".join(station.heard[session])).astype(np.float32) for session in (2, 4))
    assert np.abs(quiet - plain / 2).max() <= 1


def test_one_that_was_left_behind_hears_all_that_it_may_and_meets_the_others_again(station: Station) -> None:
    station.join(2)
    station.join(3)
    station.play(100)
    station.play(400, 2)
    station.play(300, 3)
    assert station.heard[3] == station.heard[2][:400]
    station.play(200)
    assert station.heard[3] == station.heard[2][:600]


def test_when_the_stream_is_closed_those_who_still_have_some_of_it_send_their_own(station: Station) -> None:
    station.join(2)
    station.join(3)
    station.play(20)
    station.play(80, 2)
    station._driver.send(CloseSession(CARRIER))
    came = station.came[3]
    station.play(60, 3)  # which are decoded, for the other one
    assert station.came[3] - came == 60
    assert station.heard[3] == station.heard[2][:80]


def test_frames_that_an_error_kept_back_are_not_named_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(message: Message) -> Sequence[bytes | memoryview]:
        if isinstance(message, Audio) and message.session == 3 and message.first_frame >= 20:
            raise LookupError("on the way")
        return parts_of(message)

    monkeypatch.setattr("tonearm.worker.worker.parts_of", broken)
    worker = WorkerInThread()
    try:
        station = Station(worker)
        for session in (2, 3, 4):
            station.join(session)
        station.play(20)
        worker.send(Grant(3, 2, 20, 60))
        worker.wait_for(SessionFailed, 3)
        station.play(60, 2, 4)
        assert station.heard[2] == station.heard[4]
    finally:
        worker.close()

"""Who waits for room, since when, and who of them makes an overload."""

import logging

import pytest

from tests.support.hand_time import HandTime
from tonearm.core.admission import Claim, Urgency
from tonearm.decoder.messages import FromDecoder
from tonearm.decoder.pool.overload import LOGGED_AFTER_S, Overload


class Owner:
    frames_ahead = 0
    claim = Claim(Urgency.STARTS, 1)

    def __init__(self, *, is_silent: bool = False) -> None:
        self.is_silent = is_silent

    def receive(self, message: FromDecoder) -> None: ...

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None: ...


def test_who_wants_no_audio_now_waits_and_makes_no_overload(caplog: pytest.LogCaptureFixture) -> None:
    time = HandTime()
    overload, paused = Overload(time.now_s), Owner(is_silent=True)
    overload.wait(paused)
    time.forward(LOGGED_AFTER_S + 60.0)
    overload.log_state()
    assert [*overload] == [paused]
    assert overload.waited_s(paused) is None
    assert (overload.wanting, overload.told_s, caplog.text) == (0, 0.0, "")


def test_a_wait_begins_when_audio_is_wanted_and_ends_in_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    time = HandTime()
    overload, owner = Overload(time.now_s), Owner(is_silent=True)
    overload.wait(owner)
    time.forward(60.0)
    owner.is_silent = False
    overload.wait_anew(owner)
    time.forward(LOGGED_AFTER_S)
    overload.wait(owner)  # it waits already
    overload.log_state()
    assert overload.waited_s(owner) == LOGGED_AFTER_S
    assert (overload.wanting, overload.told_s) == (1, LOGGED_AFTER_S)
    owner.is_silent = True
    overload.wait_anew(owner)
    assert (overload.waited_s(owner), overload.wanting, overload.told_s) == (None, 0, 0.0)
    overload.log_state()
    assert [record.message[:30] for record in caplog.records] == [
        "the node has been overloaded f",
        "the overload has passed, after",
    ]


def test_who_does_not_wait_does_not_begin_to_when_it_wants_audio() -> None:
    overload, owner = Overload(HandTime().now_s), Owner()
    overload.wait_anew(owner)
    assert not overload

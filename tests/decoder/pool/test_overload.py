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
    is_silent = False

    def receive(self, message: FromDecoder) -> None: ...

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None: ...


def test_who_wants_audio_waits_and_makes_an_overload_and_nobody_does_in_a_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    time = HandTime()
    overload, owner = Overload(time.now_s), Owner()
    overload.wait_anew(owner)
    assert not overload  # who does not wait does not begin to when it wants audio
    owner.is_silent = True
    overload.wait(owner)
    time.forward(LOGGED_AFTER_S + 60.0)
    overload.log_state()
    assert [*overload] == [owner]
    assert (overload.waited_s(owner), overload.wanting, overload.told_s, caplog.text) == (None, 0, 0.0, "")
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

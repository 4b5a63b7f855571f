"""Tracks at which the node meets errors of its own: one costs itself, a second within a minute stops the player."""

import pytest

from tests.support.playback_log import PlaybackLog, names_queued, playing_player, sound
from tests.support.tracks import CONNECTION_LOST, make_track
from tonearm.core.events import PlayerState
from tonearm.core.failure import FailureCode, own_error
from tonearm.core.play_queue import LoopMode

LOADING, PLAYING, IDLE, FAILED = PlayerState
ERROR = own_error(LookupError("samples 5 to 6"))


def test_the_first_one_ends_its_track_and_the_next_one_plays() -> None:
    log = playing_player("abc")
    assert log.do(log.playback.interrupted(log.close(1), ERROR)) == [
        "TrackException a internal",
        "TrackEnd a loadFailed",
        "QueueUpdate 1",
        "PlayerUpdate loading",
        "open 2 b",
    ]
    sound(log, 2)
    assert log.playback.error is None


@pytest.mark.parametrize(("after_ms", "state"), [(0, FAILED), (60_000, FAILED), (60_001, LOADING)])
@pytest.mark.parametrize("sounded", [True, False])
def test_a_second_one_within_a_minute_stops_the_player(after_ms: int, state: PlayerState, sounded: bool) -> None:
    log = playing_player("abc")
    log.do(log.playback.interrupted(log.close(1), ERROR))
    if sounded:
        sound(log, 2)
    log.now_ms += after_ms
    log.do(log.playback.failed(log.close(2), ERROR))
    assert log.playback.state is state
    assert (log.playback.current.id, names_queued(log.playback)) == (("b", "c") if state is FAILED else ("c", ""))
    assert log.playback.error is ERROR


def test_other_failures_between_them_and_a_loop_change_nothing() -> None:
    log = playing_player("abcd")
    log.do(log.playback.set_loop(LoopMode.QUEUE))
    log.do(log.playback.interrupted(log.close(1), ERROR))
    log.do(log.playback.failed(log.close(2), CONNECTION_LOST))
    sound(log, 3)
    log.now_ms += 1000
    log.do(log.playback.interrupted(log.close(3), ERROR))
    assert (log.playback.state, log.playback.current.id) == (FAILED, "c")


def test_such_a_player_goes_on_when_it_is_told_to() -> None:
    log = playing_player("abc")
    log.do(log.playback.interrupted(log.close(1), ERROR))
    log.do(log.playback.failed(log.close(2), ERROR))
    log.do(log.playback.play())
    sound(log, 3)
    assert (log.playback.state, log.playback.current.id) == (PLAYING, "c")


def test_one_that_is_reported_only_when_its_turn_comes_counts_from_then_on() -> None:
    log = PlaybackLog(make_track("a"))
    log.do(log.playback.enqueue(make_track("b"), make_track("c")))
    log.do(log.playback.failed(log.close(1), ERROR))
    log.now_ms += 3_600_000
    log.do(log.playback.start_clock())
    log.now_ms += 1000
    log.do(log.playback.failed(log.close(2), ERROR))
    assert log.playback.state is FAILED


def test_what_is_told_of_an_error_is_bounded() -> None:
    failure = own_error(ValueError("x" * 10_000))
    assert failure.code is FailureCode.INTERNAL
    assert len(failure.message) < 500

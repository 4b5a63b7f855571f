"""Streams without an end: their titles, and stalls in mid-track."""

from tests.support.playback_log import PlaybackLog, new_player, playing_player
from tests.support.tracks import CONNECTION_LOST
from tonearm.core.events import PlayerState, StreamTitle, TrackStuck
from tonearm.core.failure import SILENT_FOR_TOO_LONG
from tonearm.core.play_queue import LoopMode
from tonearm.core.track_info import SourceFacts

STATION = SourceFacts(is_stream=True, probe_name="mp3").of_station("Test FM")


def playing_station(names: str = "a", mode: LoopMode = LoopMode.NONE) -> PlaybackLog:
    log = new_player(names, mode)
    log.do(log.playback.start_clock())
    log.do(log.playback.opened(1, STATION))
    log.do(log.playback.first_frame(1))
    return log


def test_a_station_stands_for_author_and_unknown_title() -> None:
    log = playing_station()
    info = log.playback.current.info
    assert (info.author, info.title, info.is_stream, info.is_seekable, info.length_ms) == (
        "Test FM",
        "Test FM",
        True,
        False,
        0,
    )
    assert SourceFacts(title="Known", author="Band").of_station("Test FM").title == "Known"


def test_a_title_is_an_event_and_shown_from_then_on() -> None:
    log = playing_station()
    assert log.do(log.playback.retitled(1, "Band - Song")) == ["StreamTitle"]
    assert log.events[-1] == StreamTitle("a", "Band - Song")
    track = log.playback.current
    assert (track.info.title, track.info.author) == ("Band - Song", "Test FM")
    assert log.do(log.playback.skip())[0] == "TrackEnd Band - Song skipped"


def test_the_same_title_is_no_event_again() -> None:
    log = playing_station()
    log.do(log.playback.retitled(1, "One"))
    assert log.do(log.playback.retitled(1, "One")) == []
    assert log.do(log.playback.retitled(1, "Two")) == ["StreamTitle"]
    assert log.do(log.playback.retitled(1, "One")) == ["StreamTitle"]


def test_a_source_that_is_opened_again_keeps_its_last_title() -> None:
    log = playing_station()
    log.do(log.playback.retitled(1, "One"))
    assert log.do(log.playback.opened(1, STATION)) == []
    assert log.playback.current.info.title == "One"
    assert log.do(log.playback.retitled(1, "One")) == []


def test_a_title_of_a_source_that_is_not_current_changes_nothing() -> None:
    log = playing_player("ab")
    log.do(log.playback.next_is_due())
    for source in (2, 77):
        assert log.do(log.playback.retitled(source, "One")) == []
    assert log.playback.current.info.title == "a"


def test_a_stall_is_reported_as_stuck() -> None:
    log = playing_player("ab")
    assert log.playback.stalled is None
    log.do(log.playback.underrun())
    assert log.playback.stalled == 1
    assert log.do(log.playback.stuck(1, 10_000, "connecting again")) == ["TrackStuck a"]
    assert log.events[-1] == TrackStuck(log.playback.current, {}, 0, 10_000, "connecting again")
    log.do(log.playback.recovered())
    assert log.playback.stalled is None
    assert log.do(log.playback.stuck(1, 10_000, "late")) == []


def test_a_track_that_is_stuck_for_too_long_fails_and_the_next_one_plays() -> None:
    log = playing_player("ab")
    log.do(log.playback.underrun())
    assert log.do(log.playback.failed(log.close(1), SILENT_FOR_TOO_LONG)) == [
        "TrackException a timeout",
        "TrackEnd a loadFailed",
        "QueueUpdate 0",
        "open 2 b",
    ]
    assert log.playback.stalled == 2  # whose own time begins
    assert not log.playback.is_in_mid_track


def test_a_pause_does_not_end_a_stall() -> None:
    log = playing_player("a")
    log.do(log.playback.underrun())
    log.do(log.playback.pause())
    assert log.playback.stalled == 1


def test_a_track_is_stalled_from_its_turn_to_its_first_frame() -> None:
    log = new_player("a")
    assert (log.playback.state, log.playback.stalled) == (PlayerState.LOADING, None)
    log.do(log.playback.start_clock())
    assert (log.playback.stalled, log.playback.is_in_mid_track) == (1, False)
    assert log.do(log.playback.stuck(1, 10_000, "connecting")) == ["TrackStuck a"]
    log.do(log.playback.first_frame(1))
    assert (log.playback.stalled, log.playback.is_in_mid_track) == (None, True)


def test_a_failure_that_is_kept_until_the_pause_ends_is_no_stall() -> None:
    log = new_player("a")
    log.do(log.playback.start_clock())
    log.do(log.playback.pause())
    log.do(log.playback.failed(log.close(1), CONNECTION_LOST))
    assert log.playback.stalled is None


def test_a_station_that_is_lost_is_interrupted() -> None:
    log = playing_station("ab")
    expected = log.do(log.playback.interrupted(log.close(1), CONNECTION_LOST))
    assert expected[:2] == ["TrackException Test FM connection_lost", "TrackEnd Test FM loadFailed"]
    assert log.playback.current.id == "b"

"""Streams without an end: their titles, and what happens when their sound stays away."""

from tests.support.playback_log import PlaybackLog, new_player, playing_player
from tests.support.tracks import CONNECTION_LOST
from tonearm.core.failure import SILENT_FOR_TOO_LONG
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback import PlayerState
from tonearm.core.track_codec import decode_track
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


def test_a_title_is_told_and_shown_from_then_on() -> None:
    log = playing_station()
    assert log.do(log.playback.retitled(1, "Band - Song")) == ["StreamTitle"]
    assert log.events[-1].fields == {"title": "Band - Song"}
    track = log.playback.current
    assert (track.info.title, track.info.author) == ("Band - Song", "Test FM")
    assert decode_track(track.encoded).title == "Band - Song"
    assert log.do(log.playback.skip())[0] == "TrackEnd Band - Song skipped"


def test_the_same_title_is_not_told_again() -> None:
    log = playing_station()
    log.do(log.playback.retitled(1, "One"))
    assert log.do(log.playback.retitled(1, "One")) == []
    assert log.do(log.playback.retitled(1, "Two")) == ["StreamTitle"]
    assert log.do(log.playback.retitled(1, "One")) == ["StreamTitle"]


def test_a_source_that_is_opened_again_keeps_the_title_that_has_listeners() -> None:
    log = playing_station()
    log.do(log.playback.retitled(1, "One"))
    assert log.do(log.playback.opened(1, STATION)) == []
    assert log.playback.current.info.title == "One"
    assert log.do(log.playback.retitled(1, "One")) == []


def test_a_title_of_a_source_that_does_not_sound_changes_nothing() -> None:
    log = playing_player("ab")
    log.do(log.playback.next_is_due())
    for source in (2, 77):
        assert log.do(log.playback.retitled(source, "One")) == []
    assert log.playback.current.info.title == "a"


def test_the_sound_that_stays_away_is_told_as_stuck() -> None:
    log = playing_player("ab")
    assert log.playback.stalled is None
    log.do(log.playback.ran_dry())
    assert log.playback.stalled == 1
    assert log.do(log.playback.stuck(1, 10_000, "connecting again")) == ["TrackStuck a"]
    assert log.events[-1].fields["thresholdMs"] == 10_000
    assert log.events[-1].fields["cause"] == "connecting again"
    log.do(log.playback.flowing())
    assert log.playback.stalled is None
    assert log.do(log.playback.stuck(1, 10_000, "late")) == []


def test_a_track_that_is_stuck_for_too_long_fails_and_the_next_one_plays() -> None:
    log = playing_player("ab")
    log.do(log.playback.ran_dry())
    assert log.do(log.playback.failed(log.close(1), SILENT_FOR_TOO_LONG)) == [
        "TrackException a timeout",
        "TrackEnd a loadFailed",
        "QueueUpdate 0",
        "open 2 b",
    ]
    assert log.playback.stalled is None


def test_a_pause_does_not_end_a_stall() -> None:
    log = playing_player("a")
    log.do(log.playback.ran_dry())
    log.do(log.playback.pause())
    assert log.playback.stalled == 1


def test_a_track_that_never_sounded_is_loading_and_not_stalled() -> None:
    log = new_player("a")
    log.do(log.playback.start_clock())
    assert (log.playback.state, log.playback.stalled) == (PlayerState.LOADING, None)


def test_a_station_that_is_lost_has_broken_off() -> None:
    log = playing_station("ab")
    told = log.do(log.playback.broke_off(log.close(1), CONNECTION_LOST))
    assert told[:2] == ["TrackException Test FM connection_lost", "TrackEnd Test FM loadFailed"]
    assert log.playback.current.id == "b"

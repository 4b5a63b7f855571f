"""What a listener and a client see of a player, step by step."""

from collections.abc import Callable

import pytest

from tests.support.playback_log import names_queued, new_player, playing_player, sound
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.errors import BadRequest, LimitReached, NotSeekable
from tonearm.core.events import (
    FiltersChange,
    MetadataChange,
    PlayerPause,
    PlayerResume,
    PlayerState,
    PlayerUpdate,
    QueueUpdate,
    TrackException,
    TrackStart,
)
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import FilterChange
from tonearm.core.play_queue import LoopMode, Open, SourceId
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.track_info import SourceFacts

NONE, TRACK, QUEUE = LoopMode
LOADING, PLAYING, IDLE, FAILED = PlayerState


# Starting


def test_a_new_player_opens_its_track_and_waits_for_the_clock() -> None:
    log = new_player("a")
    player = log.playback
    assert log.lines == ["open 1 a"]
    assert (player.state, player.paused, player.current_source, player.next_source) == (LOADING, False, 1, None)
    assert not player.wants_frames
    assert log.do(player.start_clock()) == []
    assert player.wants_frames


def test_a_player_without_a_first_track_is_idle_until_it_gets_one() -> None:
    playback = Playback("p", None, {})
    for call in (playback.begin, playback.start_clock, playback.play, playback.skip, playback.stop):
        assert call() == Outcome(), call
    assert (playback.state, playback.current.is_none) == (IDLE, True)
    with pytest.raises(NotSeekable, match="no track yet"):
        playback.seek(5)
    playback.set_loop(LoopMode.QUEUE)
    first = make_track("a")
    assert playback.enqueue(first).actions == (Open(1, first),)
    assert (playback.state, playback.current) == (LOADING, first)
    playback.skip()
    assert [track.info.title for track in (playback.current, *playback.queue)] == ["a"]


def test_the_first_frame_starts_the_track() -> None:
    log = new_player("a")
    log.do(log.playback.start_clock())
    assert sound(log, 1) == ["TrackStart a", "PlayerUpdate playing"]
    assert isinstance(log.events[-2], TrackStart)
    assert log.events[-2].track.info.uri == "http://radio.example/a.mp3"
    assert log.do(log.playback.first_frame(1)) == []
    assert log.playback.state is PLAYING


def test_the_facts_of_an_opened_source_show_in_the_track_and_in_its_events() -> None:
    log = new_player("a")
    log.do(log.playback.opened(1, SourceFacts(length_ms=5000, is_seekable=True, title="Real title")))
    assert log.playback.current.info.title == "Real title"
    assert log.playback.current.info.length_ms == 5000
    assert log.do(log.playback.first_frame(1))[0] == "TrackStart Real title"


def test_before_the_clock_starts_only_skip_takes_from_the_queue() -> None:
    log = new_player("ab")
    player = log.playback
    assert log.do(player.failed(log.close(1), FILE_MISSING)) == []
    assert log.do(player.play()) == []
    assert (player.state, player.current.id, names_queued(player)) == (LOADING, "a", "b")
    assert log.do(player.skip()) == ["TrackEnd a skipped", "QueueUpdate 0", "open 2 b"]
    assert log.do(player.skip()) == ["TrackEnd b skipped", "PlayerUpdate idle", "drop 2"]


def test_a_failure_before_the_clock_is_reported_when_it_starts() -> None:
    log = new_player("ab")
    log.do(log.playback.failed(log.close(1), FILE_MISSING))
    assert log.do(log.playback.start_clock()) == [
        "TrackException a file_missing",
        "TrackEnd a loadFailed",
        "QueueUpdate 0",
        "open 2 b",
    ]


# From one track to the next


def test_a_track_is_joined_to_the_one_opened_ahead() -> None:
    log = playing_player("abc")
    player = log.playback
    assert log.do(player.next_is_due()) == ["open 2 b"]
    assert log.do(player.next_is_due()) == []
    log.do(player.opened(2, SourceFacts()))
    assert (player.current_source, player.next_source) == (1, 2)
    assert log.do(player.ended(log.close(1))) == ["TrackEnd a finished", "QueueUpdate 1"]
    assert log.do(player.first_frame(2)) == ["TrackStart b"]
    assert (player.state, player.current_source, player.next_source) == (PLAYING, 2, None)


def test_a_next_track_that_is_not_open_yet_is_waited_for() -> None:
    log = playing_player("ab")
    player = log.playback
    log.do(player.next_is_due())
    assert log.do(player.ended(log.close(1))) == ["TrackEnd a finished", "QueueUpdate 0", "PlayerUpdate loading"]
    assert sound(log, 2) == ["TrackStart b", "PlayerUpdate playing"]


def test_an_opened_next_track_without_frames_in_time_is_waited_for() -> None:
    log = playing_player("ab")
    player = log.playback
    log.do(player.next_is_due())
    log.do(player.opened(2, SourceFacts()))
    log.do(player.ended(log.close(1)))
    assert log.do(player.underrun()) == ["PlayerUpdate loading"]
    assert log.do(player.recovered()) == []
    assert log.do(player.first_frame(2)) == ["TrackStart b", "PlayerUpdate playing"]


def test_a_track_that_was_not_opened_ahead_is_opened_at_the_end() -> None:
    log = playing_player("ab")
    assert log.do(log.playback.ended(log.close(1))) == [
        "TrackEnd a finished",
        "QueueUpdate 0",
        "PlayerUpdate loading",
        "open 2 b",
    ]


def test_the_position_starts_anew_with_every_track() -> None:
    log = playing_player("ab")
    log.playback.position_ms = 1234
    assert log.playback.update() == PlayerUpdate(PLAYING, paused=False, position_ms=1234)
    log.do(log.playback.ended(log.close(1)))
    assert log.playback.position_ms == 0


def test_an_idle_player_keeps_its_track_and_plays_it_again() -> None:
    log = playing_player("a")
    player = log.playback
    assert log.do(player.ended(log.close(1))) == ["TrackEnd a finished", "PlayerUpdate idle"]
    assert (player.current.id, player.current_source, player.wants_frames) == ("a", None, False)
    log.do(player.pause())
    assert log.do(player.play()) == ["PlayerResume", "PlayerUpdate loading", "open 2 a"]
    assert sound(log, 2) == ["TrackStart a", "PlayerUpdate playing"]


def test_an_idle_player_plays_what_it_gets() -> None:
    log = playing_player("a", QUEUE)
    player = log.playback
    log.do(player.set_loop(NONE))
    log.do(player.ended(log.close(1)))
    log.do(player.set_loop(QUEUE))
    assert log.do(player.enqueue(make_track("b"))) == ["PlayerUpdate loading", "open 2 b"]
    assert (player.current.id, player.queue) == ("b", ())


def test_a_paused_idle_player_loads_what_it_gets_and_stays_silent() -> None:
    log = playing_player("a")
    player = log.playback
    log.do(player.ended(log.close(1)))
    log.do(player.pause())
    assert log.do(player.enqueue(make_track("b"))) == ["PlayerUpdate loading", "open 2 b"]
    assert player.paused
    assert not player.wants_frames
    assert log.do(player.play()) == ["PlayerResume", "PlayerUpdate loading"]
    assert player.wants_frames


@pytest.mark.parametrize(
    ("mode", "names", "rounds"),
    [
        (TRACK, "a", "aaa"),
        (TRACK, "ab", "aaa"),
        (QUEUE, "a", "aaa"),
        (QUEUE, "ab", "babab"),
        (QUEUE, "abc", "bcabca"),
        (NONE, "abc", "bc"),
    ],
)
@pytest.mark.parametrize("opens_ahead", [True, False])
def test_order_of_tracks_that_play_to_their_end(mode: LoopMode, names: str, rounds: str, opens_ahead: bool) -> None:
    log = playing_player(names, mode)
    player = log.playback
    for name in rounds:
        assert player.current_source is not None
        if opens_ahead:
            log.do(player.next_is_due())
        log.do(player.ended(log.close(player.current_source)))
        assert player.current_source is not None
        assert sound(log, player.current_source)[0] == f"TrackStart {name}"
    assert sorted(player.current.id + names_queued(player)) == sorted(names if mode is not NONE else names[-1])


def test_a_loop_of_the_queue_reports_that_the_order_changed() -> None:
    log = playing_player("ab", QUEUE)
    assert log.do(log.playback.ended(log.close(1)))[:2] == ["TrackEnd a finished", "QueueUpdate 1"]


# Skipping


@pytest.mark.parametrize(
    ("mode", "names", "expected"),
    [
        (NONE, "a", ["TrackEnd a skipped", "PlayerUpdate idle", "drop 1"]),
        (NONE, "ab", ["TrackEnd a skipped", "QueueUpdate 0", "PlayerUpdate loading", "drop 1", "open 2 b"]),
        (TRACK, "a", ["TrackEnd a skipped", "PlayerUpdate idle", "drop 1"]),
        (TRACK, "ab", ["TrackEnd a skipped", "QueueUpdate 0", "PlayerUpdate loading", "drop 1", "open 2 b"]),
        (QUEUE, "a", ["TrackEnd a skipped", "PlayerUpdate loading", "seek 1 as 2"]),
        (QUEUE, "ab", ["TrackEnd a skipped", "QueueUpdate 1", "PlayerUpdate loading", "drop 1", "open 2 b"]),
    ],
)
def test_skip(mode: LoopMode, names: str, expected: list[str]) -> None:
    log = playing_player(names, mode)
    assert log.do(log.playback.skip()) == expected


def test_skip_ends_a_track_that_never_started() -> None:
    log = new_player("a")
    log.do(log.playback.start_clock())
    assert log.do(log.playback.skip()) == ["TrackEnd a skipped", "PlayerUpdate idle", "drop 1"]


def test_skip_of_an_idle_player_does_nothing() -> None:
    log = playing_player("a")
    log.do(log.playback.ended(log.close(1)))
    assert log.do(log.playback.skip()) == []


def test_skip_while_paused_selects_the_next_and_stays_silent() -> None:
    log = playing_player("ab")
    log.do(log.playback.pause())
    log.do(log.playback.skip())
    assert (log.playback.current.id, log.playback.paused, log.playback.state) == ("b", True, LOADING)


def test_skip_takes_over_the_source_that_was_opened_ahead() -> None:
    log = playing_player("ab")
    log.do(log.playback.next_is_due())
    assert log.do(log.playback.skip()) == ["TrackEnd a skipped", "QueueUpdate 0", "PlayerUpdate loading", "drop 1"]
    assert log.playback.current_source == 2


def test_skip_out_of_a_looped_track_drops_the_source_opened_for_its_next_round() -> None:
    log = playing_player("ab", TRACK)
    assert log.do(log.playback.next_is_due()) == ["open 2 a"]
    assert log.do(log.playback.skip())[-3:] == ["drop 1", "drop 2", "open 3 b"]


def test_skip_to_nothing_drops_the_source_opened_for_the_next_round() -> None:
    log = playing_player("a", TRACK)
    log.do(log.playback.next_is_due())
    assert log.do(log.playback.skip()) == ["TrackEnd a skipped", "PlayerUpdate idle", "drop 1", "drop 2"]
    assert log.playback.next_source is None


# What comes next changes


def test_another_loop_mode_opens_another_next_track() -> None:
    log = playing_player("ab")
    player = log.playback
    log.do(player.next_is_due())
    assert log.do(player.set_loop(TRACK)) == ["LoopModeChange track", "drop 2", "open 3 a"]
    assert log.do(player.set_loop(QUEUE)) == ["LoopModeChange queue", "drop 3", "open 4 b"]
    assert log.do(player.set_loop(NONE)) == ["LoopModeChange none"]


def test_a_track_that_comes_when_the_next_is_due_is_opened() -> None:
    log = playing_player("a")
    player = log.playback
    assert log.do(player.next_is_due()) == []
    assert log.do(player.enqueue(make_track("b"))) == ["QueueUpdate 1", "open 2 b"]
    assert log.do(player.enqueue(make_track("c"))) == ["QueueUpdate 2"]


def test_a_track_that_comes_earlier_is_not_opened() -> None:
    log = playing_player("a")
    assert log.do(log.playback.enqueue(make_track("b"))) == ["QueueUpdate 1"]


def test_after_a_join_the_next_track_is_opened_only_when_it_is_due_again() -> None:
    log = playing_player("ab")
    player = log.playback
    log.do(player.next_is_due())
    log.do(player.ended(log.close(1)))
    sound(log, 2)
    assert log.do(player.enqueue(make_track("c"))) == ["QueueUpdate 1"]
    assert log.do(player.next_is_due()) == ["open 3 c"]


# Bad sources


def test_a_failed_track_makes_way_for_the_next() -> None:
    log = new_player("ab")
    log.do(log.playback.start_clock())
    assert log.do(log.playback.failed(log.close(1), FILE_MISSING)) == [
        "TrackException a file_missing",
        "TrackEnd a loadFailed",
        "QueueUpdate 0",
        "open 2 b",
    ]
    assert TrackException(make_track("a"), {}, 0, FILE_MISSING) in log.events


def test_a_failure_while_paused_is_reported_after_play() -> None:
    log = playing_player("ab")
    player = log.playback
    log.do(player.pause())
    log.do(player.skip())
    assert log.do(player.failed(log.close(2), FILE_MISSING)) == []
    assert player.state is LOADING
    assert log.do(player.play()) == [
        "PlayerResume",
        "TrackException b file_missing",
        "TrackEnd b loadFailed",
        "PlayerUpdate failed",
    ]


def test_a_failure_of_the_track_opened_ahead_is_reported_in_its_turn() -> None:
    log = playing_player("abc")
    player = log.playback
    log.do(player.next_is_due())
    assert log.do(player.failed(log.close(2), FILE_MISSING)) == []
    assert log.do(player.ended(log.close(1))) == [
        "TrackEnd a finished",
        "QueueUpdate 1",
        "TrackException b file_missing",
        "TrackEnd b loadFailed",
        "QueueUpdate 0",
        "PlayerUpdate loading",
        "open 3 c",
    ]


def test_a_failed_track_opened_ahead_is_forgotten_when_another_comes_first() -> None:
    log = playing_player("ab")
    player = log.playback
    log.do(player.next_is_due())
    log.do(player.failed(log.close(2), FILE_MISSING))
    assert log.do(player.set_loop(TRACK)) == ["LoopModeChange track", "open 3 a"]
    assert log.do(player.set_loop(NONE)) == ["LoopModeChange none", "drop 3", "open 4 b"]


def test_the_last_failure_stops_the_player_with_the_track_selected() -> None:
    log = new_player("a")
    player = log.playback
    log.do(player.start_clock())
    assert log.do(player.failed(log.close(1), FILE_MISSING))[-1] == "PlayerUpdate failed"
    assert (player.state, player.current.id, player.current_source) == (FAILED, "a", None)
    assert log.do(player.play()) == ["PlayerUpdate loading", "open 2 a"]
    assert sound(log, 2) == ["TrackStart a", "PlayerUpdate playing"]


def test_five_failures_in_a_row_stop_the_player_and_keep_the_queue() -> None:
    log = new_player("abcdefgh")
    player = log.playback
    log.do(player.start_clock())
    for source in range(1, 6):
        assert player.state is LOADING
        log.do(player.failed(log.close(source), FILE_MISSING))
    assert (player.state, player.current.id, names_queued(player)) == (FAILED, "e", "fgh")
    assert log.do(player.play()) == ["QueueUpdate 2", "PlayerUpdate loading", "open 6 f"]
    log.do(player.failed(log.close(6), FILE_MISSING))
    assert (player.state, player.current.id) == (LOADING, "g")


def test_audio_between_failures_starts_the_count_of_five_anew() -> None:
    log = new_player("abcdefghi")
    player = log.playback
    log.do(player.start_clock())
    for source in range(1, 5):
        log.do(player.failed(log.close(source), FILE_MISSING))
    sound(log, 5)
    log.do(player.ended(log.close(5)))
    log.do(player.failed(log.close(6), FILE_MISSING))
    assert (player.state, player.current.id) == (LOADING, "g")


def test_a_failed_player_goes_on_with_the_front_when_a_track_comes() -> None:
    log = new_player("abcdefg")
    player = log.playback
    log.do(player.start_clock())
    for source in range(1, 6):
        log.do(player.failed(log.close(source), FILE_MISSING))
    assert log.do(player.enqueue(make_track("h"))) == ["QueueUpdate 2", "PlayerUpdate loading", "open 6 f"]
    assert names_queued(player) == "gh"


def test_a_failed_player_with_an_empty_queue_plays_the_track_that_comes() -> None:
    log = new_player("a")
    log.do(log.playback.start_clock())
    log.do(log.playback.failed(log.close(1), FILE_MISSING))
    assert log.do(log.playback.enqueue(make_track("b"))) == ["PlayerUpdate loading", "open 2 b"]


@pytest.mark.parametrize("mode", LoopMode)
def test_skip_leaves_a_failed_track_in_every_mode(mode: LoopMode) -> None:
    log = new_player("a", mode)
    player = log.playback
    log.do(player.start_clock())
    log.do(player.failed(log.close(1), FILE_MISSING))
    assert log.do(player.skip()) == ["TrackEnd a skipped", "PlayerUpdate idle"]
    assert log.do(player.skip()) == []


@pytest.mark.parametrize("mode", LoopMode)
def test_a_track_that_never_gave_audio_is_dropped_from_every_loop(mode: LoopMode) -> None:
    log = new_player("abc", mode)
    player = log.playback
    log.do(player.start_clock())
    log.do(player.failed(log.close(1), FILE_MISSING))
    assert (player.current.id, names_queued(player)) == ("b", "c")


def test_a_source_that_ends_without_audio_has_failed() -> None:
    log = new_player("a", TRACK)
    log.do(log.playback.start_clock())
    log.do(log.playback.opened(1, SourceFacts()))
    assert log.do(log.playback.ended(log.close(1)))[:2] == ["TrackException a empty", "TrackEnd a loadFailed"]
    assert log.playback.state is FAILED


@pytest.mark.parametrize(
    ("mode", "names", "expected"),
    [
        (NONE, "a", ["PlayerUpdate idle"]),
        (NONE, "ab", ["QueueUpdate 0", "PlayerUpdate loading", "open 2 b"]),
        (TRACK, "ab", ["PlayerUpdate loading", "open 2 a after 1 s"]),
        (QUEUE, "a", ["PlayerUpdate loading", "open 2 a after 1 s"]),
        (QUEUE, "ab", ["QueueUpdate 1", "PlayerUpdate loading", "open 2 b"]),
    ],
)
@pytest.mark.parametrize("report", [Playback.interrupted, Playback.failed])
def test_an_interrupted_track_selects_the_next_as_for_an_end(
    mode: LoopMode, names: str, expected: list[str], report: Callable[[Playback, SourceId, PlayFailure], Outcome]
) -> None:
    log = playing_player(names, mode)
    assert log.do(report(log.playback, log.close(1), CONNECTION_LOST)) == [
        "TrackException a connection_lost",
        "TrackEnd a loadFailed",
        *expected,
    ]


def test_an_interrupted_radio_is_opened_again_ever_more_slowly_and_for_ever() -> None:
    log = playing_player("a", TRACK)
    player = log.playback
    opened = [log.do(player.interrupted(log.close(1), CONNECTION_LOST))[-1]]
    for source in range(2, 9):
        expected = log.do(player.failed(log.close(source), CONNECTION_LOST))
        assert expected[:2] == ["TrackException a connection_lost", "TrackEnd a loadFailed"]
        opened.append(expected[-1])
    assert [line.split(" after ")[1] for line in opened] == [f"{s} s" for s in (1, 2, 4, 8, 16, 30, 30, 30)]
    sound(log, 9)
    assert log.do(player.interrupted(log.close(9), CONNECTION_LOST))[-1] == "open 10 a after 1 s"


def test_play_ends_the_delay_of_a_retry() -> None:
    log = playing_player("a", TRACK)
    player = log.playback
    log.do(player.interrupted(log.close(1), CONNECTION_LOST))
    assert log.do(player.play()) == ["seek 2 as 3"]
    assert log.do(player.play()) == []
    assert log.do(player.failed(log.close(3), CONNECTION_LOST))[-1] == "open 4 a after 2 s"


def test_a_delayed_track_that_opened_is_not_opened_again_by_play() -> None:
    log = playing_player("a", TRACK)
    log.do(log.playback.interrupted(log.close(1), CONNECTION_LOST))
    log.do(log.playback.opened(2, SourceFacts()))
    assert log.do(log.playback.play()) == []


def test_a_delayed_track_that_started_is_not_opened_again_by_play() -> None:
    log = playing_player("a", TRACK)
    log.do(log.playback.interrupted(log.close(1), CONNECTION_LOST))
    assert log.do(log.playback.first_frame(2)) == ["TrackStart a", "PlayerUpdate playing"]
    assert log.do(log.playback.play()) == []


def test_a_track_with_a_delayed_retry_is_not_opened_ahead() -> None:
    log = playing_player("ab", QUEUE)
    player = log.playback
    log.do(player.interrupted(log.close(1), CONNECTION_LOST))
    sound(log, 2)
    assert log.do(player.next_is_due()) == []
    assert log.do(player.ended(log.close(2)))[-1] == "open 3 a after 1 s"


def test_failures_of_a_track_that_gave_audio_do_not_count_towards_five() -> None:
    log = playing_player("abc", TRACK)
    player = log.playback
    log.do(player.interrupted(log.close(1), CONNECTION_LOST))
    for source in range(2, 12):
        log.do(player.failed(log.close(source), CONNECTION_LOST))
    assert player.current.id == "a"
    log.do(player.skip())
    log.do(player.failed(log.close(13), FILE_MISSING))
    assert (player.state, player.current.id) == (LOADING, "c")


def test_a_failed_source_cannot_start() -> None:
    log = new_player("a")
    log.do(log.playback.failed(log.close(1), FILE_MISSING))
    assert log.do(log.playback.first_frame(1)) == []
    assert log.do(log.playback.start_clock())[0] == "TrackException a file_missing"


# Late reports


def test_reports_about_dropped_or_unknown_sources_change_nothing() -> None:
    log = playing_player("ab")
    player = log.playback
    log.do(player.skip())
    sound(log, 2)
    for source in (1, 99, -1):
        assert log.do(player.opened(source, SourceFacts(title="wrong"))) == []
        assert log.do(player.failed(source, FILE_MISSING)) == []
        assert log.do(player.first_frame(source)) == []
        assert log.do(player.ended(source)) == []
        assert log.do(player.interrupted(source, FILE_MISSING)) == []
    assert (player.state, player.current.info.title) == (PLAYING, "b")


def test_the_next_source_cannot_start_before_its_turn() -> None:
    log = playing_player("ab")
    log.do(log.playback.next_is_due())
    assert log.do(log.playback.first_frame(2)) == []
    assert log.playback.current.id == "a"


# Pause, settings, delete


def test_pause_and_play_are_one_event_each_and_an_update() -> None:
    log = playing_player("a")
    player = log.playback
    player.position_ms = 40
    assert log.do(player.pause()) == ["PlayerPause", "PlayerUpdate playing"]
    assert log.events[-2:] == [PlayerPause(40), PlayerUpdate(PLAYING, paused=True, position_ms=40)]
    assert log.do(player.pause()) == []
    assert (player.paused, player.state, player.wants_frames) == (True, PLAYING, False)
    assert log.do(player.play()) == ["PlayerResume", "PlayerUpdate playing"]
    assert log.events[-2:] == [PlayerResume(40), PlayerUpdate(PLAYING, paused=False, position_ms=40)]
    assert log.do(player.play()) == []


def test_an_underrun_and_its_recovery() -> None:
    log = playing_player("a")
    player = log.playback
    assert log.do(player.recovered()) == []
    assert log.do(player.underrun()) == ["PlayerUpdate loading"]
    assert log.do(player.underrun()) == []
    assert player.wants_frames
    assert log.do(player.recovered()) == ["PlayerUpdate playing"]


def test_an_idle_player_has_no_underrun_and_no_recovery() -> None:
    log = playing_player("a")
    log.do(log.playback.ended(log.close(1)))
    assert log.do(log.playback.underrun()) == []
    assert log.do(log.playback.recovered()) == []
    assert log.do(log.playback.next_is_due()) == []


def test_settings_are_events_when_they_change() -> None:
    log = playing_player("a")
    player = log.playback
    assert log.do(player.set_loop(NONE)) == []
    assert log.do(player.set_loop(QUEUE)) == ["LoopModeChange queue"]
    assert log.do(player.change_filters(FilterChange(volume=1.0))) == []
    assert log.do(player.change_filters(FilterChange(volume=2.0))) == ["FiltersChange"]
    assert FiltersChange(player.filters) in log.events
    assert log.do(player.change_metadata(True, {})) == []
    assert log.do(player.change_metadata(True, {"a": 1})) == ["MetadataChange"]
    assert log.do(player.change_metadata(True, {"b": 2})) == ["MetadataChange"]
    assert player.metadata == {"a": 1, "b": 2}
    assert log.do(player.change_metadata(False, {"a": 1, "b": 2})) == []
    assert log.do(player.change_metadata(False, None)) == ["MetadataChange"]
    assert MetadataChange(None) in log.events


def test_a_refused_filter_change_applies_nothing() -> None:
    log = playing_player("a")
    before = log.playback.filters
    with pytest.raises(BadRequest):
        log.playback.change_filters(FilterChange(volume=2.0, gains=((0, 1.0), (99, 1.0))))
    assert log.playback.filters == before
    assert log.do(log.playback.play()) == []


def test_tracks_without_metadata_show_the_players_in_events() -> None:
    log = new_player("a")
    log.do(log.playback.change_metadata(False, {"room": 5}))
    sound(log, 1)
    assert log.events[-2] == TrackStart(log.playback.current, {"room": 5}, 0)


def test_the_queue_has_a_longest_length() -> None:
    log = playing_player("a")
    limited = Playback("small", make_track("a"), {}, max_waiting_tracks=1)
    limited.begin()
    limited.enqueue(make_track("b"))
    with pytest.raises(LimitReached, match=r"player\.max_waiting_tracks"):
        limited.enqueue(make_track("c"))
    assert limited.queue_length == 1
    assert limited.skip().events[-1] == QueueUpdate(0, version=2)
    assert log.playback.queue_length == 0


def test_the_queue_has_a_budget_in_bytes_for_uris_and_metadata() -> None:
    fat = make_track("fat", {"x": "y" * 1000})
    limited = Playback("small", make_track("a"), {}, max_waiting_bytes=2 * fat.waiting_bytes + 10)
    limited.begin()
    limited.enqueue(fat, fat)
    assert limited.room_for([make_track("b")]) == 0
    with pytest.raises(LimitReached, match=r"player\.max_waiting_bytes"):
        limited.enqueue(make_track("b"))
    with pytest.raises(LimitReached, match=r"player\.max_waiting_bytes"):
        limited.replace(make_track("b"), make_track("c"))
    assert (limited.current.id, limited.queue_length) == ("a", 2)
    limited.skip()
    limited.enqueue(make_track("b"))
    assert limited.queue_length == 2


def test_delete_ends_the_track_and_drops_every_source() -> None:
    log = playing_player("ab")
    log.do(log.playback.next_is_due())
    assert log.do(log.playback.delete()) == ["TrackEnd a stopped", "PlayerDelete", "drop 1", "drop 2"]
    assert not log.playback.wants_frames
    assert log.do(log.playback.start_clock()) == []


def test_delete_of_an_idle_or_failed_player_ends_no_track() -> None:
    idle = playing_player("a")
    idle.do(idle.playback.ended(idle.close(1)))
    assert idle.do(idle.playback.delete()) == ["PlayerDelete"]
    failed = new_player("a")
    failed.do(failed.playback.start_clock())
    failed.do(failed.playback.failed(failed.close(1), FILE_MISSING))
    assert failed.do(failed.playback.delete()) == ["PlayerDelete"]

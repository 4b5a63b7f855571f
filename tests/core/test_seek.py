"""Seeking: positions are those in the file, and a track that goes on elsewhere stays the same track."""

from dataclasses import replace

import pytest

from tests.support.playback_log import (
    SONG,
    PlaybackLog,
    failed_player,
    names_queued,
    new_player,
    playing_player,
    sound,
    stopped_player,
)
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.errors import NotSeekable
from tonearm.core.events import PlayerState, PlayerUpdate, Seek, SeekFailed, TrackEnd, TrackStart
from tonearm.core.play_queue import LoopMode
from tonearm.core.track_info import SourceFacts

NONE, TRACK, QUEUE = LoopMode
LOADING, PLAYING, IDLE, FAILED = PlayerState


def part_player(start_ms: int, end_ms: int | None) -> PlaybackLog:
    """A player that plays a part of a song of 60 s, as source 1."""
    log = PlaybackLog(replace(make_track("a"), start_ms=start_ms, end_ms=end_ms))
    log.do(log.playback.start_clock())
    sound(log, 1)
    return log


def test_a_seek_loads_the_track_anew_without_an_end_and_a_start() -> None:
    log = playing_player("ab")
    player = log.playback
    player.position_ms = 5000
    assert log.do(player.seek(30_000)) == ["Seek 5000 30000", "PlayerUpdate loading", "seek 1 as 2 at 30000"]
    assert log.events[-2:] == [Seek("a", 5000, 30_000), PlayerUpdate(LOADING, paused=False, position_ms=30_000)]
    assert (player.position_ms, player.current_source, names_queued(player)) == (30_000, 2, "b")
    assert log.do(player.opened(2, SONG)) == []
    assert log.do(player.first_frame(2)) == ["PlayerUpdate playing"]
    assert log.do(player.ended(log.close(2)))[0] == "TrackEnd a finished"


def test_the_sound_after_a_seek_may_be_told_as_a_recovery_too() -> None:
    log = playing_player("a")
    log.do(log.playback.seek(30_000))
    assert log.do(log.playback.recovered()) == ["PlayerUpdate playing"]


def test_of_many_seeks_the_last_one_counts() -> None:
    log = playing_player("a")
    player = log.playback
    for target_ms in (1000, 2000, 3000):
        log.do(player.seek(target_ms))
    assert list(log.open_sources) == [4]
    assert log.lines[-1] == "seek 3 as 4 at 3000"
    assert log.do(player.first_frame(2)) == []
    assert player.position_ms == 3000


@pytest.mark.parametrize(("asked_ms", "target_ms"), [(-1, 0), (-(10**30), 0), (0, 0), (59_999, 59_999)])
def test_a_position_before_the_start_is_the_start(asked_ms: int, target_ms: int) -> None:
    log = playing_player("a")
    log.do(log.playback.seek(asked_ms))
    assert log.playback.position_ms == target_ms


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("asked_ms", [60_000, 60_001, 10**30])
@pytest.mark.parametrize(
    ("mode", "names", "current", "queue", "state"),
    [
        (NONE, "a", "a", "", IDLE),
        (NONE, "ab", "b", "", LOADING),
        (TRACK, "ab", "a", "b", LOADING),
        (QUEUE, "a", "a", "", LOADING),
        (QUEUE, "ab", "b", "a", LOADING),
    ],
)
def test_a_seek_behind_the_end_ends_the_track(
    mode: LoopMode, names: str, current: str, queue: str, state: PlayerState, asked_ms: int, paused: bool
) -> None:
    log = playing_player(names, mode)
    player = log.playback
    player.position_ms = 7000
    if paused:
        log.do(player.pause())
    lines = log.do(player.seek(asked_ms))
    assert lines[0] == "TrackEnd a finished"
    assert not [line for line in lines if line.startswith("Seek")]
    assert [event.played_ms for event in log.events if isinstance(event, TrackEnd)] == [7000]
    assert (player.current.id, names_queued(player), player.state) == (current, queue, state)
    assert player.paused is paused
    assert player.position_ms == (60_000 if state is IDLE else 0)


@pytest.mark.parametrize(
    ("asked_ms", "target_ms", "ends"),
    [(0, 10_000, False), (9_999, 10_000, False), (19_999, 19_999, False), (20_000, 0, True), (30_000, 0, True)],
)
def test_a_track_that_is_a_part_of_a_file_is_sought_inside_of_it(asked_ms: int, target_ms: int, ends: bool) -> None:
    log = part_player(10_000, 20_000)
    assert "open 1 a at 10000 to 20000" in log.lines
    assert log.playback.position_ms == 10_000
    lines = log.do(log.playback.seek(asked_ms))
    if ends:
        assert lines[0] == "TrackEnd a finished"
    else:
        assert lines[-1] == f"seek 1 as 2 at {target_ms}"
        assert log.playback.position_ms == target_ms


def test_a_part_without_an_end_ends_with_its_file() -> None:
    log = part_player(10_000, None)
    assert log.do(log.playback.seek(60_000))[0] == "TrackEnd a finished"


@pytest.mark.parametrize("facts", [SourceFacts(is_stream=True), SourceFacts(length_ms=60_000, is_seekable=False)])
def test_a_live_or_unseekable_track_refuses(facts: SourceFacts) -> None:
    log = new_player("a")
    log.do(log.playback.start_clock())
    log.do(log.playback.opened(1, facts))
    log.do(log.playback.first_frame(1))
    with pytest.raises(NotSeekable):
        log.playback.seek(1000)
    assert log.playback.position_ms == 0
    assert list(log.open_sources) == [1]
    log.do(log.playback.stop())
    with pytest.raises(NotSeekable):
        log.playback.seek(1000)


# While loading


def test_a_seek_while_loading_is_kept_and_the_track_starts_there() -> None:
    log = new_player("a")
    player = log.playback
    assert log.do(player.seek(5000)) == ["Seek 0 5000", "seek 1 as 2 at 5000"]
    log.do(player.seek(7000))
    assert player.position_ms == 7000
    log.do(player.start_clock())
    assert sound(log, 3) == ["TrackStart a", "PlayerUpdate playing"]
    start = log.events[-2]
    assert isinstance(start, TrackStart)
    assert start.position_ms == 7000


def test_a_seek_while_loading_that_proves_to_lead_behind_the_end_ends_the_track() -> None:
    log = new_player("ab")
    player = log.playback
    log.do(player.start_clock())
    assert log.do(player.seek(90_000)) == ["Seek 0 90000", "seek 1 as 2 at 90000"]
    assert log.do(player.opened(2, SONG)) == ["TrackEnd a finished", "QueueUpdate 0", "drop 2", "open 3 b"]


def test_before_the_clock_starts_a_seek_behind_the_end_takes_nothing_from_the_queue() -> None:
    log = new_player("ab")
    player = log.playback
    log.do(player.seek(90_000))
    assert log.do(player.opened(2, SONG)) == []
    assert (player.current.id, player.position_ms) == ("a", 90_000)
    assert log.do(player.start_clock())[0] == "TrackEnd a finished"


def test_a_source_of_unknown_length_may_end_before_the_target() -> None:
    log = new_player("a")
    player = log.playback
    log.do(player.start_clock())
    log.do(player.seek(90_000))
    log.do(player.opened(2, SourceFacts(is_seekable=True)))
    assert log.do(player.ended(log.close(2))) == ["TrackEnd a finished", "PlayerUpdate idle"]


def test_a_source_that_proves_unseekable_plays_from_its_start() -> None:
    log = new_player("a")
    player = log.playback
    log.do(player.start_clock())
    log.do(player.seek(5000))
    log.do(player.opened(2, SourceFacts(length_ms=60_000)))
    assert log.do(player.seek_failed(2, "not_seekable")) == ["SeekFailed not_seekable"]
    assert log.events[-1] == SeekFailed("a", "not_seekable", 0)
    assert player.position_ms == 0
    assert log.do(player.first_frame(2)) == ["TrackStart a", "PlayerUpdate playing"]
    assert log.do(player.seek_failed(1, "not_seekable")) == []


def test_a_kept_seek_holds_for_the_first_entry_of_a_playlist() -> None:
    log = new_player("p")
    player = log.playback
    log.do(player.seek(5000))
    entries = (make_track("x", is_playlist_entry=True), make_track("y", is_playlist_entry=True))
    assert log.do(player.expanded(log.close(2), entries)) == ["QueueUpdate 1", "open 3 x at 5000"]
    assert player.position_ms == 5000


def test_a_failure_that_was_kept_is_tried_again_by_a_seek() -> None:
    log = playing_player("ab")
    player = log.playback
    log.do(player.pause())
    log.do(player.skip())
    log.do(player.failed(log.close(2), FILE_MISSING))
    assert log.do(player.seek(1000)) == ["Seek 0 1000", "open 3 b at 1000"]
    assert log.do(player.play()) == ["PlayerResume", "PlayerUpdate loading"]


# In other states


def test_pause_stays() -> None:
    log = playing_player("a")
    log.do(log.playback.pause())
    assert log.do(log.playback.seek(5000)) == ["Seek 0 5000", "PlayerUpdate loading", "seek 1 as 2 at 5000"]
    assert log.playback.paused
    assert not log.playback.wants_frames


@pytest.mark.parametrize("paused", [False, True])
def test_an_idle_player_starts_its_track_there(paused: bool) -> None:
    log = stopped_player("ab")
    player = log.playback
    if paused:
        log.do(player.pause())
    assert log.do(player.seek(5000)) == ["Seek 0 5000", "PlayerUpdate loading", "open 2 a at 5000"]
    assert (player.current.id, names_queued(player), player.paused) == ("a", "b", paused)
    assert sound(log, 2)[0] == "TrackStart a"


def test_a_failed_player_starts_its_track_there() -> None:
    log = failed_player("ab")
    assert log.do(log.playback.seek(5000)) == ["Seek 0 5000", "PlayerUpdate loading", "open 6 a at 5000"]
    assert names_queued(log.playback) == "b"


def test_behind_the_end_changes_nothing_in_an_idle_player() -> None:
    log = stopped_player("ab")
    assert log.do(log.playback.seek(60_000)) == []
    assert (log.playback.state, log.playback.current.id, names_queued(log.playback)) == (IDLE, "a", "b")


# What was sought over, and what comes next


def test_what_was_sought_over_was_not_played() -> None:
    log = playing_player("a")
    player = log.playback
    player.position_ms = 5000
    log.do(player.seek(50_000))
    log.do(player.first_frame(2))
    player.position_ms = 52_000
    log.do(player.seek(10_000))
    log.do(player.first_frame(3))
    player.position_ms = 10_500
    log.do(player.skip())
    end = next(event for event in log.events if isinstance(event, TrackEnd))
    assert (end.position_ms, end.played_ms) == (10_500, 7500)


def test_a_seek_forward_keeps_the_next_track_open_and_one_back_lets_it_go() -> None:
    log = playing_player("ab")
    player = log.playback
    player.position_ms = 51_000
    log.do(player.next_is_due())
    assert log.do(player.seek(55_000))[-1] == "seek 1 as 3 at 55000"
    assert player.next_source == 2
    assert log.do(player.seek(0))[-2:] == ["drop 2", "seek 3 as 4"]
    assert log.do(player.next_is_due()) == ["open 5 b"]


def test_a_source_that_is_lost_after_a_seek_ends_as_one_that_had_sounded() -> None:
    log = playing_player("a", TRACK)
    player = log.playback
    log.do(player.seek(30_000))
    assert log.do(player.failed(log.close(2), CONNECTION_LOST)) == [
        "TrackException a connection_lost",
        "TrackEnd a loadFailed",
        "open 3 a after 1 s",
    ]
    assert player.position_ms == 0


def test_late_reports_about_the_source_before_the_seek_change_nothing() -> None:
    log = playing_player("a")
    player = log.playback
    log.do(player.seek(30_000))
    for outcome in (player.ended(1), player.first_frame(1), player.interrupted(1, CONNECTION_LOST)):
        assert log.do(outcome) == []
    assert player.current_source == 2

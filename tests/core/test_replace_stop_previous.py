"""Taking the current track's place, stopping it, and going back to what was played."""

from collections.abc import Callable

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
from tonearm.core.errors import NoPrevious
from tonearm.core.events import PlayerState
from tonearm.core.play_queue import MAX_PLAYED, LoopMode
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome

NONE, TRACK, QUEUE = LoopMode
LOADING, PLAYING, IDLE, FAILED = PlayerState


def loading_player(names: str) -> PlaybackLog:
    log = new_player(names)
    log.do(log.playback.start_clock())
    return log


def paused_player(names: str) -> PlaybackLog:
    log = playing_player(names)
    log.do(log.playback.pause())
    return log


PLAYERS: dict[str, Callable[[str], PlaybackLog]] = {
    "new": new_player,
    "loading": loading_player,
    "playing": playing_player,
    "paused": paused_player,
    "stopped": stopped_player,
    "failed": failed_player,
}


def play_through(log: PlaybackLog, count: int) -> None:
    """That many tracks sound and end by themselves."""
    for _ in range(count):
        source = log.playback.current_source
        assert source is not None
        sound(log, source)
        log.do(log.playback.ended(log.close(source)))


def sound_current(log: PlaybackLog) -> None:
    assert log.playback.current_source is not None
    sound(log, log.playback.current_source)


def history(log: PlaybackLog) -> list[str]:
    return [f"{played.track.id} {played.reason}" for played in log.playback.history]


# Replacing


@pytest.mark.parametrize("mode", LoopMode)
@pytest.mark.parametrize("kind", PLAYERS)
def test_a_track_takes_the_place_of_the_current_one(kind: str, mode: LoopMode) -> None:
    log = PLAYERS[kind]("ab")
    player = log.playback
    log.do(player.set_loop(mode))
    paused = player.paused
    lines = log.do(player.replace(make_track("x")))
    ends = [line for line in lines if line.startswith("TrackEnd")]
    assert ends == ([] if kind == "stopped" else ["TrackEnd a replaced"])
    assert (player.current.id, names_queued(player), player.state, player.paused) == ("x", "b", LOADING, paused)
    assert "".join(log.open_sources.values()) == "x"
    # No loop brings the replaced track back.
    log.do(player.play())
    log.do(player.start_clock())
    for _ in range(4):
        play_through(log, 1)
        assert player.current.id != "a"
        if player.state is IDLE:
            break


def test_more_tracks_come_next() -> None:
    log = playing_player("ab")
    assert log.do(log.playback.replace(*map(make_track, "xyz")))[:2] == ["TrackEnd a replaced", "QueueUpdate 3"]
    assert (log.playback.current.id, names_queued(log.playback)) == ("x", "yzb")


@pytest.mark.parametrize("ends_before", ["the replacing", "nothing"])
def test_a_replacement_at_the_very_end_of_a_clip_is_not_lost(ends_before: str) -> None:
    log = playing_player("a")
    player = log.playback
    if ends_before == "the replacing":
        log.do(player.ended(log.close(1)))
    log.do(player.replace(make_track("x")))
    assert log.do(player.ended(1)) == []  # the report of the end was under way
    assert player.current.id == "x"
    sound_current(log)
    assert player.state is PLAYING


def test_a_track_enqueued_to_be_skipped_to_may_be_what_the_skip_ends() -> None:
    """Why two requests cannot replace a track, and `replace` is one: the clip may end between them."""
    log = playing_player("a")
    player = log.playback
    log.do(player.enqueue(make_track("x")))
    log.do(player.ended(log.close(1)))
    assert log.do(player.skip())[0] == "TrackEnd x skipped"
    assert player.state is IDLE
    # Where the client says which track it means to hear, it is not skipped.
    log = playing_player("a")
    log.do(log.playback.replace(make_track("x")))
    assert log.playback.current.id == "x"


# Stopping


@pytest.mark.parametrize("mode", LoopMode)
@pytest.mark.parametrize("kind", PLAYERS)
def test_a_stopped_player_is_idle_and_keeps_its_queue(kind: str, mode: LoopMode) -> None:
    log = PLAYERS[kind]("ab")
    player = log.playback
    log.do(player.set_loop(mode))
    paused = player.paused
    lines = log.do(player.stop())
    assert lines[:1] == ([] if kind == "stopped" else ["TrackEnd a stopped"])
    assert (player.current.id, names_queued(player), player.state, player.paused) == ("a", "b", IDLE, paused)
    assert log.open_sources == {}
    assert log.do(player.stop()) == []


@pytest.mark.parametrize("mode", LoopMode)
def test_after_a_stop_play_repeats_the_track_and_skip_starts_the_queue(mode: LoopMode) -> None:
    log = stopped_player("ab", mode)
    player = log.playback
    assert log.do(player.play()) == ["PlayerUpdate loading", "open 2 a"]
    log.do(player.stop())
    assert log.do(player.skip()) == ["QueueUpdate 0", "PlayerUpdate loading", "open 3 b"]


# What was played


def test_the_history_has_the_newest_first_with_time_and_reason() -> None:
    log = playing_player("abcd")
    player = log.playback
    log.now_ms = 1000
    log.do(player.ended(log.close(1)))
    log.now_ms = 2000
    sound_current(log)
    log.do(player.skip())
    log.now_ms = 3000
    log.do(player.failed(log.close(3), FILE_MISSING))
    sound_current(log)
    log.now_ms = 4000
    log.do(player.interrupted(log.close(4), CONNECTION_LOST))
    assert history(log) == ["d loadFailed", "c loadFailed", "b skipped", "a finished"]
    assert [(played.ended_at_ms, played.sounded) for played in player.history] == [
        (4000, True),
        (3000, False),
        (2000, True),
        (1000, True),
    ]


def test_repeats_in_a_row_are_one_entry() -> None:
    log = playing_player("ab", TRACK)
    play_through(log, 3)
    assert history(log) == ["a finished"]
    log.do(log.playback.skip())
    assert history(log) == ["a skipped"]


def test_the_history_has_fifty_tracks() -> None:
    log = playing_player("a")
    log.do(log.playback.enqueue(*(make_track(str(number)) for number in range(60))))
    play_through(log, 61)
    assert len(log.playback.history) == MAX_PLAYED == 50
    assert history(log)[0] == "59 finished"


# Going back


def test_twice_goes_two_back_and_the_way_forward_is_the_queue() -> None:
    log = playing_player("abcd")
    player = log.playback
    play_through(log, 2)
    sound_current(log)
    lines = log.do(player.previous())
    assert lines[:3] == ["TrackEnd c replaced", "QueueUpdate 2", "PlayerUpdate loading"]
    assert (player.current.id, names_queued(player), history(log)) == ("b", "cd", ["a finished"])
    log.do(player.previous())
    assert (player.current.id, names_queued(player), history(log)) == ("a", "bcd", [])
    with pytest.raises(NoPrevious):
        player.previous()
    assert (player.current.id, names_queued(player)) == ("a", "bcd")
    play_through(log, 2)
    assert (player.current.id, names_queued(player), history(log)) == ("c", "d", ["b finished", "a finished"])


def test_in_a_loop_of_the_queue_the_track_before_leaves_the_queue() -> None:
    log = playing_player("abc", QUEUE)
    player = log.playback
    play_through(log, 4)
    assert (player.current.id, names_queued(player)) == ("b", "ca")
    log.do(player.previous())
    assert (player.current.id, names_queued(player)) == ("a", "bc")
    log.do(player.previous())
    assert (player.current.id, names_queued(player)) == ("c", "ab")


def test_a_track_of_a_loop_that_was_left_is_in_the_player_only_once() -> None:
    log = playing_player("abc", QUEUE)
    play_through(log, 1)
    log.do(log.playback.set_loop(NONE))
    log.do(log.playback.previous())
    assert (log.playback.current.id, names_queued(log.playback)) == ("a", "bc")


def test_rounds_of_the_current_track_are_not_what_came_before_it() -> None:
    log = playing_player("ab")
    play_through(log, 1)
    log.do(log.playback.set_loop(TRACK))
    play_through(log, 2)
    log.do(log.playback.previous())
    assert (log.playback.current.id, names_queued(log.playback), history(log)) == ("a", "b", [])


def test_what_never_sounded_is_passed_over() -> None:
    log = playing_player("abc")
    player = log.playback
    log.do(player.ended(log.close(1)))
    log.do(player.failed(log.close(2), FILE_MISSING))
    sound_current(log)
    log.do(player.previous())
    assert (player.current.id, names_queued(player), history(log)) == ("a", "c", ["b loadFailed"])


@pytest.mark.parametrize("end", [lambda player: player.stop(), lambda player: player.ended(1)])
def test_an_idle_player_plays_the_last_one_again(end: Callable[[Playback], Outcome]) -> None:
    log = playing_player("a")
    log.do(end(log.playback))
    log.open_sources.clear()
    assert log.do(log.playback.previous()) == ["PlayerUpdate loading", "open 2 a"]
    assert (names_queued(log.playback), history(log)) == ("", [])


def test_a_failed_player_goes_back() -> None:
    log = playing_player("a")
    log.do(log.playback.ended(log.close(1)))
    log.do(log.playback.enqueue(make_track("x")))
    log.do(log.playback.failed(log.close(2), FILE_MISSING))
    assert log.playback.state is FAILED
    assert log.do(log.playback.previous())[:2] == ["TrackEnd x replaced", "QueueUpdate 1"]
    assert (log.playback.current.id, names_queued(log.playback)) == ("a", "x")


def test_a_new_player_has_nothing_before() -> None:
    log = new_player("ab")
    with pytest.raises(NoPrevious):
        log.playback.previous()


# The last failure


def test_the_last_failure_is_known_until_something_plays() -> None:
    log = loading_player("ab")
    player = log.playback
    assert player.error is None
    log.do(player.failed(log.close(1), FILE_MISSING))
    assert player.error == FILE_MISSING
    log.do(player.opened(2, SONG))
    assert player.error == FILE_MISSING
    log.do(player.first_frame(2))
    assert player.error is None

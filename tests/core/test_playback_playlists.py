"""A track that turns out to be a playlist: its entries take its place, and no event names the playlist itself."""

from collections.abc import Callable

import pytest

from tests.support.playback_log import PlaybackLog, names_queued, new_player, playing_player, sound
from tests.support.tracks import FILE_MISSING, make_track
from tonearm.core.errors import LimitReached
from tonearm.core.events import PlayerState
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

NONE, TRACK, QUEUE = LoopMode


def test_entries_share_the_playlists_metadata_and_are_left_out_when_it_is_too_much_for_all() -> None:
    playlist = make_track("a", {"x": "y" * 1000})
    playback = Playback("p", playlist, {}, max_waiting_bytes=3 * (playlist.waiting_bytes + 10))
    playback.begin()
    playback.start_clock()
    playback.expanded(1, tuple(make_track(name) for name in "bcdefgh"))
    assert [playback.current.id, *(track.id for track in playback.queue)] == ["b", "c", "d", "e"]
    assert all(track.metadata == playlist.metadata for track in playback.queue)


def entries(names: str) -> tuple[Track, ...]:
    return tuple(make_track(name, is_playlist_entry=True) for name in names)


def started_player(names: str, mode: LoopMode = NONE) -> PlaybackLog:
    """A player whose clock runs and whose first track is being opened as source 1."""
    log = new_player(names, mode)
    log.do(log.playback.start_clock())
    return log


@pytest.mark.parametrize("mode", LoopMode)
@pytest.mark.parametrize(
    ("names", "listed", "queued", "expected"),
    [
        ("p", "x", "", []),
        ("p", "xyz", "yz", ["QueueUpdate 2"]),
        ("pab", "x", "ab", []),
        ("pab", "xyz", "yzab", ["QueueUpdate 4"]),
    ],
)
def test_the_entries_take_the_place_of_the_track_that_is_being_opened(
    mode: LoopMode, names: str, listed: str, queued: str, expected: list[str]
) -> None:
    log = started_player(names, mode)
    player = log.playback
    assert log.do(player.expanded(log.close(1), entries(listed))) == [*expected, "open 2 x"]
    assert (player.current.id, names_queued(player), player.state) == ("x", queued, PlayerState.LOADING)
    assert sound(log, 2) == ["TrackStart x", "PlayerUpdate playing"]


@pytest.mark.parametrize(
    ("mode", "then"),
    [
        (NONE, ["x finished", "y finished", "a finished"]),
        (TRACK, ["x finished", "x finished", "x finished"]),
        (QUEUE, ["x finished", "y finished", "a finished", "x finished", "y finished"]),
    ],
)
def test_loops_go_over_the_entries(mode: LoopMode, then: list[str]) -> None:
    log = started_player("pa", mode)
    log.do(log.playback.expanded(log.close(1), entries("xy")))
    ends = []
    for _ in then:
        source = log.playback.current_source
        assert source is not None
        sound(log, source)
        lines = log.do(log.playback.ended(log.close(source)))
        ends += [line.removeprefix("TrackEnd ") for line in lines if line.startswith("TrackEnd")]
    assert ends == then


def test_a_playlist_opened_ahead_gives_its_place_in_the_queue() -> None:
    log = playing_player("apb")
    player = log.playback
    log.do(player.next_is_due())
    assert log.do(player.expanded(log.close(2), entries("xy"))) == ["QueueUpdate 3", "open 3 x"]
    assert (player.current.id, names_queued(player), player.next_source) == ("a", "xyb", 3)
    log.do(player.opened(3, SourceFacts()))
    assert log.do(player.ended(log.close(1))) == ["TrackEnd a finished", "QueueUpdate 2"]
    assert log.do(player.first_frame(3)) == ["TrackStart x"]


@pytest.mark.parametrize("mode", [TRACK, QUEUE])
def test_a_playing_track_that_is_a_playlist_when_the_loop_opens_it_again(mode: LoopMode) -> None:
    """It is left as it is, and opened anew when its turn comes."""
    log = playing_player("a", mode)
    player = log.playback
    log.do(player.next_is_due())
    assert log.do(player.expanded(log.close(2), entries("xy"))) == []
    lines = log.do(player.ended(log.close(1)))
    assert lines[:2] == ["TrackEnd a finished", "TrackException a not_audio"]
    assert "PlayerUpdate loading" in lines
    assert player.current_source is not None
    assert log.do(player.expanded(log.close(player.current_source), entries("xy")))[-1] == "open 4 x"


def test_a_playing_track_that_expands_is_interrupted() -> None:
    log = playing_player("ab")
    assert log.do(log.playback.expanded(log.close(1), entries("xy"))) == [
        "TrackException a not_audio",
        "TrackEnd a loadFailed",
        "QueueUpdate 0",
        "PlayerUpdate loading",
        "open 2 b",
    ]


def test_a_playlist_in_a_playlist_fails() -> None:
    log = started_player("pa")
    player = log.playback
    log.do(player.expanded(log.close(1), entries("xy")))
    assert log.do(player.expanded(log.close(2), entries("uv"))) == [
        "TrackException x limit_exceeded",
        "TrackEnd x loadFailed",
        "QueueUpdate 1",
        "open 3 y",
    ]


@pytest.mark.parametrize("before", [lambda _: Outcome(), Playback.pause, Playback.next_is_due])
def test_before_the_clock_starts_and_while_paused(before: Callable[[Playback], Outcome]) -> None:
    log = new_player("pa")
    player = log.playback
    log.do(before(player))
    log.do(player.expanded(log.close(1), entries("xy")))
    assert (player.current.id, names_queued(player)) == ("x", "ya")
    log.do(player.start_clock())
    log.do(player.play())
    assert sound(log, player.current_source or 0) == ["TrackStart x", "PlayerUpdate playing"]


def test_what_was_opened_ahead_is_opened_anew_behind_the_entries() -> None:
    log = started_player("pa")
    player = log.playback
    assert log.do(player.next_is_due()) == ["open 2 a"]
    assert log.do(player.expanded(log.close(1), entries("xy"))) == ["QueueUpdate 2", "open 3 x", "drop 2", "open 4 y"]


@pytest.mark.parametrize("leave", [Playback.skip, lambda player: player.failed(1, FILE_MISSING)])
def test_an_answer_that_comes_too_late_changes_nothing(leave: Callable[[Playback], Outcome]) -> None:
    log = new_player("pa")
    if leave is not Playback.skip:
        log.close(1)
    log.do(leave(log.playback))
    assert log.do(log.playback.expanded(1, entries("xy"))) == []
    assert "x" not in names_queued(log.playback)


def test_entries_that_would_make_the_queue_too_long_are_left_out() -> None:
    log = PlaybackLog(make_track("p"), max_waiting_tracks=3)
    player = log.playback
    log.do(player.enqueue(make_track("a")))
    log.do(player.expanded(log.close(1), entries("uvwxyz")))
    assert (player.current.id, names_queued(player)) == ("u", "vwa")
    log = PlaybackLog(make_track("a"), max_waiting_tracks=3)
    player = log.playback
    log.do(player.enqueue(make_track("p"), make_track("b")))
    log.do(player.next_is_due())
    log.do(player.expanded(log.close(2), entries("uvwxyz")))
    assert names_queued(player) == "uvb"


def test_several_tracks_are_enqueued_at_once_or_not_at_all() -> None:
    log = PlaybackLog(make_track("a"), max_waiting_tracks=3)
    player = log.playback
    assert log.do(player.enqueue(*entries("xy"))) == ["QueueUpdate 2"]
    with pytest.raises(LimitReached):
        player.enqueue(*entries("uv"))
    assert names_queued(player) == "xy"


def test_an_idle_player_plays_the_first_of_several() -> None:
    log = playing_player("a")
    log.do(log.playback.ended(log.close(1)))
    assert log.do(log.playback.enqueue(*entries("xy"))) == ["QueueUpdate 1", "PlayerUpdate loading", "open 2 x"]

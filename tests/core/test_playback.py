"""What a listener and a client see of a player, step by step."""

import pytest

from tests.support.playback_log import new_player, playing_player, sound, stories, tell
from tests.support.tracks import make_track
from tonearm.core.errors import BadRequest, LimitReached, NotSeekable
from tonearm.core.events import (
    FiltersChange,
    MetadataChange,
    PlayerState,
    TrackStart,
)
from tonearm.core.failure import FailureCode, own_error
from tonearm.core.filters import FilterChange
from tonearm.core.play_queue import LoopMode, OpenAction
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome


@stories(
    """
a new player opens its track and waits for the clock
    new a
    open: 1 a; is: loading a; ahead: nothing; wants: nothing; clock; wants: frames

the first frame starts the track
    loading a
    sounds 1: TrackStart a, PlayerUpdate playing; frame 1; is: playing a

before the clock starts only skip takes from the queue
    new ab; fails 1
    play; is: loading a b; skip: TrackEnd a skipped, QueueUpdate 0, open 2 b
    skip: TrackEnd b skipped, PlayerUpdate idle, drop 2

a failure before the clock is told when it starts, and its source cannot start
    new ab; fails 1
    frame 1; clock: TrackException a file_missing, TrackEnd a loadFailed, QueueUpdate 0, open 2 b
"""
)
def test_starting(story: str) -> None:
    tell(story)


def test_a_player_without_a_first_track_is_idle_until_it_gets_one() -> None:
    playback = Playback("p", None, {})
    for call in (playback.begin, playback.start_clock, playback.play, playback.skip, playback.stop):
        assert call() == Outcome(), call
    assert (playback.state, playback.current.is_none) == (PlayerState.IDLE, True)
    with pytest.raises(NotSeekable, match="no track yet"):
        playback.seek(5)
    playback.set_loop(LoopMode.QUEUE)
    first = make_track("a")
    assert playback.enqueue(first).actions == (OpenAction(1, first),)
    assert (playback.state, playback.current) == (PlayerState.LOADING, first)
    playback.skip()
    assert [track.info.title for track in (playback.current, *playback.queue)] == ["a"]


@stories(
    """
a track is joined to the one opened ahead
    playing abc
    due: open 2 b; due; opened 2: QueueDetails; ahead: 2; ends 1: TrackEnd a finished, QueueUpdate 1
    frame 2: TrackStart b; is: playing b c; ahead: nothing

a next track that is not open yet is waited for
    playing ab; due
    ends 1: TrackEnd a finished, QueueUpdate 0, PlayerUpdate loading; sounds 2: TrackStart b, PlayerUpdate playing

an opened next track without frames in time is waited for
    playing ab; due; opened 2; ends 1
    underrun: PlayerUpdate loading; recovered; frame 2: TrackStart b, PlayerUpdate playing

an idle player keeps its track and plays it again
    playing a
    ends 1: TrackEnd a finished, PlayerUpdate idle; is: idle a; open: nothing; wants: nothing
    pause: PlayerPause, PlayerUpdate idle; play: PlayerResume, PlayerUpdate loading, open 2 a
    sounds 2: TrackStart a, PlayerUpdate playing
"""
)
def test_from_one_track_to_the_next(story: str) -> None:
    tell(story)


@stories(
    """
skip takes over the source that was opened ahead, and only then the two may fade
    playing ab; due
    skip: TrackEnd a skipped, QueueUpdate 0, PlayerUpdate loading, drop 1, may fade; open: 2 b

skip in a queue of one that loops begins it again
    playing a queue
    skip: TrackEnd a skipped, PlayerUpdate loading, seek 1 as 2
"""
)
def test_skipping(story: str) -> None:
    tell(story)


@stories(
    """
another loop mode opens another next track
    playing ab; due
    loop track: LoopModeChange track, drop 2, open 3 a; loop queue: LoopModeChange queue, drop 3, open 4 b
    loop none: LoopModeChange none

a track that comes when the next is due is opened, and one that comes earlier is not
    playing a
    enqueue b: QueueUpdate 1; clear: QueueUpdate 0; due; enqueue b: QueueUpdate 1, open 2 b
    enqueue c: QueueUpdate 2

after a join the next track is opened only when it is due again
    playing ab; due; ends 1; sounds 2
    enqueue c: QueueUpdate 1; due: open 3 c
"""
)
def test_what_comes_next_changes(story: str) -> None:
    tell(story)


@stories(
    """
a failed track opened ahead is forgotten when another comes first
    playing ab; due; fails 2
    loop track: LoopModeChange track, open 3 a; loop none: LoopModeChange none, drop 3, open 4 b

five failures in a row stop the player and keep the queue
    loading abcdefgh; fails 1; fails 2; fails 3; fails 4
    is: loading e fgh; fails 5: TrackException e file_missing, TrackEnd e loadFailed, PlayerUpdate failed
    is: failed e fgh; play: QueueUpdate 2, PlayerUpdate loading, open 6 f
    fails 6: TrackException f file_missing, TrackEnd f loadFailed, QueueUpdate 1, open 7 g; is: loading g h

audio between failures starts the count of five anew
    loading abcdefghi; fails 1; fails 2; fails 3; fails 4; sounds 5; ends 5
    fails 6: TrackException f file_missing, TrackEnd f loadFailed, QueueUpdate 2, open 7 g; is: loading g hi

a source that ends without audio has failed
    loading a track; opened 1
    ends 1: TrackException a empty, TrackEnd a loadFailed, PlayerUpdate failed; is: failed a

an interrupted radio is opened again ever more slowly and for ever
    playing a track
    breaks 1: TrackException a connection_lost, TrackEnd a loadFailed, PlayerUpdate loading, open 2 a after 1 s
    fails 2 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 3 a after 2 s
    fails 3 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 4 a after 4 s
    fails 4 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 5 a after 8 s
    fails 5 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 6 a after 16 s
    fails 6 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 7 a after 30 s
    fails 7 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 8 a after 30 s
    fails 8 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 9 a after 30 s
    sounds 9: TrackStart a, PlayerUpdate playing
    breaks 9: TrackException a connection_lost, TrackEnd a loadFailed, PlayerUpdate loading, open 10 a after 1 s

play ends the delay of a retry
    playing a track; breaks 1
    play: seek 2 as 3; play
    fails 3 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 4 a after 2 s

a delayed track that opened is not opened again by play
    playing a track; breaks 1; opened 2
    play; frame 2: TrackStart a, PlayerUpdate playing; play

a track with a delayed retry is not opened ahead
    playing ab queue; breaks 1; sounds 2
    due; ends 2: TrackEnd b finished, QueueUpdate 1, PlayerUpdate loading, open 3 a after 1 s

failures of a track that gave audio do not count towards five
    playing abc track; breaks 1; fails 2 lost; fails 3 lost; fails 4 lost; fails 5 lost; fails 6 lost
    is: loading a bc; skip: TrackEnd a skipped, QueueUpdate 1, drop 7, open 8 b
    fails 8: TrackException b file_missing, TrackEnd b loadFailed, QueueUpdate 0, open 9 c; is: loading c

the last failure is known until something plays
    loading ab
    error: nothing; fails 1: TrackException a file_missing, TrackEnd a loadFailed, QueueUpdate 0, open 2 b
    error: file_missing; opened 2; error: file_missing; frame 2: TrackStart b, PlayerUpdate playing; error: nothing
"""
)
def test_bad_sources(story: str) -> None:
    tell(story)


@stories(
    """
the first one ends its track and the next one plays
    playing abc
    breaks 1 error: TrackException a internal, TrackEnd a loadFailed, QueueUpdate 1, PlayerUpdate loading, open 2 b
    sounds 2: TrackStart b, PlayerUpdate playing; error: nothing

others between them and a loop change nothing
    playing abcd; loop queue; breaks 1 error; fails 2 lost; sounds 3; wait 1000
    breaks 3 error: TrackException c internal, TrackEnd c loadFailed, PlayerUpdate failed; is: failed c da

a second one within a minute stops the player
    playing abc; breaks 1 error; wait 60000
    fails 2 error: TrackException b internal, TrackEnd b loadFailed, PlayerUpdate failed; is: failed b c
    error: internal

a second one after it does not
    playing abc; breaks 1 error; wait 60001
    fails 2 error: TrackException b internal, TrackEnd b loadFailed, QueueUpdate 0, open 3 c; is: loading c

a player that they stopped goes on when it is told to
    playing abc; breaks 1 error; fails 2 error; play; sounds 3
    is: playing c

one that is told only when its turn comes counts from then on
    new abc; fails 1 error; wait 3600000; clock; wait 1000
    fails 2 error: TrackException b internal, TrackEnd b loadFailed, PlayerUpdate failed; is: failed b c
"""
)
def test_errors_of_the_node_s_own(story: str) -> None:
    tell(story)


def test_what_is_told_of_an_error_is_bounded() -> None:
    failure = own_error(ValueError("x" * 10_000))
    assert failure.code is FailureCode.INTERNAL
    assert len(failure.message) < 500


@stories(
    """
the next source cannot start before its turn
    playing ab; due
    frame 2; is: playing a b

an underrun and its recovery
    playing a
    recovered; underrun: PlayerUpdate loading; underrun; wants: frames; recovered: PlayerUpdate playing

an idle player has no underrun and no recovery
    playing a; ends 1
    underrun; recovered; due; skip

delete ends the track and drops every source
    playing ab; due
    delete: TrackEnd a stopped, PlayerDelete, drop 1, drop 2; wants: nothing; clock

delete of an idle player ends no track
    playing a; ends 1
    delete: PlayerDelete

delete of a failed player ends no track
    loading a; fails 1
    delete: PlayerDelete
"""
)
def test_reports_and_ends(story: str) -> None:
    tell(story)


def test_settings_are_events_when_they_change() -> None:
    log = playing_player("a")
    player = log.playback
    assert log.do(player.change_filters(FilterChange(volume=1.0))) == []
    assert log.do(player.change_filters(FilterChange(volume=2.0))) == ["FiltersChange", "fade moves"]
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

"""What a listener and a client see of a player, step by step, where `test_playback_model` does not look."""

from dataclasses import replace

import pytest

from tests.support.playback_log import (
    FACTS,
    PlaybackLog,
    names_queued,
    new_player,
    playing_player,
    sound,
    stories,
    tell,
)
from tests.support.tracks import make_track
from tonearm.core.crossfade import CrossfadeEdit, CrossfadeSettings
from tonearm.core.errors import BadRequest, LimitReached, NotSeekable
from tonearm.core.events import CrossfadeChange, FiltersChange, MetadataChange, PlayerState, TrackStart
from tonearm.core.failure import FailureCode, own_error
from tonearm.core.filters import FilterChange
from tonearm.core.play_queue import LoopMode, OpenAction
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.track_info import SourceFacts


@stories(
    """
a new player opens its track and waits for the clock
    new a
    open: 1 a; is: loading a; wants: nothing; clock; wants: frames; sounds 1: TrackStart a, PlayerUpdate playing

before the clock starts only skip takes from the queue
    new ab; fails 1
    play; is: loading a b; skip: TrackEnd a skipped, QueueUpdate 0, open 2 b

a track is joined to the one opened ahead
    playing abc
    frame 2; due: open 2 b; due; frame 2; opened 2: QueueDetails
    ends 1: TrackEnd a finished, QueueUpdate 1; frame 2: TrackStart b; is: playing b c; ahead: nothing

skip in a queue of one that loops begins it again
    playing a queue
    skip: TrackEnd a skipped, PlayerUpdate loading, seek 1 as 2

a track that comes when the next is due is opened, and one that comes earlier is not
    playing a
    enqueue b: QueueUpdate 1; clear: QueueUpdate 0; due; enqueue b: QueueUpdate 1, open 2 b
    enqueue c: QueueUpdate 2

after a join the next track is opened only when it is due again
    playing ab; due; ends 1; sounds 2
    enqueue c: QueueUpdate 1; due: open 3 c

delete ends the track and drops every source
    playing ab; due
    delete: TrackEnd a stopped, PlayerDelete, drop 1, drop 2

delete of an idle player ends no track
    playing a; ends 1
    delete: PlayerDelete

delete of a failed player ends no track
    loading a; fails 1
    delete: PlayerDelete

the history has the newest first, with its time
    playing abcd; wait 1000; ends 1; sounds 2; wait 1000; skip; wait 1000; fails 3; sounds 4; wait 1000; breaks 4
    history: d loadFailed at 4000, c loadFailed unheard at 3000, b skipped at 2000, a finished at 1000
"""
)
def test_from_one_track_to_the_next(story: str) -> None:
    tell(story)


@stories(
    """
a failed track opened ahead is forgotten when another comes first
    playing ab; due; fails 2
    loop track: LoopModeChange track, open 3 a; loop none: LoopModeChange none, drop 3, open 4 b

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
    sounds 8: TrackStart a, PlayerUpdate playing
    breaks 8: TrackException a connection_lost, TrackEnd a loadFailed, PlayerUpdate loading, open 9 a after 1 s

play ends the delay of a retry
    playing a track; breaks 1
    play: seek 2 as 3; play
    fails 3 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 4 a after 2 s
    opened 4; play; frame 4: TrackStart a, PlayerUpdate playing; play

a track with a delayed retry is not opened ahead
    playing ab queue; breaks 1; sounds 2
    due; ends 2: TrackEnd b finished, QueueUpdate 1, PlayerUpdate loading, open 3 a after 1 s

the last failure is known until something plays
    loading ab
    error: nothing; fails 1: TrackException a file_missing, TrackEnd a loadFailed, QueueUpdate 0, open 2 b
    opened 2; error: file_missing; frame 2: TrackStart b, PlayerUpdate playing; error: nothing

a second error of the node's own within a minute stops the player, whatever came in between
    playing abcd; loop queue; breaks 1 error; fails 2 lost; sounds 3; wait 60000
    breaks 3 error: TrackException c internal, TrackEnd c loadFailed, PlayerUpdate failed; is: failed c da

also one that never sounded
    playing abc; breaks 1 error; wait 60000
    fails 2 error: TrackException b internal, TrackEnd b loadFailed, PlayerUpdate failed; is: failed b c

a second one after it does not
    playing abc; breaks 1 error; wait 60001
    fails 2 error: TrackException b internal, TrackEnd b loadFailed, QueueUpdate 0, open 3 c; is: loading c

one that is told only when its turn comes counts from then on
    new abc; fails 1 error; wait 3600000; clock; wait 1000
    fails 2 error: TrackException b internal, TrackEnd b loadFailed, PlayerUpdate failed; is: failed b c
"""
)
def test_bad_sources(story: str) -> None:
    tell(story)


@stories(
    """
a seek loads the track anew without an end and a start
    playing ab; position 5000
    seek 30000: Seek 5000 30000, PlayerUpdate loading, seek 1 as 2 at 30000; at: 30000; is: loading a b; opened 2
    frame 2: PlayerUpdate playing; ends 2: TrackEnd a finished, QueueUpdate 0, PlayerUpdate loading, open 3 b

a track that plays on behind an estimated length is sought back
    playing a; position 70000
    seek 65000: Seek 70000 65000, PlayerUpdate loading, seek 1 as 2 at 65000; opened 2; frame 2: PlayerUpdate playing

a source of unknown length may end before the target
    loading a; seek 90000; opened 2 unknown
    ends 2: TrackEnd a finished, PlayerUpdate idle

a live stream is not sought, whether it plays or was stopped
    loading a; opened 1 station; frame 1
    seek 1000: refused NotSeekable; at: 0; open: 1 a; stop: TrackEnd Test FM stopped, PlayerUpdate idle, drop 1
    seek 1000: refused NotSeekable

a seek forward keeps the next track open and one back lets it go
    playing ab; position 51000; due
    seek 55000: Seek 51000 55000, PlayerUpdate loading, seek 1 as 3 at 55000; ahead: 2
    seek 0: Seek 55000 0, drop 2, seek 3 as 4; due: open 5 b
"""
)
def test_seeks(story: str) -> None:
    tell(story)


@stories(
    """
a looped track that is a playlist when it is opened again is left as it is until its turn
    playing a queue; due
    lists 2 xy
    ends 1: TrackEnd a finished, TrackException a not_audio, TrackEnd a loadFailed, PlayerUpdate loading,
        open 3 a after 1 s
    lists 3 xy: QueueUpdate 1, open 4 x

a playing track that expands is interrupted
    playing ab
    lists 1 xy: TrackException a not_audio, TrackEnd a loadFailed, QueueUpdate 0, PlayerUpdate loading, open 2 b

a playlist in a playlist is followed, and one in that fails
    loading pa; lists 1 xy
    lists 2 uv: QueueUpdate 3, open 3 u; is: loading u vya
    lists 3 st: TrackException u limit_exceeded, TrackEnd u loadFailed, QueueUpdate 2, open 4 v

a playlist that leads back to itself fails
    loading pa; lists 1 p
    lists 2 xy: TrackException p limit_exceeded, TrackEnd p loadFailed, QueueUpdate 0, open 3 a
"""
)
def test_playlists(story: str) -> None:
    tell(story)


@stories(
    """
a title is an event when it is another one, and shown from then on, also when the source is opened again
    loading a; opened 1 station; frame 1
    titled 1 One: StreamTitle; title: One; titled 1 One; titled 1 Two: StreamTitle; titled 1 One: StreamTitle
    opened 1 station; title: One; titled 1 One; skip: TrackEnd One skipped, PlayerUpdate idle, drop 1

a stall is told as stuck, and a pause does not end it
    playing ab
    awaits: nothing; underrun: PlayerUpdate loading; awaits: 1 in mid track; stuck 1: TrackStuck a
    pause: PlayerPause, PlayerUpdate loading; awaits: 1 in mid track; play: PlayerResume, PlayerUpdate loading
    recovered: PlayerUpdate playing; awaits: nothing; stuck 1

a track is awaited from its turn to its first frame
    new a
    is: loading a; awaits: nothing; clock; awaits: 1; stuck 1: TrackStuck a
    frame 1: TrackStart a, PlayerUpdate playing; awaits: nothing

a failure that is kept until the pause ends is no stall
    loading a; pause; fails 1 lost
    awaits: nothing
"""
)
def test_streams(story: str) -> None:
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


def test_the_history_has_fifty_tracks() -> None:
    log = playing_player("a")
    log.do(log.playback.enqueue(*(make_track(str(number)) for number in range(60))))
    for source in range(1, 62):
        sound(log, source)
        log.do(log.playback.ended(log.close(source)))
    assert [played.track.id for played in log.playback.history] == [str(number) for number in range(59, 9, -1)]


def test_what_is_told_of_an_error_is_bounded() -> None:
    failure = own_error(ValueError("x" * 10_000))
    assert failure.code is FailureCode.INTERNAL
    assert len(failure.message) < 500


def test_settings_are_events_when_they_change() -> None:
    log = new_player("a")
    player = log.playback
    assert log.do(player.change_filters(FilterChange(volume=1.0))) == []
    assert log.do(player.change_filters(FilterChange(volume=2.0))) == ["FiltersChange", "fade moves"]
    assert FiltersChange(player.filters) in log.events
    assert log.do(player.change_crossfade(CrossfadeEdit(0))) == []
    assert log.do(player.change_crossfade(CrossfadeEdit(300, on_skip=True))) == ["CrossfadeChange", "fade moves"]
    assert log.do(player.change_crossfade(CrossfadeEdit(12_000))) == ["CrossfadeChange", "fade moves"]
    assert CrossfadeChange(CrossfadeSettings(12_000, on_skip=True)) in log.events
    for duration_ms in (-1, 12_001):
        with pytest.raises(BadRequest):
            player.change_crossfade(CrossfadeEdit(duration_ms, on_skip=False))
    assert player.crossfade == CrossfadeSettings(12_000, on_skip=True)
    assert log.do(player.change_metadata(True, {})) == []
    assert log.do(player.change_metadata(True, {"a": 1})) == ["MetadataChange"]
    assert log.do(player.change_metadata(True, {"b": 2})) == ["MetadataChange"]
    assert player.metadata == {"a": 1, "b": 2}
    assert log.do(player.change_metadata(False, {"a": 1, "b": 2})) == []
    sound(log, 1)  # a track without metadata shows the player's
    assert TrackStart(player.current, {"a": 1, "b": 2}, 0) in log.events
    assert log.do(player.change_metadata(False, None)) == ["MetadataChange"]
    assert MetadataChange(None) in log.events


def test_a_station_stands_for_author_and_unknown_title() -> None:
    log = playing_player("a")
    log.do(log.playback.opened(1, FACTS["station"]))
    info = log.playback.current.info
    assert (info.author, info.title, info.is_stream, info.is_seekable) == ("Test FM", "Test FM", True, False)
    assert SourceFacts(title="Known", author="Band").of_station("Test FM").title == "Known"


# The queue's limits


@pytest.mark.parametrize("index", [-1, -(10**30)])
def test_a_negative_index_is_refused(index: int) -> None:
    log = playing_player("abc")
    with pytest.raises(BadRequest, match="`index`"):
        log.playback.enqueue(make_track("x"), index=index)
    with pytest.raises(BadRequest, match="`index`"):
        log.playback.move("b", index)
    assert names_queued(log.playback) == "bc"


def test_too_many_at_once_are_refused_as_a_whole_and_entries_of_a_playlist_are_left_out() -> None:
    log = PlaybackLog(make_track("p"), max_waiting_tracks=3)
    player = log.playback
    with pytest.raises(LimitReached, match=r"player\.max_waiting_tracks"):
        player.enqueue(*map(make_track, "wxyz"), index=0)
    assert player.queue_length == 0
    log.do(player.enqueue(*map(make_track, "qa")))
    with pytest.raises(LimitReached):
        player.replace(*map(make_track, "xyz"))
    assert (player.current.id, names_queued(player)) == ("p", "qa")
    log.do(player.expanded(log.close(1), tuple(map(make_track, "stuvw"))))
    assert (player.current.id, names_queued(player)) == ("s", "tqa")
    log.do(player.remove("t"))
    log.do(player.next_is_due())
    log.do(player.expanded(log.close(3), tuple(map(make_track, "xyz"))))
    assert names_queued(player) == "xya"


def test_the_queue_has_a_budget_in_bytes_for_uris_and_metadata_also_for_entries_of_playlists() -> None:
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
    playlist = Playback("p", fat, {}, max_waiting_bytes=3 * (fat.waiting_bytes + 10))
    playlist.begin()
    playlist.expanded(1, tuple(make_track(name) for name in "bcdefgh"))
    assert "".join(track.id for track in (playlist.current, *playlist.queue)) == "bcde"
    assert all(track.metadata == fat.metadata for track in playlist.queue)


# Parts of files


def part_player(start_ms: int, end_ms: int | None) -> PlaybackLog:
    """A player that plays a part of a song of 60 s, as source 1."""
    log = PlaybackLog(replace(make_track("a"), start_ms=start_ms, end_ms=end_ms))
    log.do(log.playback.start_clock())
    sound(log, 1)
    return log


@pytest.mark.parametrize(
    ("end_ms", "asked_ms", "step_ms", "target_ms"),
    [
        (20_010, 0, 1, 10_001),
        (20_010, 20_009, 1, 20_009),
        (20_010, 20_010, 1, None),
        (None, 60_000, 1, None),
        (20_010, 10_005, 20, 10_001),
        (20_010, 15_019, 20, 15_000),
        (20_010, 20_009, 20, 20_000),
        (20_010, 20_010, 20, None),
    ],
)
def test_a_track_that_is_a_part_of_a_file_is_sought_inside_of_it(
    end_ms: int | None, asked_ms: int, step_ms: int, target_ms: int | None
) -> None:
    """In steps a seek goes to the step before, but not before the track. One behind the end ends the track."""
    log = part_player(10_001, end_ms)
    assert "open 1 a at 10001" + (f" to {end_ms}" if end_ms else "") in log.lines
    assert log.playback.position_ms == 10_001
    lines = log.do(log.playback.seek(asked_ms, step_ms))
    if target_ms is None:
        assert lines[0] == "TrackEnd a finished"
    else:
        assert lines[-1] == f"seek 1 as 2 at {target_ms}"
        assert log.playback.position_ms == target_ms


def test_a_next_track_that_can_only_be_played_from_its_start_says_so_when_it_starts() -> None:
    log = part_player(0, None)
    log.do(log.playback.enqueue(replace(make_track("b"), start_ms=10_000)))
    log.do(log.playback.next_is_due())
    assert log.do(log.playback.seek_failed(2, "not_seekable")) == []
    log.do(log.playback.ended(1))
    assert log.playback.position_ms == 0
    assert log.do(log.playback.first_frame(2))[:2] == ["SeekFailed", "TrackStart b"]

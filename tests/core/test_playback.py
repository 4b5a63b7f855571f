"""What a listener and a client see of a player, where `test_playback_model` does not look."""

from dataclasses import replace

import pytest

from tests.support.playback_log import (
    SONG,
    PlaybackLog,
    loading_player,
    names_queued,
    new_player,
    playing_player,
    sound,
)
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.crossfade import CrossfadeCurve, CrossfadeEdit, CrossfadeSettings
from tonearm.core.errors import BadRequest, LimitReached, NotSeekable
from tonearm.core.events import CrossfadeChange, FiltersChange, MetadataChange, PlayerState, StreamTitle, TrackStart
from tonearm.core.failure import FailureCode, own_error
from tonearm.core.filters import FilterChange
from tonearm.core.play_queue import EndReason, LoopMode, OpenAction
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.track_info import SourceFacts


def test_a_next_track_is_opened_when_it_is_due_and_not_before() -> None:
    log = playing_player("a")
    player = log.playback
    assert log.do(player.enqueue(make_track("b"))) == ["QueueUpdate 1"]
    log.do(player.clear_queue())
    assert log.do(player.next_is_due()) == []
    assert log.do(player.enqueue(make_track("b"))) == ["QueueUpdate 1", "open 2 b"]
    assert log.do(player.opened(2, SONG)) == ["QueueDetails"]
    log.do(player.ended(log.close(1)))
    sound(log, 2)
    assert log.do(player.enqueue(make_track("c"))) == ["QueueUpdate 1"]
    assert log.do(player.next_is_due()) == ["open 3 c"]
    assert log.do(player.delete()) == ["TrackEnd b stopped", "PlayerDelete", "drop 2", "drop 3"]


def test_delete_of_a_player_that_has_stopped_ends_no_track() -> None:
    idle, failed = playing_player("a"), loading_player("a")
    idle.do(idle.playback.stop())
    failed.do(failed.playback.failed(failed.close(1), FILE_MISSING))
    for log in (idle, failed):
        assert log.do(log.playback.delete()) == ["PlayerDelete"]


def test_play_ends_the_delay_of_a_retry() -> None:
    log = playing_player("a", LoopMode.TRACK)
    log.do(log.playback.failed(log.close(1), CONNECTION_LOST))
    assert log.do(log.playback.play()) == ["seek 2 as 3"]
    assert log.do(log.playback.play()) == []


@pytest.mark.parametrize(("apart_ms", "state"), [(60_000, PlayerState.FAILED), (60_001, PlayerState.LOADING)])
def test_a_second_error_of_our_own_within_a_minute_stops_the_player(apart_ms: int, state: PlayerState) -> None:
    log = loading_player("abc")
    log.do(log.playback.failed(log.close(1), own_error(ValueError())))
    log.now_ms += apart_ms
    log.do(log.playback.failed(log.close(2), own_error(ValueError())))
    assert log.playback.state is state


def test_a_track_that_plays_on_behind_an_estimated_length_is_sought_back() -> None:
    log = playing_player("a")
    log.playback.position_ms = 70_000
    assert log.do(log.playback.seek(65_000)) == ["Seek", "PlayerUpdate loading", "seek 1 as 2 at 65000"]
    assert log.do(log.playback.opened(2, SONG)) == []


def test_a_title_is_an_event_when_it_is_another_one_and_shown_from_then_on() -> None:
    """Also when the source is opened again."""
    log = playing_player("a")
    player = log.playback
    station = SourceFacts(is_stream=True, probe_name="mp3").of_station("Test FM")
    assert SourceFacts(title="Known", author="Band").of_station("Test FM").title == "Known"
    log.do(player.opened(1, station))
    info = player.current.info
    assert (info.author, info.title, info.is_stream, info.is_seekable) == ("Test FM", "Test FM", True, False)
    for title, events in (("One", [StreamTitle("a", "One")]), ("One", []), ("Two", [StreamTitle("a", "Two")])):
        assert [*player.retitled(1, title).events] == events
    player.opened(1, station)
    assert player.current.info.title == "Two"
    assert player.retitled(1, "Two") == Outcome()


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


def test_the_history_has_fifty_tracks_with_their_times() -> None:
    log = playing_player("a")
    log.do(log.playback.enqueue(*(make_track(str(number)) for number in range(60))))
    for source in range(1, 62):
        sound(log, source)
        log.now_ms += 1000
        log.do(log.playback.ended(log.close(source)))
    played = [(one.track.id, one.reason, one.ended_at_ms) for one in log.playback.history]
    assert played == [(str(number), EndReason.FINISHED, 1000 * (number + 2)) for number in range(59, 9, -1)]


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
    for edit in (CrossfadeEdit(curve=CrossfadeCurve.LINEAR), CrossfadeEdit(12_000)):
        assert log.do(player.change_crossfade(edit)) == ["CrossfadeChange", "fade moves"]
    settings = CrossfadeSettings(12_000, CrossfadeCurve.LINEAR, on_skip=True)
    assert CrossfadeChange(settings) in log.events
    for duration_ms in (-1, 12_001):
        with pytest.raises(BadRequest):
            player.change_crossfade(CrossfadeEdit(duration_ms, on_skip=False))
    assert player.crossfade == settings
    assert log.do(player.change_metadata(True, {})) == []
    assert log.do(player.change_metadata(True, {"a": 1})) == ["MetadataChange"]
    assert log.do(player.change_metadata(True, {"b": 2})) == ["MetadataChange"]
    assert player.metadata == {"a": 1, "b": 2}
    assert log.do(player.change_metadata(False, {"a": 1, "b": 2})) == []
    sound(log, 1)  # a track without metadata shows the player's
    assert TrackStart(player.current, {"a": 1, "b": 2}, 0) in log.events
    assert log.do(player.change_metadata(False, None)) == ["MetadataChange"]
    assert MetadataChange(None) in log.events


# The queue's limits


def test_too_many_at_once_are_refused_as_a_whole_and_entries_of_a_playlist_are_left_out() -> None:
    log = PlaybackLog(make_track("p"), max_waiting_tracks=3)
    player = log.playback
    with pytest.raises(LimitReached, match=r"player\.max_waiting_tracks"):
        player.enqueue(*map(make_track, "wxyz"), index=0)
    for index in (-1, -(10**30)):
        with pytest.raises(BadRequest, match="`index`"):
            player.enqueue(make_track("x"), index=index)
    assert player.queue_length == 0
    log.do(player.enqueue(*map(make_track, "qa")))
    with pytest.raises(BadRequest, match="`index`"):
        player.move("a", -1)
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
        (20_010, 20_010, 1, None),
        (None, 60_000, 1, None),
        (20_010, 10_005, 20, 10_001),
        (20_010, 15_019, 20, 15_000),
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

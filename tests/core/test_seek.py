"""Seeking: positions are those in the file, and a track that goes on elsewhere stays the same track."""

from dataclasses import replace

import pytest

from tests.support.playback_log import PlaybackLog, sound, stories, tell
from tests.support.tracks import make_track


@stories(
    """
a seek loads the track anew without an end and a start
    playing ab; position 5000
    seek 30000: Seek 5000 30000, PlayerUpdate loading, seek 1 as 2 at 30000; at: 30000; is: loading a b; opened 2
    frame 2: PlayerUpdate playing; ends 2: TrackEnd a finished, QueueUpdate 0, PlayerUpdate loading, open 3 b

the sound after a seek may be told as a recovery too
    playing a; seek 30000
    recovered: PlayerUpdate playing

a seek behind the end ends the track, and a player without a next one stands at the end
    playing a; position 1234
    seek 90000: TrackEnd a finished, PlayerUpdate idle, drop 1; is: idle a; at: 60000

a seek while loading that proves to lead behind the end ends the track
    loading ab
    seek 90000: Seek 0 90000, seek 1 as 2 at 90000; opened 2: TrackEnd a finished, QueueUpdate 0, drop 2, open 3 b

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

a source that is lost after a seek ends as one that had sounded
    playing a track; seek 30000
    fails 2 lost: TrackException a connection_lost, TrackEnd a loadFailed, open 3 a after 1 s; at: 0
"""
)
def test_a_seek(story: str) -> None:
    tell(story)


def part_player(start_ms: int, end_ms: int | None) -> PlaybackLog:
    """A player that plays a part of a song of 60 s, as source 1."""
    log = PlaybackLog(replace(make_track("a"), start_ms=start_ms, end_ms=end_ms))
    log.do(log.playback.start_clock())
    sound(log, 1)
    return log


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


@pytest.mark.parametrize(("asked_ms", "target_ms"), [(10_005, 10_001), (15_019, 15_000), (20_009, 20_000)])
def test_a_seek_in_steps_goes_to_the_step_before_but_not_before_the_track(asked_ms: int, target_ms: int) -> None:
    log = part_player(10_001, 20_010)
    assert log.do(log.playback.seek(asked_ms, 20))[-1] == f"seek 1 as 2 at {target_ms}"


def test_a_seek_in_steps_behind_the_end_ends_the_track() -> None:
    log = part_player(10_001, 20_010)
    assert log.do(log.playback.seek(20_010, 20))[0] == "TrackEnd a finished"


def test_a_part_without_an_end_ends_with_its_file() -> None:
    log = part_player(10_000, None)
    assert log.do(log.playback.seek(60_000))[0] == "TrackEnd a finished"


def test_a_next_track_that_can_only_be_played_from_its_start_says_so_when_it_starts() -> None:
    log = part_player(0, None)
    log.do(log.playback.enqueue(replace(make_track("b"), start_ms=10_000)))
    log.do(log.playback.next_is_due())
    assert log.do(log.playback.seek_failed(2, "not_seekable")) == []
    log.do(log.playback.ended(1))
    assert log.playback.position_ms == 0
    assert log.do(log.playback.first_frame(2))[:2] == ["SeekFailed", "TrackStart b"]

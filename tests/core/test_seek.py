"""Seeking: positions are those in the file, and a track that goes on elsewhere stays the same track."""

from dataclasses import replace

import pytest

from tests.support.playback_log import PlaybackLog, sound, stories, tell
from tests.support.tracks import make_track
from tonearm.core.events import PlayerState
from tonearm.core.play_queue import LoopMode

NONE, TRACK, QUEUE = LoopMode
LOADING, PLAYING, IDLE, FAILED = PlayerState


@stories(
    """
a seek loads the track anew without an end and a start
    playing ab; position 5000
    seek 30000: Seek 5000 30000, PlayerUpdate loading, seek 1 as 2 at 30000; at: 30000; is: loading a b; opened 2
    frame 2: PlayerUpdate playing; ends 2: TrackEnd a finished, QueueUpdate 0, PlayerUpdate loading, open 3 b

the sound after a seek may be told as a recovery too
    playing a; seek 30000
    recovered: PlayerUpdate playing

of many seeks the last one counts
    playing a; seek 1000; seek 2000
    seek 3000: Seek 2000 3000, seek 3 as 4 at 3000; open: 4 a; frame 2; at: 3000

late reports about the source before the seek change nothing
    playing a; seek 30000
    ends 1; frame 1; breaks 1; is: loading a; open: 2 a

a seek while loading is kept and the track starts there
    new a
    seek 5000: Seek 0 5000, seek 1 as 2 at 5000; seek 7000: Seek 5000 7000, seek 2 as 3 at 7000; at: 7000; clock
    sounds 3: TrackStart a, PlayerUpdate playing; at: 7000

a seek while loading that proves to lead behind the end ends the track
    loading ab
    seek 90000: Seek 0 90000, seek 1 as 2 at 90000; opened 2: TrackEnd a finished, QueueUpdate 0, drop 2, open 3 b

before the clock starts a seek behind the end takes nothing from the queue
    new ab; seek 90000
    opened 2; is: loading a b; at: 90000; clock: TrackEnd a finished, QueueUpdate 0, drop 2, open 3 b

a source of unknown length may end before the target
    loading a; seek 90000; opened 2 unknown
    ends 2: TrackEnd a finished, PlayerUpdate idle

a source that proves unseekable plays from its start
    loading a; seek 5000; opened 2 unseekable
    unsought 2: SeekFailed not_seekable; at: 0; frame 2: TrackStart a, PlayerUpdate playing; unsought 1

a kept seek holds for the first entry of a playlist
    new p; seek 5000
    lists 2 xy: QueueUpdate 1, open 3 x at 5000; at: 5000

a failure that was kept is tried again by a seek
    paused ab; skip; fails 2
    seek 1000: Seek 0 1000, open 3 b at 1000; play: PlayerResume, PlayerUpdate loading

pause stays
    paused a
    seek 5000: Seek 0 5000, PlayerUpdate loading, seek 1 as 2 at 5000; is: loading paused a; wants: nothing

a stopped player starts its track there
    stopped ab
    seek 5000: Seek 0 5000, PlayerUpdate loading, open 2 a at 5000; is: loading a b
    sounds 2: TrackStart a, PlayerUpdate playing

a stopped player that is paused starts its track there
    stopped ab; pause
    seek 5000: Seek 0 5000, PlayerUpdate loading, open 2 a at 5000; is: loading paused a b

a failed player starts its track there
    failed ab
    seek 5000: Seek 0 5000, PlayerUpdate loading, open 6 a at 5000; is: loading a b

behind the end changes nothing in a stopped player
    stopped ab
    seek 60000; is: idle a b

a live stream is not sought, whether it plays or was stopped
    loading a; opened 1 station; frame 1
    seek 1000: refused NotSeekable; at: 0; open: 1 a; stop: TrackEnd Test FM stopped, PlayerUpdate idle, drop 1
    seek 1000: refused NotSeekable

nor is a file that cannot be
    loading a; opened 1 unseekable; frame 1
    seek 1000: refused NotSeekable; at: 0; open: 1 a; stop: TrackEnd a stopped, PlayerUpdate idle, drop 1
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


def test_a_part_without_an_end_ends_with_its_file() -> None:
    log = part_player(10_000, None)
    assert log.do(log.playback.seek(60_000))[0] == "TrackEnd a finished"

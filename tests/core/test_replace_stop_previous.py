"""Taking the current track's place, stopping it, and going back to what was played."""

import pytest

from tests.support.playback_log import PLAYERS, PlaybackLog, names_queued, playing_player, sound, stories, tell
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.events import PlayerState
from tonearm.core.play_queue import MAX_PLAYED, LoopMode

LOADING, PLAYING, IDLE, FAILED = PlayerState


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


@stories(
    """
more tracks come next
    playing ab
    replace xyz: TrackEnd a replaced, QueueUpdate 3, PlayerUpdate loading, drop 1, open 2 x; is: loading x yzb

a replacement just after the end of a clip sounds
    playing a; ends 1
    replace x: PlayerUpdate loading, open 2 x; ends 1; sounds 2: TrackStart x, PlayerUpdate playing

a replacement just before the end of a clip sounds
    playing a
    replace x: TrackEnd a replaced, PlayerUpdate loading, drop 1, open 2 x; ends 1
    sounds 2: TrackStart x, PlayerUpdate playing

a track enqueued to be skipped to may be what the skip ends, so a replacement is one request
    playing a; enqueue x; ends 1
    skip: TrackEnd x skipped, PlayerUpdate idle, drop 2

after a stop play repeats the track and skip starts the queue
    stopped ab
    play: PlayerUpdate loading, open 2 a; stop: TrackEnd a stopped, PlayerUpdate idle, drop 2
    skip: QueueUpdate 0, PlayerUpdate loading, open 3 b

so it does in a loop of the track
    stopped ab track
    play: PlayerUpdate loading, open 2 a; stop: TrackEnd a stopped, PlayerUpdate idle, drop 2
    skip: QueueUpdate 0, PlayerUpdate loading, open 3 b

so it does in a loop of the queue
    stopped ab queue
    play: PlayerUpdate loading, open 2 a; stop: TrackEnd a stopped, PlayerUpdate idle, drop 2
    skip: QueueUpdate 0, PlayerUpdate loading, open 3 b
"""
)
def test_replacing_and_stopping(story: str) -> None:
    tell(story)


@pytest.mark.parametrize("mode", LoopMode)
@pytest.mark.parametrize("kind", PLAYERS)
def test_a_track_takes_the_place_of_the_current_one(kind: str, mode: LoopMode) -> None:
    log = PLAYERS[kind]("ab", LoopMode.NONE)
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


@pytest.mark.parametrize("mode", LoopMode)
@pytest.mark.parametrize("kind", PLAYERS)
def test_a_stopped_player_is_idle_and_keeps_its_queue(kind: str, mode: LoopMode) -> None:
    log = PLAYERS[kind]("ab", LoopMode.NONE)
    player = log.playback
    log.do(player.set_loop(mode))
    paused = player.paused
    lines = log.do(player.stop())
    assert lines[:1] == ([] if kind == "stopped" else ["TrackEnd a stopped"])
    assert (player.current.id, names_queued(player), player.state, player.paused) == ("a", "b", IDLE, paused)
    assert log.open_sources == {}
    assert log.do(player.stop()) == []


@stories(
    """
repeats in a row are one entry
    playing ab track; ends 1; sounds 2; ends 2
    history: a finished; skip: TrackEnd a skipped, QueueUpdate 0, drop 3, open 4 b; history: a skipped

twice goes two back and the way forward is the queue
    playing abcd; ends 1; sounds 2; ends 2; sounds 3
    previous: TrackEnd c replaced, QueueUpdate 2, PlayerUpdate loading, drop 3, open 4 b; is: loading b cd
    history: a finished; previous: TrackEnd b replaced, QueueUpdate 3, drop 4, open 5 a; is: loading a bcd
    history: nothing; previous: refused NoPrevious; is: loading a bcd

what was gone back to comes again
    playing abcd; ends 1; sounds 2; ends 2; sounds 3; previous; previous; sounds 5; ends 5; sounds 6; ends 6
    is: loading c d; history: b finished, a finished

in a loop of the queue the track before leaves the queue
    playing abc queue; ends 1; sounds 2; ends 2; sounds 3; ends 3; sounds 4; ends 4
    is: loading b ca; previous: TrackEnd b replaced, QueueUpdate 2, drop 5, open 6 a; is: loading a bc
    previous: TrackEnd a replaced, QueueUpdate 2, drop 6, open 7 c; is: loading c ab

a track of a loop that was left is in the player only once
    playing abc queue; ends 1; loop none; previous
    is: loading a bc

rounds of the current track are not what came before it
    playing ab; ends 1; loop track; sounds 2; ends 2; sounds 3; ends 3; previous
    is: loading a b; history: nothing

what never sounded is passed over
    playing abc; ends 1; fails 2; sounds 3; previous
    is: loading a c; history: b loadFailed

a stopped player plays the last one again
    stopped a
    previous: PlayerUpdate loading, open 2 a; is: loading a; history: nothing

so does one whose track has ended
    playing a; ends 1
    previous: PlayerUpdate loading, open 2 a; is: loading a; history: nothing

a failed player goes back
    playing a; ends 1; enqueue x; fails 2
    previous: TrackEnd x replaced, QueueUpdate 1, PlayerUpdate loading, open 3 a; is: loading a x

a new player has nothing before
    new ab
    previous: refused NoPrevious
"""
)
def test_history_and_going_back(story: str) -> None:
    tell(story)


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


def test_the_history_has_fifty_tracks() -> None:
    log = playing_player("a")
    log.do(log.playback.enqueue(*(make_track(str(number)) for number in range(60))))
    play_through(log, 61)
    assert len(log.playback.history) == MAX_PLAYED == 50
    assert history(log)[0] == "59 finished"

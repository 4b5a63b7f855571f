"""Taking the current track's place, stopping it, and going back to what was played."""

from tests.support.playback_log import playing_player, sound, stories, tell
from tests.support.tracks import make_track


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


@stories(
    """
the newest comes first, with its time
    playing abcd; wait 1000; ends 1; sounds 2; wait 1000; skip; wait 1000; fails 3; sounds 4; wait 1000; breaks 4
    history: d loadFailed at 4000, c loadFailed unheard at 3000, b skipped at 2000, a finished at 1000

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
    is: loading a c; history: b loadFailed unheard

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


def test_the_history_has_fifty_tracks() -> None:
    log = playing_player("a")
    log.do(log.playback.enqueue(*(make_track(str(number)) for number in range(60))))
    for source in range(1, 62):
        sound(log, source)
        log.do(log.playback.ended(log.close(source)))
    assert [played.track.id for played in log.playback.history] == [str(number) for number in range(59, 9, -1)]

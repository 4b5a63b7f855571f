"""Taking the current track's place, stopping it, and going back to what was played."""

from tests.support.playback_log import playing_player, sound, stories, tell
from tests.support.tracks import make_track


@stories(
    """
the newest comes first, with its time
    playing abcd; wait 1000; ends 1; sounds 2; wait 1000; skip; wait 1000; fails 3; sounds 4; wait 1000; breaks 4
    history: d loadFailed at 4000, c loadFailed unheard at 3000, b skipped at 2000, a finished at 1000

twice goes two back and the way forward is the queue
    playing abcd; ends 1; sounds 2; ends 2; sounds 3
    previous: TrackEnd c replaced, QueueUpdate 2, PlayerUpdate loading, drop 3, open 4 b; is: loading b cd
    history: a finished; previous: TrackEnd b replaced, QueueUpdate 3, drop 4, open 5 a; is: loading a bcd
    history: nothing; previous: refused NoPrevious; is: loading a bcd

in a loop of the queue the track before leaves the queue
    playing abc queue; ends 1; sounds 2; ends 2; sounds 3; ends 3; sounds 4; ends 4
    is: loading b ca; previous: TrackEnd b replaced, QueueUpdate 2, drop 5, open 6 a; is: loading a bc
    previous: TrackEnd a replaced, QueueUpdate 2, drop 6, open 7 c; is: loading c ab

rounds of the current track are not what came before it
    playing ab; ends 1; loop track; sounds 2; ends 2; sounds 3; ends 3; previous
    is: loading a b; history: nothing

what never sounded is passed over
    playing abc; ends 1; fails 2; sounds 3; previous
    is: loading a c; history: b loadFailed unheard
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

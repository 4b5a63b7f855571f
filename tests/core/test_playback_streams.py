"""Streams without an end: their titles, and stalls in mid-track."""

from tests.support.playback_log import FACTS, playing_player, stories, tell
from tonearm.core.events import StreamTitle, TrackStuck
from tonearm.core.track_info import SourceFacts


@stories(
    """
a title is an event when it is another one, and shown from then on
    loading a; opened 1 station; frame 1
    titled 1 One: StreamTitle; title: One; titled 1 One; titled 1 Two: StreamTitle; titled 1 One: StreamTitle
    skip: TrackEnd One skipped, PlayerUpdate idle, drop 1

a source that is opened again keeps its last title
    loading a; opened 1 station; frame 1; titled 1 One
    opened 1 station; title: One; titled 1 One

a title of a source that is not current changes nothing
    playing ab; due
    titled 2 One; titled 77 One; title: a

a stall is told as stuck, and a pause does not end it
    playing ab
    awaits: nothing; underrun: PlayerUpdate loading; awaits: 1 in mid track; stuck 1: TrackStuck a
    pause: PlayerPause, PlayerUpdate loading; awaits: 1 in mid track; play: PlayerResume, PlayerUpdate loading
    recovered: PlayerUpdate playing; awaits: nothing; stuck 1

a track that is stuck for too long fails and the time of the next one begins
    playing ab; underrun
    fails 1 silent: TrackException a timeout, TrackEnd a loadFailed, QueueUpdate 0, open 2 b; awaits: 2

a track is awaited from its turn to its first frame
    new a
    is: loading a; awaits: nothing; clock; awaits: 1; stuck 1: TrackStuck a
    frame 1: TrackStart a, PlayerUpdate playing; awaits: nothing

a failure that is kept until the pause ends is no stall
    loading a; pause; fails 1 lost
    awaits: nothing

a station that is lost is interrupted
    loading ab; opened 1 station
    frame 1: TrackStart Test FM, PlayerUpdate playing
    breaks 1: TrackException Test FM connection_lost, TrackEnd Test FM loadFailed, QueueUpdate 0,
        PlayerUpdate loading, open 2 b
    is: loading b
"""
)
def test_streams(story: str) -> None:
    tell(story)


def test_a_station_stands_for_author_and_unknown_title() -> None:
    log = playing_player("a")
    log.do(log.playback.opened(1, FACTS["station"]))
    info = log.playback.current.info
    assert (info.author, info.title, info.is_stream, info.is_seekable) == ("Test FM", "Test FM", True, False)
    assert SourceFacts(title="Known", author="Band").of_station("Test FM").title == "Known"


def test_what_is_told_of_a_title_and_of_a_stall() -> None:
    log = playing_player("a")
    log.do(log.playback.retitled(1, "Band - Song"))
    log.do(log.playback.underrun())
    log.do(log.playback.stuck(1, 10_000, "connecting again"))
    stuck = TrackStuck(log.playback.current, {}, 0, 10_000, "connecting again")
    assert [event for event in log.events if isinstance(event, StreamTitle | TrackStuck)] == [
        *(StreamTitle("a", "Band - Song"), stuck)
    ]

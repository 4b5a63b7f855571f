"""Editing the queue where `test_playback_model` does not: what is refused, and what plays next for it."""

import pytest

from tests.support.playback_log import PlaybackLog, names_queued, playing_player, stories, tell
from tests.support.tracks import make_track
from tonearm.core.errors import BadRequest, LimitReached


@pytest.mark.parametrize("index", [-1, -(10**30)])
def test_a_negative_index_is_refused(index: int) -> None:
    log = playing_player("abc")
    with pytest.raises(BadRequest, match="`index`"):
        log.playback.enqueue(make_track("x"), index=index)
    with pytest.raises(BadRequest, match="`index`"):
        log.playback.move("b", index)
    assert names_queued(log.playback) == "bc"


def test_too_many_at_once_are_refused_as_a_whole() -> None:
    log = PlaybackLog(make_track("a"), max_waiting_tracks=2)
    with pytest.raises(LimitReached, match=r"player\.max_waiting_tracks"):
        log.playback.enqueue(*map(make_track, "xyz"), index=0)
    assert log.playback.queue_length == 0
    log.do(log.playback.enqueue(*map(make_track, "xy")))
    with pytest.raises(LimitReached):
        log.playback.replace(make_track("z"), make_track("w"))
    assert (log.playback.current.id, names_queued(log.playback)) == ("a", "xy")


@stories(
    """
a failed player goes on with the front of its queue
    failed ab
    enqueue x 0: PlayerUpdate loading, open 6 x; is: loading x b

what never gave audio is not brought back by skip to
    failed abc; loop queue
    skip c: TrackEnd a skipped, QueueUpdate 1, PlayerUpdate loading, open 6 c; is: loading c b
"""
)
def test_what_plays_next(story: str) -> None:
    tell(story)

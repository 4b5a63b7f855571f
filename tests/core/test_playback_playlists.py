"""A track that turns out to be a playlist: its entries take its place, and no event names the playlist itself."""

from tests.support.playback_log import PlaybackLog, entries, names_queued, stories, tell
from tests.support.tracks import make_track
from tonearm.core.playback import Playback


@stories(
    """
a playlist opened ahead gives its place in the queue
    playing apb; due
    lists 2 xy: QueueUpdate 3, open 3 x; is: playing a xyb; ahead: 3; opened 3: QueueDetails
    ends 1: TrackEnd a finished, QueueUpdate 2; frame 3: TrackStart x

a looped track that is a playlist when it is opened again is left as it is until its turn
    playing a track; due
    lists 2 xy
    ends 1: TrackEnd a finished, TrackException a not_audio, TrackEnd a loadFailed, PlayerUpdate loading,
        open 3 a after 1 s
    lists 3 xy: QueueUpdate 1, open 4 x

so it is in a loop of the queue
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

an answer that comes after a failure changes nothing
    new pa; fails 1
    lists 1 xy; is: loading p a
"""
)
def test_playlists(story: str) -> None:
    tell(story)


def test_entries_share_the_playlists_metadata_and_are_left_out_when_it_is_too_much_for_all() -> None:
    playlist = make_track("a", {"x": "y" * 1000})
    playback = Playback("p", playlist, {}, max_waiting_bytes=3 * (playlist.waiting_bytes + 10))
    playback.begin()
    playback.start_clock()
    playback.expanded(1, tuple(make_track(name) for name in "bcdefgh"))
    assert [playback.current.id, *(track.id for track in playback.queue)] == ["b", "c", "d", "e"]
    assert all(track.metadata == playlist.metadata for track in playback.queue)


def test_entries_that_would_make_the_queue_too_long_are_left_out() -> None:
    log = PlaybackLog(make_track("p"), max_waiting_tracks=3)
    player = log.playback
    log.do(player.enqueue(make_track("a")))
    log.do(player.expanded(log.close(1), entries("uvwxyz")))
    assert (player.current.id, names_queued(player)) == ("u", "vwa")
    log = PlaybackLog(make_track("a"), max_waiting_tracks=3)
    player = log.playback
    log.do(player.enqueue(make_track("p"), make_track("b")))
    log.do(player.next_is_due())
    log.do(player.expanded(log.close(2), entries("uvwxyz")))
    assert names_queued(player) == "uvb"

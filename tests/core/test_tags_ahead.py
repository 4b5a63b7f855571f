"""Which waiting tracks are read ahead, and what becomes of what was read."""

from dataclasses import replace

import pytest

from tests.support.tracks import make_track
from tonearm.core.events import QueueDetails
from tonearm.core.play_queue import PlaylistEntry
from tonearm.core.playback import Playback
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

FACTS = SourceFacts(length_ms=5000, is_seekable=True, title="Title", author="Author", is_length_exact=True)


def playing(*waiting: Track) -> Playback:
    playback = Playback("p", make_track("now"), {})
    playback.begin()
    if waiting:
        playback.enqueue(*waiting)
    return playback


def of_known_length(name: str) -> Track:
    track = make_track(name)
    return replace(track, info=replace(track.info, length_ms=1000))


def unread(playback: Playback, depth: int = 5) -> str | None:
    track = playback.unread_track(depth)
    return None if track is None else track.id


@pytest.mark.parametrize(
    ("waiting", "depth", "first"),
    [
        ((), 5, None),
        ((make_track("a"), make_track("b")), 5, "a"),
        ((make_track("a"),), 0, None),
        ((of_known_length("a"), make_track("b")), 5, "b"),
        ((of_known_length("a"), make_track("b")), 1, None),
    ],
)
def test_the_first_of_the_next_ones_of_which_nothing_is_known(
    waiting: tuple[Track, ...], depth: int, first: str | None
) -> None:
    assert unread(playing(*waiting), depth) == first


def test_each_is_read_once_whether_it_could_be_or_not() -> None:
    playback = playing(make_track("a"), make_track("b"), make_track("c"))
    assert playback.tags_read("a", FACTS).events == (QueueDetails(("a",)),)
    assert unread(playback) == "b"
    assert playback.tags_read("b", None).events == ()
    assert unread(playback) == "c"
    first, second, _ = playback.queue
    assert (first.info.title, first.info.author, first.info.length_ms) == ("Title", "Author", 5000)
    assert (second.info.title, second.info.length_ms) == ("b", 0)
    playback.move("c", 0)
    assert unread(playback) == "c"


def test_what_was_read_is_not_believed_when_it_plays() -> None:
    playback = playing(make_track("a"))
    playback.tags_read("a", FACTS)
    (track,) = playback.queue
    assert (track.is_known, track.known_end_ms, track.is_unseekable) == (False, None, False)
    assert not track.info.is_length_exact
    playback.skip()
    assert playback.current.info.length_ms == 5000
    source = playback.current_source
    assert source is not None
    playback.opened(source, replace(FACTS, length_ms=4000))
    assert (playback.current.info.length_ms, playback.current.known_end_ms) == (4000, 4000)


def test_what_left_the_queue_or_is_being_opened_is_left_alone() -> None:
    playback = playing(make_track("a"), make_track("b"))
    playback.next_is_due()
    assert unread(playback) == "b"
    playback.remove("b")
    playback.tags_read("b", FACTS)
    playback.tags_read("now", FACTS)
    assert unread(playback) is None
    assert playback.current.info.title == "now"


def test_it_is_no_change_of_the_player() -> None:
    playback = playing(make_track("a"))
    version = playback.queue_version
    playback.tags_read("a", FACTS)
    assert playback.queue_version == version
    assert playback.set_loop(playback.loop_mode).events == ()


def test_what_a_playlist_says_of_a_file_is_shown_until_its_tags_are_read() -> None:
    entry = PlaylistEntry(make_track("a").uri, "Them - Song", length_ms=4000, has_own_tags=True)
    playback = playing(entry.track("a", b"{}"))
    assert playback.queue[0].info.length_ms == 4000
    assert unread(playback) == "a"
    playback.tags_read("a", FACTS)
    (waiting,) = playback.queue
    assert (waiting.info.title, waiting.info.author, waiting.info.length_ms) == ("Title", "Author", 5000)
    assert unread(playback) is None


def test_names_from_a_playlist_stay() -> None:
    playback = playing(PlaylistEntry(make_track("a").uri, "Part", "Them", is_part=True).track("a", b"{}"))
    playback.tags_read("a", FACTS)
    (waiting,) = playback.queue
    assert (waiting.info.title, waiting.info.author, waiting.info.length_ms) == ("Part", "Them", 5000)


def test_what_is_opened_to_be_played_next_shows_its_title_while_it_waits() -> None:
    playback = playing(make_track("a"), make_track("b"))
    playback.next_is_due()
    assert playback.has_unread(1)
    source = playback.next_source
    assert source is not None
    assert playback.opened(source, FACTS).events == (QueueDetails(("a",)),)
    assert not playback.has_unread(1)
    assert playback.has_unread(1, first=1)
    assert playback.unread_track(5, first=2) is None

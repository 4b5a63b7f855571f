"""Which waiting tracks are read ahead, and what becomes of what was read."""

from dataclasses import replace

import pytest

from tests.support.tracks import FILE_MISSING, make_track
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


def tracks(names: str) -> list[Track]:
    """Of those with a great letter the length is known."""
    made = [make_track(name.lower()) for name in names]
    return [
        replace(track, info=replace(track.info, length_ms=1000)) if name.isupper() else track
        for name, track in zip(names, made, strict=True)
    ]


def unread(playback: Playback, depth: int = 5) -> str | None:
    track = playback.unread_track(depth)
    return None if track is None else track.id


def shown(track: Track) -> tuple[str, str, int]:
    return track.info.title, track.info.author, track.info.length_ms


@pytest.mark.parametrize(
    ("waiting", "depth", "first"),
    [("", 5, None), ("ab", 5, "a"), ("a", 0, None), ("Ab", 5, "b"), ("Ab", 1, None)],
)
def test_the_first_of_the_next_ones_of_which_nothing_is_known(waiting: str, depth: int, first: str | None) -> None:
    assert unread(playing(*tracks(waiting)), depth) == first


def test_each_is_read_once_whether_it_could_be_or_not_and_that_is_no_change_of_the_player() -> None:
    playback = playing(*tracks("abc"))
    version = playback.queue_version
    assert playback.tags_read("a", FACTS).events == (QueueDetails(("a",)),)
    assert unread(playback) == "b"
    assert playback.tags_read("b", None).events == ()
    assert unread(playback) == "c"
    assert [shown(track) for track in playback.queue] == [("Title", "Author", 5000), ("b", "", 0), ("c", "", 0)]
    assert playback.queue_version == version
    assert playback.set_loop(playback.loop_mode).events == ()
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


def test_what_is_opened_to_be_played_next_shows_its_title_and_what_left_the_queue_is_left_alone() -> None:
    playback = playing(*tracks("ab"))
    playback.next_is_due()
    assert unread(playback) == "b"
    assert playback.has_unread(1)
    source = playback.next_source
    assert source is not None
    assert playback.opened(source, FACTS).events == (QueueDetails(("a",)),)
    assert not playback.has_unread(1)
    assert playback.has_unread(1, first=1)
    assert playback.unread_track(5, first=2) is None
    playback.remove("b")
    playback.tags_read("b", FACTS)
    playback.tags_read("now", FACTS)
    assert unread(playback) is None
    assert playback.current.info.title == "now"


def test_what_could_not_be_opened_to_be_played_next_is_waited_for_no_longer() -> None:
    playback = playing(*tracks("ab"))
    playback.next_is_due()
    assert playback.next_source is not None
    playback.failed(playback.next_source, FILE_MISSING)
    assert not playback.has_unread(1)
    assert playback.has_unread(2)


def test_what_a_playlist_says_of_a_file_is_shown_until_its_tags_are_read_but_names_of_a_part_stay() -> None:
    uri, read = make_track("a").uri, ("Title", "Author", 5000)
    of_file = PlaylistEntry(uri, "Them - Song", length_ms=4000, has_own_tags=True), ("Them - Song", "", 4000), read
    of_part = PlaylistEntry(uri, "Part", "Them", is_part=True), ("Part", "Them", 0), ("Part", "Them", 5000)
    for entry, before, after in (of_file, of_part):
        playback = playing(entry.track("a", b"{}"))
        assert (unread(playback), shown(playback.queue[0])) == ("a", before)
        playback.tags_read("a", FACTS)
        assert (unread(playback), shown(playback.queue[0])) == (None, after)

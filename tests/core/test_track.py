from tests.support.tracks import make_track
from tonearm.core.track_info import SourceFacts


def test_a_track_shows_its_own_metadata_else_the_players() -> None:
    assert make_track("a", {"own": 1}).user_data({"player": 2}) == {"own": 1}
    assert make_track("a").user_data({"player": 2}) == {"player": 2}
    assert make_track("a", []).user_data({"player": 2}) == []


def test_a_track_shows_the_facts_of_its_opened_source() -> None:
    track = make_track("a").with_facts(SourceFacts(5000, is_seekable=True, author="Band", probe_name="mp3"))
    assert (track.info.title, track.info.author, track.info.length_ms) == ("a", "Band", 5000)
    assert track.with_facts(SourceFacts(title="Song")).info.title == "Song"

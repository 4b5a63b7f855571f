from tests.support.tracks import make_track
from tonearm.core.track_codec import decode_track
from tonearm.core.track_info import SourceFacts


def test_a_track_shows_its_own_metadata_else_the_players() -> None:
    assert make_track("a", {"own": 1}).as_json({"player": 2})["userData"] == {"own": 1}
    assert make_track("a").as_json({"player": 2})["userData"] == {"player": 2}
    assert make_track("a", []).as_json({"player": 2})["userData"] == []


def test_opening_a_source_tells_the_truth_about_it() -> None:
    track = make_track("a").with_facts(SourceFacts(5000, is_seekable=True, author="Band", probe_name="mp3"))
    assert decode_track(track.encoded) == track.info
    assert (track.info.title, track.info.author, track.info.length_ms) == ("a", "Band", 5000)
    assert track.with_facts(SourceFacts(title="Song")).info.title == "Song"


def test_the_whole_of_a_track_out() -> None:
    body = make_track("a").as_json({}, position_ms=20)
    assert set(body) == {"encoded", "info", "pluginInfo", "userData"}
    assert body["info"] == {
        "identifier": "http://radio.example/a.mp3",
        "isSeekable": False,
        "author": "",
        "length": 0,
        "isStream": False,
        "position": 20,
        "title": "a",
        "uri": "http://radio.example/a.mp3",
        "artworkUrl": None,
        "isrc": None,
        "sourceName": "http",
    }

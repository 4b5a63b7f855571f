from tests.support.tracks import make_track


def test_a_track_shows_its_own_metadata_else_the_players() -> None:
    assert make_track("a", {"own": 1}).user_data({"player": 2}) == {"own": 1}
    assert make_track("a").user_data({"player": 2}) == {"player": 2}
    assert make_track("a", []).user_data({"player": 2}) == []

"""What is shown of a player's events."""

import pytest

from tests.support.listened_node import event, track
from tonearm.listen.display import PlayerView


def test_the_snapshot_tells_everything() -> None:
    view = PlayerView()
    view.take(event("PlayerState", state="playing", paused=True, position=1500, track=track("Song", "Someone", 9000)))
    assert (view.state, view.paused, view.position_ms) == ("playing", True, 1500)
    assert (view.title, view.length_ms, view.is_stream) == ("Someone - Song", 9000, False)


def test_frames_move_the_position_between_updates() -> None:
    view = PlayerView()
    view.take(event("TrackStart", track=track("Song"), uri="x"))
    for _ in range(50):
        view.frame_heard()
    assert view.position_ms == 1000
    view.take(event("PlayerUpdate", state="playing", paused=False, position=5000))
    assert view.position_ms == 5000


def test_radio_titles_take_the_place_of_the_track_s() -> None:
    view = PlayerView()
    view.take(event("TrackStart", track=track("Station", is_stream=True), uri="x"))
    view.take(event("StreamTitle", title="Now on air"))
    assert (view.title, view.is_stream) == ("Now on air", True)


def test_pause_and_resume_and_ends_are_breaks_but_updates_while_playing_are_not() -> None:
    view = PlayerView()
    view.take(event("PlayerUpdate", state="playing", paused=False, position=0))
    assert view.take(event("PlayerPause")) == (True, None)
    assert view.paused
    assert view.take(event("PlayerResume")) == (True, None)
    assert not view.paused
    assert view.take(event("PlayerUpdate", state="playing", paused=False, position=0)) == (False, None)
    assert view.take(event("PlayerUpdate", state="loading", paused=False, position=0)) == (True, None)


def test_starts_are_worth_a_line_and_what_is_over_is_not_shown_any_more() -> None:
    view = PlayerView()
    started = event("TrackStart", track=track("Song", "Singer", length_ms=9_000), position=0)
    assert view.take(started)[1] == "track starts: Singer - Song"
    assert (view.title, view.length_ms) == ("Singer - Song", 9_000)
    long = event("TrackStart", track=track("A title as recordings of live concerts have it " * 3, "Singer"), position=0)
    sentence = view.take(long)[1] or ""
    assert sentence.startswith("track starts: Singer - A title as")
    assert (len(sentence), sentence[-3:]) == (79, "...")
    view.take(event("TrackEnd", track=track("Song", "Singer"), reason="loadFailed"))
    assert (view.title, view.length_ms) == ("", 0)


def test_ends_and_failures_are_worth_a_line() -> None:
    view = PlayerView()
    hinted = event("TrackException", track=track("a"), error={"message": "It is none.", "hint": "Check it."})
    assert view.take(hinted)[1] == "track failed: It is none. Check it."
    assert view.take(event("TrackEnd", track=track("a"), reason="skipped"))[1] == "track ended: skipped"
    failed = event("TrackException", track=track("a"), error={"message": "No such file."})
    assert view.take(failed)[1] == "track failed: No such file."


def test_what_is_not_understood_is_passed_over() -> None:
    view = PlayerView()
    for text in ("", "[1]", "7", event("Later"), event("TrackStart", track=None), event("PlayerUpdate", position="x")):
        view.take(text)
    assert view.position_ms == 0


def test_a_seek_moves_the_position_and_breaks_the_flow() -> None:
    view = PlayerView()
    view.take(event("TrackStart", track=track("a"), uri="x", position=1000))
    assert view.position_ms == 1000
    assert view.take(event("Seek", position=12_500, **{"from": 1000})) == (True, "sought to 12.5 s")
    assert view.position_ms == 12_500
    assert view.take(event("SeekFailed", code="not_seekable", position=0))[1] is not None
    assert view.position_ms == 0
    assert view.take(event("QueueUpdate", length=3, version=7)) == (False, "3 in the queue")


COMPRESSOR = {"thresholdDb": -20}


@pytest.mark.parametrize(
    ("filters", "ceiling_db"),
    [
        ({"limiter": {"ceilingDb": -1, "enabled": "auto"}}, None),
        ({"limiter": {"ceilingDb": -1, "enabled": "auto"}, "compressor": COMPRESSOR}, -1.0),
        ({"limiter": {"ceilingDb": -1, "enabled": False}, "compressor": COMPRESSOR}, None),
        ({"limiter": {"ceilingDb": -2.5, "enabled": True}, "compressor": None}, -2.5),
        ({"limiter": {"ceilingDb": -2.5, "enabled": "auto"}, "normalization": {"mode": "track"}}, -2.5),
        ({"limiter": {"ceilingDb": -2.5, "enabled": "auto"}, "normalization": {"mode": "off"}}, None),
        ({"limiter": None, "compressor": COMPRESSOR}, None),
        ({"limiter": 7}, None),
        ({}, None),
    ],
)
def test_the_limiter_is_shown_while_the_filters_have_it_on(
    filters: dict[str, object], ceiling_db: float | None
) -> None:
    view = PlayerView()
    view.take(event("PlayerState", state="playing", position=0, track=track("a"), **filters))
    assert view.ceiling_db == ceiling_db
    view.take(event("FiltersChange", filters={}))
    assert view.ceiling_db is None
    view.take(event("FiltersChange", filters=filters))
    assert view.ceiling_db == ceiling_db
    view.take(event("FiltersChange", filters=None))
    assert view.ceiling_db is None


AUTO = {"limiter": {"ceilingDb": -1, "enabled": "auto"}}


def test_an_overlay_is_counted_and_brings_the_limiter_while_it_sounds() -> None:
    view = PlayerView()
    view.take(event("PlayerState", state="playing", position=0, track=track("a"), overlays=[], **AUTO))
    assert (view.overlays, view.ceiling_db) == (0, None)
    assert view.take(event("OverlayStart", overlayId="jingle")) == (False, "an overlay begins")
    assert (view.overlays, view.ceiling_db) == (1, -1.0)
    view.take(event("FiltersChange", filters=AUTO))
    assert (view.overlays, view.ceiling_db) == (1, -1.0)
    assert view.take(event("OverlayException", overlayId="jingle", error={"message": "It is damaged."})) == (
        False,
        "overlay failed: It is damaged.",
    )
    assert view.take(event("OverlayEnd", overlayId="jingle", reason="finished")) == (False, "overlay ended: finished")
    assert (view.overlays, view.ceiling_db) == (0, None)


def test_the_snapshot_s_overlays_count_when_they_sound() -> None:
    view = PlayerView()
    overlays = [{"overlayId": "a", "state": "playing"}, {"overlayId": "b", "state": "loading"}, 7]
    view.take(event("PlayerState", state="playing", position=0, track=track("a"), overlays=overlays, **AUTO))
    assert (view.overlays, view.ceiling_db) == (1, -1.0)
    view.take(event("PlayerState", state="playing", position=0, track=track("a"), overlays=None, **AUTO))
    assert (view.overlays, view.ceiling_db) == (0, None)

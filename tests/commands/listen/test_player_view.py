"""What is shown of a player's events."""

import pytest

from tests.support.listened_node import seen, track
from tests.support.tracks import FILE_MISSING
from tonearm.commands.listen_display import PlayerView
from tonearm.protocol.rendering import failure_out


def test_the_snapshot_tells_everything() -> None:
    view = PlayerView()
    view.follow(seen("PlayerState", state="playing", paused=True, position=1500, track=track("Song", "Someone", 9000)))
    assert (view.state, view.paused, view.position_ms) == ("playing", True, 1500)
    assert (view.title, view.length_ms, view.is_stream) == ("Song - Someone", 9000, False)


def test_the_position_goes_on_between_updates() -> None:
    now_s = 7.0
    view = PlayerView(lambda: now_s)
    view.follow(seen("TrackStart", track=track("Song"), uri="x"))
    view.follow(seen("PlayerUpdate", state="playing", paused=False, positionRate=1.0))
    now_s = 8.0
    assert view.position_ms == 1000
    view.follow(seen("PlayerUpdate", state="playing", paused=False, position=5000, positionRate=1.0))
    assert view.position_ms == 5000


def test_radio_titles_take_the_place_of_the_track_s() -> None:
    view = PlayerView()
    view.follow(seen("TrackStart", track=track("Station", is_stream=True), uri="x"))
    view.follow(seen("StreamTitle", title="Now on air"))
    assert (view.title, view.is_stream) == ("Now on air", True)


def test_pause_and_resume_and_ends_are_breaks_but_updates_while_playing_are_not() -> None:
    view = PlayerView()
    view.follow(seen("PlayerUpdate", state="playing", paused=False, positionRate=1.0))
    assert view.follow(seen("PlayerPause")) == (True, None)
    assert view.paused
    assert view.follow(seen("PlayerResume")) == (True, None)
    assert not view.paused
    assert view.follow(seen("PlayerUpdate", state="playing", paused=False, positionRate=1.0)) == (False, None)
    assert view.follow(seen("PlayerUpdate", state="loading", paused=False, positionRate=1.0)) == (True, None)


def test_starts_are_worth_a_line_and_what_is_over_is_not_shown_any_more() -> None:
    view = PlayerView()
    started = seen("TrackStart", track=track("Song", "Singer", length_ms=9_000), position=0)
    assert view.follow(started)[1] == "track starts: Song - Singer"
    assert (view.title, view.length_ms) == ("Song - Singer", 9_000)
    long = seen("TrackStart", track=track("A title as recordings of live concerts have it " * 3, "Singer"), position=0)
    sentence = view.follow(long)[1] or ""
    assert sentence.startswith("track starts: A title as")
    assert (len(sentence), sentence[-3:]) == (79, "...")
    view.follow(seen("TrackEnd", track=track("Song", "Singer"), reason="loadFailed", playedMs=0))
    assert (view.title, view.length_ms) == ("", 0)


def test_ends_and_failures_are_worth_a_line() -> None:
    view = PlayerView()
    hinted = seen("TrackException", track=track("a"), error=failure_out(FILE_MISSING))
    assert view.follow(hinted)[1] == "track failed: There is no such file. Check the path."
    assert view.follow(seen("TrackEnd", track=track("a"), reason="skipped", playedMs=0))[1] == "track ended: skipped"


def test_a_seek_moves_the_position_and_breaks_the_flow() -> None:
    view = PlayerView()
    view.follow(seen("TrackStart", track=track("a"), uri="x", position=1000))
    assert view.position_ms == 1000
    assert view.follow(seen("Seek", position=12_500, **{"from": 1000})) == (True, "sought to 12.5 s")
    assert view.position_ms == 12_500
    assert view.follow(seen("SeekFailed", code="not_seekable", position=0))[1] is not None
    assert view.position_ms == 0
    assert view.follow(seen("QueueUpdate", length=3, version=7)) == (False, "3 in the queue")


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
        ({}, None),
    ],
)
def test_the_limiter_is_shown_while_the_filters_have_it_on(
    filters: dict[str, object], ceiling_db: float | None
) -> None:
    view = PlayerView()
    view.follow(seen("PlayerState", state="playing", position=0, track=track("a"), **filters))
    assert view.ceiling_db == ceiling_db
    view.follow(seen("FiltersChange", filters={}))
    assert view.ceiling_db is None
    view.follow(seen("FiltersChange", filters=filters))
    assert view.ceiling_db == ceiling_db
    view.follow(seen("FiltersChange", filters={"limiter": None}))
    assert view.ceiling_db is None


AUTO = {"limiter": {"ceilingDb": -1, "enabled": "auto"}}


def test_an_overlay_is_counted_and_brings_the_limiter_while_it_sounds() -> None:
    view = PlayerView()
    view.follow(seen("PlayerState", state="playing", position=0, track=track("a"), overlays=[], **AUTO))
    assert (view.overlays, view.ceiling_db) == (0, None)
    assert view.follow(seen("OverlayStart", overlayId="jingle")) == (False, "an overlay begins")
    assert (view.overlays, view.ceiling_db) == (1, -1.0)
    view.follow(seen("FiltersChange", filters=AUTO))
    assert (view.overlays, view.ceiling_db) == (1, -1.0)
    assert view.follow(seen("OverlayException", overlayId="jingle", error=failure_out(FILE_MISSING))) == (
        False,
        "overlay failed: There is no such file. Check the path.",
    )
    assert view.follow(seen("OverlayEnd", overlayId="jingle", reason="finished")) == (False, "overlay ended: finished")
    assert (view.overlays, view.ceiling_db) == (0, None)


def overlay(overlay_id: str, state: str) -> dict[str, object]:
    numbers = dict.fromkeys(("position", "length", "duckDb", "fadeMs", "startMs"), 0)
    return {"overlayId": overlay_id, "uri": "jingle.wav", "state": state, "volume": 1, **numbers}


def test_the_snapshot_s_overlays_count_when_they_sound() -> None:
    view = PlayerView()
    overlays = [overlay("a", "playing"), overlay("b", "loading")]
    view.follow(seen("PlayerState", state="playing", position=0, track=track("a"), overlays=overlays, **AUTO))
    assert (view.overlays, view.ceiling_db) == (1, -1.0)
    view.follow(seen("PlayerState", state="playing", position=0, track=track("a"), overlays=[], **AUTO))
    assert (view.overlays, view.ceiling_db) == (0, None)

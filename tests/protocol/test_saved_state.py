"""A player's state as it is saved: a track leads to the same sound when it is read again."""

import pytest

from tonearm.core.play_queue import QueuedTrack
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track import Track
from tonearm.protocol.saved_state import SavedTrack, saved_track_out


@pytest.mark.parametrize("text", ["film.mkv#t=1,2&audio=de", "/m/film.mkv#audio=2", "http://h.example/a.mkv?x#audio=2"])
def test_a_track_read_again(text: str) -> None:
    uri = parse_source_uri(text).absolute("/m")
    saved = saved_track_out(QueuedTrack(Track.create("t", uri, b"{}")))
    again = SavedTrack.model_validate(saved).as_queued(came_through_proxy=False).track.uri
    assert again.given == text
    assert (again.normalised, again.audio, again.start_ms, again.end_ms) == (
        *(uri.normalised, uri.audio, uri.start_ms, uri.end_ms),
    )

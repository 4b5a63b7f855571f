"""A player's state as it is saved: a track leads to the same sound when it is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonearm.core.play_queue import QueuedTrack
from tonearm.core.policy import SourcePolicy
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track import Track
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import TrackInfo
from tonearm.node.tracks import TrackMaker, WantedTrack
from tonearm.protocol.saved_state import SavedTrack, saved_track_out
from tonearm.sources.opener import SourceOpener

# Texts as long as an encoded track holds, without many examples of a long one.
TEXTS = st.builds(str.__mul__, st.text(st.characters(codec="utf-8"), max_size=9), st.sampled_from([1, 300, 5_000]))
LONG_PATH = "/".join(["\N{GRINNING FACE}" * 63] * 64)


@pytest.mark.parametrize(
    "text", ["film.mkv#t=1,2&audio=de", "/m/film.mkv#audio=2", "http://h.example/a.mkv?x#audio=2", LONG_PATH]
)
def test_a_track_read_again(text: str) -> None:
    uri = parse_source_uri(text).absolute("/m" * 2_047)
    saved = saved_track_out(QueuedTrack(Track.create("t", uri, b"{}")))
    again = SavedTrack.model_validate(saved).as_queued(came_through_proxy=False).track.uri
    assert again.given == text
    assert (again.normalised, again.audio, again.start_ms, again.end_ms) == (
        *(uri.normalised, uri.audio, uri.start_ms, uri.end_ms),
    )


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_any_track_that_a_client_adds_can_be_read_again(title: str, author: str, isrc: str, artwork_url: str) -> None:
    info = TrackInfo("a.mp3", "a.mp3", title, author, 5, artwork_url=artwork_url, isrc=isrc)
    maker = TrackMaker(SourceOpener(SourcePolicy(), private_networks=True), max_metadata_bytes=100)
    made = maker.make(maker.check(WantedTrack(None, encoded=encode_track(info))))
    again = SavedTrack.model_validate(saved_track_out(QueuedTrack(made))).as_queued().track
    assert (again.info, again.uri) == (made.info, made.uri)

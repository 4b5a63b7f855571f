"""A player's state as it is saved: a track leads to the same sound when it is read again."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from tests.support.fetching import opener
from tests.support.tracks import make_track
from tonearm.core.play_queue import QueuedTrack
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track import Track
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import MAX_LENGTH_MS, SourceFacts, TrackInfo
from tonearm.decoder.message_coding import BrokenMessage, MessageSplitter, pack
from tonearm.decoder.messages import Opened
from tonearm.node.tracks import TrackMaker, WantedTrack
from tonearm.protocol.saved_state import SavedTrack, saved_track_out
from tonearm.protocol.wire_model import json_text

LONG_PATH: Final = "/".join(["\N{GRINNING FACE}" * 63] * 64)


def test_a_track_read_again() -> None:
    for text in ("film.mkv#t=1,2&audio=de", "/m/film.mkv#audio=2", "http://h.example/a.mkv?x#audio=2", LONG_PATH):
        uri = parse_source_uri(text).absolute("/m" * 2_047)
        saved = saved_track_out(QueuedTrack(Track.create("t", uri, b"{}")))
        again = SavedTrack.model_validate(saved).as_queued(came_through_proxy=False).track.uri
        assert again.given == text
        assert (again.normalised, again.audio, again.start_ms, again.end_ms) == (
            *(uri.normalised, uri.audio, uri.start_ms, uri.end_ms),
        )


TEXTS: Final = st.builds(
    str.__mul__, st.sampled_from(["a", "\0", "ü", "🧀"]), st.sampled_from([0, 1, 1000, 1001, 9000])
)
LENGTHS: Final = st.sampled_from([0, 1, MAX_LENGTH_MS, MAX_LENGTH_MS + 1, 2**63 - 1])


def read_again(track: Track) -> Track:
    return SavedTrack.model_validate_json(json_text(saved_track_out(QueuedTrack(track)))).as_queued().track


async def test_a_track_of_any_encoded_identifier_is_read_again() -> None:
    uri = "http://h.example/a.mp3"
    async with opener() as source_opener:
        maker = TrackMaker(source_opener, 1000)

        @given(st.builds(TrackInfo, st.just(uri), st.just(uri), TEXTS, TEXTS, LENGTHS, artwork_url=TEXTS, isrc=TEXTS))
        def is_read_again(info: TrackInfo) -> None:
            track = maker.make(maker.check(WantedTrack(None, encoded=encode_track(info))))
            assert read_again(track) == track

        is_read_again()


@given(st.builds(SourceFacts, LENGTHS, title=TEXTS, author=TEXTS, isrc=TEXTS, artwork_url=TEXTS, probe_name=TEXTS))
def test_a_track_with_any_facts_of_a_decoder_is_read_again(facts: SourceFacts) -> None:
    try:
        (opened,) = MessageSplitter().feed(pack(Opened(1, 2, facts)))
    except BrokenMessage:
        return
    assert isinstance(opened, Opened)
    track = make_track("a").with_facts(opened.facts)
    assert read_again(track) == track

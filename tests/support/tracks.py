"""Tracks and failures for tests of the rules."""

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.json_value import Json
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track import Track

FILE_MISSING = PlayFailure(FailureCode.FILE_MISSING, Stage.CONNECT, "There is no such file.", "Check the path.")
CONNECTION_LOST = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The connection broke.", "Try again later.")


def make_track(name: str, metadata: Json | None = None, *, is_playlist_entry: bool = False) -> Track:
    """A track with the id `name`, as it is before its source was opened."""
    uri = parse_source_uri(f"http://radio.example/{name}.mp3")
    return Track.create(name, uri, {} if metadata is None else metadata, is_playlist_entry=is_playlist_entry)

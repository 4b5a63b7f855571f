"""A track: its source, and the facts about it before and after the source is opened."""

from dataclasses import dataclass, replace

from tonearm.core.json_value import Json, JsonObject
from tonearm.core.source_uri import SourceUri, initial_track_info
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import SourceFacts, TrackInfo


@dataclass(frozen=True, slots=True)
class Track:
    """One entry of a player: a source with its id and the client's own metadata.

    `uri` is what the client gave, which is what is opened each time: what a page led to before may have expired.
    `encoded` is computed once, because lists of players and events repeat it. An entry of a playlist must not be a
    playlist itself.
    """

    id: str
    uri: SourceUri
    info: TrackInfo
    metadata: Json
    encoded: str
    is_playlist_entry: bool = False

    @classmethod
    def create(
        cls, track_id: str, uri: SourceUri, metadata: Json, *, title: str | None = None, is_playlist_entry: bool = False
    ) -> "Track":
        """A track whose source was not opened yet. Without a `title` it has the one in its URI."""
        info = initial_track_info(uri)
        if title is not None:
            info = replace(info, title=title)
        return cls(track_id, uri, info, metadata, encode_track(info), is_playlist_entry)

    def with_facts(self, facts: SourceFacts) -> "Track":
        """The same track with the facts from opening its source."""
        info = self.info.with_facts(facts)
        return replace(self, info=info, encoded=encode_track(info))

    def with_title(self, title: str) -> "Track":
        """The same track while its stream plays what has this title."""
        info = replace(self.info, title=title)
        return replace(self, info=info, encoded=encode_track(info))

    def as_json(self, player_metadata: Json, position_ms: int = 0) -> JsonObject:
        """TrackOut. A track without metadata of its own shows the player's."""
        user_data = self.metadata if self.metadata != {} else player_metadata
        return track_out(self.encoded, self.info, user_data, position_ms)


def track_out(encoded: str, info: TrackInfo, user_data: Json, position_ms: int = 0) -> JsonObject:
    """The JSON object TrackOut."""
    return {"encoded": encoded, "info": info.as_json(position_ms), "pluginInfo": {}, "userData": user_data}

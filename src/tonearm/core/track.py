"""What is known about a track, before and after its source was opened."""

from dataclasses import dataclass, replace

from tonearm.core.json_value import Json, JsonObject
from tonearm.core.track_codec import encode_track
from tonearm.core.track_info import SourceFacts, TrackInfo


@dataclass(frozen=True, slots=True)
class Track:
    """One entry of a player: a source with its id and the client's own metadata.

    `encoded` is computed once here, because lists of players and events repeat it. An entry of a playlist must not be
    a playlist itself.
    """

    id: str
    info: TrackInfo
    metadata: Json
    encoded: str
    is_playlist_entry: bool = False

    @classmethod
    def create(cls, track_id: str, info: TrackInfo, metadata: Json, *, is_playlist_entry: bool = False) -> "Track":
        return cls(track_id, info, metadata, encode_track(info), is_playlist_entry)

    def with_facts(self, facts: SourceFacts) -> "Track":
        """The same track, now knowing what opening its source told."""
        info = self.info.with_facts(facts)
        return replace(self, info=info, encoded=encode_track(info))

    def with_title(self, title: str) -> "Track":
        """The same track, now that a stream told what is heard."""
        info = replace(self.info, title=title)
        return replace(self, info=info, encoded=encode_track(info))

    def as_json(self, player_metadata: Json, position_ms: int = 0) -> JsonObject:
        """TrackOut. A track without metadata of its own shows the player's."""
        return {
            "encoded": self.encoded,
            "info": self.info.as_json(position_ms),
            "pluginInfo": {},
            "userData": self.metadata if self.metadata != {} else player_metadata,
        }

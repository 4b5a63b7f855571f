"""A track: its source, and the facts about it before and after the source is opened."""

from dataclasses import dataclass, replace

from tonearm.core.json_value import Json
from tonearm.core.source_uri import SourceUri, initial_track_info
from tonearm.core.track_info import SourceFacts, TrackInfo


@dataclass(frozen=True, slots=True)
class Track:
    """One entry of a player: a source with its id and the client's own metadata.

    `uri` is what the client gave, which is what is opened each time: what a page led to before may have expired. An
    entry of a playlist must not be a playlist itself.
    """

    id: str
    uri: SourceUri
    info: TrackInfo
    metadata: Json
    is_playlist_entry: bool = False

    @classmethod
    def create(
        cls, track_id: str, uri: SourceUri, metadata: Json, *, title: str | None = None, is_playlist_entry: bool = False
    ) -> "Track":
        """A track whose source was not opened yet. Without a `title` it has the one in its URI."""
        info = initial_track_info(uri)
        if title is not None:
            info = replace(info, title=title)
        return cls(track_id, uri, info, metadata, is_playlist_entry)

    def with_facts(self, facts: SourceFacts) -> "Track":
        """The same track with the facts from opening its source."""
        return replace(self, info=self.info.with_facts(facts))

    def with_title(self, title: str) -> "Track":
        """The same track while its stream plays what has this title."""
        return replace(self, info=replace(self.info, title=title))

    def user_data(self, player_metadata: Json) -> Json:
        """The metadata that the track shows: its own, or the player's when it has none (`{}`)."""
        return self.metadata if self.metadata != {} else player_metadata

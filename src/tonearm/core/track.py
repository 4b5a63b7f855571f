"""A track: its source, and the facts about it before and after the source is opened."""

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.failure import CIRCULAR_PLAYLIST, NESTED_PLAYLIST, PART_OF_PLAYLIST, PlayFailure
from tonearm.core.metadata import Json, value_of_json
from tonearm.core.source_uri import SourceUri, initial_track_info
from tonearm.core.track_info import SourceFacts, TrackInfo

MOST_LISTS: Final = 2  # playlists nested in each other
LIST_MARK_CHARACTERS: Final = 12

NO_METADATA: Final = b"{}"
_TRACK_BYTES: Final = 200  # without its URI and its metadata


@dataclass(frozen=True, slots=True)
class Track:
    """One entry of a player: a source with its id and the client's own metadata.

    `uri` is the URI from the client. It is opened each time, because the link behind a page may expire. `lists` are
    marks of the playlists that led to the track, the outer one first; an empty mark stands for an unknown playlist.
    Metadata are kept as compact JSON: as values they take ten times the memory, and freeing those of a long queue takes
    longer than a frame. The track is the part of the file from `start_ms` to `end_ms` (None: to its end).
    `keeps_names`: title and author were given with the track, and tags do not replace them. `is_known`: the facts in
    `info` come from opening the source. `has_own_tags`: until then they come from a playlist, and the file's tags may
    give more.
    """

    id: str
    uri: SourceUri
    info: TrackInfo
    metadata_json: bytes = NO_METADATA
    lists: tuple[str, ...] = ()
    start_ms: int = 0
    end_ms: int | None = None
    keeps_names: bool = False
    is_known: bool = False
    has_own_tags: bool = False

    @classmethod
    def create(cls, track_id: str, uri: SourceUri, metadata_json: bytes = NO_METADATA) -> "Track":
        """A track whose source was not opened yet. If the URI names a part of the file, the track is that part."""
        return cls(
            track_id,
            uri,
            initial_track_info(uri),
            metadata_json,
            start_ms=uri.start_ms,
            end_ms=uri.end_ms,
        )

    @classmethod
    def none(cls) -> "Track":
        """The current track of a player that never had one. It is never opened."""
        return cls("", SourceUri("file", "", "", ""), TrackInfo("", "", ""), is_known=True)

    @property
    def is_playlist_entry(self) -> bool:
        return bool(self.lists)

    @property
    def lists_within(self) -> tuple[str, ...]:
        """The `lists` for the entries of this track, if it is a playlist."""
        return (*self.lists, hashlib.sha256(self.uri.normalised.encode()).hexdigest()[:LIST_MARK_CHARACTERS])

    @property
    def refusal_as_playlist(self) -> PlayFailure | None:
        """Why the track must not be a playlist; None when it may be one."""
        if (self.start_ms, self.end_ms) != (0, None):
            return PART_OF_PLAYLIST
        if self.lists_within[-1] in self.lists:
            return CIRCULAR_PLAYLIST
        return NESTED_PLAYLIST if len(self.lists) >= MOST_LISTS else None

    @property
    def is_none(self) -> bool:
        return not self.id

    @property
    def metadata(self) -> Json:
        """The metadata as the client gave them, as a new value each time."""
        return value_of_json(self.metadata_json)

    @property
    def waiting_bytes(self) -> int:
        """The approximate size of the track in a queue and in a list of it."""
        return _TRACK_BYTES + len(self.info.identifier) + len(self.metadata_json)

    def with_facts(self, facts: SourceFacts) -> "Track":
        """The track with the facts from opening its source. Without new facts it is the same object, so that all events
        of a track in a loop share it."""
        if self.keeps_names:
            facts = replace(facts, title=None, author=None)
        info = self.info.with_facts(facts)
        return self if self.is_known and info == self.info else replace(self, info=info, is_known=True)

    def with_hints(self, facts: SourceFacts) -> "Track":
        """The track with facts that were read ahead. They are hints, because opening the source may give others."""
        known = self.with_facts(facts)
        return replace(known, info=replace(known.info, is_length_exact=False), is_known=self.is_known)

    @property
    def known_end_ms(self) -> int | None:
        """The track's end in its file; None when it is unknown, or when the track is endless."""
        length_ms = (self.info.length_ms or None) if self.is_known else None
        ends_ms = [end_ms for end_ms in (self.end_ms, length_ms) if end_ms is not None]
        return min(ends_ms, default=None)

    @property
    def is_end_a_guess(self) -> bool:
        """Whether `known_end_ms` may be far off."""
        return self.info.is_length_guess and (self.end_ms is None or self.end_ms > self.info.length_ms)

    def end_ms_after(self, position_ms: int) -> int | None:
        """The known end of a track that plays at this position. An estimated length is wrong once the track plays
        behind it."""
        is_wrong = position_ms > self.info.length_ms and not self.info.is_length_exact
        return self.end_ms if is_wrong else self.known_end_ms

    @property
    def is_unseekable(self) -> bool:
        """Whether opening has shown that its source cannot be read from the middle."""
        return self.is_known and not self.info.is_seekable

    def with_title(self, title: str) -> "Track":
        return replace(self, info=replace(self.info, title=title))

    def user_data(self, player_metadata: Json) -> Json:
        """The metadata for the track: its own, or the player's when it has none (`{}`)."""
        return player_metadata if self.metadata_json == NO_METADATA else self.metadata

"""The entries of a playlist as tracks."""

import uuid
from dataclasses import replace

from tonearm.core.json_value import Json
from tonearm.core.playlist import Playlist, PlaylistEntry
from tonearm.core.source_uri import initial_track_info, parse_source_uri
from tonearm.core.track import Track


def playlist_tracks(playlist: Playlist, metadata: Json) -> tuple[Track, ...]:
    """A track with a new id for each entry. What the playlist calls it is its title until it is opened."""
    return tuple(_track(entry, metadata) for entry in playlist.entries)


def _track(entry: PlaylistEntry, metadata: Json) -> Track:
    info = initial_track_info(parse_source_uri(entry.uri))
    if entry.title is not None:
        info = replace(info, title=entry.title)
    return Track.create(str(uuid.uuid4()), info, metadata, is_playlist_entry=True)

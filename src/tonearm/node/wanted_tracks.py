"""From what a client asks for, a URI or an encoded identifier, to the tracks that a player gets."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tonearm.core.errors import BadRequest, RequestError
from tonearm.core.json_value import Json
from tonearm.core.metadata import require_metadata_bytes
from tonearm.core.play_queue import LeftOut
from tonearm.core.playback_state import MAX_POSITION_MS
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.core.track_info import TrackInfo
from tonearm.interop.track_codec import decode_track
from tonearm.node.lookup import client_uri
from tonearm.protocol.json_text import json_bytes
from tonearm.sources.opener import SourceOpener

# The sources whose identifier is the URI. Other sources have identifiers of their own, and `uri` is the track's page.
_IDENTIFIED_BY_URI: Final = frozenset({"http", "file", "direct"})


@dataclass(frozen=True, slots=True)
class WantedTrack:
    """A track as a client asks for it: by its `uri` or, without one, by an `encoded` identifier.

    The file is played from `start_ms` to `end_ms`; None: as the URI says, or else from its start or to its end.
    `came_through_proxy`: a proxy passed the request on.
    """

    uri: str | None
    metadata: Json = field(default_factory=dict)
    encoded: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    came_through_proxy: bool = False


@dataclass(frozen=True, slots=True)
class CheckedTrack:
    """A wanted track without a mistake in the request; the policy was not asked yet. `info` is from an encoded
    identifier."""

    uri: SourceUri
    metadata: Json
    metadata_bytes: int
    start_ms: int
    end_ms: int | None
    info: TrackInfo | None


class TrackMaker:
    """Makes tracks that were not opened yet, in two steps, `check` and `make`: mistakes in a request are reported
    before conflicts, and conflicts before the policy is asked."""

    def __init__(self, opener: SourceOpener, max_metadata_bytes: int) -> None:
        self._opener = opener
        self._max_metadata_bytes = max_metadata_bytes

    def check(self, wanted: WantedTrack) -> CheckedTrack:
        """Raises `BadRequest` and `InvalidIdentifier` for mistakes in the request."""
        metadata_bytes = self.check_metadata(wanted.metadata)
        info: TrackInfo | None = None
        text = wanted.uri
        if text is None:
            if wanted.encoded is None:
                raise BadRequest("The field `uri` is missing; `encoded` can take its place.")
            info = decode_track(wanted.encoded)
            text = info.identifier if info.source_name in _IDENTIFIED_BY_URI else info.uri or info.identifier
        uri = client_uri(text, wanted.came_through_proxy)
        start_ms = uri.start_ms if wanted.start_ms is None else wanted.start_ms
        end_ms = uri.end_ms if wanted.end_ms is None else wanted.end_ms
        if start_ms < 0 or max(start_ms, end_ms or 0) > MAX_POSITION_MS:
            raise BadRequest(
                "`startMs` and `endMs` are positions in the file, in ms: they must not be negative or huge."
            )
        if end_ms is not None and end_ms <= start_ms:
            raise BadRequest("`endMs` must be greater than `startMs`.")
        return CheckedTrack(uri, wanted.metadata, metadata_bytes, start_ms, end_ms, info)

    def check_metadata(self, metadata: Json) -> int:
        """How many bytes `metadata` has as JSON. Raises `BadRequest` for too many."""
        size_bytes = json_bytes(metadata)
        require_metadata_bytes(size_bytes, self._max_metadata_bytes)
        return size_bytes

    def make(self, checked: CheckedTrack) -> Track:
        """A single track, also for a playlist. Raises `SourceBlocked` and `SourceRefused`.

        The track shows what an encoded identifier says until it is opened.
        """
        uri = self._opener.admit(checked.uri)
        track = Track.create(str(uuid.uuid4()), uri, checked.metadata, checked.metadata_bytes)
        shown, info = track.info, checked.info
        if info is not None:
            shown = replace(
                shown,
                title=info.title or shown.title,
                author=info.author,
                length_ms=0 if info.is_stream else info.length_ms,
                artwork_url=info.artwork_url,
                isrc=info.isrc,
            )
        return replace(track, info=shown, start_ms=checked.start_ms, end_ms=checked.end_ms)

    def make_all(self, wanted: Sequence[WantedTrack]) -> list[Track]:
        """The tracks. Raises what `check` and `make` raise, with the index of the track in the message."""
        tracks: list[Track] = []
        for index, one in enumerate(wanted):
            try:
                tracks.append(self.make(self.check(one)))
            except RequestError as error:
                raise type(error)(f"Track {index} (counted from 0): {error.message}") from error
        return tracks

    async def expand(self, checked: CheckedTrack) -> tuple[Sequence[Track], LeftOut]:
        """A single track, or the entries of a playlist or a folder. A playlist that cannot be read becomes a single
        track, which reports why when it is played. Raises what `make` raises."""
        track = self.make(checked)
        lists_tracks = track.uri.names_track_list or track.uri.may_name_folder
        playlist = await self._opener.playlist(track.uri) if lists_tracks else None
        if playlist is None:
            return (track,), LeftOut()
        # In a thread: making hundreds of tracks takes some ms.
        entries = await asyncio.to_thread(playlist.tracks, uuid.uuid4, track.metadata, track.metadata_bytes)
        return entries, playlist.left_out

"""Tracks without a player: makes tracks of URIs and encoded identifiers, lists playlists and pages, searches, and reads
the pictures inside files."""

import asyncio
import hashlib
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from tonearm.core.errors import (
    BadRequest,
    LoadFailed,
    NoArtwork,
    RequestError,
    ResolveFailed,
    ResolverDisabled,
    SourceBlocked,
    SourceRefused,
)
from tonearm.core.failure import FAULTS_OF_BYTES, FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.file_formats import MAX_PICTURE_BYTES, Picture, picture_type
from tonearm.core.metadata import Json, require_metadata_bytes
from tonearm.core.play_queue import MAX_REASONS, LeftOut, NothingFound, Playlist
from tonearm.core.playback_state import MAX_POSITION_MS
from tonearm.core.printable import text_for_logs
from tonearm.core.source_uri import (
    MAX_URI_CHARACTERS,
    SourceUri,
    client_uri,
    initial_track_info,
    uri_for_logs,
)
from tonearm.core.track import NO_METADATA, Track
from tonearm.core.track_codec import decode_track, is_encoded_track
from tonearm.core.track_info import MAX_TITLE_CHARACTERS, TrackInfo
from tonearm.decoder.opening.track_loader import TrackLoader
from tonearm.protocol.wire_model import json_text
from tonearm.sources.opener import SourceOpener
from tonearm.sources.sounds import Sound, Sounds

log = logging.getLogger(__name__)

_OneT = TypeVar("_OneT")
_NextT = TypeVar("_NextT")


@dataclass(frozen=True, slots=True)
class TrackList:
    """The entries of a playlist, or what a search found. `name` is empty without one, `selected` -1 for none."""

    tracks: tuple[Track, ...]
    left_out: LeftOut
    name: str = ""
    selected: int = -1


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a text meant. `track` is there for a single one, `listed` for a list, and `failure` says why there is
    neither. With none of them a search has found nothing. `playlist` is what `listed` was made of, at `url`; a search
    has none."""

    track: TrackInfo | None = None
    listed: TrackList | None = None
    playlist: Playlist | None = None
    url: str = ""
    failure: PlayFailure | None = None


class Lookup:
    """Finds tracks by `loader` and `opener`. `came_through_proxy`: whether a proxy passed the request on."""

    def __init__(self, opener: SourceOpener, loader: TrackLoader) -> None:
        self._opener = opener
        self._loader = loader

    async def load(self, identifier: str, *, came_through_proxy: bool) -> TrackInfo | PlayFailure:
        """The facts from opening a source, or why it cannot be played. Raises `SourceBlocked` and `SourceRefused`."""
        if is_encoded_track(identifier):
            return _no_source("The identifier is an encoded track.", "Decode it with GET /v0/decodetrack.")
        try:
            uri = self._opener.admit(client_uri(identifier, came_through_proxy))
        except BadRequest as error:
            return _no_source(error.message, "Give an http or https URI, the path of a file, or a search.")
        try:
            facts = await self._loader.load(uri)
        except PlayError as error:
            if error.failure.code in _ERRORS_OF_REFUSALS:
                raise request_error(error.failure, LoadFailed) from error
            message = text_for_logs(f"{error.failure.message} {error.failure.hint}")
            log.info("a requested source cannot be loaded: %s: %s", uri_for_logs(identifier), message)
            return error.failure
        return initial_track_info(uri).with_facts(facts)

    async def find(self, text: str, limit: int, *, came_through_proxy: bool) -> Loaded:
        """Finds what `text` means: a track, a list, or the first `limit` results of a search.

        Raises `BadRequest` for an empty or a too long text, `SourceBlocked`, `SourceRefused` and `LimitReached`.
        """
        if not text.strip() or len(text) > MAX_URI_CHARACTERS:
            raise BadRequest(f"`identifier` must have 1 to {MAX_URI_CHARACTERS} characters.")
        opener = self._opener
        try:
            meaning = await opener.meaning_of(text, came_through_proxy=came_through_proxy)
            if meaning.kind == "encoded":
                return Loaded(track=decode_track(meaning.text))
            return await self._look_up(meaning.text, limit, came_through_proxy=came_through_proxy)
        except NothingFound:
            return Loaded()
        except BadRequest as error:
            message, hint = error.message, "Give a link, the path of a file, or words."
            if meaning.kind == "search" and not opener.searches:
                message = f"There is no file {text!r} here, and this node cannot search: {opener.why_no_search}."
            return Loaded(failure=_no_source(message, hint))
        except PlayError as error:
            if error.failure.code in _ERRORS_OF_REFUSALS:
                raise request_error(error.failure, LoadFailed) from error
            told = text_for_logs(f"{error.failure.message} {error.failure.hint}")
            log.info("a requested text cannot be loaded: %s: %s", text_for_logs(uri_for_logs(text)), told)
            return Loaded(failure=error.failure)

    async def _look_up(self, text: str, limit: int, *, came_through_proxy: bool) -> Loaded:
        """Raises `NothingFound` and other `PlayError`s, `RequestError`s."""
        uri = self._opener.admit(client_uri(text, came_through_proxy))
        if uri.kind == "search":
            return Loaded(listed=await _found(await self._opener.search(uri, limit)))
        found = await self._opener.look_up(uri)
        if isinstance(found, Playlist):
            return Loaded(listed=await _found(found), playlist=found, url=uri.opened)
        if found is not None:
            return Loaded(track=found.track("", NO_METADATA).info)
        return Loaded(track=initial_track_info(uri).with_facts(await self._loader.load(uri)))

    @property
    def sounds(self) -> Sounds:
        return self._opener.sounds

    async def measure(self, sound: Sound) -> None:
        """Opens a sound that has arrived like any other source, and notes its length. Raises `LoadFailed` with the
        reason for what is no audio, and `SourceBlocked`."""
        try:
            facts = await self._loader.load(self._opener.admit(client_uri(sound.uri, came_through_proxy=False)))
        except PlayError as error:
            failure = error.failure
            if failure.code in FAULTS_OF_BYTES:
                failure = replace(failure, hint="Send the bytes of an audio file, such as WAV, MP3, FLAC or Ogg.")
            raise request_error(failure, LoadFailed) from error
        sound.length_ms = facts.length_ms

    async def load_playlist(self, identifier: str, *, came_through_proxy: bool) -> TrackList:
        """All entries of a playlist, a page or a search; none of them is opened.

        Raises `BadRequest`, `LoadFailed`, `ResolveFailed`, `SourceBlocked`, `SourceRefused` and `LimitReached`.
        """
        uri = self._opener.admit(client_uri(identifier, came_through_proxy))
        try:
            playlist = await self._opener.open_list(uri)
        except PlayError as error:
            is_of_resolver = error.failure.code is FailureCode.RESOLVE_FAILED
            raise request_error(error.failure, ResolveFailed if is_of_resolver else LoadFailed) from error
        return await _found(playlist)

    async def search(self, words: str, site: str, limit: int, *, came_through_proxy: bool) -> TrackList:
        """The first `limit` tracks that `site` finds; none of them is opened.

        Raises `ResolverDisabled`, `BadRequest`, `ResolveFailed`, `SourceBlocked`, `SourceRefused`, `LimitReached`.
        """
        key = self._opener.search_key(site)
        uri = self._opener.admit(client_uri(f"{key}:{words}", came_through_proxy))
        try:
            return await _found(await self._opener.search(uri, limit))
        except NothingFound as nothing:
            return TrackList((), nothing.left_out)
        except PlayError as error:
            raise request_error(error.failure, ResolveFailed) from error

    async def resolve(self, url: str, *, came_through_proxy: bool) -> str:
        """The direct URL or path of what `url` plays.

        Raises `ResolverDisabled`, `ResolveFailed`, `BadRequest`, `SourceBlocked`, `SourceRefused` and `LimitReached`.
        """
        if not self._opener.resolves_pages:
            raise ResolverDisabled("The resolver is disabled on this node; give direct URLs, or set resolver.enabled.")
        try:
            return await self._opener.direct_uri(client_uri(url, came_through_proxy))
        except PlayError as error:
            raise request_error(error.failure, ResolveFailed) from error


# Failures that are refusals, such as those of a redirect, an address or a symbolic link.
_ERRORS_OF_REFUSALS: Final[Mapping[FailureCode, type[RequestError]]] = {
    FailureCode.SOURCE_BLOCKED: SourceBlocked,
    FailureCode.SOURCE_REFUSED: SourceRefused,
}


def request_error(failure: PlayFailure, kind: type[RequestError]) -> RequestError:
    """The failure as an error of the request: a refusal, or else one of this kind."""
    return _ERRORS_OF_REFUSALS.get(failure.code, kind)(f"{failure.message} {failure.hint}")


async def _found(playlist: Playlist) -> TrackList:
    # In a thread: making hundreds of tracks takes some ms.
    tracks = await asyncio.to_thread(playlist.tracks, uuid.uuid4)
    selected = -1 if playlist.selected is None else playlist.selected
    return TrackList(tracks, playlist.left_out, playlist.name, selected)


def _no_source(message: str, hint: str) -> PlayFailure:
    return PlayFailure(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, message, hint)


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
    metadata_json: bytes
    start_ms: int
    end_ms: int | None
    info: TrackInfo | None


# Making a track draws an id from the system, which lets go of the interpreter and takes it again at once. A thread that
# does so all the time keeps the event loop from asking for it: 0.2 s were seen for a thousand tracks. So it pauses.
_AT_A_STRETCH_S: Final = 0.001
_PAUSE_S: Final = 0.000_1


def _each(step: Callable[[_OneT], _NextT], tracks: Sequence[_OneT]) -> list[_NextT]:
    """The results of `step` for each track, with pauses. Raises what it raises, with the track's index in the
    message."""
    results: list[_NextT] = []
    since_s = time.monotonic()
    for index, track in enumerate(tracks):
        if time.monotonic() - since_s > _AT_A_STRETCH_S:
            time.sleep(_PAUSE_S)
            since_s = time.monotonic()
        try:
            results.append(step(track))
        except RequestError as error:
            raise type(error)(f"Track {index} (counted from 0): {error.message}") from error
    return results


class TrackMaker:
    """Makes tracks that were not opened yet, in two steps, `check` and `make`: mistakes in a request are reported
    before conflicts, and conflicts before the policy is asked."""

    def __init__(self, opener: SourceOpener, max_metadata_bytes: int) -> None:
        self._opener = opener
        self._max_metadata_bytes = max_metadata_bytes

    def check(self, wanted: WantedTrack) -> CheckedTrack:
        """Raises `BadRequest` and `InvalidIdentifier` for mistakes in the request."""
        metadata_json = self.check_metadata(wanted.metadata)
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
                "`startMs` and `endMs` are positions in the file, in ms: they must be 0 or greater, and not huge."
            )
        if end_ms is not None and end_ms <= start_ms:
            raise BadRequest("`endMs` must be greater than `startMs`.")
        return CheckedTrack(uri, metadata_json, start_ms, end_ms, info)

    def check_metadata(self, metadata: Json) -> bytes:
        """`metadata` as JSON. Raises `BadRequest` for too many bytes."""
        text = json_text(metadata)
        require_metadata_bytes(len(text), self._max_metadata_bytes)
        return text

    def make(self, checked: CheckedTrack) -> Track:
        """A single track, also for a playlist. Raises `SourceBlocked` and `SourceRefused`.

        The track shows what an encoded identifier says until it is opened.
        """
        uri = self._opener.admit(checked.uri)
        track = Track.create(str(uuid.uuid4()), uri, checked.metadata_json)
        shown, info = track.info, checked.info
        keeps_names = False
        if info is not None:
            # As an entry of a CUE sheet: the file's tags are not about the part alone.
            keeps_names = (uri.start_ms, uri.end_ms) != (0, None) and info.title not in ("", shown.title)
            shown = replace(
                shown,
                title=info.title[:MAX_TITLE_CHARACTERS] or shown.title,
                author=info.author[:MAX_TITLE_CHARACTERS],
                length_ms=0 if info.is_stream else info.length_ms,
                artwork_url=info.artwork_url,
                isrc=None if len(info.isrc or "") > MAX_TITLE_CHARACTERS else info.isrc,
            )
        return replace(track, info=shown, start_ms=checked.start_ms, end_ms=checked.end_ms, keeps_names=keeps_names)

    def make_all(self, wanted: Sequence[WantedTrack]) -> list[Track]:
        """The tracks, each of which is checked before the first is made. Raises what `check` and `make` raise, with the
        index of the track in the message."""
        return _each(self.make, _each(self.check, wanted))

    def warnings_of(self, tracks: Iterable[Track]) -> tuple[str, ...]:
        """Sentences about tracks that will not play, each once, at most `MAX_REASONS`."""
        sentences = dict.fromkeys(self._opener.warning_of(track.uri) for track in tracks)
        return tuple(filter(None, sentences))[:MAX_REASONS]

    async def expand(self, checked: CheckedTrack) -> tuple[Sequence[Track], LeftOut]:
        """A single track, or the entries of a playlist or a folder. A playlist that cannot be read becomes a single
        track, which reports why when it is played. Raises what `make` raises, and `BadRequest` for a part of a
        playlist."""
        track = self.make(checked)
        lists_tracks = track.uri.names_track_list or track.uri.may_name_folder
        playlist = await self._opener.playlist(track.uri) if lists_tracks else None
        if playlist is None:
            return (track,), LeftOut()
        if (refusal := track.refusal_as_playlist) is not None:
            raise BadRequest(f"{refusal.message} {refusal.hint}")
        # In a thread: making hundreds of tracks takes some ms.
        entries = await asyncio.to_thread(playlist.tracks, uuid.uuid4, track.metadata_json, track.lists_within)
        return entries, playlist.left_out


_KEPT_BYTES: Final = 16 * 1024 * 1024
_KEPT: Final = 64


class Artworks:
    """Reads and keeps pictures, until `stop`. `loader` opens the file again, so the player is not disturbed."""

    def __init__(self, loader: TrackLoader) -> None:
        self._loader = loader
        self._kept: OrderedDict[str, Picture | None] = OrderedDict()  # by the track's id, the oldest first
        self._kept_bytes = 0
        self._reading: dict[str, asyncio.Task[Picture | None]] = {}  # by the track's id: shared by all requests for it

    async def of(self, track: Track) -> Picture:
        """The picture of a track. Raises `NoArtwork`, also when the source cannot be read, `SourceBlocked` and
        `SourceRefused`."""
        info = track.info
        if track.is_none:
            raise NoArtwork("The player has no track yet.")
        if info.is_stream:
            raise NoArtwork("The current track is live and has no picture.")
        if track.is_known and not info.has_picture:
            raise NoArtwork("The current track's file has no picture.")
        try:
            picture = await self._picture(track)
        except PlayError as error:
            raise request_error(error.failure, NoArtwork) from error
        if picture is None:
            raise NoArtwork("The current track's file has no picture in JPEG, PNG, WebP or GIF.")
        return picture

    async def stop(self) -> None:
        """Ends all reads."""
        tasks = tuple(self._reading.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _picture(self, track: Track) -> Picture | None:
        if track.id in self._kept:
            self._kept.move_to_end(track.id)
            return self._kept[track.id]
        task = self._reading.get(track.id)
        if task is None:
            task = self._reading[track.id] = asyncio.get_running_loop().create_task(self._read(track))
            task.add_done_callback(lambda task: self._is_read(track.id, task))
        # A client that goes away must not cancel the reading for other clients.
        return await asyncio.shield(task)

    def _is_read(self, track_id: str, task: "asyncio.Task[Picture | None]") -> None:
        del self._reading[track_id]
        if not task.cancelled():
            task.exception()  # every client that asked may be gone

    async def _read(self, track: Track) -> Picture | None:
        data = await self._loader.load_picture(track.uri)
        media_type = picture_type(data) if len(data) <= MAX_PICTURE_BYTES else None
        picture = None
        if media_type is not None:
            version = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest()[:32])
            picture = Picture(data, media_type, version)
        self._keep(track.id, picture)
        return picture

    def _keep(self, track_id: str, picture: Picture | None) -> None:
        self._kept[track_id] = picture
        self._kept_bytes += 0 if picture is None else len(picture.data)
        while len(self._kept) > _KEPT or self._kept_bytes > _KEPT_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= 0 if oldest is None else len(oldest.data)

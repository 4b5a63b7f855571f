"""Every player of the node as a media player, kept by the node's events."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from homeassistant.components import media_source
from homeassistant.components.media_player import (
    ATTR_MEDIA_EXTRA,
    BrowseError,
    BrowseMedia,
    MediaClass,
    MediaPlayerEnqueue,
    MediaPlayerEntity,
    MediaPlayerEntityFeature,
    MediaPlayerState,
    MediaType,
    RepeatMode,
    async_process_play_media_url,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers.device_registry import DeviceInfo
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from homeassistant.util import dt as dt_util

from tonearm.client import (
    Disconnected,
    Event,
    EventsLost,
    LoopMode,
    Node,
    NotFound,
    PlayerDelete,
    State,
    StreamTitle,
    TonearmError,
    TrackStart,
    Unauthorized,
)
from tonearm.protocol.replies import LibraryEntry

DUCK_DB = -18.0
FOLDER = "tonearm_folder"
LISTED = 1000

_STATES = {
    State.PLAYING: MediaPlayerState.PLAYING,
    State.LOADING: MediaPlayerState.BUFFERING,
    State.IDLE: MediaPlayerState.IDLE,
    State.FAILED: MediaPlayerState.IDLE,
}
_LOOPS = {RepeatMode.OFF: LoopMode.NONE, RepeatMode.ONE: LoopMode.TRACK, RepeatMode.ALL: LoopMode.QUEUE}
_REPEATS = {loop: repeat for repeat, loop in _LOOPS.items()}

_FEATURES = (
    MediaPlayerEntityFeature.PLAY
    | MediaPlayerEntityFeature.PAUSE
    | MediaPlayerEntityFeature.STOP
    | MediaPlayerEntityFeature.NEXT_TRACK
    | MediaPlayerEntityFeature.PREVIOUS_TRACK
    | MediaPlayerEntityFeature.VOLUME_SET
    | MediaPlayerEntityFeature.VOLUME_STEP
    | MediaPlayerEntityFeature.SHUFFLE_SET
    | MediaPlayerEntityFeature.REPEAT_SET
    | MediaPlayerEntityFeature.CLEAR_PLAYLIST
    | MediaPlayerEntityFeature.PLAY_MEDIA
    | MediaPlayerEntityFeature.MEDIA_ENQUEUE
    | MediaPlayerEntityFeature.MEDIA_ANNOUNCE
    | MediaPlayerEntityFeature.BROWSE_MEDIA
)


async def async_setup_entry(
    hass: HomeAssistant, entry: ConfigEntry[Node], async_add_entities: AddConfigEntryEntitiesCallback
) -> None:
    """Follows the node for as long as the entry is loaded."""
    node = entry.runtime_data
    entities: dict[str, TonearmPlayer] = {}

    def entity_of(player_id: str) -> TonearmPlayer:
        if player_id not in entities:
            entities[player_id] = TonearmPlayer(hass, entry, player_id)
            async_add_entities([entities[player_id]])
        return entities[player_id]

    async def follow() -> None:
        try:
            async for event in node.events():
                match event:
                    case EventsLost():
                        present = {player.id for player in await node.players()}
                        for player_id in present | entities.keys():
                            entity_of(player_id).show(event, available=player_id in present)
                    case Disconnected():
                        for entity in entities.values():
                            entity.show(event, available=False)
                    case _ if event.id:
                        entity_of(event.id).show(event, available=not isinstance(event, PlayerDelete))
        except Unauthorized:
            entry.async_start_reauth(hass)
        except TonearmError:
            hass.config_entries.async_schedule_reload(entry.entry_id)

    entry.async_create_background_task(hass, follow(), f"tonearm {entry.title}")


@contextmanager
def _refusals() -> Iterator[None]:
    """What the node says comes to the one who asked."""
    try:
        yield
    except TonearmError as error:
        raise HomeAssistantError(error.message) from error


class TonearmPlayer(MediaPlayerEntity):
    """A player by its id. It is unavailable while the node has none of that id, or cannot be reached."""

    _attr_has_entity_name = True
    _attr_should_poll = False
    _attr_media_content_type = MediaType.MUSIC
    _attr_shuffle = False
    _attr_supported_features = _FEATURES

    def __init__(self, hass: HomeAssistant, entry: ConfigEntry[Node], player_id: str) -> None:
        self._node = entry.runtime_data
        self._player = self._node.player(player_id)
        self._run = partial(entry.async_create_background_task, hass)
        self._picture: tuple[bytes, str] | None = None
        self._shown_track_id = ""
        self._attr_available = False
        self._attr_name = player_id
        self._attr_unique_id = f"{entry.entry_id}-{player_id}"
        self._attr_device_info = DeviceInfo(
            identifiers={("tonearm", entry.entry_id)},
            name="tonearm",
            model=entry.title,
            configuration_url=self._node.url,
        )

    def show(self, event: Event, *, available: bool) -> None:
        """What the client's player is after this event."""
        player = self._player
        self._attr_available = available
        self._attr_state = _STATES[player.state]
        if player.paused and player.state in (State.PLAYING, State.LOADING):
            self._attr_state = MediaPlayerState.PAUSED
        self._attr_volume_level = min(1.0, player.volume)
        self._attr_repeat = _REPEATS[player.loop]
        if player.track_id != self._shown_track_id or isinstance(event, TrackStart):
            self._show_track()
        if isinstance(event, StreamTitle):
            self._attr_media_title = event.title
        self._attr_media_position = player.position // 1000
        self._attr_media_position_updated_at = dt_util.utcnow()
        self._write()

    def _show_track(self) -> None:
        if self._player.track_id != self._shown_track_id:
            self._picture = None
        self._shown_track_id = self._player.track_id
        track = self._player.current
        info = track.info if track else None
        self._attr_media_content_id = info.identifier if info else None
        self._attr_media_title = info.title if info else None
        self._attr_media_artist = (info.author or None) if info else None
        self._attr_media_duration = (info.length // 1000 or None) if info else None
        can_seek = info is not None and info.is_seekable
        self._attr_supported_features = _FEATURES | (MediaPlayerEntityFeature.SEEK if can_seek else 0)
        self._attr_media_image_url = info.artwork_url if info else None
        self._attr_media_image_remotely_accessible = self._attr_media_image_url is not None
        if info and not info.artwork_url and not info.is_stream:
            self._run(self._find_picture(), f"picture of {self.unique_id}")

    async def _find_picture(self) -> None:
        """The node has it, behind its password, so Home Assistant passes it on."""
        track_id = self._shown_track_id
        with suppress(TonearmError):
            picture = await self._player.artwork()
            if picture is not None and track_id == self._shown_track_id:
                self._picture = picture
                self._write()

    @property
    def media_image_hash(self) -> str | None:
        """Another one for each picture."""
        return super().media_image_hash if self._picture is None else self._shown_track_id

    async def async_get_media_image(self) -> tuple[bytes | None, str | None]:
        """The picture of a file, or what is behind a link."""
        return self._picture or await super().async_get_media_image()

    def _write(self) -> None:
        if self.hass is not None:  # it is added a moment after it was made
            self.async_write_ha_state()

    async def async_media_play(self) -> None:
        with _refusals():
            await self._player.resume()

    async def async_media_pause(self) -> None:
        with _refusals():
            await self._player.pause()

    async def async_media_stop(self) -> None:
        with _refusals():
            await self._player.stop()

    async def async_media_next_track(self) -> None:
        with _refusals():
            await self._player.skip()

    async def async_media_previous_track(self) -> None:
        with _refusals():
            await self._player.previous()

    async def async_media_seek(self, position: float) -> None:
        with _refusals():
            await self._player.seek(round(position * 1000))

    async def async_set_volume_level(self, volume: float) -> None:
        with _refusals():
            await self._player.set_volume(volume)

    async def async_set_shuffle(self, shuffle: bool) -> None:
        """Puts what waits into another order, once: the node has no mode for it, and nothing to take back."""
        with _refusals():
            if shuffle:
                await self._player.queue.shuffle()

    async def async_set_repeat(self, repeat: RepeatMode) -> None:
        with _refusals():
            await self._player.set_loop(_LOOPS[repeat])

    async def async_clear_playlist(self) -> None:
        with _refusals():
            await self._player.queue.clear()

    async def async_play_media(
        self,
        media_type: MediaType | str,
        media_id: str,
        enqueue: MediaPlayerEnqueue | None = None,
        announce: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """`extra` has the settings of an announcement's overlay: `duck_db`, `volume`, `fade_ms`."""
        uri = await self._uri_of(media_type, media_id)
        queue = self._player.queue
        with _refusals():
            if announce:
                await self._player.overlay(uri, **{"duck_db": DUCK_DB, **kwargs.get(ATTR_MEDIA_EXTRA, {})})
            elif enqueue is MediaPlayerEnqueue.ADD:
                await queue.put(uri)
            elif enqueue is MediaPlayerEnqueue.NEXT:
                await queue.put(uri, index=0)
            elif enqueue is MediaPlayerEnqueue.PLAY:
                await self._play(uri)
            else:
                waited = {track.id for track in await queue.list()}
                await self._play(uri)  # Before anything is removed: the node may refuse it.
                await self._remove(waited)

    async def _play(self, uri: str) -> None:
        """Plays `uri` also on a paused player, which would stay paused."""
        await self._player.play(uri)
        if self._player.paused:
            await self._player.resume()

    async def _remove(self, waited: set[str]) -> None:
        """Removes these tracks from the queue. Others may be there, of a playlist that plays now."""
        queue = self._player.queue
        if waited.issuperset(track.id for track in await queue.list()):
            await queue.clear()
            return
        for track_id in waited:
            with suppress(NotFound):
                await queue.remove(track_id)

    async def _uri_of(self, media_type: MediaType | str, media_id: str) -> str:
        """What the node takes. A path is the node's, never one of Home Assistant's."""
        if media_type == FOLDER:
            return _folder(media_id)["uri"]
        if media_source.is_media_source_id(media_id):
            found = await media_source.async_resolve_media(self.hass, media_id, self.entity_id)
            return async_process_play_media_url(self.hass, found.url)
        if media_id.startswith(("http://", "https://")):
            return async_process_play_media_url(self.hass, media_id)
        return media_id

    async def async_browse_media(
        self, media_content_type: MediaType | str | None = None, media_content_id: str | None = None
    ) -> BrowseMedia:
        """The node's library, and beside it what Home Assistant itself has."""
        if media_content_id and media_source.is_media_source_id(media_content_id):
            return await _of_home_assistant(self.hass, media_content_id)
        folder = _folder(media_content_id) if media_content_id else {"path": "", "uri": ""}
        with _refusals():
            found = await self._node.files(folder["path"], limit=LISTED)
        children = [_shown(entry) for entry in found.entries]
        if not media_content_id:
            with suppress(BrowseError):  # there is nothing
                children += (await _of_home_assistant(self.hass, None)).children or ()
        return BrowseMedia(
            title=found.path.rpartition("/")[2] if folder["uri"] else "tonearm",
            media_class=MediaClass.DIRECTORY,
            media_content_type=FOLDER,
            media_content_id=media_content_id or "",
            can_play=bool(folder["uri"]),
            can_expand=True,
            children=children,
            not_shown=found.total - len(found.entries),
        )


def _folder(media_id: str) -> dict[str, str]:
    """The `path` and `uri` of what `_shown` named."""
    try:
        folder = json.loads(media_id)
        return {name: str(folder[name]) for name in ("path", "uri")}
    except (ValueError, TypeError, LookupError):
        raise BrowseError(f"{media_id!r} is no folder of the node; browse for it.") from None


async def _of_home_assistant(hass: HomeAssistant, media_id: str | None) -> BrowseMedia:
    return await media_source.async_browse_media(
        hass, media_id, content_filter=lambda item: item.media_content_type.startswith("audio/")
    )


def _shown(entry: LibraryEntry) -> BrowseMedia:
    is_folder = entry.kind == "folder"
    return BrowseMedia(
        title=entry.title or entry.name,
        media_class={"folder": MediaClass.DIRECTORY, "playlist": MediaClass.PLAYLIST}.get(entry.kind, MediaClass.TRACK),
        media_content_type=FOLDER if is_folder else MediaType.MUSIC,
        media_content_id=json.dumps({"path": entry.path, "uri": entry.uri}) if is_folder else entry.uri,
        can_play=True,
        can_expand=is_folder,
    )

"""The pictures inside tracks' files, read when a client asks, and kept for a while."""

import asyncio
import hashlib
from collections import OrderedDict
from typing import Final

from tonearm.core.errors import NoArtwork
from tonearm.core.failure import PlayError
from tonearm.core.file_formats import MAX_PICTURE_BYTES, Picture, picture_type
from tonearm.core.track import Track
from tonearm.decoder.opening.track_loader import TrackLoader
from tonearm.node.lookup import request_error

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
            raise NoArtwork("The current track is live, and has no file with a picture.")
        if track.is_known and not info.has_picture:
            raise NoArtwork("There is no picture in the file of the current track.")
        try:
            picture = await self._picture(track)
        except PlayError as error:
            raise request_error(error.failure, NoArtwork) from error
        if picture is None:
            raise NoArtwork("There is no picture in the file of the current track that is JPEG, PNG, WebP or GIF.")
        return picture

    async def stop(self) -> None:
        """Ends what is under way."""
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

"""Sounds that clients send as bytes: kept in memory for a while, and opened like any other source.

A sound is in use while it arrives, and while a reader of it is open. Only the client that sent it knows its URI and can
pass it on: the id cannot be guessed, and there is no list.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tonearm.core.errors import LimitReached
from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.opened_source import OpenedSource, SourceReader
from tonearm.core.source_uri import SourceUri

_LEAST_BYTES: Final = 4096  # counted for each sound at least, since its metadata takes memory, too


@dataclass(frozen=True, slots=True)
class SoundLimits:
    """`max_bytes` for one sound, `total_bytes` for all; a sound is kept for `keep_s` after its last use."""

    max_bytes: int = 10 * 1024 * 1024
    total_bytes: int = 64 * 1024 * 1024
    keep_s: float = 600.0


@dataclass(slots=True, eq=False)
class Sound:
    """`content_type` is as the client sent it. `length_ms` is 0 when unknown. `timer` ends an unused sound."""

    counted_bytes: int
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    data: bytes | bytearray = b""
    content_type: str = ""
    length_ms: int = 0
    users: int = 1
    timer: asyncio.TimerHandle | None = None

    @property
    def uri(self) -> str:
        return f"sound:{self.id}"


class Sounds:
    """All sounds of a node, on its event loop."""

    def __init__(self, limits: SoundLimits | None = None) -> None:
        self.limits: Final = limits or SoundLimits()
        self._sounds: dict[str, Sound] = {}  # by id, the one used last at the end

    @contextmanager
    def arriving(self, size_bytes: int) -> Iterator[Sound]:
        """Reserves room for `size_bytes`, and yields a sound that can be opened; the caller sets its `data`.

        The sound is kept unless the block raises. The oldest unused sounds are then removed to make room. Raises
        `LimitReached` when the sounds in use leave too little room.
        """
        sound = Sound(max(size_bytes, _LEAST_BYTES))
        if sum(one.counted_bytes for one in (sound, *self._sounds.values()) if one.users) > self.limits.total_bytes:
            raise LimitReached(
                f"Sounds in use or being sent take all {self.limits.total_bytes} bytes of sounds.total_bytes. "
                "Try again when they have ended, or raise the limit."
            )
        self._sounds[sound.id] = sound
        try:
            yield sound
        except BaseException:
            self.forget(sound.id)
            raise
        sound.counted_bytes = max(len(sound.data), _LEAST_BYTES)
        excess = sum(one.counted_bytes for one in self._sounds.values()) - self.limits.total_bytes
        while excess > 0 and (oldest := next((one for one in self._sounds.values() if not one.users), None)):
            self.forget(oldest.id)
            excess -= oldest.counted_bytes
        self._left(sound)

    def use(self, sound_id: str) -> Sound | None:
        """The sound, or None. Its time to live begins anew."""
        sound = self._sounds.pop(sound_id, None)
        if sound is not None:
            self._sounds[sound_id] = sound
            if sound.timer is not None:
                sound.timer.cancel()
            later = asyncio.get_running_loop().call_later
            sound.timer = None if sound.users else later(self.limits.keep_s, self.forget, sound_id)
        return sound

    def forget(self, sound_id: str) -> bool:
        """Removes a sound, and returns whether it existed. Open readers can read on."""
        sound = self._sounds.pop(sound_id, None)
        if sound is not None and sound.timer is not None:
            sound.timer.cancel()
        return sound is not None

    def open(self, uri: SourceUri) -> OpenedSource:
        """Opens a sound. The content type that was sent is ignored, since clients send any type. Raises `PlayError`."""
        sound = self._sounds.get(uri.path)
        if sound is None:
            message = "The sound does not exist, or no longer exists."
            hint = (
                "Send it again with POST /v0/sounds: sounds are kept, in memory only, for "
                f"{self.limits.keep_s:g} s after their last use (sounds.keep_s), and the oldest make room for new ones."
            )
            raise PlayError.of(FailureCode.FILE_MISSING, Stage.CONNECT, message, hint)
        sound.users += 1
        self.use(sound.id)
        reader = _SoundReader(sound.data, lambda: self._left(sound))
        return OpenedSource(uri, reader, name="", size_bytes=len(sound.data), is_seekable=True)

    def close(self) -> None:
        for sound_id in tuple(self._sounds):
            self.forget(sound_id)

    def _left(self, sound: Sound) -> None:
        sound.users -= 1
        self.use(sound.id)


class _SoundReader(SourceReader):
    def __init__(self, data: bytes | bytearray, left: Callable[[], None]) -> None:
        self._data = memoryview(data)
        self._left: Callable[[], None] | None = left

    async def read_at(self, offset: int, max_bytes: int) -> bytes:
        return bytes(self._data[offset : offset + max_bytes])

    async def close(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            left()

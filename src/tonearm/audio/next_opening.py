"""When a player opens its next track: some time before the end of the current one."""

from collections.abc import Callable
from typing import Final

from tonearm.core.play_queue import LoopMode, SourceId
from tonearm.core.playback import Playback
from tonearm.core.track import Track

OPEN_NEXT_BEFORE_END_MS: Final = 10_000
# Where nobody listens, and the next track is a file that was opened before: each second that a player is awake for it
# costs as much decoding as the rest of a track that it sleeps through.
OPEN_KNOWN_FILE_BEFORE_END_MS: Final = 1_000


class NextOpening:
    """For each source that becomes the current one, decides once when the track after it is opened."""

    def __init__(self, playback: Playback, has_listeners: Callable[[], bool]) -> None:
        self._playback = playback
        self._has_listeners = has_listeners
        self._ordered_for: SourceId | None = None

    @property
    def from_ms(self) -> int | None:
        """From which position on the next track is opened: at once where a skip may fade into it. None without end."""
        playback = self._playback
        end_ms, settings = playback.current.known_end_ms, playback.crossfade
        if end_ms is None or playback.current.info.is_stream:
            return None
        if settings.on_skip and settings.duration_ms:
            return 0
        heard_before_end_ms = self._heard_before_end_ms() + settings.duration_ms
        return end_ms - int(heard_before_end_ms * playback.filters.effects.position_rate)

    @property
    def ms_until(self) -> int | None:
        """How far the position is from there, in the file; None when there is nothing to wait for."""
        from_ms = self.from_ms
        if self._ordered_for == self._playback.current_source or from_ms is None:
            return None
        return max(0, from_ms - self._playback.position_ms)

    def take_due(self, is_decoded: Callable[[SourceId], bool]) -> bool:
        """Whether it is to be opened now, because little of the current track is left; true once for each source.

        Endless streams have no next one to wait for.
        """
        playback = self._playback
        source = playback.current_source
        if source is None or source == self._ordered_for or playback.current.info.is_stream:
            return False
        from_ms = self.from_ms
        if not (from_ms is not None and playback.position_ms >= from_ms) and not is_decoded(source):
            return False
        self._ordered_for = source
        return True

    def _heard_before_end_ms(self) -> int:
        """How long before the current track's end, in time heard."""
        playback = self._playback
        if not self._has_listeners() and _is_known_file(playback.current):
            coming = playback.front_of_queue or playback.current
            if playback.loop_mode is LoopMode.TRACK or _is_known_file(coming):
                return OPEN_KNOWN_FILE_BEFORE_END_MS
        return OPEN_NEXT_BEFORE_END_MS


def _is_known_file(track: Track) -> bool:
    return track.is_known and track.uri.kind == "file"

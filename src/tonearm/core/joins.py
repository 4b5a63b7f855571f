"""The transition from a player's current track to the next one: when the next track is opened, and how the two
tracks crossfade."""

from collections.abc import Callable
from typing import Final, NamedTuple

from tonearm.core.crossfade import FadeTime, fade_at_end, fade_of_skip
from tonearm.core.events import PlayerState
from tonearm.core.play_queue import LoopMode, SourceId
from tonearm.core.playback_state import PlaybackState
from tonearm.core.track import Track

OPEN_NEXT_BEFORE_END_MS: Final = 10_000
# Without listeners, for a next track that is a file and was opened before. The player wakes to open it, and each second
# awake costs CPU time.
OPEN_KNOWN_FILE_BEFORE_END_MS: Final = 1_000
FADE_LEAD_MS: Final = 60  # of audio that plays before a plan that is made now can change it


class HeardSource(NamedTuple):
    """The source that listeners hear, at a position in its file."""

    source: SourceId
    track: Track
    position_ms: int


class Joins:
    """The transitions of one player. The opening of the next track is decided once for each current source."""

    def __init__(self, playback: PlaybackState) -> None:
        self._playback = playback
        self._ordered_for: SourceId | None = None
        # The position from which on this source may fade: its start, or the position when the crossfade was set.
        self._fading: SourceId | None = None
        self._fade_from_ms = 0

    # When the next track is opened

    def open_from_ms(self, *, has_listeners: bool) -> int | None:
        """The position from which on the next track is opened. 0 if listeners hear skips fade into it: no skip fades
        into a stream, whose sound would be old at the end. None without a known end."""
        playback = self._playback
        end_ms, settings = playback.current.known_end_ms, playback.crossfade
        if end_ms is None or playback.current.info.is_stream:
            return None
        coming = playback.front_of_queue or playback.current
        if has_listeners and settings.on_skip and settings.duration_ms and not coming.info.is_stream:
            return 0
        heard_before_end_ms = self._heard_before_end_ms(has_listeners=has_listeners) + settings.duration_ms
        return end_ms - int(heard_before_end_ms * playback.filters.effects.position_rate)

    def ms_until_opening(self, *, has_listeners: bool) -> int | None:
        """The distance from the position to `open_from_ms`; None without an end, or when the opening was decided."""
        from_ms = self.open_from_ms(has_listeners=has_listeners)
        if self._ordered_for == self._playback.current_source or from_ms is None:
            return None
        return max(0, from_ms - self._playback.position_ms)

    def take_opening(self, is_decoded: Callable[[SourceId], bool], *, has_listeners: bool) -> bool:
        """Whether to open the next track now, because little of the current track is left. True once for each source,
        never for an endless stream."""
        playback = self._playback
        source = playback.current_source
        if source is None or source == self._ordered_for or playback.current.info.is_stream:
            return False
        from_ms = self.open_from_ms(has_listeners=has_listeners)
        if not (from_ms is not None and playback.position_ms >= from_ms) and not is_decoded(source):
            return False
        self._ordered_for = source
        return True

    def opened_early(self, source: SourceId, is_decoded: Callable[[SourceId], bool], *, has_listeners: bool) -> bool:
        """To be called after `Playback.opened`. Whether the source is a stream that is next, and not to be opened yet.
        It is dropped then, and opened again in time."""
        next_track = self._playback.next_track
        if source != self._playback.next_source or next_track is None or not next_track.info.is_stream:
            return False
        self._ordered_for = None
        return not self.take_opening(is_decoded, has_listeners=has_listeners)

    def _heard_before_end_ms(self, *, has_listeners: bool) -> int:
        """How long before the current track's end the next track is opened, in playback time."""
        playback = self._playback
        if not has_listeners and _is_known_file(playback.current):
            coming = playback.front_of_queue or playback.current
            if playback.loop_mode is LoopMode.TRACK or _is_known_file(coming):
                return OPEN_KNOWN_FILE_BEFORE_END_MS
        return OPEN_NEXT_BEFORE_END_MS

    # The crossfade

    def next_fade(self) -> FadeTime | None:
        """How the current track fades into the next one, for the plan that is made now."""
        if self._playback.current_source != self._fading:
            self._fading, self._fade_from_ms = self._playback.current_source, self._playback.position_ms
        return self._next_fade

    @property
    def may_fade_yet(self) -> bool:
        """Whether a crossfade that is set now may begin late. False once the planned fade has begun."""
        fade, playback = self._next_fade, self._playback
        return playback.next_track is not None and (fade is None or fade.is_late or playback.position_ms < fade.at_ms)

    def fade_from_now(self) -> None:
        """To be called when a crossfade was set. If its start has passed, the rest of the fade begins now."""
        if self._playback.current_source == self._fading:
            self._fade_from_ms = self._playback.position_ms

    def source_opened(self, source: SourceId) -> None:
        """To be called before `Playback.opened`. A next source that is late for its fade gets the rest of it."""
        if source == self._playback.next_source:
            fade = self._next_fade
            if fade is not None and fade.is_late:
                self._fade_from_ms = max(self._fade_from_ms, self._soon_ms)

    def seek_failed(self, source: SourceId) -> None:
        """To be called after `Playback.seek_failed`: the source plays from its start."""
        if source == self._fading:
            self._fade_from_ms = self._soon_ms

    @property
    def sound(self) -> HeardSource | None:
        playback = self._playback
        source = playback.current_source
        if source is None or playback.state is not PlayerState.PLAYING:
            return None
        return HeardSource(source, playback.current, playback.position_ms)

    def fade_of_skip(self, skipped: HeardSource) -> FadeTime | None:
        """How the skipped track fades out under the current track; None when it ends at once."""
        playback = self._playback
        if playback.current_source is None:
            return None
        rate = playback.filters.effects.position_rate
        return fade_of_skip(playback.crossfade, skipped.track, skipped.position_ms, playback.current, rate)

    @property
    def _next_fade(self) -> FadeTime | None:
        playback = self._playback
        next_track = playback.next_track
        if next_track is None or not playback.crossfade.duration_ms:
            return None
        rate = playback.filters.effects.position_rate
        return fade_at_end(playback.crossfade, playback.current, next_track, rate, self._fade_from_ms)

    @property
    def _soon_ms(self) -> int:
        """The earliest position at which a fade that is planned now can begin."""
        playback = self._playback
        return playback.position_ms + int(FADE_LEAD_MS * playback.filters.effects.position_rate)


def _is_known_file(track: Track) -> bool:
    return track.is_known and track.uri.kind == "file"

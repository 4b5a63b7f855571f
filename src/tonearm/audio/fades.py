"""How a player's tracks fade into each other: the rules of `core.crossfade`, applied to what plays."""

from collections.abc import Callable
from typing import Final, NamedTuple

from tonearm.core.crossfade import CrossfadeSettings, FadeBegin, FadeTime, fade_at_end, fade_of_skip
from tonearm.core.events import PlayerState
from tonearm.core.frame import samples_of_ms
from tonearm.core.play_queue import Action, Drop, SourceId
from tonearm.core.playback import Outcome, Playback
from tonearm.core.track import Track
from tonearm.decoding.messages import Crossfade

FADE_LEAD_MS: Final = 60  # of time heard, until a plan that is made now can change the sound


class SkippedSound(NamedTuple):
    """The track that a skip ends in the middle of its sound."""

    source: SourceId
    track: Track
    position_ms: int


class Fades:
    """The crossfades of one player: the next one at the end of the current track, and those of skips."""

    def __init__(self, playback: Playback) -> None:
        self._playback = playback
        self._begin = FadeBegin()

    def next_crossfade(self) -> Crossfade | None:
        """How the current track fades into the next one, for the plan that is made now."""
        playback = self._playback
        self._begin.follow(playback.current_source, playback.position_ms)
        return _crossfade(self._next_fade, playback.crossfade)

    def source_opened(self, source: SourceId) -> None:
        """To be called before the playback learns it. A next source that is late for its fade gets the rest of it."""
        if source == self._playback.next_source:
            fade = self._next_fade
            if fade is not None and fade.is_rest:
                self._begin.from_ms = max(self._begin.from_ms, self._soon_ms)

    def seek_failed(self, source: SourceId) -> None:
        """The source plays from its start. To be called when the playback has learned it."""
        if source == self._begin.source:
            self._begin.from_ms = self._soon_ms

    def change(self, change: Callable[[], Outcome]) -> Outcome:
        """Makes a change by which the crossfade may begin earlier. If its time has passed then, its rest begins now."""
        may_fade_yet = self._may_fade_yet
        outcome = change()
        if may_fade_yet and self._playback.current_source == self._begin.source:
            self._begin.from_ms = self._playback.position_ms
        return outcome

    def sound_to_skip(self) -> SkippedSound | None:
        """What sounds now, before a skip ends it."""
        playback = self._playback
        source = playback.current_source
        if source is None or playback.state is not PlayerState.PLAYING:
            return None
        return SkippedSound(source, playback.current, playback.position_ms)

    def of_skip(self, skipped: SkippedSound, actions: tuple[Action, ...]) -> Crossfade | None:
        """How the skipped track fades out under the current one: only where that one is open already."""
        playback = self._playback
        if playback.current_source is None or any(not isinstance(action, Drop) for action in actions):
            return None
        rate = playback.filters.effects.position_rate
        time = fade_of_skip(playback.crossfade, skipped.track, skipped.position_ms, playback.current, rate)
        return _crossfade(time, playback.crossfade)

    @property
    def _next_fade(self) -> FadeTime | None:
        playback = self._playback
        next_track = playback.next_track
        if next_track is None or not playback.crossfade.duration_ms:
            return None
        rate = playback.filters.effects.position_rate
        return fade_at_end(playback.crossfade, playback.current, next_track, rate, self._begin.from_ms)

    @property
    def _may_fade_yet(self) -> bool:
        """Whether a crossfade that is asked for now may begin late. Not when the next track itself was late for one."""
        fade, playback = self._next_fade, self._playback
        return playback.next_track is not None and (fade is None or fade.is_rest or playback.position_ms < fade.at_ms)

    @property
    def _soon_ms(self) -> int:
        """The position that a fade which is asked for now can begin at."""
        playback = self._playback
        return playback.position_ms + int(FADE_LEAD_MS * playback.filters.effects.position_rate)


def _crossfade(time: FadeTime | None, settings: CrossfadeSettings) -> Crossfade | None:
    if time is None:
        return None
    return Crossfade(samples_of_ms(time.at_ms), samples_of_ms(time.duration_ms), settings.curve.value, time.is_rest)

"""The rules of a player's overlays, which play over the current track: a state machine without I/O and without a clock.

Each overlay has its own source. `player.player_overlays` opens the source, reports about it by its number, and gets the
resulting events. A report about an unknown or past number changes nothing. An overlay has two states:

  LOADING   until its source has given audio (`got_audio`) and the first frame with it is about to be sent (`began`).
            Overlays that were added together wait for each other, so that they begin with the same frame.
  PLAYING   until the last frame with it was sent (`ended`), its source failed (`failed`), or it was removed (`remove`)
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tonearm.core.errors import BadRequest, LimitReached, OverlayNotFound
from tonearm.core.events import Event, OverlayEnd, OverlayEndReason, OverlayException, OverlayStart
from tonearm.core.failure import ENDED_WITHOUT_AUDIO, PlayFailure
from tonearm.core.play_queue import SourceId
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

MAX_OVERLAYS: Final = 8
OVERLAY_VOLUME_MAX: Final = 5.0
DUCK_MIN_DB: Final = -60.0
FADE_MAX_MS: Final = 2_000


class OverlayState(StrEnum):
    """Whether a frame with the overlay was sent yet."""

    LOADING = "loading"
    PLAYING = "playing"


@dataclass(frozen=True, slots=True)
class OverlaySettings:
    """How an overlay sounds. `volume` is linear. The gain of the music changes by `duck_db` (at most 0) while the
    overlay sounds; each change takes `fade_ms`."""

    volume: float = 1.0
    duck_db: float = -12.0
    fade_ms: int = 150

    def checked(self, place: str = "") -> "OverlaySettings":
        """These settings. Raises BadRequest when a value is out of its range; `place` is put before its name."""
        if not 0 <= self.volume <= OVERLAY_VOLUME_MAX:  # NaN is in no range either
            raise BadRequest(f"`{place}volume` must lie between 0 and {OVERLAY_VOLUME_MAX:g}.")
        if not DUCK_MIN_DB <= self.duck_db <= 0:
            raise BadRequest(f"`{place}duckDb` must lie between {DUCK_MIN_DB:g} and 0.")
        if not 0 <= self.fade_ms <= FADE_MAX_MS:
            raise BadRequest(f"`{place}fadeMs` must lie between 0 and {FADE_MAX_MS}.")
        return self


@dataclass(frozen=True, slots=True)
class OverlayStatus:
    """An overlay at one moment. `position_ms` is the position in its file."""

    id: str
    track: Track
    settings: OverlaySettings
    state: OverlayState
    position_ms: int


@dataclass(slots=True)
class _Overlay:
    track: Track
    settings: OverlaySettings
    first_of_group: SourceId  # the first source of the group that begins together
    state: OverlayState = field(default=OverlayState.LOADING)
    has_audio: bool = False
    failure: PlayFailure | None = None  # ends the overlay after the audio that was decoded before it


@dataclass(frozen=True, slots=True)
class ReadyOverlay:
    """An overlay that may play, because its whole group has audio."""

    source: SourceId
    track: Track
    settings: OverlaySettings


class Overlays:
    """All overlays of one player. An overlay has the id of its track; sources are numbered from `first_source` on."""

    def __init__(self, first_source: SourceId) -> None:
        self._next_source = first_source
        self._overlays: dict[SourceId, _Overlay] = {}

    def __len__(self) -> int:
        return len(self._overlays)

    @property
    def sources(self) -> tuple[SourceId, ...]:
        """The sources of all overlays, oldest first."""
        return tuple(self._overlays)

    @property
    def ready(self) -> Iterator[ReadyOverlay]:
        """The overlays that may play, oldest first."""
        waiting = {overlay.first_of_group for overlay in self._overlays.values() if not overlay.has_audio}
        return (
            ReadyOverlay(source, overlay.track, overlay.settings)
            for source, overlay in self._overlays.items()
            if overlay.first_of_group not in waiting
        )

    @property
    def without_audio(self) -> tuple[SourceId, ...]:
        """The sources that have given no audio yet."""
        return tuple(source for source, overlay in self._overlays.items() if not overlay.has_audio)

    def track(self, source: SourceId) -> Track:
        return self._overlays[source].track

    def status(self, source: SourceId, position_ms: int) -> OverlayStatus:
        overlay = self._overlays[source]
        return OverlayStatus(overlay.track.id, overlay.track, overlay.settings, overlay.state, position_ms)

    def source_of(self, overlay_id: str) -> SourceId:
        """The source of an overlay. Raises OverlayNotFound."""
        for source, overlay in self._overlays.items():
            if overlay.track.id == overlay_id:
                return source
        raise OverlayNotFound("The player has no overlay with this id; GET its overlays lists them.")

    # Requests of clients

    def add(self, *new: tuple[Track, OverlaySettings]) -> tuple[SourceId, ...]:
        """Adds overlays that begin with the same frame, and returns their sources, which the caller opens.

        Raises LimitReached before anything is changed.
        """
        if len(self._overlays) + len(new) > MAX_OVERLAYS:
            has = f"The player has {len(self._overlays)} overlays, and " if self._overlays else ""
            raise LimitReached(f"{has}{MAX_OVERLAYS} can play at once; remove one, wait, or send fewer.")
        first = self._next_source
        self._next_source += len(new)
        sources = tuple(range(first, self._next_source))
        for source, (track, settings) in zip(sources, new, strict=True):
            self._overlays[source] = _Overlay(track, settings, first)
        return sources

    def remove(self, overlay_id: str) -> tuple[Event, ...]:
        """Removes an overlay. Raises OverlayNotFound."""
        return self._end(self.source_of(overlay_id), OverlayEndReason.STOPPED)

    def remove_all(self) -> tuple[Event, ...]:
        return tuple(event for source in self.sources for event in self._end(source, OverlayEndReason.STOPPED))

    # Reports about sources

    def opened(self, source: SourceId, facts: SourceFacts) -> None:
        overlay = self._overlays.get(source)
        if overlay is not None:
            overlay.track = overlay.track.with_facts(facts)

    def got_audio(self, source: SourceId) -> bool:
        """Notes the first audio of the source. Returns False for an unknown source and for repeated reports."""
        overlay = self._overlays.get(source)
        if overlay is None or overlay.has_audio:
            return False
        overlay.has_audio = True
        return True

    def decoded(self, source: SourceId) -> tuple[Event, ...]:
        """Handles the end of decoding. A source that gave no audio by then has failed."""
        overlay = self._overlays.get(source)
        if overlay is None or overlay.has_audio:
            return ()
        return self.failed(source, ENDED_WITHOUT_AUDIO)

    def began(self, source: SourceId) -> tuple[Event, ...]:
        """To be called before the first frame with the overlay is sent."""
        overlay = self._overlays.get(source)
        if overlay is None or overlay.state is OverlayState.PLAYING:
            return ()
        overlay.state = OverlayState.PLAYING
        return (OverlayStart(overlay.track.id),)

    def interrupted(self, source: SourceId, failure: PlayFailure) -> None:
        """Notes a failure after the first audio. The decoded audio still plays; `ended` then reports the failure."""
        overlay = self._overlays.get(source)
        if overlay is not None:
            overlay.failure = failure

    def failed(self, source: SourceId, failure: PlayFailure) -> tuple[Event, ...]:
        """Ends the overlay at once because of `failure`. Decoded audio that was not sent is dropped."""
        overlay = self._overlays.get(source)
        if overlay is None:
            return ()
        return (OverlayException(overlay.track.id, failure), *self._end(source, OverlayEndReason.LOAD_FAILED))

    def ended(self, source: SourceId) -> tuple[Event, ...]:
        """To be called after the last frame with the overlay was sent."""
        overlay = self._overlays.get(source)
        if overlay is None:
            return ()
        if overlay.failure is not None:
            return self.failed(source, overlay.failure)
        return self._end(source, OverlayEndReason.FINISHED)

    def _end(self, source: SourceId, reason: OverlayEndReason) -> tuple[Event, ...]:
        overlay = self._overlays.pop(source)
        return (OverlayEnd(overlay.track.id, reason),)

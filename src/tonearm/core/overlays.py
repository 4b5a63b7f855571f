"""The rules of a player's overlays: sounds over whatever plays. A state machine without I/O and without a clock.

Each overlay has a source of its own. `player.player_overlays` opens the source, reports about it by its number, and
gets the events that follow. A report about a number that is not known (any more) changes nothing. The states of an
overlay:

  LOADING   until the source has given its first audio (`ready`) and the first frame with it is sent (`began`). Overlays
            that were added together wait for each other, so that they begin with the same frame
  PLAYING   until the last frame with it was sent (`ended`), it failed (`failed`), or it was taken away (`remove`)
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
    """Whether a frame of an overlay was sent yet."""

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
    first_of_group: SourceId  # the first source of the overlays that begin together
    state: OverlayState = field(default=OverlayState.LOADING)
    has_audio: bool = False
    failure: PlayFailure | None = None  # ends the overlay once the audio decoded before has sounded


@dataclass(frozen=True, slots=True)
class ReadyOverlay:
    """An overlay that may sound: its whole group has audio."""

    source: SourceId
    track: Track
    settings: OverlaySettings


class Overlays:
    """All overlays of one player. Their ids are those of their tracks; sources are numbered from `first_source` on."""

    def __init__(self, first_source: SourceId) -> None:
        self._next_source = first_source
        self._overlays: dict[SourceId, _Overlay] = {}

    def __len__(self) -> int:
        return len(self._overlays)

    def __contains__(self, source: SourceId) -> bool:
        return source in self._overlays

    @property
    def sources(self) -> tuple[SourceId, ...]:
        """The sources of all overlays, oldest first."""
        return tuple(self._overlays)

    @property
    def ready(self) -> Iterator[ReadyOverlay]:
        """The overlays that may sound, oldest first."""
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

    def track(self, source: SourceId) -> Track | None:
        overlay = self._overlays.get(source)
        return None if overlay is None else overlay.track

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
        """The source gave its first audio. False when that was known before."""
        overlay = self._overlays.get(source)
        if overlay is None or overlay.has_audio:
            return False
        overlay.has_audio = True
        return True

    def decoded(self, source: SourceId) -> tuple[Event, ...]:
        """The source was decoded to its end."""
        overlay = self._overlays.get(source)
        if overlay is None or overlay.has_audio:
            return ()
        return self.failed(source, ENDED_WITHOUT_AUDIO)

    def began(self, source: SourceId) -> tuple[Event, ...]:
        """The first frame with the overlay is about to be sent."""
        overlay = self._overlays.get(source)
        if overlay is None or overlay.state is OverlayState.PLAYING:
            return ()
        overlay.state = OverlayState.PLAYING
        return (OverlayStart(overlay.track.id),)

    def interrupted(self, source: SourceId, failure: PlayFailure) -> None:
        """The source gives no more audio because of `failure`. The audio that it gave is still heard."""
        overlay = self._overlays.get(source)
        if overlay is not None:
            overlay.failure = failure

    def failed(self, source: SourceId, failure: PlayFailure) -> tuple[Event, ...]:
        """The source gives no more audio because of `failure`. The audio that it gave is not heard."""
        overlay = self._overlays.get(source)
        if overlay is None:
            return ()
        return (OverlayException(overlay.track.id, failure), *self._end(source, OverlayEndReason.LOAD_FAILED))

    def ended(self, source: SourceId) -> tuple[Event, ...]:
        """The last frame with the overlay was sent."""
        overlay = self._overlays.get(source)
        if overlay is None:
            return ()
        if overlay.failure is not None:
            return self.failed(source, overlay.failure)
        return self._end(source, OverlayEndReason.FINISHED)

    def _end(self, source: SourceId, reason: OverlayEndReason) -> tuple[Event, ...]:
        overlay = self._overlays.pop(source)
        return (OverlayEnd(overlay.track.id, reason),)

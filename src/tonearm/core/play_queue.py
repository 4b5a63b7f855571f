"""What plays, what waits, and which sources are open for it. Knows nothing of events, pause or clock.

A list of sources that stands where one source was expected.

Which track comes next: the one place where loop mode and the reason of an end are weighed.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, TypeAlias, TypeVar

from tonearm.core.failure import PlayFailure
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track

SourceId: TypeAlias = int  # 1, 2, 3 … in one player; every try to open a track has its own


@dataclass(frozen=True, slots=True)
class Open:
    """Open the track's URI after `delay_s` seconds and report about it under `source`."""

    source: SourceId
    track: Track
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing of `source` is wanted any more, however far it came."""

    source: SourceId


Action: TypeAlias = Open | Drop


@dataclass(frozen=True, slots=True)
class PlaylistEntry:
    """`title` is what the playlist calls the track, clean; None when it does not."""

    uri: SourceUri
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Playlist:
    """At least one entry, in order; each passed the form check and the policy."""

    entries: tuple[PlaylistEntry, ...]


TrackT = TypeVar("TrackT")


class LoopMode(StrEnum):
    """What comes again at its end: nothing, the track, or the whole queue."""

    NONE = "none"
    TRACK = "track"
    QUEUE = "queue"


class EndReason(StrEnum):
    """Why a track ended."""

    FINISHED = "finished"
    SKIPPED = "skipped"
    LOAD_FAILED = "loadFailed"
    STOPPED = "stopped"  # the player was deleted
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Selection(Generic[TrackT]):
    """What plays next (None: nothing, the player is idle) and what waits after it was taken."""

    track: TrackT | None
    waiting: tuple[TrackT, ...]


def select_next(
    mode: LoopMode,
    reason: EndReason,
    current: TrackT,
    waiting: tuple[TrackT, ...],
    *,
    drops_current: bool = False,
) -> Selection[TrackT]:
    """The selection after `current` ended for `reason`.

    `drops_current` is for a track that never gave audio: no loop brings it back. A deleted player selects nothing.
    """
    if reason is EndReason.STOPPED:
        return Selection(None, waiting)
    repeats = mode is LoopMode.TRACK and reason in (EndReason.FINISHED, EndReason.LOAD_FAILED)
    if repeats and not drops_current:
        return Selection(current, waiting)
    goes_back = mode is LoopMode.QUEUE and not drops_current
    line = (*waiting, current) if goes_back else waiting
    return Selection(line[0], line[1:]) if line else Selection(None, ())


_LONGEST_DELAY_S: Final = 30.0
_DOUBLINGS_BELOW_LONGEST: Final = 4  # 1, 2, 4, 8, 16, then 30


@dataclass(slots=True, eq=False)
class QueuedTrack:
    """A track in a player, the same object wherever a loop moves it.

    `gave_audio`: it has sounded in this player at least once. `failures`: its failed tries since it last gave audio.
    """

    track: Track
    gave_audio: bool = False
    failures: int = 0

    @property
    def retry_delay_s(self) -> float:
        """How long to wait before the next try: 0 without failures, then 1, 2, 4, 8, 16, 30, 30 … seconds."""
        if not self.gave_audio or self.failures == 0:
            return 0.0
        doublings = self.failures - 1
        return float(2**doublings) if doublings <= _DOUBLINGS_BELOW_LONGEST else _LONGEST_DELAY_S


@dataclass(slots=True, eq=False)
class Load:
    """One try to open a track. `failure` is kept until it is told; a failed source is gone."""

    source: SourceId
    entry: QueuedTrack
    delay_s: float
    is_opened: bool = False
    has_started: bool = False  # its TrackStart was told
    failure: PlayFailure | None = None
    stream_title: str | None = None  # what was heard last; opening the source again does not know it

    @property
    def may_still_wait(self) -> bool:
        """True when the shell may still be waiting out the delay."""
        return self.delay_s > 0 and not self.is_opened and self.failure is None


@dataclass(slots=True)
class PlayQueue:
    """The selected track, the waiting ones, and the two sources that can be open.

    `sounding` plays the selected track, `following` is opened ahead for the one that comes after it. What is to be
    opened and dropped is gathered until `take_actions`.
    """

    current: QueuedTrack
    waiting: tuple[QueuedTrack, ...] = ()
    loop_mode: LoopMode = LoopMode.NONE
    sounding: Load | None = None
    following: Load | None = None
    _is_next_due: bool = False
    _last_source: SourceId = 0
    _actions: list[Action] = field(default_factory=list)

    def attempt(self, source: SourceId) -> Load | None:
        """The sounding or following source with this number."""
        if self.following is not None and self.following.source == source:
            return self.following
        return self.sounding_attempt(source)

    def sounding_attempt(self, source: SourceId) -> Load | None:
        return self.sounding if self.sounding is not None and self.sounding.source == source else None

    def after_current(self, reason: EndReason, *, drops_current: bool = False) -> Selection[QueuedTrack]:
        return select_next(self.loop_mode, reason, self.current, self.waiting, drops_current=drops_current)

    def put_forward(self, entry: QueuedTrack) -> Load:
        """Makes `entry` the current track. A source opened ahead for it is taken over, whatever came of it."""
        self.current = entry
        self.drop_sounding()
        if self.following is None or self.following.entry is not entry:
            return self.open_current(entry.retry_delay_s)
        self.sounding, self.following = self.following, None
        self._is_next_due = False
        return self.sounding

    def open_current(self, delay_s: float = 0.0) -> Load:
        """Opens the current track anew."""
        self.drop_all()
        self.sounding = self._open(self.current, delay_s)
        return self.sounding

    def replace_current(self, entries: tuple[QueuedTrack, ...]) -> None:
        """The sounding source is gone and was a playlist: its first entry is opened in its place, the others wait."""
        self.current, *others = entries
        self.waiting = (*others, *self.waiting)
        self.sounding = self._open(self.current, 0.0)
        self.revise_following()

    def replace_following(self, entries: tuple[QueuedTrack, ...]) -> bool:
        """The following source is gone and was a playlist: its entries wait in its place. False when it does not wait:
        a loop would have brought the current track again."""
        container = None if self.following is None else self.following.entry
        if container is None or container not in self.waiting:
            return False
        place = self.waiting.index(container)
        self.waiting = (*self.waiting[:place], *entries, *self.waiting[place + 1 :])
        self.following = None
        self.revise_following()
        return True

    def make_next_due(self) -> None:
        """From now on what comes next is kept opened, until another track is put forward."""
        self._is_next_due = self.sounding is not None
        self.revise_following()

    def revise_following(self) -> None:
        """Opens what comes next when that is due, and drops what no longer comes next."""
        wanted = self.after_current(EndReason.FINISHED).track if self._is_next_due else None
        if self.following is not None and self.following.entry is not wanted:
            self._drop_following()
        # A track that has to wait for its next try is opened when its turn comes.
        if wanted is not None and self.following is None and wanted.retry_delay_s == 0:
            self.following = self._open(wanted, 0.0)

    def forget_sounding(self) -> None:
        """The sounding source is gone by itself."""
        self.sounding = None

    def drop_sounding(self) -> None:
        self._drop(self.sounding)
        self.sounding = None

    def drop_all(self) -> None:
        self.drop_sounding()
        self._drop_following()
        self._is_next_due = False

    def take_actions(self) -> tuple[Action, ...]:
        actions = tuple(self._actions)
        self._actions.clear()
        return actions

    def _drop_following(self) -> None:
        self._drop(self.following)
        self.following = None

    def _open(self, entry: QueuedTrack, delay_s: float) -> Load:
        self._last_source += 1
        self._actions.append(Open(self._last_source, entry.track, delay_s))
        return Load(self._last_source, entry, delay_s)

    def _drop(self, attempt: Load | None) -> None:
        if attempt is not None and attempt.failure is None:
            self._actions.append(Drop(attempt.source))

"""A player's tracks: the current one, the queue behind it, the played ones, and the sources that are open for them.

`select_next` alone decides which track follows, by the loop mode and the reason of the end. This module does not deal
with events, pauses or time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

from tonearm.core.failure import PlayError, PlayFailure
from tonearm.core.source_uri import SourceUri
from tonearm.core.splices import splice_of
from tonearm.core.track import NO_METADATA, Track

# The selection of the next track


class LoopMode(StrEnum):
    """What a player repeats: nothing, the current track, or the whole queue."""

    NONE = "none"
    TRACK = "track"
    QUEUE = "queue"


class EndReason(StrEnum):
    """Why a track ended."""

    FINISHED = "finished"
    SKIPPED = "skipped"
    LOAD_FAILED = "loadFailed"
    STOPPED = "stopped"  # the player was stopped or deleted
    REPLACED = "replaced"


TrackT = TypeVar("TrackT")


@dataclass(frozen=True, slots=True)
class Selection(Generic[TrackT]):
    """The track that plays next, and the queue without it. A track of None: the player becomes idle."""

    track: TrackT | None
    queue: tuple[TrackT, ...]


def select_next(
    mode: LoopMode,
    reason: EndReason,
    current: TrackT,
    queue: tuple[TrackT, ...],
    *,
    drops_current: bool = False,
) -> Selection[TrackT]:
    """The selection after `current` ended for `reason`.

    `drops_current` is for a track that never gave audio: no loop brings it back. A stopped player selects nothing.
    """
    if reason is EndReason.STOPPED:
        return Selection(None, queue)
    repeats = mode is LoopMode.TRACK and reason in (EndReason.FINISHED, EndReason.LOAD_FAILED)
    if repeats and not drops_current:
        return Selection(current, queue)
    goes_back = mode is LoopMode.QUEUE and not drops_current
    candidates = (*queue, current) if goes_back else queue
    return Selection(candidates[0], candidates[1:]) if candidates else Selection(None, ())


# Sources that contain several tracks

MAX_REASONS: Final = 20  # for leaving out entries of a playlist


@dataclass(frozen=True, slots=True)
class PlaylistEntry:
    """An entry of a playlist, with the facts that the playlist gives. Texts are printable.

    `title` is None, `author` empty and `length_ms` 0 when the playlist does not give them. `is_part`: the entry is one
    of several parts of a file, so the file's tags do not describe it alone. `has_own_tags`: the entry is a file, whose
    tags may give more facts than the playlist.
    """

    uri: SourceUri
    title: str | None = None
    author: str = ""
    is_part: bool = False
    length_ms: int = 0
    artwork_url: str | None = None
    has_own_tags: bool = False
    isrc: str | None = None

    def track(self, track_id: str, metadata_json: bytes, lists: tuple[str, ...] = ("",)) -> Track:
        """The track of this entry, with these `lists`. It has the playlist's title until it is opened."""
        track = Track.create(track_id, self.uri, metadata_json)
        info = replace(
            track.info,
            title=track.info.title if self.title is None else self.title,
            author=self.author,
            length_ms=self.length_ms,
            artwork_url=self.artwork_url,
            isrc=self.isrc,
        )
        keeps_names = self.is_part and self.title is not None
        return replace(track, info=info, lists=lists, keeps_names=keeps_names, has_own_tags=self.has_own_tags)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many entries of a playlist were left out, and why: at most `MAX_REASONS` different sentences."""

    count: int = 0
    reasons: tuple[str, ...] = ()

    @classmethod
    def because(cls, count: int, reasons: Iterable[str]) -> "LeftOut":
        """`count` entries were left out for `reasons`, each of which is given once; only the first ones are kept."""
        return cls(count, tuple(islice(reasons, MAX_REASONS)))


@dataclass(frozen=True, slots=True)
class Playlist:
    """A playlist of at least one entry, in order. Each entry passed the form check and the policy; the others are in
    `left_out`.

    `name` is empty when the playlist has none. `selected` is the index of the entry that the URI itself names, or None.
    Only some playlists give an `author`, an `artwork_url` and a `total` of tracks.
    """

    entries: tuple[PlaylistEntry, ...]
    left_out: LeftOut = field(default_factory=LeftOut)
    name: str = ""
    selected: int | None = None
    author: str = ""
    artwork_url: str | None = None
    total: int = 0

    def tracks(
        self, new_id: Callable[[], object], metadata_json: bytes = NO_METADATA, lists: tuple[str, ...] = ("",)
    ) -> tuple[Track, ...]:
        """A track with a new id for each entry; `lists` as in `Track`."""
        return tuple(entry.track(str(new_id()), metadata_json, lists) for entry in self.entries)


class NothingFound(PlayError):
    """A search found no result that may be played. `left_out` are the results that the policy refuses."""

    def __init__(self, failure: PlayFailure, left_out: LeftOut) -> None:
        super().__init__(failure)
        self.left_out = left_out


# Actions for the engine

SourceId: TypeAlias = int  # 1, 2, 3 … in one player; each attempt to open a track has its own


@dataclass(frozen=True, slots=True)
class OpenAction:
    """Open the track's URI after `delay_s` seconds, play it from the position `start_ms` of the file to the track's
    end, and report about it under `source`."""

    source: SourceId
    track: Track
    delay_s: float = 0.0
    start_ms: int = 0


@dataclass(frozen=True, slots=True)
class SeekAction:
    """Continue `source` at the position `start_ms` of its file, and report about it under `new_source`. A source that
    still waits for its delay is opened at once."""

    source: SourceId
    new_source: SourceId
    start_ms: int


@dataclass(frozen=True, slots=True)
class DropAction:
    """Close `source` and free all of its resources, whatever it is doing."""

    source: SourceId


Action: TypeAlias = OpenAction | SeekAction | DropAction


# The queue itself

_LONGEST_DELAY_S: Final = 30.0
_DOUBLINGS_BELOW_LONGEST: Final = 4  # 1, 2, 4, 8, 16, then 30


@dataclass(slots=True, eq=False)
class QueuedTrack:
    """A track in a player: one object for its whole stay, wherever a loop moves it.

    `gave_audio`: this player has sent a frame of it. `failures`: its failed attempts since then. `is_read`: reading its
    tags ahead, while it waited, has succeeded or failed.
    """

    track: Track
    gave_audio: bool = False
    failures: int = 0
    is_read: bool = False

    @property
    def is_unread(self) -> bool:
        """Whether its tags were not read yet and may give more facts."""
        track = self.track
        return not (self.is_read or track.is_known) and (track.has_own_tags or not track.info.length_ms)

    @property
    def retry_delay_s(self) -> float:
        """The delay before the next attempt: 1, 2, 4, 8, 16, 30, 30 … seconds, by the number of failures. 0 without
        failures, and for a track that never gave audio."""
        if not self.gave_audio or self.failures == 0:
            return 0.0
        doublings = self.failures - 1
        return float(2**doublings) if doublings <= _DOUBLINGS_BELOW_LONGEST else _LONGEST_DELAY_S


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt to open and play a track from `start_ms` on, by one source.

    A `failure` is kept until the track should play; the failed source is gone. An attempt that a seek made inherits
    `has_started` from the attempt before it.
    """

    source: SourceId
    queued_track: QueuedTrack
    delay_s: float
    start_ms: int
    is_opened: bool = False
    has_started: bool = False  # the TrackStart was emitted
    failure: PlayFailure | None = None
    seek_refusal: str | None = None  # why it plays from the file's start, until the track that was next starts
    stream_title: str | None = None  # the last title; a stream that is opened again does not repeat it

    @property
    def may_be_delayed(self) -> bool:
        """Whether the delay before opening may not be over yet."""
        return self.delay_s > 0 and not self.is_opened and not self.has_started and self.failure is None

    @property
    def is_sought(self) -> bool:
        """Whether it begins at another position than the track."""
        return self.start_ms != self.queued_track.track.start_ms


@dataclass(slots=True)
class PlayQueue:
    """`current` is the selected track, `tracks` the queue behind it, front first.

    Two sources can be open: `current_attempt` plays the current track, and `next_attempt` is opened ahead for the track
    after it. Actions for the engine are collected until `take_actions`. `set_tracks` changes `tracks`; `version` counts
    these changes, and `waiting_bytes` is the size of all `tracks`.
    """

    current: QueuedTrack
    tracks: tuple[QueuedTrack, ...] = ()
    version: int = 0
    waiting_bytes: int = 0
    loop_mode: LoopMode = LoopMode.NONE
    current_attempt: Attempt | None = None
    next_attempt: Attempt | None = None
    _is_next_due: bool = False
    _last_source: SourceId = 0
    _actions: list[Action] = field(default_factory=list)

    def attempt(self, source: SourceId) -> Attempt | None:
        """The current or the next attempt, if it has this number."""
        if self.next_attempt is not None and self.next_attempt.source == source:
            return self.next_attempt
        return self.attempt_of_current(source)

    def attempt_of_current(self, source: SourceId) -> Attempt | None:
        """The current attempt, if it has this number."""
        attempt = self.current_attempt
        return attempt if attempt is not None and attempt.source == source else None

    def set_tracks(self, tracks: tuple[QueuedTrack, ...]) -> bool:
        """Sets the queue. Returns whether the queue has changed."""
        splice = splice_of(self.tracks, tracks)
        if splice.is_change:
            self.tracks = tracks
            self.version += 1
            self.waiting_bytes += _bytes_of(splice.added) - _bytes_of(splice.dropped) - _bytes_of(splice.removed)
        return splice.is_change

    def unread(self, depth: int, first: int = 0) -> QueuedTrack | None:
        """The first of `depth` waiting tracks, from the index `first` on, that is neither read nor being opened to be
        played."""
        opened = None if self.next_attempt is None else self.next_attempt.queued_track
        return next(
            (track for track in self.tracks[first : first + depth] if track.is_unread and track is not opened), None
        )

    def selection_after(self, reason: EndReason, *, drops_current: bool = False) -> Selection[QueuedTrack]:
        return select_next(self.loop_mode, reason, self.current, self.tracks, drops_current=drops_current)

    def make_current(self, queued_track: QueuedTrack) -> Attempt:
        """Makes a track current. A next attempt for this track, failed or not, becomes the current attempt."""
        is_open = self.next_attempt is not None and self.next_attempt.queued_track is queued_track
        if is_open or queued_track is not self.current:
            self.drop_current_attempt()
        self.current = queued_track
        if not is_open:
            return self.open_current(queued_track.retry_delay_s)
        assert self.next_attempt is not None
        self.current_attempt, self.next_attempt = self.next_attempt, None
        self._is_next_due = False
        return self.current_attempt

    def open_current(self, delay_s: float = 0.0, start_ms: int | None = None) -> Attempt:
        """Loads the current track anew, from its start or from `start_ms` on."""
        self.forget_due()
        self.current_attempt = self._open_again(delay_s, start_ms)
        return self.current_attempt

    def seek_current(self, start_ms: int) -> None:
        """Loads the current track, which has an attempt, again from `start_ms` on. The next attempt stays as it is."""
        before = self.current_attempt
        assert before is not None, "only a track that is loaded can be sought"
        self.current_attempt = self._open_again(0.0, start_ms)
        self.current_attempt.has_started = before.has_started
        self.current_attempt.stream_title = before.stream_title

    def forget_due(self) -> None:
        """Drops the next attempt, because the next track is not due any more."""
        self._drop_next_attempt()
        self._is_next_due = False

    def replace_current(self, entries: tuple[QueuedTrack, ...]) -> None:
        """Loads the first entry of a playlist instead of the current source, which is gone, and queues the others."""
        sought = self.current_attempt if self.current_attempt is not None and self.current_attempt.is_sought else None
        self.current, *others = entries
        self.set_tracks((*others, *self.tracks))
        self.current_attempt = self._open(self.current, 0.0, None if sought is None else sought.start_ms)
        self.revise_next()

    def replace_next(self, entries: tuple[QueuedTrack, ...]) -> bool:
        """Puts the entries of a playlist in its place in the queue. The next source, which was the playlist, is gone.

        Returns False when the playlist is not in the queue, because a loop would have repeated the current track.
        """
        playlist = None if self.next_attempt is None else self.next_attempt.queued_track
        if playlist is None or playlist not in self.tracks:
            return False
        place = self.tracks.index(playlist)
        self.set_tracks((*self.tracks[:place], *entries, *self.tracks[place + 1 :]))
        self.next_attempt = None
        self.revise_next()
        return True

    def make_next_due(self) -> None:
        """Keeps the next track open from now on, until another track becomes current."""
        self._is_next_due = self.current_attempt is not None
        self.revise_next()

    def revise_next(self) -> None:
        """Loads the next track if it is due, and drops the attempt of a track that is not next any more."""
        wanted = self.selection_after(EndReason.FINISHED).track if self._is_next_due else None
        if self.next_attempt is not None and self.next_attempt.queued_track is not wanted:
            self._drop_next_attempt()
        # A track with a delay before its retry is opened only when it becomes the current one.
        if wanted is not None and self.next_attempt is None and wanted.retry_delay_s == 0:
            self.next_attempt = self._open(wanted, 0.0)

    def drop_current_attempt(self) -> None:
        self._drop(self.current_attempt)
        self.current_attempt = None

    def drop_all(self) -> None:
        """Drops both attempts. The next track is not due any more."""
        self.drop_current_attempt()
        self.forget_due()

    def take_actions(self) -> tuple[Action, ...]:
        """The actions since the last call, in order."""
        actions = tuple(self._actions)
        self._actions.clear()
        return actions

    def _drop_next_attempt(self) -> None:
        self._drop(self.next_attempt)
        self.next_attempt = None

    def _open(self, queued_track: QueuedTrack, delay_s: float, start_ms: int | None = None) -> Attempt:
        attempt = self._attempt(queued_track, delay_s, start_ms)
        self._actions.append(OpenAction(attempt.source, queued_track.track, delay_s, attempt.start_ms))
        return attempt

    def _open_again(self, delay_s: float, start_ms: int | None) -> Attempt:
        """Loads the current track from its start or from `start_ms`: by a seek if its source can continue, else
        anew."""
        before = self.current_attempt
        if before is None or before.failure is not None or delay_s:
            self._drop(before)
            return self._open(self.current, delay_s, start_ms)
        attempt = self._attempt(self.current, 0.0, start_ms)
        self._actions.append(SeekAction(before.source, attempt.source, attempt.start_ms))
        return attempt

    def _attempt(self, queued_track: QueuedTrack, delay_s: float, start_ms: int | None) -> Attempt:
        self._last_source += 1
        start_ms = queued_track.track.start_ms if start_ms is None else start_ms
        return Attempt(self._last_source, queued_track, delay_s, start_ms)

    def _drop(self, attempt: Attempt | None) -> None:
        if attempt is not None and attempt.failure is None:
            self._actions.append(DropAction(attempt.source))


def _bytes_of(tracks: tuple[QueuedTrack, ...]) -> int:
    return sum(queued_track.track.waiting_bytes for queued_track in tracks)


MAX_PLAYED: Final = 50


@dataclass(frozen=True, slots=True)
class PlayedTrack:
    """A track that ended. `ended_at_ms` is the time of day since 1970. `sounded`: a frame of it was sent."""

    queued_track: QueuedTrack
    ended_at_ms: int
    reason: EndReason
    sounded: bool

    @property
    def track(self) -> Track:
        return self.queued_track.track


class History:
    """At most `MAX_PLAYED` played tracks. A track that played several times in a row is there once. Begins with
    `played`, newest first."""

    def __init__(self, played: Sequence[PlayedTrack] = ()) -> None:
        self._played = list(reversed(played))  # newest last

    @property
    def played(self) -> tuple[PlayedTrack, ...]:
        """Newest first."""
        return tuple(reversed(self._played))

    def add(self, played: PlayedTrack) -> None:
        """Adds a track that ended. A repeat of the newest track replaces it."""
        if self._played and self._played[-1].queued_track is played.queued_track:
            before = self._played.pop()
            sounded = before.sounded or played.sounded
            played = PlayedTrack(played.queued_track, played.ended_at_ms, played.reason, sounded)
        self._played.append(played)
        del self._played[:-MAX_PLAYED]

    def take_previous(self, current: QueuedTrack | None) -> QueuedTrack | None:
        """Removes and returns the newest track that sounded; None, with nothing changed, when there is none.

        Repeats of `current` are not previous tracks. Those that are newer than the result are removed as well.
        """
        for index in range(len(self._played) - 1, -1, -1):
            candidate = self._played[index]
            if candidate.sounded and candidate.queued_track is not current:
                later = [played for played in self._played[index + 1 :] if played.queued_track is not current]
                self._played[index:] = later
                return candidate.queued_track
        return None

"""A player at one moment as a value: everything that is needed to create it again, on this node or another one.

`Playback.snapshot` makes it, and a `Playback` can begin with it. Overlays are short, so no file contains them; only a
player that is handed over takes them along.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from tonearm.core.crossfade import CrossfadeSettings, fade_at_end
from tonearm.core.events import PlayerState
from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.frame import ms_of_samples
from tonearm.core.metadata import Json
from tonearm.core.overlays import OverlayStatus
from tonearm.core.play_queue import MAX_PLAYED, EndReason, LoopMode, PlayedTrack, QueuedTrack, select_next

STATE_VERSION: Final = 1  # of the JSON of snapshots; a newer version is refused

_MAX_ENDS: Final = 10_000  # of tracks in the time that passed; after so many it does not matter which track plays


class Resume(StrEnum):
    """The state of restored players: they continue, are paused, or stay idle until `play` starts their track."""

    PLAYING = "playing"
    PAUSED = "paused"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Handover:
    """The extra data of a player that continues on another node at once. `life` and `seq` are those of its last event;
    `frames` is the number of frames that were sent. `sample` is the first sample of the current track's file that was
    not sent, at 48 kHz; None if no frame of it was sent. `overlays` have their present positions."""

    life: str
    seq: int
    frames: int
    sample: int | None
    overlays: tuple[OverlayStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class PlayerSnapshot:
    """A player at one moment. `history` is newest first; `current` is None before the first track. `is_resuming`: the
    player played when it was saved, and still waits for the first audio since it was restored. `companions`: the
    records of the parts that accompany the player, by name.

    The tracks are the player's own objects, so later facts about a track may appear here. A player that begins with a
    snapshot copies its tracks.
    """

    player_id: str
    state: PlayerState
    paused: bool
    clock_started: bool
    position_ms: int
    played_ms: int
    has_sounded: bool
    current: QueuedTrack | None
    queue: tuple[QueuedTrack, ...]
    history: tuple[PlayedTrack, ...]
    loop_mode: LoopMode
    filters: Filters
    crossfade: CrossfadeSettings
    metadata: Json
    failures_in_a_row: int
    error: PlayFailure | None
    is_resuming: bool = False
    companions: Mapping[str, Json] = field(default_factory=dict)
    handover: Handover | None = None

    @property
    def start_sample(self) -> int | None:
        """The sample of its file at which the current track continues; None if only the position is known."""
        sample = None if self.handover is None else self.handover.sample
        return sample if sample is not None and ms_of_samples(sample) == self.position_ms else None

    @property
    def moves(self) -> bool:
        """Whether the position moves on while the node is down. It does not in a player that waits for its source,
        because the length of the wait is unknown. But a player that loads only because its node has restarted would
        have played."""
        plays = self.state is PlayerState.PLAYING or (self.state is PlayerState.LOADING and self.is_resuming)
        return plays and not self.paused

    @property
    def position_rate(self) -> float:
        return self.filters.effects.position_rate


def played_on(snapshot: PlayerSnapshot, taken_ms: int, now_ms: int) -> PlayerSnapshot:
    """The player of a snapshot that was taken at `taken_ms`, as if it had played on until `now_ms`.

    Both are times of day, in ms since 1970. A track without a known end stays at its position, because it may have
    ended in the meantime.
    """
    for _ in range(_MAX_ENDS):
        current, passed_ms = snapshot.current, now_ms - taken_ms
        if passed_ms <= 0 or current is None or not snapshot.moves:
            return snapshot
        position_ms = snapshot.position_ms + round(passed_ms * snapshot.position_rate)
        end_ms = _left_at_ms(snapshot, current)
        is_endless = current.track.info.is_stream
        if is_endless or (end_ms is not None and position_ms < end_ms):
            played_ms = snapshot.played_ms + position_ms - snapshot.position_ms
            return replace(snapshot, position_ms=position_ms, played_ms=played_ms, has_sounded=True)
        if end_ms is None:
            return snapshot
        taken_ms += max(1, round((end_ms - snapshot.position_ms) / snapshot.position_rate))
        snapshot = _with_next(snapshot, current, end_ms, taken_ms)
    return snapshot


def continued(snapshot: PlayerSnapshot, now: PlayerSnapshot) -> PlayerSnapshot:
    """The saved record `snapshot` of a player whose present state is `now`. The result has the position of `now`, if
    only time has passed since the record and the record does not ask for another position."""
    was, handover = snapshot.handover, now.handover
    if was is None or handover is None or (was.life, was.seq) != (handover.life, handover.seq):
        return snapshot
    if snapshot.start_sample is None or now.start_sample is None:
        return snapshot
    return replace(
        snapshot,
        position_ms=now.position_ms,
        played_ms=now.played_ms,
        has_sounded=now.has_sounded,
        handover=handover,
    )


def resumed(snapshot: PlayerSnapshot, resume: Resume) -> PlayerSnapshot:
    """The state in which the player begins when it is restored with `resume`."""
    is_active = snapshot.state in (PlayerState.LOADING, PlayerState.PLAYING)
    if resume is Resume.PAUSED and is_active:
        return replace(snapshot, paused=True)
    if resume is Resume.NEVER and is_active:
        return replace(snapshot, state=PlayerState.IDLE)
    return snapshot


def _left_at_ms(snapshot: PlayerSnapshot, current: QueuedTrack) -> int | None:
    """The position in its file at which the current track ends: where the next track begins to fade in, or its own end.
    None when unknown."""
    coming = select_next(snapshot.loop_mode, EndReason.FINISHED, current, snapshot.queue).track
    if coming is not None and not coming.retry_delay_s:  # a delayed track is not opened before this one's end
        rate = snapshot.position_rate
        fade = fade_at_end(snapshot.crossfade, current.track, coming.track, rate, snapshot.position_ms)
        if fade is not None:
            return fade.at_ms
    return current.track.end_ms_after(snapshot.position_ms)


def _with_next(snapshot: PlayerSnapshot, current: QueuedTrack, end_ms: int, ended_at_ms: int) -> PlayerSnapshot:
    """The player just after the end of its current track."""
    ended = PlayedTrack(current, ended_at_ms, EndReason.FINISHED, sounded=True)
    history = snapshot.history[bool(snapshot.history and snapshot.history[0].queued_track is current) :]
    history = (ended, *history)[:MAX_PLAYED]
    snapshot = replace(snapshot, history=history, has_sounded=False, played_ms=0)
    selection = select_next(snapshot.loop_mode, EndReason.FINISHED, current, snapshot.queue)
    if selection.track is None:
        return replace(snapshot, state=PlayerState.IDLE, position_ms=end_ms)
    start_ms = selection.track.track.start_ms
    return replace(snapshot, current=selection.track, queue=selection.queue, position_ms=start_ms)

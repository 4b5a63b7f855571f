"""A player's rules with an obedient shell: does what outcomes ask for and writes everything down."""

from typing import Final

from tests.support.tracks import FILE_MISSING, make_track
from tonearm.core.events import (
    Event,
    LoopModeChange,
    PlayerUpdate,
    QueueUpdate,
    Seek,
    SeekFailed,
    TrackEnd,
    TrackException,
    TrackStart,
    TrackStuck,
)
from tonearm.core.play_queue import Drop, LoopMode, SourceId
from tonearm.core.play_queue import Seek as SeekSource
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts


class PlaybackLog:
    """`lines` has every event and action in short: `TrackEnd a finished`, `open 2 b`,
    `seek 1 as 2 at 500`, `drop 1`."""

    def __init__(self, first: Track, *, max_waiting_tracks: int = 10_000) -> None:
        self.now_ms = 0
        self.playback = Playback(
            "player",
            first,
            {},
            max_waiting_tracks=max_waiting_tracks,
            wall_ms=lambda: self.now_ms,
            now_s=lambda: self.now_ms / 1000,
        )
        self.lines: list[str] = []
        self.events: list[Event] = []
        self.open_sources: dict[SourceId, str] = {}
        self.do(self.playback.begin())

    def do(self, outcome: Outcome) -> list[str]:
        """Carries out `outcome` and returns its lines: first the events, then the actions."""
        lines = [_line(event) for event in outcome.events]
        for action in outcome.actions:
            if isinstance(action, Drop):
                del self.open_sources[action.source]  # only what is open may be dropped
                lines.append(f"drop {action.source}")
            elif isinstance(action, SeekSource):
                self._open(action.new_source, self.open_sources.pop(action.source))
                start = f" at {action.start_ms}" if action.start_ms else ""
                lines.append(f"seek {action.source} as {action.new_source}{start}")
            else:
                self._open(action.source, action.track.id)
                delay = f" after {action.delay_s:g} s" if action.delay_s else ""
                start = f" at {action.start_ms}" if action.start_ms else ""
                end = "" if action.track.end_ms is None else f" to {action.track.end_ms}"
                lines.append(f"open {action.source} {action.track.id}{start}{end}{delay}")
        self.events.extend(outcome.events)
        self.lines.extend(lines)
        return lines

    def close(self, source: SourceId) -> SourceId:
        """`source` is gone by itself: to be called with a report of its failure or end."""
        self.open_sources.pop(source, None)
        return source

    def _open(self, source: SourceId, track_id: str) -> None:
        assert source > max(self.open_sources, default=0)
        self.open_sources[source] = track_id


def new_player(names: str, mode: LoopMode = LoopMode.NONE) -> PlaybackLog:
    """A player whose clock has not started: the first of `names` (a letter each) is selected, the others are queued."""
    log = PlaybackLog(make_track(names[0]))
    for name in names[1:]:
        log.do(log.playback.enqueue(make_track(name)))
    log.do(log.playback.set_loop(mode))
    return log


def playing_player(names: str, mode: LoopMode = LoopMode.NONE) -> PlaybackLog:
    """A player that plays the first of `names`, as source 1."""
    log = new_player(names, mode)
    log.do(log.playback.start_clock())
    sound(log, 1)
    return log


SONG: Final = SourceFacts(length_ms=60_000, is_seekable=True)


def stopped_player(names: str, mode: LoopMode = LoopMode.NONE) -> PlaybackLog:
    """A player that played the first of `names`, as source 1, and was stopped."""
    log = playing_player(names, mode)
    log.do(log.playback.stop())
    return log


def failed_player(names: str) -> PlaybackLog:
    """A player that gave up after five failures in a row: the first of `names` is the fifth, the others wait."""
    log = new_player("1234" + names)
    log.do(log.playback.start_clock())
    for source in range(1, 6):
        log.do(log.playback.failed(log.close(source), FILE_MISSING))
    return log


def sound(log: PlaybackLog, source: SourceId) -> list[str]:
    """The source opens and its first frame is sent."""
    log.do(log.playback.opened(source, SONG))
    return log.do(log.playback.first_frame(source))


def names_queued(playback: Playback) -> str:
    return "".join(track.id for track in playback.queue)


def _line(event: Event) -> str:
    kind = type(event).__name__
    match event:
        case TrackStart(track) | TrackStuck(track):
            return f"{kind} {track.info.title}"
        case TrackEnd(track, reason=reason):
            return f"{kind} {track.info.title} {reason}"
        case TrackException(track, failure=failure):
            return f"{kind} {track.info.title} {failure.code}"
        case Seek(_, from_ms, position_ms):
            return f"Seek {from_ms} {position_ms}"
        case SeekFailed(_, code):
            return f"SeekFailed {code}"
        case PlayerUpdate(detail) | QueueUpdate(detail) | LoopModeChange(detail):
            return f"{kind} {detail}"
    return kind

"""A player's rules with an obedient shell: does what outcomes ask for and writes everything down."""

from typing import Final

from tests.support.tracks import make_track
from tonearm.core.events import Event, PlayerUpdate, QueueUpdate, TrackEnd, TrackEvent
from tonearm.core.play_queue import DropAction, LoopMode, SeekAction, SourceId
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts


class PlaybackLog:
    """`lines` has every event and action in short: `TrackEnd a finished`, `open 2 b`, `seek 1 as 2 at 500`, `drop 1`;
    and `fade moves` of a change that moves one."""

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
            if isinstance(action, DropAction):
                del self.open_sources[action.source]  # only what is open may be dropped
                lines.append(f"drop {action.source}")
            elif isinstance(action, SeekAction):
                self._open(action.new_source, self.open_sources.pop(action.source))
                start = f" at {action.start_ms}" if action.start_ms else ""
                lines.append(f"seek {action.source} as {action.new_source}{start}")
            else:
                self._open(action.source, action.track.id)
                start = f" at {action.start_ms}" if action.start_ms else ""
                end = "" if action.track.end_ms is None else f" to {action.track.end_ms}"
                lines.append(f"open {action.source} {action.track.id}{start}{end}")
        lines += ["fade moves"] * outcome.moves_fade
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


def loading_player(names: str, mode: LoopMode = LoopMode.NONE) -> PlaybackLog:
    """A player whose clock runs, and which opens the first of `names` as source 1."""
    log = new_player(names, mode)
    log.do(log.playback.start_clock())
    return log


def playing_player(names: str, mode: LoopMode = LoopMode.NONE) -> PlaybackLog:
    """A player that plays the first of `names`, as source 1."""
    log = loading_player(names, mode)
    sound(log, 1)
    return log


SONG: Final = SourceFacts(length_ms=60_000, is_seekable=True)


def sound(log: PlaybackLog, source: SourceId) -> list[str]:
    """The source opens and its first frame is sent."""
    log.do(log.playback.opened(source, SONG))
    return log.do(log.playback.first_frame(source))


def names_queued(playback: Playback) -> str:
    return "".join(track.id for track in playback.queue)


def _line(event: Event) -> str:
    kind = type(event).__name__
    match event:
        case TrackEnd(track, reason=reason):
            return f"{kind} {track.info.title} {reason}"
        case TrackEvent(track):
            return f"{kind} {track.info.title}"
        case PlayerUpdate(detail) | QueueUpdate(detail):
            return f"{kind} {detail}"
    return kind

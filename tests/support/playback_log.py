"""A player's rules with an obedient shell: does what outcomes ask for and writes everything down. And stories of such
players, told line by line."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.errors import RequestError
from tonearm.core.events import (
    Event,
    LoopModeChange,
    PlayerUpdate,
    QueueUpdate,
    Seek,
    TrackEnd,
    TrackException,
    TrackStart,
    TrackStuck,
)
from tonearm.core.failure import own_error
from tonearm.core.play_queue import DropAction, LoopMode, PlayedTrack, SeekAction, SourceId
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts


class PlaybackLog:
    """`lines` has every event and action in short: `TrackEnd a finished`, `open 2 b`, `seek 1 as 2 at 500`, `drop 1`;
    and `may fade` of a skip to what is open, `fade moves` of a change that moves one."""

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
                delay = f" after {action.delay_s:g} s" if action.delay_s else ""
                start = f" at {action.start_ms}" if action.start_ms else ""
                end = "" if action.track.end_ms is None else f" to {action.track.end_ms}"
                lines.append(f"open {action.source} {action.track.id}{start}{end}{delay}")
        lines += ["may fade"] * outcome.skips_to_open + ["fade moves"] * outcome.moves_fade
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
        case TrackStart(track) | TrackStuck(track):
            return f"{kind} {track.info.title}"
        case TrackEnd(track, reason=reason):
            return f"{kind} {track.info.title} {reason}"
        case TrackException(track, failure=failure):
            return f"{kind} {track.info.title} {failure.code}"
        case Seek(_, from_ms, position_ms):
            return f"Seek {from_ms} {position_ms}"
        case PlayerUpdate(detail) | QueueUpdate(detail) | LoopModeChange(detail):
            return f"{kind} {detail}"
    return kind


def _played(track: PlayedTrack) -> str:
    time = f" at {track.ended_at_ms}" if track.ended_at_ms else ""
    return f"{track.track.id} {track.reason}{'' if track.sounded else ' unheard'}{time}"


# Stories

PLAYERS: Final[Mapping[str, Callable[[str, LoopMode], PlaybackLog]]] = {
    "new": new_player,
    "loading": loading_player,
    "playing": playing_player,
}
FACTS: Final = {
    "": SONG,
    "unknown": SourceFacts(is_seekable=True),
    "station": SourceFacts(is_stream=True, probe_name="mp3").of_station("Test FM"),
}
FAILURES: Final = {
    "missing": FILE_MISSING,
    "lost": CONNECTION_LOST,
    "error": own_error(LookupError("samples 5 to 6")),
}

Verb = Callable[..., Outcome | list[str]]


def _verb(log: PlaybackLog, word: str) -> Verb:
    """What may happen to a player, by the words that stories have for it: those of the rules, and these. What is said
    of a source closes it, where it is gone by itself."""
    player = log.playback

    def close(source: str) -> SourceId:
        return log.close(int(source))

    verbs: dict[str, Verb] = {
        "clock": player.start_clock,
        "seek": lambda to_ms: player.seek(int(to_ms)),
        "loop": lambda mode: player.set_loop(LoopMode(mode)),
        "enqueue": lambda names: player.enqueue(*map(make_track, names)),
        "clear": player.clear_queue,
        "due": player.next_is_due,
        "opened": lambda source, facts="": player.opened(int(source), FACTS[facts]),
        "frame": lambda source: player.first_frame(int(source)),
        "sounds": lambda source: sound(log, int(source)),
        "ends": lambda source: player.ended(close(source)),
        "fails": lambda source, why="missing": player.failed(close(source), FAILURES[why]),
        "breaks": lambda source, why="lost": player.failed(close(source), FAILURES[why]),
        "lists": lambda source, names: player.expanded(
            close(source), tuple(make_track(name, lists=("",)) for name in names)
        ),
        "titled": lambda source, title: player.retitled(int(source), title),
        "stuck": lambda source: player.stuck(int(source), 10_000, "connecting again"),
    }
    verb: Verb = verbs[word] if word in verbs else getattr(player, word)
    return verb


def _answers(log: PlaybackLog) -> dict[str, str]:
    """What stories ask of a player. It `is` in a state, with a track and a queue."""
    player = log.playback
    return {
        "is": f"{player.state} {player.current.id} {names_queued(player)}".rstrip(),
        "at": str(player.position_ms),
        "open": ", ".join(f"{source} {name}" for source, name in log.open_sources.items()),
        "ahead": str(player.next_source or ""),
        "title": player.current.info.title,
        "wants": "frames" if player.wants_frames else "",
        "awaits": "" if player.stalled is None else f"{player.stalled}{' in mid track' * player.is_in_mid_track}",
        "error": "" if player.error is None else str(player.error.code),
        "history": ", ".join(map(_played, player.history)),
    }


def tell(story: str) -> None:
    """The first line makes a player (`playing ab`: how it is, its tracks, its loop) and says what happened before. The
    other lines are the story, step by step. Behind each colon stands what a step leads to: the lines of its events
    and actions, the answer to a question, or the error that refuses it; without a colon: nothing."""
    begin, _, rest = story.partition("\n")
    first, *before = begin.split(";")
    kind, names, *mode = first.split()
    log = PLAYERS[kind](names, *map(LoopMode, mode))
    for step in before:
        _done(log, *step.split())
    for step in rest.replace(",\n", ", ").replace("\n", ";").split(";"):
        doing, _, expected = step.partition(":")
        assert _done(log, *doing.split()) == " ".join(expected.split()), step


def _done(log: PlaybackLog, word: str, *others: str) -> str:
    if word in ("wait", "position"):
        if word == "wait":
            log.now_ms += int(others[0])
        else:
            log.playback.position_ms = int(others[0])
        return ""
    if word in (answers := _answers(log)):
        return answers[word] or "nothing"
    try:
        led_to = _verb(log, word)(*others)
    except RequestError as error:
        return f"refused {type(error).__name__}"
    return ", ".join(led_to if isinstance(led_to, list) else log.do(led_to))


def stories(text: str) -> pytest.MarkDecorator:
    """A test of each story. They stand one behind the other: a line with its name, then its own lines."""
    told = dict(part.split("\n", 1) for part in text.strip("\n").split("\n\n"))
    return pytest.mark.parametrize("story", told.values(), ids=told)

"""The listener's status: one line that is drawn again on a terminal, or plain lines elsewhere.

It shows peak levels as bars, true peak and loudness, how evenly frames arrive, and what the player's events reported
last.
"""

import json
import math
import os
import unicodedata
from typing import Any, Final, TextIO

from tonearm.core.frame import FRAME_MS, FRAME_S
from tonearm.core.printable import printable
from tonearm.listen.meters import SILENCE_DB, Levels


def bar(level_db: float, width: int, full: str, empty: str) -> str:
    """A bar of `width` characters: empty at `SILENCE_DB`, full at 0 dB."""
    filled = round(width * (1 - min(max(level_db / SILENCE_DB, 0.0), 1.0)))
    return full * filled + empty * (width - filled)


_TOLERANCE_S: Final = 2 * FRAME_S
_GIVE_UP_S: Final = 1.0


class Pacing:
    """Counts frames that arrive more than two frame lengths after they were due. Times are seconds of one clock."""

    def __init__(self) -> None:
        self.late_frames = 0
        self._due_s: float | None = None

    def arrived(self, now_s: float) -> None:
        # The frame that came earliest sets the pace, else the jitter of the very first would.
        due_s = now_s if self._due_s is None else min(self._due_s, now_s)
        lateness_s = now_s - due_s
        if lateness_s > _TOLERANCE_S:
            self.late_frames += 1
        # After a long hole the node does not catch up either.
        self._due_s = (now_s if lateness_s > _GIVE_UP_S else due_s) + FRAME_S

    def interrupted(self) -> None:
        """The player paused, ended a track or the like: the next frame sets the pace anew."""
        self._due_s = None


# After these the next frame is not due 20 ms after the one before.
_INTERRUPTIONS: Final = frozenset(
    {"PlayerState", "PlayerPause", "PlayerResume", "Seek", "TrackStart", "TrackEnd", "TrackStuck", "TrackException"}
)


class PlayerView:
    """Follows the events; unknown ones and unknown fields are passed over."""

    def __init__(self) -> None:
        self.state = ""
        self.paused = False
        self.title = ""
        self.position_ms = 0
        self.length_ms = 0
        self.is_stream = False
        self._limiter: dict[str, Any] = {}
        self._filters_need_limiter = False  # as `auto` has it
        self._sounding: set[str] = set()

    @property
    def overlays(self) -> int:
        """How many overlays sound."""
        return len(self._sounding)

    @property
    def ceiling_db(self) -> float | None:
        """Where the limiter holds true peaks, while it is on. Left to itself (`auto`) it is on with a compressor,
        normalization or an overlay, and in crossfades, which no event tells of."""
        enabled, ceiling_db = self._limiter.get("enabled"), self._limiter.get("ceilingDb")
        is_on = (self._filters_need_limiter or bool(self._sounding)) if enabled == "auto" else enabled is True
        return float(ceiling_db) if is_on and isinstance(ceiling_db, (int, float)) else None

    def take(self, text: str) -> tuple[bool, str | None]:
        """One event. Returns whether the flow of frames may have a break here, and a sentence worth showing."""
        try:
            event = json.loads(text)
        except ValueError:
            return False, None
        if not isinstance(event, dict):
            return False, None
        op = event.get("op")
        if op in ("PlayerState", "PlayerUpdate"):
            self._update(event)
        if op in ("PlayerState", "TrackStart", "TrackEnd"):
            # What ended is shown neither beside what comes nor beside a failure.
            self._track(event.get("track") if op != "TrackEnd" else _NO_TRACK)
        if op in ("PlayerState", "FiltersChange"):
            self._filters(event if op == "PlayerState" else event.get("filters"))
        if op == "PlayerState":
            self._sounding = _sounding(event.get("overlays"))
        elif op in ("OverlayStart", "OverlayEnd"):
            change = self._sounding.add if op == "OverlayStart" else self._sounding.discard
            change(str(event.get("overlayId")))
        if op == "TrackStart":
            self.state, self.position_ms = "playing", _whole(event.get("position"), 0)
        elif op in ("Seek", "SeekFailed"):
            self.position_ms = _whole(event.get("position"), self.position_ms)
        elif op in ("PlayerPause", "PlayerResume"):
            self.paused = op == "PlayerPause"
        elif op == "StreamTitle":
            self.title = str(event.get("title", ""))
        is_break = op in _INTERRUPTIONS or (op == "PlayerUpdate" and self.state != "playing")
        return is_break, _sentence(event)

    def frame_heard(self) -> None:
        self.position_ms += FRAME_MS

    def _update(self, event: dict[str, Any]) -> None:
        self.state = str(event.get("state", self.state))
        self.paused = event.get("paused", self.paused) is True
        self.position_ms = _whole(event.get("position"), self.position_ms)

    def _track(self, track: object) -> None:
        info = track.get("info") if isinstance(track, dict) else None
        if not isinstance(info, dict):
            return
        self.title = _title(track)
        self.length_ms = _whole(info.get("length"), 0)
        self.is_stream = info.get("isStream") is True

    def _filters(self, filters: object) -> None:
        values = filters if isinstance(filters, dict) else {}
        limiter, normalization = values.get("limiter"), values.get("normalization")
        self._limiter = limiter if isinstance(limiter, dict) else {}
        normalizes = isinstance(normalization, dict) and normalization.get("mode") != "off"
        self._filters_need_limiter = normalizes or values.get("compressor") is not None


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _sounding(overlays: object) -> set[str]:
    return {
        str(overlay.get("overlayId"))
        for overlay in (overlays if isinstance(overlays, list) else ())
        if isinstance(overlay, dict) and overlay.get("state") == "playing"
    }


def _title(track: object) -> str:
    """Author and title of a track, or what it was given as."""
    info = track.get("info") if isinstance(track, dict) else None
    if not isinstance(info, dict):
        return ""
    author, title = str(info.get("author", "")), str(info.get("title", ""))
    return f"{author} - {title}" if author else title


def _reason(error: object) -> str:
    """What a failure says, and what to do about it."""
    if not isinstance(error, dict):
        return ""
    return " ".join([f": {error.get('message')}", *([str(error["hint"])] if error.get("hint") else [])])


def _sentence(event: dict[str, Any]) -> str | None:
    match event.get("op"):
        case "TrackStart":
            return f"track starts: {_shortened(_title(event.get('track')), _SENTENCE_TITLE_COLUMNS)}"
        case "TrackEnd":
            return f"track ended: {event.get('reason')}"
        case "TrackException":
            return f"track failed{_reason(event.get('error'))}"
        case "Seek":
            return f"sought to {_whole(event.get('position'), 0) / 1000:g} s"
        case "SeekFailed":
            return "cannot be sought: it plays from its start"
        case "OverlayStart":
            return "an overlay begins"
        case "OverlayEnd":
            return f"overlay ended: {event.get('reason')}"
        case "OverlayException":
            return f"overlay failed{_reason(event.get('error'))}"
        case "QueueUpdate":
            return f"{_whole(event.get('length'), 0)} in the queue"
        case _:
            return None


_SENTENCE_TITLE_COLUMNS: Final = 65  # so that a sentence with a title fits 80
_NO_TRACK: Final[dict[str, Any]] = {"info": {}}
_BAR_WIDTH: Final = 16
_NARROWEST_BAR: Final = 4
_TITLE_COLUMNS: Final = 30  # that the bars leave to a title, where they can
_NEAR_CEILING_DB: Final = 0.1  # as near as the limiter and the measuring agree
_FALLBACK_COLUMNS: Final = 80
TERMINAL_INTERVAL_S: Final = 0.1
PLAIN_INTERVAL_S: Final = 1.0


class Display:
    """Draws on `stream`. A stream that is gone (a closed pipe) is passed over: the audio goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._last = ""
        can_draw_blocks = (stream.encoding or "").lower().startswith("utf")
        self._full, self._empty = ("█", "░") if can_draw_blocks else ("#", ".")

    @property
    def interval_s(self) -> float:
        """How often a status is worth drawing."""
        return TERMINAL_INTERVAL_S if self._is_terminal else PLAIN_INTERVAL_S

    def show(self, view: PlayerView, levels: Levels, late_frames: int) -> None:
        measured = f"{_decibels(levels.true_peak_db)} dBTP {_decibels(levels.momentary_lufs)} LUFS"
        state = "paused" if view.paused else view.state or "waiting"
        extras = _limit(view.ceiling_db, levels.true_peak_db) + (f"+{view.overlays} over it  " if view.overlays else "")
        head, tail = f"{state:<7} {_times(view)}  ", f" {measured}  {extras}late {late_frames}  "
        title = printable(view.title)
        if self._is_terminal:
            # What does not fit is taken from the bars first, then from the title.
            columns = self._columns() - 1 - len(head) - len(tail)
            width = (columns - min(_width(title), _TITLE_COLUMNS) - 1) // 2
            bars = self._bars(levels, max(_NARROWEST_BAR, min(width, _BAR_WIDTH)))
            line = f"{head}{bars}{tail}{_shortened(title, columns - len(bars))}"
            self._write(f"\r{_cut(line, self._columns() - 1)}\x1b[K")
            return
        line = f"{head}{self._bars(levels, _BAR_WIDTH)}{tail}{title}"
        if line != self._last:
            self._write(f"{line}\n")
        self._last = line

    def _bars(self, levels: Levels, width: int) -> str:
        return " ".join(bar(level_db, width, self._full, self._empty) for level_db in levels.peaks_db)

    def say(self, sentence: str) -> None:
        """A line that stays."""
        clear = "\r\x1b[K" if self._is_terminal else ""
        self._write(f"{clear}{printable(sentence)}\n")

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _FALLBACK_COLUMNS
        except (OSError, ValueError):
            return _FALLBACK_COLUMNS

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "ascii"
        try:
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()
        except OSError:
            pass


def _times(view: PlayerView) -> str:
    if view.is_stream:
        return f"{_clock(view.position_ms)} (live)"
    return f"{_clock(view.position_ms)} / {_clock(view.length_ms)}" if view.length_ms else _clock(view.position_ms)


def _limit(ceiling_db: float | None, true_peak_db: float) -> str:
    if ceiling_db is None:
        return ""
    is_reached = true_peak_db > ceiling_db - _NEAR_CEILING_DB
    return f"limit {ceiling_db:.1f} dB{' reached' if is_reached else ''}  "


def _decibels(value: float) -> str:
    """Six characters; dashes for silence, and for what is not known yet."""
    return "   -- " if value == -math.inf else f"{value:6.1f}"


def _clock(duration_ms: int) -> str:
    minutes, seconds = divmod(duration_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _cut(text: str, columns: int) -> str:
    """As much of `text` as fits; East Asian wide characters take two columns."""
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > columns:
            return text[:index]
    return text


def _shortened(text: str, columns: int) -> str:
    """`text`, or its beginning and a sign that there is more."""
    return text if _width(text) <= columns else f"{_cut(text, columns - 3)}..."


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)

"""What `tonearm listen` and `play` show: some lines that are drawn again on a terminal, or plain lines elsewhere.

It shows peak levels as bars, true peak (dBTP) and loudness by EBU R128 (LUFS), measured from the frames that come, how
evenly they arrive, and what the player's events reported last.
"""

import math
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TextIO

import numpy as np
from rich.cells import cell_len, set_cell_size

from tonearm.client import (
    Disconnected,
    Event,
    FiltersChange,
    OverlayEnd,
    OverlayException,
    OverlayStart,
    PlayerPause,
    PlayerResume,
    PlayerState,
    PlayerUpdate,
    QueueUpdate,
    Reconnected,
    Seek,
    SeekFailed,
    State,
    StreamTitle,
    Track,
    TrackEnd,
    TrackException,
    TrackStart,
    TrackStuck,
)
from tonearm.client.events import Mirror
from tonearm.commands.running import clock, complain
from tonearm.core.filters import Effects
from tonearm.core.frame import CHANNELS, FRAME_S
from tonearm.core.overlays import OverlayState
from tonearm.core.printable import printable
from tonearm.worker.filters.blocks import FULL_SCALE
from tonearm.worker.filters.loudness import Meter, TruePeakMeter

_NO_LIMIT: Final = 10_000
SILENCE_DB: Final = -60.0  # where the bars begin


@dataclass(frozen=True, slots=True)
class MeterReading:
    """`peaks_db`: each channel's highest sample in dB of full scale, at least SILENCE_DB. `true_peak_db`, in dBTP, is
    the highest point of the curve through the samples of both channels; `momentary_lufs` the loudness of the last
    400 ms. These two are -inf for silence and where nothing was heard."""

    peaks_db: tuple[float, ...] = (SILENCE_DB,) * CHANNELS
    true_peak_db: float = -math.inf
    momentary_lufs: float = -math.inf


class Meters:
    """Measures the audio that is received. Pauses do not count."""

    def __init__(self) -> None:
        self._loudness = Meter.fresh()
        self._true_peaks = TruePeakMeter()
        self._peaks = [0.0] * CHANNELS
        self._true_peak = 0.0
        self._highest = 0.0
        self._has_heard = False

    def add(self, pcm: bytes) -> None:
        """`pcm`: one or more whole frames."""
        planes = np.frombuffer(pcm, dtype="<i2").reshape(-1, CHANNELS).T.astype(np.float32)
        self._has_heard = True
        self._peaks = np.maximum(self._peaks, np.abs(planes).max(axis=1)).tolist()
        self._true_peak = max(self._true_peak, self._true_peaks.highest(planes))
        self._highest = max(self._highest, self._true_peak)
        self._loudness = self._loudness.fed(planes)

    def take(self) -> MeterReading:
        """The levels since the last call."""
        if not self._has_heard:
            return MeterReading()
        peaks, true_peak = self._peaks, self._true_peak
        self._peaks, self._true_peak, self._has_heard = [0.0] * CHANNELS, 0.0, False
        peaks_db = tuple(max(_db(peak), SILENCE_DB) for peak in peaks)
        return MeterReading(peaks_db, _db(true_peak), self._loudness.momentary_lufs)

    @property
    def integrated_lufs(self) -> float:
        """The loudness of all that was heard; -inf for silence."""
        return self._loudness.integrated_lufs

    @property
    def highest_true_peak_db(self) -> float:
        """In all that was heard, in dBTP; -inf for silence."""
        return _db(self._highest)


def _db(peak: float) -> float:
    return 20 * math.log10(peak / FULL_SCALE) if peak else -math.inf


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
_INTERRUPTIONS: Final = (
    *(PlayerState, PlayerPause, PlayerResume, Seek, TrackStart, TrackEnd, TrackStuck, TrackException),
    *(Disconnected, Reconnected),
)


class PlayerView(Mirror):
    """The displayed state of a player, from its events."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now_s)
        self.title = ""
        self.length_ms = 0
        self.is_stream = False
        self._effects = Effects(limiter=None)
        self._sounding: set[str] = set()

    @property
    def overlays(self) -> int:
        """The number of overlays that play."""
        return len(self._sounding)

    @property
    def ceiling_db(self) -> float | None:
        """Where the limiter holds true peaks, while it is on. Left to itself (`auto`) it is on with a compressor,
        normalization or an overlay, and in crossfades, which no event tells of."""
        limiter = self._effects.limiter
        is_on = self._effects.limits(with_overlays=bool(self._sounding), crossfades=False)
        return limiter.ceiling_db if limiter is not None and is_on else None

    def follow(self, event: Event) -> tuple[bool, str | None]:
        """One event. Returns whether the flow of frames may have a break here, and a sentence worth showing."""
        self.take(event)
        match event:
            case PlayerState():
                self._shows(event.track)
                self._effects = event.as_effects()
                self._sounding = {one.overlay_id for one in event.overlays if one.state is OverlayState.PLAYING}
            case TrackStart():
                self._shows(event.track)
            case TrackEnd():  # what ended is shown neither beside what comes nor beside a failure
                self.title, self.length_ms, self.is_stream = "", 0, False
            case StreamTitle():
                self.title = event.title
            case FiltersChange():
                self._effects = event.filters.as_effects()
            case OverlayStart():
                self._sounding.add(event.overlay_id)
            case OverlayEnd():
                self._sounding.discard(event.overlay_id)
        is_update = isinstance(event, PlayerUpdate) and event.state is not State.PLAYING
        return is_update or isinstance(event, _INTERRUPTIONS), _sentence(event)

    def _shows(self, track: Track) -> None:
        self.title, self.length_ms, self.is_stream = _title(track), track.info.length, track.info.is_stream


def _title(track: Track) -> str:
    """Title and author of a track, or what it was given as."""
    return f"{track.info.title} - {track.info.author}" if track.info.author else track.info.title


def _sentence(event: Event) -> str | None:
    match event:
        case TrackStart():
            return f"track starts: {_shortened(_title(event.track), _SENTENCE_TITLE_COLUMNS)}"
        case TrackEnd():
            return f"track ended: {event.reason.value}"
        case TrackException():
            return f"track failed: {event.error.message} {event.error.hint}"
        case TrackStuck():
            return f"track is stuck: {event.cause}"
        case Seek():
            return f"sought to {event.position / 1000:g} s"
        case SeekFailed():
            return "cannot be sought: it plays from its start"
        case OverlayStart():
            return "an overlay begins"
        case OverlayEnd():
            return f"overlay ended: {event.reason.value}"
        case OverlayException():
            return f"overlay failed: {event.error.message} {event.error.hint}"
        case QueueUpdate():
            return f"{event.length} in the queue"
        case _:
            return None


_SENTENCE_TITLE_COLUMNS: Final = 65  # so that a sentence with a title fits 80
_BAR_WIDTH: Final = 16
_TITLE_COLUMNS: Final = 15  # that are left to a title in any case: twelve letters and three dots
_NEAR_CEILING_DB: Final = 0.1  # as near as the limiter and the measuring agree


class Display:
    """Draws on `stream`: on a terminal some lines drawn again, with `keys` under them; elsewhere plain lines. A
    stream that is gone (a closed pipe) is passed over: the audio goes on. With `is_quiet` it draws nothing, and says on
    stderr what there is to say."""

    def __init__(self, stream: TextIO, keys: str = "", *, is_quiet: bool = False) -> None:
        self._stream = stream
        self._keys = keys
        self._is_quiet = is_quiet
        self._is_terminal = stream.isatty()
        self._last = ""
        can_draw_blocks = (stream.encoding or "").lower().startswith("utf")
        self._full, self._empty = ("█", "░") if can_draw_blocks else ("#", ".")
        self.interval_s = 0.1 if self._is_terminal else 1.0  # how often a status is worth drawing

    def show(self, view: PlayerView, levels: MeterReading, late_frames: int) -> None:
        if self._is_quiet:
            return
        state = f"{'paused' if view.paused else view.state.value:<7} {_times(view)}"
        bars = " ".join(bar(level_db, _BAR_WIDTH, self._full, self._empty) for level_db in levels.peaks_db)
        measured = f"{bars} {_decibels(levels.true_peak_db)} dBTP {_decibels(levels.momentary_lufs)} LUFS"
        extras = _limit(view.ceiling_db, levels.true_peak_db) + (f"+{view.overlays} over it  " if view.overlays else "")
        extras += f"late {late_frames}"
        title = printable(view.title)
        if self._is_terminal:
            columns, rows = shutil.get_terminal_size()
            settings = f"volume {round(view.volume * 100)} %  waiting {view.queue_length}"
            lines = [title, f"{state}  {settings}  {extras}", measured, *([self._keys] if self._keys else [])]
            drawn = "\n".join(_shortened(line, columns - 1) for line in lines[:rows])
            self._write(f"\r\x1b[J{drawn}\r" + "\x1b[A" * drawn.count("\n"))
            return
        columns = int(given) if (given := os.environ.get("COLUMNS", "")).isdigit() else _NO_LIMIT
        end = f"  {measured}  {extras}"
        shown = _shortened(title, max(columns - len(state) - len(end) - 2, _TITLE_COLUMNS))
        line = _shortened(f"{state}  {shown}{end}", columns)
        if line != self._last:
            self._write(f"{line}\n")
        self._last = line

    def say(self, sentence: str) -> None:
        """Prints a line that stays."""
        if self._is_quiet:
            complain(sentence)
        else:
            self.clear(f"{printable(sentence)}\n")

    def clear(self, instead: str = "") -> None:
        """Removes the lines that are redrawn."""
        self._write("\r\x1b[J" + instead if self._is_terminal and not self._is_quiet else instead)

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "ascii"
        with suppress(OSError):
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()


def _times(view: PlayerView) -> str:
    if view.is_stream:
        return f"{clock(view.position_ms)} (live)"
    return f"{clock(view.position_ms)} / {clock(view.length_ms)}" if view.length_ms else clock(view.position_ms)


def _limit(ceiling_db: float | None, true_peak_db: float) -> str:
    if ceiling_db is None:
        return ""
    is_reached = true_peak_db > ceiling_db - _NEAR_CEILING_DB
    return f"limit {ceiling_db:.1f} dB{' reached' if is_reached else ''}  "


def _decibels(value: float) -> str:
    """The value in six characters. Dashes stand for silence and for an unknown value."""
    return "   -- " if value == -math.inf else f"{value:6.1f}"


def _shortened(text: str, columns: int) -> str:
    """`text`, or its beginning and a sign that there is more, in at most so many columns."""
    if cell_len(text) <= columns:
        return text
    return f"{set_cell_size(text, columns - 3)}..." if columns > 3 else set_cell_size(text, max(columns, 0))

"""The listener's status: one line that is drawn again on a terminal, or plain lines elsewhere."""

import os
import unicodedata
from collections.abc import Sequence
from typing import Final, TextIO

from tonearm.listen.level import bar
from tonearm.listen.player_view import PlayerView

_BAR_WIDTH: Final = 16
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

    def show(self, view: PlayerView, levels_db: Sequence[float], late_frames: int) -> None:
        bars = " ".join(bar(level_db, _BAR_WIDTH, self._full, self._empty) for level_db in levels_db)
        state = "paused" if view.paused else view.state or "waiting"
        line = (
            f"{state:<7} {_times(view)}  {bars} {max(levels_db):6.1f} dB  late {late_frames}  {printable(view.title)}"
        )
        if self._is_terminal:
            self._write(f"\r{_cut(line, self._columns() - 1)}\x1b[K")
        elif line != self._last:
            self._write(f"{line}\n")
        self._last = line

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


def printable(text: str) -> str:
    """`text` without what would steer a terminal: titles come from strangers."""
    return "".join(character if character.isprintable() else " " for character in text)


def _times(view: PlayerView) -> str:
    if view.is_stream:
        return f"{_clock(view.position_ms)} (live)"
    return f"{_clock(view.position_ms)} / {_clock(view.length_ms)}" if view.length_ms else _clock(view.position_ms)


def _clock(duration_ms: int) -> str:
    minutes, seconds = divmod(duration_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _cut(text: str, columns: int) -> str:
    """As much of `text` as fits; East Asian wide characters take two columns."""
    used = 0
    for index, character in enumerate(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > columns:
            return text[:index]
    return text

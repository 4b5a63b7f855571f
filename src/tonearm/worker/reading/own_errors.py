"""Writes internal errors of the process to stderr: each once, and only a limited number."""

import sys
import threading
import traceback
from contextlib import suppress
from typing import Final

_MOST_TOLD: Final = 20  # in the life of a process: who can cause errors must not be able to fill the log
_MOST_CALLS: Final = 12  # of a traceback, the innermost ones
_MOST_CHARACTERS: Final = 500  # of a line


class OwnErrors:
    """Writes internal errors. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: set[tuple[str, str, int]] = set()  # kind, and where it was raised

    def tell(self, doing: str, error: Exception) -> None:
        """Writes the traceback of `error`, which came up while the process was `doing` something. Never raises."""
        with suppress(Exception):
            calls = traceback.extract_tb(error.__traceback__)
            place = (calls[-1].filename, calls[-1].lineno or 0) if calls else ("", 0)
            with self._lock:
                if len(self._told) >= _MOST_TOLD or (type(error).__name__, *place) in self._told:
                    return
                self._told.add((type(error).__name__, *place))
            lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_MOST_CALLS, chain=False)
            told = "\n".join(line.rstrip("\n")[:_MOST_CHARACTERS] for line in lines)
            sys.stderr.write(f"an error of its own while {doing}:\n{told}\n")
            sys.stderr.flush()

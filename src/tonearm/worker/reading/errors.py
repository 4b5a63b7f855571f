"""The errors of opening and decoding, with their messages for users: each function returns a `PlayError` to raise.
`OwnErrors` writes the process's internal errors to stderr.
"""

import sys
import threading
import traceback
from contextlib import suppress
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.opened_source import RESOLVER_HINT, UNRESOLVED_PAGE
from tonearm.worker.reading.foreign_formats import Foreign


class UnseekableSource(PlayError):
    """The source cannot be moved to another position. It can still be played in order."""


def empty() -> PlayError:
    return _decode_error(
        FailureCode.EMPTY, "The source is empty: it has no bytes.", "Check that the file or upload is complete."
    )


def not_audio(name: str, content_type: str | None) -> PlayError:
    if content_type == UNRESOLVED_PAGE:
        return _decode_error(FailureCode.NOT_AUDIO, f"{_quoted(name)} is a web page, not audio.", RESOLVER_HINT)
    if content_type is not None and content_type.partition(";")[0].strip().lower() in ("text/html", "text/plain"):
        hint = "The server sent a text page instead of audio; use the direct address of the file."
    else:
        hint = "Give the direct address of an audio file, such as MP3, FLAC, Ogg, Opus, WAV or M4A."
    return _decode_error(FailureCode.NOT_AUDIO, f"{_quoted(name)} is not in a known audio format.", hint)


def foreign(name: str, content_type: str | None, what: Foreign) -> PlayError:
    """The source is not sound, or sound of an unsupported kind."""
    hint = RESOLVER_HINT if content_type == UNRESOLVED_PAGE else what.hint
    return _decode_error(what.code, f"{_quoted(name)} is {what.is_what}.", hint)


def no_audio_stream(name: str) -> PlayError:
    return _decode_error(
        FailureCode.NO_AUDIO_STREAM, f"{_quoted(name)} has no audio track.", "Choose a file with an audio track."
    )


def no_such_audio(name: str, what: str) -> PlayError:
    return _decode_error(
        FailureCode.NO_AUDIO_STREAM,
        f"{_quoted(name)} does not have this audio track: {what}.",
        "Choose one of those, or none.",
    )


def unsupported_codec(name: str, codec: str) -> PlayError:
    return _decode_error(
        FailureCode.UNSUPPORTED_CODEC,
        f"The audio of {_quoted(name)} is coded as {codec}, which is not supported.",
        "Convert the file to MP3, AAC, FLAC, Opus, Vorbis or WAV.",
    )


def corrupt(name: str, what: str) -> PlayError:
    return _decode_error(FailureCode.CORRUPT, f"{_quoted(name)} is damaged: {what}.", "Fetch or encode the file again.")


def limit_exceeded(name: str, what: str) -> PlayError:
    return _decode_error(
        FailureCode.LIMIT_EXCEEDED,
        f"{_quoted(name)} was refused: {what}.",
        "Convert the file to an ordinary form, such as MP3 or FLAC.",
    )


def index_at_end(name: str) -> PlayError:
    return _decode_error(
        FailureCode.LIMIT_EXCEEDED,
        f"{_quoted(name)} has its index at the end, and its server does not answer range requests, "
        "so the whole file would have to be in memory.",
        "Put the index first (ffmpeg: -movflags +faststart), or serve the file with range requests.",
    )


def opening_took_too_long(name: str, seconds: float) -> PlayFailure:
    return PlayFailure(
        FailureCode.TIMEOUT,
        Stage.DECODE,
        f"{_quoted(name)} could not be opened within {seconds:g} seconds.",
        "Check that the source sends at least as fast as it plays, then try again.",
    )


def not_seekable(name: str, why: str) -> UnseekableSource:
    message = f"Another position in {_quoted(name)} cannot be reached: {why}."
    return UnseekableSource.of(FailureCode.LIMIT_EXCEEDED, Stage.DECODE, message, "Play it from its start.")


def _decode_error(code: FailureCode, message: str, hint: str) -> PlayError:
    return PlayError.of(code, Stage.DECODE, message, hint)


def _quoted(name: str) -> str:
    return f"“{name}”" if name else "The source"


_MOST_TOLD: Final = 20  # per process: clients that can cause errors must not fill the log
_MOST_CALLS: Final = 12  # the innermost calls of a traceback
_MOST_CHARACTERS: Final = 500  # of a line


class OwnErrors:
    """Writes internal errors. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: set[tuple[str, str, int]] = set()  # kind, file and line

    def tell(self, doing: str, error: Exception) -> None:
        """Writes the traceback of `error`, which occurred while the process was `doing` something. Never raises."""
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

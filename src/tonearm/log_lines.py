"""What the node's log looks like: text for people, or JSON for programs, one line for each event."""

import json
import logging
from datetime import UTC, datetime
from typing import Final

from tonearm.core.printable import text_for_logs

MAX_MESSAGE_CHARACTERS: Final = 4_000
MAX_TRACEBACK_CHARACTERS: Final = 16_000
_TEXT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"


class TextLines(logging.Formatter):
    """A line of text. A traceback follows in lines of its own: it is for people who look for a mistake."""

    def __init__(self) -> None:
        super().__init__(_TEXT, "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        record.message = _bounded(text_for_logs(record.message), MAX_MESSAGE_CHARACTERS)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """An object with `time`, `level`, `logger`, `message`, and `traceback` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _bounded(text_for_logs(record.getMessage()), MAX_MESSAGE_CHARACTERS),
        }
        if record.exc_info:
            fields["traceback"] = _bounded(self.formatException(record.exc_info), MAX_TRACEBACK_CHARACTERS)
        return json.dumps(fields, ensure_ascii=False)


def _bounded(text: str, characters: int) -> str:
    """The text, without its middle where it is too long."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]} ... {text[-half:]}"

"""The lines of the node's log: text for people, or JSON for programs."""

import json
import logging
from datetime import UTC, datetime
from typing import Final

from tonearm.core.printable import text_for_logs

MAX_MESSAGE_CHARACTERS: Final = 4_000
MAX_TRACEBACK_CHARACTERS: Final = 16_000
_TEXT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"


class TextLines(logging.Formatter):
    """A line of text for each record. A traceback follows in further lines."""

    def __init__(self) -> None:
        super().__init__(_TEXT, "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        record.message = _bounded(text_for_logs(record.message), MAX_MESSAGE_CHARACTERS)
        return super().formatMessage(record)


class JsonLines(logging.Formatter):
    """A line for each record: an object with `time`, `level`, `logger`, `message` and, if there is one, `traceback`."""

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

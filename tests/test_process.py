"""Lines of the log: one for each event, short enough, without what nobody else may know."""

import json
import logging
import sys

import pytest

from tonearm.process import MAX_MESSAGE_CHARACTERS, JsonLines, TextLines


def record(message: str, *arguments: object, exc_info: object = None) -> logging.LogRecord:
    return logging.LogRecord("tonearm.node", logging.WARNING, "x.py", 1, message, arguments, exc_info)  # type: ignore[arg-type]


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
def test_a_line_is_one_line_without_secrets(formatter: logging.Formatter) -> None:
    line = formatter.format(record("opened %s\nand more\x1b[2J", "https://ada:secret@radio.example/a.mp3?token=secret"))
    assert "\n" not in line
    assert "\x1b" not in line
    assert "secret" not in line
    assert "https://radio.example/a.mp3 and more" in line
    assert len(formatter.format(record("x" * 100_000))) < MAX_MESSAGE_CHARACTERS + 200


def test_json_has_its_fields_and_a_traceback_in_the_same_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        line = JsonLines().format(record("%d players", 3, exc_info=sys.exc_info()))
    fields = json.loads(line)
    assert "\n" not in line
    assert (fields["level"], fields["logger"], fields["message"]) == ("warning", "tonearm.node", "3 players")
    assert fields["time"].endswith("+00:00")
    assert "ValueError: two" in fields["traceback"]

"""Lines of the log: one for each event, short enough, without what nobody else may know; and how they get out."""

import json
import logging
import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.eventually import PATIENCE_S
from tonearm.process import MAX_MESSAGE_CHARACTERS, MAX_TRACEBACK_CHARACTERS, JsonLines, StderrThread, TextLines, notify


def record(message: str, *arguments: object, exc_info: object = None) -> logging.LogRecord:
    return logging.LogRecord("tonearm.node", logging.WARNING, "x.py", 1, message, arguments, exc_info)  # type: ignore[arg-type]


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
def test_a_line_is_one_line_without_secrets(formatter: logging.Formatter) -> None:
    line = formatter.format(record("opened %s\nand more\x1b[2J", "https://ada:secret@radio.example/a.mp3?token=secret"))
    assert not re.search("\n|\x1b|secret", line)
    assert "https://radio.example/a.mp3 and more" in line
    assert len(formatter.format(record("x" * 100_000))) < MAX_MESSAGE_CHARACTERS + 200


def broken(depth: int, message: str) -> NoReturn:
    if depth:
        broken(depth - 1, message)
    raise ValueError(message)


def record_of_error(depth: int, message: str) -> logging.LogRecord:
    try:
        try:
            broken(depth, message)
        except ValueError as error:
            raise RuntimeError("it failed") from error
    except RuntimeError:
        return record("GET %s failed", "/a", exc_info=sys.exc_info())


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
def test_an_error_is_one_bounded_line_without_secrets_that_ends_where_it_happened(formatter: logging.Formatter) -> None:
    message = (
        "two\nlines: https://ada:secret@radio.example/a.mp3?token=secret, GET /a.mp3?token=secret&b HTTP/1.1 failed"
    )
    line = formatter.format(record_of_error(3, message))
    assert not re.search("\n|secret", line)
    assert "ValueError: two lines: https://radio.example/a.mp3 GET /a.mp3 HTTP/1.1 failed" in line
    assert line.index("GET /a failed") < line.index("in broken") < line.index("ValueError: two")
    assert line.index("in record_of_error") < line.index("RuntimeError: it failed")
    for depth, long in ((300, "x" * 100_000), (0, "/?a=" * 50_000), (300, "x/" * 500)):
        line = formatter.format(record_of_error(depth, long))
        assert len(line) < MAX_MESSAGE_CHARACTERS + MAX_TRACEBACK_CHARACTERS + 1000
        assert re.search("in broken.*ValueError: .*RuntimeError: it failed", line)


@pytest.mark.timeout(PATIENCE_S)
def test_a_systemd_that_takes_no_message_holds_up_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd,
        socket.socket(systemd.family, systemd.type) as one,
    ):
        systemd.bind(path)
        one.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                one.sendto(b"WATCHDOG=1", path)
        notify("WATCHDOG=1", {"NOTIFY_SOCKET": path})


def test_json_has_its_fields_and_a_traceback() -> None:
    fields = json.loads(JsonLines().format(record_of_error(0, "three")))
    assert (fields["level"], fields["logger"], fields["message"]) == ("warning", "tonearm.node", "GET /a failed")
    assert fields["time"].endswith("+00:00")
    assert re.match("Traceback.*ValueError: three", fields["traceback"], re.DOTALL)
    assert "traceback" not in json.loads(JsonLines().format(record("well")))


def test_lines_for_which_there_is_no_room_are_counted_where_they_are_missing() -> None:
    reading, writing = os.pipe()
    stderr = StderrThread(writing, JsonLines())
    count = 100_000
    for number in range(count):
        stderr.write(f"{number} of a log that nobody reads {'.' * 50}\n".encode())
    told: list[int] = []
    next_number = 0
    with os.fdopen(reading, "rb") as log:
        while next_number < count:
            line = log.readline()
            if line.startswith(b"{"):
                told.append(int(re.findall(r"\d+", json.loads(line)["message"])[0]))
                next_number += told[-1]
            else:
                assert int(line.split()[0]) == next_number
                next_number += 1
        assert next_number == count
        assert sum(told) > count // 2
        stderr.write(b"there is room again\n")
        assert log.readline() == b"there is room again\n"
        stderr.end()
    os.close(writing)


FAILS = """
import os, sys
from tonearm.process import TextLines, stderr_in_a_thread
with stderr_in_a_thread(TextLines()):
    sys.stderr.write("before\\n" * int(sys.argv[1]))
    raise ValueError("why")
"""


def test_an_error_that_ends_the_process_comes_last_and_waits_for_no_reader() -> None:
    command = (sys.executable, "-c", FAILS)
    done = subprocess.run([*command, "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"(before\n){3}Traceback .*\nValueError: why\n", done.stderr, re.DOTALL)
    with subprocess.Popen([*command, "100000"], stderr=subprocess.PIPE) as stalled:
        assert stalled.wait() == 1

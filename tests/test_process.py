"""Lines of the log: one for each event, short enough, without what nobody else may know."""

import json
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from subprocess import PIPE
from typing import Final, NoReturn

import pytest

from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S
from tonearm.process import MAX_MESSAGE_CHARACTERS, MAX_TRACEBACK_CHARACTERS, JsonLines, TextLines, notify


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
    assert "\n" not in line
    assert "secret" not in line
    assert "ValueError: two lines: https://radio.example/a.mp3 GET /a.mp3 HTTP/1.1 failed" in line
    assert line.index("GET /a failed") < line.index("in broken") < line.index("ValueError: two")
    assert line.index("in record_of_error") < line.index("RuntimeError: it failed")
    for depth, long in ((300, "x" * 100_000), (0, "/?a=" * 50_000), (300, "x/" * 500)):
        line = formatter.format(record_of_error(depth, long))
        assert len(line) < MAX_MESSAGE_CHARACTERS + MAX_TRACEBACK_CHARACTERS + 1000
        assert "ValueError: " in line
        assert "in broken" in line
        assert "RuntimeError: it failed" in line


LOGS: Final = """
import logging, sys
from tonearm.process import StderrLines
logging.basicConfig(level="INFO", handlers=[StderrLines()])
for number in range(5_000):
    logging.info("line %d %s", number, "x" * (10_000 if number % 100 == 99 else 100))
print("done", flush=True)
sys.stdin.readline()
logging.info("the last")
"""


def socket_pair() -> tuple[int, int]:
    """What a program in Node.js gives a child as a pipe."""
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


def what_is_there(stream: RawIOBase) -> list[str]:
    """Its lines, as far as they can be read without waiting."""
    text = b""
    with suppress(OSError):  # as a terminal ends that nobody writes to any more
        while part := stream.read(65_536):
            text += part
    return text.decode().splitlines()


@pytest.mark.parametrize("ends", [os.pipe, os.openpty, socket_pair])
def test_lines_that_nobody_reads_hold_up_nothing_and_are_counted(ends: Callable[[], tuple[int, int]]) -> None:
    reader, writer = ends()
    command = [sys.executable, "-c", LOGS]
    with (
        open(reader, "rb", buffering=0) as stderr,
        subprocess.Popen(command, env=environment(), stdin=PIPE, stdout=PIPE, stderr=writer, text=True) as process,
    ):
        os.close(writer)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "done\n"
            os.set_blocking(reader, False)
            first = what_is_there(stderr)
            process.communicate("\n", timeout=PATIENCE_S)
            rest = what_is_there(stderr)
        finally:
            process.kill()
    assert [line.split()[1] for line in first[:3]] == ["0", "1", "2"]
    told, last = rest[-2:]
    assert re.search(r"\b4\d\d\d lines are left out here", told)
    assert last.endswith("the last")


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
    assert fields["traceback"].startswith("Traceback")
    assert "ValueError: three" in fields["traceback"]
    assert "traceback" not in json.loads(JsonLines().format(record("well")))

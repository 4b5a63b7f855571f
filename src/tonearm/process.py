"""The command's process as its supervisor sees it: exit codes, log lines, and messages to systemd.

The protocol of systemd is that of sd_notify(3): a datagram to the socket named in NOTIFY_SOCKET. Without that variable
nothing is sent.
"""

import asyncio
import contextlib
import json
import logging
import os
import select
import socket
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

from tonearm.core.printable import text_for_logs

log = logging.getLogger(__name__)


class ExitCode(IntEnum):
    """The exit codes of the command."""

    OK = 0
    FAILED = 1  # while it ran, or before it was done
    WRONG_USE = 2  # wrong arguments (click's own status), or a wrong configuration
    MISSING = 3  # what the node needs is not there: a free address, the file of its state, a required sandbox
    UNREACHED = 4  # no node was reached, or it refused the password


MAX_MESSAGE_CHARACTERS: Final = 4_000
MAX_TRACEBACK_CHARACTERS: Final = 16_000
_LAST_FRAMES: Final = 10  # of each error in a traceback
_MAX_ENTRY_CHARACTERS: Final = 1_000  # of a frame or an error
_STDERR: Final = 2
_ALIVE: Final = "WATCHDOG=1"
_TEXT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"


class TextLines(logging.Formatter):
    """A line of text for each record, with its traceback at the end."""

    def __init__(self) -> None:
        super().__init__(_TEXT, "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.message = " ".join(filter(None, (_message(record), _traceback(record))))
        record.asctime = self.formatTime(record, self.datefmt)
        return self.formatMessage(record)


class JsonLines(logging.Formatter):
    """A line for each record: an object with `time`, `level`, `logger`, `message` and, if there is one, `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if told := _traceback(record):
            fields["traceback"] = told
        return json.dumps(fields, ensure_ascii=False)


class StderrLines(logging.Handler):
    """Writes each record to stderr. Lines that nobody takes there are left out, because they would hold up the node."""

    def __init__(self) -> None:
        super().__init__()
        self._left_out = 0
        self._output = _STDERR
        if os.isatty(_STDERR):  # its room is not known, so it is opened once more, for writing without waiting
            with contextlib.suppress(OSError):
                self._output = os.open(f"/proc/self/fd/{_STDERR}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            if self._left_out and self._has_room:
                left_out, self._left_out = self._left_out, 0
                log.warning("%d lines are left out here: nobody read them in time", left_out)
            while line and self._has_room:
                line = line[os.write(self._output, line[: select.PIPE_BUF]) :]
            self._left_out += bool(line)
        except BlockingIOError:
            self._left_out += 1
        except Exception:  # noqa: BLE001 - as every handler does it
            self.handleError(record)

    @property
    def _has_room(self) -> bool:
        """Whether `PIPE_BUF` bytes can be written to a pipe or a socket, or any to a terminal, without waiting."""
        return bool(select.select((), (self._output,), (), 0)[1])


def _message(record: logging.LogRecord) -> str:
    return _bounded(text_for_logs(record.getMessage()), MAX_MESSAGE_CHARACTERS)


def _traceback(record: logging.LogRecord) -> str:
    """The record's error and those that it came from, each with its last frames, in one line; "" without an error."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    # An entry is cut at its end first: without its beginning a link would not be known as one.
    entries = traceback.format_exception(error, limit=-_LAST_FRAMES)
    told = " ".join(text_for_logs(entry[:_MAX_ENTRY_CHARACTERS]) for entry in entries)
    return _bounded(told, MAX_TRACEBACK_CHARACTERS)


def _bounded(text: str, characters: int) -> str:
    """The text, without its middle where it is too long."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]} ... {text[-half:]}"


def notify(words: str, environment: Mapping[str, str] = os.environ) -> None:
    """Sends `words`, such as `READY=1`. A failure to send is ignored."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(words != _ALIVE)  # a systemd that is busy must not hold up the node; another one follows
        sender.sendto(words.encode(), address.replace("@", "\0", 1))


def watchdog_interval_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often to notify systemd's watchdog: twice as often as WatchdogSec= asks; None without a watchdog."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    is_for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(microseconds) / 2e6 if microseconds.isdigit() and int(microseconds) and is_for_us else None


@asynccontextmanager
async def supervised() -> AsyncIterator[None]:
    """A context for a running node: tells systemd that it is ready at the beginning, and that it stops at the end."""
    notify("READY=1")
    interval_s = watchdog_interval_s()
    reporting = None if interval_s is None else asyncio.create_task(_report_that_the_loop_runs(interval_s))
    try:
        yield
    finally:
        notify("STOPPING=1")
        if reporting is not None:
            reporting.cancel()


async def _report_that_the_loop_runs(interval_s: float) -> None:
    while True:
        notify(_ALIVE)
        await asyncio.sleep(interval_s)

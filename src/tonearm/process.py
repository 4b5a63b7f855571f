"""The command's process as its supervisor sees it: exit codes, log lines and how they get out, messages to systemd.

The protocol of systemd is that of sd_notify(3): a datagram to the socket named in NOTIFY_SOCKET. Without that variable
nothing is sent.
"""

import asyncio
import contextlib
import io
import json
import logging
import os
import select
import socket
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Final

from tonearm.core.printable import text_for_logs


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


_MOST_WAITING_BYTES: Final = 1 << 20
_PATIENCE_S: Final = 2.0
_CHILDREN_PATIENCE_S: Final = 0.5
_READ_BYTES: Final = 1 << 16


class StderrThread(io.RawIOBase):
    """Takes at once what is to go to the descriptor `stderr`, and writes it in a thread, because a reader may stall.

    When too much waits, further lines are left out. A line in the form `form` then says how many.
    """

    name: Final = "<stderr>"

    def __init__(self, stderr: int, form: logging.Formatter) -> None:
        self._stderr = stderr
        self._form = form
        self._changed = threading.Condition()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._lines_left_out = 0
        self._is_writing = False
        self._has_ended = False
        threading.Thread(target=self._write_what_waits, name="stderr", daemon=True).start()

    def writable(self) -> bool:
        return True

    def write(self, text: Any, /) -> int:
        taken = bytes(text)
        with self._changed:
            if self._has_ended:
                return os.write(self._stderr, taken)
            if self._waiting_bytes > _MOST_WAITING_BYTES:
                self._lines_left_out += taken.count(b"\n")
            else:
                self._waiting.append(taken)
                self._waiting_bytes += len(taken)
                self._changed.notify_all()
        return len(taken)

    def has_written_all(self) -> bool:
        """Waits until it has, for 2 s at most."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._is_writing), _PATIENCE_S)

    def end(self) -> None:
        """Waits as `has_written_all` does. The rest of a longer wait is lost. From now on `write` writes at once, and
        nowhere if the reader stalls: for Python's own end."""
        poll = select.poll()
        poll.register(self._stderr, select.POLLOUT)
        if not (self.has_written_all() and poll.poll(_PATIENCE_S * 1000)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stderr)
        self._has_ended = True

    def _write_what_waits(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting)
                text = b"".join(self._waiting) + self._line_of_lines_left_out()
                self._waiting, self._waiting_bytes, self._lines_left_out = [], 0, 0
                self._is_writing = True
            with contextlib.suppress(OSError):  # The reader is gone.
                while text:
                    text = text[os.write(self._stderr, text) :]

    def _line_of_lines_left_out(self) -> bytes:
        if not self._lines_left_out:
            return b""
        told, count = "%d lines of the log are left out here: stderr was not read fast enough", self._lines_left_out
        record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, told, (count,), None)
        return f"{self._form.format(record)}\n".encode()


@contextmanager
def stderr_in_a_thread(form: logging.Formatter) -> Iterator[StderrThread]:
    """A context in which neither this process nor a child that it starts waits for the reader of stderr. What children
    write comes through a pipe."""
    stderr = sys.stderr
    number, real = stderr.fileno(), os.dup(stderr.fileno())
    thread = StderrThread(real, form)
    reading, writing = os.pipe()
    os.dup2(writing, number)
    os.close(writing)

    def take_what_children_write() -> None:
        while text := os.read(reading, _READ_BYTES):
            thread.write(text)

    children = threading.Thread(target=take_what_children_write, name="stderr-of-children", daemon=True)
    children.start()
    try:
        with contextlib.redirect_stderr(io.TextIOWrapper(thread, stderr.encoding, stderr.errors, write_through=True)):
            yield thread
    finally:
        os.dup2(real, number)
        children.join(_CHILDREN_PATIENCE_S)  # until the last child has ended
        thread.end()
        os.dup2(real, number)  # which may lead nowhere now


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

"""Decoder processes, and templates of them, that are forked from one which has loaded them (`decoder_template`).

What comes of it is a child of this process, with the arguments, descriptors and stderr that it is given. A test of how
an interpreter is started starts one.
"""

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tonearm.decoder.pool import starting, template
from tonearm.decoder.pool.starting import ChildProcess, ForkedProcess, start_interpreter
from tonearm.sandbox.supervision import minimal_environment

_PROGRAM: Final = Path(__file__).with_name("decoder_template.py")
_INTERPRETER: Final = sys.executable
_ANSWER_BYTES: Final = 32
_STDERR: Final = 2


class _Template:
    """The process that they are forked from. It ends when this one does."""

    def __init__(self) -> None:
        self.environment = minimal_environment(os.environ)
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                # The last word is what `ps` is to show of a template: it finds it there.
                [sys.executable, "-P", str(_PROGRAM), str(other.fileno()), "template"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                env={**self.environment, "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
            )
        atexit.register(self._end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(
        self, arguments: Sequence[object], descriptors: Sequence[int], stderr: int, *, is_held: bool
    ) -> ForkedProcess | None:
        """None where there are no such forks."""
        words = [f"2 {' '.join(map(str, descriptors))}", "held" if is_held else "", *map(str, arguments)]
        socket.send_fds(self._socket, ["\0".join(words).encode()], [stderr, *descriptors])
        answer = self._socket.recv(_ANSWER_BYTES)
        assert answer, "the process that decoders are forked from has ended"
        return ForkedProcess(int(answer)) if int(answer) else None

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _template() -> _Template:
    return _Template()


def load() -> None:
    """Starts the process that the others are forked from, if that was not done yet."""
    _template()


def decoder_template_process_id() -> int | None:
    """The process that decoders are forked from, when there is one."""
    return _template().pid if _template.cache_info().currsize else None


def start_decoder(
    arguments: Sequence[object], descriptors: Sequence[int], stderr: int, *, is_held: bool = False
) -> ChildProcess:
    """As `python -m tonearm.worker` with these arguments and descriptors, in a session of its own. Where a
    system does not let a process fork children for another one, it is an interpreter indeed. `is_held`: it does nothing
    before it gets SIGCONT."""
    fork = _template().start(arguments, descriptors, stderr, is_held=is_held)
    return fork or start_alone(arguments, descriptors, stderr)


def start_alone(
    arguments: Sequence[object],
    descriptors: Sequence[int],
    stderr: int,
    interpreter: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> ChildProcess:
    """The same without a fork, by this or another `interpreter`, with more `variables` in its environment."""
    return subprocess.Popen(
        [interpreter or sys.executable, "-m", "tonearm.worker", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=descriptors,
        start_new_session=True,
        env={**os.environ, **(variables or {}), "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
    )


@contextmanager
def quick_starts(held: int = 0) -> Iterator[None]:
    """Whatever starts an interpreter for a decoder process, or for a template, gets a fork meanwhile. The one with the
    number `held`, counted from 1, does nothing before it gets SIGCONT."""
    load()
    numbers = count(1)

    def start(arguments: tuple[object, ...], descriptors: tuple[int, ...]) -> ChildProcess:
        """An interpreter after all when the test has another one, or another environment for it."""
        if (sys.executable, minimal_environment(os.environ)) != (_INTERPRETER, _template().environment):
            return start_interpreter(arguments, descriptors)
        return start_decoder(arguments, descriptors, _STDERR, is_held=next(numbers) == held)

    with pytest.MonkeyPatch.context() as patch:
        for module in (starting, template):
            patch.setattr(module, "start_interpreter", start)
        yield
